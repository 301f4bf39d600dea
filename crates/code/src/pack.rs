//! Chooses among possible cuts: segments as large as the target allows, cut where the structure is shallowest.
//!
//! Possible cuts go in from left to right; the chosen ones come out at most two segments later, so a file is cut as it
//! streams.

use super::character::{self, Unit};
use super::view::View;

/// A place where a file may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutBoundary {
    /// The offset of the first byte after the cut.
    pub at: u64,
    /// The cost of the cut: see the constants. Smaller is better.
    pub level: u32,
}

/// The base levels of the kinds of cuts; within a kind, deeper cuts have a higher level.
pub mod level {
    /// Between definitions, headings, elements, paragraphs.
    pub(crate) const STRUCTURE: u32 = 0;
    /// At the start of a line, between parts of a node without members.
    pub(crate) const PART: u32 = 1_000;
    /// At the start of a line within a token, or of any line of text.
    pub const LINE: u32 = 2_000;
    /// Within a line, between tokens.
    pub const INLINE: u32 = 3_000;
    /// Within a token, between characters.
    pub(crate) const CHARACTER: u32 = 4_000;
}

/// The size of segments, and the cuts that are always made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutRules {
    /// The largest segment, in bytes, at least 1.
    pub target: u64,
    /// Whether every boundary between definitions, headings, elements or paragraphs is a cut: all below [`level::PART`].
    pub natural: bool,
}

/// Chooses cuts.
#[derive(Debug, Clone)]
pub(crate) struct Packer {
    rules: CutRules,
    unit: Unit,
    /// The start of the segment before the current one, and the level of the cut between the two.
    held: Option<(u64, u32)>,
    /// The start of the current segment.
    start: u64,
    /// Boundaries after `start` that may still be chosen, in order, with rising levels: a boundary before one of the
    /// same or a lower level would never be chosen. So there are at most as many as levels, whatever the file is.
    open: Vec<CutBoundary>,
    /// Final segments, as start and end. The caller takes them out.
    pub settled: Vec<(u64, u64)>,
}

/// Receives possible cuts from a scanner.
pub(super) struct Sink<'a> {
    pub(super) view: View<'a>,
    pub(super) packer: &'a mut Packer,
}

impl Sink<'_> {
    pub(super) fn add_boundary(&mut self, at: u64, level: u32) {
        self.packer.add_boundary(self.view, CutBoundary { at, level });
    }

    /// Reports that there are no more cuts before `end`.
    pub(super) fn advance_to(&mut self, end: u64) {
        self.packer.advance_to(self.view, end);
    }

    /// The start of the segment that is being filled.
    pub(super) fn start(&self) -> u64 {
        self.packer.start
    }
}

impl Packer {
    /// Begins at the start of a file whose characters consist of `unit`.
    pub(crate) fn new(rules: CutRules, unit: Unit) -> Self {
        Self { rules, unit, held: None, start: 0, open: Vec::new(), settled: Vec::new() }
    }

    /// The start of the first segment that is not yet out.
    pub(crate) fn pending(&self) -> u64 {
        self.held.map_or(self.start, |(start, _)| start)
    }

    /// Takes the next possible cut. Offsets must rise strictly; one that does not is ignored. The view must have the
    /// bytes around the place where a segment must be cut although no boundary fits.
    pub(crate) fn add_boundary(&mut self, view: View<'_>, boundary: CutBoundary) {
        let last = self.open.last().map_or(self.start, |last| last.at);
        if boundary.at <= last {
            return;
        }
        self.advance_to(view, boundary.at);
        if self.rules.natural && boundary.level < level::PART {
            self.end_segment(boundary);
        } else if boundary.at > self.start {
            while self.open.last().is_some_and(|last| last.level >= boundary.level) {
                self.open.pop();
            }
            self.open.push(boundary);
        }
    }

    /// Ends the file at `end`.
    pub(crate) fn finish(&mut self, view: View<'_>, end: u64) {
        self.advance_to(view, end);
        if end > self.start {
            self.open.clear();
            self.end_segment(CutBoundary { at: end, level: level::STRUCTURE });
        }
        self.settled.extend(self.held.map(|(start, _)| (start, end)));
    }

    /// Reports that no other boundary comes before `end`, and cuts until the rest before it fits into one segment.
    pub(crate) fn advance_to(&mut self, view: View<'_>, end: u64) {
        while end.saturating_sub(self.start) > self.rules.target {
            let cut = self.best_cut().unwrap_or_else(|| {
                let furthest = self.start.saturating_add(self.rules.target);
                let at = character::find_start(view, self.unit, furthest);
                // Without progress, the same place would be found again and again.
                let at = if at > self.start { at } else { furthest };
                CutBoundary { at, level: level::CHARACTER }
            });
            self.end_segment(cut);
        }
    }

