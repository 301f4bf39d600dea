//! What does not exist and could be made: for which names there are stand-ins while a command runs. It makes none.

use std::path::{Path, PathBuf};

use super::ground::{Ground, Kind, Writable};
use super::named::Named;
use super::survey::{Survey, first_missing};
use crate::sandbox::protected::{Ghost, names};

/// What was not there at the start of the run and is now is kept as if it always had been: it may be the user's, or another
/// run's stand-in.
pub(super) fn keep_what_has_come(ground: &Ground, surveys: &mut [(&Writable, Survey)]) {
    for path in ground.awaited.iter().filter_map(|named| std::fs::canonicalize(&named.path).ok()) {
        for (writable, survey) in surveys.iter_mut() {
            if path != writable.path && path.starts_with(&writable.path) {
                survey.keep(path.clone());
            }
        }
    }
}

/// Where something could be made that is read or run by itself, and is not there yet: by the names at which there is
/// nothing.
pub(super) fn awaited(ground: &Ground, surveys: &[(&Writable, Survey)]) -> Vec<Named> {
    let links = surveys.iter().flat_map(|(_, survey)| &survey.links);
    let links = links.map(|link| Named { path: link.path.clone(), ghost: Ghost::Folder });
    let mut awaited: Vec<Named> = Vec::new();
    for named in ground.awaited.iter().cloned().chain(links) {
        let Some(path) = first_missing(&named.path) else { continue };
        // The name itself, or a folder on the way to it.
        let is_last = path.file_name() == named.path.file_name();
        let ghost = if is_last { named.ghost } else { Ghost::Folder };
        let is_kept =
            surveys.iter().flat_map(|(_, survey)| &survey.kept).any(|kept| path.starts_with(kept));
        if ground.is_writable(&path) && !is_kept && !awaited.iter().any(|other| other.path == path)
        {
            awaited.push(Named { path, ghost });
        }
    }
    awaited
}

/// The names, from a writable folder, for which stand-ins are made in it.
pub(super) fn missing(writable: &Writable, awaited: &[Named]) -> (PathBuf, Vec<(PathBuf, Ghost)>) {
    let is_missing = |name: &str| std::fs::symlink_metadata(writable.path.join(name)).is_err();
    let own: Vec<(&str, Ghost)> = match writable.kind {
        Kind::Temp => Vec::new(),
        Kind::Git => GIT_GHOSTS.iter().copied().filter(|(name, _)| is_missing(name)).collect(),
        Kind::Tree | Kind::Named => {
            names().filter(|(name, kind)| *kind != Ghost::Nothing && is_missing(name)).collect()
        }
    };
    let mut ghosts: Vec<(PathBuf, Ghost)> =
        own.into_iter().map(|(name, ghost)| (name.into(), ghost)).collect();
    for named in awaited {
        if let Ok(name) = named.path.strip_prefix(&writable.path)
            && !ghosts.iter().any(|(other, _)| other == name)
        {
            ghosts.push((name.to_owned(), named.ghost));
        }
    }
    (writable.path.clone(), ghosts)
}

/// What of a repository's own folder stays read-only when the user named it: what runs, and what names what runs.
const GIT_KEPT: [&str; 8] = [
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "modules",
    "worktrees",
    "commondir",
    "gitdir",
];

/// Those of them that are made when they are not there.
const GIT_GHOSTS: [(&str, Ghost); 5] = [
    ("hooks", Ghost::Folder),
    ("config", Ghost::File),
    ("config.worktree", Ghost::File),
    ("modules", Ghost::Folder),
    ("worktrees", Ghost::Folder),
];

pub(super) fn kept_of_git(folder: &Path) -> Vec<PathBuf> {
    let there = GIT_KEPT.iter().map(|name| folder.join(name));
    there
        .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_symlink()))
        .collect()
}
