//! Selects among the cuts that a tree offers, so that no stretch between two is larger than the target: always those
//! between members, others where needed. It does not choose segments ([`crate::pack`] does).

use std::cell::OnceCell;

use tree_sitter::Node;

use super::walk::{CandidateCuts, Cut, Piece};
use crate::kinds::{Role, role_of, visit_nodes};
use crate::pack::level;

pub(super) struct Settle<'a> {
    pub(super) piece: Piece<'a>,
    /// The language has elements instead of definitions.
    pub(super) is_data: bool,
    pub(super) root: Node<'a>,
    /// The outermost definitions that fit, in order; computed only when needed.
    pub(super) whole: OnceCell<Vec<(usize, usize)>>,
}

impl Settle<'_> {
    /// Returns the selected cuts, with as many of the spare ones and of the lines as needed.
    pub(super) fn choose_cuts(&self, mut found: CandidateCuts) -> Vec<Cut> {
        let in_order = |list: &mut Vec<Cut>| {
            list.sort_unstable_by_key(|cut| (cut.at, cut.level));
            list.dedup_by_key(|cut| cut.at);
        };
        in_order(&mut found.main);
        in_order(&mut found.spare);
        found.atoms.sort_unstable();
        let mut settled = Vec::with_capacity(found.main.len());
        let mut before = 0;
        let end = Cut { at: self.piece.bytes.len(), level: level::STRUCTURE };
        for cut in found.main.iter().chain([&end]) {
            if cut.at - before > self.piece.target {
                let from = found.spare.partition_point(|spare| spare.at <= before);
                let to = found.spare.partition_point(|spare| spare.at < cut.at);
                self.fill_between(
                    before,
                    cut.at,
                    &found.spare[from..to],
                    &found.atoms,
                    &mut settled,
                );
            }
            if cut.at < self.piece.bytes.len() {
                settled.push(*cut);
            }
            before = cut.at;
        }
        settled
    }

    /// Adds the shallowest spare cuts, then deeper ones where needed, then lines and cuts within lines.
    fn fill_between(
        &self,
        from: usize,
        to: usize,
        spare: &[Cut],
        atoms: &[(usize, usize)],
        settled: &mut Vec<Cut>,
    ) {
        if to - from <= self.piece.target {
            return;
        }
        let level = spare.iter().map(|cut| cut.level).min();
        let Some(level) = level.filter(|level| *level < level::LINE) else {
            let first = settled.len();
            self.lines(from, to, atoms, settled);
            settled.extend(spare);
            settled[first..].sort_unstable_by_key(|cut| cut.at);
            return;
        };
        let (mut before, mut rest) = (from, spare);
        while let Some(number) = rest.iter().position(|cut| cut.level == level) {
            let at = rest[number].at;
            self.fill_between(before, at, &rest[..number], atoms, settled);
            settled.push(rest[number]);
            (before, rest) = (at, &rest[number + 1..]);
        }
        self.fill_between(before, to, rest, atoms, settled);
    }

    /// Adds the starts of lines, but not within a definition or element that fits; within other nodes that fit they get
    /// a higher level.
    fn lines(&self, from: usize, to: usize, atoms: &[(usize, usize)], settled: &mut Vec<Cut>) {
        let mut at = from;
        while let Some(found) = self.piece.bytes[at..to].iter().position(|byte| *byte == b'\n') {
            at += found + 1;
            if at >= to {
                break;
            }
            if !is_inside_range(atoms, at) {
                settled.push(Cut { at, level: level::LINE });
            } else if !self.is_data
                && !is_inside_range(self.whole.get_or_init(|| self.whole_ranges()), at)
            {
                settled.push(Cut { at, level: level::LINE + 1 });
            }
        }
    }

    fn whole_ranges(&self) -> Vec<(usize, usize)> {
        let mut whole = Vec::new();
        visit_nodes(self.root, |node| {
            let fits = node.end_byte() - node.start_byte() <= self.piece.target
                && node.is_named()
                && role_of(self.piece.roles, node).includes(Role::DEFINITION);
            if fits {
                let place = |at: usize| at.saturating_sub(self.piece.shift);
                whole.push((place(node.start_byte()), place(node.end_byte())));
            }
            !fits
        });
        whole
    }
}

/// Whether a place is strictly within one of the ranges, which are in order and do not overlap.
fn is_inside_range(ranges: &[(usize, usize)], at: usize) -> bool {
    let before = ranges.partition_point(|(start, _)| *start < at);
    before.checked_sub(1).is_some_and(|before| at < ranges[before].1)
}
