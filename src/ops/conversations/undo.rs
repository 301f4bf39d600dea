//! Undoes the writes of runs to files: all files or none. `nagent --undo` takes back runs of this shell, with their
//! children; `nagent-file-edit --undo` the changes of one file. Both use the log of changes
//! ([`conversation::memory::changes`]), so that each knows the other's runs.
//!
//! Nothing is lost: the content of a file is stored before it is replaced. The conversations of the runs record it. No model
//! is asked.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::drive;
use crate::ops::files::file_conversation;
use crate::ops::run::call::Call;
use crate::ops::run::opening::torn_block;
use crate::ops::screen::change_report::{FileVersion, VersionPair};
use crate::ops::screen::undo_report::{
    UndoPlan, UndoRefusal, describe_ignored, report_done, report_list, report_refusals, undo_block,
};
use crate::ops::setup::flags::parse_count;
use crate::out::Report;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{
    ChangeLogEntry, FileEvent, NO_FILE, RunFacts, RunFileChange, list_changes, list_unknown,
    undone_ids,
};
use conversation::problem::Problem;
use conversation::turn::unfinished::unfinished_results;
use history::{file_index, git};
use sandbox::automatic_files::{ChangedFiles, search};
use sys::change_log::{self, ChangeLog, StartedBy};
use sys::clock::Stopwatch;
use sys::conversation_file::ConversationFile;
use sys::opening::Opened;
use sys::root::Root;
use sys::walk::walk_below;
use sys::{clock, env, file_stamp, fs, lock, replace, root};
use view::render::shown_name;

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

/// The log of a run that starts. The changes of processes that it starts count as its own.
pub(crate) fn start_log(call: &Call<'_>, conversation: &str) -> ChangeLog {
    let inherited = call.env.get(env::RUN).filter(|_| call.delegated);
    let inherited = inherited.and_then(|run| serde_json::from_str(run).ok());
    let StartedBy { run, shell, task } = inherited.unwrap_or_else(|| StartedBy {
        run: drive::random_word(),
        shell: call.env.shell_conversation(call.which.pid),
        ..StartedBy::default()
    });
    let mut of = vec![shell];
    of.extend(call.parents.iter().cloned());
    of.push(conversation.to_owned());
    let folder =
        call.env.current_folder().map_or_else(|_| String::new(), |it| it.display().to_string());
    let conversation = conversation.to_owned();
    let facts = RunFacts { run, conversation, of, folder, task, ..RunFacts::default() };
    ChangeLog { root: call.root().clone(), facts }
}

/// Undoes the writes of the last runs of the conversation that is named, or, without a name, of the last ones that were
/// started from this shell in this folder or its repository.
pub fn undo_runs(call: &Call<'_>, args: &UndoArgs) -> Result<Report, Problem> {
    let scope = UndoScope::of(call)?;
    let is_meant = |it: &RunFileChange| scope.includes(&it.facts, &it.path);
    undo_last(call, args, &is_meant, &scope.describe())
}

/// The runs that an undo without a file is about.
struct UndoScope<'a> {
    name: &'a str,
    /// The folder or repository in which they were started; `None`: a conversation is named, and its own runs count.
    here: Option<PathBuf>,
}

impl<'a> UndoScope<'a> {
    fn of(call: &'a Call<'_>) -> Result<Self, Problem> {
        let is_named = call.which.conversation.is_some() || call.which.continue_.is_some();
        let folder = call.env.current_folder()?;
        let here = (!is_named).then(|| git::find_toplevel(&folder).unwrap_or(folder));
        Ok(Self { name: &call.name, here })
    }

    fn includes(&self, run: &RunFacts, path: &str) -> bool {
        let RunFacts { conversation, of, folder, .. } = run;
        match &self.here {
            // The first name is that of the shell.
            None => conversation == self.name || of.iter().skip(1).any(|it| it == self.name),
            Some(here) => {
                let place = if folder.is_empty() { path } else { folder };
                of.iter().any(|it| it == self.name) && Path::new(place).starts_with(here)
            }
        }
    }

    fn describe(&self) -> String {
        match &self.here {
            None => match shown_name(self.name) {
                name if name == self.name => format!("conversation {name}"),
                name => name.to_owned(),
            },
            Some(here) => format!("{} by this shell", quote_name(here)),
        }
    }
}

