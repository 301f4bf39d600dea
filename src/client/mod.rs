//! The model client: sends a request to a server, a command-line program or a recording, and returns the reply.
//!
//! [`models`] knows the formats and performs no I/O; the caller does not know which backend answers. One request is
//! one attempt: the loop retries by rules of its own, every other caller through [`retry`]. Nothing here prints: what
//! the user should know goes into [`ModelClient::notes`] or to the caller's `report`.

pub mod files;
mod program;
mod recording;
pub mod retry;
mod server;

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

pub use self::program::Program;
use self::recording::{Before, Player, Recorder};
pub use self::server::Server;
use conversation::format::file::Piece;
use conversation::limits::WINDOW_PATIENCE;
use conversation::model::{ApiError, ErrorKind, Reply};
use models::api::ModelInfo;
use models::attachment::{FileFormat, Payload, RemoteFile};
use models::command::Preset;
use models::error::name_cause;
use models::{Arrival, ChatRequest, command};
pub use sys::http::RequestError;
use sys::interrupt::Interrupts;

/// A model that can be asked.
pub struct ModelClient {
    backend: Backend,
    /// The model's id, when one was chosen.
    pub model_id: Option<String>,
    /// Where the credential came from: an environment variable, or the config's command.
    pub credential: Option<String>,
    /// Notes for the user from requests.
    pub notes: Vec<String>,
    recorder: Option<Recorder>,
    /// The state of the conversation before the next reply, for a recording.
    before: Before,
    turn: u64,
    /// The files that were sent, by their hash, as the API takes them.
    ready_files: HashMap<String, (FileFormat, Payload)>,
    /// Those of them that are to be removed from the provider.
    uploads: Vec<RemoteFile>,
}

enum Backend {
    Server(Server),
    Program(Program),
    Recording(Player),
}

impl ModelClient {
    /// A client of a server.
    pub fn server(server: Server) -> Self {
        Self::new(Backend::Server(server))
    }

    /// A client of a command-line program.
    pub fn program(program: Program) -> Self {
        Self::new(Backend::Program(program))
    }

    /// A client that plays a recording, as the conversation of this lineage.
    pub fn replay(path: &Path, lineage: String) -> Result<Self> {
        Ok(Self::new(Backend::Recording(Player::open_recording(path, lineage)?)))
    }

    fn new(backend: Backend) -> Self {
        let (model_id, credential, notes, recorder) = Default::default();
        let (before, turn, ready_files, uploads) = Default::default();
        Self { backend, model_id, credential, notes, recorder, before, turn, ready_files, uploads }
    }

    /// Ends the use of a client in a process that is about to end: to free the parts of an HTTP client one by one would take
    /// a tenth of the time from the last reply to the exit.
    pub fn leave(self) {
        if let Backend::Server(server) = self.backend {
            std::mem::forget(server);
        }
    }

    /// Ends requests when this much time has passed from now.
    pub fn limit_time(&mut self, limit: Duration) {
        match &mut self.backend {
            Backend::Server(server) => server.client.limit_time(limit),
            Backend::Program(program) => program.limit_time(limit),
            Backend::Recording(_) => {}
        }
    }

    /// Appends every reply from now on to a recording.
    pub fn record(&mut self, file: File, lineage: String) {
        self.recorder = Some(Recorder { file, lineage });
    }

    /// Notes the state of the conversation before the next reply, if that is recorded or compared with a recording.
    pub fn note_conversation(&mut self, text: &str, pieces: &[Piece]) {
        if self.recorder.is_some() || matches!(self.backend, Backend::Recording(_)) {
            self.before = Before::read(text, pieces);
        }
    }

    /// Sends a request and waits for the whole reply; `on_arrival` gets its pieces while they arrive.
    pub fn request_reply(
        &mut self,
        ask: &ChatRequest<'_>,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let turn = self.turn + 1;
        let mut reply = match &mut self.backend {
            Backend::Server(server) => server.request_reply(ask, on_arrival, interrupts)?,
            Backend::Program(program) => program.request_reply(ask, on_arrival, interrupts)?,
            Backend::Recording(player) => {
                let (reply, note) = player.reply(turn, &self.before)?;
                self.notes.extend(note);
                on_arrival(Arrival::Text(&reply.text));
                reply
            }
        };
        reply.assume_input(|| ask.estimate());
        self.turn = turn;
        if let Some(recorder) = &self.recorder {
            let results = std::mem::take(&mut self.before.results);
            if let Err(error) = recorder.append(turn, results, &reply) {
                self.notes.push(format!("the reply was not recorded: {error:#}"));
            }
        }
        Ok(reply)
    }

    /// Whether it is a server, which is sent only what is new of a conversation that it has cached.
    pub fn is_server(&self) -> bool {
        matches!(self.backend, Backend::Server(_))
    }

    /// Sends a request that is no turn of the conversation: it is not recorded.
    pub fn request_aside(
        &mut self,
        ask: &ChatRequest<'_>,
        interrupts: &Interrupts,
    ) -> Result<Reply, RequestError> {
        let (turn, recorder) = (self.turn, self.recorder.take());
        let reply = self.request_reply(ask, &mut |_| (), interrupts);
        (self.turn, self.recorder) = (turn, recorder);
        reply
    }

    /// The request as it would be sent.
    pub fn show_request(&self, ask: &ChatRequest<'_>) -> Vec<u8> {
        match &self.backend {
            Backend::Server(server) => server.endpoint.chat_request(ask).body,
            Backend::Program(program) => program.stdin(ask),
            Backend::Recording(_) => command::stdin(Preset::Command, ask, &[]),
        }
    }

    /// The models that the provider has.
    pub fn list_models(&mut self, interrupts: &Interrupts) -> Result<Vec<ModelInfo>, RequestError> {
        let none =
            "this provider has no list of models; see its documentation, and name one with --model";
        match &mut self.backend {
            Backend::Server(server) => server.list_models(interrupts),
            _ => Err(ApiError::new(ErrorKind::Other, none).into()),
        }
    }

    /// The window of a model in tokens, if the server lists it and answers at once; where no model is named, that of its only one.
    pub fn find_window(&mut self, model: &str, interrupts: &Interrupts) -> Option<u64> {
        let Backend::Server(server) = &mut self.backend else { return None };
        let before = server.client.limit_for_now(WINDOW_PATIENCE);
        let models = server.list_models(interrupts);
        server.client.set_deadline(before);
        match models.ok()?.as_slice() {
            [only] if model.is_empty() => only.window,
            all => all.iter().find(|one| one.id == model)?.window,
        }
    }

    /// The message of an error, with the variable that a refused credential came from, or the name of a missing model.
    pub fn explain(&self, error: &ApiError, model: &str) -> String {
        name_cause(error, self.credential.as_deref(), model)
    }

    fn as_server(&mut self) -> Result<&mut Server, ApiError> {
        match &mut self.backend {
            Backend::Server(server) => Ok(server),
            _ => Err(ApiError::new(ErrorKind::Other, "files can be sent to servers only")),
        }
    }
}
