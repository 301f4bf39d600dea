//! The diff of one content of a file against another, as a text: unified where both are text, a word where one is not.
//! Its length is bounded. It reads no content; only the top of the repository is looked up, for the file's name.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::difference::{Region, line_feeds, regions};
use crate::format::unified::{CONTEXT, Change, Diff, first_lines, last_lines};
use crate::sys::git;

/// The longest diff that is given, in bytes.
pub const LONGEST: usize = 1 << 20;
/// The largest contents that are compared, in bytes, both together.
pub const COMPARED: usize = 16 << 20;
/// The bytes of a content's head in which a NUL means that it is no text, as git has it.
const HEAD: usize = 8000;

/// A diff for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffText {
    /// Its lines, each with its line feed. Bytes that are no UTF-8 show as U+FFFD.
    pub text: String,
    /// It was longer than [`LONGEST`] and ends early.
    pub is_cut: bool,
    /// Lines that went; `None` where that was not counted.
    pub removed: Option<u64>,
    /// Lines that came.
    pub added: Option<u64>,
}

/// The name of a file in a diff: from the top of its repository on, or its own.
pub fn tree_name(path: &Path) -> Vec<u8> {
    let top = path.parent().and_then(git::toplevel);
    let name = top.and_then(|top| path.strip_prefix(top).ok().map(Path::to_owned));
    let name = name.unwrap_or_else(|| PathBuf::from(path.file_name().unwrap_or_default()));
    name.as_os_str().as_bytes().to_vec()
}

/// The unified diff of one text against another; nothing where they are the same.
pub fn of_texts(name: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    of_regions(name, old, new, &regions(old, new))
}

/// The same for some of what differs.
pub fn of_regions(name: &[u8], old: &[u8], new: &[u8], regions: &[Region]) -> Option<Vec<u8>> {
    let mut diff = Diff::new(name);
    add_regions(&mut diff, old, 0, new, regions, 0);
    diff.finish()
}

/// The diff of what a file held against what it holds; `None` stands for no file. Nothing where both are alike.
pub fn diff_text(name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Option<DiffText> {
    if old == new {
        return None;
    }
    let (from, to) = (old.unwrap_or_default(), new.unwrap_or_default());
    let plain = |text| Some(DiffText { text, is_cut: false, removed: None, added: None });
    let (head, mut rest) = heads(name, old.is_some(), new.is_some());
    let is_binary = |bytes: &[u8]| bytes[..bytes.len().min(HEAD)].contains(&0);
    if is_binary(from) || is_binary(to) {
        return plain(format!("Binary files {head} and {rest} differ\n"));
    }
    if from.len().saturating_add(to.len()) > COMPARED {
        return plain(format!("Files {head} and {rest} differ, and are too large to compare\n"));
    }
    rest.push('\n');
    let Some(diff) = of_texts(name, from, to) else {
        // An empty file came or went.
        let text = format!("--- {head}\n+++ {rest}");
        return Some(DiffText { text, is_cut: false, removed: Some(0), added: Some(0) });
    };
    let body = &diff[first_lines(&diff, 2).len()..];
    let mark = |mark: u8| {
        let lines = body.split(|byte| *byte == b'\n');
        lines.filter(|line| line.first() == Some(&mark)).count() as u64
    };
    let (removed, added) = (Some(mark(b'-')), Some(mark(b'+')));
    let mut text = format!("--- {head}\n+++ {rest}");
    let is_cut = body.len() > LONGEST;
    let whole = &body[..body.len().min(LONGEST)];
    // No line is cut: the last one goes.
    let end = if is_cut { whole.iter().rposition(|byte| *byte == b'\n') } else { None };
    let shown = end.map_or(if is_cut { &[][..] } else { whole }, |end| &whole[..=end]);
    text.push_str(&String::from_utf8_lossy(shown));
    Some(DiffText { text, is_cut, removed, added })
}

/// What stands behind `--- ` and `+++ `.
fn heads(name: &[u8], is_old: bool, is_new: bool) -> (String, String) {
    let both = Diff::heads(name);
    let both = String::from_utf8_lossy(&both).into_owned();
    let mut lines = both.lines().map(|line| line.get(4..).unwrap_or_default().to_owned());
    let mut side = |is_there: bool| {
        let line = lines.next().unwrap_or_default();
        if is_there { line } else { "/dev/null".to_owned() }
    };
    (side(is_old), side(is_new))
}

/// Adds what differs between a part of `old`, which begins at `start`, and `new`. `old` begins with the line of this
/// number, from 0.
pub(super) fn add(
    diff: &mut Diff,
    old: &[u8],
    start: usize,
    part: &[u8],
    new: &[u8],
    first_line: u64,
) {
    add_regions(diff, old, start, new, &regions(part, new), first_line);
}

fn add_regions(
    diff: &mut Diff,
    old: &[u8],
    start: usize,
    new: &[u8],
    regions: &[Region],
    first_line: u64,
) {
    let (mut line, mut counted) = (first_line, 0);
    for region in regions {
        let (from, to) = (start + region.old.start, start + region.old.end);
        line += line_feeds(&old[counted..from]);
        counted = from;
        diff.add(&Change {
            line,
            before: last_lines(&old[..from], CONTEXT),
            old: &old[from..to],
            new: &new[region.new.clone()],
            after: first_lines(&old[to..], CONTEXT),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: Option<&str>, new: Option<&str>) -> Option<DiffText> {
        diff_text(b"d/a.txt", old.map(str::as_bytes), new.map(str::as_bytes))
    }

    #[track_caller]
    fn check(old: Option<&str>, new: Option<&str>, expect: &str) -> DiffText {
        let diff = diff(old, new).unwrap();
        assert_eq!(diff.text, expect);
        diff
    }

    #[test]
    fn texts_that_come_change_and_go() {
        let heads = "--- a/d/a.txt\n+++ b/d/a.txt\n";
        let changed = check(
            Some("one\ntwo\n"),
            Some("one\n2\n3\n"),
            &format!("{heads}@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n"),
        );
        assert_eq!((changed.removed, changed.added), (Some(1), Some(2)));
        check(
            None,
            Some("x"),
            "--- /dev/null\n+++ b/d/a.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
        );
        check(Some("x\n"), None, "--- a/d/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
        check(None, Some(""), "--- /dev/null\n+++ b/d/a.txt\n");
        assert_eq!(diff(Some("x"), Some("x")), None);
        assert_eq!(diff(None, None), None);
    }

    #[test]
    fn what_is_no_text_or_too_much_of_it_is_said() {
        check(Some("a\0b"), Some("c"), "Binary files a/d/a.txt and b/d/a.txt differ\n");
        check(None, Some("a\0b"), "Binary files /dev/null and b/d/a.txt differ\n");
        let line = format!("{}\n", "x".repeat(99));
        let cut = diff(None, Some(&line.repeat(20_000))).unwrap();
        assert!(cut.is_cut && cut.text.len() <= LONGEST + 100 && cut.text.ends_with('\n'));
        assert_eq!(cut.added, Some(20_000));
        let one = diff(None, Some(&"x".repeat(LONGEST + 1))).unwrap();
        assert!(one.is_cut);
        let large = "y\n".repeat(COMPARED / 2 + 1);
        assert!(diff(None, Some(&large)).unwrap().text.contains("too large to compare"));
    }
}
