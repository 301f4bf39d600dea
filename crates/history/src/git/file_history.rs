//! Reads the history of a file, from the cache and from the repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ErrorCode, Mailmap, Oid, Signature, Time};

use super::cache::{Cache, CachedHistory};
use super::co_changes::count_co_changes;
use super::facts::find_toplevel;
use super::repository::{Objects, describe_open_error, is_shallow, open_repository};
use super::walk::Walk;
use super::worker::run_in_worker;
use crate::people::list_people;
use crate::text::format_date;
use crate::{CommitKind, FileCommit, History};
use conversation::format::harmless::quote_name;
use conversation::limits;
use sys::clock::Stopwatch;
use sys::fs;

/// Maximum wait for a history at the start of a conversation.
pub const START_TIME: Duration = Duration::from_secs(2);

/// Maximum wait for a history in a report, which has longer ones.
pub const REPORT_TIME: Duration = Duration::from_secs(10);

/// The history of a file, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryLookup {
    /// `None` if there is no repository with a working tree, it has no commit, or no commit touched the file. Notes on
    /// read errors are in the history itself.
    pub history: Option<History>,
    /// The reasons why there is no history; empty if there is one.
    pub notes: Vec<String>,
    /// Whether that is a problem, such as a damaged repository, and not just a file that was never committed.
    pub is_trouble: bool,
    /// Number of commits that were read; 0 when the history was cached.
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
/// `cache`. A history that takes longer than `time` is cut. Gives up when `keep_waiting`, which is called 20 times a
/// second, returns false. Never fails: problems become notes.
pub fn read_history(
    file: &Path,
    cache: &Path,
    time: Duration,
    keep_waiting: &mut dyn FnMut() -> bool,
) -> HistoryLookup {
    let name = quote_name(file);
    let Some(top) = file.parent().and_then(find_toplevel) else {
        return HistoryLookup::without_history(format!("{name} is not in a git repository"));
    };
    let path = file.strip_prefix(&top).unwrap_or(file).as_os_str().as_bytes().to_owned();
    if path.starts_with(b".git/") {
        return HistoryLookup::without_history(format!("{name} belongs to git itself"));
    }
    let (folder, place) = (cache.to_owned(), quote_name(&top));
    let read = move || {
        read_in_worker(top, &path, &folder, time).unwrap_or_else(HistoryLookup::with_trouble)
    };
    run_in_worker(time, keep_waiting, read).unwrap_or_else(|| {
        let note =
            format!("the git repository at {place} does not answer: its history is left out");
        HistoryLookup::with_trouble(note)
    })
}

fn read_in_worker(
    top: PathBuf,
    path: &[u8],
    cache: &Path,
    time: Duration,
) -> Result<HistoryLookup, String> {
    let started = Stopwatch::start();
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
    let cache = Cache::new(cache, repository.commondir(), path, &head.to_string());
    // The start of a conversation accepts a history that an earlier start cut; a report waits longer, and may get more
    // of it.
    let is_enough = |cached: &CachedHistory| cached.read_back_to.is_none() || time <= START_TIME;
    let is_over = |eighths: u32| started.elapsed() >= time * eighths / 8;
    let cached = cache.read().filter(is_enough).map(|found| (found, 0, Vec::new()));
    let (mut found, commits_read, mut notes) =
        cached.unwrap_or_else(|| read_anew(&objects, &cache, (head, path), &is_over));
    let mut lookup = HistoryLookup { commits_read, ..HistoryLookup::default() };
    if found.commits.is_empty() {
        lookup.is_trouble = !notes.is_empty() || found.read_back_to.is_some();
        let since = found.read_back_to.map_or_else(String::new, |time| {
            format!(" since {}; older ones took too long to read", format_date(time, 0))
        });
        let file = quote_name(OsStr::from_bytes(path));
        lookup.notes.push(format!("no commit of {} touched {file}{since}", quote_name(&top)));
        lookup.notes.append(&mut notes);
        return Ok(lookup);
    }
    apply_mailmap(&mut found.commits, &read_mailmap(&top));
    lookup.history = Some(History {
        toplevel: top,
        path: path.to_owned(),
        head: head.to_string(),
        people: list_people(&found.commits),
        co_changed: found.co_changed,
        counted: found.counted,
        is_shallow: found.commits.iter().any(|commit| commit.kind == CommitKind::Boundary),
        commits: found.commits,
        read_back_to: found.read_back_to,
        notes,
    });
    Ok(lookup)
}

/// Reads a history from the repository and caches it. Returns it with the number of commits that were read, and with
/// notes on errors. `is_over` returns whether this many eighths of the time are over.
fn read_anew(
    objects: &Objects<'_>,
    cache: &Cache,
    (head, path): (Oid, &[u8]),
    is_over: &dyn Fn(u32) -> bool,
) -> (CachedHistory, u64, Vec<String>) {
    let is_shallow = is_shallow(objects.repository);
    let mut walk = Walk::new(objects, is_shallow);
    // In a repository of very many folders comparing two commits takes long, and the last comparison cannot be
    // interrupted.
    walk.walk_commits(head, path, &|| is_over(4));
    let Walk { commits, read_back_to, commits_read, mut notes, .. } = walk;
    let (counted, co_changed) =
        count_co_changes(objects, head, &commits, &|| is_over(6), &mut notes);
    let basis = cache.basis.clone();
    let found = CachedHistory { basis, commits, co_changed, counted, read_back_to };
    // Damage may be repaired later, and a shallow clone gets more commits without a new head.
    if notes.is_empty()
        && !is_shallow
        && let Err(error) = cache.write(&found)
    {
        notes.push(format!("cannot cache the history: {error:#}"));
    }
    (found, commits_read, notes)
}

/// Reads the mailmap in the working tree.
fn read_mailmap(top: &Path) -> String {
    let path = top.join(".mailmap");
    // A link in the working tree of somebody else is not followed, as in git.
    let is_file = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
    let bytes = is_file.then(|| fs::read_bytes(&path, limits::MAILMAP).ok()).flatten().flatten();
    String::from_utf8_lossy(&bytes.unwrap_or_default()).replace('\0', "")
}

fn apply_mailmap(commits: &mut [FileCommit], text: &str) {
    let Ok(mailmap) = Mailmap::from_buffer(text) else { return };
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
