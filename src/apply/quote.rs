//! Lines of the file, quoted in a refusal, and how places in it are named.

use super::find::MOST_PLACES;
use super::lines::Line;
use super::outcome::Quote;
use crate::format::harmless::truncate;
use std::ops::Range;

/// Maximum number of lines that a refusal quotes.
pub(super) const MOST_QUOTES: usize = 12;
/// Maximum length of a quoted line, in characters.
pub(super) const QUOTE: usize = 200;
/// The same, in the middle of a sentence.
const INLINE: usize = 100;

pub(super) fn quote_lines(file: &[Line], range: Range<usize>) -> Vec<Quote> {
    let end = range.end.min(file.len()).min(range.start.saturating_add(MOST_QUOTES));
    (range.start..end)
        .map(|i| Quote { line: i + 1, text: truncate(file[i].text, QUOTE + 1) })
        .collect()
}

pub(super) fn quote_inline(text: &str) -> String {
    truncate(text.trim_end(), INLINE + 1)
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
