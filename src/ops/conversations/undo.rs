//! Undoes the writes of runs to files: all files or none. `nagent --undo` takes back runs of this shell, with their
//! children; `nagent-file-edit --undo` the changes of one file. Both use the log of changes
//! ([`conversation::memory::changes`]), so that each knows the other's runs.
//!
//! Nothing is lost: the content of a file is stored before it is replaced. The conversations of the runs record it. No model
//! is asked.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::drive;
use crate::ops::files::file_conversation;
use crate::ops::run::call::Call;
use crate::ops::run::opening::torn_block;
use crate::ops::screen::change_report::{FileVersion, VersionPair};
use crate::ops::screen::undo_report::{
    UndoPlan, UndoRefusal, report_done, report_list, report_refusals, undo_blocks,
};
use crate::ops::setup::flags::parse_count;
use crate::out::Report;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{
    FileEvent, RunFileChange, is_same_state, list_changes, list_unknown, split_state,
};
use conversation::problem::Problem;
use conversation::turn::unfinished::unfinished_results;
use history::file_index;
use sys::change_log::{self, ChangeLog, StartedBy};
use sys::conversation_file::ConversationFile;
use sys::names::name_some;
use sys::opening::Opened;
use sys::root::Root;
use sys::{clock, env, fs, lock, replace, root};

