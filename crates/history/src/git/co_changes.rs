//! Counts the other files in the latest commits of a file.
//!
//! libgit2 reads every folder of both trees to compare them, so only the file's own commits are compared, and of those
//! the latest. A commit of many files does not show what belongs together.

use std::collections::BTreeMap;

use conversation::limits;
use git2::{Delta, Diff, DiffFindOptions, Oid};

use super::renames::diff_trees;
use super::repository::Objects;
use crate::{CoChangedFile, CommitKind, FileChange, FileCommit};

/// Maximum number of commits that are counted, the latest: about those that the model gets.
pub const MAX_COUNTED: usize = 50;

/// Commits that change more files than this do not count.
pub const LARGEST_COMMIT: usize = 100;

/// Maximum number of files in the list.
pub const MAX_LISTED: usize = 200;

/// The evidence about other files in the commits of a file.
#[derive(Debug, Default)]
struct CoChanges {
    /// Number of commits that were counted.
    counted: u64,
    /// Number of these commits by other file, under its path at `HEAD` as far as these commits show it.
    files: BTreeMap<Vec<u8>, u64>,
    /// The later path of files that these commits renamed.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Counts the files in the latest commits, given newest first, until `must_stop` returns true. Returns the number of
/// commits that count, and the files that exist at `head`, most common commits first. Errors are added to `notes`.
pub(super) fn count_co_changes(
    objects: &Objects<'_>,
    head: Oid,
    commits: &[FileCommit],
    must_stop: &dyn Fn() -> bool,
    notes: &mut Vec<String>,
) -> (u64, Vec<CoChangedFile>) {
    let mut counts = CoChanges::default();
    let plain = commits.iter().filter(|commit| commit.kind == CommitKind::Plain);
    for commit in plain.take(MAX_COUNTED).take_while(|_| !must_stop()) {
        if let Err(note) = counts.add_commit(objects, commit) {
            notes.push(note);
        }
    }
    let mut files: Vec<CoChangedFile> = std::mem::take(&mut counts.files)
        .into_iter()
        .map(|(path, together)| CoChangedFile { path, together })
        .collect();
    files.sort_by(|a, b| b.together.cmp(&a.together).then_with(|| a.path.cmp(&b.path)));
    let tree = objects.read_commit(head).map(|commit| commit.tree_id());
    let exists = |file: &CoChangedFile| {
        let entry = tree.clone().and_then(|tree| objects.find_file(tree, &file.path));
        entry.is_ok_and(|entry| entry.is_some())
    };
    (counts.counted, files.into_iter().filter(exists).take(MAX_LISTED).collect())
}

impl CoChanges {
    fn add_commit(&mut self, objects: &Objects<'_>, file: &FileCommit) -> Result<(), String> {
        let id = Oid::from_str(&file.id).map_err(|error| error.message().to_owned())?;
        let commit = objects.read_commit(id)?;
        let parent = commit.parent_id(0).ok().map(|id| objects.read_commit(id)).transpose()?;
        let old = parent.map(|parent| parent.tree_id());
        let mut diff = diff_trees(objects, old, commit.tree_id(), &[])?;
        // A renamed file counts twice until contents are compared.
        if diff.deltas().len() > 2 * LARGEST_COMMIT {
            return Ok(());
        }
        if is_within_bounds(objects, &diff) {
            // If a content is missing, a renamed file counts as an added and a deleted one.
            let _ = diff.find_similar(Some(DiffFindOptions::new().renames(true)));
        }
        if diff.deltas().len() > LARGEST_COMMIT {
            return Ok(());
        }
        self.counted += 1;
        let old_path = match &file.change {
            FileChange::Renamed { from } => from,
            _ => &file.path,
        };
        for delta in diff.deltas() {
            let path = delta.new_file().path_bytes().unwrap_or_default();
            if path == file.path || path == old_path.as_slice() {
                continue;
            }
            let later = self.renamed.get(path).cloned().unwrap_or_else(|| path.to_vec());
            if delta.status() == Delta::Renamed
                && let Some(from) = delta.old_file().path_bytes()
            {
                self.renamed.insert(from.to_vec(), later.clone());
            }
            *self.files.entry(later).or_default() += 1;
        }
        Ok(())
    }
}

/// Whether the contents of the added and deleted files are few enough to be compared.
fn is_within_bounds(objects: &Objects<'_>, diff: &Diff<'_>) -> bool {
    let mut left = limits::RENAME_READ;
    diff.deltas().all(|delta| {
        let id = match delta.status() {
            Delta::Added => delta.new_file().id(),
            Delta::Deleted => delta.old_file().id(),
            _ => return true,
        };
        // The commit of a submodule is not in this repository and is not read.
        left = left.saturating_sub(objects.read_size(id).unwrap_or(0));
        left > 0
    })
}
