//! Where a block stands in a file. It decides nothing about what is written there.
//!
//! Readings are tried from the strictest to the laxest; the first that finds any place decides, and finding two there is for the
//! caller to refuse. In each of them every line of the search that holds text must be there, in order, with no other
//! such line between: what a reading may overlook is blanks, line ends and the shape of quotes, never a word.

use super::How;
use super::indent::{Shift, shift};
use super::lines::{Line, core, indent, is_blank, plain, trim_end};
use std::ops::Range;

/// More places than these are not listed.
const MOST_PLACES: usize = 1000;

/// Lines of the file that a search means.
#[derive(Debug)]
pub(super) struct Place {
    pub lines: Range<usize>,
    /// For each line of the search, its line in the file; none for a blank line that the file lacks.
    pub map: Vec<Option<usize>>,
    /// A blank line of the file that the search lacks: before which line of the search, and which line of the file.
    pub gap: Option<(usize, usize)>,
    pub how: How,
    pub shift: Shift,
}

/// Blanks of a line that a reading overlooks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blanks {
    None,
    AtEnd,
    /// At the end, and at the start if all lines are one shift apart.
    Around,
}

#[derive(Clone, Copy)]
struct Reading {
    blanks: Blanks,
    quotes: bool,
    blank_lines: bool,
}

const READINGS: [Reading; 8] = {
    const fn reading(blanks: Blanks, quotes: bool, blank_lines: bool) -> Reading {
        Reading { blanks, quotes, blank_lines }
    }
    [
        reading(Blanks::None, false, false),
        reading(Blanks::AtEnd, false, false),
        reading(Blanks::Around, false, false),
        reading(Blanks::AtEnd, true, false),
        reading(Blanks::Around, true, false),
        reading(Blanks::AtEnd, false, true),
        reading(Blanks::Around, false, true),
        reading(Blanks::Around, true, true),
    ]
};

/// All places of a search, in the strictest reading that has any. The search holds text.
pub(super) fn find(search: &[Line], file: &[Line]) -> Vec<Place> {
    let mut texts: Option<[Vec<usize>; 2]> = None;
    for reading in READINGS {
        let places = if reading.blank_lines {
            let [s, f] = texts.get_or_insert_with(|| [with_text(search), with_text(file)]);
            runs(
                s.len(),
                f.len(),
                |i, j| reading.same(search[s[i]].text, file[f[j]].text),
                |i| core(search[s[i]].text).len(),
            )
            .filter_map(|at| spread(search, file, s, &f[at..at + s.len()], reading))
            .take(MOST_PLACES)
            .collect::<Vec<_>>()
        } else {
            runs(
                search.len(),
                file.len(),
                |i, j| reading.same(search[i].text, file[j].text),
                |i| core(search[i].text).len(),
            )
            .filter_map(|at| straight(search, file, at, reading))
            .take(MOST_PLACES)
            .collect()
        };
        if !places.is_empty() {
            return places;
        }
    }
    Vec::new()
}

/// Where the lines of the search stand, whatever their indentation among themselves.
pub(super) fn find_cores(search: &[Line], file: &[Line]) -> Vec<Range<usize>> {
    let (s, f) = (with_text(search), with_text(file));
    runs(
        s.len(),
        f.len(),
        |i, j| core(search[s[i]].text) == core(file[f[j]].text),
        |i| core(search[s[i]].text).len(),
    )
    .map(|at| f[at]..f[at + s.len() - 1] + 1)
    .take(MOST_PLACES)
    .collect()
}

