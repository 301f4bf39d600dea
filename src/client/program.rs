//! A command-line program as backend: the conversation on its stdin, the reply on its stdout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use conversation::limits;
use conversation::model::{ApiError, ErrorKind, Reply};
use conversation::redact::Redactor;
use models::api::FileRules;
use models::command::{self, Preset};
use models::{Arrival, ChatRequest};
use sys::clock::Stopwatch;
use sys::env::{self, Env};
use sys::http::RequestError;
use sys::interrupt::Interrupts;
use sys::process::job::{Finished, Job, JobOutcome, Output, Stdin};
use sys::{fs, process};

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
    /// A program that runs in `folder`, with the whole environment, which it may need to sign in.
    pub fn new(
        preset: Preset,
        words: Vec<String>,
        env: &Env,
        folder: &Path,
        timeout: Duration,
    ) -> Self {
        // The user's own command runs where the user is.
        let empty_folder = (preset != Preset::Command).then(fs::empty_folder).and_then(Result::ok);
        if let (Preset::Cursor, Some(folder)) = (preset, &empty_folder) {
            let (path, text) = command::CURSOR_SETTINGS;
            let path = folder.path().join(path);
            // If this fails, the read-only mode still applies.
            let _ = path
                .parent()
                .map_or(Ok(()), fs::create_private_folder)
                .and_then(|()| fs::append_text(&path, text));
        }
        let redactor = Redactor::new(env.secrets(&[]));
        let (mut env, folder) = (env.for_children(&[]), folder.to_owned());
        // By default it tries ten times, silently: a wrong key would take three minutes. nagent retries itself.
        if preset == Preset::ClaudeCode && env.iter().all(|(name, _)| name != CLAUDE_RETRIES) {
            env.push((CLAUDE_RETRIES.into(), "1".into()));
        }
        Self { preset, words, env, folder, timeout, limit: None, redactor, empty_folder }
    }

    pub(super) fn limit_time(&mut self, limit: Duration) {
        self.limit = Some((limit, Stopwatch::start()));
    }

    /// The files that the program accepts: one of the user's gets their paths; agents have no tool that could read them.
    pub(super) fn file_rules(&self) -> FileRules {
        match self.preset {
            Preset::Command => FileRules::ANY_PICTURE,
            Preset::ClaudeCode | Preset::Cursor => FileRules::TEXT_ONLY,
        }
    }

    pub(super) fn stdin(&self, ask: &ChatRequest<'_>) -> Vec<u8> {
        command::stdin(self.preset, ask, &self.words)
    }

    pub(super) fn request_reply(
        &self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let redact = |error: &ApiError| self.redactor.redact_text(error.message.clone()).0;
        let reply = self.run_program(ask, on_arrival, interrupts);
        reply.map_err(|error| error.map_message(redact))
    }

    fn run_program(
        &self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let mut text = PlainText::default();
        let finished =
            process::run_streaming(self.build_job(ask), interrupts, None, &mut |bytes| {
                text.push(bytes, on_arrival);
            })
            .map_err(|error| program_error(&self.explain_start(&error.to_string())))?;
        let exit = self.exit_code(&finished)?;
        Ok(command::parse(self.preset, exit, &finished.stdout, &finished.stderr)?)
    }

    /// The exit code of a program that ended, `None` after a signal; an error where nagent ended it.
    fn exit_code(&self, finished: &Finished) -> Result<Option<i32>, RequestError> {
        Err(match finished.outcome {
            JobOutcome::Interrupted(signal) => RequestError::Interrupted(signal),
            JobOutcome::Ended { code } => return Ok(Some(code)),
            JobOutcome::TimedOut if self.time_left() == Some(Duration::ZERO) => {
                let message = "the time of --max-seconds was over before the reply ended";
                ApiError::new(ErrorKind::TimeOver, message).into()
            }
            JobOutcome::TimedOut => {
                let message = "the program did not answer in time; raise \"read_timeout\" in the config to allow more";
                program_error(message).into()
            }
            JobOutcome::TooMuch => {
                let limit = limits::PROGRAM_OUTPUT >> 20;
                let message =
                    format!("the program printed more than {limit} MiB and was terminated");
                program_error(&message).into()
            }
            _ => return Ok(None),
        })
    }

    fn time_left(&self) -> Option<Duration> {
        self.limit.map(|(limit, watch)| limit.saturating_sub(watch.elapsed()))
    }

    /// Explains why the program did not start: the system's error, unless it is not on the PATH.
    fn explain_start(&self, error: &str) -> String {
        let (name, hint) = match self.preset {
            Preset::ClaudeCode => {
                ("claude", "npm install -g @anthropic-ai/claude-code installs it")
            }
            Preset::Cursor => {
                ("cursor-agent", "curl https://cursor.com/install -fsS | bash installs it")
            }
            Preset::Command => ("", ""),
        };
        // We cannot know how to install a program of the user's own.
        let own = self.words.first();
        let hint = if own.is_some() { "\"command\" in the config names it" } else { hint };
        let name = own.map_or(name, String::as_str);
        if name.contains('/') || fs::is_executable(&self.find_program(name)) {
            return error.to_owned();
        }
        format!("{name} is not on the PATH: {hint}, or choose another provider (--list-providers)")
    }

    fn find_program(&self, name: &str) -> PathBuf {
        let path = self.env.iter().find(|(name, _)| name == "PATH");
        env::program(path.map(|(_, path)| path.as_os_str()), name)
    }

    fn build_job(&self, ask: &ChatRequest<'_>) -> Job {
        let model = Some(ask.model).filter(|model| !model.is_empty());
        let argv = command::build_argv(self.preset, model, ask.system, &self.words);
        let mut argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        if let Some(program) = argv.first_mut() {
            *program = self.find_program(&program.to_string_lossy()).into_os_string();
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

fn program_error(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Other, message)
}

/// The output of a program as text while it arrives. Output that begins like JSON is not the text of a reply.
#[derive(Default)]
struct PlainText {
    is_json: Option<bool>,
    /// The first bytes of an incomplete character.
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
