//! The report of an undo: on stdout, as JSON, and in the conversations whose runs it took back.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::change_report::{self, FileVersion};
use crate::drive::{self, KnownContent};
use crate::ops::run::call::Call;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::file::Block;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{NO_FILE, RunFileChange, is_hash_of, short_hash};
use edits::diff::file_diff::DiffText;
use sys::conversation_file::ConversationFile;
use sys::opening::Opened;
use sys::root::Root;
use sys::terminal;

/// Maximum size of a diff that is recorded in the conversation, in bytes.
const DIFF_LIMIT: usize = 6 << 10;

/// A change that is undone.
pub(crate) struct Undone {
    pub(crate) change: RunFileChange,
    /// Lines that it removed and added; `None` where they were not counted.
    pub(crate) lines: Option<(u64, u64)>,
}

/// A file that gets an earlier content.
pub(crate) struct UndoPlan {
    pub(crate) path: PathBuf,
    pub(crate) opened: Option<Opened>,
    pub(crate) now: FileVersion,
    pub(crate) goal: FileVersion,
    /// The newest first.
    pub(crate) undone: Vec<Undone>,
    /// Whether something else has changed the file since, which is undone, too.
    pub(crate) is_forced: bool,
    pub(crate) diff: Option<DiffText>,
    pub(crate) previous: Option<PathBuf>,
}

/// A file that is not undone, why, and its changes since.
pub(crate) struct UndoRefusal {
    pub(crate) path: PathBuf,
    pub(crate) message: String,
    pub(crate) since: Option<DiffText>,
}

pub(crate) fn describe(
    root: &Root,
    path: &Path,
    now: &FileVersion,
    change: RunFileChange,
) -> Undone {
    let content = |hash: &Option<String>| {
        if *hash == now.sha256 {
            now.clone()
        } else {
            FileVersion::read_stored(root, hash.as_deref())
        }
    };
    let (before, after) = (content(&change.before), content(&change.after));
    let diff = change_report::VersionPair { path, before: &before, after: &after }.text_diff();
    Undone { change, lines: diff.and_then(|diff| diff.removed.zip(diff.added)) }
}

impl Undone {
    /// `2026-11-22T01:02:03Z  -3 +5  Accept CRLF too`
    fn summary_line(&self) -> String {
        let lines = match self.lines {
            Some((removed, added)) => format!("-{removed} +{added}"),
            None => "lines not counted".to_owned(),
        };
        let RunFileChange { at, prompt, .. } = &self.change;
        let at = if at.is_empty() { "(no time)" } else { at };
        let prompt = if prompt.is_empty() { "(no prompt)" } else { prompt };
        format!("{at}  {lines}  {prompt}\n")
    }

    fn to_json(&self) -> Value {
        json!({
            "at": self.change.at,
            "prompt": self.change.prompt,
            "before_sha256": self.change.before.as_deref().unwrap_or(NO_FILE),
            "after_sha256": self.change.after.as_deref().unwrap_or(NO_FILE),
            "lines_removed": self.lines.map(|lines| lines.0),
            "lines_added": self.lines.map(|lines| lines.1),
        })
    }
}

/// Reports what was undone: on stdout, with the diffs where stderr is not a terminal that shows them in color.
pub(crate) fn report_done(call: &Call<'_>, plans: Vec<UndoPlan>) -> Report {
    let is_terminal = terminal::stderr_is_terminal();
    let (mut text, mut files) = (String::new(), Vec::new());
    for plan in plans {
        let is_done = plan.now.sha256 == plan.goal.sha256;
        let end = match (is_done, &plan.goal.sha256) {
            (true, _) => "unchanged, it has that content already:",
            (_, None) => "removed",
            (_, Some(_)) => "restored",
        };
        text.push_str(&format!("{end} {}\n", quote_name(&plan.path)));
        text.extend(plan.undone.iter().map(Undone::summary_line));
        if let (true, Some(previous)) = (plan.is_forced, &plan.previous) {
            text.push_str(&format!("the replaced content is in {}\n", quote_name(previous)));
        }
        let change =
            change_report::VersionPair { path: &plan.path, before: &plan.now, after: &plan.goal };
        if let Some(diff) = plan.diff.as_ref().filter(|_| call.shows_progress) {
            if is_terminal {
                change.print(call.root(), diff);
            } else {
                text.push_str(&diff.text);
            }
        }
        let is_cut = plan.diff.as_ref().is_some_and(|diff| diff.is_cut);
        files.push(json!({
            "source_path": plan.path.display().to_string(),
            "undone": plan.undone.iter().map(Undone::to_json).collect::<Vec<_>>(),
            "changed": !is_done,
            "before_sha256": plan.now.hash_or_none(),
            "after_sha256": plan.goal.hash_or_none(),
            "restored_sha256": plan.goal.hash_or_none(),
            "previous_path": plan.previous.map(|path| path.display().to_string()),
            "diff": plan.diff.map(|diff| diff.text),
            "diff_cut": is_cut,
        }));
    }
    Report::done(text).with("files", files)
}

