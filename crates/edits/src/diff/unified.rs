//! Writes a unified diff that `git apply` and `patch -p1` accept.
//!
//! ```text
//! --- a/NAME            NAME as git writes it: in "…" with \ooo if it has control characters, " or \,
//! +++ b/NAME            followed by a tab where it holds a space
//! @@ -L[,N] +L[,N] @@   first line and number of lines, old and new; the line before where N is 0
//!  context              up to three lines around each change; changes with at most six lines between share a hunk
//! -old
//! +new
//! \ No newline at end of file
//! ```
//! Lines end at a line feed and nowhere else: CR, form feed and bytes that are not UTF-8 are kept. [`super::lines`]
//! finds the changed lines.

use std::ops::Range;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// A diff of one file, built from changes in the order of their lines.
#[derive(Debug)]
pub struct UnifiedDiff {
    text: Vec<u8>,
    hunk: Option<OpenHunk>,
    /// The difference of the numbers of new and old lines in all finished hunks.
    delta: i64,
}

/// The hunk that may still be extended.
#[derive(Debug, Default)]
struct OpenHunk {
    line: u64,
    old: u64,
    new: u64,
    body: Vec<u8>,
    /// Up to three lines after its last change.
    after: Vec<u8>,
    /// The line after its last change.
    end: u64,
}

impl UnifiedDiff {
    /// Begins the diff of a file with this name.
    pub fn new(name: &[u8]) -> Self {
        let new_line = [b"+++ ", &format_name("b/", name)[..], b"\n"].concat();
        let text = [Self::first_line(name), new_line].concat();
        Self { text, hunk: None, delta: 0 }
    }

    /// Returns the first line of a diff of this file.
    pub fn first_line(name: &[u8]) -> Vec<u8> {
        [b"--- ", &format_name("a/", name)[..], b"\n"].concat()
    }

    /// Adds a change that comes after all others: `new` replaces a part of `old`, both of whole lines except at the end of
    /// a file. `line` is the first replaced line, from 0; where lines are only added, the line before which they are.
    pub fn add_change(&mut self, line: u64, old: &[u8], part: Range<usize>, new: &[u8]) {
        let (before, after) = (&old[..part.start], &old[part.end..]);
        let gap = |hunk: &OpenHunk| usize::try_from(line.saturating_sub(hunk.end));
        let hunk = match self.hunk.take() {
            Some(mut hunk) if gap(&hunk).is_ok_and(|gap| gap <= 2 * CONTEXT) => {
                let gap = gap(&hunk).unwrap_or_default();
                let after = std::mem::take(&mut hunk.after);
                hunk.push_context(first_lines(&after, gap.min(CONTEXT)));
                hunk.push_context(last_lines(before, gap.saturating_sub(CONTEXT)));
                self.hunk.insert(hunk)
            }
            other => {
                self.hunk = other;
                self.close_hunk();
                let mut hunk = OpenHunk::default();
                hunk.push_context(last_lines(before, CONTEXT));
                hunk.line = line.saturating_sub(hunk.old);
                self.hunk.insert(hunk)
            }
        };
        let gone = push_lines(&mut hunk.body, b'-', &old[part]);
        hunk.old += gone;
        hunk.new += push_lines(&mut hunk.body, b'+', new);
        hunk.end = line + gone;
        hunk.after = first_lines(after, CONTEXT).to_vec();
    }

    /// Returns the whole text; `None` if no change was added.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        self.hunk.as_ref()?;
        self.close_hunk();
        Some(self.text)
    }

    fn close_hunk(&mut self) {
        let Some(mut hunk) = self.hunk.take() else { return };
        let after = std::mem::take(&mut hunk.after);
        hunk.push_context(&after);
        let new_line = hunk.line.saturating_add_signed(self.delta);
        let head = format!(
            "@@ -{} +{} @@\n",
            format_range(hunk.line, hunk.old),
            format_range(new_line, hunk.new)
        );
        self.text.extend_from_slice(head.as_bytes());
        self.text.append(&mut hunk.body);
        self.delta = self.delta.saturating_add_unsigned(hunk.new).saturating_sub_unsigned(hunk.old);
    }
}

impl OpenHunk {
    fn push_context(&mut self, lines: &[u8]) {
        let count = push_lines(&mut self.body, b' ', lines);
        self.old += count;
        self.new += count;
    }
}

/// Formats `first,count` as diff does: a count of 1 is omitted, and with a count of 0 the line is the one before.
fn format_range(line: u64, count: u64) -> String {
    match count {
        0 => format!("{line},0"),
        1 => (line + 1).to_string(),
        _ => format!("{},{count}", line + 1),
    }
}

/// Writes lines with a mark before each, and returns their number.
fn push_lines(body: &mut Vec<u8>, mark: u8, lines: &[u8]) -> u64 {
    let mut count = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        body.push(mark);
        body.extend_from_slice(line);
        if line.last() != Some(&b'\n') {
            body.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
        count += 1;
    }
    count
}

