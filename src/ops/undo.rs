//! Undoes what the last N runs of a file's conversation did to the file, and records that in the conversation.
//!
//! Which changes there are is read from the conversation ([`crate::memory::changes`]), the content before them from
//! `outputs/`. Nothing is lost: the current content is stored first. No model is asked.

use std::path::Path;

use serde_json::{Value, json};

use super::call::Call;
use super::change_report::{self, FileChange, FileVersion};
use super::file_conversation;
use super::opening::torn_block;
use crate::diff::file_diff::DiffText;
use crate::drive;
use crate::exit::Exit;
use crate::format::conversation::Block;
use crate::memory::changes::{NO_FILE, RunChange, find_killed_run, list_changes};
use crate::out::Report;
use crate::problem::Problem;
use crate::sys::conversation_file::ConversationFile;
use crate::sys::names::shown;
use crate::sys::root::Root;
use crate::sys::{fs, replace};
use crate::turn::unfinished::unfinished_results;

/// The most characters of a prompt that are reported.
const PROMPT: usize = 100;
/// The longest diff that is recorded in the conversation, in bytes.
const DIFF_LIMIT: usize = 6 << 10;

/// A change that is undone, for a reader: its prompt is one short line.
struct Undone {
    change: RunChange,
    /// Lines that it removed and added; `None` where they were not counted.
    lines: Option<(u64, u64)>,
}

/// Undoes the last `count` changes that runs of the file's conversation made. With `force`, also where something else has
/// changed the file since.
pub fn undo_changes(
    call: &Call<'_>,
    file: &Path,
    count: u64,
    force: bool,
) -> Result<Report, Problem> {
    let root = call.root();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let path = file_conversation::resolve_target(call, file)?;
    let mut journal = open_own(call, &path)?;
    // The file may have been renamed, and gets another identity when it is written.
    file_conversation::register(call, &path)?;
    let boundary = file_conversation::file_boundary(&call.env, root, &path)?;
    let opened = boundary.open_for_write(&path)?;
    let now = FileVersion::from_bytes(replace::read_bytes(&opened, u64::MAX)?);
    let read_fork = |name: &str| {
        crate::sys::root::check_name(name).ok()?;
        let fork = ConversationFile::read_only(root, name).ok()?;
        Some((fork.text().to_owned(), fork.pieces().to_vec()))
    };
    let mut all = list_changes(journal.text(), journal.pieces(), &read_fork);
    // What a killed run changed is not recorded: only the user can say whether the change is the run's.
    let guess = find_killed_run(journal.text(), journal.pieces())
        .filter(|change| change.before != now.sha256);
    let is_guess = guess.is_some();
    all.extend(guess);
    let chosen = choose(all, count, &path)?;
    let (newest, oldest) = (&chosen[0], &chosen[chosen.len() - 1]);
    let is_undone = now.sha256 == oldest.before;
    if !force && !is_undone {
        if now.sha256 != newest.after {
            return Ok(refuse_changed_since(root, &path, newest, &now, is_guess));
        }
        refuse_changed_between(&chosen, &path)?;
    }
    let goal = read_goal(root, oldest, &path)?;

    let changed = FileChange { path: &path, before: &now, after: &goal };
    let diff = changed.text_diff();
    let mut undone: Vec<Undone> =
        chosen.into_iter().map(|change| describe(root, &path, &now, change)).collect();
    if is_guess {
        undone[0].change.after.clone_from(&now.sha256);
        undone[0].lines = None;
    }
    let outputs = root.outputs();
    let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file);
    let previous = match &goal.bytes {
        _ if is_undone => None,
        Some(bytes) => replace::replace_file(opened, bytes, &mut keep)?.previous,
        None => replace::remove_file(opened, &mut keep)?,
    };
    file_conversation::update_index(call);
    // From here on the file is changed: a failure to record that says so.
    let block = undo_block(&journal, &path, &now, &goal, &undone, diff.as_ref())
        .with("count", undone.len() - usize::from(is_guess));
    if let Err(error) = record(call, &mut journal, block) {
        return Err(Problem::failed(format!(
            "{} has its previous content again, but that could not be recorded in its conversation: {error:#}",
            shown(&path)
        )));
    }
    let report = Report::done(report_text(&path, &undone, &goal, is_undone))
        .with("conversation_path", journal.path().display().to_string())
        .with("undone", undone.iter().map(Undone::to_json).collect::<Vec<_>>())
        .with("changed", !is_undone)
        .with("before_sha256", now.hash_or_none())
        .with("after_sha256", goal.hash_or_none())
        .with("restored_sha256", goal.hash_or_none())
        .with("previous_path", previous.map(|path| path.display().to_string()));
    let report = change_report::with_file(call, &path, report);
    Ok(change_report::with_diff(call, report, &changed, diff))
}

