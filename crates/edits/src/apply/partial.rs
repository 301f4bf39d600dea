//! Completes a search that holds a part of a line, if its meaning is certain.
//!
//! The first line of a search may be the end of a line of the file, and the last line the beginning of one, if the
//! replacement has the same part at the same end: then replacing lines and replacing text have the same result. In a
//! line of more than a kilobyte, a search of one line may be anywhere. In both cases there must be exactly one such
//! place.

use super::lines::Line;
use conversation::format::edit::EditBlock;

/// Lines longer than this, in bytes, are not copied whole.
const LONG_LINE: usize = 1024;
/// Minimum number of letters and digits in a part of a line.
pub(super) const LEAST_LETTERS: usize = 3;

/// Completes the block with whole lines of the file. `None`: it is not certain which.
pub(super) fn complete_block(
    block: &EditBlock,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<EditBlock> {
    complete_ends(block, search, replace, file).or_else(|| complete_inside(block, search, file))
}

fn complete_ends(
    block: &EditBlock,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<EditBlock> {
    let shares = |mine: Option<&Line>, other: Option<&Line>| {
        let text = mine.map(|line| line.text).filter(|text| has_enough_letters(text));
        text.is_some() && text == other.map(|line| line.text)
    };
    let shares_first = shares(search.first(), replace.first());
    let shares_last = shares(search.last(), replace.last());
    let last = search.len().checked_sub(1)?;
    if let [only] = search {
        let holding: usize = file.iter().map(|line| line.text.matches(only.text).count()).sum();
        if holding != 1 || shares_first == shares_last {
            return None;
        }
    }
    let fits = |i: usize, line: &Line| {
        let text = search[i].text;
        text == line.text
            || i == 0 && shares_first && line.text.ends_with(text)
            || i == last && shares_last && line.text.starts_with(text)
    };
    let mut places = file
        .windows(search.len())
        .filter(|lines| lines.iter().enumerate().all(|(i, line)| fits(i, line)));
    let (Some(place), None) = (places.next(), places.next()) else { return None };
    let whole = |i: usize, line: &Line| {
        let is_first = i == 0 && shares_first;
        let is_last = i + 1 == replace.len() && shares_last;
        let text = match (is_first, is_last) {
            (true, _) => place[0].text,
            (_, true) => place[last].text,
            _ => line.text,
        };
        format!("{text}\n")
    };
    let search = place.iter().map(|line| format!("{}\n", line.text)).collect();
    let replace = replace.iter().enumerate().map(|(i, line)| whole(i, line)).collect();
    Some(EditBlock { search, replace, line: block.line })
}

fn complete_inside(block: &EditBlock, search: &[Line], file: &[Line]) -> Option<EditBlock> {
    let [place] = find_inside(search, file, 2)[..] else { return None };
    let text = search[0].text;
    if !has_enough_letters(text) || place.cuts_word {
        return None;
    }
    let (before, after) = (&place.line[..place.at], &place.line[place.at + text.len()..]);
    let new = block.replace.strip_suffix('\n').unwrap_or(&block.replace);
    let (search, replace) = (format!("{}\n", place.line), format!("{before}{new}{after}\n"));
    Some(EditBlock { search, replace, line: block.line })
}

/// A long line in which a search was replaced.
#[derive(Debug)]
pub(super) struct ReplacedLine {
    /// Its number, from 0.
    pub number: usize,
    /// Its new text.
    pub text: String,
    /// The number of lines of the new text.
    pub added: usize,
    /// The number of places that were replaced.
    pub places: usize,
}

/// Replaces a search of one line at all its places in long lines, and returns these lines. `None`: it is not certain.
pub(super) fn replace_inside(
    block: &EditBlock,
    search: &[Line],
    file: &[Line],
) -> Option<Vec<ReplacedLine>> {
    let places = find_inside(search, file, usize::MAX);
    let text = search.first()?.text;
    let is_certain = !places.is_empty()
        && has_enough_letters(text)
        && text != block.replace.trim_end_matches(['\r', '\n'])
        && !places.iter().any(|place| place.cuts_word);
    let new = block.replace.strip_suffix('\n').unwrap_or(&block.replace);
    let mut numbers: Vec<usize> = places.iter().map(|place| place.number).collect();
    numbers.dedup();
    let replaced = numbers.into_iter().map(|number| {
        let line = &file[number];
        let end = if line.end.is_empty() { "\n" } else { line.end };
        let changed = line.text.replace(text, &new.replace('\n', end));
        ReplacedLine {
            number,
            added: changed.matches('\n').count() + 1,
            text: changed + line.end,
            places: line.text.matches(text).count(),
        }
    });
    is_certain.then(|| replaced.collect())
}

/// A place of a text within a long line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside<'a> {
    pub number: usize,
    pub line: &'a str,
    /// Its offset in the line, in bytes.
    pub at: usize,
    /// Whether it begins or ends within a word: `"id": 12` does not mean a line with `"id": 123`.
    pub cuts_word: bool,
}

/// The places of a search of one line, at most `most`, if all of them are in long lines.
pub(super) fn find_inside<'a>(search: &[Line], file: &[Line<'a>], most: usize) -> Vec<Inside<'a>> {
    let [Line { text, .. }] = search else { return Vec::new() };
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut places = Vec::new();
    for (number, line) in file.iter().enumerate() {
        let line = line.text;
        let mut from = 0;
        // Count overlapping occurrences too.
        while let Some(at) = line.get(from..).and_then(|rest| rest.find(text)).map(|at| from + at) {
            if !is_long(line) {
                return Vec::new();
            }
            let (before, after) = (&line[..at], &line[at + text.len()..]);
            let cuts_word = is_part(before.chars().next_back()) && is_part(text.chars().next())
                || is_part(text.chars().next_back()) && is_part(after.chars().next());
            places.push(Inside { number, line, at, cuts_word });
            if places.len() == most {
                return places;
            }
            from = at + text.chars().next().map_or(1, char::len_utf8);
        }
    }
    places
}

/// Whether a line is too long to be copied whole.
pub(super) fn is_long(line: &str) -> bool {
    line.len() > LONG_LINE
}

/// Whether a part of a line is distinctive enough, unlike a single brace.
pub(super) fn has_enough_letters(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST_LETTERS
}
