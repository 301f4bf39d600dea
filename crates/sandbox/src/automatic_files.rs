//! Finds changed files that tools run without being asked: one bounded search at the end of a run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::executed::EXECUTED;
use crate::special::{Group, is_automatic, names_in};
use conversation::limits;
use sys::file_stamp::is_newer;
use sys::walk::walk_below;

/// Maximum time of the search: the user waits for it.
const MAX_TIME: Duration = Duration::from_millis(200);

/// The result of the search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    /// Files, and folders with files, that tools run without being asked and that changed or are new.
    pub paths: Vec<PathBuf>,
    /// Whether the search ended at its limit: there may be more.
    pub is_cut: bool,
}

/// Searches below the tops of trees, and in these `others`. Large folders that tools make are skipped.
pub fn find_changed(
    tops: &[PathBuf],
    others: &[PathBuf],
    home: Option<&Path>,
    since: SystemTime,
) -> ChangedFiles {
    let starters =
        || home.into_iter().flat_map(|home| names_in(Group::Starter).map(|name| home.join(name)));
    let starters = starters().filter(|path| tops.iter().any(|top| path.starts_with(top)));
    let paths: Vec<PathBuf> =
        others.iter().cloned().chain(starters).filter(|path| has_changed(path, since)).collect();
    let heavy: Vec<&str> = names_in(Group::Heavy).collect();
    let enters =
        |name: &OsStr| !is_automatic(Path::new(name)) && heavy.iter().all(|heavy| name != *heavy);
    let meant = |path: &Path| is_automatic(path) && has_changed(path, since);
    let ChangedFiles { paths, is_cut } = search(tops, paths, &enters, &meant);
    // Of a folder and a path in it, keep only the latter.
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().rev() {
        if !found.last().is_some_and(|below| below.starts_with(&path)) {
            found.push(path);
        }
    }
    ChangedFiles { paths: found, is_cut }
}

/// Searches below folders for what is meant, in bounded time, and adds it to these `paths`.
pub fn search(
    tops: &[PathBuf],
    mut paths: Vec<PathBuf>,
    enters: &dyn Fn(&OsStr) -> bool,
    is_meant: &dyn Fn(&Path) -> bool,
) -> ChangedFiles {
    let (started, mut count, mut is_cut) = (Instant::now(), 0, false);
    for entry in tops.iter().flat_map(|top| walk_below(top, enters)) {
        count += 1;
        is_cut =
            count > limits::SCANNED_ENTRIES || count % 128 == 0 && started.elapsed() > MAX_TIME;
        if is_cut {
            break;
        }
        let path = entry.path();
        if is_meant(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    ChangedFiles { paths, is_cut }
}

/// Returns whether a file, or a file in a folder, is newer than `since`. In git's own folder only files that git runs
/// count.
fn has_changed(path: &Path, since: SystemTime) -> bool {
    if !path.is_dir() {
        return is_newer(path, since)
            || is_newer(&fs::canonicalize(path).unwrap_or_default(), since);
    }
    if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git")) {
        return EXECUTED.iter().any(|name| has_changed(&path.join(name), since));
    }
    let is_sample = |name: &OsStr| Path::new(name).extension().is_some_and(|end| end == "sample");
    let files = walk_below(path, &|_| true).take(limits::SCANNED_ENTRIES / 100);
    let mut files = files.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
    files.any(|entry| !is_sample(&entry.file_name()) && is_newer(&entry.path(), since))
}
