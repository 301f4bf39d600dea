//! Finds the lines that differ between two texts, as byte ranges. Lines end at a line feed and nowhere else.

use std::iter;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Lines of one text that became lines of another; one of the two may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRange {
    /// Bytes of the old text.
    pub old: Range<usize>,
    /// Bytes of the new text.
    pub new: Range<usize>,
}

/// Returns the ranges that differ, in order, with at least one equal line between any two.
pub fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<ChangedRange> {
    // The common start and end are compared in blocks: large files mostly change in one place.
    let head = common_head(old, new);
    let tail = common_tail(&old[head..], &new[head..]);
    let old_lines = split_lines(&old[head..old.len() - tail]);
    let new_lines = split_lines(&new[head..new.len() - tail]);
    let (old_ends, new_ends) = (line_ends(&old_lines, head), line_ends(&new_lines, head));
    let mut ranges: Vec<ChangedRange> = Vec::new();
    // This crate's Myers gives up early on large texts, and scatters one edit over many ranges.
    for op in capture_diff_slices(Algorithm::Patience, &old_lines, &new_lines) {
        if let DiffOp::Equal { .. } = op {
            continue;
        }
        let old = old_ends[op.old_range().start]..old_ends[op.old_range().end];
        let new = new_ends[op.new_range().start]..new_ends[op.new_range().end];
        match ranges.last_mut() {
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                (last.old.end, last.new.end) = (old.end, new.end);
            }
            _ => ranges.push(ChangedRange { old, new }),
        }
    }
    ranges
}

/// Counts line feeds.
pub fn count_line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn line_ends(lines: &[&[u8]], start: usize) -> Vec<usize> {
    let ends = lines.iter().scan(start, |at, line| {
        *at += line.len();
        Some(*at)
    });
    iter::once(start).chain(ends).collect()
}

/// Number of bytes that are compared at once.
const BLOCK: usize = 4096;

/// Returns the length of the whole lines with which both texts begin.
fn common_head(old: &[u8], new: &[u8]) -> usize {
    let blocks = old.chunks(BLOCK).zip(new.chunks(BLOCK)).take_while(|(a, b)| a == b);
    let equal: usize = blocks.map(|(block, _)| block.len()).sum();
    let rest = old[equal..].iter().zip(&new[equal..]).take_while(|(a, b)| a == b).count();
    memchr::memrchr(b'\n', &old[..equal + rest]).map_or(0, |at| at + 1)
}

/// Returns the length of the whole lines with which both texts end, perhaps without the first of them.
fn common_tail(old: &[u8], new: &[u8]) -> usize {
    let blocks = old.rchunks(BLOCK).zip(new.rchunks(BLOCK)).take_while(|(a, b)| a == b);
    let equal: usize = blocks.map(|(block, _)| block.len()).sum();
    let pairs = old.iter().rev().zip(new.iter().rev()).skip(equal);
    let equal = equal + pairs.take_while(|(a, b)| a == b).count();
    // The first line of the equal part may be incomplete, and differ before it.
    memchr::memchr(b'\n', &old[old.len() - equal..]).map_or(0, |at| equal - at - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the new text that the ranges produce from the old one.
    fn applied(old: &[u8], new: &[u8], ranges: &[ChangedRange]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut at = 0;
        for range in ranges {
            text.extend_from_slice(&old[at..range.old.start]);
            text.extend_from_slice(&new[range.new.clone()]);
            at = range.old.end;
        }
        text.extend_from_slice(&old[at..]);
        text
    }

    fn check(old: &[u8], new: &[u8]) -> Vec<ChangedRange> {
        let ranges = changed_ranges(old, new);
        assert!(applied(old, new, &ranges) == new);
        let starts_line = |text: &[u8], at: usize| at == 0 || text[at - 1] == b'\n';
        let mut end = None;
        for range in &ranges {
            assert!(!range.old.is_empty() || !range.new.is_empty());
            for (text, range) in [(old, &range.old), (new, &range.new)] {
                assert!(starts_line(text, range.start), "{range:?}");
                assert!(range.end == text.len() || starts_line(text, range.end), "{range:?}");
            }
            assert!(end.is_none_or(|end| end < range.old.start), "{ranges:?}");
            end = Some(range.old.end);
        }
        ranges
    }

    #[test]
    fn whole_lines_that_differ() {
        assert_eq!(check(b"a\nb\nc\n", b"a\nx\nc\n"), [ChangedRange { old: 2..4, new: 2..4 }]);
        assert_eq!(check(b"a\nb", b"a\nb\n"), [ChangedRange { old: 2..3, new: 2..4 }]);
        assert_eq!(check(b"", b"a"), [ChangedRange { old: 0..0, new: 0..1 }]);
        assert_eq!(check(b"x\ny\n", b"x\ny\n"), []);
        assert_eq!(check(b"a\nX", b"X"), [ChangedRange { old: 0..2, new: 0..0 }]);
    }

    #[test]
    fn long_lines_that_end_alike() {
        let long = "x".repeat(2 * BLOCK);
        for same in ["", "\n", "\nb\n"] {
            let old = format!("a\n1{long}{same}");
            let new = format!("a\n2{long}{same}");
            assert_eq!(check(old.as_bytes(), new.as_bytes()).len(), 1);
            check(format!("{old}{old}").as_bytes(), old.as_bytes());
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec!["a", "b", "\n", "\r\n", "c\n", "\n\n", "\x0c", "\r"]);
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
    }

    /// A large text, most of its lines unlike, and edits of it: place, lines that go, lines that come.
    fn edited(repetitive: bool, edits: &[(usize, usize, usize)]) -> (Vec<u8>, Vec<u8>) {
        let line = |n: usize| match (repetitive, n % 5) {
            (true, _) => "same\n".to_owned(),
            (_, 0) => "\n".to_owned(),
            (_, 1) => "}\n".to_owned(),
            _ => format!("line {n}\n"),
        };
        let old: Vec<String> = (0..40_000).map(line).collect();
        let mut new = old.clone();
        for (place, gone, come) in edits.iter().rev() {
            let end = (place + gone).min(new.len());
            new.splice(place.min(&end)..&end, (0..*come).map(|n| format!("new {n} at {place}\n")));
        }
        (old.concat().into_bytes(), new.concat().into_bytes())
    }

    #[test]
    fn in_a_large_text_only_what_was_edited_differs() {
        let edits = [(10, 1, 1), (9_000, 0, 3), (20_000, 700, 2), (30_000, 5, 300), (39_999, 1, 0)];
        let (old, new) = edited(false, &edits);
        assert_eq!(check(&old, &new).len(), edits.len());
        let (old, new) = edited(true, &edits);
        check(&old, &new);
    }

    #[test]
    fn large_texts_that_have_nothing_in_common() {
        let lines = |word: &str, count: usize| {
            (0..count).map(|n| format!("{word} {n}\n")).collect::<String>().into_bytes()
        };
        assert_eq!(check(&lines("a", 300_000), &lines("b", 290_000)).len(), 1);
    }

    #[test]
    fn line_feeds_are_counted() {
        assert_eq!(count_line_feeds(&[b'\n'; 1000]), 1000);
        assert_eq!(count_line_feeds(b"a\nb\r\n\r"), 2);
    }

    proptest! {
        #[test]
        fn regions_turn_the_old_text_into_the_new(old in text(), new in text()) {
            check(&old, &new);
        }
    }
}
