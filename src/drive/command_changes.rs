//! Finds out which files the commands of a run changed, so that undo takes their changes back: a snapshot of the working
//! tree before the first command, another at the end of the run.
//!
//! The user may write at the same time. The kernel sets when a file was last changed, and commands cannot: a file that was
//! last changed while no command ran is left alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::run_context::RunContext;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{ChangeLogEntry, FileEvent, NO_FILE, is_same_state};
use history::git;
use history::git::snapshot::{TreeChange, Version, compare_trees, store_tree};
use sys::change_log::{self, ChangeLog};
use sys::names::name_some;
use sys::{clock, file_stamp, fs};

/// Maximum number of files in a reason.
const NAMED: usize = 20;

/// The files that the run's commands changed.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// The state before the first command.
    begun: Option<Begun>,
    /// When commands began and ended.
    spans: Vec<(Duration, Option<Duration>)>,
}

/// Lines for the log, with the files that they are about.
type FileEvents = Vec<(PathBuf, FileEvent)>;

#[derive(Debug)]
struct Begun {
    /// The top of the working tree, or the run's folder where it is in no repository.
    top: PathBuf,
    /// The snapshot, or why there is none.
    tree: Result<String>,
    /// The end of the log of changes.
    logged: u64,
}

impl CommandChanges {
    /// Remembers the working tree before the first command. Returns a note for the user where that fails.
    pub(super) fn before_command(
        &mut self,
        context: &RunContext<'_>,
        log: &ChangeLog,
    ) -> Option<String> {
        let mut note = None;
        if self.begun.is_none() {
            let repository =
                git::find_toplevel(&context.folder).and_then(|top| fs::real_path(&top));
            let top = repository.clone().unwrap_or_else(|| context.folder.clone());
            let is_near = |it: &PathBuf| it.starts_with(&top) || top.starts_with(it);
            let sandbox = context.sandbox.as_ref().map(|it| &it.policy().writable);
            if !sandbox.is_none_or(|writable| writable.iter().any(is_near)) {
                return None;
            }
            let logged = fs::file_size(&context.root.change_log_path()).unwrap_or(0);
            let tree = match &repository {
                Some(top) => store_tree(&context.root, top),
                None => Err(anyhow!("{} is in no git repository", quote_name(&top))),
            };
            if let (Err(why), true) = (&tree, repository.is_some() && log.task.is_empty()) {
                note = Some(format!("undo will not take back what commands change here: {why:#}"));
            }
            if let Err(error) = log.append(&top, FileEvent::CommandsBegun) {
                note = Some(format!("undo will not know what commands change: {error:#}"));
            }
            self.begun = Some(Begun { top, tree, logged });
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

    /// Records what the commands changed, at the end of the run.
    pub(super) fn finish(&mut self, context: &RunContext<'_>, log: &ChangeLog) -> Result<()> {
        let Some(Begun { top, tree, logged }) = self.begun.take() else { return Ok(()) };
        let found = tree.and_then(|tree| self.compare(&top, &tree, logged, context, log));
        let (mut events, why) = found.unwrap_or_else(|error| (Vec::new(), format!("{error:#}")));
        events.push((top, FileEvent::CommandsEnded { why }));
        log.append_all(events)
    }

    /// The changes of commands, whose contents before are stored, and why these are not all.
    fn compare(
        &self,
        top: &Path,
        tree: &str,
        logged: u64,
        context: &RunContext<'_>,
        log: &ChangeLog,
    ) -> Result<(FileEvents, String)> {
        let (mut events, mut left, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        let after = store_tree(&context.root, top)?;
        if after == tree {
            return Ok((events, String::new()));
        }
        let logged = change_log::read_since(&context.root, logged)?;
        let is_other =
            |it: &ChangeLogEntry| it.run != log.run && Path::new(&it.path).starts_with(top);
        ensure!(!logged.iter().any(is_other), "another run changed this tree at the same time");
        let changes = compare_trees(&context.root, top, [tree, &after])?;
        let outputs = context.root.outputs_folder();
        let has_rules = changes.iter().any(|it| it.path.ends_with(".gitignore"));
        for change in changes {
            let TreeChange { path, before, after } = &change;
            let (before_state, after_state) =
                (describe_state(before.as_ref()), describe_state(after.as_ref()));
            let own = logged.iter().filter(|entry| Path::new(&entry.path) == path);
            let own: Vec<&ChangeLogEntry> = own.collect();
            let is_logged = covers(&own, &before_state, &after_state);
            let is_ours = after.is_none() || !own.is_empty() || self.was_last_to_change(path);
            // The user's new file, or one that a new rule of .gitignore shows.
            if is_logged || !is_ours && before.is_none() {
                continue;
            }
            let is_odd = [before, after].into_iter().flatten().any(|(kind, _)| kind.is_none());
            let was_ignored = has_rules && before.is_none() && self.is_older(path);
            let is_ignored = after.is_none() && fs::exists(path);
            if !is_ours || is_odd || was_ignored || is_ignored {
                left.push(quote_name(path));
                continue;
            }
            if let Some((_, content)) = before {
                stored.push(fs::store_output_unsynced(&outputs, content)?);
            }
            let (before, after) = (before_state, after_state);
            events.push((change.path, FileEvent::Write { before, after, by_commands: true }));
        }
        fs::sync_outputs(&outputs, &stored)?;
        let what = "something else changed them, too, or they are not plain files";
        let why = format!("{what}: {}", name_some(&left, NAMED, ", "));
        Ok((events, if left.is_empty() { String::new() } else { why }))
    }

    fn was_last_to_change(&self, path: &Path) -> bool {
        let Some(changed) = file_stamp::changed_at(path) else { return false };
        let is_in = |(from, to): &(Duration, Option<Duration>)| {
            changed + file_stamp::TICK > *from && to.is_none_or(|to| changed <= to)
        };
        self.spans.iter().any(is_in)
    }

    /// Whether a file was there before the first command, in a time when it was perhaps ignored.
    fn is_older(&self, path: &Path) -> bool {
        let start = self.spans.first().map_or(Duration::ZERO, |span| span.0);
        file_stamp::born_at(path).is_some_and(|born| born + file_stamp::TICK < start)
    }
}

/// Whether these writes of a file, together, are this change.
fn covers(writes: &[&ChangeLogEntry], from: &str, to: &str) -> bool {
    let states: Vec<(&str, &str)> = writes
        .iter()
        .filter_map(|entry| match &entry.event {
            FileEvent::Write { before, after, .. } => Some((before.as_str(), after.as_str())),
            _ => None,
        })
        .collect();
    states.first().is_some_and(|it| is_same_state(Some(it.0), Some(from)))
        && states.last().is_some_and(|it| is_same_state(Some(it.1), Some(to)))
}

/// The state of a file in the log.
fn describe_state(version: Option<&Version>) -> String {
    match version {
        None => NO_FILE.to_owned(),
        Some((kind, content)) => format!("{}:{}", fs::sha256(content), kind.unwrap_or('-')),
    }
}
