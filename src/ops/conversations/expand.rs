//! `nagent-conversations expand`: puts back what a compaction took out of a conversation, from the archive that has it.

use std::collections::HashSet;
use std::ops::Range;

use super::Catalog;
use super::changes::lock_unused;
use crate::out::Report;
use conversation::compact::notice::Notice;
use conversation::compact::plan::begins_turn;
use conversation::compact::token_estimate::TokenEstimate;
use conversation::format::file::{self, Piece};
use conversation::limits;
use conversation::problem::Problem;
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::replace_conversation;
use sys::fs;

/// Numbers of turns, first and last.
pub type Turns = (u64, u64);

/// Undoes the last compaction, or puts back only these turns, from its archive or an older one.
pub fn expand_conversation(
    catalog: &Catalog,
    prefix: Option<&str>,
    turns: Option<Turns>,
) -> Result<Report, Problem> {
    let name = catalog.resolve_name(prefix)?;
    let root = &catalog.root;
    let _lock = lock_unused(catalog, &name)?;
    let journal = ConversationFile::read_only(root, &name)?;
    let (text, pieces) = (journal.text(), journal.pieces());
    let Some(at) = pieces.iter().rposition(|piece| Notice::read(piece).is_some()) else {
        return Err(Problem::failed(format!(
            "conversation {name} is not compacted: there is nothing to put back"
        )));
    };
    let new = match turns {
        None => {
            let archive = Archive::find_archive(catalog, &pieces[at])?;
            let end = archive.find_removed_end(&pieces[at])?;
            let rest = text[pieces[at].span.end..].trim_start_matches('\n');
            format!("{}\n\n{rest}", archive.text[..end].trim_end_matches('\n'))
        }
        Some(turns) => insert_turns(catalog, text, pieces, at, turns)?,
    };
    if let Some(trouble) = file::parse(&new).trouble {
        return Err(Problem::failed(format!(
            "conversation {name} would be damaged ({trouble}); it was not changed"
        )));
    }
    let compacted = replace_conversation(root, &name, &new)?;
    let compacted = compacted.map(|path| path.display().to_string());
    let tokens = TokenEstimate::from_pieces(&file::parse(&new).pieces).tokens(new.len());
    let what = match turns {
        Some((first, last)) => format!("turns {first} to {last} are back"),
        None => "what was taken out is back".to_owned(),
    };
    let text = format!(
        "{what}: conversation {name} has about {tokens} tokens now; as it was before: {}\n",
        compacted.as_deref().unwrap_or_default()
    );
    Ok(Report::done(text)
        .with("name", name.clone())
        .with("path", root.conversation(&name).display().to_string())
        .with("archived_path", compacted)
        .with("tokens", tokens))
}

/// The archive of a compaction, without the block that leads on.
struct Archive {
    text: String,
    pieces: Vec<Piece>,
}

impl Archive {
    fn find_archive(catalog: &Catalog, notice: &Piece) -> Result<Self, Problem> {
        let name = Notice::read(notice).map(|notice| notice.archive).unwrap_or_default();
        sys::root::check_name(name).map_err(Problem::failed)?;
        let path = catalog.root.conversation(name);
        let text = fs::read_text(&path, limits::CONVERSATION)?.ok_or_else(|| {
            Problem::failed(format!(
                "the archive {name} is missing (nagent-conversations remove moves conversations to {})",
                catalog.root.trash_folder().display()
            ))
        })?;
        let mut pieces = file::parse(&text).pieces;
        pieces.retain(|piece| piece.get("compacted_into").is_none());
        Ok(Self { text, pieces })
    }

    /// Finds the end of the removed part: before the turns that the notice kept.
    fn find_removed_end(&self, notice: &Piece) -> Result<usize, Problem> {
        let until = Notice::read(notice).and_then(|notice| notice.until);
        let is_begin = |until: &usize| {
            *until >= self.text_end() && *until <= self.text.len()
                || self.pieces.iter().any(|it| it.span.start == *until)
        };
        until.filter(is_begin).ok_or_else(|| {
            Problem::failed(
                "the archive, or the block that names it, was edited, so nothing can be put back safely; copy the text from the \
                 archive by hand",
            )
        })
    }

    /// The end of the old text, before the block that names the compacted conversation.
    fn text_end(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.span.end)
    }

    /// The pieces of these turns, with the prompts and results that belong to them.
    fn find_turns(&self, (first, last): Turns) -> Option<Range<usize>> {
        let is_status = |piece: &Piece| piece.name() == Some("nagent-turn-status");
        let find = |turn| {
            self.pieces
                .iter()
                .position(|piece| is_status(piece) && piece.number("turn") == Some(turn))
        };
        let is_begin = |at: &usize| begins_turn(&self.pieces, *at);
        let mut start = (0..=find(first)?).rev().find(is_begin)?;
        while start > 0 && self.pieces[start - 1].name() == Some("user-prompt") {
            start -= 1;
        }
        let end = (find(last)? + 1..self.pieces.len()).find(is_begin);
        Some(start..end.unwrap_or(self.pieces.len()))
    }
}

/// The text with these turns before the notice at `at`. They are looked for in its archive, and in those that came before.
fn insert_turns(
    catalog: &Catalog,
    text: &str,
    pieces: &[Piece],
    at: usize,
    turns: Turns,
) -> Result<String, Problem> {
    let is_here = |piece: &Piece| {
        piece.number("turn").is_some_and(|number| (turns.0..=turns.1).contains(&number))
    };
    if pieces.iter().any(is_here) {
        return Err(Problem::failed(format!(
            "some of the turns {} to {} are in the conversation already; name only missing turns",
            turns.0, turns.1
        )));
    }
    let mut archive = Archive::find_archive(catalog, &pieces[at])?;
    let mut seen = HashSet::new();
    let range = loop {
        if let Some(range) = archive.find_turns(turns) {
            break range;
        }
        let older = archive.pieces.iter().rfind(|piece| Notice::read(piece).is_some());
        let is_new = |notice: &&Piece| seen.insert(notice.get("compacted").map(str::to_owned));
        let Some(older) = older.filter(is_new) else {
            return Err(Problem::usage(format!(
                "no archive of this conversation has all of the turns {} to {}; each checkpoint names the turns of its archive",
                turns.0, turns.1
            )));
        };
        archive = Archive::find_archive(catalog, older)?;
    };
    let put_back = &archive.pieces[range];
    let is_back = |piece: &Piece| {
        piece.name() == Some("user-prompt")
            && put_back
                .iter()
                .any(|back| back.name() == Some("user-prompt") && back.get("at") == piece.get("at"))
    };
    let mut new = String::new();
    for piece in pieces[..at].iter().filter(|piece| !is_back(piece)) {
        new.push_str(&format!("{}\n\n", &text[piece.span.clone()]));
    }
    for piece in put_back {
        new.push_str(&format!("{}\n\n", &archive.text[piece.span.clone()]));
    }
    new.push_str(&text[pieces[at].span.start..]);
    Ok(new)
}
