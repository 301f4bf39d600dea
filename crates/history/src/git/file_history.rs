//! Reads the history of a file, from the cache and from the repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ErrorCode, Mailmap, Oid, Repository, Signature, Time};

use super::cache::{Cache, CachedHistory};
use super::facts::find_toplevel;
use super::repository::{Objects, describe_open_error, open_repository, read_shallow};
use super::tree_diff::find_staged_source;
use super::walk::Walk;
use super::worker::{Patience, Progress, run_in_worker};
use crate::people::list_people;
use crate::{CommitKind, FileCommit, History};
use conversation::format::harmless::quote_name;
use conversation::limits;
use sys::clock::Stopwatch;
use sys::fs;

/// How much time the reading of a history has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingTime {
    /// After this long the walk stops, and the next one goes on from there.
    walk: Option<Duration>,
    /// After this long the worker is left behind.
    patience: Patience,
}

impl ReadingTime {
    /// For the start of a conversation, which waits at most 2 seconds.
    pub const START: Self = Self {
        walk: Some(Duration::from_millis(1_500)),
        patience: Patience::Total(Duration::from_secs(2)),
    };

    /// Until all is read, or nothing comes for 3 seconds.
    pub const UNLIMITED: Self =
        Self { walk: None, patience: Patience::Idle(Duration::from_secs(3)) };

    /// As at a start with this time for the walk.
    #[cfg(test)]
    pub(super) fn at_most(walk: Duration) -> Self {
        Self { walk: Some(walk), ..Self::UNLIMITED }
    }
}

/// The history of a file, or why there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryLookup {
    /// `None` where there is no repository with a working tree, it has no commit, or none touched the file. Notes on what could
    /// not be read are in the history itself.
    pub history: Option<History>,
    /// Why there is no history; empty where there is one.
    pub notes: Vec<String>,
    /// Whether that is a problem, such as a damaged repository, and not just a file that was never committed.
    pub is_trouble: bool,
    /// Number of commits that were read; 0 when all was cached.
    pub commits_read: u64,
}

impl HistoryLookup {
    fn without_history(note: String) -> Self {
        Self { notes: vec![note], ..Self::default() }
    }

    fn with_trouble(note: String) -> Self {
        Self { is_trouble: true, ..Self::without_history(note) }
    }
}

/// Reads the history of a file, given by its absolute path without links; it need not exist. Results are cached below
/// `cache`. Gives up when the time is over or `keep_waiting`, which is asked 20 times a second, says no. Never fails: problems
/// become notes.
pub fn read_history(
    file: &Path,
    cache: &Path,
    time: ReadingTime,
    keep_waiting: &mut dyn FnMut() -> bool,
) -> HistoryLookup {
    let Some(top) = file.parent().and_then(find_toplevel) else {
        return HistoryLookup::without_history(format!(
            "{} is not in a git repository",
            quote_name(file)
        ));
    };
    let path = file.strip_prefix(&top).unwrap_or(file).as_os_str().as_bytes().to_owned();
    if path.starts_with(b".git/") {
        return HistoryLookup::without_history(format!(
            "{} belongs to git itself",
            quote_name(file)
        ));
    }
    let (folder, place) = (cache.to_owned(), quote_name(&top));
    let read = move |progress: &Progress| {
        read_in_worker(top, &path, &folder, time.walk, progress)
            .unwrap_or_else(HistoryLookup::with_trouble)
    };
    run_in_worker(time.patience, keep_waiting, read).unwrap_or_else(|| {
        let note =
            format!("the git repository at {place} does not answer: its history is left out");
        HistoryLookup::with_trouble(note)
    })
}

