//! Commits, trees and blobs of one repository, read by id. Errors are sentences that name the object.
//!
//! Paths are compared by their bytes, one folder at a time; git's patterns have no say here. Hashes of objects are not
//! computed again (as git does not when it reads a pack), which libgit2 can only be told for the whole process: it reads
//! nothing else in it than remotes and histories.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Once;

use git2::{ErrorCode, ObjectType, Odb, OdbObject, Oid, Repository, RepositoryOpenFlags};

use super::super::fs;
use super::super::names::shown;
use super::gate::{SHALLOW, Wanted, gate};
use crate::history::object;

/// Bytes of an id: libgit2 reads repositories of SHA-1 only, as it is built here.
const ID: usize = 20;

/// What a folder has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its mode, as git writes it.
    pub(super) mode: u32,
    /// Its object.
    pub(super) id: Oid,
}

impl Entry {
    pub(super) fn is_folder(self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    pub(super) fn is_submodule(self) -> bool {
        self.mode & 0o170_000 == 0o160_000
    }

    pub(super) fn is_regular(self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// What a walk needs of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) tree: Oid,
    pub(super) parents: Vec<Oid>,
    /// When it was committed: seconds since 1970.
    pub(super) time: i64,
    /// Whether its parents are missing since the clone is shallow.
    pub(super) is_boundary: bool,
}

/// A repository's objects.
pub(super) struct Objects<'repository> {
    odb: Odb<'repository>,
    /// The commits whose parents a shallow clone does not have.
    boundary: HashSet<Oid>,
    /// The text that lists them: other text, other history.
    pub(super) shallow: String,
}

/// The largest commit that is read, in bytes.
const COMMIT: usize = 16 << 20;

/// The largest folder of a commit that is read, in bytes: a million files.
const TREE: usize = 64 << 20;

/// Opens the repository whose working tree's top this is.
pub(super) fn open(toplevel: &Path) -> Result<Repository, String> {
    static UNVERIFIED: Once = Once::new();
    UNVERIFIED.call_once(|| git2::opts::strict_hash_verification(false));
    gate(toplevel, Wanted::Objects)?;
    Repository::open_ext(toplevel, RepositoryOpenFlags::NO_SEARCH, &[] as &[&OsStr])
        .map_err(|error| unreadable(toplevel, &error))
}

/// Why a repository cannot be read, and what to do where that is known.
pub(super) fn unreadable(toplevel: &Path, error: &git2::Error) -> String {
    let advice = match error.code() {
        ErrorCode::Owner => {
            "; it belongs to another user: `git config --global --add safe.directory` with its path trusts it"
        }
        _ => "",
    };
    let place = shown(toplevel);
    format!("the git repository at {place} cannot be read: {}{advice}", error.message())
}

impl<'repository> Objects<'repository> {
    /// The objects of an open repository.
    pub(super) fn new(repository: &'repository Repository) -> Result<Self, String> {
        let odb = repository.odb().map_err(|error| {
            unreadable(repository.workdir().unwrap_or(repository.path()), &error)
        })?;
        let shallow = fs::read_text(&repository.commondir().join("shallow"), SHALLOW)
            .map_err(|error| format!("{error:#}"))?
            .unwrap_or_default();
        let boundary = shallow.lines().filter_map(|line| Oid::from_str(line).ok()).collect();
        Ok(Self { odb, boundary, shallow })
    }

    /// An object's bytes. Of commits and trees only those that are not too large; of others, who asks has asked for the size.
    pub(super) fn read(&self, id: Oid, kind: ObjectType) -> Result<OdbObject<'_>, String> {
        let limit = match kind {
            ObjectType::Commit => COMMIT,
            ObjectType::Tree => TREE,
            _ => usize::MAX,
        };
        // A few packed bytes can be many.
        if limit < usize::MAX {
            let size = self.size(id)?;
            if size > limit {
                return Err(format!("object {id} has {size} bytes, over the limit of {limit}"));
            }
        }
        match self.odb.read(id) {
            Ok(object) if object.kind() == kind => Ok(object),
            Ok(object) => {
                Err(format!("object {id} is damaged: it is a {}, not a {kind}", object.kind()))
            }
            Err(error) if error.code() == ErrorCode::NotFound => {
                Err(format!("object {id} is missing"))
            }
            Err(error) => Err(format!("object {id} is damaged: {}", error.message())),
        }
    }

    /// What a walk needs of a commit.
    pub(super) fn commit(&self, id: Oid) -> Result<Commit, String> {
        let object = self.read(id, ObjectType::Commit)?;
        let damaged = || format!("object {id} is damaged: it is no commit");
        let raw = object::commit(object.data()).ok_or_else(damaged)?;
        let oid = |hex: &[u8]| {
            std::str::from_utf8(hex)
                .ok()
                .and_then(|hex| Oid::from_str(hex).ok())
                .ok_or_else(damaged)
        };
        let is_boundary = self.boundary.contains(&id);
        let parents = if is_boundary { &[] } else { raw.parents.as_slice() };
        Ok(Commit {
            tree: oid(raw.tree)?,
            parents: parents.iter().map(|hex| oid(hex)).collect::<Result<_, _>>()?,
            time: object::person(raw.committer).time,
            is_boundary,
        })
    }

    /// What stands at a path below a tree, by bytes; a folder counts as nothing.
    pub(super) fn entry(&self, tree: Oid, path: &[u8]) -> Result<Option<Entry>, String> {
        let mut tree = tree;
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let Some(entry) = self.child(tree, name)? else { return Ok(None) };
            match names.peek() {
                None => return Ok((!entry.is_folder()).then_some(entry)),
                Some(_) if entry.is_folder() => tree = entry.id,
                Some(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What one tree has under a name.
    pub(super) fn child(&self, tree: Oid, name: &[u8]) -> Result<Option<Entry>, String> {
        let object = self.read(tree, ObjectType::Tree)?;
        Ok(entries(object.data()).find(|(found, _)| *found == name).map(|(_, entry)| entry))
    }

    /// All that one tree has.
    pub(super) fn children(&self, tree: Oid) -> Result<HashMap<Vec<u8>, Entry>, String> {
        let object = self.read(tree, ObjectType::Tree)?;
        Ok(entries(object.data()).map(|(name, entry)| (name.to_vec(), entry)).collect())
    }

    /// The size of an object in bytes.
    pub(super) fn size(&self, id: Oid) -> Result<usize, String> {
        let header = self.odb.read_header(id);
        header.map(|(size, _)| size).map_err(|error| match error.code() {
            ErrorCode::NotFound => format!("object {id} is missing"),
            _ => format!("object {id} is damaged: {}", error.message()),
        })
    }
}

/// The entries of a tree's bytes.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = (&[u8], Entry)> {
    object::tree(bytes, ID)
        .filter_map(|(mode, name, id)| Some((name, Entry { mode, id: Oid::from_bytes(id).ok()? })))
}
