//! What an input's conversation already has of it, where the run on it was killed before its result was written down: an answer is
//! not asked for again, and what was begun goes on.

use crate::exit::Exit;
use crate::format::conversation::Piece;
use crate::overview::{Overview, TurnsUsage};
use crate::problem::Problem;
use crate::protocol::{Item, ParsedReply, TagSet, parse_reply_with};
use crate::sys::conversation_file::ConversationFile;
use crate::sys::root::Root;
use crate::sys::run_note::RunEnd;

/// What there is of an input's run.
#[derive(Debug, PartialEq)]
pub(super) enum Done {
    /// No reply: the prompt is given again.
    Nothing,
    /// Replies, and no answer: the run goes on.
    Part(TurnsUsage),
    /// The answer, accepted, and what it took.
    Answer(String, TurnsUsage),
}

/// Looks into a conversation for what came after the first prompt that was given at or after `since`. `is_checked`: an answer
/// counts only if the run has recorded that it was accepted.
pub(super) fn find_done(
    root: &Root,
    name: &str,
    since: &str,
    is_checked: bool,
) -> Result<Done, Problem> {
    let conversation = ConversationFile::read_only(root, name)?;
    let (text, pieces) = (conversation.text(), conversation.pieces());
    let is_ours = |piece: &Piece| {
        let is_prompt = piece.name() == Some("user-prompt") && piece.get("message").is_none();
        is_prompt && piece.get("at").is_some_and(|at| at >= since)
    };
    // Not the last one: what goes on after a kill has a prompt of its own.
    let Some(prompt) = pieces.iter().position(is_ours) else { return Ok(Done::Nothing) };
    let after = &pieces[prompt..];
    let usage = Overview::read(text, after).usage;
    let Some(last) = after.iter().rposition(|piece| piece.name() == Some("agent-response")) else {
        return Ok(Done::Nothing);
    };
    let has_failed = after[last..].iter().any(|piece| piece.get("exit").is_some());
    let end = RunEnd::read(root, name).filter(|end| end.ended.as_str() >= since);
    let is_accepted = end.is_some_and(|end| end.exit_code == Exit::Done.code());
    match parse_reply_with(after[last].text(text), TagSet::ALL) {
        ParsedReply::Whole(items) if !has_failed && (is_accepted || !is_checked) => {
            let responses: Option<Vec<String>> = items
                .into_iter()
                .map(|item| match item {
                    Item::Response(text) => Some(text),
                    Item::Action(_) => None,
                })
                .collect();
            Ok(responses.map_or(Done::Part(usage), |texts| Done::Answer(texts.join("\n"), usage)))
        }
        _ => Ok(Done::Part(usage)),
    }
}
