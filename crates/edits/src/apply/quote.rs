//! Quotes lines of the file in a refusal, and describes places in the file.

use super::lines::Line;
use super::outcome::Quote;
use super::partial;
use conversation::format::harmless::truncate;
use std::ops::Range;

/// Maximum number of lines that a refusal quotes.
pub(super) const MOST_QUOTES: usize = 12;
/// Maximum number of long lines that a refusal quotes.
pub(super) const MOST_LONG_QUOTES: usize = 3;
/// Maximum length of a quoted line, in characters.
pub(super) const QUOTE: usize = 200;
/// Maximum length of a line that is quoted within a sentence, in characters.
const INLINE: usize = 100;

pub(super) fn quote_lines(file: &[Line], range: Range<usize>) -> Vec<Quote> {
    let end = range.end.min(file.len()).min(range.start.saturating_add(MOST_QUOTES));
    (range.start..end)
        .map(|i| Quote { line: i + 1, text: truncate(file[i].text, QUOTE + 1) })
        .collect()
}

/// Quotes lines. Of a line that is too long to be copied whole, it quotes the text around the longest word that the
/// search also has.
pub(super) fn quote_near(search: &str, file: &[Line], range: Range<usize>) -> Vec<Quote> {
    let mut words: Vec<&str> = search.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut quotes = quote_lines(file, range);
    for quote in &mut quotes {
        let line = file[quote.line - 1].text;
        // A word that occurs only once is more distinctive than a longer one that is everywhere.
        let places = words.iter().filter_map(|word| Some((line.find(word)?, line.rfind(word)?)));
        let once = places.clone().find(|(first, last)| first == last);
        if let Some((at, _)) = once.or(places.clone().next()).filter(|_| partial::is_long(line)) {
            quote.text = quote_around(line, at);
        }
    }
    quotes
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

/// The numbers of the first lines of places, without repetition: `line 3`, `lines 3, 7, 9 and 12 more`.
pub(super) fn describe_numbers(places: &[Range<usize>]) -> String {
    let mut numbers: Vec<usize> = places.iter().map(|lines| lines.start + 1).collect();
    numbers.dedup();
    let list: Vec<String> = numbers.iter().take(MOST_QUOTES).map(usize::to_string).collect();
    let rest = numbers.len() - list.len();
    let (plural, list) = (if numbers.len() == 1 { "" } else { "s" }, list.join(", "));
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("line{plural} {list}{more}")
}

/// Quotes the text around a place in a long line.
pub(super) fn quote_around(line: &str, at: usize) -> String {
    let start = line.floor_char_boundary(at.saturating_sub(QUOTE / 3));
    let left = if start > 0 { "…" } else { "" };
    format!("{left}{}", truncate(&line[start..], QUOTE))
}
