//! The state of a reply that is still streaming: the text, and the other facts so far.

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
    /// The message that the last text belonged to, if a reply has several.
    item: Option<u64>,
    /// The tool call whose input is the reply, if the model gets its grammar by a tool.
    pub tool: Option<u64>,
    /// The numbers of the messages that are commentary, whose text is shown like reasoning.
    pub asides: Vec<u64>,
    /// The text of commentary, used as the answer if there is no other.
    aside: String,
    reasoning: Option<ReasoningFilter>,
    /// The position in the stream.
    pub place: StreamPosition,
    /// Token counts, as far as they arrived.
    pub usage: Option<Usage>,
    /// The model that answers.
    pub model: Option<String>,
    /// The stop reason. It is set when the end mark has arrived: the reply is whole.
    pub stop: Option<StopReason>,
    /// The stop reason, if the API sends it before the end mark.
    pub announced_stop: Option<StopReason>,
    /// Whether the rest of the stream is irrelevant.
    pub is_done: bool,
    /// Reasoning that has arrived and was not taken yet. It is never part of the text.
    pub thoughts: String,
}

/// A position in a stream, as far as its events reveal it.
#[derive(Debug, Default)]
pub struct StreamPosition {
    /// The number of the last event.
    pub event: Option<u64>,
    /// The number of the last piece of text.
    pub piece: Option<u64>,
    /// Whether the message has begun.
    pub has_begun: bool,
    /// The id of the message, if it has one.
    pub message: Option<String>,
    /// The open block.
    pub block: Option<u64>,
    /// Whether a part of this item has arrived.
    pub has_item: bool,
    /// Whether some of this part of the item has arrived.
    pub has_part: bool,
}

impl PartialReply {
    /// Creates an empty reply; with `filter_reasoning`, a `<think>` block at its start is left out.
    pub(crate) fn new(filter_reasoning: bool) -> Self {
        Self { reasoning: filter_reasoning.then(ReasoningFilter::default), ..Self::default() }
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether neither text nor a refusal has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.refusal.is_empty()
    }

    /// Appends a piece of the answer.
    pub(crate) fn push_text(&mut self, piece: &str) -> Result<(), ApiError> {
        let piece = match &mut self.reasoning {
            Some(reasoning) => reasoning.filter(piece, &mut self.thoughts),
            None => piece.into(),
        };
        self.append(&piece)
    }

    /// Appends a piece of reasoning, which the user may see. Its size is limited like that of the text.
    pub(crate) fn push_thought(&mut self, piece: &str) {
        if self.thoughts.len() + piece.len() <= limits::REPLY_TEXT {
            self.thoughts.push_str(piece);
        }
    }

    /// Appends a piece of the message with this number. A blank line separates messages, so that a tag stays at the
    /// start of a line.
    pub(crate) fn push_text_of(&mut self, item: Option<u64>, piece: &str) -> Result<(), ApiError> {
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
    pub(crate) fn push_refusal(&mut self, piece: &str) {
        if self.refusal.len() < MAX_REFUSAL {
            self.refusal.push_str(piece);
        }
    }

    /// Takes the text at the end of the stream; a refusal is an error.
    pub(crate) fn finish_text(&mut self) -> Result<String, ApiError> {
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
