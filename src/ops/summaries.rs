//! Who writes the summaries of a run: the model that the settings name, as [`crate::segments`] wants to be handed it.
//!
//! Shared by the tools that summarise. A model is made when the first summary is needed, so that what costs nothing needs
//! no credential. A thread has its own, since a connection serves one request after another.

use std::path::{Path, PathBuf};

use super::settings::Settings;
use crate::client::{ModelClient, RequestError};
use crate::exit::Exit;
use crate::llm::provider::Provider;
use crate::llm::{ChatRequest, Message};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::segments::summary_queue::{SummaryModel, SummaryRules, SummaryTotals};
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;
use crate::sys::terminal;

/// The usual number of requests side by side.
pub const JOBS: usize = 4;

/// What models are made of.
pub struct Writers<'a> {
    /// The name of the tool, before each line on stderr.
    pub tool: &'static str,
    /// The settings in force.
    pub settings: &'a Settings,
    /// The environment, credentials included.
    pub env: &'a Env,
    /// The working folder.
    pub folder: &'a Path,
    /// Signals.
    pub interrupts: &'a Interrupts,
}

impl<'a> Writers<'a> {
    /// Connects to the model.
    pub fn connect(&'a self) -> Result<SummaryModel<'a>, Problem> {
        let provider = self.settings.provider()?;
        let mut source = self.settings.source(self.env, self.folder, true)?;
        let model = source.model_id.clone().unwrap_or_default();
        if model.is_empty() && provider == Provider::Ollama {
            return Err(Problem::new(
                Exit::Usage,
                "Ollama has no default model: --model NAME chooses one, nagent --list-models lists what there is",
            ));
        }
        let id = model.clone();
        let send = move |system: &str, messages: Vec<Message<'_>>| {
            self.send_request(&mut source, &id, system, messages)
        };
        Ok(SummaryModel { provider: provider.name().to_owned(), model, send: Box::new(send) })
    }

    fn send_request(
        &self,
        source: &mut ModelClient,
        model: &str,
        system: &str,
        messages: Vec<Message<'_>>,
    ) -> Result<crate::llm::Reply, Problem> {
        let ask = ChatRequest {
            model,
            system: Some(system),
            messages,
            file: None,
            cache_key: None,
            max_output: self.settings.config.max_output_tokens,
            window: self.settings.window(model),
        };
        let patience = self.settings.patience();
        source
            .ask_with_retries(&ask, patience, self.interrupts, &mut |line| self.print_line(line))
            .map_err(|error| match error {
                RequestError::Interrupted(signal) => Problem::interrupted(signal),
                RequestError::Api(error) => Problem::new(Exit::Provider, error.message),
            })
    }

    /// A line on stderr, in place of one that moves there.
    pub fn print_line(&self, line: &str) {
        if terminal::stderr_is_terminal() && !terminal::is_plain() {
            out::overwrite("");
        }
        out::line(&format!("{}: {line}", self.tool));
    }

    /// The window of the model in force, where one is.
    pub fn window(&self) -> Option<u64> {
        self.settings.window(self.settings.model.as_ref().map_or("", |model| &model.value))
    }

    /// How many requests may run side by side: a recording is played in its order.
    pub fn limit_jobs(&self, asked: usize) -> usize {
        let is_replay = self
            .settings
            .provider
            .as_ref()
            .is_some_and(|provider| provider.value == Provider::Replay);
        if is_replay { 1 } else { asked }
    }

    /// The folder of cached summaries.
    pub fn cache_folder(&self) -> PathBuf {
        self.settings.root.value.summaries()
    }
}

/// The rules of a run. `voice` and `tell` are the writers' own, borrowed by the caller.
pub fn rules<'a>(
    writers: &'a Writers<'a>,
    voice: &'a (dyn Fn() -> Result<SummaryModel<'a>, Problem> + Sync),
    tell: &'a (dyn Fn(&str) + Sync),
    jobs: usize,
) -> SummaryRules<'a> {
    SummaryRules {
        folder: writers.cache_folder(),
        words: None,
        jobs: writers.limit_jobs(jobs),
        again: false,
        window: writers.window(),
        connect: voice,
        report: tell,
        interrupts: writers.interrupts,
    }
}

/// The report with what a run has cost: `requests`, `cached`, and the sums of tokens.
#[must_use]
pub fn with_totals(report: Report, totals: &SummaryTotals) -> Report {
    report
        .with("requests", totals.requests)
        .with("cached", totals.cached)
        .with("input_tokens", totals.usage.input)
        .with("output_tokens", totals.usage.output)
        .with("cache_read_tokens", totals.usage.cached)
        .with("cache_write_tokens", totals.usage.cache_written)
        .with("estimated", totals.usage.estimated)
}
