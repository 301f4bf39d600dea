//! The report of an undo: on stdout, as JSON, and in the conversations whose runs it took back.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::change_report::{FileVersion, VersionPair};
use crate::ops::run::call::Call;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::file::Block;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{
    ChangeLogEntry, FileEvent, NO_FILE, RunFacts, RunFileChange, short_hash,
};
use edits::diff::file_diff::DiffText;
use sandbox::automatic_files::ChangedFiles;
use sys::names::name_some;
use sys::opening::Opened;
use sys::terminal;

/// A file that gets an earlier content.
pub(crate) struct UndoPlan {
    pub(crate) path: PathBuf,
    pub(crate) opened: Option<Opened>,
    pub(crate) now: FileVersion,
    pub(crate) goal: FileVersion,
    /// The changes that are undone, the newest first.
    pub(crate) changes: Vec<RunFileChange>,
    pub(crate) diff: Option<DiffText>,
    /// The stored content that was replaced.
    pub(crate) previous: Option<PathBuf>,
}

/// A file that is not undone, and why.
pub(crate) struct UndoRefusal {
    pub(crate) path: PathBuf,
    pub(crate) message: String,
    /// Whether `--force` undoes it.
    pub(crate) can_force: bool,
}

/// Says what git ignores and changed; empty if nothing did.
pub(crate) fn describe_ignored(ignored: &ChangedFiles) -> String {
    let names: Vec<String> = ignored.paths.iter().map(quote_name).collect();
    let names = name_some(&names, IGNORED, ", ");
    let mut text = match names.as_str() {
        "" => String::new(),
        names => format!("changed since commands began, and not taken back: {names}\n"),
    };
    if ignored.is_cut {
        text.push_str("not all of the tree was looked at\n");
    }
    text
}

/// Why not all that commands did is taken back.
fn why(entry: &ChangeLogEntry) -> &str {
    if let FileEvent::CommandsRan { why, .. } = &entry.event { why } else { "" }
}

/// `2026-11-22T01:02:03Z  Accept CRLF too`
fn summary_line(run: &RunFacts) -> String {
    let RunFacts { at, prompt, .. } = run;
    let at = if at.is_empty() { "(no time)" } else { at };
    let prompt = if prompt.is_empty() { "(no prompt)" } else { prompt };
    format!("{at}  {prompt}\n")
}

fn change_to_json(change: &RunFileChange) -> Value {
    json!({
        "at": change.facts.at,
        "prompt": change.facts.prompt,
        "before_sha256": change.before.as_deref().unwrap_or(NO_FILE),
        "after_sha256": change.after.as_deref().unwrap_or(NO_FILE),
        "by_commands": change.executable.is_some(),
    })
}

/// Maximum number of ignored files and folders that are named.
const IGNORED: usize = 20;

/// Reports what was undone: on stdout, with the diffs where stderr is not a terminal that shows them in color. `left`: what
/// commands changed and was not taken back; the exit code is then 1. `ignored`: what changed and git ignores, which are mostly
/// build products. `has_free`: a command of these runs, or of a later one, ran without a sandbox.
pub(crate) fn report_done(
    call: &Call<'_>,
    plans: Vec<UndoPlan>,
    left: &[ChangeLogEntry],
    ignored: &ChangedFiles,
    has_free: bool,
) -> Report {
    let is_all_left = plans.is_empty();
    let is_terminal = terminal::stderr_is_terminal();
    let (mut text, mut last, mut files) = (String::new(), String::new(), Vec::new());
    for plan in plans {
        let is_done = plan.now.sha256 == plan.goal.sha256;
        let end = match (is_done, &plan.goal.sha256) {
            (true, _) => "unchanged, it has that content already:",
            (_, None) => "removed",
            (_, Some(_)) => "restored",
        };
        let of: String = plan.changes.iter().map(|it| summary_line(&it.facts)).collect();
        if of != last {
            text.push_str(&of);
            last = of;
        }
        text.push_str(&format!("{end} {}\n", quote_name(&plan.path)));
        let is_forced = plan.changes.first().is_some_and(|last| last.after != plan.now.sha256);
        if let Some(previous) = plan.previous.as_ref().filter(|_| is_forced) {
            text.push_str(&format!("the replaced content is in {}\n", quote_name(previous)));
        }
        let change = VersionPair { path: &plan.path, before: &plan.now, after: &plan.goal };
        if let Some(diff) = plan.diff.as_ref().filter(|_| call.shows_progress) {
            if is_terminal {
                change.print(call.root(), diff, call.args.verbose);
            } else {
                text.push_str(&diff.text);
            }
        }
        let is_cut = plan.diff.as_ref().is_some_and(|diff| diff.is_cut);
        files.push(json!({
            "source_path": plan.path.display().to_string(),
            "undone": plan.changes.iter().map(change_to_json).collect::<Vec<_>>(),
            "changed": !is_done,
            "before_sha256": plan.now.hash_or_none(),
            "after_sha256": plan.goal.hash_or_none(),
            "previous_path": plan.previous.map(|path| path.display().to_string()),
            "diff": plan.diff.map(|diff| diff.text),
            "diff_cut": is_cut,
        }));
    }
    let mut left_names = Vec::new();
    for entry in left {
        let what = format!("not all that commands did is taken back: {}", why(entry));
        let of = if is_all_left { summary_line(&entry.facts) } else { String::new() };
        text.push_str(&format!("{of}{what}\n"));
        left_names.push(what);
    }
    if is_all_left && !left.is_empty() {
        text.push_str("nothing was undone; --undo again takes back the run before this one\n");
    }
    text.push_str(&describe_ignored(ignored));
    if has_free {
        text.push_str("commands of this run or a later one ran without a sandbox: what they changed elsewhere is not known\n");
    }
    let names: Vec<String> = ignored.paths.iter().map(quote_name).collect();
    let report = Report::wrapped(&text).with("files", files).with("not_undone", left_names);
    let report = report.with("ignored", names);
    Report { exit: if left.is_empty() { Exit::Done } else { Exit::Failed }, ..report }
}

