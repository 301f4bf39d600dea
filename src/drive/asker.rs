//! Asks the model of a run for its next reply.

use super::progress_event::ProgressEvent;
use super::run_context::RunContext;
use crate::client::retry::random_fraction;
use crate::client::{ModelClient, RequestError};
use crate::llm::ChatRequest;
use crate::llm::error::check_window;
use crate::llm::price::{self, Price};
use crate::prompt;
use crate::sys::clock;
use crate::sys::conversation_file::ConversationFile;
use crate::turn::event::Event;

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
    /// Maximum length of a reply in tokens, when it is set.
    pub max_output: Option<u64>,
}

impl Asker {
    pub(super) fn request_reply(
        &mut self,
        conversation: &ConversationFile,
        context: &RunContext<'_>,
        on_progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Event {
        self.client.note_results(conversation.pieces());
        let (system, messages) = prompt::messages(conversation.text(), conversation.pieces());
        let ask = ChatRequest {
            model: &self.model_id,
            system,
            messages,
            file: None,
            cache_key: Some(conversation.name()),
            max_output: self.max_output,
            window: self.window,
        };
        if let Some(error) = check_window(ask.text_bytes(), &self.model_id, self.window) {
            return Event::Failed { error, jitter: 0.0 };
        }
        let mut bytes = 0;
        let result = self.client.ask(
            &ask,
            &mut |text| {
                bytes += text.len() as u64;
                on_progress(ProgressEvent::ReplyBytes(bytes));
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
            Err(RequestError::Interrupted(signal)) => {
                Event::Interrupted { signal, results: Vec::new() }
            }
            Err(RequestError::Api(mut error)) => {
                let message = self.client.explain(&error, &self.model_id);
                error.message = context.redactor.redact_text(message).0;
                Event::Failed { error, jitter: random_fraction() }
            }
        }
    }
}
