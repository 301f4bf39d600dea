//! Undoes the writes of runs to files: all files or none. `nagent --undo` takes back runs of this shell, with their
//! children; `nagent-file-edit --undo` the changes of one file. Both use the log of changes
//! ([`conversation::memory::changes`]), so that each knows the other's runs.
//!
//! Nothing is lost: the content of a file is stored before it is replaced. The conversations of the runs record it. No model
//! is asked.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use crate::drive;
use crate::ops::files::file_conversation;
use crate::ops::run::call::Call;
use crate::ops::run::opening::torn_block;
use crate::ops::screen::change_report::{self, FileVersion};
use crate::ops::screen::undo_report::{
    UndoPlan, UndoRefusal, Undone, describe, report_done, report_list, report_refusals, undo_block,
};
use crate::ops::setup::flags::parse_count;
use crate::out::Report;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{FileEvent, RunFileChange, list_changes};
use conversation::problem::Problem;
use conversation::turn::unfinished::unfinished_results;
use history::file_index;
use sys::change_log::{self, ChangeLog, StartedBy};
use sys::conversation_file::ConversationFile;
use sys::opening::Opened;
use sys::root::Root;
use sys::{clock, env, fs, lock, replace, root};

/// The flags of an undo
#[derive(Debug, Clone, Default, Args)]
pub struct UndoArgs {
    /// Take back what the last N runs wrote, all files or none [default: 1]
    ///
    /// Fails if a file has changed or moved since (see --force). The conversations record it. Needs no model.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = parse_count,
        help_heading = "Undo",
        conflicts_with_all = ["read", "check", "show_request", "record", "clear"]
    )]
    pub undo: Option<u64>,
    /// List what can be undone, and undo nothing
    #[arg(long, requires = "undo", help_heading = "Undo")]
    pub list: bool,
    /// Undo even if a file has changed since; its content is saved first
    #[arg(long, requires = "undo", conflicts_with = "list", help_heading = "Undo")]
    pub force: bool,
}

impl UndoArgs {
    fn undo_count(&self) -> usize {
        usize::try_from(self.undo.unwrap_or(1)).unwrap_or(usize::MAX)
    }
}

/// The log of a run that starts. The changes of processes that it starts count as its own.
pub(crate) fn start_log(call: &Call<'_>, conversation: &str) -> ChangeLog {
    let inherited = call.env.get(env::RUN).filter(|_| call.delegated);
    let inherited = inherited.and_then(|run| serde_json::from_str(run).ok());
    let StartedBy { run, shell, turns, task } = inherited.unwrap_or_else(|| StartedBy {
        run: uuid::Uuid::new_v4().simple().to_string(),
        shell: call.env.shell_conversation(call.which.pid.as_deref()),
        ..StartedBy::default()
    });
    let mut of = vec![shell];
    of.extend(call.parents.iter().cloned());
    of.push(conversation.to_owned());
    of.dedup();
    let mut log = ChangeLog::new(call.root().clone(), run, conversation.to_owned(), of);
    (log.started_from, log.task) = (turns, task);
    log
}

/// Undoes the writes of the last runs of the call's conversation, or of others that were started from its shell.
pub fn undo_runs(call: &Call<'_>, args: &UndoArgs) -> Result<Report, Problem> {
    refuse_within_run(call)?;
    let read = || -> Result<Vec<RunFileChange>, Problem> {
        let mut changes = list_changes(&change_log::read_log(call.root())?);
        changes.retain(|change| change.of.contains(&call.name));
        changes.reverse();
        Ok(changes)
    };
    let runs = |changes: &[RunFileChange]| {
        let mut runs: Vec<String> = Vec::new();
        for change in changes {
            if !runs.contains(&change.run) {
                runs.push(change.run.clone());
            }
        }
        runs
    };
    if args.list {
        let changes = read()?;
        let runs = runs(&changes);
        return Ok(report_list(call, &changes, &runs));
    }
    let chosen = || -> Result<Vec<RunFileChange>, Problem> {
        let mut changes = read()?;
        let runs = runs(&changes);
        check_count(runs.len(), args.undo_count(), "run", &format!("conversation {}", call.name))?;
        changes.retain(|change| runs[..args.undo_count()].contains(&change.run));
        Ok(changes)
    };
    let found = chosen()?;
    call.root().prepare()?;
    let mut journals = open_conversations(call, &found)?;
    let _lock = lock::lock_index(call.root(), change_log::LOCK, call.index_wait())?;
    // Read again under the lock: a run or another undo may have come first.
    take_back(call, args, &mut journals, chosen()?)
}

