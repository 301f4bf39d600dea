//! A command-line program as backend: the conversation on its stdin, the reply on its stdout.
//!
//! It is started for each request, or kept running: then each request and what it prints are JSON lines
//! ([`models::command`]), and at the end of the run its stdin is closed.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use conversation::limits;
use conversation::model::{ApiError, ErrorKind, Reply};
use conversation::redact::Redactor;
use models::api::FileRules;
use models::command::output::ProgramOutput;
use models::command::{self, Preset};
use models::{Arrival, ChatRequest};
use sys::clock::Stopwatch;
use sys::env::{self, Env};
use sys::fs;
use sys::http::RequestError;
use sys::interrupt::Interrupts;
use sys::process::job::{Finished, Job, JobOutcome, Output, Stdin};
use sys::process::{self, Jobs};

/// Maximum time for a program that was kept running to end after its stdin is closed.
const END_TIME: Duration = Duration::from_millis(500);

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
    /// Whether it is kept running, and reads and writes JSON lines.
    pub keeps_running: bool,
    kept: Option<KeptProgram>,
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
        let (limit, keeps_running, kept) = (None, false, None);
        Self {
            preset,
            words,
            env,
            folder,
            timeout,
            limit,
            redactor,
            keeps_running,
            kept,
            empty_folder,
        }
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
        if self.keeps_running {
            return command::request_line(ask);
        }
        command::stdin(self.preset, ask, &self.words)
    }

    pub(super) fn request_reply(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let result = if self.keeps_running {
            self.request_from_kept_program(ask, on_arrival, interrupts)
        } else {
            self.run_program(ask, on_arrival, interrupts)
        };
        result.map_err(|error| match error {
            RequestError::Api(mut error) => {
                error.message = self.redactor.redact_text(error.message).0;
                RequestError::Api(error)
            }
            RequestError::Interrupted(_) => error,
        })
    }

    fn run_program(
        &self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let mut text = PlainText::default();
        let finished = process::run_streaming(self.build_job(ask), interrupts, &mut |bytes| {
            text.push(bytes, on_arrival);
            ControlFlow::Continue(())
        })
        .map_err(|error| program_error(&self.explain_start(&error.to_string())))?;
        let exit = self.exit_code(&finished)?;
        Ok(command::parse(self.preset, exit, &finished.stdout, &finished.stderr)?)
    }

    /// Asks the program that is kept running, and starts it where there is none. After anything but a reply or an error of its
    /// own it is ended, and the next request starts it again.
    fn request_from_kept_program(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            None => KeptProgram::start(self.build_job(ask))
                .map_err(|error| program_error(&self.explain_start(&error)))?,
        };
        let output = kept.converse(self.stdin(ask), self.reply_timeout(), on_arrival, interrupts);
        match output {
            Ok(reply) => {
                self.kept = Some(kept);
                Ok(reply?)
            }
            Err(Broken::Protocol(error)) => Err(error.into()),
            Err(Broken::Ended(finished)) => {
                let exit = self.exit_code(&finished)?;
                if exit == Some(0) {
                    let message = "the program ended before the last line of its reply";
                    return Err(ApiError::new(ErrorKind::Cut, message).into());
                }
                let stderr = String::from_utf8_lossy(&finished.stderr);
                Err(command::failure(self.preset, exit, "", &stderr).into())
            }
        }
    }

    /// The exit code of a program that ended, `None` after a signal; an error where nagent ended it.
    fn exit_code(&self, finished: &Finished) -> Result<Option<i32>, RequestError> {
        Err(match finished.outcome {
            JobOutcome::Interrupted(signal) => RequestError::Interrupted(signal),
            JobOutcome::Ended { code } => return Ok(Some(code)),
            JobOutcome::TimedOut if self.time_left() == Some(Duration::ZERO) => {
                program_error("the time of --max-seconds was over before the reply ended").into()
            }
            JobOutcome::TimedOut => {
                let message = "the program did not answer in time; raise \"read_timeout\" in the config to allow more";
                program_error(message).into()
            }
            JobOutcome::TooMuch => {
                let limit = limits::PROGRAM_OUTPUT >> 20;
                program_error(&format!(
                    "the program printed more than {limit} MiB and was terminated"
                ))
                .into()
            }
            _ => return Ok(None),
        })
    }

    /// The time limit of a reply.
    fn reply_timeout(&self) -> Duration {
        self.time_left().map_or(self.timeout, |left| left.min(self.timeout))
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
        job.stdin = if self.keeps_running { Stdin::Open } else { Stdin::Bytes(self.stdin(ask)) };
        job.output = Output::Separate;
        job.keep = limits::PROGRAM_OUTPUT;
        job.limit = if self.keeps_running { u64::MAX } else { limits::PROGRAM_OUTPUT as u64 };
        job.timeout = Some(self.reply_timeout());
        job
    }
}

fn program_error(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Other, message)
}

/// A program that is kept running.
struct KeptProgram {
    jobs: Jobs,
}

/// The reason why a request failed and the program cannot be used any more.
enum Broken {
    Ended(Finished),
    Protocol(ApiError),
}

impl KeptProgram {
    fn start(mut job: Job) -> Result<Self, String> {
        // The end of stderr says what went wrong; stdout is read while it arrives.
        job.keep = limits::ERROR_BODY;
        let mut jobs = Jobs::new();
        jobs.start(job).map_err(|error| error.to_string())?;
        Ok(Self { jobs })
    }

    /// Sends a request, and reads lines up to the last of its reply. The inner error is one that the program reports.
    fn converse(
        &mut self,
        request: Vec<u8>,
        time: Duration,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Result<Reply, ApiError>, Broken> {
        self.jobs.send(Some(request), time);
        let mut output = ProgramOutput::default();
        let mut line = Vec::new();
        let mut ended: Option<Result<bool, ApiError>> = None;
        let finished = self.jobs.next_streaming(interrupts, &mut |_, bytes| {
            let mut from = line.len();
            line.extend_from_slice(bytes);
            while let Some(end) = memchr::memchr(b'\n', &line[from..]) {
                let end = std::mem::take(&mut from) + end;
                let text = String::from_utf8_lossy(&line[..end]).into_owned();
                line.drain(..=end);
                if text.trim().is_empty() {
                    continue;
                }
                match (&ended, output.push_line(&text, on_arrival)) {
                    (Some(Ok(_)), _) => {
                        ended =
                            Some(Err(program_error("the program printed more after its result")));
                    }
                    (Some(Err(_)), _) | (None, Ok(false)) => {}
                    (None, other) => ended = Some(other),
                }
            }
            if line.len() > limits::PROGRAM_OUTPUT {
                let limit = limits::PROGRAM_OUTPUT >> 20;
                let message = format!("the program printed a line of more than {limit} MiB");
                ended = Some(Err(program_error(&message)));
            }
            if ended.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match (ended, finished) {
            (Some(Ok(_)), _) => Ok(output.finish()),
            // Errors that nagent itself finds have the kind `Other`.
            (Some(Err(error)), None) if error.kind != ErrorKind::Other => Ok(Err(error)),
            (Some(Err(error)), _) => Err(Broken::Protocol(error)),
            (None, Some(finished)) => Err(Broken::Ended(finished)),
            (None, None) => Err(Broken::Protocol(program_error("the program has ended"))),
        }
    }
}

impl Drop for KeptProgram {
    /// Closes the program's stdin, which asks it to end, and kills it if it does not.
    fn drop(&mut self) {
        self.jobs.send(None, END_TIME);
        if let Ok(nobody) = Interrupts::without_handlers() {
            while self.jobs.next_finished(&nobody).is_some() {}
        }
    }
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
