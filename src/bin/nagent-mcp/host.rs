//! The process that keeps servers: it answers each connection, and ends with the last one who could connect.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conversation::format::harmless::quote_name;
use conversation::limits::MCP_MESSAGE;
use nagent::mcp::arguments::read_arguments;
use nagent::mcp::host::{Failure, Reply, Request, to_line};
use nagent::mcp::servers::Definition;
use serde_json::{Value, json};
use sys::courier::Courier;
use sys::fs;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn_blocking;

use crate::client::{Notes, Server, add_note};

/// A server, and its connection once it was needed.
struct Entry {
    definition: Result<Definition, String>,
    running: Mutex<Option<Arc<Server>>>,
}

type Entries = Arc<BTreeMap<String, Entry>>;

/// Answers connections until nobody can connect any more.
pub(crate) fn run_host(number: &str) -> ExitCode {
    let Some(end) = Courier::inherited(number) else { return ExitCode::from(2) };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(answer_all(Arc::new(end)));
    ExitCode::SUCCESS
}

async fn next_connection(end: &Arc<Courier>) -> Option<UnixStream> {
    let end = Arc::clone(end);
    let stream: StdStream = spawn_blocking(move || end.receive()).await.ok()?.ok()??;
    stream.set_nonblocking(true).ok()?;
    UnixStream::from_std(stream).ok()
}

async fn answer_all(end: Arc<Courier>) -> Option<()> {
    let mut first = BufReader::new(next_connection(&end).await?);
    let Some(Request::Servers(servers)) = read_request(&mut first).await else { return None };
    let entry = |definition| Entry { definition, running: Mutex::default() };
    let entries = servers.into_iter().map(|(name, definition)| (name, entry(definition)));
    let entries: Entries = Arc::new(entries.collect());
    loop {
        spawn_answer(next_connection(&end).await?, &entries);
    }
}

fn spawn_answer(connection: UnixStream, entries: &Entries) {
    tokio::spawn(answer(connection, Arc::clone(entries)));
}

async fn read_request(input: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Request> {
    let mut line = Vec::new();
    input.take(MCP_MESSAGE as u64).read_until(b'\n', &mut line).await.ok()?;
    serde_json::from_slice(&line).ok()
}

/// Answers a connection. The end of its input gives a call up.
async fn answer(connection: UnixStream, entries: Entries) -> Option<()> {
    let (input, mut output) = connection.into_split();
    let mut input = BufReader::new(input);
    let request = read_request(&mut input).await?;
    let (sender, mut notes) = mpsc::channel(64);
    let gone = async move { _ = input.fill_buf().await };
    let pass_on = async {
        while let Some(note) = notes.recv().await {
            let _ = output.write_all(to_bytes(&Reply::Note(note)).as_slice()).await;
        }
    };
    let (answer, ()) = tokio::join!(handle(request, &entries, sender, gone), pass_on);
    output.write_all(to_bytes(&Reply::Answer(answer)).as_slice()).await.ok()
}

fn to_bytes(reply: &Reply) -> Vec<u8> {
    (to_line(reply) + "\n").into_bytes()
}

/// Does what is asked. All notes are sent when it ends.
async fn handle(
    request: Request,
    entries: &Entries,
    notes: Notes,
    gone: impl Future<Output = ()>,
) -> Result<Value, Failure> {
    match request {
        Request::Servers(_) => Err(usage("the servers are known already")),
        Request::List(server) => {
            let is_one = server.is_some();
            let names = server.map_or_else(|| entries.keys().cloned().collect(), |one| vec![one]);
            let mut list = Vec::new();
            for name in names {
                list.push(match list_tools(&name, entries).await {
                    Err(failure) if is_one => return Err(failure),
                    Err(failure) => json!({ "name": name, "error": failure.message }),
                    Ok(tools) => json!({ "name": name, "tools": tools }),
                });
            }
            Ok(json!(list))
        }
        Request::Tool(server, tool) => find_tool(&server, &tool, entries).await,
        Request::Call(server, tool, words, timeout) => {
            let found = find_tool(&server, &tool, entries).await?;
            let help = format!("nagent-mcp help {} {}", quote_name(&server), quote_name(&tool));
            let (arguments, note) = read_arguments(&words, &found["inputSchema"])
                .map_err(|why| usage(format!("{why} ({help})")))?;
            if let Some(note) = note {
                add_note(&notes, &note);
            }
            let limit = Duration::from_secs_f64(timeout.clamp(0.001, 1e6));
            find_server(&server, entries).await?.call(tool, arguments, limit, notes, gone).await
        }
        Request::Keep(server, socket) => keep(&server, &socket, entries).await,
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), is_usage: true }
}

/// Starts a server, and answers those who come by a socket, too.
async fn keep(name: &str, socket: &Path, entries: &Entries) -> Result<Value, Failure> {
    find_server(name, entries).await?;
    let failed =
        |why: String| Failure { message: format!("{}: {why}", quote_name(name)), is_usage: false };
    if UnixStream::connect(socket).await.is_ok() {
        return Err(failed("it is kept already".to_owned()));
    }
    let _ = fs::remove_file(socket);
    let place = quote_name(socket);
    let listener = UnixListener::bind(socket).map_err(|why| failed(format!("{place}: {why}")))?;
    let entries = Arc::clone(entries);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            spawn_answer(connection, &entries);
        }
    });
    Ok(Value::Null)
}

async fn list_tools(server: &str, entries: &Entries) -> Result<Vec<Value>, Failure> {
    find_server(server, entries).await?.list_tools().await
}

async fn find_tool(server: &str, name: &str, entries: &Entries) -> Result<Value, Failure> {
    let tools = list_tools(server, entries).await?;
    tools.into_iter().find(|tool| tool["name"] == name).ok_or_else(|| {
        let (server, name) = (quote_name(server), quote_name(name));
        usage(format!("{server} has no tool {name}; nagent-mcp list {server} names them"))
    })
}

/// The connection to a server, which is made when it is needed first, and when the last one has ended.
async fn find_server(name: &str, entries: &Entries) -> Result<Arc<Server>, Failure> {
    let shown = quote_name(name);
    let entry = entries.get(name).ok_or_else(|| {
        let known: Vec<String> = entries.keys().map(quote_name).collect();
        let known = match known.join(", ") {
            names if names.is_empty() => "nagent-mcp add adds one".to_owned(),
            names => format!("there are: {names}"),
        };
        usage(format!("there is no server {shown}; {known}"))
    })?;
    let definition = entry.definition.as_ref().map_err(|why| usage(format!("{shown}: {why}")))?;
    let mut running = entry.running.lock().await;
    if let Some(server) = running.as_ref().filter(|server| !server.is_closed()) {
        return Ok(Arc::clone(server));
    }
    *running = None;
    let server = Arc::new(Server::connect(name, definition).await?);
    *running = Some(Arc::clone(&server));
    Ok(server)
}
