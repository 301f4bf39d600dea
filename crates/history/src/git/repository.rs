//! Opens repositories, and reads their commits and trees by id. Errors are sentences that name the object.
//!
//! Hashes of objects are not verified (git does not do it when it reads a pack either), and libgit2 caches no objects:
//! a walk reads each commit once. Both are settings of the whole process, in which nothing else uses libgit2.

use conversation::limits::{self, COMMIT};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use git2::{Commit, ErrorClass, ErrorCode, Odb, Oid, Repository, RepositoryOpenFlags, Tree};

use super::own_folders::check_files;
use super::worker::run_in_worker;
use conversation::format::harmless::quote_name;

/// How long to wait for what is asked of a repository at the start of a run.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// An entry of a tree that is a file, a link or a submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) id: Oid,
    pub(super) mode: i32,
}

pub(super) struct Objects<'repository> {
    pub(super) repository: &'repository Repository,
    pub(super) odb: Odb<'repository>,
}

/// Opens the repository with this top. It may wait without end: a FIFO in place of one of its files, a disk that does not
/// answer. So it is called in a worker.
pub(super) fn open_repository(toplevel: &Path) -> Result<Repository, String> {
    open(toplevel).map_err(|error| describe_open_error(toplevel, &error))
}

/// Asks the repository with this top, in a worker.
pub(super) fn ask_repository<T: Send + 'static>(
    toplevel: &Path,
    ask: impl FnOnce(Repository) -> Result<T, git2::Error> + Send + 'static,
) -> Result<T, git2::Error> {
    let top = toplevel.to_owned();
    run_in_worker(ANSWER_TIME, &mut || true, move || ask(open(&top)?)).unwrap_or_else(|| {
        let seconds = ANSWER_TIME.as_secs();
        Err(git2::Error::from_str(&format!("it does not answer within {seconds} s")))
    })
}

fn open(toplevel: &Path) -> Result<Repository, git2::Error> {
    static OPTIONS: Once = Once::new();
    OPTIONS.call_once(|| {
        git2::opts::strict_hash_verification(false);
        git2::opts::enable_caching(false);
    });
    check_files(toplevel).map_err(|why| git2::Error::from_str(&why))?;
    Repository::open_ext(toplevel, RepositoryOpenFlags::NO_SEARCH, &[] as &[&OsStr])
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

/// Whether a repository is a shallow clone. libgit2 checks the wrong place in a working tree that was added.
pub(super) fn is_shallow(repository: &Repository) -> bool {
    let list = repository.commondir().join("shallow");
    std::fs::metadata(list).is_ok_and(|metadata| metadata.len() > 0)
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

    /// Finds the entry at a path in a tree; `None` if there is none, or if it is a folder.
    pub(super) fn find_file(&self, tree: Oid, path: &[u8]) -> Result<Option<FileEntry>, String> {
        let folder = self.read_tree(tree)?;
        match folder.get_path(Path::new(OsStr::from_bytes(path))) {
            Ok(entry) if entry.filemode() == FOLDER => Ok(None),
            Ok(entry) => Ok(Some(FileEntry { id: entry.id(), mode: entry.filemode_raw() })),
            // If the tree object of a folder on the way is missing, the error has another class.
            Err(error) if error.class() == ErrorClass::Tree => Ok(None),
            Err(error) => Err(unreadable_object(tree, &error)),
        }
    }
}

const FOLDER: i32 = 0o040_000;

fn unreadable_object(id: Oid, error: &git2::Error) -> String {
    match error.code() {
        ErrorCode::NotFound => format!("object {id} is missing"),
        _ => format!("object {id} is damaged: {}", error.message()),
    }
}
