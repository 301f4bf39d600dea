//! The one primitive that talks to a model: a request goes out, its text comes back as it is spoken.
//!
//! A server, a command-line program, or a recording; the loop does not know which. No retries here: they are a rule
//! of the loop.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::exit::{Exit, Signal};
use crate::format::conversation::Piece;
use crate::llm::attachment::{self, Attachment};
use crate::llm::command::Preset;
use crate::llm::decode::Decoder;
use crate::llm::escape::Memo;
use crate::llm::replay::{self, Recording};
use crate::llm::route::{self, Route};
use crate::llm::wire::{Endpoint, ModelInfo};
use crate::llm::{ApiError, Ask, ErrorKind, Reply, Stop, Usage, command, estimate};
use crate::problem::Problem;
use crate::redact::Redactor;
use crate::sys::env::Env;
use crate::sys::env::program as program_in;
use crate::sys::fs::EmptyFolder;
use crate::sys::http::{Client, Failure, Head, Part, Prepared, Progress};
use crate::sys::interrupt::Interrupts;
use crate::sys::process;
use crate::sys::process::job::{Job, Outcome, Output, Stdin};
use crate::sys::{fs, journal};

/// A model, ready to be asked.
pub struct Model {
    kind: Kind,
    /// Notes that arose while asking, for the user.
    pub notes: VecDeque<String>,
    /// Where this run is recorded, and as which conversation.
    record: Option<(PathBuf, String)>,
    /// What happened since the last reply, for a recording; set by [`Model::before`].
    after: Vec<String>,
    turn: u64,
}

enum Kind {
    Http {
        client: Box<Client>,
        endpoint: Endpoint,
        memo: Memo,
    },
    Program {
        preset: Preset,
        words: Vec<String>,
        env: Vec<(OsString, OsString)>,
        folder: PathBuf,
        timeout: Duration,
        /// What it may know of credentials, masked in its complaints.
        redactor: Redactor,
        /// Where an agent runs: nothing of the user's lies there for it to read into its prompt.
        empty: Option<EmptyFolder>,
    },
    Replay {
        recording: Recording,
        lineage: String,
        path: String,
    },
}

/// A model with its id and the variable that its credential came from.
pub struct Source {
    /// The model.
    pub model: Model,
    /// Its id, when it was chosen.
    pub model_id: Option<String>,
    /// The variable.
    pub credential: Option<String>,
}

/// Why there was no reply.
#[derive(Debug)]
pub enum AskError {
    /// A signal came.
    Interrupted(Signal),
    /// The provider, or the way to it, failed.
    Api(ApiError),
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Interrupted(signal) => Self::interrupted(signal),
            AskError::Api(error) => Self::new(Exit::Provider, error.message),
        }
    }
}

impl From<ApiError> for AskError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<Failure> for AskError {
    fn from(error: Failure) -> Self {
        match error {
            Failure::Interrupted(signal) => Self::Interrupted(signal),
            Failure::Api(error) => Self::Api(error),
        }
    }
}

impl Model {
    /// A server.
    pub fn http(endpoint: Endpoint, connect: Duration, read: Duration) -> Result<Self> {
        Ok(Self::new(Kind::Http {
            client: Box::new(Client::new(connect, read)),
            endpoint,
            memo: Memo::default(),
        }))
    }

    /// A command-line program; it gets the whole environment, since it signs in by itself.
    pub fn command(
        preset: Preset,
        words: Vec<String>,
        env: &Env,
        folder: &Path,
        timeout: Duration,
    ) -> Self {
        // The user's own command runs where the user is.
        let empty = (preset != Preset::Command).then(fs::empty_folder).and_then(Result::ok);
        Self::new(Kind::Program {
            preset,
            words,
            env: env.for_children(&[]),
            folder: folder.to_owned(),
            timeout,
            redactor: Redactor::new(env.secrets(&[]), None),
            empty,
        })
    }

