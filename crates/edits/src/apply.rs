//! Applies edit blocks to a text; returns the new text, or refusals. Pure.
//!
//! A block is applied only if it is certain which lines it refers to. All blocks are searched for in the original text,
//! so their order does not matter; either all apply or none. The search is tolerant ([`find`](self)), the writing is
//! not: lines that search and replacement share keep the file's bytes, and new lines get the file's indentation and
//! line ends.

mod align;
mod find;
mod indent;
mod lines;
mod near;
mod outcome;
mod partial;
mod quote;
mod refuse;
mod write;

#[cfg(test)]
mod tests;

use conversation::format::edit::EditBlock;
use lines::File;
pub use outcome::{Applied, Cause, Change, EditRefusal, How, Quote};
pub use refuse::ADVICE_ON_ALL;
use std::ops::Range;

/// The change of a block to the lines of the file.
struct Edit {
    lines: Range<usize>,
    written: write::NewText,
    how: How,
    /// The number of places of the search that it replaces.
    places: usize,
}

/// Applies all blocks to a text, or none; then it returns a refusal for each block that cannot be applied. `everywhere`: each at
/// every place where its search is found.
pub fn apply(
    text: &str,
    blocks: &[EditBlock],
    everywhere: bool,
) -> Result<Applied, Vec<EditRefusal>> {
    let (mark, body) = lines::split_mark(text);
    let file = File::new(lines::split(body));
    let mut edits = Vec::with_capacity(blocks.len());
    let mut refusals = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        match plan_edits(body, &file, !mark.is_empty(), block, everywhere) {
            Ok(planned) => edits.extend(planned.into_iter().map(|edit| (index, edit))),
            Err(refusal) => {
                refusals.push(EditRefusal { block: index + 1, line: block.line, ..refusal });
            }
        }
    }
    for refusal in &mut refusals {
        refuse::mention_other_blocks(refusal, blocks);
    }
    edits.sort_by_key(|(index, edit)| (edit.lines.start, *index));
    for pair in edits.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        // An empty file has a single place, where every block would write.
        if second.lines.start < first.lines.end
            || (first.lines.is_empty() && second.lines.is_empty())
        {
            let refusal = refuse::refuse_overlap(&file, &first.lines, *before, &second.lines);
            let line = blocks[*after].line;
            refusals.push(EditRefusal { block: after + 1, line, ..refusal });
        }
    }
    if !refusals.is_empty() {
        refusals.sort_by_key(|refusal| refusal.block);
        return Err(refusals);
    }

    let mut out = String::with_capacity(
        text.len() + edits.iter().map(|(_, edit)| edit.written.text.len()).sum::<usize>(),
    );
    out.push_str(mark);
    let (mut at, mut gone, mut come) = (0, 0, 0);
    let mut changes = Vec::with_capacity(edits.len());
    for (index, edit) in &edits {
        let (from, to) = lines::bytes(&file, &edit.lines);
        out.push_str(&body[at..from]);
        out.push_str(&edit.written.text);
        at = to;
        let (removed, added, how) = (edit.written.removed, edit.written.added, edit.how);
        let first_line = edit.lines.start + come - gone + 1;
        changes.push((*index, Change { first_line, removed, added, how }));
        gone += removed;
        come += added;
    }
    out.push_str(&body[at..]);
    changes.sort_by_key(|(index, _)| *index);
    Ok(Applied {
        text: out,
        changes: changes.into_iter().map(|(_, change)| change).collect(),
        places: edits.iter().map(|(_, edit)| edit.places).sum(),
    })
}

