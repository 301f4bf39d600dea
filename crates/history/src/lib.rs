//! The history of one file in a git repository: who changed it and when, and which files changed in the same commits.
//!
//! [`git`] reads the repository with libgit2, and [`file_index`] maps files to conversations; the other modules are
//! pure. Nothing changes a repository. Anybody who commits writes names, subjects and paths: they are untrusted, and
//! escaped in text.
//!
//! ```
//! // Without a repository there is no history, and nothing fails.
//! let folder = std::env::temp_dir();
//! assert_eq!(history::git::find_toplevel(&folder.join("no-such-folder")), None);
//! ```

#![expect(clippy::disallowed_methods, reason = "it reads repositories and their cache")]

pub mod commit;
pub mod file_index;
pub mod git;
pub mod people;
pub mod summaries;
pub mod text;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::commit::{CommitKind, FileChange, FileCommit};
use self::people::Person;

/// The history of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The top of the working tree.
    pub toplevel: PathBuf,
    /// The file's path relative to the top, as bytes.
    pub path: Vec<u8>,
    /// The commit id of `HEAD`.
    pub head: String,
    /// The commits that touched the file, newest first, through renames.
    pub commits: Vec<FileCommit>,
    /// The authors of these commits, most commits first; names and addresses are those of the mailmap.
    pub people: Vec<Person>,
    /// Files that changed in the same commits, most common commits first; all exist at `HEAD`.
    pub co_changed: Vec<CoChangedFile>,
    /// Number of commits in which these were counted: the latest ones, without merges and commits of very many files.
    pub counted: u64,
    /// Whether the clone is shallow, so that the history ends early.
    pub is_shallow: bool,
    /// The point where reading stopped because it took too long: all commits after this time were read (seconds since
    /// 1970).
    pub read_back_to: Option<i64>,
    /// Notes on read errors, one sentence each.
    pub notes: Vec<String>,
}

/// A file that changed in the same commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoChangedFile {
    /// Its path at `HEAD`.
    pub path: Vec<u8>,
    /// Number of commits that changed both files.
    pub together: u64,
}
