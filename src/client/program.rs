//! A command-line program as backend: the conversation on its stdin, the reply on its stdout.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::limits;
use crate::llm::command::{self, Preset};
use crate::llm::{ApiError, Arrival, ChatRequest, ErrorKind, Reply};
use crate::redact::Redactor;
use crate::sys::clock::Stopwatch;
use crate::sys::env::{self, Env};
use crate::sys::fs;
use crate::sys::http::RequestError;
use crate::sys::interrupt::Interrupts;
use crate::sys::process;
use crate::sys::process::job::{Job, Outcome, Output, Stdin};

const CLAUDE_RETRIES: &str = "CLAUDE_CODE_MAX_RETRIES";

/// A program that answers requests.
pub struct Program {
    preset: Preset,
    words: Vec<String>,
    env: Vec<(OsString, OsString)>,
    folder: PathBuf,
    timeout: Duration,
    /// The time of the run, and how much of it has passed.
    limit: Option<(Duration, Stopwatch)>,
    /// Masks the credentials that the program may quote in its error messages.
    redactor: Redactor,
    /// Where an agent runs: an empty folder, so that it finds no file of the user's to read into its prompt.
    empty_folder: Option<TempDir>,
}

impl Program {
    /// One that is started in `folder`. It gets the whole environment, since it signs in by itself.
    pub fn new(
        preset: Preset,
        words: Vec<String>,
        env: &Env,
        folder: &Path,
        timeout: Duration,
    ) -> Self {
        // The user's own command runs where the user is.
        let empty_folder = (preset != Preset::Command).then(fs::empty_folder).and_then(Result::ok);
        let redactor = Redactor::new(env.secrets(&[]), None);
        let (mut env, folder) = (env.for_children(&[]), folder.to_owned());
        // By itself it tries ten times, in silence: a wrong key would take three minutes. We try again ourselves.
        if preset == Preset::ClaudeCode && env.iter().all(|(name, _)| name != CLAUDE_RETRIES) {
            env.push((CLAUDE_RETRIES.into(), "1".into()));
        }
        Self { preset, words, env, folder, timeout, limit: None, redactor, empty_folder }
    }

    pub(super) fn limit_time(&mut self, limit: Duration) {
        self.limit = Some((limit, Stopwatch::start()));
    }

    pub(super) fn stdin(&self, ask: &ChatRequest<'_>) -> Vec<u8> {
        command::stdin(self.preset, ask, &self.words)
    }

    pub(super) fn ask(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        self.run(ask, on_arrival, interrupts).map_err(|error| match error {
            RequestError::Api(mut error) => {
                error.message = self.redactor.redact_text(error.message).0;
                RequestError::Api(error)
            }
            RequestError::Interrupted(_) => error,
        })
    }

    fn run(
        &self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let failed = |message: &str| ApiError::new(ErrorKind::Other, message);
        let mut text = PlainText::default();
        let finished = process::run_streaming(self.build_job(ask), interrupts, &mut |bytes| {
            text.push(bytes, on_arrival);
            ControlFlow::Continue(())
        })
        .map_err(|error| failed(&self.explain_start(&error.to_string())))?;
        let exit = match finished.outcome {
            Outcome::Interrupted(signal) => return Err(RequestError::Interrupted(signal)),
            Outcome::Ended { code } => Some(code),
            Outcome::TimedOut if self.time_left() == Some(Duration::ZERO) => {
                return Err(
                    failed("the time of --max-seconds was over before the reply ended").into()
                );
            }
            Outcome::TimedOut => {
                let message = "the program did not answer in time; raise \"read_timeout\" in the config to allow more";
                return Err(failed(message).into());
            }
            Outcome::TooMuch => {
                let limit = limits::PROGRAM_OUTPUT >> 20;
                let message =
                    format!("the program printed more than {limit} MiB and was terminated");
                return Err(failed(&message).into());
            }
            _ => None,
        };
        Ok(command::parse(self.preset, exit, &finished.stdout, &finished.stderr)?)
    }

    fn time_left(&self) -> Option<Duration> {
        self.limit.map(|(limit, watch)| limit.saturating_sub(watch.elapsed()))
    }

    /// Why the program did not start. A name that is nowhere on the PATH is called by that name.
    fn explain_start(&self, error: &str) -> String {
        let (name, hint) = match self.preset {
            Preset::ClaudeCode => ("claude", "install Claude Code"),
            Preset::Cursor => ("cursor-agent", "install Cursor's command line"),
            Preset::Command => ("", "\"command\" in the config names it"),
        };
        let name = self.words.first().map_or(name, String::as_str);
        let path =
            self.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        if name.contains('/') || fs::is_executable(&env::program(path, name)) {
            return error.to_owned();
        }
        format!("{name} is not on the PATH: {hint}, or choose another provider (--list-providers)")
    }

    fn build_job(&self, ask: &ChatRequest<'_>) -> Job {
        let model = Some(ask.model).filter(|model| !model.is_empty());
        let argv = command::build_argv(self.preset, model, ask.system, &self.words);
        let mut argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        if let Some(program) = argv.first_mut() {
            let path = self.env.iter().find(|(name, _)| name == "PATH");
            let path = path.map(|(_, path)| path.as_os_str());
            *program = env::program(path, &program.to_string_lossy()).into_os_string();
        }
        let folder = self.empty_folder.as_ref().map_or(self.folder.as_path(), TempDir::path);
        let mut job = Job::new(argv, folder.to_owned(), self.env.clone());
        job.stdin = Stdin::Bytes(self.stdin(ask));
        job.output = Output::Separate;
        job.keep = limits::PROGRAM_OUTPUT;
        job.limit = limits::PROGRAM_OUTPUT as u64;
        job.timeout = Some(self.time_left().map_or(self.timeout, |left| left.min(self.timeout)));
        job
    }
}

/// The output of a program as text while it arrives. Output that begins like JSON is no text of a reply.
#[derive(Default)]
struct PlainText {
    is_json: Option<bool>,
    /// The beginning of a character.
    open: Vec<u8>,
}

impl PlainText {
    fn push(&mut self, bytes: &[u8], on_arrival: &mut dyn FnMut(Arrival<'_>)) {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        self.is_json = self.is_json.or(first.map(|first| *first == b'{'));
        if self.is_json != Some(false) {
            return;
        }
        self.open.extend_from_slice(bytes);
        let whole = match str::from_utf8(&self.open) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.open.len(),
        };
        if whole > 0 {
            on_arrival(Arrival::Text(&String::from_utf8_lossy(&self.open[..whole])));
            self.open.drain(..whole);
        }
    }
}
