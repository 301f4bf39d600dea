//! MCP servers for `nagent-mcp`, for a run and for a session: which there are, and the way to them.

pub mod file;
pub mod verbs;

use std::path::{Path, PathBuf};

use crate::ops::run::trust::repository_servers;
use conversation::format::harmless::quote_name;
use conversation::limits::MCP_FILE;
use conversation::problem::Problem;
use history::git;
use mcp::host::{Host, VARIABLE};
use mcp::servers::{Servers, parse_servers};
use sys::courier::Connection;
use sys::env::Env;
use sys::fs;
use sys::root::Root;

/// The file of the user's servers, in nagent's root.
const FILE: &str = "mcp.json";

/// The servers for a folder: the user's own, then those of its repository, if the user trusts its file. The notes say what is
/// not used.
pub(crate) fn find_servers(
    root: &Root,
    env: &Env,
    folder: &Path,
    toplevel: Option<&Path>,
) -> Result<(Servers, Vec<String>), Problem> {
    let lookup = |name: &str| match name {
        "workspaceFolder" => Some(toplevel.unwrap_or(folder).display().to_string()),
        name => env.get(name).map(str::to_owned),
    };
    let path = root.path().join(FILE);
    let wrong = |path: &Path, why: String| Problem::usage(format!("{}: {why}", quote_name(path)));
    let own = fs::read_text(&path, MCP_FILE).map_err(|error| wrong(&path, format!("{error:#}")))?;
    let own = own.map(|text| parse_servers(&text, &lookup)).transpose();
    let mut servers = own.map_err(|why| wrong(&path, why))?.unwrap_or_default();
    let mut notes = Vec::new();
    if let Some(file) = repository_servers(root, folder, toplevel) {
        let name = quote_name(&file.path);
        match file.text.as_deref().map(|text| parse_servers(text, &lookup)) {
            Some(Ok(theirs)) => {
                for (name, definition) in theirs {
                    servers.entry(name).or_insert(definition);
                }
            }
            Some(Err(why)) => notes.push(format!("{name}: {why}")),
            None if file.has_changed => notes.push(format!(
                "{name} changed since you trusted it and is not used; review it with nagent --trust"
            )),
            None => {
                let why = "is not used (untrusted); review it with nagent --trust";
                notes.push(format!("{name} {why}"));
            }
        }
    }
    Ok((servers, notes))
}

/// The socket of a server that `nagent-mcp keep` keeps running.
fn socket_path(root: &Root, server: &str) -> PathBuf {
    let hash = fs::sha256(server.as_bytes());
    root.path().join("mcp").join(format!("{}.socket", &hash[..12]))
}

/// A connection to the process that keeps servers.
struct Reached {
    connection: Connection,
    /// That process, where it is for this call alone.
    _host: Option<Host>,
    /// Whether it is that of a run.
    is_of_run: bool,
}

/// Connects to the process of the run that this command is a part of, or to the one that keeps this server, or to one of its
/// own.
fn reach(root: &Root, env: &Env, server: Option<&str>) -> Result<(Reached, Vec<String>), Problem> {
    if env.get(VARIABLE).is_some() {
        let host = Host::inherited(env).ok_or_else(|| {
            Problem::failed(format!(
                "the descriptor of {VARIABLE} is closed here: call nagent-mcp from the shell, or from Python with close_fds=False"
            ))
        })?;
        let connection = host.connect()?;
        return Ok((Reached { connection, _host: Some(host), is_of_run: true }, Vec::new()));
    }
    let kept = server.and_then(|server| Connection::open(&socket_path(root, server)));
    if let Some(connection) = kept {
        return Ok((Reached { connection, _host: None, is_of_run: false }, Vec::new()));
    }
    let folder = env.current_folder()?;
    let toplevel = git::find_toplevel(&folder);
    let (servers, notes) = find_servers(root, env, &folder, toplevel.as_deref())?;
    let host = Host::start(env, &folder, &servers)?;
    let connection = host.connect()?;
    Ok((Reached { connection, _host: Some(host), is_of_run: false }, notes))
}
