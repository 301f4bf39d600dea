//! Unified diffs of whole contents: as bytes for `git apply` and `patch -p1`, and as text of limited length for people.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::lines::{changed_ranges, count_line_feeds};
use super::unified::{UnifiedDiff, first_lines, format_name};

/// Maximum size of a [`DiffText`], in bytes.
pub const LONGEST: usize = 1 << 20;
/// Maximum size of the compared contents, in bytes, both together.
pub(crate) const COMPARED: usize = 16 << 20;
/// A NUL in this many bytes at the start means binary, as in git.
const HEAD: usize = 8000;

/// A diff for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffText {
    /// The diff. Bytes that are not UTF-8 become U+FFFD.
    pub text: String,
    /// Whether it was longer than [`LONGEST`] and was cut.
    pub is_cut: bool,
}

/// Returns the name of a file in a diff: its path below the top of its repository, or its file name outside of one.
pub fn diff_name(path: &Path, toplevel: Option<&Path>) -> Vec<u8> {
    let name = toplevel.and_then(|top| path.strip_prefix(top).ok().map(Path::to_owned));
    let name = name.unwrap_or_else(|| PathBuf::from(path.file_name().unwrap_or_default()));
    name.as_os_str().as_bytes().to_vec()
}

/// Returns the unified diff of two texts; `None` if they are equal.
pub fn unified_diff(name: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut diff = UnifiedDiff::new(name);
    add_part(&mut diff, old, 0..old.len(), new, 0);
    diff.finish()
}

/// Adds the difference between `old[part]`, whole lines of which the first is `first_line`, from 0, and `new`.
pub fn add_part(
    diff: &mut UnifiedDiff,
    old: &[u8],
    part: Range<usize>,
    new: &[u8],
    first_line: u64,
) {
    let (mut line, mut counted) = (first_line, part.start);
    for range in changed_ranges(&old[part.clone()], new) {
        let (from, to) = (part.start + range.old.start, part.start + range.old.end);
        line += count_line_feeds(&old[counted..from]);
        counted = from;
        diff.add_change(line, old, from..to, &new[range.new]);
    }
}

/// Compares the old content of a file with the new one; `None` means that there is no file. Returns `None` if both are
/// equal.
pub fn diff_contents(name: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> Option<DiffText> {
    if old == new {
        return None;
    }
    let (from, to) = (old.unwrap_or_default(), new.unwrap_or_default());
    let whole = |text| Some(DiffText { text, is_cut: false });
    let header_name = |side: &str, content: Option<&[u8]>| {
        let name = content.map_or_else(|| b"/dev/null".to_vec(), |_| format_name(side, name));
        String::from_utf8_lossy(&name).into_owned()
    };
    let (old_name, new_name) = (header_name("a/", old), header_name("b/", new));
    let is_binary = |bytes: &[u8]| bytes[..bytes.len().min(HEAD)].contains(&0);
    if is_binary(from) || is_binary(to) {
        return whole(format!("Binary files {old_name} and {new_name} differ\n"));
    }
    if from.len().saturating_add(to.len()) > COMPARED {
        let text =
            format!("Files {old_name} and {new_name} differ, and are too large to compare\n");
        return whole(text);
    }
    let mut text = format!("--- {old_name}\n+++ {new_name}\n");
    // The diff of an empty file that was created or removed is empty.
    let diff = unified_diff(name, from, to).unwrap_or_default();
    let body = &diff[first_lines(&diff, 2).len()..];
    let is_cut = body.len() > LONGEST;
    let shown = if is_cut {
        let end = memchr::memrchr(b'\n', &body[..LONGEST]).map_or(0, |end| end + 1);
        &body[..end]
    } else {
        body
    };
    text.push_str(&String::from_utf8_lossy(shown));
    Some(DiffText { text, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: Option<&str>, new: Option<&str>) -> Option<DiffText> {
        diff_contents(b"d/a.txt", old.map(str::as_bytes), new.map(str::as_bytes))
    }

    #[track_caller]
    fn check(old: Option<&str>, new: Option<&str>, expect: &str) {
        assert_eq!(diff(old, new).unwrap().text, expect);
    }

    #[test]
    fn texts_that_come_change_and_go() {
        let heads = "--- a/d/a.txt\n+++ b/d/a.txt\n";
        check(
            Some("one\ntwo\n"),
            Some("one\n2\n3\n"),
            &format!("{heads}@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n"),
        );
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
        let one = diff(None, Some(&"x".repeat(LONGEST + 1))).unwrap();
        assert!(one.is_cut);
        let large = "y\n".repeat(COMPARED / 2 + 1);
        assert!(diff(None, Some(&large)).unwrap().text.contains("too large to compare"));
    }
}
