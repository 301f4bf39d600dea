//! Model providers: requests and replies, as bytes. The types here are what all of them share.
//!
//! Pure: an [`api`] turns an [`ChatRequest`] into an [`HttpRequest`], and the bytes of the response into a [`Reply`] or an
//! [`ApiError`]. Nothing here connects, waits, or knows what a tag is; [`crate::client`] does the I/O.

pub mod anthropic;
pub mod api;
pub mod attachment;
pub mod command;
pub mod conversation_replay;
pub mod decode;
pub mod endpoint;
pub mod error;
mod error_body;
pub mod files;
pub mod google;
mod json;
pub mod models;
pub mod ollama;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
pub mod options;
pub mod partial_reply;
pub mod price;
pub mod provider;
mod reasoning;
pub mod replay;
pub mod retry;
mod retry_after;
pub mod route;
mod sanitize;
pub mod schema;
pub mod server;
pub mod sniff;
pub mod sse;
pub mod usage;

#[cfg(test)]
mod tests;

use std::time::Duration;

use self::attachment::Attachment;
use self::options::ChatOptions;
pub use self::usage::{Usage, estimate};

/// Who wrote a message. The system prompt is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user, or nagent with the results of actions.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name that most APIs use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message. Its parts are sent apart where the provider has content parts, else joined by a blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMessage<'a> {
    /// Who wrote it.
    pub role: Role,
    /// The text, in one or more parts, never empty.
    pub parts: Vec<&'a str>,
}

/// One request to a model, borrowed from the conversation: nothing is copied before it becomes bytes.
#[derive(Debug, Clone)]
pub struct ChatRequest<'a> {
    /// The provider's id of the model.
    pub model: &'a str,
    /// The system prompt, if there is one.
    pub system: Option<&'a str>,
    /// The conversation, beginning with a user message, roles alternating.
    pub messages: Vec<RequestMessage<'a>>,
    /// A file that belongs to the first message.
    pub file: Option<Attachment<'a>>,
    /// A stable key for the provider's prompt cache: the conversation's name.
    pub cache_key: Option<&'a str>,
    /// Maximum length of the reply, in tokens; `None`: the API's own choice.
    pub max_output: Option<u64>,
    /// The size of the window, in tokens, where the server needs to know it (Ollama).
    pub window: Option<u64>,
    /// What else is asked for: reasoning, sampling.
    pub options: &'a ChatOptions,
}

impl<'a> ChatRequest<'a> {
    /// The bytes of all texts, the system prompt among them.
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// An estimate of the input, in tokens (see [`estimate`]).
    pub fn estimate(&self) -> u64 {
        self.texts().map(estimate).sum()
    }

    /// Whether the provider is to send what the model thinks.
    fn shows_reasoning(&self) -> bool {
        self.options.shows_reasoning_of(self.model)
    }

    fn messages_and_file(
        &self,
    ) -> impl Iterator<Item = (&RequestMessage<'a>, Option<&Attachment<'a>>)> {
        let files = std::iter::once(self.file.as_ref()).chain(std::iter::repeat(None));
        self.messages.iter().zip(files)
    }

    /// The messages that end with a mark for Anthropic's cache: the last two of the user. One is what this turn reads (written
    /// by the turn before), the other what the next turn will. A mark is paid for, and nothing reads what a request with a
    /// file has written.
    fn marked_messages(&self) -> Vec<usize> {
        let is_user = |index: &usize| self.messages[*index].role == Role::User;
        let users = (0..self.messages.len()).rev().filter(is_user);
        users.take(if self.file.is_some() { 0 } else { 2 }).collect()
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.system
            .into_iter()
            .chain(self.messages.iter().flat_map(|message| message.parts.iter().copied()))
    }
}

/// A request as it is sent. `--show-request` prints its `body`.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Headers, the credential among them. Never printed.
    pub headers: Vec<(&'static str, String)>,
    /// Headers that the user wants, in place of those of the same name. Never printed: they may hold credentials.
    pub own_headers: Vec<(String, String)>,
    /// The body, empty for `GET` and `DELETE`.
    pub body: Vec<u8>,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was finished.
    End,
    /// The length limit cut it off: the text is not an answer.
    Length,
}

/// A piece of a reply that has just arrived.
#[derive(Debug, Clone, Copy)]
pub enum Arrival<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Reasoning, which is shown and never part of the answer.
    Thought(&'a str),
    /// Nothing yet: what the request waits for before it is sent, because of `requests_per_minute`.
    Waits(&'a str),
}

/// A whole reply, received up to the API's end mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text, reasoning left out.
    pub text: String,
    /// What it cost, in tokens.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
    /// The model that the provider says it used, if it says so.
    pub model: Option<String>,
}

impl Reply {
    /// Estimates the input of a usage without counts. Call it on every reply: the decoder does not know the request.
    pub fn assume_input(&mut self, ask: &ChatRequest<'_>) {
        if self.usage.estimated && self.usage.input == 0 {
            self.usage.input = ask.estimate();
        }
    }
}

/// What went wrong, as far as the loop needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Rate limit, overload, a server's own failure: a retry may help.
    Busy,
    /// The connection could not be made, broke, or fell silent: a retry may help.
    Broken,
    /// The stream ended before its end mark: a retry may help, never an answer.
    Cut,
    /// The credential was refused.
    Auth,
    /// No credit, a spend limit, a daily quota: waiting does not help.
    NoCredit,
    /// The prompt is longer than the model's window.
    TooLong,
    /// The provider or the model refused the content.
    Refused,
    /// No such model.
    NoModel,
    /// Anything else that a retry does not fix.
    Other,
}

impl ErrorKind {
    /// Whether the same request may succeed a little later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Broken | Self::Cut)
    }

    /// Whether another model may go on: not with what this one refuses, or cannot hold.
    pub fn may_switch(self) -> bool {
        !matches!(self, Self::Refused | Self::TooLong)
    }
}

/// A request that got no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The kind, for the loop.
    pub kind: ErrorKind,
    /// What happened, in the server's words where it had some, for a person. Control characters are removed,
    /// keys masked, and the length is limited to 2,000 characters.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The shortest wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// Whether the server itself said to try again or not (`x-should-retry`); it overrides the kind.
    pub should_retry: Option<bool>,
    /// The tokens that were billed all the same: of a refused, filtered or broken reply.
    pub usage: Option<Usage>,
}