    /// A recording.
    pub fn replay(path: &Path, lineage: String) -> Result<Self> {
        let text = fs::read_text(path, journal::LIMIT)?
            .with_context(|| format!("there is no recording at {}", path.display()))?;
        let recording = Recording::parse(&text).map_err(|error| {
            anyhow::anyhow!("{}: line {}: {}", path.display(), error.0, error.1)
        })?;
        Ok(Self::new(Kind::Replay { recording, lineage, path: path.display().to_string() }))
    }

    fn new(kind: Kind) -> Self {
        Self { kind, notes: VecDeque::new(), record: None, after: Vec::new(), turn: 0 }
    }

    /// Appends every reply from now on to a recording.
    pub fn record(&mut self, path: PathBuf, lineage: String) {
        self.record = Some((path, lineage));
    }

    /// Whether [`Model::before`] wants to be told anything.
    pub fn wants_before(&self) -> bool {
        self.record.is_some() || matches!(self.kind, Kind::Replay { .. })
    }

    /// Tells what happened since the last reply: the results, each as `NAME STATUS exit_code=N`.
    pub fn before(&mut self, pieces: &[Piece]) {
        let since = pieces
            .iter()
            .rposition(|piece| piece.name() == Some("agent-response"))
            .map_or(0, |at| at + 1);
        self.after = pieces[since..]
            .iter()
            .filter_map(|piece| {
                let name = piece.name().filter(|name| name.ends_with("-result"))?;
                let mut line = format!("{name} {}", piece.get("status").unwrap_or("?"));
                if let Some(code) = piece.get("exit_code") {
                    line.push_str(&format!(" exit_code={code}"));
                }
                Some(line)
            })
            .collect();
    }

    /// Sends a request and waits for the whole reply; `on_text` gets the text as it comes.
    pub fn ask(
        &mut self,
        ask: &Ask<'_>,
        on_text: &mut dyn FnMut(&str),
        interrupts: &Interrupts,
    ) -> Result<Reply, AskError> {
        if let Kind::Http { memo, .. } = &mut self.kind {
            // Another text may stand where the last one stood, and be as long.
            *memo = Memo::default();
        }
        self.ask_on(ask, on_text, interrupts)
    }

    /// The same for a request whose texts are slices of one text that has only grown since the last request, as a
    /// conversation does: what the two have in common is not made again (see [`Memo`]).
    pub fn ask_on(
        &mut self,
        ask: &Ask<'_>,
        on_text: &mut dyn FnMut(&str),
        interrupts: &Interrupts,
    ) -> Result<Reply, AskError> {
        let turn = self.turn + 1;
        let mut reply = match &mut self.kind {
            Kind::Http { client, endpoint, memo } => {
                over_http(client, endpoint, memo, ask, on_text, interrupts)?
            }
            Kind::Program { preset, words, env, folder, timeout, redactor, empty } => {
                let folder = empty.as_ref().map_or(folder.as_path(), EmptyFolder::path);
                let job = program_job(*preset, words, env, folder, ask, *timeout);
                through_program(*preset, job, on_text, interrupts).map_err(|error| match error {
                    AskError::Api(error) => {
                        AskError::Api(ApiError { message: redactor.text(error.message).0, ..error })
                    }
                    AskError::Interrupted(_) => error,
                })?
            }
            Kind::Replay { recording, lineage, path } => {
                let entry = recording.find(lineage, turn).ok_or_else(|| {
                    ApiError::new(
                        ErrorKind::Other,
                        &format!(
                            "the recording {path} has no turn {turn} of conversation {lineage}"
                        ),
                    )
                })?;
                if let Some(difference) = replay::differences(&entry.after, &self.after) {
                    self.notes.push_back(format!("replay, turn {turn} of {lineage}: {difference}"));
                }
                on_text(&entry.reply);
                Reply {
                    text: entry.reply.clone(),
                    usage: entry.usage.unwrap_or_else(|| estimated(&entry.reply)),
                    stop: Stop::End,
                    model: None,
                }
            }
        };
        reply.assume_input(ask);
        self.turn = turn;
        if let Some((path, lineage)) = &self.record {
            let entry = replay::Entry {
                conversation: lineage.clone(),
                turn,
                after: std::mem::take(&mut self.after),
                reply: reply.text.clone(),
                usage: Some(reply.usage),
            };
            if let Err(error) = fs::append(path, &entry.format()) {
                self.notes.push_back(format!("the reply was not recorded: {error:#}"));
            }
        }
        Ok(reply)
    }

