//! `nagent-conversations rewind`: goes back to before a turn. The conversation is archived whole and cut. With
//! `--files`, what the removed runs wrote is undone as by `nagent --undo`.

use std::time::Duration;

use serde_json::Value;

use super::Catalog;
use crate::drive::format_block;
use crate::ops::conversations::undo;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::out::Report;
use conversation::compact::plan::begins_turn;
use conversation::format::file::{Block, Piece};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use conversation::protocol::{self, Action, ParsedReply, ReplyItem};
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::archive_name;
use sys::interrupt::Interrupts;
use sys::names::name_some;

/// Maximum number of files that the conversation names.
const NAMED: usize = 20;

/// Goes back to before this turn.
pub fn rewind_conversation(
    catalog: &Catalog,
    prefix: Option<&str>,
    turn: u64,
    files: bool,
) -> Result<Report, Problem> {
    let name = catalog.resolve_name(prefix)?;
    let interrupts = Interrupts::install()?;
    let root = &catalog.root;
    let mut journal =
        ConversationFile::open(root, &name, Duration::ZERO, &interrupts, &mut |_| ())?;
    let cut = find_cut(journal.text(), journal.pieces(), turn)
        .ok_or_else(|| no_such_turn(&name, journal.pieces(), turn))?;
    let undone = if files { undo_files(catalog, &journal, cut, turn)? } else { Report::done("") };
    if let Some(error) = &undone.error {
        let error = Some(format!("{error}; conversation {name} is unchanged"));
        return Ok(Report { error, ..undone });
    }
    let files = undone.json.get("files").and_then(Value::as_array).into_iter().flatten();
    let paths = files.filter_map(|file| file["source_path"].as_str()).map(quote_name);
    let restored = name_some(&paths.collect::<Vec<_>>(), NAMED, ", ");
    let of_files = match restored.as_str() {
        "" => "Files were not changed.".to_owned(),
        paths => format!("These files are as they were before: {paths}"),
    };
    let archive = archive_name(&name);
    let notice = Block::new("system").with("rewound", &archive).body(format!(
        "The user rewound the conversation to before turn {turn}; everything after this point was removed. \
         Child conversations were not rewound.\n{of_files}"
    ));
    let start = journal.pieces().get(cut).map_or(journal.text().len(), |piece| piece.span.start);
    let kept = journal.text()[..start].trim_end_matches('\n');
    let gap = if kept.is_empty() { "" } else { "\n\n" };
    let new = format!("{kept}{gap}{}", format_block(&notice));
    let link = Block::new("system")
        .with("rewound_into", &name)
        .body(format!("this is conversation {name} before it was rewound to before turn {turn}"));
    journal.replace(&new, &archive, &format_block(&link)).map_err(|error| {
        Problem::failed(match restored.as_str() {
            "" => format!("{error:#}"),
            paths => format!(
                "files were restored ({paths}), but the conversation could not be written: {error:#}. Run the same \
                 command again to complete it"
            ),
        })
    })?;
    let archive = root.conversation(&archive).display().to_string();
    let text = format!(
        "conversation {name} is back to before turn {turn}; the full text is archived in {archive}\n{}",
        undone.text
    );
    Ok(Report { text, ..undone }
        .with("name", name)
        .with("path", journal.path().display().to_string())
        .with("archived_path", archive)
        .with("turn", turn))
}

/// Undoes what the removed runs wrote, all or none. Their first `nagent-turn-status` names each.
fn undo_files(
    catalog: &Catalog,
    journal: &ConversationFile,
    cut: usize,
    turn: u64,
) -> Result<Report, Problem> {
    let (kept, removed) = journal.pieces().split_at(cut);
    let last = kept.iter().rfind(|piece| piece.get("run").is_some());
    let first = removed.iter().find(|piece| piece.name() == Some("nagent-turn-status"));
    let run = first.and_then(|piece| piece.get("run"));
    // A child that was asked twice by one run is of that run both times.
    if run.is_none() || last.is_some_and(|last| last.get("run") == run) {
        let begun = last.and_then(|piece| piece.number("turn"));
        let advice = match begun {
            Some(first) => format!("--turn {first} goes back to where it began"),
            None => "without --files only the conversation is rewound".to_owned(),
        };
        return Err(Problem::failed(format!(
            "nothing was undone: no run is known to have begun with turn {turn}; {advice}"
        )));
    }
    let runs: Vec<&str> = removed.iter().filter_map(|piece| piece.get("run")).collect();
    let mut args = RunArgs::default();
    args.model.root = Some(catalog.root.folder.clone());
    let which = ConversationArgs::default();
    let mut call = Call::new("nagent-conversations", &args, &which)?;
    journal.name().clone_into(&mut call.name);
    undo::undo_removed(&call, &runs)
}

/// The piece that a turn begins with: its reply, or its prompt with what was shown before it, if it is the first after that.
fn find_cut(text: &str, pieces: &[Piece], turn: u64) -> Option<usize> {
    let is_it = |piece: &Piece| {
        piece.name() == Some("nagent-turn-status") && piece.number("turn") == Some(turn)
    };
    let status = pieces.iter().position(is_it)?;
    let mut cut = (0..=status).rev().find(|at| begins_turn(pieces, *at))?;
    if cut > 0 && pieces[cut - 1].name() == Some("user-prompt") {
        while cut > 0 && matches!(pieces[cut - 1].name(), Some("user-prompt" | "context-update")) {
            cut -= 1;
        }
        // Files that were shown with the prompt, where they are not results of the reply before.
        while cut > 0
            && pieces[cut - 1].name() == Some("nagent-read-result")
            && !reply_before_reads(text, pieces, cut)
        {
            cut -= 1;
        }
    }
    Some(cut)
}

/// Whether the last reply before a piece reads a file.
fn reply_before_reads(text: &str, pieces: &[Piece], at: usize) -> bool {
    let reply = pieces[..at].iter().rfind(|piece| piece.name() == Some("agent-response"));
    let parsed = reply.map(|reply| protocol::parse_reply(reply.body_text(text)));
    let Some(ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) = parsed else {
        return false;
    };
    items.iter().any(|item| matches!(item, ReplyItem::Action(Action::Read { .. })))
}

/// The error for a turn that a conversation does not have.
pub(super) fn no_such_turn(name: &str, pieces: &[Piece], turn: u64) -> Problem {
    let turns = pieces.iter().filter(|piece| piece.name() == Some("nagent-turn-status"));
    let mut turns = turns.filter_map(|piece| piece.number("turn"));
    let Some(first) = turns.next() else {
        return Problem::failed(format!("conversation {name} has no turns"));
    };
    let last = turns.next_back().unwrap_or(first);
    Problem::failed(format!(
        "conversation {name} has no turn {turn}; it has the turns {first} to {last}, and an archive may have others"
    ))
}
