//! Finds out which files the commands of a run changed, so that undo takes their changes back: a snapshot of the working
//! tree before the first command, another at the end of the run.
//!
//! Others may write at the same time. The kernel sets when a file was last changed, and commands cannot: a file that was
//! last changed while no command ran is somebody else's, and is named instead.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::run_context::RunContext;
use conversation::format::harmless::quote_name;
use conversation::limits::{LEFT_NAMED, SNAPSHOT_TIME};
use conversation::memory::changes::{ChangeLogEntry, FileEvent, NO_FILE, is_same_state};
use history::git;
use history::git::snapshot::{
    FileKind, NoSnapshot, TreeChange, compare_trees, snapshot_folder, store_tree,
};
use sys::change_log::{self, ChangeLog};
use sys::interrupt::Interrupts;
use sys::root::Root;
use sys::{clock, file_stamp, fs, lock};

/// The files that the run's commands changed.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// The state before the first command.
    begun: Option<Begun>,
    /// When commands began and ended.
    spans: Vec<(Duration, Option<Duration>)>,
    /// Files that were last changed by a command when a tag wrote them.
    rewritten: HashSet<PathBuf>,
}

/// Lines for the log, with the files that they are about.
type FileEvents = Vec<(PathBuf, FileEvent)>;

#[derive(Debug)]
struct Begun {
    /// The top of the working tree, or the run's folder where it is in no repository.
    top: PathBuf,
    /// The snapshot; empty where there is none.
    tree: String,
    /// The end of the log of changes.
    logged: u64,
}

/// Has the lock of a snapshot folder, and the folder.
fn lock_snapshots(
    top: &Path,
    root: &Root,
    interrupts: &Interrupts,
) -> Result<(File, PathBuf), NoSnapshot> {
    let folder = snapshot_folder(&root.snapshots_folder(), top);
    let opened = fs::create_private_folder(&folder).and_then(|()| fs::open_folder(&folder));
    let opened = opened.map_err(|error| format!("{error:#}"))?;
    let locked = lock::lock_folder(opened, &folder, Some((SNAPSHOT_TIME, interrupts)));
    Ok((locked.map_err(|error| error.to_string())?, folder))
}

/// Stores the working tree with this top.
fn take_snapshot(top: &Path, root: &Root, interrupts: &Interrupts) -> Result<String, NoSnapshot> {
    let (_lock, folder) = lock_snapshots(top, root, interrupts)?;
    let root = fs::real_path(root.path());
    store_tree(&folder, top, &root.into_iter().collect::<Vec<_>>())
}

/// The files that differ now from a snapshot.
pub fn find_changed(
    top: &Path,
    tree: &str,
    root: &Root,
    interrupts: &Interrupts,
) -> Result<Vec<PathBuf>, NoSnapshot> {
    let now = take_snapshot(top, root, interrupts)?;
    let (_lock, folder) = lock_snapshots(top, root, interrupts)?;
    let changes = compare_trees(&folder, top, [tree, &now])?;
    Ok(changes.into_iter().map(|change| change.path).collect())
}

