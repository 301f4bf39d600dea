//! Which lines differ between two texts, as byte ranges. Pure, on bytes; lines end at a line feed and nowhere else.
//!
//! Small texts go to Myers' algorithm whole. In large ones equal stretches are passed over at the speed of a comparison,
//! and only windows around what differs are looked into, so that the cost follows the edit. The result is right in any
//! case, and nearly the shortest one.

use std::collections::HashMap;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Bytes of a text that stand against bytes of another; both are whole lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// What it was.
    pub old: Range<usize>,
    /// What it became.
    pub new: Range<usize>,
}

/// Lines up to which two texts are compared in one go.
const AT_ONCE: usize = 1 << 14;
/// Lines of the first window behind a difference; each further one is four times as large.
const WINDOW: usize = 1 << 6;
/// Lines of the last window.
const LAST_WINDOW: usize = 1 << 18;
/// Equal lines in a row that end a difference.
const ANCHOR: usize = 8;

/// The regions that differ, in order, with at least one equal line between two of them.
pub fn regions(old: &[u8], new: &[u8]) -> Vec<Region> {
    let mut found = Found(Vec::new());
    let tail = common_tail(old, new);
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let (mut at_old, mut at_new) = (0, 0);
    loop {
        let equal = common_head(&old[at_old..], &new[at_new..]);
        (at_old, at_new) = (at_old + equal, at_new + equal);
        let (rest_old, rest_new) = (&old[at_old..], &new[at_new..]);
        if rest_old.is_empty() && rest_new.is_empty() {
            return found.0;
        }
        let (step_old, step_new) = difference(rest_old, rest_new);
        found.compare(&rest_old[..step_old], &rest_new[..step_new], at_old, at_new);
        (at_old, at_new) = (at_old + step_old, at_new + step_new);
    }
}

/// The number of line feeds.
pub fn line_feeds(bytes: &[u8]) -> u64 {
    // Sums of bytes stay in bytes as long as they fit, which the compiler turns into wide instructions.
    let sums = bytes.chunks(255).map(|chunk| {
        u64::from(chunk.iter().fold(0u8, |sum, byte| sum.wrapping_add(u8::from(*byte == b'\n'))))
    });
    sums.sum()
}

struct Found(Vec<Region>);

impl Found {
    /// Compares two stretches line by line; they stand at these places of the whole.
    fn compare(&mut self, old: &[u8], new: &[u8], at_old: usize, at_new: usize) {
        let (old_lines, new_lines) = (lines(old, usize::MAX), lines(new, usize::MAX));
        let (old_ends, new_ends) = (ends(&old_lines, at_old), ends(&new_lines, at_new));
        for op in capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines) {
            if let DiffOp::Equal { .. } = op {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            self.push(Region {
                old: old_ends[old.start]..old_ends[old.end],
                new: new_ends[new.start]..new_ends[new.end],
            });
        }
    }

    fn push(&mut self, region: Region) {
        match self.0.last_mut() {
            Some(last) if last.old.end == region.old.start && last.new.end == region.new.start => {
                last.old.end = region.old.end;
                last.new.end = region.new.end;
            }
            _ => self.0.push(region),
        }
    }
}

/// How far the difference at the start of two texts goes: the bytes before an anchor, which is some lines in a row that
/// are equal.
fn difference(old: &[u8], new: &[u8]) -> (usize, usize) {
    let whole = (old.len(), new.len());
    let mut window = WINDOW;
    loop {
        let (old_lines, new_lines) = (lines(old, window), lines(new, window));
        let is_all = |lines: &[&[u8]], text: &[u8]| {
            lines.len() < window || lines.iter().map(|line| line.len()).sum::<usize>() == text.len()
        };
        let is_whole = is_all(&old_lines, old) && is_all(&new_lines, new);
        if is_whole && window <= AT_ONCE {
            return whole;
        }
        if let Some((i, j)) = anchor(&old_lines, &new_lines) {
            let length = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
            return (length(&old_lines[..i]), length(&new_lines[..j]));
        }
        if is_whole {
            return whole;
        }
        if window >= LAST_WINDOW {
            let length = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
            return (length(&old_lines), length(&new_lines));
        }
        window *= 4;
    }
}

