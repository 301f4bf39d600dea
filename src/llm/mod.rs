//! What every provider has in common: messages in, text and usage out.
//!
//! Pure: a wire format turns an [`Ask`] into an [`HttpRequest`], and the bytes that come back into a
//! [`Reply`] or an [`ApiError`]. Nothing here connects, waits, or knows what a tag is.
//!
//! In reading order: [`provider`] (who there is), [`wire`] (an address that speaks one of five wire formats),
//! one file a format, [`decode`] (bytes to reply), [`error`], [`retry`], and beside them [`command`] (programs
//! instead of servers) and [`replay`] (a recording instead of a model). Files beside a prompt: [`attachment`],
//! [`sniff`] (what a file is), [`route`] (who takes it, and how), [`files`] (the providers' files APIs).

pub mod anthropic;
pub mod attachment;
pub mod command;
pub mod decode;
mod delay;
pub mod error;
mod facts;
pub mod files;
pub mod google;
mod json;
pub mod limits;
mod mask;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod price;
pub mod provider;
pub mod replay;
pub mod retry;
pub mod route;
pub mod sniff;
pub mod sse;
mod think;
pub mod wire;

#[cfg(test)]
mod attached;
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod fixtures;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::attachment::Attachment;

/// Who speaks in a message. The system prompt is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user, and the driver that reports results.
    User,
    /// The model.
    Assistant,
}

/// One message. Parts stay apart where the provider has content parts, else they are joined by a blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// The text, in one or more parts, never empty.
    pub parts: Vec<&'a str>,
}

/// One request to a model, borrowed from the conversation: nothing is copied before it becomes bytes.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// The provider's id of the model.
    pub model: &'a str,
    /// The system prompt, if there is one.
    pub system: Option<&'a str>,
    /// The conversation, beginning with a user message, roles alternating.
    pub messages: Vec<Message<'a>>,
    /// A file that belongs to the first message.
    pub file: Option<Attachment<'a>>,
    /// A stable key for the provider's prompt cache (the conversation's name), where there is one.
    pub cache_key: Option<&'a str>,
    /// The longest reply that may come back, in tokens; `None`: the wire format's own choice.
    pub max_output: Option<u64>,
    /// The size of the window, in tokens, where the server wants to be told (Ollama).
    pub window: Option<u64>,
}

impl Ask<'_> {
    /// The bytes of all texts, the system prompt among them.
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// An estimate of the input, in tokens (see [`estimate`]).
    pub fn estimate(&self) -> u64 {
        self.texts().map(estimate).sum()
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.system
            .into_iter()
            .chain(self.messages.iter().flat_map(|message| message.parts.iter().copied()))
    }
}

/// How many tokens a text may be: one every four characters, rounded up. For English and code; other scripts take more.
pub fn estimate(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX).div_ceil(4)
}

/// A request as it goes on the wire. What `--show-request` prints is `body`.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Headers, the credential among them. Never printed.
    pub headers: Vec<(&'static str, String)>,
    /// The body, empty for `GET` and `DELETE`.
    pub body: Vec<u8>,
}

/// Tokens of one reply, in the provider's own counts where it gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// Those of `input` that came from the provider's cache.
    pub cached: u64,
    /// Those of `input` that were written to the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// All output tokens that are billed, reasoning included.
    pub output: u64,
    /// The provider gave no counts: these are estimates, a token every four characters.
    #[serde(skip_serializing_if = "is_false")]
    pub estimated: bool,
}

impl Usage {
    /// An estimate of what a reply cost, where nobody counted.
    pub fn estimate(reply: &str) -> Self {
        Self { output: estimate(reply), estimated: true, ..Self::default() }
    }

    /// Adds another one to this; a sum is an estimate when a part of it is.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_written = self.cache_written.saturating_add(other.cache_written);
        self.output = self.output.saturating_add(other.output);
        self.estimated |= other.estimated;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was done.
    End,
    /// The length limit cut it off: the text is no answer.
    Length,
}

/// A whole reply, received up to the provider's own end mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text, reasoning left out.
    pub text: String,
    /// What it cost, in tokens.
    pub usage: Usage,
    /// Why it ended.
    pub stop: Stop,
    /// The model that the provider says it used, if it says so.
    pub model: Option<String>,
}

impl Reply {
    /// Fills in the input of a usage that had to be estimated: what came back does not know what was asked.
    /// Call it on every reply; where the provider gave counts it does nothing.
    pub fn assume_input(&mut self, ask: &Ask<'_>) {
        if self.usage.estimated && self.usage.input == 0 {
            self.usage.input = ask.estimate();
        }
    }
}

/// What went wrong, as far as the loop must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Rate limit, overload, a server's own failure: worth trying again.
    Busy,
    /// The connection could not be made, broke, or fell silent: worth trying again.
    Broken,
    /// The stream ended before its end mark: worth trying again, never an answer.
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
    /// Anything else that a retry does not mend.
    Other,
}

impl ErrorKind {
    /// Whether the same request may succeed a little later.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Broken | Self::Cut)
    }
}

/// A request that gave no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The class, for the loop.
    pub kind: ErrorKind,
    /// What happened, in the server's words where it had some, for a person. Control characters are gone,
    /// key material is masked, the length is bounded (2,000 characters).
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The shortest wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// Whether the server itself said to try again or not (`x-should-retry`); it overrides the class.
    pub should_retry: Option<bool>,
}
