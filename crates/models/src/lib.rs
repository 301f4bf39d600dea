//! Model providers: requests and replies, as bytes; prices and windows of models.
//!
//! Pure: an [`api`] converts a [`ChatRequest`] into an [`HttpRequest`](conversation::model::HttpRequest), and the bytes
//! of the response into a [`Reply`](conversation::model::Reply) or an [`ApiError`](conversation::model::ApiError).
//! Nothing here connects, waits, or knows about tags; `client` does the I/O.
//!
//! ```
//! use models::provider::Provider;
//!
//! assert_eq!(Provider::parse("anthropic"), Ok(Provider::Anthropic));
//! assert_eq!(Provider::Anthropic.credential_variables()[0], "ANTHROPIC_API_KEY");
//! ```

pub mod anthropic;
pub mod api;
pub mod attachment;
pub mod catalog;
pub mod command;
pub mod conversation_replay;
pub mod decide;
pub mod decode;
pub mod endpoint;
pub mod error;
mod error_body;
pub mod files;
pub mod google;
mod json;
pub mod ollama;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
pub mod options;
pub(crate) mod partial_reply;
pub mod pdf;
pub mod picture;
pub mod price;
pub mod provider;
mod reasoning;
pub mod replay;
mod retry_after;
pub mod route;
pub mod schema;
pub mod server;
pub mod sniff;
pub mod sse;

#[cfg(test)]
mod tests;

use self::attachment::{Attachment, Payload};
use self::catalog::{ReasoningWords, find_model};
use self::options::ChatOptions;
use conversation::model::{RequestMessage, Role, estimate};

/// A request to a model, borrowed from the conversation: nothing is copied before it becomes bytes.
#[derive(Debug, Clone)]
pub struct ChatRequest<'a> {
    /// The provider's id of the model.
    pub model: &'a str,
    /// The system prompt, if there is one.
    pub system: Option<&'a str>,
    /// The conversation, beginning with a user message, roles alternating.
    pub messages: Vec<RequestMessage<'a>>,
    /// The files that belong to the messages.
    pub files: Vec<Attachment>,
    /// A stable key for the provider's prompt cache: the conversation's name.
    pub cache_key: Option<&'a str>,
    /// Maximum length of the reply, in tokens; `None`: the API's default.
    pub max_output: Option<u64>,
    /// The size of the window, in tokens, for servers that need it (Ollama).
    pub window: Option<u64>,
    /// Further options: reasoning, sampling.
    pub options: &'a ChatOptions,
}

impl ChatRequest<'_> {
    /// The size of all texts in bytes, the system prompt included.
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// An estimate of the input, in tokens (see [`estimate`]).
    pub fn estimate(&self) -> u64 {
        self.texts().map(estimate).sum::<u64>() + self.file_tokens()
    }

    /// The estimated tokens of all files.
    pub fn file_tokens(&self) -> u64 {
        self.files.iter().map(|file| file.tokens).sum()
    }

    /// Whether the provider should send the model's reasoning: the user wants it, and the model is known to support it.
    fn shows_reasoning(&self) -> bool {
        let thinks =
            || find_model(self.model).is_some_and(|it| it.reasoning != ReasoningWords::Unknown);
        self.options.shows_reasoning && (self.options.reasoning.is_some() || thinks())
    }

    /// The messages, each with its texts and files in their order. A file that is not sent is a text.
    fn contents(&self) -> impl Iterator<Item = (Role, Vec<Content<'_>>)> {
        self.messages.iter().enumerate().map(move |(at, message)| {
            let behind = move |part| self.files.iter().filter(move |file| file.place == (at, part));
            let contents = message.parts.iter().enumerate().flat_map(|(part, text)| {
                let files = behind(part).map(|file| match &file.payload {
                    Payload::Missing(why) => Content::Text(why),
                    _ => Content::File(file),
                });
                std::iter::once(Content::Text(text)).chain(files)
            });
            (message.role, contents.collect())
        })
    }

    /// The messages that end with a mark for Anthropic's cache: the last two of the user. This turn reads the cache
    /// entry at the first, which the previous turn wrote; the next turn will read the one at the second. Writing an
    /// entry costs money, and nothing would read the entry of a single request about a file.
    fn marked_messages(&self) -> Vec<usize> {
        let is_user = |index: &usize| self.messages[*index].role == Role::User;
        let users = (0..self.messages.len()).rev().filter(is_user);
        let is_single = self.cache_key.is_none() && !self.files.is_empty();
        users.take(if is_single { 0 } else { 2 }).collect()
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.system
            .into_iter()
            .chain(self.messages.iter().flat_map(|message| message.parts.iter().copied()))
    }
}

/// A piece of a message.
#[derive(Clone, Copy)]
enum Content<'a> {
    Text(&'a str),
    File(&'a Attachment),
}

/// The latest news of a reply in progress.
#[derive(Debug, Clone, Copy)]
pub enum Arrival<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Reasoning, which is shown and is never part of the answer.
    Thought(&'a str),
}
