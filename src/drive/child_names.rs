//! Chooses the conversation of a child. A parent continues the children that its text names and that it started;
//! every other child gets a conversation of its own, whatever conversations there are.

use anyhow::Result;

use conversation::format::file::Piece;
use sys::conversation_file::ConversationFile;
use sys::fs;
use sys::root::{self, Root};
use view::overview::is_id;

/// The conversation of the child that its parent calls `name`. `pieces` is the parent's text.
pub(super) fn choose_conversation(
    root: &Root,
    parent: &str,
    name: &str,
    pieces: &[Piece],
) -> Result<String> {
    if let Some(known) = known_child(pieces, parent, name)
        && was_started_by(root, known, parent)?
    {
        return Ok(known.to_owned());
    }
    let (mut free, mut number) = (child_name(parent, name), 1);
    while fs::is_there(&root.conversation(&free))? {
        number += 1;
        free = child_name(parent, &format!("{name}-{number}"));
    }
    Ok(free)
}

/// The conversation that the last result of this child names.
fn known_child<'a>(pieces: &'a [Piece], parent: &str, name: &str) -> Option<&'a str> {
    pieces.iter().rev().find_map(|piece| {
        let conversation = piece.get("conversation")?;
        let is_it = match piece.get("name") {
            Some(given) => given == name,
            // Older results have no `name`.
            None => conversation == child_name(parent, name),
        };
        (piece.name() == Some("nagent-conversation-result") && is_it).then_some(conversation)
    })
}

/// Whether a conversation has a prompt from another one. True also for a conversation that does not exist yet.
///
/// # Errors
/// It cannot be read.
pub fn was_started_by(root: &Root, child: &str, parent: &str) -> Result<bool> {
    if !fs::is_there(&root.conversation(child))? {
        return Ok(true);
    }
    let conversation = ConversationFile::read_only(root, child)?;
    let pieces = conversation.pieces();
    let prompts = pieces.iter().filter(|piece| piece.name() == Some("user-prompt"));
    let mut from = prompts.filter_map(|prompt| prompt.get("from"));
    // A fork is the same run as its original, and continues its children.
    let origin = parent.rsplit_once('-').filter(|(_, id)| id.len() == 32 && is_id(id));
    let is_it = |from: &str| from == parent || origin.is_some_and(|(origin, _)| from == origin);
    Ok(pieces.is_empty() || from.any(is_it))
}

/// The name of a child's conversation. A name that would be too long is replaced by its hash.
fn child_name(parent: &str, name: &str) -> String {
    let whole = format!("{parent}.{name}");
    match root::check_name(&whole) {
        Ok(()) => whole,
        Err(_) => format!("child-{}", &fs::sha256(whole.as_bytes())[..32]),
    }
}
