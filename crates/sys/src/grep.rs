//! Searches lines in files by a regular expression, for a model.
//!
//! It leaves out the same files and has the same order as [`super::list_dir`]. The search is line by line, like that of
//! grep: no match spans lines. This module does not know the tags.

use super::file_error::FileError;
use super::list_dir::{
    self, Matcher, SearchResult, Skipped, check_type, describe_left_out, entry_path, last_line,
};
use super::read::{count_lines, open_resolved};
use conversation::format::harmless::quote_name;
use conversation::limits;
use regex::bytes::{Regex, RegexBuilder};
use std::io::Read;
use std::path::Path;

const MAX_REGEX_BYTES: usize = 1 << 20;
const MATCH_BYTES: usize = 256 * 1024;
/// Number of bytes to search between two checks for a stop.
const PIECE: usize = 1 << 20;

/// A search.
#[derive(Debug, Clone, Copy)]
pub struct Pattern<'a> {
    /// The regular expression.
    pub regex: &'a str,
    /// Whether upper and lower case count as the same.
    pub ignore_case: bool,
    /// Number of lines shown before and after each match.
    pub context: usize,
}

/// Finds lines that match a regular expression in the files below `asked` or in that file, and shows them as `rg --heading`
/// does: the path on a line of its own, unless `asked` is a file, `line:text`, `line-text` for the lines around them, and
/// `--` between groups. In a line that is cut, further matches are counted.
///
/// `only` is a glob that the paths must match. Binary files and files over 64 MiB are left out. A line is shown
/// with 300 characters around its match. At most 500 lines and 256 KiB are shown, all are counted.
pub fn search_lines(
    place: list_dir::SearchScope<'_>,
    pattern: &Pattern<'_>,
    asked: &Path,
    only: Option<&str>,
) -> Result<SearchResult, FileError> {
    let root = place.root;
    let kind = check_type(asked, root)?;
    let (regex, by_line) = compile(pattern.regex, pattern.ignore_case)?;
    let mut search = LineSearch {
        regex,
        by_line,
        context: pattern.context,
        found: SearchResult::default(),
        files: 0,
        searched: 0,
        buffer: Vec::new(),
        stop: place.stop,
        binary: 0,
        large: Skipped::default(),
        unreadable: Skipped::default(),
    };
    if !kind.is_dir() {
        open_resolved(root)?;
        search.search_file(root, None);
        return Ok(search.finish());
    }
    let matcher = only.map(|only| Matcher::new(root, only)).transpose()?;
    let (stopped, left_out) = place.visit_entries(&mut |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return search.unreadable.add_name(|| error.to_string()),
        };
        let path = entry.path();
        let is_meant = |matcher: &Matcher| matcher.matches(path, false);
        if entry.file_type().is_some_and(|kind| kind.is_file())
            && matcher.as_ref().is_none_or(is_meant)
        {
            search.search_file(path, Some(&entry_path(asked, root, path)));
        }
    });
    search.found.stopped |= stopped;
    search.found.notes.extend(describe_left_out(&left_out));
    Ok(search.finish())
}

/// Compiles the expression for a line, and if there can be one, an expression for many lines.
fn compile(pattern: &str, ignore_case: bool) -> Result<(Regex, Option<Regex>), FileError> {
    let build = |by_line| {
        RegexBuilder::new(pattern)
            .multi_line(by_line)
            .case_insensitive(ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build()
    };
    let regex = build(false).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => FileError::new(
            format!("the pattern is too large a regular expression (over {MAX_REGEX_BYTES} bytes compiled)"),
            "make its counted repetitions smaller",
        ),
        error => FileError::new(
            format!("the pattern is not a valid regular expression: {}", last_line(&error.to_string())),
            "a plain ( [ { . * + ? | ^ $ \\ is written with a backslash before it, and there are no look-arounds and no \
             backreferences",
        ),
    })?;
    // These mean the ends of the searched text, or can make ^ and $ do so.
    let is_for_whole = ["\\A", "\\z", "-"].iter().any(|text| pattern.contains(text));
    Ok((regex, if is_for_whole { None } else { build(true).ok() }))
}

struct LineSearch<'a> {
    regex: Regex,
    /// The expression with ^ and $ at each line: it skips a piece of many lines without a match at once.
    by_line: Option<Regex>,
    context: usize,
    found: SearchResult,
    files: u64,
    searched: u64,
    buffer: Vec<u8>,
    stop: &'a dyn Fn() -> bool,
    binary: u64,
    large: Skipped,
    unreadable: Skipped,
}

