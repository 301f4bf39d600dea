//! Finds out which files the commands of a run changed, so that undo takes their changes back or names them: the working
//! tree is remembered before the first command, and compared at the end of the run. The user may write at the same time: a
//! file that was last changed while no command ran is left alone. The kernel sets that time, and commands cannot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};

use super::file_guard::FileGuard;
use super::run_context::RunContext;
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{ChangeLogEntry, FileEvent, NO_FILE, list_unknown};
use history::git;
use history::git::snapshot::{self, Snapshot, TreeChange, Version};
use sandbox::automatic_files::{ChangedFiles, search};
use sys::change_log::{self, ChangeLog};
use sys::names::name_some;
use sys::root::Root;
use sys::{clock, file_stamp, fs, lock};

/// Maximum number of files in a reason.
const NAMED: usize = 20;

/// Maximum number of files that are named at the end of a run.
const SHOWN: usize = 8;

/// The reason why what is in another repository or tree is not taken back.
const ELSEWHERE: &str = "in a repository inside, or outside of the tree";

/// The files that the run's commands changed.
#[derive(Debug, Default)]
pub struct CommandChanges {
    /// The top of the working tree (or the folder, where that is in no repository), and the tree before the first command,
    /// or why it is not known.
    begun: Option<(PathBuf, Result<Snapshot>)>,
    /// The time then, in nanoseconds since 1970.
    since: u64,
    /// Whether a command ran without a sandbox.
    is_free: bool,
    /// The folders of `--write` outside of the tree, and what was in them.
    outside: (Vec<PathBuf>, Vec<PathBuf>),
    /// The length of git's log of `HEAD` then.
    head_log: u64,
    /// When commands began and ended.
    spans: Vec<(Duration, Option<Duration>)>,
    /// When files were made that tags replaced since.
    born: BTreeMap<PathBuf, Duration>,
    /// The files that undo takes back, as the user would name them.
    changed: Vec<String>,
    /// The files that it does not.
    left: Vec<String>,
    /// Whether `HEAD` moved.
    has_moved: bool,
}

impl CommandChanges {
    /// Remembers the working tree before the first command. Returns a note for the user where that fails.
    pub(super) fn before_command(
        &mut self,
        context: &RunContext<'_>,
        (log, named): (&ChangeLog, &[PathBuf]),
        is_outside: bool,
    ) -> Option<String> {
        let mut note = None;
        self.is_free |= is_outside || context.sandbox.is_none();
        if self.begun.is_none() {
            let repository =
                git::find_toplevel(&context.folder).and_then(|top| fs::real_path(&top));
            let top = repository.clone().unwrap_or_else(|| context.folder.clone());
            let is_near = |it: &PathBuf| it.starts_with(&top) || top.starts_with(it);
            let sandbox = context.sandbox.as_ref().map(|it| &it.policy().writable);
            if !is_outside && !sandbox.is_none_or(|writable| writable.iter().any(is_near)) {
                return None;
            }
            let why = "the run has not ended, or was killed".to_owned();
            self.since = clock::of_files().as_nanos().try_into().unwrap_or(0);
            let begin = FileEvent::CommandsRan { why, since: self.since, free: self.is_free };
            let logged = log.append(&top, begin);
            let before = logged.and_then(|()| match &repository {
                Some(top) => snapshot::take(&context.root, top),
                None => bail!("{} is in no git repository", quote_name(&top)),
            });
            if let (Err(why), true) = (&before, repository.is_some() && log.facts.task.is_empty()) {
                note = Some(format!("undo will not take back what commands change here: {why:#}"));
            }
            self.head_log = git::read_head_log(&top, u64::MAX).0;
            let is_apart = |it: &&PathBuf| !it.starts_with(&top) && !top.starts_with(it);
            self.outside.0 = named.iter().filter(is_apart).cloned().collect();
            self.outside.1 =
                search(&self.outside.0, Vec::new(), &|name| name != ".git", &|_| true).paths;
            self.begun = Some((top, before));
        }
        self.spans.push((clock::of_files(), None));
        note
    }

