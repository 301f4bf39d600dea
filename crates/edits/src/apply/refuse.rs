//! Refusals of edit blocks: the cause, the nearest lines, and what to do instead.

use super::find::{self, MOST_PLACES, MatchPlace};
use super::lines::{File, Line, is_blank, without_blanks};
use super::outcome::{Cause, EditRefusal, How, Quote};
use super::quote::{
    MOST_LONG_QUOTES, MOST_QUOTES, describe_numbers, describe_range, quote_around, quote_inline,
    quote_lines, quote_near,
};
use super::write::Unclear;
use super::{near, partial};
use conversation::format::edit::EditBlock;
use std::collections::HashSet;
use std::ops::Range;

/// Builds a refusal of a block whose number and line are not known yet.
fn new_refusal(cause: Cause, message: String, near: Vec<Quote>) -> EditRefusal {
    EditRefusal { block: 0, line: 0, cause, message, near }
}

pub(super) fn refuse_unchanged() -> EditRefusal {
    let message =
        "the search and the replacement are the same: leave the block out, or write the new lines";
    new_refusal(Cause::NoChange, message.to_owned(), Vec::new())
}

pub(super) fn refuse_empty(file: &[Line]) -> EditRefusal {
    let message = "the search is empty, which works only for an empty file: copy the lines next to the place into the search, and into the \
                   replacement together with the new lines"
        .to_owned();
    new_refusal(Cause::Empty, message, quote_lines(file, 0..file.len().min(4)))
}

pub(super) fn refuse_overlap(
    file: &[Line],
    first: &Range<usize>,
    other: usize,
    second: &Range<usize>,
) -> EditRefusal {
    let shared = second.start..second.end.min(first.end);
    let is_long = file[shared.clone()].iter().any(|line| partial::is_long(line.text));
    let advice = if is_long { "send them in separate replies" } else { "merge the two blocks" };
    let message = format!(
        "it changes {}, but block {} changes {}: {advice}",
        describe_range(second),
        other + 1,
        describe_range(first)
    );
    new_refusal(Cause::Overlap, message, quote_lines(file, shared))
}

pub(super) fn refuse_ambiguous(places: &[MatchPlace], file: &[Line]) -> EditRefusal {
    let lines: Vec<_> = places.iter().map(|place| place.lines.clone()).collect();
    let more = or_more(places.len());
    let up_to = match places.iter().map(|place| place.how).max() {
        Some(How::Exact | How::LineEnds) | None => "",
        Some(How::Trailing) => " (ignoring trailing blanks)",
        Some(How::Indent) => " (ignoring indentation)",
        Some(How::Quotes) => " (ignoring the shape of quotes)",
        Some(How::BlankLines | How::PartOfLine) => " (ignoring blank lines)",
    };
    let message = format!(
        "the search matches {} places{more} in the file{up_to}, at {}.\nAdd lines above or below it until it occurs only once{ADVICE_ON_ALL}",
        places.len(),
        describe_numbers(&lines)
    );
    let each = (MOST_QUOTES / lines.len().max(1)).max(1);
    let near = lines.iter().take(MOST_QUOTES).flat_map(|range| {
        let start = range.start.saturating_sub(usize::from(each > 2));
        quote_lines(file, start..(start + each).min(file.len()))
    });
    let mut near: Vec<_> = near.collect();
    near.sort_by_key(|quote| quote.line);
    near.dedup_by_key(|quote| quote.line);
    new_refusal(Cause::Twice, message, near)
}

/// Added to a number of places if counting stopped there.
fn or_more(places: usize) -> &'static str {
    if places < MOST_PLACES { "" } else { " or more" }
}

/// Advice for a model: how to change every place. A tool for people has no such attribute.
pub const ADVICE_ON_ALL: &str = "; all=\"true\" changes each of them";

/// Refuses a block whose replacement is already at these lines of the file. `advice` ends the sentence.
pub(super) fn already_applied(lines: &Range<usize>, file: &[Line], advice: &str) -> EditRefusal {
    let message =
        format!("already applied: the replacement is at {}{advice}", describe_range(lines));
    new_refusal(Cause::AlreadyApplied, message, quote_lines(file, lines.clone()))
}

pub(super) fn refuse_unclear(place: &MatchPlace, unclear: Unclear, file: &[Line]) -> EditRefusal {
    let at = describe_range(&place.lines);
    let mut lines = place.lines.clone();
    let why = match unclear {
        Unclear::Margin => format!(
            "found at {at}, where the file has less indentation than the search, and a line of the replacement is indented too little: \
             write the search and the replacement with the file's indentation"
        ),
        Unclear::Indentation => format!(
            "found at {at} with a different indentation than in the search, and the replacement seems to be indented like the file: \
             write both with the file's indentation"
        ),
        Unclear::BlankLine(line) => {
            lines = line.saturating_sub(2)..(line + 3).min(file.len());
            format!(
                "found at {at}, but the search leaves out line {}, a blank line, exactly where new lines would go: \
                 copy it into the search, and into the replacement where it belongs",
                line + 1
            )
        }
    };
    new_refusal(Cause::Unclear, why, quote_lines(file, lines))
}