fn now() -> u64 {
    u64::try_from(clock::since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

impl CommandChanges {
    /// Remembers the working tree before the first command. Returns a note for the user where it is too large.
    pub(super) fn before_command(
        &mut self,
        context: &RunContext<'_>,
        log: &ChangeLog,
    ) -> Option<String> {
        let mut note = None;
        if self.begun.is_none() {
            let top = git::find_toplevel(&context.folder);
            let top = top.as_deref().and_then(fs::real_path);
            let folder = top.clone().unwrap_or_else(|| context.folder.clone());
            let may_write = |folder: &Path| {
                let writable = context.sandbox.as_ref().map(|it| &it.policy().writable);
                writable.is_none_or(|all| {
                    all.iter().any(|it| it.starts_with(folder) || folder.starts_with(it))
                })
            };
            if !may_write(&folder) {
                return None;
            }
            let logged = fs::file_size(&context.root.change_log_path()).unwrap_or(0);
            let taken = match &top {
                Some(top) => take_snapshot(top, &context.root, context.interrupts),
                None => Err(format!("{} is in no git repository", quote_name(&folder)).into()),
            };
            let (tree, why) = match taken {
                Ok(tree) => (tree, String::new()),
                Err(NoSnapshot { why, is_over }) => {
                    let text = format!("undo will not take back what commands change here: {why}");
                    note = Some(text).filter(|_| is_over && log.task.is_empty());
                    (String::new(), why)
                }
            };
            let event = FileEvent::CommandsBegun { tree: tree.clone(), why, time: now() };
            if let Err(error) = log.append(&folder, event) {
                note = Some(format!("undo will not know what commands change: {error:#}"));
            }
            self.begun = Some(Begun { top: folder, tree, logged });
        }
        self.spans.push((clock::since_epoch(), None));
        note
    }

    /// Notes that a command has ended.
    pub(super) fn after_command(&mut self) {
        if let Some(span) = self.spans.last_mut() {
            span.1 = Some(clock::since_epoch());
        }
    }

    /// Notes whether a command was the last to change a file that a tag is about to write.
    pub(super) fn before_write(&mut self, path: &Path) {
        if self.begun.is_some() && self.is_by_commands(path) {
            self.rewritten.extend(fs::real_path(path));
        }
    }

    fn is_by_commands(&self, path: &Path) -> bool {
        let Some(changed) = file_stamp::changed_at(path) else { return false };
        let is_in = |(from, to): &(Duration, Option<Duration>)| {
            changed + file_stamp::TICK > *from && to.is_none_or(|to| changed <= to)
        };
        self.spans.iter().any(is_in)
    }

    /// Records what the commands changed, at the end of the run.
    pub(super) fn finish(&mut self, context: &RunContext<'_>, log: &ChangeLog) -> Result<()> {
        let Some(begun) = self.begun.take() else { return Ok(()) };
        let (mut left, mut why) = (Vec::new(), String::new());
        let mut events = Vec::new();
        if !begun.tree.is_empty() {
            match self.compare(&begun, context, log) {
                Ok(found) => (events, left) = found,
                Err(error) => why = error.why,
            }
        }
        left.truncate(LEFT_NAMED);
        let end = FileEvent::CommandsEnded { left, why, time: now() };
        events.push((begun.top, end));
        log.append_all(events)
    }

    /// The changes of commands, whose contents before are stored, and the files that cannot be taken back.
    fn compare(
        &self,
        begun: &Begun,
        context: &RunContext<'_>,
        log: &ChangeLog,
    ) -> Result<(FileEvents, Vec<String>), NoSnapshot> {
        let after = take_snapshot(&begun.top, &context.root, context.interrupts)?;
        let (mut events, mut left, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        if after == begun.tree {
            return Ok((events, left));
        }
        let failed = |error: anyhow::Error| NoSnapshot::from(format!("{error:#}"));
        let logged = change_log::read_since(&context.root, begun.logged).map_err(failed)?;
        let outputs = context.root.outputs_folder();
        let changes = {
            let (_lock, folder) = lock_snapshots(&begun.top, &context.root, context.interrupts)?;
            compare_trees(&folder, &begun.top, [&begun.tree, &after])?
        };
        let is_rules = |path: &Path| path.file_name().is_some_and(|name| name == ".gitignore");
        let has_rules = changes.iter().any(|change| is_rules(&change.path));
        for change in changes {
            let TreeChange { path, before, after } = &change;
            let states = [
                describe_state(before.as_ref(), after.as_ref()),
                describe_state(after.as_ref(), before.as_ref()),
            ];
            let found = find_logged(&logged, log, path, &states);
            match self.judge(&change, found, has_rules) {
                Verdict::Known => continue,
                Verdict::Left => {
                    left.push(path.display().to_string());
                    continue;
                }
                Verdict::Ours => {}
            }
            if let Some((_, content)) = before {
                stored.push(fs::store_output_unsynced(&outputs, content).map_err(failed)?);
            }
            let [before, after] = states;
            events.push((change.path, FileEvent::Write { before, after, by_commands: true }));
        }
        fs::sync_outputs(&outputs, &stored).map_err(failed)?;
        Ok((events, left))
    }

    /// Whether commands of this run made a change.
    fn judge(&self, change: &TreeChange, found: Logged, has_rules: bool) -> Verdict {
        let TreeChange { path, before, after } = change;
        let is_other = |side: &Option<(FileKind, Vec<u8>)>| {
            side.as_ref().is_some_and(|(kind, _)| *kind == FileKind::Other)
        };
        let start = self.spans.first().map_or(Duration::ZERO, |span| span.0);
        let is_older = |at: Option<Duration>| at.is_some_and(|at| at + file_stamp::TICK < start);
        let is_ours = after.is_none() || self.is_by_commands(path);
        match found {
            _ if is_other(before) || is_other(after) => Verdict::Left,
            // It was there before, and a new rule of .gitignore shows it.
            _ if before.is_none() && is_older(file_stamp::changed_at(path)) => Verdict::Known,
            Logged::All => Verdict::Known,
            Logged::ByOthers if !is_ours => Verdict::Known,
            Logged::ByChild => Verdict::Ours,
            // A tag wrote it after a command had changed it.
            Logged::Part if self.rewritten.contains(path) => Verdict::Ours,
            // The rules have changed, and they hid an older file whose content is not known.
            _ if has_rules && before.is_none() && is_older(file_stamp::born_at(path)) => {
                Verdict::Left
            }
            _ if is_ours => Verdict::Ours,
            _ => Verdict::Left,
        }
    }
}

/// Whose a change is.
enum Verdict {
    /// Undo takes it back.
    Ours,
    /// Undo names it.
    Left,
    /// It is in the log, or was not made in this run.
    Known,
}

/// What the log has of a change already.
enum Logged {
    Nothing,
    All,
    /// A later part, written by tags of this conversation.
    Part,
    /// A later part, by a child of the run.
    ByChild,
    /// The content after is that of another run.
    ByOthers,
}

fn find_logged(
    logged: &[ChangeLogEntry],
    log: &ChangeLog,
    path: &Path,
    states: &[String; 2],
) -> Logged {
    let writes = logged.iter().filter_map(|entry| match &entry.event {
        FileEvent::Write { before, after, .. } if Path::new(&entry.path) == path => {
            Some((entry, before, *after == states[1]))
        }
        _ => None,
    });
    let (own, others): (Vec<_>, Vec<_>) = writes.partition(|(entry, ..)| entry.run == log.run);
    match (own.first(), own.last(), others.last()) {
        (Some((_, before, _)), Some((.., true)), _)
            if is_same_state(Some(before), Some(&states[0])) =>
        {
            Logged::All
        }
        (_, Some((last, _, true)), _) if last.conversation != log.conversation => Logged::ByChild,
        (_, Some(_), _) => Logged::Part,
        (_, None, Some((.., true))) => Logged::ByOthers,
        _ => Logged::Nothing,
    }
}

/// The state of a file in the log. The kind is in it where it differs from the other side's.
fn describe_state(
    side: Option<&(FileKind, Vec<u8>)>,
    other: Option<&(FileKind, Vec<u8>)>,
) -> String {
    let Some((kind, content)) = side else { return NO_FILE.to_owned() };
    let hash = fs::sha256(content);
    let is_changed = other.is_some_and(|(other, _)| other != kind);
    match kind {
        FileKind::Link => format!("{hash}:l"),
        FileKind::Executable if is_changed || other.is_none() => format!("{hash}:x"),
        FileKind::Regular if is_changed => format!("{hash}:-"),
        _ => hash,
    }
}
