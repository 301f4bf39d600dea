//! MCP servers for `nagent-mcp`, for a run and for a session: which there are, and `nagent-mcp add` and
//! `remove`, which edit the user's `mcp.json` and leave what they do not know.

pub mod verbs;

use std::path::Path;

use serde_json::{Value, json};

use crate::mcp::servers::{self, Servers, parse_servers};
use crate::ops::run::trust::{self, repository_files};
use crate::out::Report;
use conversation::format::harmless::quote_name;
use conversation::limits::MCP_FILE;
use conversation::problem::Problem;
use sys::atomic_file::AtomicFile;
use sys::env::{Env, PARENTS};
use sys::fs;
use sys::interrupt::Interrupts;
use sys::lock::lock_index;
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
) -> Result<(Servers, Option<String>), Problem> {
    let lookup = |name: &str| env.get(name).map(str::to_owned);
    let path = root.path().join(FILE);
    let own = fs::read_text(&path, MCP_FILE).map_err(|error| format!("{error:#}"));
    let mut servers = own
        .and_then(|text| parse_servers(text.as_deref().unwrap_or("{}"), &lookup))
        .map_err(|why| Problem::usage(format!("{}: {why}", quote_name(&path))))?;
    let mut files = repository_files(root, folder, toplevel).0.into_iter();
    let Some(file) = files.find(|file| file.path.ends_with(trust::SERVERS)) else {
        return Ok((servers, None));
    };
    let untrusted = "not used: it is new or has changed; review it with nagent --trust";
    let text = file.text.as_deref().ok_or_else(|| untrusted.to_owned());
    match text.and_then(|text| parse_servers(text, &lookup)) {
        Ok(mut theirs) => {
            theirs.append(&mut servers);
            Ok((theirs, None))
        }
        Err(why) => Ok((servers, Some(format!("{}: {why}", quote_name(&file.path))))),
    }
}

/// The server of `nagent-mcp add`
#[derive(Debug, Clone, clap::Args)]
pub struct NewServer {
    /// Its name
    name: String,
    /// Reach it at this address, by streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The program, and its arguments; ${VAR} in them is replaced when it starts
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    command: Vec<String>,
}

/// Adds a server, or replaces the one of this name.
pub(crate) fn add_server(root: &Root, env: &Env, new: &NewServer) -> Result<Report, Problem> {
    let definition = match (&new.url, new.command.split_first()) {
        (None, Some((program, args))) => json!({ "command": program, "args": args }),
        (url, _) => json!({ "type": "http", "url": url }),
    };
    set_server(root, env, &new.name, Some(definition))
}

/// Sets the definition of a server in the user's file, or removes it.
pub(crate) fn set_server(
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
    let is_added = definition.is_some();
    root.prepare()?;
    let _lock = lock_index(root, FILE, &Interrupts::install()?)
        .map_err(|error| Problem::failed(error.to_string()))?;
    let path = root.path().join(FILE);
    let (shown, shown_name) = (quote_name(&path), quote_name(name));
    let text = fs::read_text(&path, MCP_FILE)?.unwrap_or_default();
    let changed = servers::set_server(&text, name, definition)
        .map_err(|why| Problem::usage(format!("{shown}: {why}")))?;
    AtomicFile::new(&path).write(changed.as_bytes())?;
    let next = format!("nagent-mcp list {shown_name} starts it and shows its tools");
    let said = if is_added {
        format!("{shown_name} is in {shown}; {next}\n")
    } else {
        format!("{shown_name} is no longer in {shown}\n")
    };
    Ok(Report::wrapped(&said).with("path", shown))
}