/// The nearest place from which on enough lines are equal, by lines that occur once in the old window.
fn anchor(old: &[&[u8]], new: &[&[u8]]) -> Option<(usize, usize)> {
    let mut places: HashMap<&[u8], Option<usize>> = HashMap::with_capacity(old.len());
    for (at, line) in old.iter().enumerate() {
        places.entry(line).and_modify(|place| *place = None).or_insert(Some(at));
    }
    let mut best: Option<(usize, usize)> = None;
    for (j, line) in new.iter().enumerate() {
        if best.is_some_and(|(i, best)| j >= i + best) {
            break;
        }
        let Some(Some(i)) = places.get(line).copied() else { continue };
        // From a line that is there once, back over equal ones, and forward.
        let pairs = old[..i].iter().rev().zip(new[..j].iter().rev());
        let back = pairs.take_while(|(a, b)| a == b).count();
        let on = old[i..].iter().zip(&new[j..]).take_while(|(a, b)| a == b).count();
        let (i, j) = (i - back, j - back);
        if back + on >= ANCHOR && best.is_none_or(|(a, b)| i + j < a + b) {
            best = Some((i, j));
        }
    }
    // Equal at once is no step forward: the caller has passed over what is.
    best.filter(|place| *place != (0, 0))
}

fn lines(text: &[u8], most: usize) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').take(most).collect()
}

/// Where the lines begin, and where the last one ends.
fn ends(lines: &[&[u8]], start: usize) -> Vec<usize> {
    let mut ends = vec![start];
    ends.extend(lines.iter().scan(start, |at, line| {
        *at += line.len();
        Some(*at)
    }));
    ends
}

/// The length of the whole lines that both texts begin with.
fn common_head(old: &[u8], new: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let shorter = old.len().min(new.len());
    let blocks = old.chunks(BLOCK).zip(new.chunks(BLOCK)).take_while(|(a, b)| a == b).count();
    let mut equal = (blocks * BLOCK).min(shorter);
    equal += old[equal..].iter().zip(&new[equal..]).take_while(|(a, b)| a == b).count();
    if equal == old.len() && equal == new.len() {
        return equal;
    }
    old[..equal].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// The length of the whole lines that both texts end with, so that as many bytes are left before them in both as make
/// whole lines.
fn common_tail(old: &[u8], new: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let shorter = old.len().min(new.len());
    let mut equal = 0;
    while equal + BLOCK <= shorter
        && old[old.len() - equal - BLOCK..old.len() - equal]
            == new[new.len() - equal - BLOCK..new.len() - equal]
    {
        equal += BLOCK;
    }
    let pairs = old[..old.len() - equal].iter().rev().zip(new[..new.len() - equal].iter().rev());
    equal += pairs.take_while(|(a, b)| a == b).count();
    let starts_line = |text: &[u8], at: usize| at == 0 || text[at - 1] == b'\n';
    if starts_line(old, old.len() - equal) && starts_line(new, new.len() - equal) {
        return equal;
    }
    let tail = &old[old.len() - equal..];
    tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| equal - at - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the regions say that the old text became.
    fn applied(old: &[u8], new: &[u8], regions: &[Region]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut at = 0;
        for region in regions {
            text.extend_from_slice(&old[at..region.old.start]);
            text.extend_from_slice(&new[region.new.clone()]);
            at = region.old.end;
        }
        text.extend_from_slice(&old[at..]);
        text
    }

    fn check(old: &[u8], new: &[u8]) -> Vec<Region> {
        let regions = regions(old, new);
        assert!(applied(old, new, &regions) == new);
        let starts_line = |text: &[u8], at: usize| at == 0 || text[at - 1] == b'\n';
        let mut end = None;
        for region in &regions {
            assert!(!region.old.is_empty() || !region.new.is_empty());
            for (text, range) in [(old, &region.old), (new, &region.new)] {
                assert!(starts_line(text, range.start), "{region:?}");
                assert!(range.end == text.len() || starts_line(text, range.end), "{region:?}");
            }
            assert!(end.is_none_or(|end| end < region.old.start), "{regions:?}");
            end = Some(region.old.end);
        }
        regions
    }

    #[test]
    fn whole_lines_that_differ() {
        assert_eq!(check(b"a\nb\nc\n", b"a\nx\nc\n"), [Region { old: 2..4, new: 2..4 }]);
        assert_eq!(check(b"a\nb", b"a\nb\n"), [Region { old: 2..3, new: 2..4 }]);
        assert_eq!(check(b"", b"a"), [Region { old: 0..0, new: 0..1 }]);
        assert_eq!(check(b"x\ny\n", b"x\ny\n"), []);
        assert_eq!(check(b"a\nX", b"X"), [Region { old: 0..2, new: 0..0 }]);
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
        assert_eq!(line_feeds(&[b'\n'; 1000]), 1000);
        assert_eq!(line_feeds(b"a\nb\r\n\r"), 2);
    }

    proptest! {
        #[test]
        fn regions_turn_the_old_text_into_the_new(old in text(), new in text()) {
            check(&old, &new);
        }
    }
}