impl LineSearch<'_> {
    fn finish(self) -> SearchResult {
        let Self { mut found, files, searched, binary, large, unreadable, .. } = self;
        found.note_rest(&format!("matching lines not shown, in {files} files in all; use a narrower pattern, path or glob"));
        if found.total == 0 {
            found.notes.push(format!(
                "no match in {searched} files; ignored files (.gitignore) were skipped"
            ));
        }
        if binary > 0 {
            found.notes.push(format!("{binary} binary files not searched"));
        }
        large.add_note(&mut found, "skipped: over 64 MiB; use `grep` in <nagent-shell>");
        unreadable.add_note(&mut found, "could not be read");
        found
    }

    /// Searches a file, which is shown by this name.
    fn search_file(&mut self, path: &Path, name: Option<&Path>) {
        match read_into(path, &mut self.buffer) {
            Err(error) => return self.unreadable.add_name(|| error),
            Ok(false) => return self.large.add_name(|| quote_name(name.unwrap_or(path))),
            Ok(true) => {}
        }
        if self.buffer.contains(&0) {
            self.binary += 1;
            return;
        }
        self.searched += 1;
        let before = self.found.total;
        let mut hits: Vec<(usize, String)> = Vec::new();
        let mut shown_bytes = self.found.body.len();
        let mut number = 0;
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            if number > 0 && (self.stop)() {
                self.found.stopped = true;
                break;
            }
            let (piece, tail) = rest.split_at(piece_end(rest));
            rest = tail;
            // A match within a line is also one of the whole piece, except where a line ends in CR LF: the CR is not part of the line.
            let has_none = |regex: &Regex| !piece.contains(&b'\r') && !regex.is_match(piece);
            if self.by_line.as_ref().is_some_and(has_none) {
                number += count_lines(piece);
                continue;
            }
            // Line by line, since an expression for the whole could match across lines.
            for line in piece.strip_suffix(b"\n").unwrap_or(piece).split(|byte| *byte == b'\n') {
                number += 1;
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let Some(found) = self.regex.find(line) else { continue };
                self.found.total += 1;
                let so_far = self.found.shown + hits.len() as u64;
                if so_far < limits::GREP_MATCHES && shown_bytes < MATCH_BYTES {
                    let mut text = excerpt(line, found.start(), found.end());
                    let more = self.regex.find_iter(line).count() - 1;
                    self.found.more_in_lines += more as u64;
                    if more > 0 && text.len() < line.len() {
                        text.push_str(&format!(" ({more} more in this line)"));
                    }
                    shown_bytes += text.len();
                    hits.push((usize::try_from(number).unwrap_or(usize::MAX), text));
                }
            }
        }
        if let Some(name) = name.filter(|_| !hits.is_empty()) {
            let gap = if self.found.body.is_empty() { "" } else { "\n" };
            self.found.body.push_str(&format!("{gap}{}\n", quote_name(name)));
        }
        show_hits(&mut self.found, &hits, &self.buffer, self.context);
        self.files += u64::from(self.found.total > before);
    }
}

/// Adds the matching lines of a file with the lines around them.
fn show_hits(found: &mut SearchResult, hits: &[(usize, String)], bytes: &[u8], context: usize) {
    if context == 0 {
        for (number, text) in hits {
            found.push_line(&format!("{number}:{text}"));
        }
        return;
    }
    let lines: Vec<&[u8]> =
        bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|b| *b == b'\n').collect();
    // The number of the last line that was shown.
    let mut last = 0;
    for (index, (number, text)) in hits.iter().enumerate() {
        let around = |number: usize| {
            let line = lines[number - 1];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            format!("{number}-{}\n", excerpt(line, 0, 0))
        };
        let from = number.saturating_sub(context).max(last + 1);
        if last > 0 && from > last + 1 {
            found.body.push_str("--\n");
        }
        (from..*number).for_each(|line| found.body.push_str(&around(line)));
        found.push_line(&format!("{number}:{text}"));
        let next = hits.get(index + 1).map_or(usize::MAX, |(next, _)| *next);
        last = number.saturating_add(context).min(next - 1).min(lines.len());
        (number + 1..=last).for_each(|line| found.body.push_str(&around(line)));
    }
}

/// Finds the end of a piece of about a megabyte: after a line feed, or at the end.
fn piece_end(bytes: &[u8]) -> usize {
    if bytes.len() <= PIECE {
        return bytes.len();
    }
    let (head, tail) = bytes.split_at(PIECE);
    memchr::memrchr(b'\n', head)
        .or_else(|| memchr::memchr(b'\n', tail).map(|index| PIECE + index))
        .map_or(bytes.len(), |index| index + 1)
}

/// Reads a file into the buffer; false when it is too large.
fn read_into(path: &Path, buffer: &mut Vec<u8>) -> Result<bool, String> {
    buffer.clear();
    let (file, meta) = open_resolved(path).map_err(|error| error.to_string())?;
    if meta.len() > limits::GREP_FILE {
        return Ok(false);
    }
    let count = file
        .take(limits::GREP_FILE + 1)
        .read_to_end(buffer)
        .map_err(|error| format!("{}: {error}", quote_name(path)))?;
    Ok(count as u64 <= limits::GREP_FILE)
}

