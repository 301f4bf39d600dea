//! What a stream has given so far: the text, and what else is known of the reply.

use super::reasoning::ReasoningFilter;
use conversation::limits;
use conversation::model::{ApiError, ErrorKind, StopReason, Usage};

/// Maximum size of the quoted words of a refusal, in bytes.
const MAX_REFUSAL: usize = 8 << 10;

/// A reply that is still arriving. An [`Api`](super::api::Api) fills it, event by event.
#[derive(Default)]
pub struct PartialReply {
    text: String,
    refusal: String,
    /// The message that the last text belonged to, where a reply has several.
    item: Option<u64>,
    /// The item whose input is the reply, where the model is held to a grammar by a tool.
    pub tool: Option<u64>,
    /// The numbers of the messages that are commentary.
    asides: Vec<u64>,
    /// Their text, used as the answer if there is no other.
    aside: String,
    reasoning: Option<ReasoningFilter>,
    /// Where the stream is.
    pub place: StreamPosition,
    /// Token counts, as far as they arrived.
    pub usage: Option<Usage>,
    /// The model that answers.
    pub model: Option<String>,
    /// Why the model stopped. Set when the end mark has arrived: the reply is whole.
    pub stop: Option<StopReason>,
    /// Why the model stopped, where the API says so before the end mark.
    pub announced_stop: Option<StopReason>,
    /// Nothing that follows matters.
    pub is_done: bool,
    /// Reasoning that arrived and that nobody has taken yet. Never part of the text.
    pub thoughts: String,
}

/// Where a stream is, as far as its events say it.
#[derive(Debug, Default)]
pub struct StreamPosition {
    /// The number of the last event.
    pub event: Option<u64>,
    /// The number of the last piece of text.
    pub piece: Option<u64>,
    /// The message has begun.
    pub has_begun: bool,
    /// The block that is open.
    pub block: Option<u64>,
    /// Some of this item has arrived.
    pub has_item: bool,
    /// Some of this part of the item has arrived.
    pub has_part: bool,
}

impl PartialReply {
    /// An empty reply; with `filter_reasoning`, a `<think>` block at its start is left out.
    pub fn new(filter_reasoning: bool) -> Self {
        Self { reasoning: filter_reasoning.then(ReasoningFilter::default), ..Self::default() }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether neither text nor a refusal arrived.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty()
    }

    /// Appends a piece of the answer.
    pub fn push_text(&mut self, piece: &str) -> Result<(), ApiError> {
        let piece = match &mut self.reasoning {
            Some(reasoning) => reasoning.filter(piece, &mut self.thoughts),
            None => piece.into(),
        };
        self.append(&piece)
    }

    /// Appends a piece of reasoning, which the user may see. It is bounded like the text.
    pub fn push_thought(&mut self, piece: &str) {
        if self.thoughts.len() + piece.len() <= limits::REPLY_TEXT {
            self.thoughts.push_str(piece);
        }
    }

    /// The message with this number comments on the work: its text is shown like reasoning, and is not the answer if there is one.
    pub fn mark_commentary(&mut self, item: Option<u64>) {
        self.asides.extend(item);
    }

    /// Appends a piece of the message with this number. Between messages goes a blank line: a tag must not end up within a line.
    pub fn push_text_of(&mut self, item: Option<u64>, piece: &str) -> Result<(), ApiError> {
        if piece.is_empty() {
            return Ok(());
        }
        if item.is_some_and(|item| self.asides.contains(&item)) {
            self.push_thought(piece);
            if self.aside.len() + piece.len() <= limits::REPLY_TEXT {
                self.aside.push_str(piece);
            }
            return Ok(());
        }
        let is_new = self.item != item && !self.text.is_empty() && !self.text.ends_with('\n');
        self.item = item;
        if is_new {
            self.push_text("\n\n")?;
        }
        self.push_text(piece)
    }

    /// Appends a piece of a refusal. Only the beginning is ever shown.
    pub fn push_refusal(&mut self, piece: &str) {
        if self.refusal.len() < MAX_REFUSAL {
            self.refusal.push_str(piece);
        }
    }

    /// Takes the text at the end of the stream; a refusal is an error.
    pub fn finish_text(&mut self) -> Result<String, ApiError> {
        if let Some(held_back) = self.reasoning.as_mut().map(ReasoningFilter::finish) {
            self.append(&held_back)?;
        }
        if self.text.is_empty() {
            self.text = std::mem::take(&mut self.aside);
        }
        if !self.refusal.trim().is_empty() {
            let message = format!("the model refused: {}", self.refusal.trim());
            return Err(ApiError::new(ErrorKind::Refused, &message));
        }
        Ok(std::mem::take(&mut self.text))
    }

    fn append(&mut self, piece: &str) -> Result<(), ApiError> {
        if self.text.len() + piece.len() > limits::REPLY_TEXT {
            let message = format!("the reply is longer than {} MiB", limits::REPLY_TEXT >> 20);
            return Err(ApiError::new(ErrorKind::Other, &message));
        }
        self.text.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded() {
        let mut reply = PartialReply::default();
        let half = "a".repeat(limits::REPLY_TEXT / 2);
        assert!(reply.push_text(&half).is_ok());
        assert!(reply.push_text(&half).is_ok());
        let error = reply.push_text("a").unwrap_err();
        assert!(error.message.contains("longer than 64 MiB"), "{error}");
        assert_eq!(reply.text().len(), limits::REPLY_TEXT);
    }
}
