//! The process that keeps servers: it answers each connection, and ends with the last one who could connect.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use conversation::format::harmless::quote_name;
use conversation::limits::MCP_MESSAGE;
use mcp::host::{Reply, Request, to_line};
use mcp::servers::Definition;
use serde_json::{Value, json};
use sys::courier;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, mpsc};

use crate::client::{Failure, Notes, Server};

/// A server, and its connection once it was needed.
struct Entry {
    definition: Result<Definition, String>,
    running: Mutex<Option<Arc<Server>>>,
}

type Entries = Arc<BTreeMap<String, Entry>>;

/// Answers connections until nobody can connect any more.
pub(crate) fn run_host(number: &str) -> ExitCode {
    let Some(end) = courier::inherited(number) else { return ExitCode::from(2) };
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let (sender, receiver) = mpsc::channel(16);
    let receive = move || {
        while let Ok(Some(connection)) = courier::receive(&end) {
            if sender.blocking_send(connection).is_err() {
                return;
            }
        }
    };
    thread::spawn(receive);
    runtime.block_on(answer_all(receiver));
    ExitCode::SUCCESS
}

type Connection = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

fn open(connection: OwnedFd) -> Option<Connection> {
    let stream = StdStream::from(connection);
    stream.set_nonblocking(true).ok()?;
    let (input, output) = UnixStream::from_std(stream).ok()?.into_split();
    Some((BufReader::new(input), output))
}

async fn answer_all(mut connections: mpsc::Receiver<OwnedFd>) -> Option<()> {
    let (mut first, _) = open(connections.recv().await?)?;
    let Some(Request::Servers { servers }) = read_request(&mut first).await else { return None };
    let entry = |definition| Entry { definition, running: Mutex::default() };
    let entries = servers.into_iter().map(|(name, definition)| (name, entry(definition)));
    let entries: Entries = Arc::new(entries.collect());
    while let Some(connection) = connections.recv().await {
        if let Some(connection) = open(connection) {
            tokio::spawn(answer(connection, Arc::clone(&entries)));
        }
    }
    Some(())
}

async fn read_request(input: &mut BufReader<OwnedReadHalf>) -> Option<Request> {
    let mut line = Vec::new();
    input.take(MCP_MESSAGE as u64).read_until(b'\n', &mut line).await.ok()?;
    serde_json::from_slice(&line).ok()
}

/// Answers one question after another. The end of the input gives a call up.
async fn answer((mut input, mut output): Connection, entries: Entries) {
    while let Some(request) = read_request(&mut input).await {
        let (sender, mut notes) = mpsc::channel(64);
        let gone = async { _ = input.fill_buf().await };
        let mut work = pin!(handle(request, &entries, sender, gone));
        let reply = loop {
            let note = tokio::select! {
                done = &mut work => break done.map_or_else(Failure::into_reply, Reply::Done),
                Some(note) = notes.recv() => Reply::Note(note),
            };
            let _ = output.write_all(to_bytes(&note).as_slice()).await;
        };
        while let Ok(note) = notes.try_recv() {
            let _ = output.write_all(to_bytes(&Reply::Note(note)).as_slice()).await;
        }
        let _ = output.write_all(to_bytes(&reply).as_slice()).await;
    }
}

fn to_bytes(reply: &Reply) -> Vec<u8> {
    (to_line(reply) + "\n").into_bytes()
}

async fn handle(
    request: Request,
    entries: &Entries,
    notes: Notes,
    gone: impl Future<Output = ()>,
) -> Result<Value, Failure> {
    match request {
        Request::Servers { .. } => Err(Failure::usage("the servers are known already")),
        Request::List => {
            let why = |entry: &Entry| entry.definition.as_ref().err().cloned();
            Ok(entries.iter().map(|(name, entry)| (name.clone(), json!(why(entry)))).collect())
        }
        Request::Tools { server } => find_server(&server, entries).await?.list_tools().await,
        Request::Call { server, tool, arguments, timeout } => {
            let limit = Duration::from_secs_f64(timeout.clamp(0.001, 1e6));
            let server = find_server(&server, entries).await?;
            server.call(tool, arguments, limit, notes, gone).await
        }
    }
}

/// The connection to a server, which is made when it is needed first, and when the last one has ended.
async fn find_server(name: &str, entries: &Entries) -> Result<Arc<Server>, Failure> {
    let entry = entries.get(name).ok_or_else(|| {
        let known: Vec<String> = entries.keys().map(quote_name).collect();
        let known =
            if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
        Failure::usage(format!("there is no server {}; there are: {known}", quote_name(name)))
    })?;
    let definition = entry.definition.as_ref();
    let definition =
        definition.map_err(|why| Failure::usage(format!("{}: {why}", quote_name(name))))?;
    let mut running = entry.running.lock().await;
    if let Some(server) = running.as_ref().filter(|server| !server.is_closed()) {
        return Ok(Arc::clone(server));
    }
    *running = None;
    let server = Arc::new(Server::connect(name, definition).await?);
    *running = Some(Arc::clone(&server));
    Ok(server)
}
