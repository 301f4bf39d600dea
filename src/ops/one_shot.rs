//! One request to a model, without a conversation: what `nagent-llm-text` and `nagent-llm-upload` share.

use std::path::Path;

use super::flags::ModelArgs;
use super::settings::Settings;
use super::spinner::Spinner;
use super::summaries::with_usage;
use crate::client::ModelClient;
use crate::exit::Exit;
use crate::llm::{Reply, StopReason};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::fs;
use crate::sys::interrupt::Interrupts;

/// A tool that sends one request.
pub struct OneShot {
    pub(crate) interrupts: Interrupts,
    pub(crate) settings: Settings,
    pub(crate) source: ModelClient,
    pub(crate) model: String,
    /// Turns while the model is asked.
    pub(crate) spinner: Spinner,
}

/// Prints a line of a tool to stderr.
pub fn print_line(tool: &str, text: &str) {
    out::line(&format!("{tool}: {text}"));
}

impl OneShot {
    /// Connects. Without `sends` a missing credential is not an error.
    pub fn new(tool: &'static str, args: &ModelArgs, sends: bool) -> Result<Self, Problem> {
        let interrupts = Interrupts::install()?;
        let env = Env::read();
        let settings = Settings::resolve(args, &env)?;
        let mut source = settings.source(&env, sends)?;
        settings.choose_model(&mut source, sends, false, &interrupts)?;
        let model = source.model_id.clone().unwrap_or_default();
        for note in &settings.notes {
            print_line(tool, &format!("note: {note}"));
        }
        Ok(Self { interrupts, settings, source, model, spinner: Spinner::new(true) })
    }

    /// The report of a reply, with keys of the tool's own.
    pub fn report_reply(&self, reply: Reply, file: &Path) -> Result<Report, Problem> {
        let truncated = reply.stop == StopReason::Length;
        let mut report = Report::done(reply.text.clone());
        if truncated {
            report.exit = Exit::Limit;
            report.error = Some("the reply was cut off by the length limit".to_owned());
        }
        let file = fs::real_path(file).unwrap_or_else(|| file.to_owned());
        let report = report
            .with("file", file.display().to_string())
            .with("provider", self.settings.provider_name(self.settings.provider()?))
            .with("model", self.model.as_str())
            .with("model_served", reply.model)
            .with("response", reply.text);
        Ok(with_usage(report, &reply.usage)
            .with("stop_reason", if truncated { "length" } else { "end" })
            .with("truncated", truncated))
    }
}

/// The report of `--show-request`.
pub fn report_request(body: Vec<u8>) -> Result<Report, Problem> {
    let body = String::from_utf8(body).map_err(|error| Problem::usage(error.to_string()))?;
    Ok(Report::exactly(body.clone()).with("request", body))
}