/// Takes back these changes, the newest first; all files or none. The caller records it in the conversation.
pub(crate) fn undo_changes(
    call: &Call<'_>,
    changes: Vec<RunFileChange>,
) -> Result<Report, Problem> {
    let _lock = lock::lock_index(call.root(), change_log::LOCK, call.index_wait())?;
    take_back(call, &UndoArgs::default(), &mut [], changes)
}

/// Takes back the last changes that runs made to a file.
pub fn undo_file(call: &mut Call<'_>, file: &Path, args: &UndoArgs) -> Result<Report, Problem> {
    refuse_within_run(call)?;
    call.root().prepare()?;
    let path = file_conversation::resolve_target(call, file)?;
    let call = &*call;
    let name = path.display().to_string();
    let read = || -> Result<Vec<RunFileChange>, Problem> {
        let changes = list_changes(&change_log::read_log(call.root())?).into_iter().rev();
        let is_meant = |it: &RunFileChange| it.path == name || it.conversation == call.name;
        Ok(changes.filter(is_meant).collect())
    };
    let changes = read()?;
    if args.list {
        let ids: Vec<String> = changes.iter().map(|change| change.id.clone()).collect();
        return Ok(change_report::with_file(call, &path, report_list(call, &changes, &ids)));
    }
    let mut journals = open_conversations(call, &changes)?;
    let _lock = lock::lock_index(call.root(), change_log::LOCK, call.index_wait())?;
    let mut changes = read()?;
    check_count(changes.len(), args.undo_count(), "change", &quote_name(&path))?;
    changes.truncate(args.undo_count());
    if let Some(old) = changes.iter().find(|it| it.path != name) {
        return Err(Problem::failed(format!(
            "nothing was undone: {} was moved: this change is one of {}; move it back first",
            quote_name(&path),
            quote_name(Path::new(&old.path))
        )));
    }
    let report = take_back(call, args, &mut journals, changes)?;
    file_conversation::update_index(call);
    let journal = call.root().conversation(&call.name).display().to_string();
    let report = Report { json: merge_only_file(report.json), ..report };
    let has_path = report.json.contains_key("changed");
    let report = if has_path { report.with("conversation_path", journal) } else { report };
    Ok(if has_path { change_report::with_file(call, &path, report) } else { report })
}

/// Adds the keys of the only file to those of the report.
fn merge_only_file(mut json: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(files)) = json.remove("files") {
        json.extend(files.into_iter().filter_map(|file| file.as_object().cloned()).flatten());
    }
    json
}

/// Refuses a call of a command of the run itself.
fn refuse_within_run(call: &Call<'_>) -> Result<(), Problem> {
    if call.parents.contains(&call.name) {
        return Err(Problem::usage(format!(
            "conversation {} is waiting for this command; undo once it has ended",
            call.name
        )));
    }
    Ok(())
}

fn check_count(there: usize, count: usize, what: &str, of: &str) -> Result<(), Problem> {
    if there == 0 {
        return Err(Problem::failed(if what == "run" {
            format!(
                "nothing to undo in {of}; for another conversation add -c NAME, or --continue for the last one in this folder"
            )
        } else {
            format!(
                "nothing to undo: no run in the conversation of {of} changed it; nagent --undo --list shows what runs \
                 have changed"
            )
        }));
    }
    if count > there {
        let there =
            if there == 1 { format!("is one {what}") } else { format!("are {there} {what}s") };
        return Err(Problem::failed(format!(
            "cannot undo {count} {what}s of {of}: there {there} to undo"
        )));
    }
    Ok(())
}

