//! For a search that is not in the file, finds the most similar lines and describes the difference.

use super::lines::{Line, is_blank, without_blanks};
use super::quote::{MOST_QUOTES, QUOTE, describe_range, quote_inline};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// Maximum number of lines that are compared one by one to describe the difference.
const MOST_COMPARED: usize = 400;
/// Maximum number of lines of a file that are searched for similar lines.
const MOST_SCORED: usize = 200_000;
/// Maximum number of lines of a search that are used.
const MOST_WEIGHED: usize = 60;
/// Lines that are less similar than this, in percent, count as different.
const LEAST_LIKENESS: usize = 30;

/// Finds the lines of the file that are most similar to the search, if any are similar at all.
///
/// The score of each offset is the similarity of the lines that face each other there. The better score of the two
/// neighbouring offsets counts too, since an inserted or missing line moves all lines after it by one.
pub(super) fn nearest(search: &[Line], file: &[Line]) -> Option<Range<usize>> {
    let pairs = |lines: &[Line], most: usize| -> Vec<LetterPairs> {
        lines.iter().take(most).map(|line| LetterPairs::of_line(line.text)).collect()
    };
    let (wanted, there) = (pairs(search, MOST_WEIGHED), pairs(file, MOST_SCORED));
    let score = |start: usize| -> usize {
        // The search may begin before the file: `start` counts from one search length before it.
        let facing = |i: usize| there.get((start + i).checked_sub(wanted.len())?);
        let likeness = |(i, wanted): (usize, &LetterPairs)| {
            let likeness = wanted.similarity(facing(i)?);
            // A long line says more about the place of the search than a short one.
            (likeness >= LEAST_LIKENESS).then_some(likeness * wanted.count.clamp(1, 40) as usize)
        };
        wanted.iter().enumerate().filter_map(likeness).sum()
    };
    let scores: Vec<usize> = (0..wanted.len() + there.len()).map(score).collect();
    let with_neighbour = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| scores.get(at));
        scores[at] + before.max(scores.get(at + 1)).unwrap_or(&0)
    };
    let best = (0..scores.len()).rev().max_by_key(|at| (with_neighbour(*at), scores[*at]))?;
    if scores[best] == 0 {
        return None;
    }
    let start = best.saturating_sub(wanted.len()).min(file.len() - 1);
    let end = (best + search.len()).saturating_sub(wanted.len()).clamp(start + 1, file.len());
    Some(start..end)
}

/// The pairs of lower-case letters of a line, hashed into 512 bits.
struct LetterPairs {
    bits: [u64; 8],
    count: u32,
}

impl LetterPairs {
    fn of_line(line: &str) -> Self {
        let text = without_blanks(line).as_bytes();
        let text = &text[..text.len().min(QUOTE)];
        let mut pairs = Self { bits: [0; 8], count: 0 };
        for pair in text.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|byte| usize::from(byte.to_ascii_lowercase()));
            pairs.set_bit((a.wrapping_mul(31) ^ b.wrapping_mul(193)) % 512);
        }
        // A line of a single character is similar to itself.
        if let [byte] = text {
            pairs.set_bit(usize::from(*byte) % 8 * 64 + usize::from(*byte) % 64);
        }
        pairs
    }

    fn set_bit(&mut self, bit: usize) {
        let (word, bit) = (&mut self.bits[bit / 64], 1 << (bit % 64));
        self.count += u32::from(*word & bit == 0);
        *word |= bit;
    }

    fn similarity(&self, other: &Self) -> usize {
        let shared: u32 =
            self.bits.iter().zip(&other.bits).map(|(a, b)| (a & b).count_ones()).sum();
        (100 * shared / (self.count + other.count - shared).max(1)) as usize
    }
}

/// Describes where a search and the most similar lines of the file differ, and which lines to quote.
pub(super) fn describe_difference(
    search: &[Line],
    file: &[Line],
    window: &Range<usize>,
) -> (String, Range<usize>) {
    let first = search.iter().find(|line| !is_blank(line.text)).map_or("", |line| line.text);
    // If the first lines agree, the lines before them are irrelevant.
    let aligned = without_blanks(first) == without_blanks(file[window.start].text);
    let start = if aligned { window.start } else { window.start.saturating_sub(3) };
    let (mut asked_at, mut asked) = texts(search);
    let (mut there_at, mut there) = texts(&file[start..(window.end + 3).min(file.len())]);
    let all = asked.len();
    let alike = asked.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let skipped = alike.saturating_sub(1);
    for (at, texts) in [(&mut asked_at, &mut asked), (&mut there_at, &mut there)] {
        at.drain(..skipped);
        texts.drain(..skipped);
        texts.truncate(MOST_COMPARED);
    }
    let ops = capture_diff_slices(Algorithm::Myers, &asked, &there);
    let equal = |op: &DiffOp| if let DiffOp::Equal { len, .. } = op { *len } else { 0 };
    let agree = skipped + ops.iter().map(equal).sum::<usize>();
    let parting = ops.iter().enumerate().find(|(i, op)| match op {
        DiffOp::Equal { .. } => false,
        // Lines before and after the compared stretch are not missing in the search.
        DiffOp::Insert { .. } => *i > 0 && *i + 1 < ops.len(),
        _ => true,
    });
    let Some((index, op)) = parting.filter(|_| agree > 0) else {
        let (lines, there, asked) =
            (describe_range(window), quote_inline(file[window.start].text), quote_inline(first));
        let what = format!(
            "the closest match is {lines}, which has `{there}` where the search has `{asked}`"
        );
        return (what, window.clone());
    };
    let (old, new) = (op.old_range(), op.new_range());
    let line = |index: usize| there_at.get(index).map_or(start, |i| start + i);
    // At the start of the stretch, the last of the new lines face the search.
    let facing =
        if index == 0 { new.end.saturating_sub(old.len()).max(new.start) } else { new.start };
    let at = match op {
        DiffOp::Delete { .. } => line(new.start.saturating_sub(1)),
        _ => line(facing),
    };
    let there = quote_inline(file[at].text.trim());
    let number = asked_at.get(old.start).map_or(0, |i| i + 1);
    let asked = quote_inline(asked.get(old.start).unwrap_or(&""));
    let what = match op {
        DiffOp::Insert { .. } => {
            format!("the search leaves out line {} of the file, `{there}`", at + 1)
        }
        DiffOp::Replace { .. } => format!(
            "line {number} of the search, `{asked}`, is `{there}` at line {} of the file",
            at + 1
        ),
        _ => {
            let side = if new.start == 0 { "before" } else { "after" };
            format!(
                "line {number} of the search, `{asked}`, is not in the file {side} line {}",
                at + 1
            )
        }
    };
    let last = ops.iter().rfind(|op| equal(op) > 0).map_or(at, |op| line(op.new_range().end - 1));
    let window = window.start..window.end.max(last + 1);
    let from = if window.len() <= MOST_QUOTES {
        window.start
    } else {
        at.saturating_sub(4).max(window.start)
    };
    (
        format!("{agree} of {all} lines match {}, but {what}", describe_range(&window)),
        from.min(at)..window.end.max(at + 1),
    )
}

/// The lines with text, trimmed, and their indexes.
fn texts<'a>(lines: &[Line<'a>]) -> (Vec<usize>, Vec<&'a str>) {
    let texts = lines.iter().map(|line| without_blanks(line.text)).enumerate();
    texts.filter(|(_, text)| !text.is_empty()).unzip()
}
