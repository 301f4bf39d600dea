//! Messages of splits and summaries.

use std::fmt::Display;
use std::path::Path;

use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use conversation::reason::Reason;
use sys::file_error::FileError;

/// The problem `cannot {what} {path}: {why}`.
pub(super) fn failure(what: &str, path: &Path, why: impl Display) -> Problem {
    Problem::failed(format!("cannot {what} {}: {why}", quote_name(path)))
}

/// Explains to a person why a file cannot be read.
pub(super) fn read_failure(what: &str, path: &Path, error: &FileError) -> Problem {
    match error.reason {
        Some(Reason::Missing) => Problem::failed(error.to_string()),
        _ => failure(what, path, error.to_string()),
    }
}