/// Takes back what the last runs that changed a file did to it.
pub fn undo_file(call: &mut Call<'_>, file: &Path, args: &UndoArgs) -> Result<Report, Problem> {
    let path = file_conversation::resolve_target(call, file)?;
    let (call, name) = (&*call, path.display().to_string());
    // One that was moved has its changes under its old path, where they are refused.
    let is_meant = |change: &RunFileChange| {
        change.path == name || change.facts.conversation == call.name && change.executable.is_none()
    };
    let report = undo_last(call, args, &is_meant, &quote_name(&path))?;
    if !args.list {
        file_conversation::update_index(call);
    }
    Ok(report)
}

/// Runs that undo is about, the newest first.
struct LastRuns {
    ids: Vec<String>,
    /// What they changed, the newest first.
    changes: Vec<RunFileChange>,
    /// The ends of their commands of which not all that they changed is known.
    unknown: Vec<ChangeLogEntry>,
    /// The entries that say when their commands began.
    began: Vec<ChangeLogEntry>,
    /// The runs whose commands have begun and not ended.
    killed: HashSet<String>,
    /// Whether a command of theirs, or of a later run, ran without a sandbox.
    has_free: bool,
}

impl LastRuns {
    /// Reads those that changed something. What commands did counts for no single file.
    fn read(call: &Call<'_>, is_meant: &dyn Fn(&RunFileChange) -> bool) -> Result<Self, Problem> {
        let (log, scope) = (change_log::read_log(call.root())?, UndoScope::of(call)?);
        let is_in_scope = |it: &&ChangeLogEntry| {
            call.which.file_edit.is_none() && scope.includes(&it.facts, &it.path)
        };
        let mut changes = list_changes(&log);
        changes.reverse();
        changes.retain(is_meant);
        let wrote: HashSet<&str> = changes.iter().map(|it| it.facts.run.as_str()).collect();
        // Of a run that was undone before, it was said then.
        let undone: HashSet<&str> =
            undone_ids(&log).filter_map(|id| id.split(':').next()).collect();
        let is_new = |it: &&ChangeLogEntry| {
            let run = it.facts.run.as_str();
            wrote.contains(run) || !undone.contains(run)
        };
        let unknown = list_unknown(&log).into_iter().map(|(it, _)| it).filter(is_in_scope);
        let unknown: Vec<&ChangeLogEntry> = unknown.filter(is_new).collect();
        let runs: HashSet<&str> =
            unknown.iter().map(|it| it.facts.run.as_str()).chain(wrote).collect();
        let mut ids: Vec<String> = Vec::new();
        for RunFacts { run, .. } in log.iter().rev().map(|it| &it.facts) {
            if runs.contains(run.as_str()) && !ids.contains(run) {
                ids.push(run.clone());
            }
        }
        let has_begun =
            |it: &&ChangeLogEntry| matches!(it.event, FileEvent::CommandsRan { since: 1.., .. });
        let began: Vec<_> = log.iter().filter(is_in_scope).filter(has_begun).cloned().collect();
        // The end of commands is a second entry, of a run or of a child.
        let mut killed = HashSet::new();
        for ChangeLogEntry { facts: RunFacts { run, .. }, .. } in &began {
            if !killed.remove(run) {
                killed.insert(run.clone());
            }
        }
        let unknown = unknown.into_iter().cloned().collect();
        Ok(Self { ids, changes, unknown, began, killed, has_free: false })
    }

    /// Keeps only these runs.
    fn retain(&mut self, is_meant: impl Fn(&String) -> bool) {
        let all =
            self.changes.iter().map(|it| &it.facts).chain(self.unknown.iter().map(|it| &it.facts));
        let first = all.filter(|it| is_meant(&it.run)).map(|it| it.at.as_str()).min();
        self.has_free = self.began.iter().any(|it| {
            matches!(it.event, FileEvent::CommandsRan { free: true, .. })
                && (is_meant(&it.facts.run) || Some(it.facts.at.as_str()) > first)
        });
        self.ids.retain(&is_meant);
        self.changes.retain(|it| is_meant(&it.facts.run));
        self.unknown.retain(|it| is_meant(&it.facts.run));
        self.began.retain(|it| is_meant(&it.facts.run));
    }