/// The refusal of files that are not as the last change left them.
pub(crate) fn report_refusals(call: &Call<'_>, refusals: &[UndoRefusal]) -> Report {
    let file = |it: &UndoRefusal| json!({"source_path": it.path.display().to_string()});
    let files: Vec<Value> = refusals.iter().map(file).collect();
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
    let mut message = format!("nothing was undone: {}", reasons.join("; "));
    if refusals.iter().all(|refusal| refusal.can_force) {
        message.push_str(&format!(
            ". If a later run did it, nagent-file-edit FILE --undo takes that back first; --undo --force undoes all, and \
             keeps the current content in {}",
            quote_name(call.root().outputs_folder())
        ));
    }
    Report::failed(Exit::Failed, message).with("files", files)
}

/// Lists what can be undone, the newest run first, or says `nothing`.
pub(crate) fn report_list(
    changes: &[RunFileChange],
    runs: &[String],
    unknown: &[ChangeLogEntry],
    nothing: &str,
) -> Report {
    let (mut text, mut list) = (String::new(), Vec::new());
    for (at, run) in runs.iter().enumerate() {
        let of_run = || changes.iter().filter(|change| change.facts.run == *run);
        let left = || unknown.iter().filter(|it| it.facts.run == *run);
        let facts = of_run().map(|it| &it.facts).chain(left().map(|it| &it.facts)).next();
        let Some(RunFacts { at: time, prompt, task, conversation, .. }) = facts else { continue };
        let n = at + 1;
        // The changes of a child count as those of the run that was asked.
        let prompt = if task.is_empty() { prompt } else { task };
        text.push_str(&format!("{n:>3}  {time}  {prompt}\n"));
        for change in of_run() {
            let by = if change.executable.is_some() { "  (by commands)" } else { "" };
            text.push_str(&format!("     {}{by}\n", quote_name(&change.path)));
        }
        for left in left() {
            text.push_str(&format!("     without what commands changed: {}\n", why(left)));
        }
        let file = |change| {
            let mut file = change_to_json(change);
            file["source_path"] = change.path.as_str().into();
            file
        };
        list.push(json!({
            "n": n,
            "at": time,
            "prompt": prompt,
            "conversation": conversation,
            "files": of_run().map(file).collect::<Vec<_>>(),
        }));
    }
    if text.is_empty() {
        text.push_str(&format!("{nothing}\n"));
    }
    Report::wrapped(&text).with("undoable", list)
}

/// Makes the block that records the undo of a file, and of so many `more`, for the model.
pub(crate) fn undo_block(plan: &UndoPlan, more: usize) -> Block {
    let UndoPlan { path, now, goal, changes, .. } = plan;
    let path = path.display().to_string();
    let what = if changes.len() == 1 { "a change" } else { "changes" };
    let state = match goal.sha256 {
        Some(_) => "is as it was before that",
        None => "does not exist, as before that",
    };
    let more = if more > 0 { format!("\n{more} more files were undone.") } else { String::new() };
    let lines: String = changes.iter().map(|it| format!("- {}", summary_line(&it.facts))).collect();
    Block::new("system")
        .with("change", "undo")
        .with("path", &path)
        .with("before", short_hash(now.hash_or_none()))
        .with("after", short_hash(goal.hash_or_none()))
        .with("count", changes.len())
        .body(format!(
            "the user undid {what} of this conversation, and {path} {state}:\n{lines}Read the file again before you \
             change it.{more}"
        ))
}