/// Opens the conversation that belongs to the file.
fn open_own(call: &Call<'_>, path: &Path) -> Result<ConversationFile, Problem> {
    if call.parents.contains(&call.name) {
        return Err(Problem::usage(format!(
            "the conversation of {} started this command and waits for it; undo once it has ended",
            shown(path)
        )));
    }
    if !fs::exists(&call.root().conversation(&call.name)) {
        return Err(Problem::failed(format!(
            "nothing to undo: {} has no conversation of its own yet",
            shown(path)
        )));
    }
    call.root().prepare()?;
    call.open_conversation()
}

/// The last `count` changes, the newest first.
fn choose(mut all: Vec<RunChange>, count: usize, path: &Path) -> Result<Vec<RunChange>, Problem> {
    let path = shown(path);
    let there = match all.len() {
        0 => {
            return Err(Problem::failed(format!(
                "nothing to undo: no run of its conversation has changed {path}, or its changes are undone already"
            )));
        }
        1 => "there is one change".to_owned(),
        n => format!("there are {n} changes"),
    };
    if count > all.len() {
        return Err(Problem::failed(format!(
            "cannot undo {count} changes of {path}: {there} to undo"
        )));
    }
    all.reverse();
    all.truncate(count);
    Ok(all)
}

/// The refusal for a file that is not as the last change left it, with what changed since.
fn refuse_changed_since(
    root: &Root,
    path: &Path,
    newest: &RunChange,
    now: &FileVersion,
    is_guess: bool,
) -> Report {
    let left = FileVersion::stored(root, newest.after.as_deref());
    let since = FileChange { path, before: &left, after: now };
    let what = match (&now.sha256, &newest.after) {
        (None, _) => "was removed",
        (_, None) => "was created again",
        _ => "was changed",
    };
    let diff = since.text_diff();
    if let Some(diff) = &diff {
        since.print(root, diff);
    }
    let since = if is_guess {
        "since its last run began, which was killed before it could record whether it did that"
    } else {
        "by something else since the last change of its conversation"
    };
    let message = format!(
        "nothing was undone: {} {what} {since} (the diff is above); restore it first, or add --force, which keeps its current \
         content in {}",
        shown(path),
        shown(root.outputs())
    );
    Report::failed(Exit::Failed, message)
        .with("source_path", path.display().to_string())
        .with("undone", Vec::<Value>::new())
        .with("diff_since", diff.map(|diff| diff.text))
}

/// Refuses when something else changed the file between the changes: that would be undone too.
fn refuse_changed_between(chosen: &[RunChange], path: &Path) -> Result<(), Problem> {
    let Some(at) = chosen.windows(2).position(|pair| pair[0].before != pair[1].after) else {
        return Ok(());
    };
    let own = at + 1;
    Err(Problem::failed(format!(
        "nothing was undone: before the last {own} of these changes something else changed {}, and that would be undone too; \
         --undo {own} stops there, --force undoes all",
        shown(path)
    )))
}

/// Reads the content that the file is to have.
fn read_goal(root: &Root, oldest: &RunChange, path: &Path) -> Result<FileVersion, Problem> {
    let Some(hash) = &oldest.before else { return Ok(FileVersion::default()) };
    let bytes = fs::read_stored(&root.outputs(), hash).map_err(|error| {
        Problem::failed(format!(
            "nothing was undone: the previous content of {} cannot be read: {error:#}",
            shown(path)
        ))
    })?;
    Ok(FileVersion { sha256: Some(hash.clone()), bytes: Some(bytes) })
}

