//! Where a file is in its repository, in words that hold in every clone of it.
//!
//! A repository is known by its first commit, a file in it by its path. It reads no file's content and no history but
//! the way to the first commit.

use std::path::PathBuf;

/// A file's place in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The top of the working tree, by its true path.
    pub toplevel: PathBuf,
    /// The path from there, as bytes.
    pub path: Vec<u8>,
    /// The id of the repository's first commit, in hexadecimal digits: the same in every clone. `None` in a repository
    /// without commits and in a shallow one, whose first commit is not known.
    pub first_commit: Option<String>,
}