    /// Finds what git ignores in the trees of these runs, and changed since their commands began; in that of a run that was
    /// killed all that changed.
    fn find_ignored(&self) -> ChangedFiles {
        let (watch, mut found) = (Stopwatch::start(), ChangedFiles::default());
        let mut tops: BTreeMap<&Path, (u64, bool)> = BTreeMap::new();
        for ChangeLogEntry { path, event, facts } in &self.began {
            let FileEvent::CommandsRan { since, .. } = event else { continue };
            let top = tops.entry(Path::new(path)).or_insert((*since, false));
            *top = (top.0.min(*since), top.1 || self.killed.contains(&facts.run));
        }
        let written: HashSet<&Path> = self.changes.iter().map(|it| Path::new(&it.path)).collect();
        for (top, (since, is_killed)) in tops {
            let has_changed = |path: &Path| {
                let changed = file_stamp::changed_at(path);
                changed.is_some_and(|it| it.as_nanos() >= u128::from(since))
                    && !written.contains(path)
            };
            if is_killed {
                let all =
                    search(&[top.to_owned()], Vec::new(), &|name| name != ".git", &has_changed);
                found.is_cut |= all.is_cut;
                found.paths.extend(all.paths);
                continue;
            }
            for path in git::list_ignored(top) {
                let below = walk_below(&path, &|_| true);
                let mut below = below.take_while(|_| watch.elapsed() < IGNORED_TIME);
                if has_changed(&path) || below.any(|it| has_changed(&it.path())) {
                    found.paths.push(path);
                }
            }
            found.is_cut |= watch.elapsed() >= IGNORED_TIME;
        }
        found
    }
}

/// Maximum time to look for what git ignores and changed.
const IGNORED_TIME: Duration = Duration::from_secs(1);

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
    let other = if call.which.file_edit.is_some() || call.which.conversation.is_some() {
        ""
    } else {
        "; for a conversation of its own add -c NAME, or --continue for the last one in this folder"
    };
    let nothing = format!("nothing to undo in {of}{other}");
    if args.list {
        let LastRuns { ids, changes, unknown, .. } = LastRuns::read(call, is_meant)?;
        return Ok(report_list(&changes, &ids, &unknown, &nothing));
    }
    let choose = || -> Result<LastRuns, Problem> {
        let mut last = LastRuns::read(call, is_meant)?;
        let count = usize::try_from(args.undo.unwrap_or(1)).unwrap_or(usize::MAX);
        if last.ids.is_empty() {
            last.began.drain(..last.began.len().saturating_sub(1));
            let text = format!("{nothing}\n{}", describe_ignored(&last.find_ignored()));
            return Err(Problem::failed(text.trim_end().to_owned()));
        }
        let Some(chosen) = last.ids.get(..count).map(<[String]>::to_vec) else {
            return Err(Problem::failed(format!(
                "cannot undo {count} runs of {of}; runs that can be undone: {}",
                last.ids.len()
            )));
        };
        last.retain(|run| chosen.contains(run));
        Ok(last)
    };
    let found = choose()?;
    call.root().prepare()?;
    let mut journals = open_conversations(call, &found.changes)?;
    let _lock = lock::lock_index(call.root(), change_log::LOCK, &call.interrupts)?;
    // Read again under the lock: a run or another undo may have come first.
    take_back(call, args, &mut journals, choose()?)
}

/// Takes back what these runs wrote, which a rewind removes from the call's conversation. The caller records it there.
pub(crate) fn undo_removed(call: &Call<'_>, runs: &[&str]) -> Result<Report, Problem> {
    let _lock = lock::lock_index(call.root(), change_log::LOCK, &call.interrupts)?;
    let mut last = LastRuns::read(call, &|_| true)?;
    last.retain(|run| runs.contains(&run.as_str()));
    // A copy of a conversation has the runs of the original.
    let is_own = |it: &RunFacts| it.of.contains(&call.name) || it.conversation == call.name;
    if let Some(other) = last.changes.iter().find(|it| !is_own(&it.facts)) {
        let (path, name) = (quote_name(Path::new(&other.path)), &other.facts.conversation);
        return Err(Problem::failed(format!(
            "nothing was undone: {path} was written by a run of conversation {name}; nagent -c {name} --undo takes that \
             back, and without --files only the conversation is rewound"
        )));
    }
    take_back(call, &UndoArgs::default(), &mut [], last)
}

