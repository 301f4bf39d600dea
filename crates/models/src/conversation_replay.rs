//! Plays a conversation as a recording: the replies in its file, in order, and those of the children that it names.
//!
//! As in a recording, the lineage and the prompts select the conversation: a child run plays the child conversation
//! with the same number and prompts. The number of turns in the run's own file selects the turn, so that several runs,
//! each with one prompt, can play one conversation, even if a turn was removed from it.

use conversation::compact::notice::Notice;
use conversation::format::file::Piece;
use conversation::model::Usage;

/// Replaces a reply that was not used and whose file is missing. It is malformed too.
const NOT_HERE: &str = "(a reply that was not used, and is not in this conversation)";

/// A conversation that can be played.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlayedConversation {
    /// The prompts in file order, compared with those of the run.
    prompts: Vec<String>,
    replies: Vec<PlayedReply>,
    /// The conversations of its children, each with its number since the previous prompt.
    pub children: Vec<(u64, String)>,
    /// The conversation that holds the text that a compaction removed from this one.
    pub archive: Option<String>,
}

/// A reply that can be played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedReply {
    /// Its number in the conversation.
    turn: u64,
    /// The model's text, as far as the conversation holds it.
    pub text: String,
    /// The file with the whole text, if only a part of it was used.
    pub kept: Option<String>,
    /// The heads of the results before it.
    pub after: Vec<String>,
    /// Its tokens.
    pub usage: Usage,
}

impl PlayedConversation {
    /// Reads the blocks of a conversation.
    pub fn read(text: &str, pieces: &[Piece]) -> Self {
        let archive = pieces.iter().rev().find_map(Notice::read);
        let archive = archive.map(|notice| notice.archive.to_owned());
        let mut played = Self { archive, ..Self::default() };
        let mut asked = 0;
        let mut reply: Option<String> = None;
        let (mut results, mut before): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece.name() {
                Some("user-prompt") => {
                    // A message to a run in progress does not start another run.
                    asked = if piece.get("message").is_some() { asked } else { 0 };
                    played.prompts.push(piece.body_text(text).to_owned());
                }
                Some("agent-response") => {
                    reply = Some(piece.body_text(text).to_owned());
                    before = std::mem::take(&mut results);
                }
                Some("nagent-turn-status") => {
                    // If a reply was not used, or only in part, a file has the whole of it.
                    let kept = piece.get("invalid").map(str::to_owned);
                    let stored = reply.take();
                    if stored.is_none() {
                        before = std::mem::take(&mut results);
                    }
                    let text = stored.unwrap_or_else(|| NOT_HERE.to_owned());
                    let (after, usage) = (std::mem::take(&mut before), usage_of(piece));
                    let number = piece.number("turn");
                    let turn = number.unwrap_or(played.replies.len() as u64 + 1);
                    played.replies.push(PlayedReply { turn, text, kept, after, usage });
                }
                Some(name) if name.ends_with("-result") => {
                    results.extend(result_head(piece));
                    asked += u64::from(name == "nagent-conversation-result");
                    let child = piece.get("conversation").map(|child| (asked, child.to_owned()));
                    played.children.extend(child);
                }
                _ => {}
            }
        }
        played
    }

    /// Appends the replies after a compaction; this conversation is the archive.
    pub fn append_compacted(&mut self, compacted: Self) {
        // The archive also has the replies that the compaction kept.
        let last = self.replies.iter().map(|reply| reply.turn).max().unwrap_or(0);
        self.replies.extend(compacted.replies.into_iter().filter(|reply| reply.turn > last));
        self.prompts.extend(compacted.prompts.into_iter().skip(self.prompts.len()));
        self.children.extend(compacted.children);
    }

    /// Whether there is nothing to play.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Whether a run with these prompts so far plays this conversation.
    pub fn has_prompts(&self, prompts: &[String]) -> bool {
        !prompts.is_empty() && self.prompts.starts_with(prompts)
    }

    /// The reply of a turn, counted from 1.
    pub fn reply(&self, turn: u64) -> Option<&PlayedReply> {
        self.replies.get(usize::try_from(turn.checked_sub(1)?).ok()?)
    }
}

/// The head of a result, as in recordings: `NAME STATUS exit_code=N`.
pub fn result_head(piece: &Piece) -> Option<String> {
    let name = piece.name().filter(|name| name.ends_with("-result"))?;
    let code = piece.get("exit_code").map(|code| format!(" exit_code={code}"));
    Some(format!("{name} {}{}", piece.get("status").unwrap_or("?"), code.unwrap_or_default()))
}

fn usage_of(status: &Piece) -> Usage {
    let number = |name| status.number(name).unwrap_or(0);
    Usage {
        input: number("tokens_in"),
        cached: number("tokens_cached"),
        output: number("tokens_out"),
        estimated: status.get("estimated").is_some(),
        ..Usage::default()
    }
}
