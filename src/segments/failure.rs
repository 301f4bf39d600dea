//! Why nothing was done: a message, and what kind of trouble it is, so that a caller can say what its user may do.

use std::fmt::Display;
use std::path::Path;

use crate::sys::names::shown;
use crate::sys::read_error::ReadError;

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What failed, on what, why.
    pub message: String,
    /// What kind of trouble it is.
    pub kind: Kind,
}

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked for makes no sense.
    Usage,
    /// A file, the disk, the system.
    Failed,
    /// Segments were edited, and would be lost: to be asked for with `force`.
    Edited,
    /// Another's file stands where one is to be written: another folder is needed.
    Taken,
    /// The caller's `stop` said so.
    Interrupted,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind }
    }

    /// What the system refused: `cannot {what} {path}: {why}`.
    pub fn io(what: &str, path: &Path, why: impl Display) -> Self {
        Self::new(Kind::Failed, format!("cannot {what} {}: {why}", shown(path)))
    }

    /// The caller wants to stop.
    pub fn interrupted(what: &str, path: &Path) -> Self {
        Self::new(Kind::Interrupted, format!("{what} {} was interrupted", shown(path)))
    }

    /// Why a file is not read, in words for people.
    pub fn unreadable(what: &str, path: &Path, error: ReadError) -> Self {
        let name = shown(path);
        let message = match error {
            ReadError::Missing { hint, .. } => format!("no such file: {name}{hint}"),
            ReadError::Folder { .. } => {
                format!("cannot {what} {name}: it is a folder, and only regular files are read")
            }
            ReadError::Special { kind, .. } => {
                format!("cannot {what} {name}: it is a {kind}, and only regular files are read")
            }
            ReadError::Virtual { filesystem, .. } => {
                format!("cannot {what} {name}: it is in {filesystem}; copy it to a file first")
            }
            ReadError::Io { source, .. } => format!("cannot read {name}: {source}"),
            other => other.to_string(),
        };
        Self::new(Kind::Failed, message)
    }
}
