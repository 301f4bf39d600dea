//! Compares two trees, and finds the files that were renamed between them.
//!
//! libgit2 compares contents for renames, each deleted file with each added one. A commit may move any number of files of any
//! size, so that is done within bounds; beyond them only the file in question is compared, with candidates of its own name
//! first.

use conversation::limits;
use git2::{Delta, Diff, DiffFindOptions, DiffOptions, Oid};

use super::repository::Objects;

/// The largest content that is compared with others, in bytes.
const MAX_COMPARED: usize = 4 << 20;

/// At most this many pairs of a deleted and an added file are compared.
const MAX_PAIRS: usize = 10_000;

/// At most this many files are compared with one file.
const MAX_CANDIDATES: usize = 200;

/// A file that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileDelta {
    pub(super) status: Delta,
    /// The path in the new tree; of a deleted file, in the old one.
    pub(super) path: Vec<u8>,
    /// The path in the old tree, where the file was renamed.
    pub(super) old_path: Option<Vec<u8>>,
    /// The object at `path`.
    id: Oid,
}

/// The files that differ between two trees.
#[derive(Debug, Default)]
pub(super) struct TreeDiff {
    old: Option<Oid>,
    new: Option<Oid>,
    pub(super) deltas: Vec<FileDelta>,
    /// Whether every deleted file was compared with every added one.
    is_complete: bool,
}

/// The side of a comparison that has the path in question, but not its counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The file was deleted; its new path is wanted.
    Old,
    /// The file was added; its old path is wanted.
    New,
}

impl TreeDiff {
    /// Compares two trees; a missing tree is an empty one.
    pub(super) fn compare(
        objects: &Objects<'_>,
        old: Option<Oid>,
        new: Option<Oid>,
    ) -> Result<Self, String> {
        let mut diff = diff_trees(objects, old, new, &[])?;
        let mut deltas = list_deltas(&diff);
        let is_complete = is_within_bounds(objects, &deltas);
        if is_complete && has_status(&deltas, Delta::Added) && has_status(&deltas, Delta::Deleted) {
            diff.find_similar(Some(DiffFindOptions::new().renames(true)))
                .map_err(describe_error)?;
            deltas = list_deltas(&diff);
        }
        Ok(Self { old, new, deltas, is_complete })
    }

    /// Finds the path of a file on the other side: the same content, else the most similar one; it may have been overwritten.
    pub(super) fn find_counterpart(
        &self,
        objects: &Objects<'_>,
        path: &[u8],
        side: Side,
    ) -> Option<Vec<u8>> {
        if let Some(found) = find_renamed(&self.deltas, path, side) {
            return Some(found);
        }
        let (ours, theirs) = match side {
            Side::Old => (Delta::Deleted, Delta::Added),
            Side::New => (Delta::Added, Delta::Deleted),
        };
        let own = self.deltas.iter().find(|delta| delta.status == ours && delta.path == path)?;
        let with_status = |status| self.deltas.iter().filter(move |delta| delta.status == status);
        let has_same_name = |delta: &&FileDelta| file_name(&delta.path) == file_name(path);
        let mut candidates = Vec::new();
        if !self.is_complete {
            candidates = with_status(theirs).collect();
            candidates.sort_by_key(|delta| (delta.id != own.id, !has_same_name(delta)));
            if candidates.first().is_some_and(|first| first.id == own.id) {
                return candidates.first().map(|first| first.path.clone());
            }
            if side == Side::Old {
                // Hundreds of files may be asked for: most keep their name.
                candidates.retain(has_same_name);
            }
        }
        if side == Side::New {
            candidates.extend(with_status(Delta::Modified).take(MAX_CANDIDATES / 2));
        }
        let is_small =
            |id: Oid| objects.read_size(id).is_ok_and(|size| size > 0 && size <= MAX_COMPARED);
        candidates.retain(|delta| is_small(delta.id));
        candidates.truncate(MAX_CANDIDATES);
        if candidates.is_empty() || !is_small(own.id) {
            return None;
        }
        let mut paths: Vec<&[u8]> = candidates.iter().map(|delta| delta.path.as_slice()).collect();
        paths.push(path);
        let mut diff = diff_trees(objects, self.old, self.new, &paths).ok()?;
        let mut options = DiffFindOptions::new();
        options.renames(true).renames_from_rewrites(side == Side::New);
        diff.find_similar(Some(&mut options)).ok()?;
        find_renamed(&list_deltas(&diff), path, side)
    }
}

