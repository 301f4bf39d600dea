//! Asks the model of a run for its next reply.

use std::path::Path;

use super::progress_event::ProgressEvent;
use super::run_context::RunContext;
use crate::client::retry::random_fraction;
use crate::client::{ModelClient, RequestError};
use conversation::compact::notice::{is_checkpoint, unwrap_checkpoint};
use conversation::compact::plan::Plan;
use conversation::exit::Exit;
use conversation::format::numbers::format_count;
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
    /// The cost of these tokens in US dollars; `None` where the price is not known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        self.price.as_ref().map(|price| price::compute_cost(price, usage))
    }

    pub(super) fn request_reply(
        &mut self,
        conversation: &ConversationFile,
        context: &RunContext<'_>,
        on_progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Event {
        self.client.note_conversation(conversation.text(), conversation.pieces());
        let (system, messages, shown) =
            prompt::messages(conversation.text(), conversation.pieces());
        let outputs = context.root.outputs_folder();
        let interrupts = Some(context.interrupts);
        let files = match self.client.attach_files(&shown, &self.model_id, &outputs, interrupts) {
            Ok(files) => files,
            Err(error) => return self.report_failure(error, 0, context, on_progress),
        };
        let ask = ChatRequest {
            model: &self.model_id,
            system,
            messages,
            files,
            cache_key: Some(conversation.name()),
            max_output: self.max_output,
            window: self.window,
            options: &self.options,
        };
        let bytes = ask.text_bytes() + 4 * usize::try_from(ask.file_tokens()).unwrap_or(0);
        if let Some(error) = check_window(bytes, &self.model_id, self.window) {
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
        let files = ask.files.len();
        let cut_exit = match &result {
            Err(RequestError::Interrupted(signal)) => Some(Exit::Signal(*signal)),
            Err(RequestError::Api(error)) if error.kind == ErrorKind::TimeOver => Some(Exit::Limit),
            _ => None,
        };
        match result {
            Ok(reply) => {
                report_notes(&mut self.client, on_progress);
                let cost = self.cost(&reply.usage);
                Event::Replied { reply, cost, at: clock::now() }
            }
            Err(_) if let Some(exit) = cut_exit.filter(|_| !arrived.is_empty()) => {
                report_notes(&mut self.client, on_progress);
                let usage = Usage::estimate(&arrived);
                let stop = StopReason::Length;
                let mut reply = Reply { text: arrived, usage, stop, model: None };
                reply.assume_input(|| ask.estimate());
                let cost = self.cost(&reply.usage);
                Event::CutOff { exit, reply, cost, at: clock::now() }
            }
            Err(error) => self.report_failure(error, files, context, on_progress),
        }
    }

    /// The event of a request with so many files that failed before anything had arrived.
    fn report_failure(
        &mut self,
        error: RequestError,
        files: usize,
        context: &RunContext<'_>,
        on_progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Event {
        report_notes(&mut self.client, on_progress);
        let mut error = match error {
            RequestError::Interrupted(signal) => {
                return Event::Interrupted { signal, results: Vec::new() };
            }
            RequestError::Api(error) => error,
        };
        let message = self.client.explain(&error, &self.model_id);
        error.message = context.redactor.redact_text(message).0;
        if files > 0
            && error.kind == ErrorKind::Other
            && matches!(error.status, Some(400 | 404 | 415 | 422 | 500))
        {
            error.message = format!(
                "{}. The request shows {}: if the model cannot see, choose another with --model, or take back the prompt \
                 (nagent-conversations rewind)",
                error.message.trim_end_matches('.'),
                format_count(files as u64, "picture or document")
            );
        }
        let cost = error.usage.as_ref().and_then(|usage| self.cost(usage));
        Event::Failed { error: self.with_advice(error), cost, jitter: random_fraction() }
    }

    /// Asks for a checkpoint of the conversation's older turns as its next message, so that what the server has cached is
    /// not paid again. `None`: it does not fit, or the reply is none.
    pub(super) fn write_checkpoint(
        &mut self,
        conversation: &ConversationFile,
        plan: &Plan,
        outputs: &Path,
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
        let (system, mut messages, shown) =
            prompt::messages(conversation.text(), conversation.pieces());
        let Ok(files) = self.client.attach_files(&shown, &self.model_id, outputs, Some(interrupts))
        else {
            return Default::default();
        };
        match messages.last_mut() {
            Some(last) if last.role == Role::User => last.parts.push(&text),
            _ => messages.push(RequestMessage { role: Role::User, parts: vec![&text] }),
        }
        let ask = ChatRequest {
            model: &self.model_id,
            system,
            messages,
            files,
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

fn report_notes(client: &mut ModelClient, on_progress: &mut dyn FnMut(ProgressEvent<'_>)) {
    for note in client.notes.drain(..) {
        on_progress(ProgressEvent::Note(&note));
    }
}
