//! Why a block was not applied: the cause, the nearest lines, and what to do. It may look at a whole file, once, and never applies anything.

use super::find::{self, MOST_PLACES, Place};
use super::lines::{File, Line, core, is_blank};
use super::near;
use super::outcome::{Cause, How, Quote, Refusal};
use super::quote::{MOST_QUOTES, inline, numbers, quotes, span};
use super::write::Unclear;
use crate::format::edit::Block;
use std::collections::HashSet;
use std::ops::Range;

/// A refusal that does not know its block yet.
pub(super) struct Reason {
    cause: Cause,
    message: String,
    near: Vec<Quote>,
}

impl Reason {
    pub(super) fn of(self, index: usize, block: &Block) -> Refusal {
        Refusal {
            block: index + 1,
            line: block.line,
            cause: self.cause,
            message: self.message,
            near: self.near,
        }
    }
}

pub(super) fn no_change() -> Reason {
    let message = "the search and the replacement are the same, so there is nothing to change: leave the block out, or write what is to be new";
    Reason { cause: Cause::NoChange, message: message.to_owned(), near: Vec::new() }
}

pub(super) fn empty(file: &[Line]) -> Reason {
    let message = "the search holds no text, which says where only in an empty file: copy the lines beside the place into the search, and \
                   into the replacement together with what is new"
        .to_owned();
    Reason { cause: Cause::Empty, message, near: quotes(file, 0..file.len().min(4)) }
}

pub(super) fn overlap(
    file: &[Line],
    first: &Range<usize>,
    other: usize,
    second: &Range<usize>,
) -> Reason {
    let message = format!(
        "it changes {}, and block {} changes {}: write one block for both",
        span(second),
        other + 1,
        span(first)
    );
    let shared = second.start..second.end.min(first.end);
    Reason { cause: Cause::Overlap, message, near: quotes(file, shared) }
}

pub(super) fn twice(places: &[Place], file: &[Line]) -> Reason {
    let lines: Vec<_> = places.iter().map(|place| place.lines.clone()).collect();
    let more = if places.len() < MOST_PLACES { "" } else { " or more" };
    let up_to = match places.iter().map(|place| place.how).max() {
        Some(How::Exact | How::LineEnds) | None => "",
        Some(How::Trailing) => " (blanks at line ends apart)",
        Some(How::Indent) => " (indentation apart)",
        Some(How::Quotes) => " (typographic quotes apart)",
        Some(How::BlankLines) => " (blank lines apart)",
    };
    let message = format!(
        "the search is in the file {} times{more}{up_to}, at lines {}: add lines above or below it until it is there only once",
        places.len(),
        numbers(&lines)
    );
    let each = (MOST_QUOTES / lines.len().max(1)).max(1);
    let near = lines.iter().take(MOST_QUOTES).flat_map(|range| {
        let start = range.start.saturating_sub(usize::from(each > 2));
        quotes(file, start..(start + each).min(file.len()))
    });
    let mut near: Vec<_> = near.collect();
    near.dedup_by_key(|quote| quote.line);
    Reason { cause: Cause::Twice, message, near }
}

/// How it is known that a block was applied before.
pub(super) enum Sign {
    /// The search stands inside of the whole replacement.
    Around,
    /// What would be written is what is there.
    Same,
    /// The search is gone, and the replacement is there.
    Gone,
}

pub(super) fn already_applied(lines: &Range<usize>, file: &[Line], sign: &Sign) -> Reason {
    let tail = match sign {
        Sign::Around => "; to insert the same once more, add more lines around",
        Sign::Same => ", and nothing is left to do",
        Sign::Gone => {
            ", and the search is nowhere: if another place was meant, read the file again"
        }
    };
    let message = format!("already applied: the replacement stands at {}{tail}", span(lines));
    Reason { cause: Cause::AlreadyApplied, message, near: quotes(file, lines.clone()) }
}

pub(super) fn unclear(place: &Place, unclear: Unclear, file: &[Line]) -> Reason {
    let at = span(&place.lines);
    let (why, lines) = match unclear {
        Unclear::Margin => (
            format!(
                "found at {at} with less indentation than in the search, and a line of the replacement has too little of it to follow: \
                 write search and replacement with the file's own indentation"
            ),
            place.lines.clone(),
        ),
        Unclear::Indentation => (
            format!(
                "found at {at} with another indentation than in the search, and the replacement's indentation follows the file rather than \
                 the search: write both with the file's own indentation"
            ),
            place.lines.clone(),
        ),
        Unclear::NotTheEnd => (
            format!(
                "found at {at}, which is not the end of the file as the search says: read the end of the file again"
            ),
            file.len().saturating_sub(4)..file.len(),
        ),
        Unclear::BlankLine(line) => (
            format!(
                "found at {at}, but line {} is a blank line that the search leaves out just where new lines go: \
                 copy it into the search, and into the replacement where it belongs",
                line + 1
            ),
            line.saturating_sub(2)..(line + 3).min(file.len()),
        ),
    };
    Reason { cause: Cause::Unclear, message: why, near: quotes(file, lines) }
}

