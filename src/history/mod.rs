//! What a repository's history says of one file: who changed it and when, and which files changed with it. Pure: values
//! in, values out; the repository is read by [`crate::sys::git`].
//!
//! Whatever stands here was written by anybody: names, subjects and paths are data, and are made harmless where they
//! become text.

pub mod coupling;
pub mod kept;
pub mod mailmap;
pub mod object;
pub mod people;
pub mod similarity;
pub mod summaries;
pub mod text;

use std::path::PathBuf;

/// The history of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The top of the working tree.
    pub toplevel: PathBuf,
    /// The file's path from there, as bytes, today.
    pub path: Vec<u8>,
    /// The commit that `HEAD` is, in hexadecimal digits: 40, or 64 in a repository of SHA-256.
    pub head: String,
    /// The commits that touched the file, the newest first, through renames.
    pub touches: Vec<Touch>,
    /// Who they are by, most commits first, then by name. Addresses and names as the mailmap has them.
    pub people: Vec<Person>,
    /// Files that changed in the same commits, the nearest first; all are in the tree of `HEAD`.
    pub neighbours: Vec<Neighbour>,
    /// Whether the history is cut off somewhere, as in a shallow clone.
    pub is_shallow: bool,
    /// What could not be found out, and why; one sentence each.
    pub notes: Vec<String>,
}

/// A commit that touched the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touch {
    /// The commit's id, in hexadecimal digits.
    pub id: String,
    /// When it was written (author's time): seconds since 1970, UTC.
    pub time: i64,
    /// The author's offset from UTC, in minutes.
    pub offset: i32,
    /// The author's name, as the mailmap has it; bytes that are no UTF-8 are U+FFFD.
    pub name: String,
    /// The author's address, the same way.
    pub email: String,
    /// The first paragraph of the message on one line; as with names, at most [`object::LONGEST`] characters of it.
    pub subject: String,
    /// The file's path in that commit.
    pub path: Vec<u8>,
    /// What the commit did to it.
    pub change: Change,
    /// What sort of commit it is.
    pub sort: Sort,
    /// How many files the commit changed, this one counted; against its first parent where it is a merge.
    pub files: u64,
}

/// What a commit did to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Added,
    /// It has other content, or another mode.
    #[default]
    Modified,
    /// It had another path before.
    Renamed {
        /// The path before.
        from: Vec<u8>,
    },
    /// It is gone; a later commit brought it back.
    Deleted,
}

/// What sort of commit touched a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// A commit with one parent.
    #[default]
    Plain,
    /// A merge whose file differs from that of every parent.
    Merge,
    /// A first commit that brought many files at once: it says nothing of who wrote them, or what belongs together.
    Import,
    /// The last commit that a shallow clone has: its parents are not there, so all its files seem new.
    Boundary,
}

/// Somebody who changed the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
    /// How many of the commits are theirs.
    pub commits: u64,
    /// The time of the first of them: seconds since 1970.
    pub first: i64,
    /// The time of the last.
    pub last: i64,
}

/// A file that changed in the same commits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbour {
    /// Its path today.
    pub path: Vec<u8>,
    /// In how many commits it changed together with the file.
    pub together: u64,
    /// The share of the file's changes in which it changed too, 0 to 1: each commit weighs less the more files it touches.
    pub share: f64,
    /// How near that is.
    pub rate: Rate,
}

/// How often two files change together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rate {
    /// Now and then.
    #[default]
    Low,
    /// Often.
    Medium,
    /// More often than not.
    High,
}

impl Rate {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
