//! Finds the lines of a file that a block refers to.
//!
//! Readings are tried from the strictest to the most tolerant; the first that finds any place decides, and the caller
//! refuses two places. In each reading, all lines of the search with text must be present, in order, with no other such
//! line between: a reading may ignore blanks, line ends and the shape of quotes, never a word.

use super::indent::{Shift, common_shift};
use super::lines::{File, Line, indent, is_blank, line_key, plain_char, trim_end, without_blanks};
use super::outcome::How;
use std::collections::HashSet;
use std::ops::Range;

pub(super) const MOST_PLACES: usize = 100;
/// Maximum number of lines that are compared again: a file of ten thousand equal lines must not take seconds.
const MOST_WORK: usize = 1_000_000;

/// The lines of the file that a search refers to.
#[derive(Debug)]
pub(super) struct MatchPlace {
    pub lines: Range<usize>,
    /// For each line of the search, its line in the file; `None` for a blank line that the file lacks.
    pub map: Vec<Option<usize>>,
    /// A blank line of the file that the search lacks: the lines of the search and of the file before which it is.
    pub gap: Option<(usize, usize)>,
    pub how: How,
    pub shift: Shift,
}

/// The blanks in a line that a reading ignores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blanks {
    None,
    AtEnd,
    /// At the end, and at the start if a single shift of the indentation explains all lines.
    Around,
}

#[derive(Clone, Copy)]
struct Reading {
    blanks: Blanks,
    quotes: bool,
}

/// Each reading: which blanks it ignores, whether it ignores the shape of quotes, whether it ignores blank lines.
const READINGS: [(Blanks, bool, bool); 8] = [
    (Blanks::None, false, false),
    (Blanks::AtEnd, false, false),
    (Blanks::Around, false, false),
    (Blanks::AtEnd, true, false),
    (Blanks::Around, true, false),
    (Blanks::AtEnd, false, true),
    (Blanks::Around, false, true),
    (Blanks::Around, true, true),
];

/// Returns at most `most` places of a search, in the strictest reading that finds any. The search holds text.
pub(super) fn find_places(search: &[Line], file: &File, most: usize) -> Vec<MatchPlace> {
    let (s, f) = (texts(search), texts(file));
    // If more runs than these fit into the file, they overlap.
    let most_starts = MOST_WORK.max(file.len()) / search.len();
    let mut with_text = None;
    for (number, (blanks, quotes, blank_lines)) in READINGS.into_iter().enumerate() {
        let reading = Reading { blanks, quotes };
        if number == 1 && !may_hold(file, search) {
            break;
        }
        let same = |a: &str, b: &str| reading.is_same(a, b);
        let (starts, places): (_, Vec<MatchPlace>) = if blank_lines {
            let [s, f] = with_text
                .get_or_insert_with(|| [WithText::from_texts(&s), WithText::from_texts(&f)]);
            let starts = find_runs(&s.texts, &f.texts, same);
            let candidates = starts.iter().take(most_starts).filter_map(|at| {
                place_with_blank_lines(search, file, &s.at, &f.at[*at..at + s.at.len()], reading)
            });
            (starts.len(), candidates.take(most).collect())
        } else {
            let starts = find_runs(&s, &f, same);
            let candidates = starts.iter().take(most_starts);
            let candidates = candidates.filter_map(|at| place_at(search, file, *at, reading));
            (starts.len(), candidates.take(most).collect())
        };
        if (places.len() < 2 || most > MOST_PLACES) && starts > most_starts {
            // There may be other places.
            return Vec::new();
        }
        if !places.is_empty() {
            return places;
        }
    }
    Vec::new()
}

/// Whether any reading can find the search. A quick check: most searches that are not found exactly are not in the file
/// at all.
fn may_hold(file: &File, search: &[Line]) -> bool {
    let with_text = |keys: &mut dyn Iterator<Item = u64>| keys.filter(|key| *key != 0).collect();
    let search: Vec<u64> = with_text(&mut search.iter().map(|line| line_key(line.text)));
    let file: Vec<u64> = with_text(&mut file.line_keys().iter().copied());
    !find_runs(&search, &file, |a, b| a == b).is_empty()
}

/// Finds the lines of the search with any indentation.
pub(super) fn find_cores(search: &[Line], file: &File) -> Vec<Range<usize>> {
    if !may_hold(file, search) {
        return Vec::new();
    }
    let (s, f) = (WithText::from_texts(&texts(search)), WithText::from_texts(&texts(file)));
    let starts = find_runs(&s.texts, &f.texts, |a, b| without_blanks(a) == without_blanks(b));
    let lines = |at: usize| f.at[at]..f.at[at + s.at.len() - 1] + 1;
    starts.into_iter().take(MOST_PLACES).map(lines).collect()
}