/// The flags of an undo
#[derive(Debug, Clone, Default, Args)]
pub struct UndoArgs {
    /// Take back what the last N runs changed, all files or none [default: 1]
    ///
    /// Names what commands changed and it cannot take back. Fails if a file has changed or moved since (see --force). The conversations record it. Needs no model.
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

/// The digits that identify a run.
const RUN_DIGITS: usize = 12;

/// The log of a run that starts. The changes of processes that it starts count as its own.
pub(crate) fn start_log(call: &Call<'_>, conversation: &str) -> ChangeLog {
    let inherited = call.env.get(env::RUN).filter(|_| call.delegated);
    let inherited = inherited.and_then(|run| serde_json::from_str(run).ok());
    let StartedBy { run, shell, task } = inherited.unwrap_or_else(|| StartedBy {
        run: uuid::Uuid::new_v4().simple().to_string()[..RUN_DIGITS].to_owned(),
        shell: call.env.shell_conversation(call.which.pid.as_deref()),
        ..StartedBy::default()
    });
    let mut of = vec![shell];
    of.extend(call.parents.iter().cloned());
    of.push(conversation.to_owned());
    of.dedup();
    let mut log = ChangeLog::new(call.root().clone(), run, conversation.to_owned(), of);
    log.task = task;
    log
}

/// Undoes the writes of the last runs of the call's conversation, or of others that were started from its shell.
pub fn undo_runs(call: &Call<'_>, args: &UndoArgs) -> Result<Report, Problem> {
    let is_meant = |change: &RunFileChange| change.of.contains(&call.name);
    undo_last(call, args, &is_meant, &format!("conversation {}", call.name))
}

/// Takes back what the last runs that changed a file did to it.
pub fn undo_file(call: &mut Call<'_>, file: &Path, args: &UndoArgs) -> Result<Report, Problem> {
    let path = file_conversation::resolve_target(call, file)?;
    let (call, name) = (&*call, path.display().to_string());
    // One that was moved has its changes under its old path, where they are refused.
    let is_meant = |change: &RunFileChange| {
        change.path == name || change.conversation == call.name && !change.by_commands
    };
    let report = undo_last(call, args, &is_meant, &quote_name(&path))?;
    if !args.list {
        file_conversation::update_index(call);
    }
    Ok(report)
}

/// Undoes the changes that are meant of the last runs that made some.
fn undo_last(
    call: &Call<'_>,
    args: &UndoArgs,
    is_meant: &dyn Fn(&RunFileChange) -> bool,
    of: &str,
) -> Result<Report, Problem> {
    if call.parents.contains(&call.name) {
        return Err(Problem::usage(format!(
            "conversation {} is waiting for this command; undo once it has ended",
            call.name
        )));
    }
    let read = || -> Result<(Vec<RunFileChange>, Vec<String>), Problem> {
        let mut changes = read_newest_first(call.root())?;
        changes.retain(is_meant);
        let mut runs: Vec<String> = Vec::new();
        for change in &changes {
            if !runs.contains(&change.run) {
                runs.push(change.run.clone());
            }
        }
        Ok((changes, runs))
    };
    if args.list {
        let (changes, runs) = read()?;
        let log = change_log::read_log(call.root())?;
        return Ok(report_list(&changes, &runs, &list_unknown(&log)));
    }
    let choose = || -> Result<Vec<RunFileChange>, Problem> {
        let (mut changes, runs) = read()?;
        let count = usize::try_from(args.undo.unwrap_or(1)).unwrap_or(usize::MAX);
        if runs.is_empty() {
            let other = "; for another conversation add -c NAME, or --continue for the last one in this folder";
            let other = if call.which.file_edit.is_some() { "" } else { other };
            let left = describe_unknown(call, &[])?.pop();
            let left = left.map(|left| format!("; {left}")).unwrap_or_default();
            return Err(Problem::failed(format!("nothing to undo in {of}{other}{left}")));
        }
        let Some(chosen) = runs.get(..count) else {
            return Err(Problem::failed(format!(
                "cannot undo {count} runs of {of}; runs that can be undone: {}",
                runs.len()
            )));
        };
        changes.retain(|change| chosen.contains(&change.run));
        Ok(changes)
    };
    let found = choose()?;
    call.root().prepare()?;
    let mut journals = open_conversations(call, &found)?;
    let _lock = lock::lock_index(call.root(), change_log::LOCK, call.index_wait())?;
    // Read again under the lock: a run or another undo may have come first.
    take_back(call, args, &mut journals, choose()?)
}

/// Takes back what these runs wrote, which a rewind removes from the call's conversation. The caller records it there.
pub(crate) fn undo_removed(call: &Call<'_>, runs: &[&str]) -> Result<Report, Problem> {
    let _lock = lock::lock_index(call.root(), change_log::LOCK, call.index_wait())?;
    let mut changes = read_newest_first(call.root())?;
    changes.retain(|change| runs.contains(&change.run.as_str()));
    // A copy of a conversation has the runs of the original.
    let is_own = |it: &&RunFileChange| it.of.contains(&call.name) || it.conversation == call.name;
    if let Some(other) = changes.iter().find(|it| !is_own(it)) {
        let (path, name) = (quote_name(Path::new(&other.path)), &other.conversation);
        return Err(Problem::failed(format!(
            "nothing was undone: {path} was written by a run of conversation {name}; nagent -c {name} --undo takes that \
             back, and without --files only the conversation is rewound"
        )));
    }
    take_back(call, &UndoArgs::default(), &mut [], changes)
}

fn read_newest_first(root: &Root) -> Result<Vec<RunFileChange>, Problem> {
    let mut changes = list_changes(&change_log::read_log(root)?);
    changes.reverse();
    Ok(changes)
}

/// Describes what is not known of the commands of these runs, and of later runs of this conversation.
fn describe_unknown(call: &Call<'_>, undone: &[RunFileChange]) -> Result<Vec<String>, Problem> {
    if call.which.file_edit.is_some() {
        return Ok(Vec::new());
    }
    let log = change_log::read_log(call.root())?;
    let oldest = undone.iter().map(|change| &change.at).min();
    let mut unknown = list_unknown(&log);
    unknown.retain(|(of, _)| {
        let is_later = of.of.contains(&call.name) && oldest.is_none_or(|oldest| of.at >= *oldest);
        is_later || undone.iter().any(|change| change.run == of.run)
    });
    let describe = |(_, why): (_, &str)| {
        format!("commands of this run may have changed files that nothing remembers: {why}")
    };
    let mut all: Vec<String> = unknown.into_iter().map(describe).collect();
    all.dedup();
    Ok(all)
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
        return Ok(report_refusals(call, &refusals));
    }
    let undone: Vec<RunFileChange> = plans.iter().flat_map(|plan| plan.changes.clone()).collect();
    let left = describe_unknown(call, &undone)?;
    write_all(call, &mut plans)?;
    // From here on the files are changed: a failure to record that says so.
    record(call, journals, &plans).map_err(|error| {
        let names: Vec<String> = plans.iter().map(|plan| quote_name(&plan.path)).collect();
        let (names, have) = (
            name_some(&names, NAMED, ", "),
            if plans.len() == 1 { "has its" } else { "have their" },
        );
        Problem::failed(format!(
            "{names} {have} previous content again, but that could not be recorded: {error:#}"
        ))
    })?;
    Ok(report_done(call, plans, &left))
}