/// The line, or 300 characters of it around the match, with `…` for the parts that are left out.
fn excerpt(line: &[u8], start: usize, end: usize) -> String {
    // A character has at most four bytes, so that this part of the line is enough.
    let from = start.saturating_sub(limits::GREP_LINE * 4);
    let to = line.len().min(end.min(start + limits::GREP_LINE * 4) + limits::GREP_LINE * 4);
    let head = String::from_utf8_lossy(&line[char_start(line, from)..start]);
    let tail = String::from_utf8_lossy(&line[start..char_start(line, to)]);
    let (before, after) = (head.chars().count(), tail.chars().count());
    let whole = from == 0 && to == line.len();
    if whole && before + after <= limits::GREP_LINE {
        return format!("{head}{tail}");
    }
    // A third of the width is before the match, more where the line ends soon after it.
    let lead = before.min((limits::GREP_LINE / 3).max(limits::GREP_LINE.saturating_sub(after)));
    let rest = after.min(limits::GREP_LINE - lead);
    let mut text = String::new();
    if from > 0 || lead < before {
        text.push('…');
    }
    text.extend(head.chars().skip(before - lead));
    text.extend(tail.chars().take(rest));
    if to < line.len() || rest < after {
        text.push('…');
    }
    text
}

/// The first byte at or after `at` that does not continue a character.
fn char_start(line: &[u8], at: usize) -> usize {
    (at..line.len()).take(4).find(|index| line[*index] & 0xc0 != 0x80).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::super::list_dir::tests::{GO_ON, globbed, search, tree};
    use super::super::list_dir::{find_by_glob, list_dir};
    use super::*;
    use std::cell::Cell;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn plain(regex: &str) -> Pattern<'_> {
        Pattern { regex, ignore_case: false, context: 0 }
    }

    #[test]
    fn lines_around_are_shown_as_grep_shows_them() {
        let dir = tree(&[("a", "1\n2\nX\n4\n5\nx\n7\n8\n9\n10\nx"), ("b", "x\n")]);
        let pattern = Pattern { regex: "x", ignore_case: true, context: 1 };
        let found = search_lines(search(&dir, GO_ON), &pattern, Path::new("."), None).unwrap();
        let expect = "a\n2-2\n3:X\n4-4\n5-5\n6:x\n7-7\n--\n10-10\n11:x\n\nb\n1:x\n";
        assert_eq!((found.body.as_str(), found.shown), (expect, 4));
    }

    #[test]
    fn further_matches_in_a_line_that_is_cut_are_counted() {
        let long = format!("{0}word{0}word{0}word", "x".repeat(400));
        let dir = tree(&[("a", &long), ("b", "word word")]);
        let body = grepped(&dir, "word", ".", None).body;
        assert!(body.contains("… (2 more in this line)\n\nb\n1:word word\n"), "{body}");
    }

    fn grepped(dir: &TempDir, pattern: &str, path: &str, only: Option<&str>) -> SearchResult {
        let root = &dir.path().join(path);
        let search = list_dir::SearchScope { root, ..search(dir, GO_ON) };
        search_lines(search, &plain(pattern), Path::new(path), only).unwrap()
    }

    #[test]
    fn grep_shows_path_line_and_text_in_the_order_of_paths() {
        let dir = tree(&[
            ("b.txt", "one\r\ntwo\n"),
            ("a/z.txt", "x\n\none more"),
            ("a.txt", "none\n"),
            ("n.rs", "one"),
        ]);
        let found = grepped(&dir, "^one", ".", Some("*.txt"));
        assert_eq!(found.body, "a/z.txt\n3:one more\n\nb.txt\n1:one\n");
        assert_eq!(found.total, 2);
        assert_eq!(grepped(&dir, "two$", ".", None).body, "b.txt\n2:two\n");
        assert_eq!(grepped(&dir, "one$", "b.txt", None).body, "1:one\n");
        assert_eq!(grepped(&dir, "(?i)ONE$", "n.rs", None).body, "1:one\n");
        assert_eq!(grepped(&dir, "^$", ".", None).body, "a/z.txt\n2:\n");
        assert_eq!(
            grepped(&dir, r"o\s*t", ".", None).to_text(),
            "(no match in 4 files; ignored files (.gitignore) were skipped)\n"
        );
    }

    #[test]
    fn grep_leaves_out_binary_and_huge_files_and_links_and_says_so() {
        let dir = tree(&[("bin", "word\0"), ("text", "word")]);
        fs::File::create(dir.path().join("huge")).unwrap().set_len(limits::GREP_FILE + 1).unwrap();
        symlink("text", dir.path().join("link")).unwrap();
        let found = grepped(&dir, "word", ".", None);
        assert_eq!(found.body, "text\n1:word\n");
        assert_eq!(found.notes.len(), 2);
        assert!(found.to_text().contains("1 binary files not searched"));
        assert!(found.to_text().contains("over 64 MiB; use `grep` in <nagent-shell>: huge"));
    }

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let check = |line: &str, chars: usize, starts: &str, ends: &str| {
            let at = line.find("WORD").unwrap();
            let text = excerpt(line.as_bytes(), at, at + 4);
            assert!(
                text.contains("WORD") && text.starts_with(starts) && text.ends_with(ends),
                "{text}"
            );
            assert_eq!(text.chars().count(), chars);
        };
        let long = "ä".repeat(5_000);
        check("a WORD b", 8, "a ", " b");
        check(&format!("WORD{long}"), 301, "WORD", "…");
        check(&format!("{long}WORD"), 301, "…", "WORD");
        check(&format!("{long}WORD{long}"), 302, "…", "…");
        check(&format!("{}WORD", "ä".repeat(296)), 300, "ä", "WORD");
        assert_eq!(excerpt(&b"x".repeat(100_000), 0, 100_000).chars().count(), 301);
        assert_eq!(excerpt(b"\xff\xfeWORD\xe4", 2, 6), "\u{fffd}\u{fffd}WORD\u{fffd}");
    }

    #[test]
    fn pieces_do_not_change_what_is_found() {
        let lines: Vec<String> = (1..=200_000).map(|n| format!("line {n}\n")).collect();
        let dir = tree(&[
            ("many", &lines.concat()),
            ("long", &format!("{}\nend\n", "x".repeat(3 << 20))),
        ]);
        assert_eq!(grepped(&dir, "^line 199999$", ".", None).body, "many\n199999:line 199999\n");
        assert_eq!(grepped(&dir, r"\Aline 150000\z", ".", None).body, "many\n150000:line 150000\n");
        assert_eq!(grepped(&dir, "(?-m)^line 1000$", ".", None).body, "many\n1000:line 1000\n");
        assert_eq!(grepped(&dir, "^end$", ".", None).body, "long\n2:end\n");
        assert_eq!(grepped(&dir, "line", "many", None).total, 200_000);
        assert_eq!(grepped(&dir, "^$", ".", None).total, 0);
    }

    #[test]
    fn grep_counts_what_it_does_not_show() {
        let dir = tree(&[("a", &"word\n".repeat(700)), ("b", "word")]);
        let found = grepped(&dir, "word", ".", None);
        assert_eq!((found.shown, found.total), (500, 701));
        assert!(found.to_text().contains("(201 more matching lines not shown, in 2 files in all"));
    }

    #[test]
    fn a_bad_pattern_is_explained() {
        let dir = tree(&[]);
        let check = |pattern: &str, expect: &str| {
            let error = search_lines(search(&dir, GO_ON), &plain(pattern), Path::new("."), None)
                .unwrap_err()
                .for_model();
            assert!(error.contains(expect), "{error}");
        };
        check("fn main(", "unclosed group\na plain (");
        check("(?=x)", "look-around");
        check(r"(\w{1000}){1000}", "too large");
    }

    #[test]
    fn odd_names_are_shown_escaped() {
        let dir = tree(&[]);
        fs::write(dir.path().join(OsStr::from_bytes(b"\xff\x1b[2J")), "word").unwrap();
        assert_eq!(grepped(&dir, "word", ".", None).body, "$'\\377\\033[2J'\n1:word\n");
        assert_eq!(globbed(&dir, "*", "."), "$'\\377\\033[2J' ");
    }

    #[test]
    fn a_stop_ends_it_with_what_there_is() {
        let dir = tree(&[("a", "word"), ("b", "word"), ("c", "word")]);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let found =
            search_lines(search(&dir, &stop), &plain("word"), Path::new("."), None).unwrap();
        assert!(
            found.stopped && found.to_text().contains("a\n1:word\n(interrupted"),
            "{}",
            found.to_text()
        );
        assert!(list_dir(search(&dir, &|| true), Path::new(".")).unwrap().stopped);
        assert!(find_by_glob(search(&dir, &|| true), "*", Path::new(".")).unwrap().stopped);
    }

    #[test]
    fn ignored_files_stay_out_even_where_the_glob_names_them() {
        let dir = tree(&[
            (".gitignore", "*.log\nbuild/\n"),
            ("a.log", "word"),
            ("build/b.txt", "word"),
            ("c.txt", "word"),
        ]);
        assert_eq!(globbed(&dir, "*.log", "."), "");
        assert_eq!(globbed(&dir, "*.txt", "."), "c.txt ");
        assert_eq!(grepped(&dir, "word", ".", None).body, "c.txt\n1:word\n");
        assert_eq!(grepped(&dir, "word", "a.log", None).body, "1:word\n");
    }
}