/// Opens the conversations whose runs are undone, and the call's own; waits for runs that use one.
fn open_conversations(
    call: &Call<'_>,
    changes: &[RunFileChange],
) -> Result<Vec<ConversationFile>, Problem> {
    let mut names: Vec<&str> = changes.iter().map(|it| it.conversation.as_str()).collect();
    names.push(&call.name);
    // Sorted, so that two undos cannot deadlock.
    names.sort_unstable();
    names.dedup();
    let is_there =
        |name: &&str| root::check_name(name).is_ok() && fs::exists(&call.root().conversation(name));
    names.into_iter().filter(is_there).map(|name| call.open_named(name)).collect()
}

/// Undoes these changes, the newest first.
fn take_back(
    call: &Call<'_>,
    args: &UndoArgs,
    journals: &mut [ConversationFile],
    chosen: Vec<RunFileChange>,
) -> Result<Report, Problem> {
    let mut files: Vec<(PathBuf, Vec<RunFileChange>)> = Vec::new();
    for change in chosen {
        let path = PathBuf::from(&change.path);
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, changes)) => changes.push(change),
            None => files.push((path, vec![change])),
        }
    }
    let (mut plans, mut refusals) = (Vec::new(), Vec::new());
    for (path, changes) in files {
        match plan_file(call, args, path, changes)? {
            Ok(plan) => plans.push(plan),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if !refusals.is_empty() {
        return Ok(report_refusals(call, args.undo.is_some(), &refusals));
    }
    write_all(call, &mut plans)?;
    // From here on the files are changed: a failure to record that says so.
    for plan in &plans {
        record(call, journals, plan).map_err(|error| {
            Problem::failed(format!(
                "{} has its previous content again, but that could not be recorded: {error:#}",
                quote_name(&plan.path)
            ))
        })?;
    }
    Ok(report_done(call, plans))
}

/// Decides the new content of a file, or refuses to undo it.
fn plan_file(
    call: &Call<'_>,
    args: &UndoArgs,
    path: PathBuf,
    changes: Vec<RunFileChange>,
) -> Result<Result<UndoPlan, UndoRefusal>, Problem> {
    let root = call.root();
    let name = quote_name(&path);
    let refuse =
        |message: String, since| Ok(Err(UndoRefusal { path: path.clone(), message, since }));
    if fs::real_path(&path).is_some_and(|real| real != path) {
        return refuse(format!("{name} is now reached by a symbolic link"), None);
    }
    let boundary = file_conversation::file_boundary(&call.env, root, &path)?;
    let mut opened = boundary.open_for_write(&path)?;
    let now = FileVersion::from_bytes(replace::read_bytes(&opened, u64::MAX)?);
    let (newest, oldest) = (&changes[0], &changes[changes.len() - 1]);
    // Written as before: in place by the file's own conversation, and by others only under this name.
    let own = file_index::find_entry(root, &path).ok().flatten();
    if own.is_none_or(|own| own.conversation != newest.conversation) {
        opened.part_links();
    }
    let is_done = now.sha256 == oldest.before;
    let is_changed = !is_done && now.sha256 != newest.after;
    if is_changed && !args.force {
        let left = FileVersion::read_stored(root, newest.after.as_deref());
        let since = change_report::VersionPair { path: &path, before: &left, after: &now };
        let what = match (&now.sha256, &newest.after) {
            (None, _) => "was removed or moved",
            (_, None) => "was created again",
            _ => "was changed",
        };
        let by = name_later_run(root, &path, &now)?
            .unwrap_or_else(|| "by something else since its conversation changed it".to_owned());
        return refuse(format!("{name} {what} {by}"), since.text_diff());
    }
    let gap = changes.windows(2).position(|pair| pair[0].before != pair[1].after);
    if let (Some(at), false, false) = (gap, args.force, is_done) {
        let own = at + 1;
        let message = format!(
            "before the last {own} of these changes something else changed {name}, which would be undone too; \
             --undo {own} stops there"
        );
        return refuse(message, None);
    }
    let goal = read_goal(root, oldest).map_err(|error| {
        Problem::failed(format!(
            "nothing was undone: the previous content of {name} cannot be read: {error:#}"
        ))
    })?;
    let diff = change_report::VersionPair { path: &path, before: &now, after: &goal }.text_diff();
    let undone: Vec<Undone> =
        changes.into_iter().map(|change| describe(root, &path, &now, change)).collect();
    let is_forced = is_changed && args.force;
    Ok(Ok(UndoPlan {
        path,
        opened: Some(opened),
        now,
        goal,
        undone,
        is_forced,
        diff,
        previous: None,
    }))
}

/// Names the later run that left a file as it is now, and how to undo it. `None`: it was not a run of nagent.
fn name_later_run(root: &Root, path: &Path, now: &FileVersion) -> Result<Option<String>, Problem> {
    let changes = list_changes(&change_log::read_log(root)?);
    let last = changes.into_iter().rev().find(|change| Path::new(&change.path) == path);
    let run = last.filter(|change| change.after == now.sha256);
    Ok(run.map(|run| {
        let (prompt, name) = (run.prompt.escape_debug(), &run.conversation);
        format!(
            "since, by the run \"{prompt}\" in conversation {name}; nagent-file-edit {} --undo takes that back first",
            quote_name(path)
        )
    }))
}

/// Reads the content before a change.
fn read_goal(root: &Root, oldest: &RunFileChange) -> anyhow::Result<FileVersion> {
    let Some(hash) = &oldest.before else { return Ok(FileVersion::default()) };
    let bytes = fs::read_stored(&root.outputs_folder(), hash)?;
    Ok(FileVersion { sha256: Some(hash.clone()), bytes: Some(bytes) })
}

/// Writes all files, or none: when one cannot be written, those before it get their content back.
fn write_all(call: &Call<'_>, plans: &mut [UndoPlan]) -> Result<(), Problem> {
    let outputs = call.root().outputs_folder();
    let stop = || call.interrupts.pending().is_some();
    let write = |opened: Opened, content: &FileVersion| {
        let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file, &stop);
        match &content.bytes {
            Some(bytes) => {
                let written = replace::replace_file(opened, bytes, &mut keep)?;
                if written.parted > 0 {
                    let name = quote_name(&written.path);
                    call.print_note(&format!(
                        "other hard links to {name} keep the content from before the undo"
                    ));
                }
                Ok(written.previous)
            }
            None => replace::remove_file(opened, &mut keep),
        }
    };
    for at in 0..plans.len() {
        let plan = &mut plans[at];
        let Some(opened) = plan.opened.take().filter(|_| plan.now.sha256 != plan.goal.sha256)
        else {
            continue;
        };
        let error = match write(opened, &plan.goal) {
            Ok(previous) => {
                plan.previous = previous;
                continue;
            }
            Err(error) => error,
        };
        let mut message = format!("nothing was undone: {error}");
        for done in plans[..at].iter().filter(|done| done.now.sha256 != done.goal.sha256) {
            let boundary = file_conversation::file_boundary(&call.env, call.root(), &done.path);
            let opened = boundary.and_then(|it| Ok(it.open_for_write(&done.path)?));
            if let Err(error) = opened.and_then(|opened| Ok(write(opened, &done.now)?)) {
                message.push_str(&format!("; and {error}"));
            }
        }
        return Err(Problem::failed(message));
    }
    Ok(())
}

