//! Lines of the file, quoted in a refusal, and how places in it are named.

use super::find::MOST_PLACES;
use super::lines::Line;
use super::outcome::Quote;
use std::ops::Range;

/// Lines of the file that a refusal quotes.
pub(super) const MOST_QUOTES: usize = 12;
/// Characters of a quoted line.
pub(super) const QUOTE: usize = 200;
/// Characters of a line in the middle of a sentence.
const INLINE: usize = 100;

pub(super) fn quote_lines(file: &[Line], range: Range<usize>) -> Vec<Quote> {
    let end = range.end.min(file.len()).min(range.start.saturating_add(MOST_QUOTES));
    (range.start..end).map(|i| Quote { line: i + 1, text: truncate(file[i].text, QUOTE) }).collect()
}

pub(super) fn quote_inline(text: &str) -> String {
    truncate(text.trim_end(), INLINE)
}

fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

pub(super) fn describe_range(lines: &Range<usize>) -> String {
    if lines.len() <= 1 {
        format!("line {}", lines.start + 1)
    } else {
        format!("lines {} to {}", lines.start + 1, lines.end)
    }
}

pub(super) fn list_numbers(places: &[Range<usize>]) -> String {
    let list: Vec<String> =
        places.iter().take(MOST_PLACES).map(|lines| (lines.start + 1).to_string()).collect();
    list.join(", ")
}
