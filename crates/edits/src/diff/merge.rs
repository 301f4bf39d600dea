//! A three-way merge of lines: combines what two sides made of one text where they changed different lines.
//!
//! Changes that overlap or touch (no unchanged line between them) and are not equal are conflicts. Nothing is guessed, and
//! no conflict markers are written. The merge of the crate `similar` combines touching changes silently, so it is not used.

use std::ops::Range;

use super::lines::{ChangedRange, changed_ranges};

/// Bytes of the base whose lines both sides changed in different ways.
pub type Conflict = Range<usize>;

/// Merges `ours` and `theirs`, which were both made from `base`.
pub fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, Vec<Conflict>> {
    let (our, their) = (changed_ranges(base, ours), changed_ranges(base, theirs));
    let (mut our, mut their) = (our.as_slice(), their.as_slice());
    let mut text = Vec::with_capacity(theirs.len());
    let mut conflicts = Vec::new();
    let mut done = 0;
    while let Some(start) = next_start(our, their) {
        let mut end = start;
        let (our_count, their_count) = loop {
            let (a, b) = (count_until(our, end), count_until(their, end));
            let far = our[..a].iter().chain(&their[..b]).map(|range| range.old.end).max();
            match far {
                Some(far) if far > end => end = far,
                _ => break (a, b),
            }
        };
        text.extend_from_slice(&base[done..start]);
        let range = start..end;
        let our_text = changed_text(ours, &our[..our_count], &range);
        let their_text = changed_text(theirs, &their[..their_count], &range);
        match (our_text, their_text) {
            (Some(our), Some(their)) if our != their => conflicts.push(range),
            (Some(changed), _) | (None, Some(changed)) => text.extend_from_slice(changed),
            (None, None) => {}
        }
        done = end;
        (our, their) = (&our[our_count..], &their[their_count..]);
    }
    text.extend_from_slice(&base[done..]);
    if conflicts.is_empty() { Ok(text) } else { Err(conflicts) }
}

/// Returns where the next change of either side begins in the base.
fn next_start(our: &[ChangedRange], their: &[ChangedRange]) -> Option<usize> {
    [our.first(), their.first()].into_iter().flatten().map(|range| range.old.start).min()
}

/// Counts the changes that begin at `end` or before.
fn count_until(ranges: &[ChangedRange], end: usize) -> usize {
    ranges.iter().take_while(|range| range.old.start <= end).count()
}

/// Returns what a side made of a range of the base; `None` if it changed nothing there.
fn changed_text<'a>(
    text: &'a [u8],
    changes: &[ChangedRange],
    range: &Range<usize>,
) -> Option<&'a [u8]> {
    let (first, last) = (changes.first()?, changes.last()?);
    let start = first.new.start - (first.old.start - range.start);
    text.get(start..last.new.end + (range.end - last.old.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expect: Result<&str, &[(usize, usize)]>) {
        let merged = merge_lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        match (merged, expect) {
            (Ok(merged), Ok(expect)) => {
                assert_eq!(String::from_utf8(merged).unwrap(), expect);
            }
            (Err(conflicts), Err(expect)) => {
                let got: Vec<_> = conflicts.iter().map(|range| (range.start, range.end)).collect();
                assert_eq!(got, expect);
            }
            (merged, _) => panic!("{merged:?}"),
        }
    }

    #[test]
    fn sides_that_do_not_touch_are_put_together() {
        check("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", Ok("A\nb\nC\n"));
        check("a\nb\nc\n", "a\nb\nc\n", "x\na\nc\n", Ok("x\na\nc\n"));
        check("a\nb\nc", "a\nb\nc", "a\nb\nc\n", Ok("a\nb\nc\n"));
        check("", "", "x\n", Ok("x\n"));
    }

    #[test]
    fn the_same_change_on_both_sides_is_one() {
        check("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", Ok("a\nX\nc\n"));
        check("a\n", "a\nb\n", "a\nb\n", Ok("a\nb\n"));
    }

    #[test]
    fn what_both_changed_otherwise_is_a_conflict() {
        check("a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n", Err(&[(2, 4)]));
        check("a\nb\nc\n", "X\nb\nc\n", "a\nY\nc\n", Err(&[(0, 4)]));
        check("a\n", "a\nb\n", "a\nc\n", Err(&[(2, 2)]));
        check("a\nb\nc\nd\n", "x\nb\ny\nd\n", "v\nb\nw\nd\n", Err(&[(0, 2), (4, 6)]));
    }

    /// Lines that are edited by number: so two sides can be kept apart.
    fn edit(base: &[String], edits: &[usize], word: &str) -> Vec<u8> {
        let mut lines = base.to_vec();
        for at in edits {
            lines[*at] = format!("{word} {at}\n");
        }
        lines.concat().into_bytes()
    }

    proptest! {
        #[test]
        fn disjoint_edits_combine(ours in prop::collection::vec(0usize..30, 0..6), theirs in prop::collection::vec(0usize..30, 0..6)) {
            let base: Vec<String> = (0..120).map(|n| format!("line {n}\n")).collect();
            let ours: Vec<usize> = ours.iter().map(|n| n * 4).collect();
            let theirs: Vec<usize> = theirs.iter().map(|n| n * 4 + 2).collect();
            let base_text = base.concat().into_bytes();
            let (our, their) = (edit(&base, &ours, "ours"), edit(&base, &theirs, "theirs"));
            let merged = merge_lines(&base_text, &our, &their).unwrap();
            let both: Vec<String> = String::from_utf8(our.clone()).unwrap().split_inclusive('\n').map(str::to_owned).collect();
            prop_assert_eq!(&merged, &edit(&both, &theirs, "theirs"));
            // Either way round, and once more with what came out.
            prop_assert_eq!(&merge_lines(&base_text, &their, &our).unwrap(), &merged);
            prop_assert_eq!(&merge_lines(&base_text, &merged, &their).unwrap(), &merged);
        }

        #[test]
        fn one_side_alone_wins(base in "[ab\n]{0,30}", other in "[ab\n]{0,30}") {
            let (base, other) = (base.as_bytes(), other.as_bytes());
            prop_assert_eq!(merge_lines(base, base, other).unwrap(), other);
            prop_assert_eq!(merge_lines(base, other, base).unwrap(), other);
            prop_assert_eq!(merge_lines(base, other, other).unwrap(), other);
        }
    }
}
