//! Opens repositories, and reads their commits and trees by id. Errors are sentences that name the object.
//!
//! Hashes of objects are not verified (git does not when it reads a pack either), and libgit2 caches no objects: a walk reads
//! each commit once. Both are settings of the whole process, in which nothing else uses libgit2.

use conversation::limits::{self, COMMIT};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Once;

use git2::{Commit, ErrorCode, Odb, Oid, Repository, RepositoryOpenFlags, Tree};

use super::safety_check::{Access, check_repository};
use conversation::format::harmless::quote_name;
use sys::fs;

/// An entry of a tree that is a file, a link or a submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) id: Oid,
    pub(super) mode: i32,
}

/// The way to a path in one commit: the trees on it, and the entry at its end.
#[derive(Debug, Clone, Default)]
pub(super) struct PathTrace {
    trees: Vec<Oid>,
    pub(super) entry: Option<FileEntry>,
}

pub(super) struct Objects<'repository> {
    pub(super) repository: &'repository Repository,
    pub(super) odb: Odb<'repository>,
}

pub(super) fn open_repository(toplevel: &Path) -> Result<Repository, String> {
    static OPTIONS: Once = Once::new();
    OPTIONS.call_once(|| {
        git2::opts::strict_hash_verification(false);
        git2::opts::enable_caching(false);
    });
    check_repository(toplevel, Access::Objects)?;
    Repository::open_ext(toplevel, RepositoryOpenFlags::NO_SEARCH, &[] as &[&OsStr])
        .map_err(|error| describe_open_error(toplevel, &error))
}

pub(super) fn describe_open_error(toplevel: &Path, error: &git2::Error) -> String {
    let advice = match error.code() {
        ErrorCode::Owner => {
            "; it belongs to another user; to trust it, run `git config --global --add safe.directory` with its path"
        }
        _ => "",
    };
    let place = quote_name(toplevel);
    format!("cannot read the git repository at {place}: {}{advice}", error.message())
}

/// The commits at which a shallow clone ends, and the hash of the list that names them (empty in a full clone).
pub(super) fn read_shallow(repository: &Repository) -> Result<(HashSet<Oid>, String), String> {
    let list = fs::read_text(
        &repository.commondir().join("shallow"),
        conversation::limits::SHALLOW_COMMITS,
    )
    .map_err(|error| format!("{error:#}"))?
    .unwrap_or_default();
    let hash = if list.is_empty() { String::new() } else { fs::sha256(list.as_bytes()) };
    Ok((list.lines().filter_map(|line| Oid::from_str(line).ok()).collect(), hash))
}

impl<'repository> Objects<'repository> {
    pub(super) fn new(repository: &'repository Repository) -> Result<Self, String> {
        let odb = repository.odb().map_err(|error| {
            describe_open_error(repository.workdir().unwrap_or(repository.path()), &error)
        })?;
        Ok(Self { repository, odb })
    }

    /// Returns the id of the commit at `HEAD`. Does not read the commit, which may be of any size.
    pub(super) fn head_id(&self) -> Result<Oid, git2::Error> {
        let missing = || git2::Error::from_str("HEAD names no commit");
        self.repository.head()?.resolve()?.target().ok_or_else(missing)
    }

    pub(super) fn read_commit(&self, id: Oid) -> Result<Commit<'repository>, String> {
        let size = self.read_size(id)?;
        if size > limits::COMMIT {
            return Err(format!("commit {id} has {size} bytes, over the limit of {COMMIT}"));
        }
        self.repository.find_commit(id).map_err(|error| unreadable_object(id, &error))
    }

    pub(super) fn read_tree(&self, id: Oid) -> Result<Tree<'repository>, String> {
        self.repository.find_tree(id).map_err(|error| unreadable_object(id, &error))
    }

    /// Returns the size of an object in bytes, without unpacking it.
    pub(super) fn read_size(&self, id: Oid) -> Result<usize, String> {
        self.odb
            .read_header(id)
            .map(|(size, _)| size)
            .map_err(|error| unreadable_object(id, &error))
    }

    /// Follows a path from a tree. Where a folder is the same as in `hint`, everything below it is, too.
    pub(super) fn trace_path(
        &self,
        tree: Oid,
        path: &[u8],
        hint: Option<&PathTrace>,
    ) -> Result<PathTrace, String> {
        let mut trace = PathTrace { trees: vec![tree], entry: None };
        let mut tree = tree;
        let mut names = path.split(|byte| *byte == b'/').enumerate().peekable();
        while let Some((level, name)) = names.next() {
            if let Some(hint) = hint.filter(|hint| hint.trees.get(level) == Some(&tree)) {
                return Ok(hint.clone());
            }
            let folder = self.read_tree(tree)?;
            let Some(entry) = folder.get_name_bytes(name) else { break };
            let is_folder = entry.filemode() == FOLDER;
            match names.peek() {
                Some(_) if is_folder => {
                    tree = entry.id();
                    trace.trees.push(tree);
                }
                None if !is_folder => {
                    trace.entry = Some(FileEntry { id: entry.id(), mode: entry.filemode_raw() });
                }
                _ => break,
            }
        }
        Ok(trace)
    }
}

pub(super) const FOLDER: i32 = 0o040_000;

fn unreadable_object(id: Oid, error: &git2::Error) -> String {
    match error.code() {
        ErrorCode::NotFound => format!("object {id} is missing"),
        _ => format!("object {id} is damaged: {}", error.message()),
    }
}
