//! Completes a search that holds a part of a line, where it is certain what it means.
//!
//! A first line may be the end of a line of the file, and a last one the beginning of one, if the replacement has it at the
//! same end: then replacing lines and replacing text come to the same. In a line of more than a kilobyte, a search of one line may be
//! anywhere. In both cases there is one such place.

use super::lines::Line;
use crate::format::edit::Block;

/// Lines that are longer, in bytes, are not copied whole.
const LONG_LINE: usize = 1024;
/// The letters and digits that a part of a line has at least.
const LEAST_LETTERS: usize = 3;

/// The block with whole lines of the file. `None`: it is not certain which.
pub(super) fn complete(
    block: &Block,
    search: &[Line],
    replace: &[Line],
    file: &[Line],
) -> Option<Block> {
    complete_ends(block, search, replace, file).or_else(|| complete_inside(block, search, file))
}

fn complete_ends(block: &Block, search: &[Line], replace: &[Line], file: &[Line]) -> Option<Block> {
    let shares = |mine: Option<&Line>, other: Option<&Line>| {
        let text = mine.map(|line| line.text).filter(|text| is_telling(text));
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
    Some(Block { search, replace, line: block.line })
}

fn complete_inside(block: &Block, search: &[Line], file: &[Line]) -> Option<Block> {
    let [Line { text, .. }] = search else { return None };
    let mut lines = file.iter().filter(|line| line.text.contains(text));
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (before, after) = line.text.split_once(text)?;
    // Also where the two would overlap.
    let next = line.text.len() - after.len() - text.len() + text.chars().next()?.len_utf8();
    if line.text.len() <= LONG_LINE || !is_telling(text) || line.text[next..].contains(text) {
        return None;
    }
    let is_cut = |end: Option<char>, next: Option<char>| {
        [end, next].into_iter().all(|c| c.is_some_and(|c| c.is_alphanumeric() || c == '_'))
    };
    // `"id": 12` is not meant where the line has `"id": 123`.
    if is_cut(before.chars().next_back(), text.chars().next())
        || is_cut(text.chars().next_back(), after.chars().next())
    {
        return None;
    }
    let new = block.replace.strip_suffix('\n').unwrap_or(&block.replace);
    let (search, replace) = (format!("{}\n", line.text), format!("{before}{new}{after}\n"));
    Some(Block { search, replace, line: block.line })
}

/// Whether a part of a line says more than that there is a brace.
fn is_telling(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST_LETTERS
}