/// Returns the lines around a place that already hold the replacement: applying an insertion twice would insert twice. An
/// insertion of lines that the search has, too, is one more of them.
pub(super) fn already_applied(
    place: &MatchPlace,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<Range<usize>> {
    let same = |a: &str, b: &str| {
        if place.shift == Shift::None {
            trim_end(a) == trim_end(b)
        } else {
            without_blanks(a) == without_blanks(b)
        }
    };
    let (s, r) = (texts(search), texts(replace));
    if r.len() <= s.len() {
        return None;
    }
    let found = find_replacement_over(place, search, replace, file);
    found.or_else(|| {
        find_runs(&s, &r, |a, b| a == b).into_iter().take(MOST_PLACES).find_map(|before| {
            let inner = before..before + s.len();
            let start = place.lines.start.checked_sub(before)?;
            let there = file.get(start..start + r.len())?;
            let is_new =
                |(i, r): (usize, &&str)| !inner.contains(&i) && !is_blank(r) && !s.contains(r);
            let new_text = r.iter().enumerate().any(is_new);
            let holds = new_text && r.iter().zip(there).all(|(r, f)| same(r, f.text));
            holds.then_some(start..start + r.len())
        })
    })
}

/// Returns the place of the replacement if the file already has it, with the new indentation, overlapping a place that
/// was not found exactly.
fn find_replacement_over(
    place: &MatchPlace,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<Range<usize>> {
    let olds: HashSet<&str> = search.iter().map(|line| without_blanks(line.text)).collect();
    let is_new = |line: &Line| !is_blank(line.text) && !olds.contains(without_blanks(line.text));
    if place.how < How::Trailing || !replace.iter().any(is_new) {
        return None;
    }
    let from = place.lines.start.saturating_sub(replace.len());
    let near = &file[from..(place.lines.end + replace.len()).min(file.len())];
    let over = find_places(replace, &File::new(near.to_vec()), MOST_PLACES);
    let over = over.into_iter().find(|over| {
        let lines = from + over.lines.start..from + over.lines.end;
        over.how <= place.how && lines.start < place.lines.end && place.lines.start < lines.end
    })?;
    Some(from + over.lines.start..from + over.lines.end)
}

/// Returns the starts of all runs in `file` that equal `search`, in one pass. `same` must be an equivalence, as `==` is.
fn find_runs<T: Copy>(search: &[T], file: &[T], same: impl Fn(T, T) -> bool) -> Vec<usize> {
    if search.is_empty() || search.len() > file.len() {
        return Vec::new();
    }
    // For each line of the search: the length of the longest beginning of the search that ends at this line (as in
    // Knuth-Morris-Pratt).
    let mut back = vec![0; search.len()];
    let step = |back: &[usize], mut matched: usize, text: T| loop {
        if matched < search.len() && same(search[matched], text) {
            return matched + 1;
        }
        if matched == 0 {
            return 0;
        }
        matched = back[matched - 1];
    };
    for i in 1..search.len() {
        back[i] = step(&back, back[i - 1], search[i]);
    }
    let mut matched = 0;
    let mut starts = Vec::new();
    for (i, text) in file.iter().enumerate() {
        matched = step(&back, matched, *text);
        if matched == search.len() {
            starts.push(i + 1 - matched);
        }
    }
    starts
}

fn texts<'a>(lines: &[Line<'a>]) -> Vec<&'a str> {
    lines.iter().map(|line| line.text).collect()
}

/// The lines that are not blank, and their indexes.
struct WithText<'a> {
    texts: Vec<&'a str>,
    at: Vec<usize>,
}

impl<'a> WithText<'a> {
    fn from_texts(texts: &[&'a str]) -> Self {
        let (at, texts) = texts.iter().enumerate().filter(|(_, text)| !is_blank(text)).unzip();
        Self { texts, at }
    }
}

impl Reading {
    fn is_same(self, search: &str, file: &str) -> bool {
        let (search, file) = match self.blanks {
            Blanks::Around => (without_blanks(search), without_blanks(file)),
            Blanks::AtEnd => (trim_end(search), trim_end(file)),
            Blanks::None => return search == file,
        };
        search == file
            || self.quotes
                && !(search.is_ascii() && file.is_ascii())
                && search.chars().map(plain_char).eq(file.chars().map(plain_char))
    }
}

fn place_at(search: &[Line], file: &[Line], at: usize, reading: Reading) -> Option<MatchPlace> {
    if reading.blanks == Blanks::Around {
        // The first and the last line with text rule out most places.
        let text = |i: &usize| !is_blank(search[*i].text);
        let ends = [(0..search.len()).find(text)?, (0..search.len()).rfind(text)?];
        common_shift(&ends.map(|i| (indent(search[i].text), indent(file[at + i].text))))?;
    }
    let map = (at..at + search.len()).map(Some).collect();
    build_place(search, file, at..at + search.len(), map, None, reading)
}

/// Finds a place where blank lines may differ: one between the lines with text, one before them, one after.
fn place_with_blank_lines(
    search: &[Line],
    file: &[Line],
    s: &[usize],
    f: &[usize],
    reading: Reading,
) -> Option<MatchPlace> {
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
    let mut place = build_place(search, file, first - before..last + 1 + after, map, gap, reading)?;
    place.how = How::BlankLines;
    Some(place)
}

fn build_place(
    search: &[Line],
    file: &[Line],
    lines: Range<usize>,
    map: Vec<Option<usize>>,
    gap: Option<(usize, usize)>,
    reading: Reading,
) -> Option<MatchPlace> {
    let pairs = || search.iter().zip(&map).filter_map(|(s, f)| f.map(|f| (*s, file[f])));
    let shift = if reading.blanks == Blanks::Around {
        let indents: Vec<_> = pairs()
            .filter(|(s, _)| !is_blank(s.text))
            .map(|(s, f)| (indent(s.text), indent(f.text)))
            .collect();
        common_shift(&indents)?
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
    Some(MatchPlace { lines, map, gap, how, shift })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            " ", "\t", "\r", "\u{b}", "\u{a0}", "'", "\u{2019}", "a", "\u{1}",
        ]);
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn lines_that_a_reading_takes_for_each_other_have_one_key(a in line(), b in line()) {
            if READINGS.iter().any(|&(blanks, quotes, _)| Reading { blanks, quotes }.is_same(&a, &b)) {
                prop_assert_eq!(line_key(&a), line_key(&b), "{:?} {:?}", a, b);
            }
            prop_assert_eq!(line_key(&a) == 0, is_blank(&a));
        }
    }
}
