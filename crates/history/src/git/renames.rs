//! Compares two trees, and finds the path that a file had before it was renamed.
//!
//! libgit2 compares contents for renames. A commit may move any number of files of any size, so only the file in
//! question is compared, with a bounded number of candidates.

use git2::{Delta, Diff, DiffFindOptions, DiffOptions, Oid};

use super::repository::Objects;

/// Maximum size of a content that is compared with others, in bytes.
const MAX_COMPARED: usize = 4 << 20;

/// Maximum number of files that are compared with one file.
const MAX_CANDIDATES: usize = 200;

/// Compares two trees, only at the given paths if there are any; a missing tree counts as an empty one.
pub(super) fn diff_trees<'repository>(
    objects: &Objects<'repository>,
    old: Option<Oid>,
    new: Oid,
    paths: &[&[u8]],
) -> Result<Diff<'repository>, String> {
    let old = old.map(|id| objects.read_tree(id)).transpose()?;
    let new = objects.read_tree(new)?;
    let mut options = DiffOptions::new();
    options.include_typechange(true).disable_pathspec_match(true).max_size(8 << 20);
    // One line is enough for a model that reads the change: the hunk's header names the function.
    options.context_lines(1);
    for path in paths {
        options.pathspec(*path);
    }
    objects
        .repository
        .diff_tree_to_tree(old.as_ref(), Some(&new), Some(&mut options))
        .map_err(|error| format!("cannot compare two commits: {}", error.message()))
}

/// Finds the path in the old tree of a file that the new tree added: the same content, else the most similar one. The
/// file at the old path may have been overwritten.
pub(super) fn find_old_path(
    objects: &Objects<'_>,
    (old, new): (Oid, Oid),
    path: &[u8],
) -> Option<Vec<u8>> {
    let compare = |paths: &[&[u8]]| diff_trees(objects, Some(old), new, paths).ok();
    let whole = compare(&[])?;
    let is_own = |delta: &git2::DiffDelta<'_>| delta.new_file().path_bytes() == Some(path);
    let own = whole.deltas().find(|delta| delta.status() == Delta::Added && is_own(delta))?;
    let own = own.new_file().id();
    let is_source = |status| matches!(status, Delta::Deleted | Delta::Modified);
    let mut sources: Vec<(Delta, Oid, &[u8])> = whole
        .deltas()
        .filter(|delta| is_source(delta.status()))
        .filter_map(|delta| {
            Some((delta.status(), delta.old_file().id(), delta.old_file().path_bytes()?))
        })
        .collect();
    sources.sort_by_key(|(status, id, source)| {
        (*status != Delta::Deleted, *id != own, file_name(source) != file_name(path))
    });
    if let Some((Delta::Deleted, id, source)) = sources.first()
        && *id == own
    {
        return Some(source.to_vec());
    }
    let is_small =
        |id: Oid| objects.read_size(id).is_ok_and(|size| size > 0 && size <= MAX_COMPARED);
    sources.truncate(MAX_CANDIDATES);
    sources.retain(|(_, id, _)| is_small(*id));
    if sources.is_empty() || !is_small(own) {
        return None;
    }
    let mut paths: Vec<&[u8]> = sources.iter().map(|(_, _, source)| *source).collect();
    paths.push(path);
    let mut diff = compare(&paths)?;
    let mut options = DiffFindOptions::new();
    diff.find_similar(Some(options.renames(true).renames_from_rewrites(true))).ok()?;
    let mut renamed = diff.deltas().filter(|delta| delta.status() == Delta::Renamed);
    renamed.find(is_own)?.old_file().path_bytes().map(<[u8]>::to_vec)
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
