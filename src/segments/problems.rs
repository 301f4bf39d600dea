//! Messages that splits and summaries share.

use std::fmt::Display;
use std::path::Path;

use crate::problem::Problem;
use crate::sys::names::shown;
use crate::sys::read_error::ReadError;

/// Something failed: `cannot {what} {path}: {why}`.
pub(super) fn cannot(what: &str, path: &Path, why: impl Display) -> Problem {
    Problem::failed(format!("cannot {what} {}: {why}", shown(path)))
}

/// Says to a person why a file is not read. The error's own words are for the model.
pub(super) fn unreadable(what: &str, path: &Path, error: ReadError) -> Problem {
    let only = "only regular files are read";
    match error {
        ReadError::Missing { hint, .. } => {
            Problem::failed(format!("no such file: {}{hint}", shown(path)))
        }
        ReadError::Folder { .. } => cannot(what, path, format!("it is a folder, and {only}")),
        ReadError::Special { kind, .. } => {
            cannot(what, path, format!("it is a {kind}, and {only}"))
        }
        ReadError::Virtual { filesystem, .. } => {
            cannot(what, path, format!("it is in {filesystem}; copy it to a file first"))
        }
        ReadError::Io { source, .. } => cannot("read", path, source),
        other => Problem::failed(other.to_string()),
    }
}