/// The lines that hold the replacement already, around the place of a search that the replacement holds whole.
///
/// An insertion leaves its own search in the file: applied twice, it would insert twice.
pub(super) fn already_applied(
    place: &Place,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<Range<usize>> {
    let same = |a: &str, b: &str| {
        if place.shift == Shift::None { trim_end(a) == trim_end(b) } else { core(a) == core(b) }
    };
    let extra = replace.len().checked_sub(search.len()).filter(|extra| *extra > 0)?;
    (0..=extra).find_map(|before| {
        let inner = before..before + search.len();
        let start = place.lines.start.checked_sub(before)?;
        let there = file.get(start..start + replace.len())?;
        let new_text =
            replace.iter().enumerate().any(|(i, line)| !inner.contains(&i) && !is_blank(line.text));
        let holds = new_text
            && search.iter().zip(&replace[inner]).all(|(s, r)| s.text == r.text)
            && replace.iter().zip(there).all(|(r, f)| same(r.text, f.text));
        holds.then_some(start..start + replace.len())
    })
}

/// The starts of all runs of `many` elements among `all` that are the same throughout, looked for by the longest of them.
fn runs(
    many: usize,
    all: usize,
    same: impl Fn(usize, usize) -> bool,
    length: impl Fn(usize) -> usize,
) -> impl Iterator<Item = usize> {
    let anchor = (0..many).max_by_key(|i| (length(*i), usize::MAX - i)).unwrap_or(0);
    let starts = if many == 0 || many > all { 0..0 } else { 0..all - many + 1 };
    starts.filter(move |at| {
        same(anchor, at + anchor) && (0..many).all(|i| i == anchor || same(i, at + i))
    })
}

fn with_text(lines: &[Line]) -> Vec<usize> {
    (0..lines.len()).filter(|i| !is_blank(lines[*i].text)).collect()
}

impl Reading {
    fn same(self, search: &str, file: &str) -> bool {
        let (search, file) = match self.blanks {
            Blanks::Around => (core(search), core(file)),
            Blanks::AtEnd => (trim_end(search), trim_end(file)),
            Blanks::None => return search == file,
        };
        search == file
            || self.quotes
                && !(search.is_ascii() && file.is_ascii())
                && search.chars().map(plain).eq(file.chars().map(plain))
    }
}

fn straight(search: &[Line], file: &[Line], at: usize, reading: Reading) -> Option<Place> {
    let map = (at..at + search.len()).map(Some).collect();
    place(search, file, at..at + search.len(), map, None, reading)
}

/// A place where blank lines may differ: one between the lines with text, one before them, one after.
fn spread(
    search: &[Line],
    file: &[Line],
    s: &[usize],
    f: &[usize],
    reading: Reading,
) -> Option<Place> {
    let mut map = vec![None; search.len()];
    let (first, last) = (*f.first()?, *f.last()?);
    let blanks_before = file[..first].iter().rev().take_while(|line| is_blank(line.text)).count();
    let blanks_after = file[last + 1..].iter().take_while(|line| is_blank(line.text)).count();
    let (head, tail) = (s[0], search.len() - 1 - s[s.len() - 1]);
    let (before, after) = (head.min(blanks_before), tail.min(blanks_after));
    if head - before > 1 || tail - after > 1 {
        return None;
    }
    for i in 0..before {
        map[head - 1 - i] = Some(first - 1 - i);
    }
    for i in 0..after {
        map[search.len() - tail + i] = Some(last + 1 + i);
    }
    let (mut gap, mut odd) = (None, 0);
    for (k, (&i, &j)) in s.iter().zip(f).enumerate() {
        map[i] = Some(j);
        let Some((&next_i, &next_j)) = s.get(k + 1).zip(f.get(k + 1)) else { break };
        let (mine, theirs) = (next_i - i - 1, next_j - j - 1);
        odd += mine.abs_diff(theirs);
        if odd > 1 {
            return None;
        }
        for b in 1..=mine.min(theirs) {
            map[i + b] = Some(j + b);
        }
        if theirs > mine {
            gap = Some((next_i, next_j - 1));
        }
    }
    let mut place = place(search, file, first - before..last + 1 + after, map, gap, reading)?;
    place.how = How::BlankLines;
    Some(place)
}

fn place(
    search: &[Line],
    file: &[Line],
    lines: Range<usize>,
    map: Vec<Option<usize>>,
    gap: Option<(usize, usize)>,
    reading: Reading,
) -> Option<Place> {
    let pairs = || search.iter().zip(&map).filter_map(|(s, f)| f.map(|f| (*s, file[f])));
    let shift = if reading.blanks == Blanks::Around {
        let indents: Vec<_> = pairs()
            .filter(|(s, _)| !is_blank(s.text))
            .map(|(s, f)| (indent(s.text), indent(f.text)))
            .collect();
        shift(&indents)?
    } else {
        Shift::None
    };
    let how = if reading.quotes {
        How::Quotes
    } else if shift != Shift::None {
        How::Indent
    } else if pairs().any(|(s, f)| s.text != f.text) {
        How::Trailing
    } else if pairs().any(|(s, f)| s.end != f.end) {
        How::LineEnds
    } else {
        How::Exact
    };
    Some(Place { lines, map, gap, how, shift })
}