/// Plans the edits of one block, at its only place or at all of its places.
fn plan_edits(
    text: &str,
    file: &File,
    marked: bool,
    block: &EditBlock,
    everywhere: bool,
) -> Result<Vec<Edit>, EditRefusal> {
    let (search, replace) = (lines::split(&block.search), lines::split(&block.replace));
    let has_text = search.iter().any(|line| !lines::is_blank(line.text));
    let places = if everywhere && has_text {
        find::find_places(&search, file, usize::MAX)
    } else {
        Vec::new()
    };
    if everywhere
        && places.is_empty()
        && let Some(replaced) = partial::replace_inside(block, &search, file)
    {
        let edit = |line: partial::ReplacedLine| Edit {
            lines: line.number..line.number + 1,
            written: write::NewText { text: line.text, removed: 1, added: line.added },
            how: How::PartOfLine,
            places: line.places,
        };
        return Ok(replaced.into_iter().map(edit).collect());
    }
    if places.len() < 2 {
        return plan_edit(text, file, marked, block).map(|edit| vec![edit]);
    }
    let is_new =
        |place: &&find::MatchPlace| find::already_applied(place, &search, &replace, file).is_none();
    let write = |place: &find::MatchPlace| {
        write::write(place, &search, &replace, file)
            .map(|written| Edit { lines: place.lines.clone(), written, how: place.how, places: 1 })
            .map_err(|unclear| refuse::refuse_unclear(place, unclear, file))
    };
    let edits: Vec<Edit> = places.iter().filter(is_new).map(write).collect::<Result<_, _>>()?;
    if edits.is_empty() {
        plan_edit(text, file, marked, block).map(|edit| vec![edit])
    } else {
        Ok(edits)
    }
}

/// Plans one block, without regard to the others.
fn plan_edit(
    text: &str,
    file: &File,
    marked: bool,
    block: &EditBlock,
) -> Result<Edit, EditRefusal> {
    let (search_mark, search) = lines::split_mark(&block.search);
    let (_, replace) = lines::split_mark(&block.replace);
    // A byte order mark that is shared, or that the file has, is kept.
    let replace = if search_mark.is_empty() && !marked { block.replace.as_str() } else { replace };
    if search.is_empty() && file.is_empty() {
        let added = lines::split(replace).len();
        if added == 0 {
            return Err(refuse::refuse_unchanged());
        }
        return Ok(Edit {
            lines: 0..0,
            written: write::NewText { text: replace.to_owned(), removed: 0, added },
            how: How::Exact,
            places: 1,
        });
    }
    let (search, replace) = (lines::split(search), lines::split(replace));
    if search.iter().all(|line| lines::is_blank(line.text)) {
        return Err(refuse::refuse_empty(file));
    }
    let same =
        search.len() == replace.len() && search.iter().zip(&replace).all(|(s, r)| s.text == r.text);
    if same {
        return Err(refuse::refuse_unchanged());
    }
    let mut places = find::find_places(&search, file, find::MOST_PLACES);
    if places.first().is_none_or(|place| place.how >= How::Quotes)
        && let Some(typed) = lines::typed_blanks(block)
    {
        return plan_edit(text, file, marked, &typed)
            .map(|edit| Edit { how: edit.how.max(How::Quotes), ..edit });
    }
    let place = match places.len() {
        0 => {
            let whole = partial::complete_block(block, &search, &replace, file);
            let whole = whole.ok_or_else(|| refuse::refuse_missing(&search, &replace, file))?;
            return plan_edit(text, file, marked, &whole)
                .map(|edit| Edit { how: How::PartOfLine, ..edit });
        }
        1 => places.remove(0),
        _ => return Err(refuse::refuse_ambiguous(&places, file)),
    };
    if let Some(lines) = find::already_applied(&place, &search, &replace, file) {
        let advice = "; to insert it once more, add more of the lines around it";
        return Err(refuse::already_applied(&lines, file, advice));
    }
    let written = write::write(&place, &search, &replace, file)
        .map_err(|unclear| refuse::refuse_unclear(&place, unclear, file))?;
    let (from, to) = lines::bytes(file, &place.lines);
    if text[from..to] == written.text {
        return Err(refuse::already_applied(&place.lines, file, ", so there is nothing to do"));
    }
    let same_mark = (marked && place.lines.start == 0) != search_mark.is_empty();
    let how = if same_mark { place.how } else { place.how.max(How::LineEnds) };
    Ok(Edit { lines: place.lines, written, how, places: 1 })
}