fn describe(root: &Root, path: &Path, now: &FileVersion, mut change: RunChange) -> Undone {
    let content = |hash: &Option<String>| {
        if *hash == now.sha256 { now.clone() } else { FileVersion::stored(root, hash.as_deref()) }
    };
    let (before, after) = (content(&change.before), content(&change.after));
    let diff = FileChange { path, before: &before, after: &after }.text_diff();
    let first = change.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut prompt: String = first.trim().chars().take(PROMPT).collect();
    if prompt.len() < first.trim().len() {
        prompt.push('…');
    }
    change.prompt = prompt;
    Undone { change, lines: diff.and_then(|diff| diff.removed.zip(diff.added)) }
}

impl Undone {
    /// `2026-11-22T01:02:03Z  -3 +5  Accept CRLF too`
    fn summary_line(&self) -> String {
        let lines = match self.lines {
            Some((removed, added)) => format!("-{removed} +{added}"),
            None => "lines not counted".to_owned(),
        };
        let RunChange { at, prompt, .. } = &self.change;
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

/// Makes the text for stdout.
fn report_text(path: &Path, undone: &[Undone], goal: &FileVersion, is_undone: bool) -> String {
    let end = match (is_undone, &goal.sha256) {
        (true, _) => "it held that already, nothing was written",
        (false, None) => "it was removed, as before",
        (false, Some(_)) => "it is as it was before",
    };
    let lines: String = undone.iter().map(Undone::summary_line).collect();
    format!("undone in {}: {end}\n{lines}", shown(path))
}

/// Makes the block that records the undo, for the model.
fn undo_block(
    journal: &ConversationFile,
    path: &Path,
    now: &FileVersion,
    goal: &FileVersion,
    undone: &[Undone],
    diff: Option<&DiffText>,
) -> Block {
    let path_name = path.display().to_string();
    let mut block = Block::new("system")
        .with("change", "undo")
        .with("path", &path_name)
        .with("before", now.hash_or_none())
        .with("after", goal.hash_or_none());
    let what = if undone.len() == 1 { "a change" } else { "changes" };
    let state = match goal.sha256 {
        Some(_) => "is as it was before that",
        None => "does not exist, as before that",
    };
    let mut text =
        format!("the user took back {what} of this conversation, and {path_name} {state}:\n");
    for change in undone {
        text.push_str(&format!("- {}", change.summary_line()));
    }
    if undone[0].change.after != now.sha256 && now.sha256 != goal.sha256 {
        text.push_str("What something else had changed in it since was undone with that.\n");
    }
    let whole =
        diff.filter(|diff| !diff.is_cut && diff.text.len() <= DIFF_LIMIT && diff.removed.is_some());
    if let Some(diff) = whole {
        text.push_str(&format!("This is how the file was changed back:\n{}", diff.text));
        if is_up_to_date(journal, &path_name, now) {
            // With the diff the model knows the file as it is now.
            block = block.with("resolved", &path_name);
        }
    } else {
        text.push_str("Read the file again before you change it.");
    }
    block.body(text.trim_end_matches('\n').to_owned())
}

/// Whether the model was last shown the file as it is.
fn is_up_to_date(journal: &ConversationFile, path: &str, now: &FileVersion) -> bool {
    let mut of_file =
        journal.pieces().iter().rev().filter(|piece| piece.get("resolved") == Some(path));
    let shown = of_file.find_map(|piece| piece.get("shown").or_else(|| piece.get("after")));
    shown.is_some() && shown == now.sha256.as_deref()
}

/// Appends the block, after results that a killed run left out.
fn record(call: &Call<'_>, journal: &mut ConversationFile, block: Block) -> anyhow::Result<()> {
    let mut blocks = unfinished_results(journal.text(), journal.pieces());
    blocks.extend(torn_block(journal).map(|(_, block)| block));
    blocks.push(block);
    let texts: Vec<String> = blocks.iter().map(drive::format_block).collect();
    if let Some(name) = journal.append(&texts.join("\n"))? {
        journal.append_to_left(&drive::format_block(&drive::fork_block(&name)));
        call.print_note(&format!(
            "another program has changed the conversation meanwhile; it was left alone, and the undo is recorded in {name}"
        ));
    }
    Ok(())
}