/// Finds the path at `HEAD` of a file that was renamed in git's index and is not committed yet (`git mv`). `None` where the
/// index says nothing of the kind, or cannot be read.
pub(super) fn find_staged_source(objects: &Objects<'_>, head: Oid, path: &[u8]) -> Option<Vec<u8>> {
    let repository = objects.repository;
    let file = std::fs::metadata(repository.path().join("index")).ok()?;
    if !file.is_file() || file.len() > limits::REPOSITORY_INDEX {
        return None;
    }
    let index = repository.index().ok()?;
    let tree = objects.read_tree(head).ok()?;
    let mut diff = repository.diff_tree_to_index(Some(&tree), Some(&index), None).ok()?;
    let deltas = list_deltas(&diff);
    let own = deltas.iter().find(|delta| delta.status == Delta::Added && delta.path == path)?;
    if !is_within_bounds(objects, &deltas) {
        // A folder of thousands of files was moved: only what is the same is found.
        let mut deleted = deltas.iter().filter(|delta| delta.status == Delta::Deleted);
        return deleted.find(|delta| delta.id == own.id).map(|delta| delta.path.clone());
    }
    diff.find_similar(Some(DiffFindOptions::new().renames(true))).ok()?;
    find_renamed(&list_deltas(&diff), path, Side::New)
}

/// Compares two trees, at these paths only if there are any.
pub(super) fn diff_trees<'repository>(
    objects: &Objects<'repository>,
    old: Option<Oid>,
    new: Option<Oid>,
    paths: &[&[u8]],
) -> Result<Diff<'repository>, String> {
    let read = |id: Option<Oid>| id.map(|id| objects.read_tree(id)).transpose();
    let (old, new) = (read(old)?, read(new)?);
    let mut options = DiffOptions::new();
    options.include_typechange(true).disable_pathspec_match(true).max_size(8 << 20);
    // A model that reads what a commit did sees the function in the hunk's head.
    options.context_lines(1);
    for path in paths {
        options.pathspec(*path);
    }
    objects
        .repository
        .diff_tree_to_tree(old.as_ref(), new.as_ref(), Some(&mut options))
        .map_err(describe_error)
}

fn describe_error(error: git2::Error) -> String {
    format!("cannot compare two commits: {}", error.message())
}

fn list_deltas(diff: &Diff<'_>) -> Vec<FileDelta> {
    let deltas = diff.deltas().map(|delta| {
        let (old, new) = (delta.old_file(), delta.new_file());
        let path = |file: &git2::DiffFile<'_>| file.path_bytes().unwrap_or_default().to_vec();
        FileDelta {
            status: delta.status(),
            path: path(&new),
            old_path: (delta.status() == Delta::Renamed).then(|| path(&old)),
            id: if delta.status() == Delta::Deleted { old.id() } else { new.id() },
        }
    });
    deltas.collect()
}

fn has_status(deltas: &[FileDelta], status: Delta) -> bool {
    deltas.iter().any(|delta| delta.status == status)
}

fn is_within_bounds(objects: &Objects<'_>, deltas: &[FileDelta]) -> bool {
    let count = |status| deltas.iter().filter(|delta| delta.status == status).count();
    let (added, deleted) = (count(Delta::Added), count(Delta::Deleted));
    if added == 0 || deleted == 0 {
        return true;
    }
    if added * deleted > MAX_PAIRS {
        return false;
    }
    let mut left = limits::RENAME_READ;
    deltas.iter().filter(|delta| matches!(delta.status, Delta::Added | Delta::Deleted)).all(
        |delta| {
            // A submodule's commit is not here: it is not read either.
            let size = objects.read_size(delta.id).unwrap_or(0);
            left = left.saturating_sub(size);
            size <= MAX_COMPARED && left > 0
        },
    )
}

fn find_renamed(deltas: &[FileDelta], path: &[u8], side: Side) -> Option<Vec<u8>> {
    let renamed = deltas.iter().filter(|delta| delta.status == Delta::Renamed);
    let mut pairs = renamed.filter_map(|delta| Some((delta.old_path.as_ref()?, &delta.path)));
    match side {
        Side::Old => pairs.find(|(old, _)| *old == path).map(|(_, new)| new.clone()),
        Side::New => pairs.find(|(_, new)| *new == path).map(|(old, _)| old.clone()),
    }
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
