//! A three-way merge of lines: what two sides made of one text, put together where they did not touch the same lines.
//!
//! Pure, on bytes. Changes that overlap or touch (no line between them) and are not equal are a conflict; nothing is
//! guessed, and no marks are written into a text.

use std::ops::Range;

use super::difference::{Region, regions};

/// Both sides in one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The text.
    pub text: Vec<u8>,
    /// Where the segments of our side end in it, in bytes.
    pub ends: Vec<usize>,
}

/// Lines of the base that both sides changed, each in its own way, as bytes of the base.
pub type Conflict = Range<usize>;

/// Merges. `ends` are the ends of the segments in `ours`, in order, the last one its length.
///
/// A line that came from their side where a segment ends belongs to the next one.
///
/// # Errors
/// All conflicts, in order.
pub fn merge(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    ends: &[usize],
) -> Result<Merged, Vec<Conflict>> {
    let (our, their) = (regions(base, ours), regions(base, theirs));
    let (mut our, mut their) = (our.as_slice(), their.as_slice());
    let mut out =
        Out { text: Vec::with_capacity(theirs.len()), at: 0, ends: Vec::new(), left: ends };
    let mut conflicts = Vec::new();
    let mut done = 0;
    while let Some(start) = first(our, their) {
        let mut end = start;
        let (our_group, their_group) = loop {
            let (a, b) = (reach(our, end), reach(their, end));
            let far = our[..a].iter().chain(&their[..b]).map(|region| region.old.end).max();
            match far {
                Some(far) if far > end => end = far,
                _ => break (a, b),
            }
        };
        out.common(&base[done..start]);
        let (a, b) = (&our[..our_group], &their[..their_group]);
        let range = start..end;
        match (side(ours, a, &range), side(theirs, b, &range)) {
            (Some(our), Some(their)) if our != their => conflicts.push(range),
            (Some(our), _) => out.common(our),
            (None, Some(their)) => out.theirs(end - start, their),
            (None, None) => {}
        }
        done = end;
        (our, their) = (&our[our_group..], &their[their_group..]);
    }
    out.common(&base[done..]);
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let last = out.text.len();
    out.ends.resize(ends.len(), last);
    // What they added behind all of our text belongs to the last segment.
    if let Some(end) = out.ends.last_mut() {
        *end = last;
    }
    Ok(Merged { text: out.text, ends: out.ends })
}

/// Where the next change of either side begins.
fn first(our: &[Region], their: &[Region]) -> Option<usize> {
    [our.first(), their.first()].into_iter().flatten().map(|region| region.old.start).min()
}

/// How many changes begin at a place or before it.
fn reach(regions: &[Region], end: usize) -> usize {
    regions.iter().take_while(|region| region.old.start <= end).count()
}

/// What a side made of a range of the base, when it changed it.
fn side<'a>(text: &'a [u8], group: &[Region], range: &Range<usize>) -> Option<&'a [u8]> {
    let (first, last) = (group.first()?, group.last()?);
    let start = first.new.start - (first.old.start - range.start);
    text.get(start..last.new.end + (range.end - last.old.end))
}

/// The merged text as it grows, beside our own.
struct Out<'a> {
    text: Vec<u8>,
    /// How much of our text has been passed.
    at: usize,
    ends: Vec<usize>,
    left: &'a [usize],
}

impl Out<'_> {
    /// Text that our side has too.
    fn common(&mut self, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        self.pass(self.at + text.len(), |within| start + within);
    }

    /// Text of theirs in place of so many bytes of ours.
    fn theirs(&mut self, instead: usize, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        let end = self.text.len();
        // A segment that ends within what they replaced ends before it; one that ends with it, behind it.
        self.pass(self.at + instead, |within| if within < instead { start } else { end });
    }

    /// Goes on to a place in our text. Ends of segments up to there are placed; one that was placed stays.
    fn pass(&mut self, to: usize, place: impl Fn(usize) -> usize) {
        while let Some((end, left)) = self.left.split_first()
            && *end <= to
        {
            self.ends.push(place(end.saturating_sub(self.at)));
            self.left = left;
        }
        self.at = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expect: Result<&str, &[(usize, usize)]>) {
        let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), &[ours.len()]);
        match (merged, expect) {
            (Ok(merged), Ok(expect)) => {
                assert_eq!(String::from_utf8(merged.text).unwrap(), expect);
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

    #[test]
    fn segments_keep_their_places() {
        let ends = |ours: &str, theirs: &str, ends: &[usize]| {
            merge(b"a\nb\nc\nd\n", ours.as_bytes(), theirs.as_bytes(), ends).unwrap().ends
        };
        assert_eq!(ends("a\nb\nc\nd\n", "a\nb\nc\nd\n", &[2, 4, 8]), [2, 4, 8]);
        assert_eq!(ends("AAA\nb\nc\nd\n", "a\nb\nc\nd\ne\n", &[4, 6, 10]), [4, 6, 12]);
        assert_eq!(ends("a\nb\nc\nd\n", "a\nb\nnew\nc\nd\n", &[2, 4, 8]), [2, 4, 12]);
        assert_eq!(ends("a\nb\nc\nd\n", "", &[2, 4, 8]), [0, 0, 0]);
        assert_eq!(ends("b\nc\nd\n", "a\nb\nc\nD\n", &[0, 0, 6]), [0, 0, 6]);
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
            let merged = merge(&base_text, &our, &their, &[our.len()]).unwrap();
            let both: Vec<String> = String::from_utf8(our.clone()).unwrap().split_inclusive('\n').map(str::to_owned).collect();
            prop_assert_eq!(&merged.text, &edit(&both, &theirs, "theirs"));
            // Either way round, and once more with what came out.
            prop_assert_eq!(&merge(&base_text, &their, &our, &[their.len()]).unwrap().text, &merged.text);
            prop_assert_eq!(&merge(&base_text, &merged.text, &their, &[merged.text.len()]).unwrap().text, &merged.text);
        }

        #[test]
        fn one_side_alone_wins(base in "[ab\n]{0,30}", other in "[ab\n]{0,30}", cut in 0usize..31) {
            let (base, other) = (base.as_bytes(), other.as_bytes());
            let cut = cut.min(base.len());
            let merged = merge(base, base, other, &[cut, base.len()]).unwrap();
            prop_assert_eq!(&merged.text, other);
            prop_assert!(merged.ends[0] <= merged.ends[1] && merged.ends[1] == other.len());
            prop_assert_eq!(merge(base, other, base, &[other.len()]).unwrap().text, other);
            prop_assert_eq!(merge(base, other, other, &[other.len()]).unwrap().text, other);
        }
    }
}
