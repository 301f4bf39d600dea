//! The process that keeps the servers of a run, and what is said to it: a line of JSON each way over each connection.
//!
//! ```text
//! to it    {"servers": {...}} | {"list": SERVER} | {"call": [SERVER, ...]} ...   the first connection says which servers there are
//! from it  {"note": TEXT}* {"answer": {"Ok": VALUE} | {"Err": {"message": TEXT, "is_usage": BOOL}}}
//! ```
//! It runs outside of the sandbox of commands, as its user configured the servers, and they see no credentials but their own.
//! A command reaches it by a descriptor that it inherits, whose number is in [`VARIABLE`]: `sys::courier` says why.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use conversation::problem::Problem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::courier::{Connection, Courier};
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::process::job::{Job, Output, Stdin};
use sys::process::kept::KeptJob;

use crate::mcp::HOST_FLAG;
use crate::mcp::servers::Servers;

/// The variable with the number of the descriptor.
pub const VARIABLE: &str = "NAGENT_MCP";

/// A request to the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The servers that there are. The first connection brings them.
    Servers(Servers),
    /// The tools of a server, or of all: of each its name, and its tools or the reason why it cannot be used.
    List(Option<String>),
    /// A server's tool, as it describes it.
    Tool(String, String),
    /// A call: the server, the tool, its arguments as words, and the seconds that it may take.
    Call(String, String, Vec<String>, f64),
    /// A server that others are to reach by a socket at this path.
    Keep(String, PathBuf),
}

/// The reason why there is no answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// The reason.
    pub message: String,
    /// Whether the configuration or the request is wrong.
    pub is_usage: bool,
}

/// A line from the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A line of progress or of a log, for stderr.
    Note(String),
    /// The answer, the last line.
    Answer(Result<Value, Failure>),
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
        let (courier, end) = Courier::make_pair()?;
        let program = env.tool_path("nagent-mcp").into_os_string();
        let words = [program, HOST_FLAG.into(), end.as_raw_fd().to_string().into()];
        // A server gets what commands get: no credentials but those of its own "env".
        let mut job = Job::new(words.into(), folder.to_owned(), env.for_commands(&[], &[]));
        job.env.retain(|(name, _)| !name.as_encoded_bytes().starts_with(b"NAGENT_"));
        (job.stdin, job.output) = (Stdin::Open, Output::Separate);
        job.inherit.push(end);
        let (process, _) = KeptJob::start_with_pipes(job)
            .map_err(|error| Problem::failed(format!("no MCP servers: {error}")))?;
        courier.connect()?.send(&to_line(&Request::Servers(servers.clone())))?;
        Ok(Self { courier, _process: Some(process) })
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

/// Asks the process at the other end of a connection, and waits for the answer. At a signal the connection is closed, which
/// gives a call up.
pub fn ask(
    mut connection: Connection,
    request: &Request,
    interrupts: &Interrupts,
    on_note: &mut dyn FnMut(&str),
) -> Result<Value, Problem> {
    connection.send(&to_line(request))?;
    while let Some(line) = connection.next_line(interrupts) {
        match serde_json::from_str(&line) {
            Ok(Reply::Note(text)) => on_note(&text),
            Ok(Reply::Answer(Ok(value))) => return Ok(value),
            Ok(Reply::Answer(Err(Failure { message, is_usage }))) => {
                return Err(if is_usage {
                    Problem::usage(message)
                } else {
                    Problem::failed(message)
                });
            }
            Err(_) => {}
        }
    }
    let ended = || Problem::failed("the process that keeps MCP servers has ended");
    Err(interrupts.pending().map_or_else(ended, Problem::interrupted))
}

/// A message as a line.
pub fn to_line(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
