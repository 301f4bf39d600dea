//! Pairs the lines of a search with those of its replacement; unpaired lines are removed or new.
//!
//! A line that both have gets the highest weight, one that differs only in indentation nearly as much, a blank line
//! little, since it could be any other. So text that the edit indents is still matched line by line.

use super::lines::{Line, is_blank, without_blanks};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// Maximum number of cells of the table; for larger texts, only equal lines count.
const MOST_CELLS: usize = 400_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The same line, byte for byte.
    Same { old: usize, new: usize },
    /// The same line, except for blanks at its start and end.
    Like { old: usize, new: usize },
    /// Removed lines and new lines; one of the two may be empty.
    Other { old: Range<usize>, new: Range<usize> },
}

/// Returns the steps from a search to its replacement, and how much the two share. Among blank lines, the line `wanted`
/// of the search is preferred.
pub(super) fn align(
    search: &[Line],
    replace: &[Line],
    wanted: Option<usize>,
) -> (Vec<Step>, usize) {
    let head = search.iter().zip(replace).take_while(|(s, r)| s.text == r.text).count();
    let most = search.len().min(replace.len()) - head;
    let back = search.iter().rev().zip(replace.iter().rev());
    let tail = back.take(most).take_while(|(s, r)| s.text == r.text).count();
    let (s, r) = (&search[head..search.len() - tail], &replace[head..replace.len() - tail]);
    let inner = if s.len().saturating_mul(r.len()) > MOST_CELLS {
        by_equal_lines(s, r)
    } else {
        by_weight(s, r, wanted.and_then(|wanted| wanted.checked_sub(head)))
    };
    let mut pairs: Vec<(usize, usize)> = (0..head).map(|i| (i, i)).collect();
    pairs.extend(inner.into_iter().map(|(i, j)| (i + head, j + head)));
    pairs.extend((0..tail).rev().map(|k| (search.len() - 1 - k, replace.len() - 1 - k)));
    let weights = |(i, j): &(usize, usize)| {
        let (s, r) = (search[*i].text, replace[*j].text);
        weight(s == r, is_blank(s)) + usize::from(wanted == Some(*i))
    };
    let score = pairs.iter().map(weights).sum();
    (steps(search, replace, &pairs), score)
}

fn weight(same: bool, blank: bool) -> usize {
    match (same, blank) {
        (_, true) => 10,
        (true, false) => 40,
        (false, false) => 30,
    }
}

fn steps(search: &[Line], replace: &[Line], pairs: &[(usize, usize)]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(pairs.len());
    let (mut i, mut j) = (0, 0);
    for &(old, new) in pairs.iter().chain([&(search.len(), replace.len())]) {
        if i < old || j < new {
            steps.push(Step::Other { old: i..old, new: j..new });
        }
        if old < search.len() {
            let same = search[old].text == replace[new].text;
            steps.push(if same { Step::Same { old, new } } else { Step::Like { old, new } });
        }
        (i, j) = (old + 1, new + 1);
    }
    steps
}

fn by_equal_lines(search: &[Line], replace: &[Line]) -> Vec<(usize, usize)> {
    let old: Vec<&str> = search.iter().map(|line| line.text).collect();
    let new: Vec<&str> = replace.iter().map(|line| line.text).collect();
    let mut pairs = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            pairs.extend((0..len).map(|k| (old_index + k, new_index + k)));
        }
    }
    pairs
}

/// Returns the pairs, in order, with the greatest total weight.
fn by_weight<'t>(
    search: &[Line<'t>],
    replace: &[Line<'t>],
    wanted: Option<usize>,
) -> Vec<(usize, usize)> {
    let keys = |lines: &[Line<'t>]| -> Vec<_> {
        let key = |line: &Line<'t>| (line.text, without_blanks(line.text), is_blank(line.text));
        lines.iter().map(key).collect()
    };
    let (s, r) = (keys(search), keys(replace));
    let worth = |i: usize, j: usize| -> usize {
        let ((text, core, blank), (other, other_core, _)) = (s[i], r[j]);
        let bonus = usize::from(wanted == Some(i));
        if text == other {
            weight(true, blank) + bonus
        } else if core == other_core {
            weight(false, blank) + bonus
        } else {
            0
        }
    };
    let wide = r.len() + 1;
    let mut best = vec![0_usize; (s.len() + 1) * wide];
    for i in (0..s.len()).rev() {
        for j in (0..r.len()).rev() {
            let without = best[(i + 1) * wide + j].max(best[i * wide + j + 1]);
            let worth = worth(i, j);
            let with = if worth > 0 { worth + best[(i + 1) * wide + j + 1] } else { 0 };
            best[i * wide + j] = with.max(without);
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < s.len() && j < r.len() {
        let here = best[i * wide + j];
        let worth = worth(i, j);
        if worth > 0 && here == worth + best[(i + 1) * wide + j + 1] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if here == best[(i + 1) * wide + j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