/// The search is nowhere in the file: what comes nearest, and where they part.
pub(super) fn missing(search: &[Line], replace: &[Line], file: &File) -> Reason {
    if file.is_empty() {
        let message =
            "the file is empty: leave the search empty, and the replacement is written".to_owned();
        return Reason { cause: Cause::Missing, message, near: Vec::new() };
    }
    let part = part_of_line(search, file);
    if let Some(reason) = standing(search, replace, file) {
        // A single line that stands somewhere else says less than the line that holds the search.
        let stands = |quote: &Quote| reason.near.iter().any(|other| other.line == quote.line);
        let other = part.filter(|part| replace.len() == 1 && !part.near.iter().any(stands));
        return other.unwrap_or(reason);
    }
    let cores = find::find_cores(search, file);
    if !cores.is_empty() {
        let near = quotes(file, cores[0].clone());
        let message = format!(
            "the words are in the file at lines {}, but indentation or blank lines differ from line to line: copy the lines as they are",
            numbers(&cores)
        );
        return Reason { cause: Cause::Indentation, message, near };
    }
    if let Some(reason) = part {
        return reason;
    }
    if let Some(window) = near::nearest(search, file) {
        let (what, lines) = near::parting(search, file, &window);
        let message = format!("not in the file; {what}: read these lines again, and copy them");
        return Reason { cause: Cause::Missing, message, near: quotes(file, lines) };
    }
    let message = format!(
        "not in the file, and no line of it is like the search, which begins with `{}`: read the file again, and check the path",
        inline(search.iter().find(|line| !is_blank(line.text)).map_or("", |line| line.text))
    );
    Reason { cause: Cause::Missing, message, near: Vec::new() }
}

/// Adds to a refusal that another block would write the lines it looks for.
pub(super) fn mention_other_blocks(refusal: &mut Refusal, blocks: &[Block]) {
    if refusal.cause != Cause::Missing {
        return;
    }
    let Some(block) = blocks.get(refusal.block - 1) else { return };
    let (search, first) = (block.search.trim(), block.search.lines().find(|line| !is_blank(line)));
    let writes = |other: &Block| {
        other.replace.contains(search)
            || first.is_some_and(|first| {
                let has = |text: &str| text.lines().any(|line| core(line) == core(first));
                has(&other.replace) && !has(&other.search)
            })
    };
    // Bounded: with very many blocks the first ones are enough of a hint.
    let other = blocks
        .iter()
        .take(50)
        .enumerate()
        .find(|(index, other)| index + 1 != refusal.block && writes(other));
    if let Some((index, _)) = other {
        let hint = format!(
            " (block {} writes such lines: all blocks are looked up in the file as it was before, so write one block for both)",
            index + 1
        );
        refusal.message.push_str(&hint);
    }
}

/// The replacement is there already.
fn standing(search: &[Line], replace: &[Line], file: &File) -> Option<Reason> {
    let texts = replace
        .iter()
        .map(|line| core(line.text))
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>();
    let olds: HashSet<&str> = search.iter().map(|line| core(line.text)).collect();
    // Shared lines that are left when others go say something when they stood around those: then the others are gone.
    let end = |lines: &mut dyn Iterator<Item = &Line<'_>>| {
        lines.map(|line| core(line.text).to_owned()).find(|text| !text.is_empty())
    };
    let ends = |lines: &[Line]| (end(&mut lines.iter()), end(&mut lines.iter().rev()));
    let around = texts.len() > 1 && ends(search) == ends(replace);
    if texts.is_empty() || !around && texts.iter().all(|text| olds.contains(text)) {
        return None;
    }
    let place = find::find(replace, file).into_iter().next()?;
    Some(already_applied(&place.lines, file, &Sign::Gone))
}

fn part_of_line(search: &[Line], file: &[Line]) -> Option<Reason> {
    let mut texts = search.iter().map(|line| core(line.text)).filter(|text| !text.is_empty());
    let (text, None) = (texts.next()?, texts.next()) else { return None };
    let lines: Vec<_> = (0..file.len())
        .filter(|i| file[*i].text.contains(text))
        .map(|i| i..i + 1)
        .take(MOST_PLACES)
        .collect();
    let first = lines.first()?.clone();
    let message = format!(
        "a part of a line, found in lines {}: blocks hold whole lines, so copy the whole line",
        numbers(&lines)
    );
    let near = lines
        .iter()
        .take(MOST_QUOTES)
        .flat_map(|range| quotes(file, range.clone()))
        .collect::<Vec<_>>();
    let near = if near.is_empty() { quotes(file, first) } else { near };
    Some(Reason { cause: Cause::PartOfLine, message, near })
}