    /// The request with a file as it would be sent; without it where this is no server.
    pub fn request_about(&self, ask: &Ask<'_>, file: &Attachment<'_>) -> Vec<u8> {
        match &self.kind {
            Kind::Http { endpoint, .. } => endpoint.ask_about(ask, file).body,
            _ => self.request(ask),
        }
    }

    /// The request as it would be sent.
    pub fn request(&self, ask: &Ask<'_>) -> Vec<u8> {
        match &self.kind {
            Kind::Http { endpoint, .. } => endpoint.ask(ask).body,
            Kind::Program { preset, words, .. } => command::stdin(*preset, ask, words),
            Kind::Replay { .. } => command::stdin(Preset::Command, ask, &[]),
        }
    }

    /// The client and the server, where it is one.
    pub(super) fn server(&mut self) -> Option<(&mut Client, &Endpoint)> {
        match &mut self.kind {
            Kind::Http { client, endpoint, .. } => Some((client, endpoint)),
            _ => None,
        }
    }

    /// How a file of `bytes` bytes gets to this model, or why it does not and what to do instead.
    pub fn route(&self, kind: attachment::Kind, bytes: u64) -> Result<Route, String> {
        match &self.kind {
            Kind::Http { endpoint, .. } => endpoint.route(kind, bytes),
            _ => route::without_server(kind),
        }
    }

    /// The models that the provider has.
    pub fn list(&mut self, interrupts: &Interrupts) -> Result<Vec<ModelInfo>, AskError> {
        let Kind::Http { client, endpoint, .. } = &mut self.kind else {
            return Err(AskError::Api(ApiError::new(
                ErrorKind::Other,
                "this provider gives no list of models; its own program or documents name them",
            )));
        };
        let mut models = Vec::new();
        let mut page: Option<String> = None;
        for _ in 0..MODEL_PAGES {
            let request = endpoint.models(page.as_deref());
            let prepared = client.prepare(request)?;
            let (_, body) = fetch(client, endpoint, &prepared, interrupts)?;
            let found = endpoint.parse_models(&body)?;
            models.extend(found.models);
            page = found.next;
            if page.is_none() {
                return Ok(models);
            }
        }
        Err(AskError::Api(ApiError::new(
            ErrorKind::Other,
            &format!(
                "the server's list of models has more than {MODEL_PAGES} pages and names one more"
            ),
        )))
    }
}

/// The usage of a recorded reply without counts; its input is filled in from the request.
fn estimated(text: &str) -> Usage {
    Usage { output: estimate(text), estimated: true, ..Usage::default() }
}

/// The most pages of a list of models that are asked for: a server may name a next one for ever.
const MODEL_PAGES: usize = 100;

/// The most that a program may print for one reply, in bytes.
const PROGRAM_OUTPUT: usize = 64 << 20;

/// The most that is read of a reply that is no stream, in bytes.
const FETCH_LIMIT: usize = 16 << 20;

fn over_http(
    client: &mut Client,
    endpoint: &Endpoint,
    memo: &mut Memo,
    ask: &Ask<'_>,
    on_text: &mut dyn FnMut(&str),
    interrupts: &Interrupts,
) -> Result<Reply, AskError> {
    let prepared = client.prepare(endpoint.ask_again(ask, memo))?;
    let reply = converse(client, endpoint, &prepared, on_text, interrupts);
    if let Some(body) = prepared.into_body() {
        memo.give_back(body);
    }
    reply
}

