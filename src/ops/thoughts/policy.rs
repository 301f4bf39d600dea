//! Prints and edits the policies of scripts.

use std::path::Path;

use super::desk::Desk;
use crate::llm::provider::nearest;
use crate::out::{self, Report};
use crate::policy::{Approval, Kind, Policy, check_mode};
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::permission::{edit_policy, read_policy};
use crate::sys::{clock, fs};

/// An entry of a policy that is added or removed.
#[derive(Debug, Clone)]
pub struct PolicyEdit {
    /// What it is about.
    pub kind: Kind,
    /// The script; `None`: the global policy.
    pub script: Option<String>,
    /// The path, variable or host.
    pub value: String,
}

/// Prints a policy.
pub fn list_policy(script: Option<&str>) -> Result<Report, Problem> {
    let desk = Desk::new()?;
    let (_, path) = desk.policy_path(script)?;
    let policy = read_policy(&path).map_err(|error| Problem::failed(format!("{error:#}")))?;
    let text = policy.format();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Report::done(text).with("path", path.display().to_string()).with("policy", value))
}

/// Adds an entry to a policy.
pub fn add_entry(edit: &PolicyEdit, mode: &str, approval: Approval) -> Result<Report, Problem> {
    let desk = Desk::new()?;
    let subject = check_value(&desk.env, edit)?;
    check_mode(mode).map_err(Problem::usage)?;
    change(&desk, edit, |policy| {
        policy.add((edit.kind, &subject, mode), approval, "cli", &clock::now());
        Ok(())
    })
}

/// Removes entries from a policy.
pub fn remove_entry(edit: &PolicyEdit) -> Result<Report, Problem> {
    let desk = Desk::new()?;
    let subject = check_value(&desk.env, edit)?;
    change(&desk, edit, |policy| {
        if policy.remove(edit.kind, &subject) + policy.remove(edit.kind, &edit.value) > 0 {
            return Ok(());
        }
        let kind = edit.kind.name();
        Err(Problem::usage(format!("there is no entry for the {kind} {}", edit.value)).into())
    })
}

fn change(
    desk: &Desk,
    edit: &PolicyEdit,
    with: impl FnOnce(&mut Policy) -> anyhow::Result<()>,
) -> Result<Report, Problem> {
    let (name, path) = desk.policy_path(edit.script.as_deref())?;
    if let Some(name) = &name {
        if !fs::exists(&desk.home.thought(name)) {
            let names = desk.home.list_thoughts()?;
            let near = nearest(name, names.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            out::line(&format!("{name} has not run yet: this is its first policy{near}"));
        }
        desk.home.prepare_thought(name, &clock::now())?;
    }
    edit_policy(&path, &desk.interrupts, with)?;
    Ok(Report::done("").with("path", path.display().to_string()))
}

/// The value as an entry has it: a path from `/` on, a variable's name, a host.
fn check_value(env: &Env, edit: &PolicyEdit) -> Result<String, Problem> {
    let value = &edit.value;
    let wrong =
        |why: &str| Err(Problem::usage(format!("\"{}\" is not {why}", value.escape_debug())));
    match edit.kind {
        Kind::Path => {
            let path = env.absolute_path(Path::new(value))?;
            if value.is_empty() || value.contains('\0') {
                return wrong("a path");
            }
            Ok(fs::real_path(&path).unwrap_or(path).display().to_string())
        }
        Kind::Env => {
            let name = value.strip_suffix('*').unwrap_or(value);
            let is_name =
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !value.is_empty();
            if is_name {
                Ok(value.clone())
            } else {
                wrong("the name of a variable, or its beginning with a *")
            }
        }
        Kind::Host => {
            let host = value.strip_prefix("*.").unwrap_or(value);
            let is_host = !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".-_:[]".contains(c) || !c.is_ascii());
            let port = match host.rsplit_once(']') {
                Some((_, rest)) => rest.strip_prefix(':'),
                None => host.split_once(':').map(|(_, port)| port),
            };
            let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
            if is_host && port.is_none_or(is_port) {
                Ok(value.to_ascii_lowercase())
            } else {
                wrong("a host, as api.example.com, *.example.com, localhost:8080 or [::1]:8080")
            }
        }
    }
}
