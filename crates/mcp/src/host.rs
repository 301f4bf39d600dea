//! The process that keeps the servers of a run, and what is said to it: a line of JSON each way.
//!
//! ```text
//! to it    {"ask": "servers"|"list"|"tools"|"call", ...}      the first connection says which servers there are
//! from it  {"note": TEXT}* ({"done": VALUE} | {"failed": TEXT, "is_usage": BOOL})
//! ```
//! It runs outside of the sandbox of commands, as its user configured the servers, and they see no credentials but their own.
//! A command reaches it by a descriptor that it inherits, whose number is in [`VARIABLE`]: `sys::courier` says why.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use conversation::limits::MCP_NOTES;
use conversation::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sys::courier::{Connection, Courier};
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::process::job::{Job, Output, Stdin};
use sys::process::kept::KeptJob;

use crate::HOST_FLAG;
use crate::servers::Servers;

/// The variable with the number of the descriptor.
pub const VARIABLE: &str = "NAGENT_MCP";

/// The time that the process has to pass on that a call was given up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the process is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// The servers that there are. The first connection brings them.
    Servers {
        /// The servers.
        servers: Servers,
    },
    /// The names of the servers, each with the reason why it cannot be used.
    List,
    /// A server's tools.
    Tools {
        /// The server.
        server: String,
    },
    /// A call.
    Call {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
        /// Seconds that it may take.
        timeout: f64,
    },
}

/// What the process answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A line of progress or of a log, for stderr.
    Note(String),
    /// The answer, the last line.
    Done(Value),
    /// The reason why there is no answer, the last line.
    Failed {
        /// The reason.
        message: String,
        /// Whether the configuration is wrong.
        is_usage: bool,
    },
}

/// A way to the process: that of this run, or of the run that this one is a part of.
#[derive(Debug)]
pub struct Host {
    // The order of the fields is that of their end: without the courier the process ends by itself.
    courier: Courier,
    _process: Option<KeptJob>,
}

impl Host {
    /// The process of the run that started this one.
    pub fn inherited(env: &Env) -> Option<Self> {
        let courier = Courier::inherited(env.get(VARIABLE)?)?;
        Some(Self { courier, _process: None })
    }

    /// Starts the process for these servers.
    pub fn start(env: &Env, folder: &Path, servers: &Servers) -> Result<Self, Problem> {
        let failed = |why: String| {
            Problem::failed(format!("cannot start the process that keeps MCP servers: {why}"))
        };
        let (courier, end) = Courier::make_pair()?;
        let program = env.tool_path("nagent-mcp").into_os_string();
        let words = [program, HOST_FLAG.into(), end.as_raw_fd().to_string().into()];
        // A server gets what commands get: no credentials but those of its own "env".
        let mut job = Job::new(words.into(), folder.to_owned(), env.for_commands(&[], &[]));
        job.env.retain(|(name, _)| !name.as_encoded_bytes().starts_with(b"NAGENT_"));
        (job.stdin, job.output) = (Stdin::Open, Output::Separate);
        job.inherit.push(end);
        let (process, _) =
            KeptJob::start_with_pipes(job).map_err(|error| failed(error.to_string()))?;
        let host = Self { courier, _process: Some(process) };
        let servers = Request::Servers { servers: servers.clone() };
        host.connect()?.send(&to_line(&servers)).map_err(|error| failed(error.to_string()))?;
        Ok(host)
    }

    /// Connects to the process.
    pub fn connect(&self) -> Result<Connection, Problem> {
        self.courier.connect().map_err(|error| {
            Problem::failed(format!("the process that keeps MCP servers has ended: {error}"))
        })
    }

    /// The courier to it.
    pub fn courier(&self) -> &Courier {
        &self.courier
    }
}

/// The servers of a run, whose process is started when it is needed first; nothing where there are none.
#[derive(Debug, Default)]
pub struct RunServers {
    /// The servers.
    pub servers: Servers,
    host: OnceLock<Option<Host>>,
}

impl RunServers {
    /// The servers of a run.
    pub fn new(servers: Servers) -> Self {
        Self { servers, host: OnceLock::new() }
    }

    /// Lets a job reach the servers.
    pub fn pass_to(&self, job: &mut Job, env: &Env) {
        job.env.retain(|(name, _)| name != VARIABLE);
        let start = || {
            let start = || Host::start(env, &job.cwd, &self.servers).ok();
            let has_servers = !self.servers.is_empty();
            Host::inherited(env).or_else(|| has_servers.then(start).flatten())
        };
        let host = self.host.get_or_init(start).as_ref();
        if let Some(descriptor) = host.and_then(|host| host.courier.copy().ok()) {
            job.env.push((VARIABLE.into(), descriptor.as_raw_fd().to_string().into()));
            job.inherit.push(descriptor);
        }
    }
}

/// Asks the process, and waits for the answer; a signal gives the question up, which the server is told.
pub fn ask(
    connection: &mut Connection,
    request: &Request,
    interrupts: &Interrupts,
    on_note: &mut dyn FnMut(&str),
) -> Result<Value, Problem> {
    let lost = || Problem::failed("the process that keeps MCP servers has ended");
    connection.send(&to_line(request)).map_err(|_| lost())?;
    let mut notes = 0;
    while let Some(line) = connection.next_line(Some(interrupts), None) {
        match serde_json::from_str(&line).map_err(|_| lost())? {
            Reply::Note(text) if notes < MCP_NOTES => {
                on_note(&text);
                notes += 1;
            }
            Reply::Note(_) => {}
            Reply::Done(value) => return Ok(value),
            Reply::Failed { message, is_usage: true } => return Err(Problem::usage(message)),
            Reply::Failed { message, .. } => return Err(Problem::failed(message)),
        }
    }
    let signal = interrupts.pending().ok_or_else(lost)?;
    connection.finish();
    while connection.next_line(None, Some(LAST_WORDS)).is_some() {}
    Err(Problem::interrupted(signal))
}

/// A message as a line.
pub fn to_line(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