/// Records an undo in the log, and in the conversations that made the changes.
fn record(
    call: &Call<'_>,
    journals: &mut [ConversationFile],
    plan: &UndoPlan,
) -> anyhow::Result<()> {
    let (before, after) = (plan.now.hash_or_none(), plan.goal.hash_or_none());
    let mut log = start_log(call, &call.name);
    log.at = clock::now();
    let undone = plan.undone.iter().map(|undone| undone.change.id.clone()).collect();
    let event = FileEvent::Undo { undone, before: before.to_owned(), after: after.to_owned() };
    log.append(&plan.path, event)?;
    for journal in journals {
        let made = |undone: &Undone| undone.change.conversation == journal.name();
        if journal.name() != call.name && !plan.undone.iter().any(made) {
            continue;
        }
        let block = undo_block(journal, plan);
        let mut blocks = unfinished_results(journal.text(), journal.pieces());
        blocks.extend(torn_block(journal).map(|(_, block)| block));
        blocks.push(block);
        let texts: Vec<String> = blocks.iter().map(drive::format_block).collect();
        if let Some(name) = journal.append(&texts.join("\n"))? {
            call.print_note(&format!(
                "another program has changed the conversation meanwhile; it was left alone, and the undo is recorded in {name}"
            ));
        }
    }
    Ok(())
}
