//! Connects [`segments`] to the model that writes summaries.
//!
//! Shared by the tools that summarise. A model is made when the first summary is needed, so that calls that cost
//! nothing need no credential.

use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::settings::Settings;
use crate::out::{self, Report};
use conversation::model::RequestMessage;
use conversation::problem::Problem;
use models::provider::Provider;
use segments::summary_queue::{SummaryModel, SummaryRules, SummaryTotals};
use sys::env::Env;
use sys::interrupt::Interrupts;

/// The usual number of requests side by side.
pub const JOBS: usize = 4;

/// Makes the models of a run.
pub struct Writers<'a> {
    /// The name of the tool, before each line on stderr.
    pub(crate) tool: &'static str,
    pub(crate) settings: &'a Settings,
    pub(crate) env: &'a Env,
    pub(crate) interrupts: &'a Interrupts,
    /// Shown while the model is asked.
    pub(crate) spinner: &'a Spinner,
}

impl<'a> Writers<'a> {
    /// Connects to the model with the run's settings. A connection serves one request after the other.
    pub fn connect(&'a self) -> Result<SummaryModel<'a>, Problem> {
        let settings = self.settings;
        let mut source = settings.connect_model(self.env, self.interrupts, true)?;
        let model = source.model_id.clone().unwrap_or_default();
        Ok(Box::new(move |system: &str, messages: &[RequestMessage<'_>]| {
            let mut request = settings.build_request(&model, Some(system), messages.to_vec());
            let (patience, mut report) =
                (settings.retry_patience(), |line: &str| self.print_line(line));
            let reply = source.ask_with_retries(
                &mut request,
                None,
                patience,
                self.interrupts,
                &mut report,
            )?;
            Ok((reply, (settings.provider.name().to_owned(), model.clone())))
        }))
    }

    fn print_line(&self, line: &str) {
        self.spinner.print_above(|| out::print_tool_line(self.tool, line));
    }

    /// The window of the model in force, where one is.
    pub fn window(&self) -> Option<u64> {
        self.settings.window(self.settings.config.model.as_deref().unwrap_or_default())
    }

    /// The rules of a run with at most `jobs` requests side by side. A recording is played in its order, one after the other.
    pub fn rules(&'a self, jobs: usize) -> SummaryRules<'a> {
        let provider = self.settings.provider;
        SummaryRules {
            folder: self.settings.root.summaries_folder(),
            words: None,
            jobs: if provider == Provider::Replay { 1 } else { jobs },
            again: false,
            window: self.window(),
            connect: Box::new(|| self.connect()),
            report: Box::new(|note| self.print_line(&format!("note: {note}"))),
            interrupts: self.interrupts,
        }
    }
}

/// The report with the cost of a run: `requests`, `cached`, and the sums of tokens.
#[must_use]
pub fn with_totals(report: Report, totals: &SummaryTotals) -> Report {
    let report = report.with("requests", totals.requests).with("cached", totals.cached);
    report.with_usage(&totals.usage)
}