/// Maximum number of files that a message or a block names.
const NAMED: usize = 20;

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
    let is_link = |state: &String| split_state(state).1 == Some('l');
    let has_link = changes.iter().flat_map(|it| [&it.before, &it.after]).flatten().any(is_link);
    let target = fs::link_target(&path).filter(|_| has_link);
    if target.is_none() && fs::real_path(&path).is_some_and(|real| real != path) {
        return refuse(format!("{name} is now reached by a symbolic link"), None);
    }
    let (now, mut opened) = read_now(call, &path, target)?;
    let (newest, oldest) = (&changes[0], &changes[changes.len() - 1]);
    // Written as before: in place by the file's own conversation, and by others only under this name.
    let own = file_index::find_entry(root, &path).ok().flatten();
    if let Some(opened) = &mut opened
        && own.is_none_or(|own| own.conversation != newest.conversation)
    {
        opened.part_links();
    }
    let (state, is_same) = (now.state(), |one: &Option<String>, other: &Option<String>| {
        is_same_state(one.as_deref(), other.as_deref())
    });
    let is_done = is_same(&state, &oldest.before);
    if !is_done && !args.force {
        let left = FileVersion::read_stored(root, newest.after.as_deref());
        let since = VersionPair { path: &path, before: &left, after: &now };
        let is_gap = |pair: &[RunFileChange]| !is_same(&pair[0].before, &pair[1].after);
        let what = match (&state, &newest.after) {
            (now, after) if is_same(now, after) && changes.windows(2).any(is_gap) => {
                "was changed by something else between these changes; --undo with a smaller number may do"
            }
            (now, after) if is_same(now, after) => "",
            (None, _) => "was removed or moved by something else since",
            (_, None) => "was created again by something else since",
            _ => "was changed by something else since",
        };
        if !what.is_empty() {
            return refuse(format!("{name} {what}"), since.text_diff());
        }
    }
    let goal = read_goal(root, oldest).map_err(|error| {
        Problem::failed(format!(
            "nothing was undone: the previous content of {name} cannot be read: {error:#}"
        ))
    })?;
    let diff = VersionPair { path: &path, before: &now, after: &goal }.text_diff();
    Ok(Ok(UndoPlan { path, opened, now, goal, changes, diff, previous: None }))
}

/// Reads a file as it is now. `target` is that of a link.
fn read_now(
    call: &Call<'_>,
    path: &Path,
    target: Option<Vec<u8>>,
) -> Result<(FileVersion, Option<Opened>), Problem> {
    if target.is_some() {
        return Ok((FileVersion { kind: Some('l'), ..FileVersion::from_bytes(target) }, None));
    }
    let boundary = file_conversation::file_boundary(&call.env, call.root(), path)?;
    let opened = boundary.open_for_write(path)?;
    let bytes = replace::read_bytes(&opened, u64::MAX)?;
    let kind = if opened.is_executable() { 'x' } else { '-' };
    let kind = opened.exists().then_some(kind);
    Ok((FileVersion { kind, ..FileVersion::from_bytes(bytes) }, Some(opened)))
}

