//! `nagent-mcp add` and `remove`: they edit the user's `mcp.json`, and leave what they do not know.

use serde_json::{Value, json};

use super::FILE;
use crate::out::Report;
use conversation::format::harmless::quote_name;
use conversation::limits::MCP_FILE;
use conversation::problem::Problem;
use mcp::servers::change_server;
use sys::atomic_file::AtomicFile;
use sys::env::{Env, PARENTS};
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_index;
use sys::root::Root;

/// The server of `nagent-mcp add`
#[derive(Debug, Clone, clap::Args)]
pub struct NewServer {
    /// Its name
    name: String,
    /// Reach it at this address, by streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Set a variable of its environment; ${VAR} in the value is replaced when it starts
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "url")]
    env: Vec<(String, String)>,
    /// Send this header; ${VAR} in the value is replaced
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "command")]
    header: Vec<(String, String)>,
    /// The program, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("give NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Adds a server, or replaces the one of this name.
pub(crate) fn add_server(root: &Root, env: &Env, new: NewServer) -> Result<Report, Problem> {
    let object = |pairs: Vec<(String, String)>| -> Value {
        pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect()
    };
    let mut definition = match (&new.url, new.command.split_first()) {
        (Some(url), _) => json!({ "type": "http", "url": url }),
        (None, Some((program, args))) => json!({ "command": program, "args": args }),
        (None, None) => return Err(Problem::usage("give a command after --, or --url URL")),
    };
    for (key, pairs) in [("env", new.env), ("headers", new.header)] {
        if !pairs.is_empty() {
            definition[key] = object(pairs);
        }
    }
    change_file(root, env, &new.name, Some(definition))
}

/// Removes a server.
pub(crate) fn remove_server(root: &Root, env: &Env, name: &str) -> Result<Report, Problem> {
    change_file(root, env, name, None)
}

fn change_file(
    root: &Root,
    env: &Env,
    name: &str,
    definition: Option<Value>,
) -> Result<Report, Problem> {
    if env.get(PARENTS).is_some() {
        return Err(Problem::usage(
            "add and remove are for the user: a command of a conversation cannot change the servers",
        ));
    }
    let interrupts = Interrupts::install()?;
    root.prepare()?;
    let _lock =
        lock_index(root, FILE, &interrupts).map_err(|error| Problem::failed(error.to_string()))?;
    let path = root.path().join(FILE);
    let shown = quote_name(&path);
    let text = fs::read_text(&path, MCP_FILE)?.unwrap_or_default();
    let is_new = definition.is_some();
    let changed = change_server(&text, name, definition)
        .map_err(|why| Problem::usage(format!("{shown}: {why}")))?
        .ok_or_else(|| Problem::usage(format!("{shown} has no server {}", quote_name(name))))?;
    AtomicFile::new(&path).write(changed.as_bytes())?;
    let name = quote_name(name);
    let what = if is_new {
        format!("{name} is in {shown}; nagent-mcp list {name} starts it and shows its tools")
    } else {
        format!("{name} is no longer in {shown}")
    };
    Ok(Report::done(what).with("path", shown))
}