    /// The shallowest boundary that leaves at least a quarter of the target, and of several such the last; else the
    /// last boundary.
    fn best_cut(&self) -> Option<CutBoundary> {
        let least = self.start.saturating_add(self.rules.target.div_ceil(4));
        let good = self.open.iter().filter(|boundary| boundary.at >= least);
        good.min_by_key(|boundary| (boundary.level, u64::MAX - boundary.at))
            .or(self.open.last())
            .copied()
    }

    fn end_segment(&mut self, cut: CutBoundary) {
        let CutRules { target, natural } = self.rules;
        let size = cut.at - self.start;
        match self.held {
            // A small segment joins the one before it if both fit.
            Some((before, between))
                if cut.at - before <= target
                    && !(natural && between < level::PART)
                    && (size < target.div_ceil(4) || self.start - before < target.div_ceil(4)) =>
            {
                self.held = Some((before, cut.level));
            }
            held => {
                self.settled.extend(held.map(|(before, _)| (before, self.start)));
                self.held = Some((self.start, cut.level));
            }
        }
        self.start = cut.at;
        let passed = self.open.iter().take_while(|boundary| boundary.at <= cut.at).count();
        self.open.drain(..passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(rules: CutRules, boundaries: &[(u64, u32)], end: u64) -> Vec<(u64, u64)> {
        let view = View { base: 0, bytes: &[] };
        let mut packer = Packer::new(rules, Unit::Byte);
        for &(at, level) in boundaries {
            packer.add_boundary(view, CutBoundary { at, level });
            assert!(packer.open.is_sorted_by(|a, b| a.at < b.at && a.level < b.level));
        }
        packer.finish(view, end);
        packer.settled
    }

    #[track_caller]
    fn check(boundaries: &[(u64, u32)], end: u64, expect: &[u64]) {
        let got = pack(CutRules { target: 100, natural: false }, boundaries, end);
        let ends: Vec<u64> = got.iter().map(|(_, end)| *end).collect();
        assert_eq!(ends, expect);
    }

    #[test]
    fn what_is_chosen() {
        // All fits.
        check(&[(50, 0)], 100, &[100]);
        // The last of the shallowest, not the last.
        check(&[(40, 0), (60, 0), (90, 1)], 150, &[60, 150]);
        // A shallow one that leaves less than a quarter is not worth it.
        check(&[(20, 0), (90, 1)], 150, &[90, 150]);
        // But it is better than none.
        check(&[(20, 0)], 150, &[20, 120, 150]);
        // A small piece joins the one before it, or the one behind it.
        check(&[(80, 0), (100, 0), (180, 0)], 180, &[100, 180]);
        check(&[(95, 0), (110, 0), (120, 0)], 290, &[95, 120, 220, 290]);
        // Nothing at all.
        check(&[], 0, &[]);
        check(&[], 250, &[100, 200, 250]);
    }

    #[test]
    fn natural_cuts_at_all_of_the_structure() {
        let got =
            pack(CutRules { target: 100, natural: true }, &[(5, 0), (6, level::PART), (9, 1)], 130);
        assert_eq!(got, [(0, 5), (5, 9), (9, 109), (109, 130)]);
    }

    #[test]
    fn the_largest_target_is_no_overflow() {
        let got = pack(CutRules { target: u64::MAX, natural: false }, &[(5, 0), (9, 2)], 130);
        assert_eq!(got, [(0, 130)]);
    }

    proptest! {
        #[test]
        fn segments_cover_the_file_are_no_larger_than_the_target_and_small_ones_are_joined(
            steps in prop::collection::vec((1u64..60, 0u32..6), 0..80),
            rest in 0u64..200,
            target in 16u64..120,
        ) {
            let mut end = 0;
            let boundaries: Vec<_> = steps.iter().map(|&(step, level)| { end += step; (end, level) }).collect();
            end += rest;
            let got = pack(CutRules { target, natural: false }, &boundaries, end);
            let mut at = 0;
            for &(a, b) in &got {
                prop_assert!(a == at && b > a && b - a <= target);
                at = b;
            }
            prop_assert_eq!(at, end);
            for pair in got.windows(2) {
                let sizes = [pair[0].1 - pair[0].0, pair[1].1 - pair[1].0];
                prop_assert!(
                    sizes[0] + sizes[1] > target || sizes.iter().all(|size| *size >= target.div_ceil(4)),
                    "{:?}", pair
                );
            }
        }
    }
}
