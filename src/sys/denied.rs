//! Why a file is not written: one message for each reason, with what to do instead.
//!
//! The model reads these, so they say where the line is. Nothing is decided here.

use super::names::{hint, shown};
use crate::problem::Problem;
use std::io;
use std::path::Path;

/// Why a file is not written, with what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Not within the boundary.
    #[error("{path}{resolved} is outside of the write boundary: {may}; {instead}")]
    Outside {
        /// The path that was asked for.
        path: String,
        /// ` (which is …)` where the true path is another.
        resolved: String,
        /// What this conversation may write.
        may: String,
        /// The way that there is.
        instead: String,
    },
    /// In a repository's own folder.
    #[error(
        "{path} is part of a repository's own data (.git), which is not written; use git itself"
    )]
    Git {
        /// The path that was asked for.
        path: String,
    },
    /// In nagent's root.
    #[error(
        "{path} is in nagent's own folder {root}, which no tag writes; put the file elsewhere, for example in /tmp"
    )]
    Root {
        /// The path that was asked for.
        path: String,
        /// nagent's root.
        root: String,
    },
    /// A folder.
    #[error("{path} is a folder; name a file in it")]
    Folder {
        /// The path that was asked for.
        path: String,
    },
    /// A FIFO, a socket or a device.
    #[error("{path} is a {kind}; only regular files are written")]
    Special {
        /// The path that was asked for.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Nobody, or not this user, may write the file.
    #[error(
        "{path} is read-only (mode {mode:04o}); if it is meant to be changed, `chmod u+w` it first"
    )]
    ReadOnly {
        /// The path that was asked for.
        path: String,
        /// Its permission bits.
        mode: rustix::fs::RawMode,
    },
    /// A file of another owner with other names, which a write in place would reach.
    #[error(
        "{path} has several hard links and another owner, so that it can be neither replaced nor written in place; write \
         to another file"
    )]
    Linked {
        /// The path that was asked for.
        path: String,
    },
    /// A symbolic link that is not followed.
    #[error("{path} is a symbolic link {why}, which is not followed; name the file itself")]
    Link {
        /// The link.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A path that cannot be a file's.
    #[error("the path {path} cannot be written: {why}")]
    Path {
        /// The path that was asked for.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file or its folder is no longer what was opened.
    #[error(
        "{path} was changed or replaced by something else meanwhile, so it was not written; read it again first"
    )]
    Changed {
        /// The path that was asked for.
        path: String,
    },
    /// There is no such file to edit.
    #[error("no such file: {path}{hint}; use <nagent-write> to make a new one")]
    Missing {
        /// The path that was asked for.
        path: String,
        /// What is near, or nothing.
        hint: String,
    },
    /// Too large to edit.
    #[error(
        "{path} has {bytes} bytes, more than the {limit} that are edited as a whole; use `sed` in <nagent-shell>"
    )]
    TooLarge {
        /// The path that was asked for.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The previous content could not be kept, so the file was left alone.
    #[error("{path} was left as it is, since its previous content could not be kept: {source:#}")]
    Keep {
        /// The file.
        path: String,
        /// What went wrong.
        source: anyhow::Error,
    },
    /// A write in place that failed on its way.
    #[error(
        "cannot write {path}: {source}; it is written in place and may be half written{previous}"
    )]
    HalfWritten {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
        /// Where its previous content is, and how it comes back; empty where another says that.
        previous: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Denied {
    pub(super) fn io(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: shown(path), source: source.into() }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        Self::failed(denied.to_string())
    }
}

/// An error about a file that is to be edited and is not there.
pub(super) fn missing(path: &Path) -> Denied {
    Denied::Missing { path: shown(path), hint: hint(path) }
}