    /// Notes that a command has ended.
    pub(super) fn after_command(&mut self) {
        if let Some(span) = self.spans.last_mut() {
            span.1 = Some(clock::since_epoch());
        }
    }

    /// Records what the commands changed, at the end of the run.
    pub(super) fn finish(&mut self, context: &RunContext<'_>, files: &FileGuard) -> Result<()> {
        let Some((top, before)) = self.begun.take() else { return Ok(()) };
        let log = &files.log;
        self.born.clone_from(&files.born);
        let mut inside =
            before.as_ref().map_or_else(|_| Vec::new(), |it| snapshot::list_repositories(&top, it));
        inside.append(&mut self.outside.0);
        let changes = before.and_then(|before| snapshot::compare(&context.root, &top, before));
        let is_same = changes.as_ref().is_ok_and(Vec::is_empty);
        let mut logged = if is_same && inside.is_empty() {
            Vec::new()
        } else {
            change_log::read_log(&context.root)?
        };
        let busy = || anyhow!("another run was at work there at the same time");
        let is_alone = is_alone(&context.root, log, &top, &logged);
        let changes = changes.and_then(|it| is_alone.then_some(it).ok_or_else(busy));
        logged.retain(|it| it.facts.run == log.facts.run);
        let begun = find_begin(&logged, log);
        let outputs = context.root.outputs_folder();
        let name = |it: &Path| quote_name(it.strip_prefix(&context.folder).unwrap_or(it));
        let (_, moves) = git::read_head_log(&top, self.head_log);
        self.has_moved = !moves.is_empty();
        let (events, found, why) = match changes {
            Ok(mut changes) => {
                // That of commits is said below.
                let heads = top.join(".git/refs/heads");
                let has_stayed = |it: &TreeChange| it.before.is_some() && it.after.is_some();
                let is_head = |it: &TreeChange| has_stayed(it) && it.path.starts_with(&heads);
                let is_of_commit = |it: &_| is_head(it) || it.path.ends_with(snapshot::INDEX);
                changes.retain(|it| !(self.has_moved && is_of_commit(it)));
                let events = self.sort_changes(&top, &outputs, changes, &logged, begun)?;
                (events, self.find_changed(&inside, &logged).paths, None)
            }
            Err(why) => {
                inside.push(top.clone());
                (Vec::new(), Vec::new(), self.name_changed(&inside, &logged, &why))
            }
        };
        self.left = found.iter().map(|it| name(it)).collect();
        let mut left: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        left.insert(ELSEWHERE, found.iter().map(quote_name).collect());
        for (path, event) in events {
            match event {
                Ok(event) => {
                    self.changed.push(name(&path));
                    log.append(&path, event)?;
                }
                Err(reason) if !found.contains(&path) => {
                    self.left.push(name(&path));
                    left.entry(reason).or_default().push(quote_name(&path));
                }
                Err(_) => {}
            }
        }
        let mut why: Vec<String> = why.into_iter().collect();
        for (reason, names) in left.iter().filter(|(_, names)| !names.is_empty()) {
            why.push(format!("{reason}: {}", name_some(names, NAMED, ", ")));
        }
        if self.has_moved {
            why.push(format!("commits, branches and git's index stay ({})", moves.join("; ")));
        }
        if self.is_free && context.sandbox.is_some() {
            let text = "what a command without the sandbox changed elsewhere is not known";
            why.push(text.to_owned());
        }
        let why = why.join("; ");
        log.append_end(&top, FileEvent::CommandsRan { why, since: self.since, free: self.is_free })
    }

