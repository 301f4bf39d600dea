//! The connection to one server: started or reached as its definition says, asked for its tools, and called.
//!
//! What a server prints beside the protocol is kept, bounded, for the error that needs it. Its questions (sampling, roots,
//! elicitation) are refused; its notes reach the call that they belong to.

#![expect(
    deprecated,
    reason = "the SDK calls roots and logs so, which servers of today still have"
)]

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use conversation::format::harmless::{escape_line, escape_text, quote_name};
use conversation::limits::{MCP_CONNECT, MCP_MESSAGE, MCP_STDERR, MCP_TOOLS};
use conversation::problem::Problem;
use mcp::host::Reply;
use mcp::servers::Definition;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ErrorData, Implementation, ListRootsRequestMethod, ListRootsResult,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
    ProgressToken,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestContext, RoleClient,
    RunningService, ServiceError, serve_client,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::{Map, Value, json};
use sys::env::Env;
use sys::http;
use sys::interrupt::Interrupts;
use sys::key_command::KeyCommand;
use sys::process::job::{Finished, Job, JobOutcome, Output, Stdin};
use sys::process::kept::KeptJob;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Maximum length of a line of an error or a note, in characters.
const LINE: usize = 500;

/// The reason why there is no answer.
pub(crate) struct Failure {
    message: String,
    is_usage: bool,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: true }
    }

    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: false }
    }

    pub(crate) fn into_reply(self) -> Reply {
        Reply::Failed { message: self.message, is_usage: self.is_usage }
    }
}

/// Where the notes of a call go. What does not fit is dropped: a server never waits for its reader.
pub(crate) type Notes = mpsc::Sender<String>;

fn add_note(notes: &Notes, text: &str) {
    let _ = notes.try_send(escape_line(text, LINE));
}

/// What the tasks of a connection share.
#[derive(Default)]
struct Shared {
    /// The tools, until the server says that they have changed.
    tools: Option<Value>,
    calls: HashMap<ProgressToken, Notes>,
    /// The end of what the server prints.
    printed: Vec<u8>,
    /// The reason why nothing more is read from it.
    why: Option<String>,
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
}

impl ClientHandler for Handler {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

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

/// The output of a server, whose lines are bounded. A line that is not JSON is kept with what it prints: many servers log there.
struct Lines {
    output: Receiver,
    handler: Handler,
    length: usize,
    is_text: bool,
}

impl AsyncRead for Lines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let from = buffer.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(context, buffer);
        for part in buffer.filled()[from..].split_inclusive(|byte| *byte == b'\n') {
            self.is_text = if self.length == 0 { part[0] != b'{' } else { self.is_text };
            self.length += part.len();
            if self.is_text {
                self.handler.keep(part);
            }
            if self.length > MCP_MESSAGE {
                let most = MCP_MESSAGE >> 20;
                let why = format!("it sent a message of more than {most} MiB");
                self.handler.lock().why = Some(why.clone());
                return Poll::Ready(Err(io::Error::other(why)));
            }
            if part.ends_with(b"\n") {
                self.length = 0;
            }
        }
        polled
    }
}

/// A server that is connected.
pub(crate) struct Server {
    name: String,
    service: RunningService<RoleClient, Handler>,
    handler: Handler,
    /// Its process, where it is one of ours.
    job: Mutex<Option<KeptJob>>,
}

impl Server {
    /// Starts or reaches a server.
    pub(crate) async fn connect(name: &str, definition: &Definition) -> Result<Self, Failure> {
        let handler = Handler::default();
        let mut job = None;
        let opened = timeout(MCP_CONNECT, open(definition, handler.clone(), &mut job)).await;
        let job = Mutex::new(job);
        let failed = |why: &str| describe(name, why, &handler, &job);
        let late = || failed(&format!("it did not answer within {} s", MCP_CONNECT.as_secs()));
        let opened = opened.map_err(|_| late())?.map_err(|failure| Failure {
            message: format!("{}: {}", quote_name(name), failure.message),
            ..failure
        })?;
        let service = opened.map_err(|error| failed(&explain_start(&error)))?;
        Ok(Self { name: name.to_owned(), service, handler, job })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The server's tools, from all pages.
    pub(crate) async fn list_tools(&self) -> Result<Value, Failure> {
        if let Some(tools) = self.handler.lock().tools.clone() {
            return Ok(tools);
        }
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MCP_TOOLS {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = timeout(MCP_CONNECT, self.service.peer().list_tools(Some(params))).await;
            let page = page
                .map_err(|_| self.fail("it did not list its tools in time"))?
                .map_err(|error| self.fail(&explain_call(&error)))?;
            tools.extend(page.tools);
            if tools.len() > MCP_TOOLS {
                return Err(self.fail(&format!("it has more than {MCP_TOOLS} tools")));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let tools = json!(tools);
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
        let mut handle = sent.map_err(|error| self.fail(&explain_call(&error)))?;
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
            Ok(Ok(Ok(result))) => Ok(json!(result)),
            Ok(Ok(Err(error))) => Err(self.fail(&explain_call(&error))),
            Ok(Err(_)) => Err(self.fail("it ended before it answered")),
            Err(why) => {
                let _ = timeout(Duration::from_secs(1), handle.cancel(Some(why.clone()))).await;
                Err(Failure::new(format!("{}: {why}", quote_name(&self.name))))
            }
        }
    }

    fn fail(&self, why: &str) -> Failure {
        describe(&self.name, why, &self.handler, &self.job)
    }
}

/// What the protocol's handshake comes to.
type Opened = Result<RunningService<RoleClient, Handler>, ClientInitializeError>;

async fn open(
    definition: &Definition,
    handler: Handler,
    job: &mut Option<KeptJob>,
) -> Result<Opened, Failure> {
    if let Some(url) = &definition.url {
        let transport = reach(url, definition).await?;
        return Ok(serve_client(handler, transport).await);
    }
    let (process, [stdin, stdout, stderr]) = start(definition)?;
    *job = Some(process);
    let pipe = |error: io::Error| Failure::new(error.to_string());
    let stderr = Receiver::from_owned_fd(stderr).map_err(pipe)?;
    tokio::spawn(keep_printed(stderr, handler.clone()));
    let output = Receiver::from_owned_fd(stdout).map_err(pipe)?;
    let lines = Lines { output, handler: handler.clone(), length: 0, is_text: false };
    let transport =
        AsyncRwTransport::new_client(lines, Sender::from_owned_fd(stdin).map_err(pipe)?);
    let transport = transport.with_max_line_length(MCP_MESSAGE + 1);
    Ok(serve_client(handler, transport).await)
}

/// A failure, with how the server ended and what it printed last.
fn describe(name: &str, why: &str, handler: &Handler, job: &Mutex<Option<KeptJob>>) -> Failure {
    let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = job.as_mut().and_then(|job| job.ended_within(Duration::from_millis(100)));
    let ended = ended.map(|Finished { outcome, .. }| match outcome {
        JobOutcome::Ended { code } => format!("; it ended with exit code {code}"),
        JobOutcome::Killed { signal } => format!("; signal {signal} ended it"),
        _ => String::new(),
    });
    let shared = handler.lock();
    let printed = escape_text(&String::from_utf8_lossy(&shared.printed));
    let printed = printed.trim();
    let printed =
        if printed.is_empty() { String::new() } else { format!("; it printed:\n{printed}") };
    let why = shared.why.as_deref().unwrap_or(why);
    let name = quote_name(name);
    Failure::new(format!("{name}: {why}{}{printed}", ended.unwrap_or_default()))
}

fn explain_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
        ClientInitializeError::TransportError { error: cause, .. } => {
            explain(&*cause.error, error.is_authorization_required())
        }
        ClientInitializeError::JsonRpcError(error) => escape_line(&error.message, LINE),
        error => explain(error, false),
    }
}

