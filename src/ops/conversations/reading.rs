//! Shows and exports one conversation.

use serde_json::json;

use super::rewind::no_such_turn;
use super::{Catalog, Conversation};
use crate::out::{self, PagedFrom, Report};
use conversation::format::harmless;
use conversation::problem::Problem;
use view::overview::transcript::{self, EntryKind, TranscriptEntry};

/// Lines of a result that are shown unless a single turn is asked for.
const RESULT_LINES: usize = 10;

/// Reads a conversation. A note on stderr says that it is shown up to its damage only.
fn read(catalog: &Catalog, name: Option<&str>) -> Result<Conversation, Problem> {
    let name = catalog.resolve_name(name)?;
    let one = catalog.read_conversation(&name).ok_or_else(|| {
        Problem::failed(format!(
            "conversation {name} is not a file; nagent-conversations list shows all"
        ))
    })?;
    match &one.trouble {
        Some(trouble) if one.parsed.pieces.is_empty() => {
            return Err(Problem::failed(format!("{name}: {trouble}")));
        }
        Some(trouble) => out::print_line(&format!(
            "nagent-conversations: note: {name} is damaged and is shown up to there: {trouble}"
        )),
        None => {}
    }
    Ok(one)
}

/// Shows prompts, answers, actions and results, without the first context. A terminal gets them in a pager.
pub fn show_conversation(
    catalog: &Catalog,
    name: Option<&str>,
    turn: Option<u64>,
    last: Option<usize>,
) -> Result<Report, Problem> {
    let one = read(catalog, name)?;
    let mut entries = transcript::entries(&one.text, &one.parsed.pieces);
    if let Some(turn) = turn {
        entries = select_turn(entries, turn);
        if entries.is_empty() {
            return Err(no_such_turn(&one.name, &one.parsed.pieces, turn));
        }
    }
    if let Some(last) = last {
        entries.drain(..entries.len().saturating_sub(last));
    }
    let most = if turn.is_some() { usize::MAX } else { RESULT_LINES };
    let text = transcript::to_text(&entries, most);
    let text = match &one.trouble {
        None if text.is_empty() => format!("{} is empty\n", one.name),
        _ => text,
    };
    // It is for reading, also behind a pager or `tail`: what a command printed must not steer the terminal.
    let text = harmless::escape_text(&text);
    let report = Report::wrapped(&text).with("name", one.name).with("entries", json!(entries));
    Ok(Report { paged: Some(PagedFrom::Start), ..report })
}

/// The entries of a turn, with its prompt if it is the first turn after that.
fn select_turn(entries: Vec<TranscriptEntry>, turn: u64) -> Vec<TranscriptEntry> {
    let is_of_turn =
        |entry: &TranscriptEntry| entry.turn == turn && entry.kind != EntryKind::Prompt;
    let Some(first) = entries.iter().position(is_of_turn) else { return Vec::new() };
    let before = &entries[..first];
    let prompt = before.iter().rposition(|entry| entry.kind == EntryKind::Prompt);
    let is_first = |at: &usize| before[*at..].iter().all(|entry| entry.turn == before[*at].turn);
    let prompt = prompt.filter(is_first);
    let selected = entries.into_iter().enumerate();
    let selected = selected.filter(|(at, entry)| is_of_turn(entry) || Some(*at) == prompt);
    selected.map(|(_, entry)| entry).collect()
}

/// Prints a conversation as Markdown.
pub fn export_conversation(catalog: &Catalog, name: Option<&str>) -> Result<Report, Problem> {
    let one = read(catalog, name)?;
    let entries = transcript::entries(&one.text, &one.parsed.pieces);
    let text = transcript::to_markdown(&one.name, &entries);
    Ok(Report::exactly(text.clone()).with("name", one.name).with("document", text))
}