/// Opens the conversations whose runs are undone, and the call's own; waits for runs that use one.
fn open_conversations(
    call: &Call<'_>,
    changes: &[RunFileChange],
) -> Result<Vec<ConversationFile>, Problem> {
    let mut names: Vec<&str> = changes.iter().map(|it| it.facts.conversation.as_str()).collect();
    names.push(&call.name);
    // Sorted, so that two undos cannot deadlock.
    names.sort_unstable();
    names.dedup();
    let is_there =
        |name: &&str| root::check_name(name).is_ok() && fs::exists(&call.root().conversation(name));
    names.into_iter().filter(is_there).map(|name| call.open_conversation(name)).collect()
}

/// Undoes these changes, the newest first.
fn take_back(
    call: &Call<'_>,
    args: &UndoArgs,
    journals: &mut [ConversationFile],
    chosen: LastRuns,
) -> Result<Report, Problem> {
    let mut files: Vec<(PathBuf, Vec<RunFileChange>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for change in &chosen.changes {
        let place = *places.entry(&change.path).or_insert(files.len());
        if place == files.len() {
            files.push((PathBuf::from(&change.path), Vec::new()));
        }
        files[place].1.push(change.clone());
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
    let ignored = chosen.find_ignored();
    write_all(call, &mut plans)?;
    // What is said of a run is said once.
    for left in &chosen.unknown {
        let mut log = start_log(call, &call.name);
        log.facts.at = clock::now();
        let (before, after) = (NO_FILE.to_owned(), NO_FILE.to_owned());
        let undone = vec![format!("{}:", left.facts.run)];
        log.append(Path::new(&left.path), FileEvent::Undo { undone, before, after })?;
    }
    // From here on the files are changed: a failure to record that says so.
    for (at, plan) in plans.iter().enumerate() {
        let journals = if at < JOURNALED { &mut *journals } else { &mut [] };
        let more = if at + 1 == JOURNALED { plans.len() - JOURNALED } else { 0 };
        record(call, journals, plan, more).map_err(|error| {
            Problem::failed(format!(
                "{} has its previous content again, but that could not be recorded: {error:#}",
                quote_name(&plan.path)
            ))
        })?;
    }
    Ok(report_done(call, plans, &chosen.unknown, &ignored, chosen.has_free))
}

/// Maximum number of files of an undo that a conversation records.
const JOURNALED: usize = 20;

/// Decides the new content of a file, or refuses to undo it.
fn plan_file(
    call: &Call<'_>,
    args: &UndoArgs,
    path: PathBuf,
    changes: Vec<RunFileChange>,
) -> Result<Result<UndoPlan, UndoRefusal>, Problem> {
    let root = call.root();
    let name = quote_name(&path);
    let refuse = |message: String, can_force| {
        Ok(Err(UndoRefusal { path: path.clone(), message, can_force }))
    };
    let linked =
        || format!("{name} is now reached by a symbolic link, which must be removed first");
    let there = path.ancestors().find(|it| fs::exists(it));
    if there.is_some_and(|there| fs::real_path(there).is_none_or(|real| real != there)) {
        return refuse(linked(), false);
    }
    let opened = match open_to_undo(call, &path, &changes) {
        Ok(opened) => opened,
        Err(why) => {
            return refuse(
                format!("{name} cannot be written; move away what is in its place ({why})"),
                false,
            );
        }
    };
    // It came just now.
    if opened.path() != path {
        return refuse(linked(), false);
    }
    let now = FileVersion::from_bytes(replace::read_bytes(&opened, u64::MAX)?);
    let (newest, oldest) = (&changes[0], &changes[changes.len() - 1]);
    let is_done = now.sha256 == oldest.before;
    if !is_done && !args.force {
        let is_gap = |pair: &[RunFileChange]| pair[0].before != pair[1].after;
        let what = match &now.sha256 {
            None if newest.after.is_some() => "was removed or moved by something else since",
            now if *now != newest.after => "was changed by something else since",
            _ if changes.windows(2).any(is_gap) => {
                "was changed by something else between these changes; --undo with a smaller number may do"
            }
            _ => "",
        };
        if !what.is_empty() {
            return refuse(format!("{name} {what}"), true);
        }
    }
    let goal = read_goal(root, oldest).map_err(|error| {
        Problem::failed(format!(
            "nothing was undone: the previous content of {name} cannot be read: {error:#}"
        ))
    })?;
    let diff = VersionPair { path: &path, before: &now, after: &goal }.text_diff();
    Ok(Ok(UndoPlan { path, opened: Some(opened), now, goal, changes, diff, previous: None }))
}

/// Opens a file that gets an earlier content.
fn open_to_undo(
    call: &Call<'_>,
    path: &Path,
    changes: &[RunFileChange],
) -> Result<Opened, Problem> {
    let boundary = file_conversation::file_boundary(&call.env, call.root(), Some(path))?;
    let mut opened = boundary.open_for_write(path)?;
    opened.executable = changes.last().is_some_and(|oldest| oldest.executable == Some(true));
    // Written as before: in place by the file's own conversation, and by others only under this name.
    let own = file_index::find_entry(call.root(), path).ok().flatten().map(|own| own.conversation);
    if own.as_ref() != changes.first().map(|newest| &newest.facts.conversation) {
        opened.part_links();
    }
    Ok(opened)
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
    let has_parted = Cell::new(false);
    let write = |opened: Opened, content: &FileVersion| {
        let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file, &stop);
        let Some(bytes) = &content.bytes else {
            has_parted.set(true);
            return replace::remove_file(opened, &mut keep);
        };
        let written = replace::replace_file(opened, bytes, &mut keep)?;
        if written.parted > 0 {
            has_parted.set(true);
            let name = quote_name(&written.path);
            call.print_note(&format!(
                "other hard links to {name} keep the content from before the undo"
            ));
        }
        Ok(written.previous)
    };
    for at in 0..plans.len() {
        let plan = &mut plans[at];
        let Some(mut opened) = plan.opened.take().filter(|_| plan.now.sha256 != plan.goal.sha256)
        else {
            continue;
        };
        if has_parted.get() {
            // It may have been another name of the file that was written.
            let again = open_to_undo(call, &plan.path, &plan.changes)?;
            let content = FileVersion::from_bytes(replace::read_bytes(&again, u64::MAX)?);
            if content.sha256 == plan.now.sha256 {
                opened = again;
            }
        }
        let error = match write(opened, &plan.goal) {
            Ok(previous) => {
                plan.previous = previous;
                continue;
            }
            Err(error) => error,
        };
        let mut message = format!("nothing was undone: {error}");
        for done in plans[..at].iter().filter(|done| done.now.sha256 != done.goal.sha256) {
            let opened = open_to_undo(call, &done.path, &done.changes);
            if let Err(error) = opened.and_then(|opened| Ok(write(opened, &done.now)?)) {
                message.push_str(&format!("; and {error}"));
            }
        }
        return Err(Problem::failed(message));
    }
    let here = call.env.current_folder()?;
    let removed = plans.iter().filter(|plan| plan.goal.bytes.is_none());
    removed.for_each(|plan| remove_new_folders(plan, &here));
    Ok(())
}

/// Removes the folders of a removed file that came with its run and are empty.
fn remove_new_folders(plan: &UndoPlan, here: &Path) {
    let age = plan.changes.last().map_or(0, |oldest| clock::seconds_since(&oldest.facts.at));
    let is_new = |folder: &Path| {
        let born = file_stamp::born_at(folder);
        born.is_some_and(|born| clock::since_epoch().saturating_sub(born).as_secs() <= age)
    };
    let folders = plan.path.ancestors().skip(1);
    let is_removed =
        |it: &&Path| !here.starts_with(it) && is_new(it) && fs::remove_empty_folder(it);
    folders.take_while(is_removed).for_each(drop);
}

/// Records an undo in the log, and in the conversations that made the changes.
fn record(
    call: &Call<'_>,
    journals: &mut [ConversationFile],
    plan: &UndoPlan,
    more: usize,
) -> anyhow::Result<()> {
    let (before, after) = (plan.now.hash_or_none(), plan.goal.hash_or_none());
    let mut log = start_log(call, &call.name);
    log.facts.at = clock::now();
    let undone = plan.changes.iter().map(|change| change.id.clone()).collect();
    let event = FileEvent::Undo { undone, before: before.to_owned(), after: after.to_owned() };
    log.append(&plan.path, event)?;
    for journal in journals {
        let made = |change: &RunFileChange| change.facts.conversation == journal.name();
        if journal.name() != call.name && !plan.changes.iter().any(made) {
            continue;
        }
        let block = undo_block(plan, more);
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