    /// Names the files that commands changed, for the user at the end of the run.
    pub fn describe(&self) -> Option<String> {
        let name = |it: &[String]| (!it.is_empty()).then(|| name_some(it, SHOWN, ", "));
        let but = if self.has_moved { "; commits and branches stay" } else { "" };
        let changed = name(&self.changed)
            .map(|names| format!("commands changed {names}; undo takes that back{but}"));
        let left = name(&self.left)
            .map(|names| format!("undo does not take back what commands did to {names}"));
        let notes: Vec<String> = changed.into_iter().chain(left).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The changes of commands, whose contents before are stored; with a reason those that undo cannot take back. The
    /// first `begun` lines of the log are older than the snapshot.
    fn sort_changes(
        &self,
        top: &Path,
        outputs: &Path,
        changes: Vec<TreeChange>,
        logged: &[ChangeLogEntry],
        begun: usize,
    ) -> Result<Vec<(PathBuf, Result<FileEvent, &'static str>)>> {
        let (mut events, mut stored) = (Vec::new(), Vec::new());
        for change in changes {
            let writes = list_writes(logged, &change.path);
            let Some(event) = self.find_event(top, &change, &writes, begun) else { continue };
            if let (Ok(_), Some((Some(content), _))) = (&event, &change.before) {
                stored.push(fs::store_output_unsynced(outputs, content)?);
            }
            events.push((change.path, event));
        }
        fs::sync_outputs(outputs, &stored)?;
        Ok(events)
    }

    /// The line of the log for a change; a reason if undo cannot take it back. `None` if the user made it, or the writes of
    /// the run that are in the log already, of which the first `begun` lines are older than the snapshot.
    fn find_event(
        &self,
        top: &Path,
        change: &TreeChange,
        writes: &[(usize, &str, &str)],
        begun: usize,
    ) -> Option<Result<FileEvent, &'static str>> {
        let (from, to) = (state(change.before.as_ref()), state(change.after.as_ref()));
        let older = writes.iter().rfind(|(line, ..)| *line < begun);
        let before = older.and(writes.first()).map_or(from.as_str(), |(_, before, _)| before);
        let is_known = writes.last().is_some_and(|(.., after)| *after == to);
        let fits = older.is_none_or(|(.., after)| *after == from);
        let is_logged = is_known && fits && writes[0].1 == before && from != to;
        let start = self.spans.first().map_or(Duration::MAX, |span| span.0);
        let born = self.born.get(&change.path).copied();
        let born = born.or_else(|| file_stamp::born_at(&change.path));
        // A file that came with its folder has its old times.
        let mut folders =
            change.path.ancestors().skip(1).take_while(|it| it.starts_with(top) && *it != top);
        let came = change.before.is_none()
            && born.is_none_or(|born| born < start)
            && folders.any(|it| self.was_last_to_change(it));
        let is_ours = is_known
            || change.after.is_none()
            || came && change.is_moved
            || self.was_last_to_change(&change.path);
        if change.path.starts_with(top.join(".git")) {
            let there = change.path.ancestors().find(|it| file_stamp::changed_at(it).is_some());
            return there.filter(|it| self.was_last_to_change(it)).map(|_| Err("of git itself"));
        }
        let is_shown = change.was_hidden && change.after.is_some() && !is_ours;
        let is_of_others = change.before.is_none() && !is_ours && !came;
        if is_logged || is_shown || is_of_others {
            return None;
        }
        let is_gap =
            |pair: &[(usize, &str, &str)]| pair[0].2 != pair[1].1 && pair[0].1 != pair[1].1;
        let is_plain = match (&change.before, &change.after) {
            (Some((Some(_), old)), Some((Some(_), new))) => from != to && old == new,
            (Some((Some(_), _)), None) => true,
            // One that was there before came from where it was ignored or unreadable, or from outside.
            (None, Some((Some(_), _))) => {
                change.is_moved || born.is_some_and(|born| self.is_of_command(born))
            }
            _ => false,
        };
        let is_whole = is_ours && fits && !writes.windows(2).any(is_gap);
        let executable = change.before.as_ref().is_some_and(|it| it.1);
        let event = FileEvent::Commands { before: before.to_owned(), after: to, executable };
        Some(match () {
            () if change.was_hidden => Err("ignored by git before"),
            () if !is_plain => Err("links, modes, or moved here from elsewhere"),
            () if !is_whole => Err("changed by something else, too"),
            () if change.path.to_str().is_none() => Err("not named in UTF-8"),
            () => Ok(event),
        })
    }

