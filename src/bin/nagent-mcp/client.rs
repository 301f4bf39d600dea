//! The connection to one server: started or reached as its definition says, asked for its tools, and called.
//!
//! What a server prints beside the protocol is kept, bounded, for the error that needs it. Its questions (sampling,
//! elicitation) are refused; its notes reach the call that they belong to.

#![expect(deprecated, reason = "the SDK calls logs so, which servers of today still have")]

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conversation::format::harmless::{escape_line, escape_text, quote_name};
use conversation::limits::{MCP_CONNECT, MCP_MESSAGE, MCP_STDERR};
use conversation::problem::Problem;
use nagent::mcp::host::Failure;
use nagent::mcp::servers::Definition;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ServerResult,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RoleClient, RunningService,
    ServiceError, serve_client,
};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::{Map, Value, json};
use sys::env::Env;
use sys::http;
use sys::interrupt::Interrupts;
use sys::key_command::KeyCommand;
use sys::process::job::{Job, JobOutcome, Output, Stdin};
use sys::process::kept::KeptJob;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum length of a line of an error or a note, in characters.
const LINE: usize = 500;

/// Where the notes of a call go. What does not fit is dropped: a server never waits for its reader.
pub(crate) type Notes = mpsc::Sender<String>;

pub(crate) fn add_note(notes: &Notes, text: &str) {
    let _ = notes.try_send(escape_line(text, LINE));
}

/// The state that the tasks of a connection share.
#[derive(Default)]
struct Shared {
    name: String,
    /// The tools, until the server says that they have changed.
    tools: Option<Vec<Value>>,
    calls: HashMap<ProgressToken, Notes>,
    /// The end of what the server prints.
    printed: Vec<u8>,
    /// Its process, where it is one of ours.
    job: Option<KeptJob>,
}

#[derive(Clone, Default)]
struct Handler(Arc<Mutex<Shared>>);

impl Handler {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, bytes: &[u8]) {
        let printed = &mut self.lock().printed;
        printed.extend_from_slice(bytes);
        let over = printed.len().saturating_sub(MCP_STDERR);
        printed.drain(..over);
    }

    /// A failure, with how the server ended and what it printed last.
    fn fail(&self, why: impl Display) -> Failure {
        let mut shared = self.lock();
        let mut message = format!("{}: {why}", quote_name(&shared.name));
        let ended =
            shared.job.as_mut().and_then(|job| job.ended_within(Duration::from_millis(100)));
        match ended.map(|finished| finished.outcome) {
            Some(JobOutcome::Ended { code }) => {
                message.push_str(&format!("; it ended with exit code {code}"));
            }
            Some(JobOutcome::Killed { signal }) => {
                message.push_str(&format!("; signal {signal} ended it"));
            }
            _ => {}
        }
        let printed = escape_text(&String::from_utf8_lossy(&shared.printed));
        if !printed.trim().is_empty() {
            message.push_str(&format!("; it printed:\n{}", printed.trim()));
        }
        Failure { message, is_usage: false }
    }
}

impl ClientHandler for Handler {
    async fn on_progress(&self, it: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(notes) = self.lock().calls.get(&it.progress_token) {
            let total = it.total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = it.message.unwrap_or_default();
            add_note(notes, &format!("progress {}{total} {message}", it.progress));
        }
    }

    async fn on_logging_message(
        &self,
        it: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = it.data.as_str().map_or_else(|| it.data.to_string(), str::to_owned);
        let line = format!("log {}: {text}", json!(it.level).as_str().unwrap_or_default());
        self.lock().calls.values().for_each(|notes| add_note(notes, &line));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.lock().tools = None;
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("nagent-mcp", env!("CARGO_PKG_VERSION")),
        )
    }
}

/// A server that is connected.
pub(crate) struct Server {
    service: RunningService<RoleClient, Handler>,
    handler: Handler,
}

impl Server {
    /// Starts or reaches a server.
    pub(crate) async fn connect(name: &str, definition: &Definition) -> Result<Self, Failure> {
        let handler = Handler::default();
        name.clone_into(&mut handler.lock().name);
        let opened = timeout(MCP_CONNECT, open(definition, &handler)).await;
        let service = opened.map_err(|_| {
            handler.fail(format!("it did not answer within {} s", MCP_CONNECT.as_secs()))
        })??;
        Ok(Self { service, handler })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The server's tools.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Value>, Failure> {
        if let Some(tools) = self.handler.lock().tools.clone() {
            return Ok(tools);
        }
        let all = timeout(MCP_CONNECT, self.service.peer().list_all_tools()).await;
        let all = all
            .map_err(|_| self.handler.fail("it did not list its tools in time"))?
            .map_err(|error| self.handler.fail(explain_call(&error)))?;
        let tools: Vec<Value> = all.iter().map(|tool| json!(tool)).collect();
        self.handler.lock().tools = Some(tools.clone());
        Ok(tools)
    }

