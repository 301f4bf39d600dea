//! The values that the loop and a model exchange, the same for all providers: messages, replies, costs and errors.
//!
//! `models` has the requests and replies of each provider as bytes.

mod retry;
pub(crate) mod sanitize;
mod usage;

use crate::exit::Exit;
use std::time::Duration;

pub use self::retry::Retry;
use self::sanitize::sanitize;
pub use self::usage::{Usage, estimate};

/// The author of a message. The system prompt is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user, or nagent with the results of actions.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name that most APIs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message. Its parts are sent separately if the provider has content parts, else joined by a blank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMessage<'a> {
    /// Its author.
    pub role: Role,
    /// The text, in one or more parts, never empty.
    pub parts: Vec<&'a str>,
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
    /// Headers set by the user; they replace those of the same name. Never printed: they may hold credentials.
    pub own_headers: Vec<(String, String)>,
    /// The body, empty for `GET` and `DELETE`.
    pub body: Vec<u8>,
}

/// The reason why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The reply is complete.
    End,
    /// The length limit cut it off: the text is not an answer.
    Length,
}

/// A whole reply, received up to the API's end mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text, reasoning left out.
    pub text: String,
    /// The tokens that it cost.
    pub usage: Usage,
    /// The reason why it ended.
    pub stop: StopReason,
    /// The model that the provider says it used, if it says so.
    pub model: Option<String>,
}

impl Reply {
    /// Estimates the input of a usage without counts. Call it on every reply: the decoder does not know the request.
    pub fn assume_input(&mut self, estimate: impl FnOnce() -> u64) {
        if self.usage.estimated && self.usage.input == 0 {
            self.usage.input = estimate();
        }
    }
}

/// The kind of an error, as far as the loop needs to know it.
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
    /// The command that prints the credential failed: nothing was sent.
    NoCredential,
    /// No credit, a spend limit, a daily quota: waiting does not help.
    NoCredit,
    /// The prompt is larger than the model's window.
    TooLong,
    /// The provider or the model refused the content.
    Refused,
    /// The model does not exist.
    NoModel,
    /// The time of the run was over before the reply ended.
    TimeOver,
    /// Anything else that a retry does not fix.
    Other,
}

impl ErrorKind {
    /// Whether the same request may succeed a little later.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Broken | Self::Cut)
    }

    /// The exit code of a tool that ends with it.
    pub fn exit(self) -> Exit {
        if self == Self::NoCredential { Exit::Usage } else { Exit::Provider }
    }
}

/// A part of a request that a server refuses, and without which it may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPart {
    /// The wish for a summary of the reasoning.
    ReasoningSummary,
    /// The wish for a reply in pieces.
    Stream,
    /// The JSON Schema of the reply.
    Schema,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The kind, for the loop.
    pub kind: ErrorKind,
    /// The error for a person, in the server's words if it sent any. Control characters are removed, keys masked, and
    /// the length is limited to 2,000 characters.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The minimum wait that the server requested.
    pub retry_after: Option<Duration>,
    /// Whether the server itself asked for a retry or against one (`x-should-retry`); it overrides the kind.
    pub should_retry: Option<bool>,
    /// The tokens that were billed for a refused, filtered or broken reply.
    pub usage: Option<Usage>,
    /// The part of the request that the server does not accept, if it names one that can be left out.
    pub refused: Option<RefusedPart>,
}

impl ApiError {
    /// An error that no server reported. The message is made safe to show.
    pub fn new(kind: ErrorKind, message: &str) -> Self {
        Self::with_text(kind, sanitize(message, None))
    }

    /// An error whose message is already safe to show.
    pub fn with_text(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            status: None,
            retry_after: None,
            should_retry: None,
            usage: None,
            refused: None,
        }
    }

    /// Makes the message safe to show; `key` is the credential that was sent.
    #[must_use]
    pub fn with_clean_message(mut self, key: Option<&str>) -> Self {
        self.message = sanitize(&self.message, key);
        self
    }
}
