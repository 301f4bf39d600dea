//! Messages of the user's to the run: read before each request and before the end, and removed when they are durable.

use anyhow::Result;

use super::inbox::describe_waiting;
use super::progress_event::ProgressEvent;
use super::runner::Runner;
use conversation::format::file::Block;
use conversation::limits;
use conversation::memory::changes::first_line;
use sys::{clock, messages};

impl Runner<'_> {
    /// Takes new messages as blocks, to append next. With `is_dry` they stay in their folder.
    ///
    /// # Errors
    /// A text cannot be stored.
    pub fn receive(&mut self, is_dry: bool) -> Result<Vec<Block>> {
        let mut note = |text: &str| (self.on_progress)(ProgressEvent::Note(text));
        let texts = self.inbox.take_messages(&self.context.root, &self.conversation, &mut note);
        let mut blocks = Vec::with_capacity(texts.len());
        for (id, body_text) in texts {
            self.note(&format!("message from the user: {}", first_line(&body_text)));
            let block = Block::new("user-prompt").with("at", clock::now()).with(messages::ID, id);
            blocks.push(if body_text.len() > self.most_shown(limits::PROMPT_WHOLE) {
                self.show_long(block, body_text, is_dry)?
            } else {
                self.show_short(block, &body_text, is_dry)?
            });
        }
        Ok(blocks)
    }

    /// Notes, at the end of a run, that messages wait for the next one.
    pub fn note_waiting_messages(&mut self) {
        if let Some(note) = describe_waiting(&self.context.root, self.conversation.name()) {
            self.note(&note);
        }
    }
}
