//! Sends one request to a model, without a conversation: shared by `nagent-llm-text` and `nagent-llm-upload`.

use std::path::Path;

use crate::client::ModelClient;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::flags::ModelArgs;
use crate::ops::setup::settings::Settings;
use crate::out::{self, Report};
use conversation::exit::Exit;
use conversation::limits;
use conversation::model::{Reply, RequestMessage, Role, StopReason, Usage};
use conversation::problem::Problem;
use models::schema::{Schema, describe_errors};
use serde_json::Value;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;

/// A tool that sends one request.
pub struct OneShot {
    pub(crate) interrupts: Interrupts,
    pub(crate) settings: Settings,
    pub(crate) source: ModelClient,
    pub(crate) model: String,
    /// Shown while the model is asked.
    pub(crate) spinner: Spinner,
    tool: &'static str,
}

impl OneShot {
    /// Connects, for replies that are valid against a schema. Without `sends` a missing credential is not an error.
    pub fn new(
        tool: &'static str,
        args: &ModelArgs,
        sends: bool,
        schema: Option<Value>,
        shows_reasoning: bool,
    ) -> Result<Self, Problem> {
        let interrupts = Interrupts::install()?;
        let env = Env::read();
        let mut settings = Settings::resolve(args, &env)?;
        settings.options.schema = schema;
        settings.options.shows_reasoning = shows_reasoning;
        let source = settings.connect_model(&env, &interrupts, sends)?;
        let model = source.model_id.clone().unwrap_or_default();
        out::print_notes(tool, &settings.notes);
        Ok(Self { interrupts, settings, source, model, spinner: Spinner::new(true), tool })
    }

    /// Asks the model, with retries while its provider is busy.
    pub fn request_reply(&mut self, messages: &[RequestMessage<'_>]) -> Result<Reply, Problem> {
        let Self { interrupts, settings, source, spinner, tool, model } = self;
        let mut report = |line: &str| spinner.print_above(|| out::print_tool_line(tool, line));
        let mut request = settings.build_request(model, None, messages.to_vec());
        let patience = settings.retry_patience();
        Ok(spinner.during("model", || {
            source.ask_with_retries(&mut request, None, patience, interrupts, &mut report)
        })?)
    }

    /// Asks the model; where the reply must be valid against a schema, again with all that is wrong with it. The last reply is
    /// returned as it is, with the tokens of all.
    pub fn ask_until_valid(
        &mut self,
        messages: Vec<RequestMessage<'_>>,
        schema: Option<&Schema>,
    ) -> Result<Reply, Problem> {
        let tool = self.tool;
        let mut said: Vec<(String, String)> = Vec::new();
        let mut usage = Usage::default();
        loop {
            let mut all = messages.clone();
            for (reply, complaint) in &said {
                all.push(RequestMessage { role: Role::Assistant, parts: vec![reply] });
                all.push(RequestMessage { role: Role::User, parts: vec![complaint] });
            }
            let reply = self.request_reply(&all);
            let mut reply = reply.map_err(|problem| problem.after(&usage))?;
            usage.add(&reply.usage);
            reply.usage = usage;
            let errors = schema.and_then(|schema| schema.check(&reply.text).err());
            match errors {
                Some(errors)
                    if reply.stop == StopReason::End && said.len() + 1 < limits::SCHEMA_TRIES =>
                {
                    out::print_tool_line(
                        tool,
                        &format!(
                            "the reply is not valid against the schema, asking again: {}",
                            errors.join("; ")
                        ),
                    );
                    said.push((reply.text, describe_errors(&errors)));
                }
                _ => return Ok(reply),
            }
        }
    }

    /// The report of a reply, with keys of the tool's own.
    pub fn report_reply(&self, reply: Reply, file: &Path) -> Report {
        let truncated = reply.stop == StopReason::Length;
        let mut report = Report::done(reply.text.clone());
        if truncated {
            report.exit = Exit::Limit;
            report.error = Some("the reply was cut off by the length limit".to_owned());
        }
        let file = fs::real_path(file).unwrap_or_else(|| file.to_owned());
        report
            .with("file", file.display().to_string())
            .with("provider", self.settings.provider_name())
            .with("model", self.model.as_str())
            .with("model_served", reply.model)
            .with("response", reply.text)
            .with_usage(&reply.usage)
            .with("stop_reason", if truncated { "length" } else { "end" })
            .with("truncated", truncated)
    }
}

/// The report of `--show-request`.
pub fn report_request(body: Vec<u8>) -> Result<Report, Problem> {
    let body = String::from_utf8(body).map_err(|error| Problem::usage(error.to_string()))?;
    Ok(Report::exactly(body.clone()).with("request", body))
}
