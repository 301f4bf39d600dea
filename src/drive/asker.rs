//! Asks the model of a run for its next reply.

use super::progress_event::ProgressEvent;
use super::run_context::RunContext;
use crate::client::retry::random_fraction;
use crate::client::{ModelClient, RequestError};
use conversation::compact::notice::{is_checkpoint, unwrap_checkpoint};
use conversation::compact::plan::Plan;
use conversation::model::{ApiError, ErrorKind, Reply, RequestMessage, Role, StopReason, Usage};
use conversation::prompt;
use conversation::protocol::TagSet;
use conversation::protocol::stream::ResponseStream;
use conversation::turn::event::Event;
use models::error::check_window;
use models::options::ChatOptions;
use models::price::{self, Price};
use models::{Arrival, ChatRequest};
use segments::summary_plan::continued_checkpoint;
use sys::clock;
use sys::conversation_file::ConversationFile;
use sys::interrupt::Interrupts;

/// About as many tokens as the request for a checkpoint has beside the conversation, and room for a longer reply.
const CHECKPOINT_REQUEST: u64 = 600;

/// The model of a run.
pub struct Asker {
    /// The connection to it.
    pub client: ModelClient,
    /// Its id at the provider.
    pub model_id: String,
    /// Its price, when it is known.
    pub price: Option<Price>,
    /// The size of its window in tokens, when it is known.
    pub window: Option<u64>,
    /// Whether the server is asked for the window where that is not known, once the conversation is large.
    pub asks_for_window: bool,
    /// Maximum length of a reply in tokens, when it is set.
    pub max_output: Option<u64>,
    /// The other options of requests.
    pub options: ChatOptions,
    /// Advice for the user about a conversation that is too long.
    pub too_long_advice: String,
    /// The tags that a reply may have.
    pub tags: TagSet,
    /// Whether the text of an answer is reported while it arrives.
    pub is_streaming: bool,
}

impl Asker {
    pub(super) fn request_reply(
        &mut self,
        conversation: &ConversationFile,
        context: &RunContext<'_>,
        on_progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Event {
        self.client.note_conversation(conversation.text(), conversation.pieces());
        let (system, messages) = prompt::messages(conversation.text(), conversation.pieces());
        let ask = ChatRequest {
            model: &self.model_id,
            system,
            messages,
            file: None,
            cache_key: Some(conversation.name()),
            max_output: self.max_output,
            window: self.window,
            options: &self.options,
        };
        if let Some(error) = check_window(ask.text_bytes(), &self.model_id, self.window) {
            return Event::Failed { error: self.with_advice(error), cost: None, jitter: 0.0 };
        }
        let mut arrived = String::new();
        let mut stream = self.is_streaming.then(|| ResponseStream::new(self.tags));
        let result = self.client.request_reply(
            &ask,
            &mut |piece| {
                let text = match piece {
                    Arrival::Text(text) => text,
                    Arrival::Thought(text) => return on_progress(ProgressEvent::Thought(text)),
                    Arrival::Waits(what) => return on_progress(ProgressEvent::Note(what)),
                };
                arrived.push_str(text);
                on_progress(ProgressEvent::ReplyBytes(arrived.len() as u64));
                if let Some(stream) = &mut stream {
                    stream.push(text, &mut |shown| on_progress(ProgressEvent::Streamed(shown)));
                }
            },
            context.interrupts,
        );
        on_progress(ProgressEvent::ReplyEnded);
        for note in self.client.notes.drain(..) {
            on_progress(ProgressEvent::Note(&note));
        }
        match result {
            Ok(reply) => {
                let cost =
                    self.price.as_ref().map(|price| price::compute_cost(price, &reply.usage));
                Event::Replied { reply, cost, at: clock::now() }
            }
            Err(RequestError::Interrupted(signal)) if arrived.is_empty() => {
                Event::Interrupted { signal, results: Vec::new() }
            }
            Err(RequestError::Interrupted(signal)) => {
                let usage = Usage::estimate(&arrived);
                let stop = StopReason::Length;
                let mut reply = Reply { text: arrived, usage, stop, model: None };
                reply.assume_input(|| ask.estimate());
                let cost =
                    self.price.as_ref().map(|price| price::compute_cost(price, &reply.usage));
                Event::CutOff { signal, reply, cost, at: clock::now() }
            }
            Err(RequestError::Api(mut error)) => {
                let message = self.client.explain(&error, &self.model_id);
                error.message = context.redactor.redact_text(message).0;
                let usage = error.usage.as_ref();
                let cost = self.price.as_ref().zip(usage);
                let cost = cost.map(|(price, usage)| price::compute_cost(price, usage));
                Event::Failed { error: self.with_advice(error), cost, jitter: random_fraction() }
            }
        }
    }

    /// Asks for a checkpoint of the conversation's older turns as its next message, so that what the server has cached is
    /// not paid again. `None`: it does not fit, or the reply is none.
    pub(super) fn write_checkpoint(
        &mut self,
        conversation: &ConversationFile,
        plan: &Plan,
        interrupts: &Interrupts,
    ) -> (Option<String>, Usage) {
        let needed = plan.before + 2 * plan.words + CHECKPOINT_REQUEST;
        let fits =
            self.window.is_some_and(|window| needed < window) && self.options.schema.is_none();
        let Some((first, last)) = plan.condensed.turns.filter(|_| fits && self.client.is_server())
        else {
            return Default::default();
        };
        let text = continued_checkpoint(first, last, plan.words);
        let (system, mut messages) = prompt::messages(conversation.text(), conversation.pieces());
        match messages.last_mut() {
            Some(last) if last.role == Role::User => last.parts.push(&text),
            _ => messages.push(RequestMessage { role: Role::User, parts: vec![&text] }),
        }
        let ask = ChatRequest {
            model: &self.model_id,
            system,
            messages,
            file: None,
            cache_key: Some(conversation.name()),
            max_output: self.max_output,
            window: self.window,
            options: &self.options,
        };
        // After a failure the checkpoint is a request of its own, which is tried again and says what failed.
        let Ok(reply) = self.client.request_aside(&ask, interrupts) else {
            return Default::default();
        };
        let text = unwrap_checkpoint(&reply.text);
        let is_one = reply.stop != StopReason::Length && is_checkpoint(text);
        (is_one.then(|| text.to_owned()), reply.usage)
    }

    /// Looks for the window in the server's list of models, at most once, where nothing else says it. If the list is
    /// not available, the window stays unknown.
    pub(super) fn learn_window(&mut self, interrupts: &Interrupts) {
        if self.window.is_none() && std::mem::take(&mut self.asks_for_window) {
            self.window = self.client.find_window(&self.model_id, interrupts);
        }
    }

    /// The error with advice about a conversation that is too long, whether the server or nagent refused it.
    pub fn with_advice(&self, mut error: ApiError) -> ApiError {
        if error.kind == ErrorKind::TooLong {
            let advice = &self.too_long_advice;
            error.message = format!("{}. {advice}", error.message.trim_end_matches('.'));
        }
        error
    }
}