fn explain_call(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => escape_line(&error.message, LINE * 4),
        ServiceError::TransportClosed => "the connection to it has ended".to_owned(),
        ServiceError::TransportSend(cause) => {
            explain(&*cause.error, error.is_authorization_required())
        }
        error => explain(error, false),
    }
}

fn explain(error: &(dyn Error + 'static), needs_authorization: bool) -> String {
    if needs_authorization {
        return "it wants an authorization; nagent signs in nowhere by itself: give a token by \"headers\": {\"Authorization\": \
                \"Bearer ${TOKEN}\"}, or a command that prints one by \"key_command\"".to_owned();
    }
    let mut text = error.to_string();
    let mut last = error;
    loop {
        // The SDK's own error does not lead to the client's, which says why.
        let of_client = match last.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::Client(error)) => error.source(),
            _ => None,
        };
        let Some(cause) = of_client.or_else(|| last.source()) else { break };
        text.push_str(&format!(": {cause}"));
        last = cause;
    }
    escape_line(&text, LINE)
}

/// Keeps what a server prints on stderr. It never waits for us.
async fn keep_printed(mut stderr: Receiver, handler: Handler) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        handler.keep(&chunk[..count]);
    }
}

/// Starts a server's process.
fn start(definition: &Definition) -> Result<(KeptJob, [OwnedFd; 3]), Failure> {
    let (env, folder) = find_world(definition)?;
    let program = env.find_program(definition.command.as_deref().unwrap_or_default());
    let args = definition.args.iter().map(OsString::from);
    let words = std::iter::once(program.into_os_string()).chain(args).collect();
    let mut job = Job::new(words, folder, env.for_children(&[]));
    (job.stdin, job.output) = (Stdin::Open, Output::Separate);
    KeptJob::start_with_pipes(job)
        .map_err(|error| Failure::usage(format!("it cannot be started: {error}")))
}

/// The environment of this process, which has no credentials, with the server's own variables; and its folder.
fn find_world(definition: &Definition) -> Result<(Env, PathBuf), Failure> {
    let mut env = Env::read();
    let folder = env.current_folder().map_err(|problem| Failure::new(problem.to_string()))?;
    for (name, value) in &definition.env {
        env.set(name, value);
    }
    Ok((env, folder.join(definition.cwd.as_deref().unwrap_or_default())))
}

/// The transport to a server at an address, with its headers and its token.
async fn reach(
    url: &str,
    definition: &Definition,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, Failure> {
    let client = http::make_client(url, MCP_CONNECT).map_err(Failure::usage)?;
    let mut headers = HashMap::new();
    for (name, value) in &definition.headers {
        let pair = name.parse().ok().zip(value.parse().ok());
        let (parsed, mut value): (_, reqwest::header::HeaderValue) =
            pair.ok_or_else(|| Failure::usage(format!("HTTP does not allow its header {name}")))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(MCP_MESSAGE)
        .max_json_response_size(MCP_MESSAGE)
        .custom_headers(headers);
    if let Some(words) = &definition.key_command {
        config = config.auth_header(fetch_key(words, definition).await?);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Runs the command that prints a token.
async fn fetch_key(words: &[String], definition: &Definition) -> Result<String, Failure> {
    let (env, folder) = find_world(definition)?;
    let command = KeyCommand::new(words.to_vec(), &env, &folder);
    let run = move || -> Result<String, Problem> {
        Ok(command.fetch_key(&Interrupts::without_handlers()?)?)
    };
    let failed = |why: String| Failure::usage(why);
    let key = tokio::task::spawn_blocking(run).await.map_err(|error| failed(error.to_string()))?;
    key.map_err(|problem| failed(problem.to_string()))
}
