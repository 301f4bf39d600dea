//! The messages to a run: those read but not yet appended, and the problems with others.

use conversation::format::numbers::format_count;
use sys::conversation_file::ConversationFile;
use sys::messages::{self, UserMessage};
use sys::root::Root;

/// The messages of a run.
#[derive(Debug, Default)]
pub struct Inbox {
    /// The conversation and the ids of those that were read but not yet appended.
    taken: Vec<(String, String)>,
    /// The problems that were noted already: each is noted once.
    noted: Vec<String>,
}

impl Inbox {
    /// The messages that have come since the last check, with their ids. Calls `note` for those that cannot be read.
    pub(super) fn take_messages(
        &mut self,
        root: &Root,
        conversation: &ConversationFile,
        note: &mut dyn FnMut(&str),
    ) -> Vec<(String, Vec<u8>)> {
        let name = conversation.name();
        let found = match messages::read_all(root, name) {
            Ok(found) => found,
            Err(error) => {
                self.note_once(format!("messages cannot be read: {error:#}"), note);
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for UserMessage { id, text } in found {
            let mut pieces = conversation.pieces().iter();
            if pieces.any(|piece| piece.get(messages::ID) == Some(&id)) {
                messages::remove(root, name, &id);
                continue;
            }
            match text {
                Ok(text) => {
                    self.taken.push((name.to_owned(), id.clone()));
                    texts.push((id, text));
                }
                Err(error) => {
                    self.note_once(format!("a message cannot be read: {error:#}"), note);
                }
            }
        }
        texts
    }

    /// Removes the messages that were taken: they are durable now.
    pub(super) fn remove_taken(&mut self, root: &Root) {
        for (name, id) in self.taken.drain(..) {
            messages::remove(root, &name, &id);
        }
    }

    fn note_once(&mut self, text: String, note: &mut dyn FnMut(&str)) {
        if !self.noted.contains(&text) {
            note(&text);
            self.noted.push(text);
        }
    }
}

/// Describes the messages that the run of a conversation has not read.
pub(super) fn describe_waiting(root: &Root, name: &str) -> Option<String> {
    let count = messages::list_ids(root, name).map_or(0, |ids| ids.len() as u64);
    let text = "arrived too late for this run, kept for the next prompt in conversation";
    (count > 0).then(|| format!("{} {text} {name}", format_count(count, "message")))
}