/// The refusal of files that are not as the last change left them, with what changed since.
pub(crate) fn report_refusals(
    call: &Call<'_>,
    has_flags: bool,
    refusals: &[UndoRefusal],
) -> Report {
    let mut files = Vec::new();
    for refusal in refusals {
        if let Some(diff) = refusal.since.as_ref().filter(|_| !call.args.lines) {
            change_report::print_diff(&refusal.path, None, diff);
        }
        files.push(json!({
            "source_path": refusal.path.display().to_string(),
            "undone": [],
            "diff_since": refusal.since.as_ref().map(|diff| &diff.text),
        }));
    }
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
    let above =
        if refusals.iter().any(|it| it.since.is_some()) { " (the diff is above)" } else { "" };
    let outputs = call.root().outputs_folder();
    let outputs = quote_name(&outputs);
    // A rewind has no such flags.
    let advice = if has_flags {
        format!("--force undoes all and keeps the current content in {outputs}")
    } else {
        format!(
            "First take back runs with nagent -c {} --undo: --force undoes all and keeps the current content in {outputs}",
            call.name
        )
    };
    let message = format!("nothing was undone: {}{above}. {advice}", reasons.join("; "));
    Report::failed(Exit::Failed, message).with("files", files)
}

/// Lists what can be undone, the newest first: the changes of each unit, which is a run or a change.
pub(crate) fn report_list(call: &Call<'_>, changes: &[RunFileChange], units: &[String]) -> Report {
    let (mut text, mut list) = (String::new(), Vec::new());
    for (at, unit) in units.iter().enumerate() {
        let of_unit = changes.iter().filter(|it| it.run == *unit || it.id == *unit);
        let of_unit: Vec<Undone> = of_unit
            .map(|it| {
                describe(call.root(), Path::new(&it.path), &FileVersion::default(), it.clone())
            })
            .collect();
        let Some(first) = of_unit.first() else { continue };
        let n = at + 1;
        let RunFileChange { at, prompt, task, .. } = &first.change;
        // The changes of a child count as those of the run that was asked.
        let is_run = first.change.run == *unit;
        let prompt = if is_run && !task.is_empty() { task } else { prompt };
        text.push_str(&format!("{n:>3}  {at}  {prompt}\n"));
        let mut files = Vec::new();
        for undone in &of_unit {
            let path = &undone.change.path;
            let lines = undone
                .lines
                .map_or_else(String::new, |(removed, added)| format!("-{removed} +{added}  "));
            text.push_str(&format!("     {lines}{}\n", quote_name(path)));
            let mut file = undone.to_json();
            file["source_path"] = path.as_str().into();
            files.push(file);
        }
        list.push(json!({
            "n": n,
            "at": at,
            "prompt": prompt,
            "conversation": first.change.conversation,
            "files": files,
        }));
    }
    if text.is_empty() {
        text.push_str("nothing to undo\n");
    }
    Report::done(text).with("undoable", list)
}

/// Makes the block that records the undo of a file, for the model.
pub(crate) fn undo_block(journal: &ConversationFile, plan: &UndoPlan) -> Block {
    let UndoPlan { path, now, goal, undone, diff, .. } = plan;
    let path_name = path.display().to_string();
    let mut block = Block::new("system")
        .with("change", "undo")
        .with("path", &path_name)
        .with("before", short_hash(now.hash_or_none()))
        .with("after", short_hash(goal.hash_or_none()));
    let what = if undone.len() == 1 { "a change" } else { "changes" };
    let state = match goal.sha256 {
        Some(_) => "is as it was before that",
        None => "does not exist, as before that",
    };
    let mut text =
        format!("the user undid {what} of this conversation, and {path_name} {state}:\n");
    for change in undone {
        text.push_str(&format!("- {}", change.summary_line()));
    }
    if plan.is_forced && now.sha256 != goal.sha256 {
        text.push_str("Later changes by others were undone as well.\n");
    }
    let whole = diff
        .as_ref()
        .filter(|diff| !diff.is_cut && diff.text.len() <= DIFF_LIMIT && diff.removed.is_some());
    if let Some(diff) = whole {
        text.push_str(&format!("This is how the file was changed back:\n{}", diff.text));
        let known = drive::recorded_content(journal.pieces(), path);
        let is_up_to_date = |known: &KnownContent| {
            now.sha256.as_ref().is_some_and(|now| is_hash_of(&known.hash, now))
        };
        if let Some(known) = known.filter(is_up_to_date) {
            // With the diff, the model knows the new content as well as it knew the old one.
            block = block.with("resolved", &path_name);
            block = if known.is_read { block } else { block.with("part", "true") };
        }
    } else {
        text.push_str("Read the file again before you change it.");
    }
    block.with("count", undone.len()).body(text.trim_end_matches('\n').to_owned())
}
