//! MCP servers for `nagent-mcp`, for a run and for a session: which there are, and the way to them.

pub mod file;
pub mod verbs;

use std::path::Path;

use crate::ops::run::trust::repository_servers;
use conversation::format::harmless::quote_name;
use conversation::limits::MCP_FILE;
use conversation::problem::Problem;
use mcp::servers::{Servers, parse_servers};
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
) -> Result<(Servers, Option<String>), Problem> {
    let lookup = |name: &str| env.get(name).map(str::to_owned);
    let path = root.path().join(FILE);
    let own = fs::read_text(&path, MCP_FILE).map_err(|error| format!("{error:#}"));
    let mut servers = own
        .and_then(|text| parse_servers(text.as_deref().unwrap_or("{}"), &lookup))
        .map_err(|why| Problem::usage(format!("{}: {why}", quote_name(&path))))?;
    let Some(file) = repository_servers(root, folder, toplevel) else { return Ok((servers, None)) };
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
