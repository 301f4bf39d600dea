//! Counts the other files in the latest commits of a file.
//!
//! libgit2 reads every folder of both trees to compare them, so only the file's own commits are compared, and of those
//! the latest. A commit of many files does not show what belongs together.

use std::collections::BTreeMap;

use git2::Oid;

use super::renames::diff_trees;
use super::repository::Objects;
use crate::{CoChangedFile, CommitKind, FileCommit};

/// Maximum number of commits that are counted, the latest: about those that the model gets.
pub const MAX_COUNTED: usize = 50;

/// Commits that change more files than this do not count.
pub const LARGEST_COMMIT: usize = 100;

/// Maximum number of files in the list.
pub const MAX_LISTED: usize = 200;

/// Counts the files in the latest commits, given newest first, until `must_stop` returns true. Returns the number of
/// commits that count, and the files that exist at `head`, most common commits first. Errors are added to `notes`.
pub(super) fn count_co_changes(
    objects: &Objects<'_>,
    head: Oid,
    commits: &[FileCommit],
    must_stop: &dyn Fn() -> bool,
    notes: &mut Vec<String>,
) -> (u64, Vec<CoChangedFile>) {
    let (mut counted, mut counts) = (0, BTreeMap::new());
    let plain = commits.iter().filter(|commit| commit.kind == CommitKind::Plain);
    for commit in plain.take(MAX_COUNTED).take_while(|_| !must_stop()) {
        match list_others(objects, commit) {
            Ok(Some(paths)) => {
                counted += 1;
                for path in paths {
                    *counts.entry(path).or_default() += 1;
                }
            }
            Ok(None) => {}
            Err(note) => notes.push(note),
        }
    }
    let files = counts.into_iter().map(|(path, together)| CoChangedFile { path, together });
    let mut files: Vec<CoChangedFile> = files.collect();
    files.sort_by(|a, b| b.together.cmp(&a.together).then_with(|| a.path.cmp(&b.path)));
    let tree = objects.read_commit(head).map(|commit| commit.tree_id());
    let exists = |file: &CoChangedFile| {
        let entry = tree.clone().and_then(|tree| objects.find_file(tree, &file.path));
        entry.is_ok_and(|entry| entry.is_some())
    };
    (counted, files.into_iter().filter(exists).take(MAX_LISTED).collect())
}

/// The other files of a commit; `None` if it changes too many.
fn list_others(objects: &Objects<'_>, file: &FileCommit) -> Result<Option<Vec<Vec<u8>>>, String> {
    let id = Oid::from_str(&file.id).map_err(|error| error.message().to_owned())?;
    let commit = objects.read_commit(id)?;
    let parent = commit.parent_id(0).ok().map(|id| objects.read_commit(id)).transpose()?;
    let old = parent.map(|parent| parent.tree_id());
    let diff = diff_trees(objects, old, commit.tree_id(), &[])?;
    if diff.deltas().len() > LARGEST_COMMIT {
        return Ok(None);
    }
    let paths = diff.deltas().filter_map(|delta| delta.new_file().path_bytes().map(<[u8]>::to_vec));
    Ok(Some(paths.filter(|path| *path != file.path).collect()))
}
