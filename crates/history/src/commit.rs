//! A commit that touched a file.

use serde::{Deserialize, Serialize};

/// A commit that touched the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCommit {
    /// The commit's id, in hexadecimal digits.
    pub id: String,
    /// The author's time: seconds since 1970, UTC.
    pub time: i64,
    /// The author's offset from UTC, in minutes.
    pub offset: i32,
    /// The author's name; invalid UTF-8 becomes U+FFFD. Name, address and subject have at most
    /// [`conversation::limits::COMMIT_SUBJECT`] characters.
    pub name: String,
    /// The author's address.
    pub email: String,
    /// The first paragraph of the message, on one line.
    pub subject: String,
    /// The file's path in that commit.
    pub path: Vec<u8>,
    /// The change that the commit made to the file.
    pub change: FileChange,
    /// The kind of the commit.
    pub kind: CommitKind,
}

/// The change that a commit made to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// The file did not exist before.
    Added,
    /// Its content or mode changed.
    #[default]
    Modified,
    /// It had another path before; its content may have changed, too.
    Renamed {
        /// The old path.
        from: Vec<u8>,
    },
    /// The commit deleted it; a later one added it again.
    Deleted,
}

/// Kinds of commits; only [`CommitKind::Plain`] ones show which files belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitKind {
    /// An ordinary commit.
    #[default]
    Plain,
    /// A merge whose file differs from that of every parent.
    Merge,
    /// A first commit of many files: it does not show who wrote them.
    Import,
    /// The oldest commit of a shallow clone: its parents are missing, so that all its files look new.
    Boundary,
}