fn read_in_worker(
    top: PathBuf,
    path: &[u8],
    cache: &Path,
    time: Option<Duration>,
    progress: &Progress,
) -> Result<HistoryLookup, String> {
    let started = Stopwatch::start();
    let must_stop = || time.is_some_and(|time| started.elapsed() >= time);
    let repository = open_repository(&top)?;
    let objects = Objects::new(&repository)?;
    let head = match objects.head_id() {
        Ok(head) => head,
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
            let note = format!("the git repository at {} has no commit yet", quote_name(&top));
            return Ok(HistoryLookup::without_history(note));
        }
        Err(error) => return Err(describe_open_error(&top, &error)),
    };
    let new_path = path;
    let staged_source = find_source(&objects, head, path);
    let path = staged_source.as_deref().unwrap_or(path);
    let (shallow, shallow_hash) = read_shallow(&repository)?;
    let mut cache = Cache::new(cache, repository.commondir(), &shallow_hash);
    let mut walk = Walk::new(&objects, shallow, progress, (head, path));
    walk.walk_commits(&mut cache, &must_stop);
    if walk.commits_read > 0 {
        // Names need less time than commits, and get a quarter more.
        let must_stop = || time.is_some_and(|time| started.elapsed() >= time + time / 4);
        walk.update_paths(path, &must_stop);
        walk.count_older_commits(&must_stop);
    }
    let (frontier, read_back_to) = walk.frontier();
    let history = CachedHistory {
        basis: cache.basis.clone(),
        commits: std::mem::take(&mut walk.commits),
        co_changes: std::mem::take(&mut walk.co_changes),
        frontier,
    };
    let mut notes = std::mem::take(&mut walk.notes);
    // What is damaged today may be repaired tomorrow.
    if notes.is_empty()
        && walk.commits_read > 0
        && let Err(error) = cache.write_head(&head.to_string(), path, &history)
    {
        notes.push(format!("cannot cache the history: {error:#}"));
    }
    let mut lookup = HistoryLookup { commits_read: walk.commits_read, ..HistoryLookup::default() };
    let mut commits = history.commits;
    if commits.is_empty() && read_back_to.is_none() {
        let file = quote_name(OsStr::from_bytes(path));
        lookup.notes.push(format!("no commit of {} touched {file}", quote_name(&top)));
        lookup.is_trouble = !notes.is_empty();
        lookup.notes.append(&mut notes);
        return Ok(lookup);
    }
    apply_mailmap(&mut commits, &read_mailmap(&repository, &top));
    lookup.history = Some(History {
        toplevel: top,
        path: new_path.to_owned(),
        path_at_head: staged_source,
        head: head.to_string(),
        people: list_people(&commits),
        co_changed: history.co_changes.list_files(),
        is_shallow: commits.iter().any(|commit| commit.kind == CommitKind::Boundary),
        commits,
        read_back_to,
        notes,
    });
    Ok(lookup)
}

/// The path at `HEAD` of a file that is not there under this path, if it was renamed since and the rename is staged.
fn find_source(objects: &Objects<'_>, head: Oid, path: &[u8]) -> Option<Vec<u8>> {
    let tree = objects.read_commit(head).ok()?.tree_id();
    if objects.trace_path(tree, path, None).ok()?.entry.is_some() {
        return None;
    }
    find_staged_source(objects, tree, path)
}

/// Reads the mailmap in the working tree, and then the user's own from git's configuration.
fn read_mailmap(repository: &Repository, top: &Path) -> String {
    let in_tree = top.join(".mailmap");
    // A link in a working tree of somebody else is not followed; git does not either.
    let is_file = std::fs::symlink_metadata(&in_tree).is_ok_and(|metadata| metadata.is_file());
    let own =
        repository.config().and_then(|mut config| config.snapshot()?.get_path("mailmap.file"));
    let mut text = String::new();
    for path in is_file.then_some(in_tree).into_iter().chain(own.ok().map(|own| top.join(own))) {
        let bytes = fs::read_bytes(&path, limits::MAILMAP).ok().flatten().unwrap_or_default();
        text = text + &String::from_utf8_lossy(&bytes) + "\n";
    }
    text
}

fn apply_mailmap(commits: &mut [FileCommit], text: &str) {
    let text = text.replace('\0', "");
    let Ok(mailmap) = Mailmap::from_buffer(&text) else { return };
    for commit in commits.iter_mut().filter(|_| !text.trim().is_empty()) {
        // libgit2 refuses a signature with an empty name or address, and a mailmap cannot have one.
        let Ok(author) = Signature::new(&commit.name, &commit.email, &Time::new(0, 0)) else {
            continue;
        };
        if let Ok(resolved) = mailmap.resolve_signature(&author) {
            commit.name = String::from_utf8_lossy(resolved.name_bytes()).into_owned();
            commit.email = String::from_utf8_lossy(resolved.email_bytes()).into_owned();
        }
    }
}