/// Refuses a search that is not in the file, with the most similar lines and where they differ.
pub(super) fn refuse_missing(search: &[Line], replace: &[Line], file: &File) -> EditRefusal {
    if file.is_empty() {
        let message =
            "the file is empty: leave the search empty to write the replacement".to_owned();
        return new_refusal(Cause::Missing, message, Vec::new());
    }
    let part = part_of_line(search, file);
    if let Some(reason) = refuse_if_replaced(search, replace, file) {
        // The position of a single line elsewhere says less than the line that contains the search.
        let is_quoted = |quote: &Quote| reason.near.iter().any(|other| other.line == quote.line);
        let other = part.filter(|part| replace.len() == 1 && !part.near.iter().any(is_quoted));
        return other.unwrap_or(reason);
    }
    let cores = find::find_cores(search, file);
    if !cores.is_empty() {
        let near = quote_lines(file, cores[0].clone());
        let message = format!(
            "the text is in the file at {}, but with different indentation or blank lines: copy them from here",
            describe_numbers(&cores)
        );
        return new_refusal(Cause::Indentation, message, near);
    }
    if let Some(reason) = part {
        return reason;
    }
    if let Some(window) = near::nearest(search, file) {
        let (what, lines) = near::describe_difference(search, file, &window);
        let message = format!("not in the file; {what}.\nCopy the lines from here:");
        let quotes = match search {
            [only] => quote_near(only.text, file, lines),
            _ => quote_lines(file, lines),
        };
        return new_refusal(Cause::Missing, message, quotes);
    }
    let message = format!(
        "not in the file, and no line is similar to the search, which begins with `{}`.\nCheck the path, and read the file again",
        quote_inline(search.iter().find(|line| !is_blank(line.text)).map_or("", |line| line.text))
    );
    new_refusal(Cause::Missing, message, Vec::new())
}

/// Adds a hint to a refusal when another block would write the lines that this one looks for.
pub(super) fn mention_other_blocks(refusal: &mut EditRefusal, blocks: &[EditBlock]) {
    let own = refusal.block - 1;
    let Some(block) = blocks.get(own).filter(|_| refusal.cause == Cause::Missing) else { return };
    let search = block.search.trim();
    // This is bounded: with very many blocks, the first ones give enough of a hint.
    let mut others = blocks.iter().take(50).enumerate();
    if let Some((index, _)) =
        others.find(|(index, other)| *index != own && other.replace.contains(search))
    {
        refusal.message.push_str(&format!(
            " (block {} writes such lines, but all blocks are searched for in the file as it was before: merge the two blocks)",
            index + 1
        ));
    }
}

fn refuse_if_replaced(search: &[Line], replace: &[Line], file: &File) -> Option<EditRefusal> {
    let texts = replace
        .iter()
        .map(|line| without_blanks(line.text))
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>();
    let olds: HashSet<&str> = search.iter().map(|line| without_blanks(line.text)).collect();
    // If all lines of a replacement are shared, they are evidence only if they surrounded the removed lines, which are
    // gone then.
    let end = |lines: &mut dyn Iterator<Item = &Line<'_>>| {
        lines.map(|line| without_blanks(line.text).to_owned()).find(|text| !text.is_empty())
    };
    let ends = |lines: &[Line]| (end(&mut lines.iter()), end(&mut lines.iter().rev()));
    let around = texts.len() > 1 && ends(search) == ends(replace);
    if texts.is_empty() || !around && texts.iter().all(|text| olds.contains(text)) {
        return None;
    }
    let place = find::find_places(replace, file, MOST_PLACES).into_iter().next()?;
    let advice =
        ", and the search is not in the file.\nIf you mean another place, read the file again";
    Some(already_applied(&place.lines, file, advice))
}

fn part_of_line(search: &[Line], file: &[Line]) -> Option<EditRefusal> {
    let mut texts =
        search.iter().map(|line| without_blanks(line.text)).filter(|text| !text.is_empty());
    let (text, None) = (texts.next()?, texts.next()) else { return None };
    let lines: Vec<_> = (0..file.len())
        .filter(|i| file[*i].text.contains(text))
        .map(|i| i..i + 1)
        .take(MOST_PLACES)
        .collect();
    if lines.is_empty() {
        return None;
    }
    let inside = partial::find_inside(search, file, MOST_PLACES);
    if !inside.is_empty() {
        return Some(part_of_long_line(text, &inside));
    }
    let message = format!(
        "the search is only part of a line (in {}); blocks need whole lines: copy the whole line from here",
        describe_numbers(&lines)
    );
    let near = lines.iter().take(MOST_QUOTES);
    let near = near.flat_map(|range| quote_lines(file, range.clone())).collect();
    Some(new_refusal(Cause::PartOfLine, message, near))
}

/// Refuses a search within lines that are too long to be copied whole.
fn part_of_long_line(text: &str, places: &[partial::Inside]) -> EditRefusal {
    let lines: Vec<_> = places.iter().map(|place| place.number..place.number + 1).collect();
    let count = places.len();
    let more = or_more(count);
    let (why, advice) = if !partial::has_enough_letters(text) {
        ("has too few letters and digits", "add text around it, as it is here")
    } else if places.iter().any(|place| place.cuts_word) {
        ("is cut in the middle of a word", "add text around it, up to the ends of words")
    } else {
        ("is ambiguous", &*format!("add text around it{ADVICE_ON_ALL}"))
    };
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times{more}") };
    let message = format!(
        "it occurs {times} in {}, within long lines, and {why}: {advice}",
        describe_numbers(&lines)
    );
    let near = places
        .iter()
        .take(MOST_LONG_QUOTES)
        .map(|place| Quote { line: place.number + 1, text: quote_around(place.line, place.at) });
    new_refusal(Cause::PartOfLine, message, near.collect())
}
