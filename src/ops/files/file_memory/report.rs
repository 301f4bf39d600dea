//! `nagent-file-edit --file F --history`: all that a repository knows of a file, with the cached summaries. Asks no model.

use std::path::Path;

use serde_json::{Value, json};

use super::commits;
use crate::ops::setup::settings::Settings;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use history::text::{self, Extent, Summaries};
use history::{FileChange, FileCommit, History};
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;

/// Reports all that the repository knows of a file, as text and as JSON.
pub fn report_history(
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
    file: &Path,
) -> Result<Report, Problem> {
    let file = env.absolute_path(file)?;
    let file = fs::real_path(&file).unwrap_or(file);
    let root = &settings.root;
    let mut keep_waiting = || interrupts.pending().is_none();
    let lookup =
        git::read_history(&file, &root.history_folder(), git::REPORT_TIME, &mut keep_waiting);
    if let Some(signal) = interrupts.pending() {
        let message = format!("interrupted by {} while reading the history", signal.name());
        return Err(Problem::new(Exit::Signal(signal), message));
    }
    let Some(history) = lookup.history.filter(|history| !history.commits.is_empty()) else {
        let why = lookup.notes.join("; ");
        let message = format!("{} has no history: {why}", quote_name(&file));
        return Err(Problem::failed(message));
    };
    let (summaries, _) =
        commits::read_cached(&root.summaries_folder(), &history.commits, usize::MAX);
    let notes: Vec<&String> = lookup.notes.iter().chain(&history.notes).collect();
    let block = text::format_history(&history, &summaries, Extent::Whole);
    // A person does not need the marks of a block.
    let body = block.strip_prefix("{file-history}\n").unwrap_or(&block);
    let mut printed = body.strip_suffix("{/file-history}").unwrap_or(body).to_owned();
    for note in &notes {
        printed.push_str(&format!(
            "\nnote: {}",
            conversation::format::harmless::escape_line(note, 500)
        ));
    }
    Ok(Report::done(printed)
        .with("file", file.display().to_string())
        .with("repository", history.toplevel.display().to_string())
        .with("head", history.head.as_str())
        .with("shallow", history.is_shallow)
        .with("people", people_json(&history))
        .with("commits", commits_json(&history, &summaries))
        .with("neighbours", co_changed_json(&history))
        .with("commits_compared", history.counted)
        .with("notes", json!(notes)))
}

fn people_json(history: &History) -> Value {
    let all = history.people.iter().map(|person| {
        json!({
            "name": person.name,
            "email": person.email,
            "commits": person.commits,
            "first": text::format_date(person.first, 0),
            "last": text::format_date(person.last, 0),
        })
    });
    all.collect()
}

fn commits_json(history: &History, summaries: &Summaries) -> Value {
    let all = history.commits.iter().map(|commit| {
        let mut value = json!({
            "hash": commit.id,
            "date": text::format_date(commit.time, commit.offset),
            "author": commit.name,
            "email": commit.email,
            "subject": commit.subject,
            "change": change_name(commit),
            "kind": commit.kind,
        });
        insert_path(&mut value, "path", &commit.path);
        if let FileChange::Renamed { from } = &commit.change {
            insert_path(&mut value, "from", from);
        }
        if let Some(summary) = summaries.get(&commit.id) {
            value["summary"] = summary.as_str().into();
        }
        value
    });
    all.collect()
}

fn co_changed_json(history: &History) -> Value {
    let all = history.co_changed.iter().map(|file| {
        let mut value = json!({"commits_together": file.together});
        insert_path(&mut value, "path", &file.path);
        value
    });
    all.collect()
}

/// Inserts a path under `key`; where it is not UTF-8, also its bytes in hexadecimal digits under `{key}_bytes`.
fn insert_path(value: &mut Value, key: &str, bytes: &[u8]) {
    value[key] = String::from_utf8_lossy(bytes).into();
    if std::str::from_utf8(bytes).is_err() {
        value[format!("{key}_bytes")] = fs::encode_hex(bytes).into();
    }
}

fn change_name(commit: &FileCommit) -> &'static str {
    match commit.change {
        FileChange::Added => "added",
        FileChange::Modified => "modified",
        FileChange::Renamed { .. } => "renamed",
        FileChange::Deleted => "deleted",
    }
}