/// Sends a request that asks a model to speak, and reads its reply to the end.
pub(super) fn converse(
    client: &mut Client,
    endpoint: &Endpoint,
    prepared: &Prepared,
    on_text: &mut dyn FnMut(&str),
    interrupts: &Interrupts,
) -> Result<Reply, AskError> {
    let mut decoder: Option<Decoder> = None;
    client.send(prepared, interrupts, &mut |part| {
        match part {
            Part::Head(head) => decoder = Some(endpoint.decoder(head.status, &head.headers)),
            Part::Body(bytes) => {
                if let Some(decoder) = &mut decoder {
                    decoder.push(bytes, on_text)?;
                    if decoder.is_done() {
                        return Ok(Progress::Complete);
                    }
                }
            }
        }
        Ok(Progress::More)
    })?;
    let decoder = decoder.ok_or_else(|| {
        ApiError::new(ErrorKind::Broken, "the connection ended before the reply began")
    })?;
    Ok(decoder.finish()?)
}

/// The head and the body of a 2xx reply that is no stream; the error that any other is.
pub(super) fn fetch(
    client: &mut Client,
    endpoint: &Endpoint,
    prepared: &Prepared,
    interrupts: &Interrupts,
) -> Result<(Head, Vec<u8>), AskError> {
    let mut body = Vec::new();
    let head = client.send(prepared, interrupts, &mut |part| {
        match part {
            Part::Body(bytes) if body.len() + bytes.len() > FETCH_LIMIT => {
                return Err(ApiError::new(ErrorKind::Other, "the server's reply is too long"));
            }
            Part::Body(bytes) => body.extend_from_slice(bytes),
            Part::Head(_) => {}
        }
        Ok(Progress::More)
    })?;
    if (200..300).contains(&head.status) {
        Ok((head, body))
    } else {
        Err(endpoint.failure(head.status, &head.headers, &body).into())
    }
}

fn program_job(
    preset: Preset,
    words: &[String],
    env: &[(OsString, OsString)],
    folder: &Path,
    ask: &Ask<'_>,
    timeout: Duration,
) -> Job {
    let argv =
        command::argv(preset, Some(ask.model).filter(|model| !model.is_empty()), ask.system, words);
    let mut argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
    if let Some(program) = argv.first_mut() {
        let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
        *program = program_in(path, &program.to_string_lossy()).into_os_string();
    }
    let mut job = Job::new(argv, folder.to_owned(), env.to_vec());
    job.stdin = Stdin::Bytes(command::stdin(preset, ask, words));
    job.output = Output::Separate;
    job.keep = PROGRAM_OUTPUT;
    job.limit = PROGRAM_OUTPUT as u64;
    job.timeout = Some(timeout);
    job
}

fn through_program(
    preset: Preset,
    job: Job,
    on_text: &mut dyn FnMut(&str),
    interrupts: &Interrupts,
) -> Result<Reply, AskError> {
    let finished = process::run_streaming(job, interrupts, &mut |bytes| {
        // The bytes may be JSON; what counts while it speaks is how much has come.
        on_text(&String::from_utf8_lossy(bytes));
        ControlFlow::Continue(())
    })
    .map_err(|error| ApiError::new(ErrorKind::Other, &error.to_string()))?;
    let exit = match finished.outcome {
        Outcome::Interrupted(signal) => return Err(AskError::Interrupted(signal)),
        Outcome::Ended { code } => Some(code),
        Outcome::TimedOut => {
            return Err(ApiError::new(
                ErrorKind::Other,
                "the program gave no answer in time; \"read_timeout\" in the config allows more",
            )
            .into());
        }
        Outcome::TooMuch => {
            return Err(ApiError::new(
                ErrorKind::Other,
                &format!(
                    "the program printed more than {} MiB and was ended",
                    PROGRAM_OUTPUT >> 20
                ),
            )
            .into());
        }
        _ => None,
    };
    Ok(command::parse(preset, exit, &finished.stdout.head, &finished.stderr.head)?)
}
