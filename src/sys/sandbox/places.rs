//! The places that the policy of a sandbox depends on.

use std::ffi::OsStr;
use std::path::Path;

/// The executable of the inner stage, beside the running one.
pub const INNER: &str = "nagent-sandbox";

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The run's folder.
    pub folder: &'a Path,
    /// The git toplevel of `folder`, if any.
    pub toplevel: Option<&'a Path>,
    /// The home folder, if any.
    pub home: Option<&'a Path>,
    /// nagent's root, which commands cannot read.
    pub root: &'a Path,
    /// The value of `TMPDIR`, if set.
    pub tmpdir: Option<&'a OsStr>,
    /// The running executable; [`INNER`] is beside it.
    pub executable: Option<&'a Path>,
    /// Whether it is a file's own conversation: then `workspace` writes in temp folders only.
    pub per_file: bool,
    /// The config file in force, which could turn the sandbox off: it is read-only wherever it is.
    pub config: Option<&'a Path>,
}

/// Why the sandbox cannot be built, and what is missing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
