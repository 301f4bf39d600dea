//! Finds what a killed run left in an input's conversation: an answer is not asked for again, and unfinished work
//! continues.

use crate::ops::run::opening::PROMPT_ID;
use crate::overview::{Overview, TurnsUsage};
use conversation::exit::Exit;
use conversation::format::file::Piece;
use conversation::problem::Problem;
use conversation::protocol::{ParsedReply, ReplyItem, TagSet, parse_reply_with};
use sys::conversation_file::ConversationFile;
use sys::messages;
use sys::root::Root;
use sys::run_note::RunEnd;

/// The state of an input's run in its conversation.
#[derive(Debug, PartialEq)]
pub(super) enum Done {
    /// Its prompt is not there.
    Nothing,
    /// The prompt, and perhaps replies, but no answer. `is_last`: nobody has given another prompt since.
    Part {
        /// What the replies took.
        usage: TurnsUsage,
        /// Whether the run can go on.
        is_last: bool,
    },
    /// The answer, accepted, and what it took.
    Answer(String, TurnsUsage),
}

/// Whether a conversation has prompts that no `nagent-each` has given.
pub(super) fn has_other_prompts(root: &Root, name: &str) -> Result<bool, Problem> {
    let conversation = ConversationFile::read_only(root, name)?;
    let is_other =
        |piece: &Piece| piece.name() == Some("user-prompt") && piece.get(PROMPT_ID).is_none();
    Ok(conversation.pieces().iter().any(is_other))
}

/// Looks into a conversation for what came after the prompt of this id, up to somebody else's. `is_checked`: an answer counts
/// only if the run has recorded that it was accepted.
pub(super) fn find_done(
    root: &Root,
    name: &str,
    prompt: &str,
    is_checked: bool,
) -> Result<Done, Problem> {
    let conversation = ConversationFile::read_only(root, name)?;
    let text = conversation.text();
    // What goes on after a kill has a prompt of its own with the same id; a message goes to the run that is there.
    let mut is_ours = false;
    let after = conversation.pieces().iter().filter(|piece| {
        if piece.name() == Some("user-prompt") && piece.get(messages::ID).is_none() {
            is_ours = piece.get(PROMPT_ID) == Some(prompt);
        }
        is_ours
    });
    let after: Vec<Piece> = after.cloned().collect();
    if after.is_empty() {
        return Ok(Done::Nothing);
    }
    let usage = Overview::read(text, &after).usage;
    let is_last = is_ours;
    let Some(last) = after.iter().rposition(|piece| piece.name() == Some("agent-response")) else {
        return Ok(Done::Part { usage, is_last });
    };
    let has_failed = after[last..].iter().any(|piece| piece.get("exit").is_some());
    let end = RunEnd::read(root, name).filter(|end| end.prompt.as_deref() == Some(prompt));
    let is_accepted = end.is_some_and(|end| end.exit_code == Exit::Done.code());
    match parse_reply_with(after[last].body_text(text), TagSet::ALL) {
        ParsedReply::Whole(items) if !has_failed && (is_accepted || !is_checked) => {
            let responses: Option<Vec<String>> = items
                .into_iter()
                .map(|item| match item {
                    ReplyItem::Response(text) => Some(text),
                    ReplyItem::Action(_) => None,
                })
                .collect();
            Ok(match responses {
                Some(texts) => Done::Answer(texts.join("\n"), usage),
                None => Done::Part { usage, is_last },
            })
        }
        _ => Ok(Done::Part { usage, is_last }),
    }
}
