//! `nagent-file-edit --file F --history`: all that a repository says of a file, and the summaries that are kept. No model is
//! asked.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::commits;
use crate::cmd::settings::Settings;
use crate::exit::Exit;
use crate::history::text::{self, Extent, Summaries};
use crate::history::{Change, History, Sort, Touch};
use crate::out::Report;
use crate::problem::Problem;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::{expand_home, shown};
use crate::sys::{fs, git};

/// All that the repository says of a file, as text and as JSON: `file`, `repository`, `head`, `shallow`, `people`,
/// `commits` (the newest first), `neighbours`, `notes`.
///
/// # Errors
/// The working folder is not known, the file is in no repository, or no commit touched it.
pub fn history_report(
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
    file: &Path,
) -> Result<Report, Problem> {
    let folder = env.folder.clone().map_err(Problem::usage)?;
    let file = folder.join(expand_home(file, env.home().as_deref()));
    let file = fs::real_path(&file).unwrap_or(file);
    let root = &settings.root.value;
    let look = git::history(&file, &root.history(), &|| interrupts.pending().is_some());
    if let Some(signal) = interrupts.pending() {
        let message = format!("interrupted by {} while reading the history", signal.name());
        return Err(Problem::new(Exit::Signal(signal), message));
    }
    let Some(history) = look.history.filter(|history| !history.touches.is_empty()) else {
        let why = look.notes.join("; ");
        let message = format!("{} has no history: {why}", shown(&file));
        return Err(Problem::failed(message));
    };
    let (summaries, _) = commits::kept(&root.summaries(), &history.touches, usize::MAX);
    let notes: Vec<&String> = look.notes.iter().chain(&history.notes).collect();
    let mut printed = text::history(&history, &summaries, Extent::Whole);
    for note in &notes {
        printed.push_str(&format!("\nnote: {}", crate::format::harmless::escape_line(note, 500)));
    }
    Ok(Report::done(printed)
        .with("file", file.display().to_string())
        .with("repository", history.toplevel.display().to_string())
        .with("head", history.head.as_str())
        .with("shallow", history.is_shallow)
        .with("people", people(&history))
        .with("commits", commits(&history, &summaries))
        .with("neighbours", neighbours(&history))
        .with("notes", json!(notes)))
}

fn people(history: &History) -> Value {
    let all = history.people.iter().map(|person| {
        json!({
            "name": person.name,
            "email": person.email,
            "commits": person.commits,
            "first": text::date(person.first, 0),
            "last": text::date(person.last, 0),
        })
    });
    all.collect()
}

fn commits(history: &History, summaries: &Summaries) -> Value {
    let all = history.touches.iter().map(|touch| {
        let mut commit = Map::new();
        commit.insert("hash".to_owned(), touch.id.as_str().into());
        commit.insert("date".to_owned(), text::date(touch.time, touch.offset).into());
        commit.insert("author".to_owned(), touch.name.as_str().into());
        commit.insert("email".to_owned(), touch.email.as_str().into());
        commit.insert("subject".to_owned(), touch.subject.as_str().into());
        path(&mut commit, "path", &touch.path);
        commit.insert("change".to_owned(), change(touch).into());
        if let Change::Renamed { from } = &touch.change {
            path(&mut commit, "from", from);
        }
        commit.insert("kind".to_owned(), kind(touch).into());
        commit.insert("files".to_owned(), touch.files.into());
        if let Some(summary) = summaries.get(&touch.id) {
            commit.insert("summary".to_owned(), summary.as_str().into());
        }
        Value::Object(commit)
    });
    all.collect()
}

fn neighbours(history: &History) -> Value {
    let all = history.neighbours.iter().map(|neighbour| {
        let mut row = Map::new();
        path(&mut row, "path", &neighbour.path);
        row.insert("commits_together".to_owned(), neighbour.together.into());
        // Three decimals are more than the figure means.
        row.insert("share".to_owned(), ((neighbour.share * 1000.0).round() / 1000.0).into());
        row.insert("rate".to_owned(), neighbour.rate.name().into());
        Value::Object(row)
    });
    all.collect()
}

/// A path under `key`; where it is no UTF-8, its bytes in hexadecimal digits under `{key}_bytes` too.
fn path(object: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    object.insert(key.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        object.insert(format!("{key}_bytes"), fs::hex(bytes).into());
    }
}

fn change(touch: &Touch) -> &'static str {
    match touch.change {
        Change::Added => "added",
        Change::Modified => "modified",
        Change::Renamed { .. } => "renamed",
        Change::Deleted => "deleted",
    }
}

fn kind(touch: &Touch) -> &'static str {
    match touch.sort {
        Sort::Plain => "plain",
        Sort::Merge => "merge",
        Sort::Import => "import",
        Sort::Boundary => "boundary",
    }
}