    fn was_last_to_change(&self, path: &Path) -> bool {
        file_stamp::changed_at(path).is_some_and(|changed| self.is_of_command(changed))
    }

    fn is_of_command(&self, time: Duration) -> bool {
        self.spans.iter().any(|(from, to)| time >= *from && to.is_none_or(|to| time <= to))
    }

    /// What changed in these folders while commands ran, and not by tags.
    fn find_changed(&self, folders: &[PathBuf], logged: &[ChangeLogEntry]) -> ChangedFiles {
        let is_meant = |path: &Path| {
            !path.ends_with(".git")
                && self.was_last_to_change(path)
                && list_writes(logged, path).is_empty()
        };
        let own = folders.iter().filter(|it| is_meant(it)).cloned();
        let gone = self.outside.1.iter().filter(|it| !fs::exists(it)).cloned();
        search(folders, own.chain(gone).collect(), &|name| name != ".git", &is_meant)
    }

    /// Names what changed in these folders while commands ran, and says why it is not taken back, if something did.
    fn name_changed(
        &self,
        tops: &[PathBuf],
        logged: &[ChangeLogEntry],
        why: &Error,
    ) -> Option<String> {
        let found = self.find_changed(tops, logged);
        let names: Vec<String> = found.paths.iter().map(quote_name).collect();
        let more = if found.is_cut { ", and not all of the tree was looked at" } else { "" };
        let names = match name_some(&names, NAMED, ", ").as_str() {
            "" if !found.is_cut => return None,
            "" => String::new(),
            names => format!("; changed while commands ran: {names}"),
        };
        Some(format!("{why:#}{names}{more}"))
    }
}

/// The line where the commands of this run began.
fn find_begin(logged: &[ChangeLogEntry], log: &ChangeLog) -> usize {
    let is_begin = |it: &ChangeLogEntry| {
        matches!(it.event, FileEvent::CommandsRan { .. })
            && it.facts.run == log.facts.run
            && it.facts.conversation == log.facts.conversation
    };
    logged.iter().position(is_begin).unwrap_or(0)
}

/// Whether no other run has worked below `top` since the commands of this one began.
fn is_alone(root: &Root, log: &ChangeLog, top: &Path, logged: &[ChangeLogEntry]) -> bool {
    let is_other =
        |it: &ChangeLogEntry| it.facts.run != log.facts.run && Path::new(&it.path).starts_with(top);
    let is_running = |(it, _): &(&ChangeLogEntry, &str)| {
        let conversation = &it.facts.conversation;
        let is_own = log.facts.of.contains(conversation);
        is_other(it) && !is_own && lock::is_held(root, conversation)
    };
    !logged[find_begin(logged, log)..].iter().any(is_other)
        && !list_unknown(logged).iter().any(is_running)
}

/// The changes of a file by this run that the log has: the number of the line, and the states before and after.
fn list_writes<'a>(logged: &'a [ChangeLogEntry], path: &Path) -> Vec<(usize, &'a str, &'a str)> {
    let of_path = logged.iter().enumerate().filter(|(_, it)| Path::new(&it.path) == path);
    let write = |(line, it): (usize, &'a ChangeLogEntry)| match &it.event {
        FileEvent::Write { before, after } | FileEvent::Commands { before, after, .. } => {
            Some((line, before.as_str(), after.as_str()))
        }
        _ => None,
    };
    of_path.filter_map(write).collect()
}

/// The state of a file in the log.
fn state(version: Option<&Version>) -> String {
    let content = version.map(|(content, _)| content.as_deref().unwrap_or_default());
    content.map_or_else(|| NO_FILE.to_owned(), fs::sha256)
}