    /// Calls a tool. `gone` is done when nobody waits for the answer any more; then, and when its time is over, the server is
    /// told to give up.
    pub(crate) async fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        limit: Duration,
        notes: Notes,
        gone: impl Future<Output = ()>,
    ) -> Result<Value, Failure> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let sent = self.service.peer().send_cancellable_request(request, options).await;
        let mut handle = sent.map_err(|error| self.handler.fail(explain_call(&error)))?;
        let token = handle.progress_token.clone();
        self.handler.lock().calls.insert(token.clone(), notes);
        let given_up = tokio::select! {
            result = &mut handle.rx => Ok(result),
            () = tokio::time::sleep(limit) => Err(format!("it did not answer within {} s (--timeout)", limit.as_secs_f64())),
            () = gone => Err("interrupted".to_owned()),
        };
        // Notes that came before the answer have tasks of their own, which are next.
        tokio::task::yield_now().await;
        self.handler.lock().calls.remove(&token);
        match given_up {
            Ok(Ok(Ok(ServerResult::CallToolResult(result)))) => Ok(json!(result)),
            Ok(Ok(Ok(_))) => Err(self.handler.fail("it asks for input, which nagent refuses")),
            Ok(Ok(Err(error))) => Err(self.handler.fail(explain_call(&error))),
            Ok(Err(_)) => Err(self.handler.fail("it ended before it answered")),
            Err(why) => {
                let _ = timeout(Duration::from_secs(1), handle.cancel(Some(why.clone()))).await;
                Err(self.handler.fail(why))
            }
        }
    }
}

async fn open(
    definition: &Definition,
    handler: &Handler,
) -> Result<RunningService<RoleClient, Handler>, Failure> {
    // The reason is in the user's definition.
    let refuse = |why: Problem| Failure { is_usage: true, ..handler.fail(why) };
    let opened = if let Some(url) = &definition.url {
        let transport = reach(url, definition).await.map_err(refuse)?;
        serve_client(handler.clone(), transport).await
    } else {
        let transport = start(definition, handler).map_err(refuse)?;
        serve_client(handler.clone(), transport).await
    };
    opened.map_err(|error| handler.fail(explain_start(&error)))
}

fn explain_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error: cause, .. } => {
            explain(cause, error.is_authorization_required())
        }
        error => escape_line(&error.to_string(), LINE),
    }
}

fn explain_call(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => escape_line(&error.message, LINE * 4),
        ServiceError::TransportSend(cause) => explain(cause, error.is_authorization_required()),
        error => escape_line(&error.to_string(), LINE),
    }
}

fn explain(transport: &DynamicTransportError, needs_authorization: bool) -> String {
    if needs_authorization {
        return "it wants an authorization; nagent signs in nowhere by itself: give a token by \"headers\": {\"Authorization\": \
                \"Bearer ${TOKEN}\"}, or a command that prints one by \"key_command\"".to_owned();
    }
    let error: &(dyn Error + 'static) = &*transport.error;
    let chain = std::iter::successors(Some(error), |&it| {
        // The SDK's own error does not lead to the client's, which says why.
        let of_client = match it.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::Client(error)) => error.source(),
            _ => None,
        };
        of_client.or_else(|| it.source())
    });
    escape_line(&chain.map(ToString::to_string).collect::<Vec<_>>().join(": "), LINE)
}

/// Keeps what a server prints on stderr. It never waits for us.
async fn keep_printed(mut stderr: Receiver, handler: Handler) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        handler.keep(&chunk[..count]);
    }
}

/// Starts a server's process.
fn start(
    definition: &Definition,
    handler: &Handler,
) -> Result<AsyncRwTransport<RoleClient, Receiver, Sender>, Problem> {
    let (env, folder) = find_world(definition)?;
    let program = env.find_program(definition.command.as_deref().unwrap_or_default());
    let args = definition.args.iter().map(OsString::from);
    let words = std::iter::once(program.into_os_string()).chain(args).collect();
    let mut job = Job::new(words, folder, env.for_children(&[]));
    (job.stdin, job.output) = (Stdin::Open, Output::Separate);
    let started = KeptJob::start_with_pipes(job);
    let (job, [stdin, stdout, stderr]) =
        started.map_err(|error| Problem::failed(error.to_string()))?;
    handler.lock().job = Some(job);
    tokio::spawn(keep_printed(Receiver::from_owned_fd(stderr)?, handler.clone()));
    let (output, input) = (Receiver::from_owned_fd(stdout)?, Sender::from_owned_fd(stdin)?);
    Ok(AsyncRwTransport::new_client(output, input).with_max_line_length(MCP_MESSAGE))
}

/// The environment of this process, which has no credentials, with the server's own variables; and its folder.
fn find_world(definition: &Definition) -> Result<(Env, PathBuf), Problem> {
    let mut env = Env::read();
    let folder = env.current_folder()?;
    for (name, value) in &definition.env {
        env.set(name, value);
    }
    Ok((env, folder))
}

/// The transport to a server at an address, with its headers and its token.
async fn reach(
    url: &str,
    definition: &Definition,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Problem> {
    let client = http::make_client(url, MCP_CONNECT).map_err(Problem::usage)?;
    let mut headers = HashMap::new();
    for (name, value) in &definition.headers {
        let pair = name.parse().ok().zip(value.parse().ok());
        let (parsed, mut value): (_, reqwest::header::HeaderValue) =
            pair.ok_or_else(|| Problem::usage(format!("HTTP does not allow its header {name}")))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(MCP_MESSAGE)
        .max_json_response_size(MCP_MESSAGE)
        .custom_headers(headers);
    if let Some(words) = definition.key_command.clone() {
        let (env, folder) = find_world(definition)?;
        let run = move || -> Result<String, Problem> {
            let interrupts = Interrupts::without_handlers()?;
            Ok(KeyCommand { words, env, folder }.fetch_key(&interrupts)?)
        };
        let key = spawn_blocking(run).await.map_err(|error| Problem::failed(error.to_string()))?;
        config = config.auth_header(key?);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
