//! Prints and edits the policies of scripts.

use std::path::{Path, PathBuf};

use reqwest::Url;

use super::desk::Desk;
use crate::out::Report;
use conversation::problem::Problem;
use script::permission::{edit_policy, read_policy};
use script::policy::{Approval, Policy, PolicySubject, check_mode, check_path};
use sys::env::Env;
use sys::{clock, fs};

/// The subject of an entry, as a word on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SubjectName {
    /// A file or folder
    Path,
    /// A variable of the environment
    Env,
    /// A host of the network
    Host,
}

/// The arguments that name an entry of a policy.
#[derive(Debug, Clone, clap::Args)]
pub struct PolicyEdit {
    /// What it is about
    #[arg(value_enum)]
    kind: SubjectName,
    /// The script, unless --global is given, and the path, variable or host
    #[arg(value_name = "SCRIPT VALUE", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// Edit the global policy
    #[arg(long)]
    global: bool,
}

impl PolicyEdit {
    fn subject(&self) -> PolicySubject {
        match self.kind {
            SubjectName::Path => PolicySubject::Path,
            SubjectName::Env => PolicySubject::Env,
            SubjectName::Host => PolicySubject::Host,
        }
    }

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
    let subject = check_value(&desk.env, edit)?;
    if mode.is_some() && edit.subject() != PolicySubject::Path {
        let kind = edit.subject().name();
        return Err(Problem::usage(format!(
            "--mode is for paths, and this is an entry for a {kind}"
        )));
    }
    let mode = mode.unwrap_or("rwd");
    check_mode(mode).map_err(Problem::usage)?;
    change(desk, edit, |policy| {
        policy.add_entry((edit.subject(), &subject, mode), approval, "cli", &clock::now());
        Ok(())
    })
}

/// Removes entries from a policy.
pub fn remove_entry(desk: &Desk, edit: &PolicyEdit) -> Result<Report, Problem> {
    let subject = check_value(&desk.env, edit)?;
    change(desk, edit, |policy| {
        if policy.remove(edit.subject(), &subject) + policy.remove(edit.subject(), edit.value()) > 0
        {
            return Ok(());
        }
        let kind = edit.subject().name();
        Err(Problem::usage(format!(
            "there is no entry for the {kind} {}; nagent-thought policy list shows all",
            edit.value()
        ))
        .into())
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

/// The value as an entry has it: a path from `/` on, a variable's name, a host.
fn check_value(env: &Env, edit: &PolicyEdit) -> Result<String, Problem> {
    let value = edit.value();
    if edit.script().is_some() == edit.global {
        let global = "--global takes no script";
        let advice = if edit.global { global } else { "name the script, or give --global" };
        let kind = edit.subject().name();
        let usage = format!("{advice}: nagent-thought policy add {kind} SCRIPT VALUE");
        return Err(Problem::usage(usage));
    }
    let wrong =
        |why: &str| Err(Problem::usage(format!("\"{}\" is not {why}", value.escape_debug())));
    match edit.subject() {
        PolicySubject::Path => {
            let path = env.absolute_path(Path::new(value))?;
            if value.is_empty() || value.contains('\0') {
                return wrong("a path");
            }
            let path = fs::resolve_path(&path).display().to_string();
            check_path(&path).map(|()| path).map_err(Problem::usage)
        }
        PolicySubject::Env => {
            let name = value.strip_suffix('*').unwrap_or(value);
            let is_name =
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !value.is_empty();
            if is_name {
                Ok(value.to_owned())
            } else {
                wrong("the name of a variable, or its beginning with a *")
            }
        }
        PolicySubject::Host => {
            let (wildcard, named) = value.strip_prefix("*.").map_or(("", value), |end| ("*.", end));
            let wrong = |advice: String| wrong(&format!("a host{advice}"));
            // As net.fetch reads it.
            let url = Url::parse(named).ok().filter(Url::has_host);
            if let Some(host) = url.as_ref().and_then(Url::host_str) {
                return wrong(format!("; did you mean {host}?"));
            }
            let (_, port) = named.rsplit_once(':').filter(|(_, port)| !port.contains(']')).unzip();
            let url = Url::parse(&format!("http://{named}")).ok();
            let host =
                url.as_ref().and_then(Url::host_str).unwrap_or_default().trim_end_matches('.');
            let is_bare = named.chars().all(|c| c.is_alphanumeric() || ".-_:[]".contains(c));
            let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
            if host.split('.').any(str::is_empty) || !is_bare || !port.is_none_or(is_port) {
                return wrong(
                    ", as api.example.com, *.example.com, localhost:8080 or [::1]:8080".to_owned(),
                );
            }
            Ok(format!(
                "{wildcard}{host}{}",
                port.map(|port| format!(":{port}")).unwrap_or_default()
            ))
        }
    }
}
