//! Prints and edits the policies of scripts.

use std::path::{Path, PathBuf};

use reqwest::Url;

use super::desk::Desk;
use crate::out::Report;
use conversation::problem::Problem;
use sandbox::script::permission::{edit_policy, read_policy};
use sandbox::script::policy::{Approval, Policy, Subject, check_mode, check_path};
use sys::env::Env;
use sys::{clock, names};

/// The arguments that name an entry of a policy.
#[derive(Debug, Clone, clap::Args)]
pub struct PolicyEdit {
    /// The kind: a file or folder, a variable of the environment, a host of the network
    #[arg(value_parser = ["path", "env", "host"])]
    kind: String,
    /// The script, unless --global is given, and the path, variable or host
    #[arg(value_name = "SCRIPT VALUE", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Edit the global policy
    #[arg(long)]
    global: bool,
}

impl PolicyEdit {
    fn value(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }

    fn script(&self) -> Option<&str> {
        self.words.first().filter(|_| self.words.len() > 1).map(String::as_str)
    }
}

/// Prints a policy.
pub fn list_policy(desk: &Desk, script: Option<&str>) -> Result<Report, Problem> {
    let (_, path) = find_policy(desk, script)?;
    let policy = read_policy(&path).map_err(|error| Problem::failed(format!("{error:#}")))?;
    let text = policy.format();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Report::done(text).with("path", path.display().to_string()).with("policy", value))
}

/// Adds an entry to a policy. `mode`: of a path, all where it is `None`.
pub fn add_entry(
    desk: &Desk,
    edit: &PolicyEdit,
    mode: Option<&str>,
    approval: Approval,
) -> Result<Report, Problem> {
    let subject = read_subject(&desk.env, edit)?;
    let default = if matches!(subject, Subject::Path(_)) { "rwd" } else { "" };
    if mode.is_some() && default.is_empty() {
        let kind = &edit.kind;
        return Err(Problem::usage(format!(
            "--mode is for paths, and this is an entry for a {kind}"
        )));
    }
    mode.map_or(Ok(()), check_mode).map_err(Problem::usage)?;
    let mode = mode.unwrap_or(default);
    change(desk, edit, |policy| {
        policy.add_entry((subject, mode), approval, "cli", &clock::now());
        Ok(())
    })
}

/// Removes entries from a policy.
pub fn remove_entry(desk: &Desk, edit: &PolicyEdit) -> Result<Report, Problem> {
    let subject = read_subject(&desk.env, edit)?;
    change(desk, edit, |policy| {
        if policy.remove(&subject) > 0 {
            return Ok(());
        }
        let (kind, text) = (&edit.kind, subject.text());
        let list = "nagent-thought policy list shows all";
        Err(Problem::usage(format!("there is no entry for the {kind} {text}; {list}")).into())
    })
}

/// The thought of a script that is known here, and its policy; the global one without a script.
fn find_policy(desk: &Desk, script: Option<&str>) -> Result<(Option<String>, PathBuf), Problem> {
    // A policy may be there before the first run.
    let name = script.map(|script| desk.find_script(script)).transpose();
    let name =
        name.map_err(|problem| Problem::usage(problem.to_string()))?.map(|target| target.name);
    let path = desk.home.policy_path(name.as_deref());
    Ok((name, path))
}

fn change(
    desk: &Desk,
    edit: &PolicyEdit,
    with: impl FnOnce(&mut Policy) -> anyhow::Result<()>,
) -> Result<Report, Problem> {
    let (name, path) = find_policy(desk, edit.script())?;
    if let Some(name) = &name {
        desk.home.prepare_thought(name, &clock::now())?;
    }
    edit_policy(&path, &desk.interrupts, with)?;
    Ok(Report::done("").with("path", path.display().to_string()))
}

/// The subject as an entry has it: a path from `/` on, a variable's name, a host.
fn read_subject(env: &Env, edit: &PolicyEdit) -> Result<Subject, Problem> {
    let value = edit.value();
    if edit.script().is_some() == edit.global {
        let global = "--global takes no script";
        let advice = if edit.global { global } else { "name the script, or give --global" };
        let kind = &edit.kind;
        let usage = format!("{advice}: nagent-thought policy add {kind} SCRIPT VALUE");
        return Err(Problem::usage(usage));
    }
    let wrong = |why: &str| Problem::usage(format!("\"{}\" is not {why}", value.escape_debug()));
    match edit.kind.as_str() {
        "path" => {
            let path = names::resolve_links(&env.absolute_path(Path::new(value))?);
            let path = path.display().to_string();
            check_path(&path).map(|()| Subject::Path(path)).map_err(Problem::usage)
        }
        "env" => {
            let name = value.strip_suffix('*').unwrap_or(value);
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if value.is_empty() || !name.chars().all(is_name) {
                return Err(wrong("the name of a variable, or its beginning with a *"));
            }
            Ok(Subject::Env(value.to_owned()))
        }
        _ => read_host(value).map(Subject::Host).ok_or_else(|| {
            wrong("a host, as api.example.com, *.example.com, localhost:8080 or [::1]:8080")
        }),
    }
}

/// A host as `net.fetch` reads it, with its wildcard and port.
fn read_host(value: &str) -> Option<String> {
    let (wildcard, named) = value.strip_prefix("*.").map_or(("", value), |end| ("*.", end));
    let is_bare = named.chars().all(|c| c.is_alphanumeric() || ".-_:[]".contains(c));
    let url = Url::parse(&format!("http://{named}")).ok().filter(|_| is_bare)?;
    let host = url.host_str()?.trim_end_matches('.');
    let port = named.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let port = port.map(|(_, port)| format!(":{port}")).unwrap_or_default();
    (!host.split('.').any(str::is_empty)).then(|| format!("{wildcard}{host}{port}"))
}
