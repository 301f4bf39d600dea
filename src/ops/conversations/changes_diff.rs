//! The diff of what a conversation has changed, by the log that undo goes by.

use std::path::{Path, PathBuf};

use crate::ops::screen::change_report::{FileVersion, VersionPair};
use conversation::limits;
use conversation::memory::changes::list_changes;
use conversation::problem::Problem;
use edits::diff::file_diff::DiffText;
use sys::change_log::read_log;
use sys::fs;
use sys::root::Root;

/// The changes of a conversation and its children that were not undone: one diff for each file.
pub(crate) fn diff_changes(root: &Root, name: &str) -> Result<Vec<(PathBuf, DiffText)>, Problem> {
    let mut changes = list_changes(&read_log(root)?);
    // The first name is that of the shell.
    changes.retain(|change| change.facts.of.iter().skip(1).any(|of| of == name));
    let mut diffs: Vec<(PathBuf, DiffText)> = Vec::new();
    for first in &changes {
        let path = Path::new(&first.path);
        if diffs.iter().any(|(known, _)| known == path) {
            continue;
        }
        let last = changes.iter().rfind(|change| change.path == first.path).unwrap_or(first);
        let before = FileVersion::read_stored(root, first.before.as_deref());
        let now = fs::read_bytes(path, limits::KEPT_CONTENT).ok().flatten();
        let now = Some(FileVersion::from_bytes(now)).filter(|now| now.sha256 == last.after);
        let after = now.unwrap_or_else(|| FileVersion::read_stored(root, last.after.as_deref()));
        let diff = VersionPair { path, before: &before, after: &after }.text_diff();
        diffs.extend(diff.map(|diff| (path.to_owned(), diff)));
    }
    Ok(diffs)
}
