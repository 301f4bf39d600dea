//! Reads a script: a file, or a page of the web, which is shown and asked about when it is new or has changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;

use super::request::ThinkRequest;
use crate::out;
use conversation::approve::Answer;
use conversation::limits;
use conversation::problem::Problem;
use script::bridges::Bridges;
use script::fetch::FetchRequest;
use script::permission::{Permissions, ask_permission, read_policy};
use script::policy::places::ScriptPlaces;
use script::policy::{Approval, Layers, Subject};
use script::thought::script::is_url;
use script::thoughts::Home;
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::tty::Tty;

/// A script's text, and where it is.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// Its path without links, or its address.
    pub place: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Their SHA-256.
    pub sha256: String,
}

/// Maximum time for reading a page.
const TIME: Duration = Duration::from_secs(30);

/// Reads a script, wherever it is.
pub(super) fn read_source(
    request: &ThinkRequest,
    env: &Env,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<ScriptSource, Problem> {
    let place = &request.script;
    let source = read_place(place, env, home, interrupts)?;
    if is_url(place) && !request.dry_run {
        confirm_page(&source, request.yes, home, interrupts)?;
    }
    Ok(source)
}

/// Reads a script's file or page.
///
/// # Errors
/// It is not there, too large, or cannot be read.
pub fn read_place(
    place: &str,
    env: &Env,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<ScriptSource, Problem> {
    let bytes;
    let place = if is_url(place) {
        bytes = fetch_page(place, env, home, interrupts)?;
        place.to_owned()
    } else {
        let path = env.absolute_path(Path::new(place))?;
        let limit = limits::THOUGHT_SCRIPT;
        if fs::file_size(&path).is_some_and(|size| size > limit) {
            return Err(Problem::usage(format!("{place}: a script has at most {limit} bytes")));
        }
        bytes = fs::read_bytes(&path, limit)?.ok_or_else(|| {
            let near = sys::names::suggest_paths(&path);
            Problem::failed(format!("{place}: no such script{near}"))
        })?;
        fs::real_path(&path).unwrap_or(path).display().to_string()
    };
    let sha256 = fs::sha256(&bytes);
    Ok(ScriptSource { place, bytes, sha256 })
}

/// Fetches a page. Its host is one that the user named; others, to which it is redirected, must be allowed.
fn fetch_page(
    place: &str,
    env: &Env,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<Vec<u8>, Problem> {
    let url = Url::parse(place).map_err(|error| Problem::usage(format!("{place}: {error}")))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut layers = Layers {
        global: read_policy(&home.policy_path(None)).unwrap_or_default(),
        ..Layers::default()
    };
    layers.own.add_entry((Subject::Host(host), ""), Approval::Allow, "cli", "");
    let mut permissions = Permissions::new(ScriptPlaces::default(), layers, interrupts);
    // Advice about another host that it leads to is about the global policy.
    permissions.name = Some("--global".to_owned());
    let mut bridges = Bridges::new(permissions, env, PathBuf::new(), Box::new(|_| ()));
    let request = FetchRequest {
        method: "GET".to_owned(),
        url,
        headers: vec![("accept".to_owned(), "text/markdown, text/plain, */*".to_owned())],
        body: Vec::new(),
        is_private_allowed: false,
        time: TIME,
        limit: limits::THOUGHT_SCRIPT,
    };
    let fetched = bridges.follow(request, None);
    if let Some(signal) = interrupts.pending() {
        return Err(Problem::interrupted(signal));
    }
    let fetched = fetched.map_err(|error| Problem::failed(format!("{place}: {error}")))?;
    if fetched.status != 200 {
        return Err(Problem::failed(format!(
            "{place}: the server answered with status {}",
            fetched.status
        )));
    }
    Ok(fetched.body)
}

/// Shows a page that is new or has changed, and asks whether it may run.
fn confirm_page(
    source: &ScriptSource,
    is_taken: bool,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<(), Problem> {
    let known = home.read_fingerprint(&source.place);
    home.prepare()?;
    if is_taken || known.as_deref() == Some(source.sha256.as_str()) {
        return Ok(home.write_fingerprint(&source.place, &source.sha256)?);
    }
    let what = if known.is_some() { "has changed" } else { "is new here" };
    let Some(mut tty) = Tty::open_with_locks(home.folder.join("locks")) else {
        return Err(Problem::failed(format!(
            "{} {what}, and there is no terminal to ask on; review it, then use --yes",
            source.place
        )));
    };
    out::print_line(&format!(
        "{} {what}:\n{}",
        source.place,
        String::from_utf8_lossy(&source.bytes)
    ));
    match ask_permission(&mut tty, "nagent-think", ("RUN", &source.place), interrupts) {
        Some(Answer::Always) => Ok(home.write_fingerprint(&source.place, &source.sha256)?),
        Some(Answer::Yes) => Ok(()),
        Some(Answer::No(_)) => Err(Problem::failed(format!("{}: you said no", source.place))),
        Some(Answer::Word(_)) | None => {
            let signal = interrupts.pending().unwrap_or(conversation::exit::Signal::Int);
            Err(Problem::interrupted(signal))
        }
    }
}