/// Reads the content before a change.
fn read_goal(root: &Root, oldest: &RunFileChange) -> anyhow::Result<FileVersion> {
    let Some(state) = &oldest.before else { return Ok(FileVersion::default()) };
    let (hash, kind) = split_state(state);
    let bytes = fs::read_stored(&root.outputs_folder(), hash)?;
    Ok(FileVersion { sha256: Some(hash.to_owned()), bytes: Some(bytes), kind })
}

/// Writes a version of a file over the one that is there now. Returns the path of the stored content.
fn write_version(
    call: &Call<'_>,
    opened: Option<Opened>,
    path: &Path,
    [now, goal]: [&FileVersion; 2],
) -> Result<Option<PathBuf>, Problem> {
    let outputs = call.root().outputs_folder();
    if let Some(link) = now.link() {
        let previous = fs::store_output(&outputs, link)?;
        replace::replace_link(path, Some(link), None)?;
        write_version(call, None, path, [&FileVersion::default(), goal])?;
        return Ok(Some(previous));
    }
    let stop = || call.interrupts.pending().is_some();
    let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file, &stop);
    let boundary = file_conversation::file_boundary(&call.env, call.root(), path)?;
    let mut opened = opened.map_or_else(|| boundary.open_for_write(path), Ok)?;
    opened.set_executable(goal.kind.map(|kind| kind == 'x'));
    let (None, Some(bytes)) = (goal.link(), &goal.bytes) else {
        let previous = replace::remove_file(opened, &mut keep)?;
        if goal.link().is_some() {
            replace::replace_link(path, None, goal.link())?;
        }
        return Ok(previous);
    };
    let written = replace::replace_file(opened, bytes, &mut keep)?;
    if written.parted > 0 {
        let name = quote_name(&written.path);
        call.print_note(&format!(
            "other hard links to {name} keep the content from before the undo"
        ));
    }
    Ok(written.previous)
}

/// Writes all files, or none: when one cannot be written, those before it get their content back.
fn write_all(call: &Call<'_>, plans: &mut [UndoPlan]) -> Result<(), Problem> {
    for at in 0..plans.len() {
        let plan = &mut plans[at];
        if plan.is_done() {
            continue;
        }
        let error =
            match write_version(call, plan.opened.take(), &plan.path, [&plan.now, &plan.goal]) {
                Ok(previous) => {
                    plan.previous = previous;
                    continue;
                }
                Err(error) => error,
            };
        let mut message = format!("nothing was undone: {error}");
        for done in plans[..at].iter().filter(|done| !done.is_done()) {
            if let Err(error) = write_version(call, None, &done.path, [&done.goal, &done.now]) {
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
    plans: &[UndoPlan],
) -> anyhow::Result<()> {
    let mut log = start_log(call, &call.name);
    log.at = clock::now();
    let event = |plan: &UndoPlan| {
        let undone = plan.changes.iter().map(|change| change.id.clone()).collect();
        let (before, after) = (plan.now.hash_or_none(), plan.goal.hash_or_none());
        let event = FileEvent::Undo { undone, before: before.to_owned(), after: after.to_owned() };
        (plan.path.clone(), event)
    };
    log.append_all(plans.iter().map(event).collect())?;
    for journal in journals {
        let made = |change: &RunFileChange| change.conversation == journal.name();
        let is_meant =
            |plan: &&UndoPlan| journal.name() == call.name || plan.changes.iter().any(made);
        let plans: Vec<&UndoPlan> = plans.iter().filter(is_meant).collect();
        if plans.is_empty() {
            continue;
        }
        let mut blocks = unfinished_results(journal.text(), journal.pieces());
        blocks.extend(torn_block(journal).map(|(_, block)| block));
        blocks.extend(undo_blocks(&plans));
        let texts: Vec<String> = blocks.iter().map(drive::format_block).collect();
        if let Some(name) = journal.append(&texts.join("\n"))? {
            call.print_note(&format!(
                "another program has changed the conversation meanwhile; it was left alone, and the undo is recorded in {name}"
            ));
        }
    }
    Ok(())
}