/// Returns the first `n` lines, or all if there are fewer.
pub fn first_lines(text: &[u8], n: usize) -> &[u8] {
    let length = text.split_inclusive(|byte| *byte == b'\n').take(n).map(<[u8]>::len).sum();
    text.get(..length).unwrap_or_default()
}

/// Returns the last `n` lines, or all if there are fewer.
pub fn last_lines(text: &[u8], n: usize) -> &[u8] {
    let mut start = text.len();
    for _ in 0..n {
        let Some(before) = start.checked_sub(1) else { break };
        start = text[..before].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    }
    text.get(start..).unwrap_or_default()
}

/// The bytes that git escapes with a letter, and the letters.
pub(super) const ESCAPES: [&[u8; 9]; 2] = [b"\x07\x08\t\n\x0b\x0c\r\"\\", b"abtnvfr\"\\"];

/// Formats a name with its prefix, quoted as git does with `core.quotePath` off. A tab ends a name that contains a
/// space.
pub(super) fn format_name(side: &str, name: &[u8]) -> Vec<u8> {
    // A whole path has no side: it would read `b//tmp/x`.
    let side = if name.starts_with(b"/") { "" } else { side };
    let mut text = side.as_bytes().to_vec();
    for byte in name {
        match ESCAPES[0].iter().position(|escaped| escaped == byte) {
            Some(at) => text.extend([b'\\', ESCAPES[1][at]]),
            None if byte.is_ascii_control() => text.extend(format!("\\{byte:03o}").bytes()),
            None => text.push(*byte),
        }
    }
    if text.len() > side.len() + name.len() {
        text = [b"\"", &text[..], b"\""].concat();
    }
    if name.contains(&b' ') {
        text.push(b'\t');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The diff of changes given as (first line, lines that go, lines that come) of `old`.
    fn diff(name: &str, old: &str, changes: &[(usize, usize, &str)]) -> String {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let start = |line: usize| lines[..line].iter().map(|line| line.len()).sum::<usize>();
        let mut diff = UnifiedDiff::new(name.as_bytes());
        for (line, gone, new) in changes {
            let (from, to) = (start(*line), start(line + gone));
            diff.add_change(*line as u64, old.as_bytes(), from..to, new.as_bytes());
        }
        String::from_utf8(diff.finish().unwrap_or_default()).unwrap()
    }

    #[track_caller]
    fn check(old: &str, changes: &[(usize, usize, &str)], expect: &str) {
        let text = diff("f", old, changes);
        assert_eq!(text.strip_prefix("--- a/f\n+++ b/f\n").unwrap_or(&text), expect);
    }

    const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

    #[test]
    fn hunks_have_three_lines_of_context() {
        check(TEN, &[], "");
        check(TEN, &[(4, 1, "x\n")], "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
        check(TEN, &[(0, 0, "0\n")], "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n");
        check(TEN, &[(9, 1, "")], "@@ -7,4 +7,3 @@\n 7\n 8\n 9\n-10\n");
        check("", &[(0, 0, "a\n")], "@@ -0,0 +1 @@\n+a\n");
        check("a\n", &[(0, 1, "")], "@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn changes_with_at_most_six_lines_between_share_a_hunk() {
        check(
            TEN,
            &[(0, 1, "x\n"), (7, 1, "y\nz\n")],
            "@@ -1,10 +1,11 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n+z\n 9\n 10\n",
        );
        check(
            TEN,
            &[(0, 1, ""), (8, 1, "y\n")],
            "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -6,5 +5,5 @@\n 6\n 7\n 8\n-9\n+y\n 10\n",
        );
        check(
            TEN,
            &[(1, 1, "x\n"), (2, 1, "y\n")],
            "@@ -1,6 +1,6 @@\n 1\n-2\n+x\n-3\n+y\n 4\n 5\n 6\n",
        );
    }

    #[test]
    fn lines_end_at_line_feeds_alone() {
        check(
            "a\r\nb\x0cc\rd",
            &[(1, 1, "e")],
            "@@ -1,2 +1,2 @@\n a\r\n-b\x0cc\rd\n\\ No newline at end of file\n+e\n\\ No newline at end of file\n",
        );
        check("a", &[(0, 1, "a\n")], "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        let check = |name: &str, expect: &str| {
            let text = diff(name, "", &[(0, 0, "a\n")]);
            assert_eq!(text.lines().next().unwrap(), expect);
        };
        check("src/a.rs", "--- a/src/a.rs");
        check("a b", "--- a/a b\t");
        check("ü", "--- a/ü");
        check("a\tb\"\\\x01 c", "--- \"a/a\\tb\\\"\\\\\\001 c\"\t");
    }
}
