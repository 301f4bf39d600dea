//! The error of a file operation for the model: the reason and advice.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::FileType;

use super::names::suggest_paths;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use conversation::reason::{Failure, Reason};

/// The error of a file that cannot be read, listed, searched or written.
///
/// `Display` is for people. The advice mentions tags, so only [`FileError::for_model`] adds it.
#[derive(Debug)]
pub struct FileError {
    /// The category, where callers or programs need it.
    pub reason: Option<Reason>,
    problem: String,
    advice: String,
}

impl FileError {
    pub(super) fn new(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { reason: None, problem: problem.into(), advice: advice.into() }
    }

    pub(super) fn because(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The message with advice for the model.
    pub fn for_model(&self) -> String {
        let Self { problem, advice, .. } = self;
        if advice.is_empty() { problem.clone() } else { format!("{problem}\n{advice}") }
    }

    /// Describes an error of the system.
    pub(super) fn from_io(what: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let (reason, advice) = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                (Some(Reason::Denied), "look at its owner and mode with `ls -l` in <nagent-shell>")
            }
            io::ErrorKind::InvalidInput => (None, "the path is empty or contains a NUL byte"),
            _ => (None, ""),
        };
        let problem = format!("cannot {what} {}: {source}", quote_name(path));
        Self { reason, ..Self::new(problem, advice) }
    }

    /// The error of [`Self::not_found`], for a path that is relative to another folder than this process's.
    pub(super) fn missing_at(asked: &Path, full: &Path) -> Self {
        let problem =
            format!("no such file or folder: {}{}", quote_name(asked), suggest_paths(full));
        Self::new(problem, "").because(Reason::Missing)
    }

    pub(super) fn is_folder(path: &Path, advice: impl Into<String>) -> Self {
        Self::new(format!("{} is a folder", quote_name(path)), advice)
    }

    /// Refuses everything that is not a regular file; `advice` is for a folder.
    pub(super) fn check_regular(
        path: &Path,
        kind: FileType,
        advice: impl FnOnce() -> String,
    ) -> Result<(), Self> {
        let kind = match kind {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => return Err(Self::is_folder(path, advice())),
            FileType::Symlink => "symbolic link",
            FileType::Fifo => "FIFO",
            FileType::Socket => "socket",
            _ => "device",
        };
        let problem = format!("{} is a {kind}, not a regular file", quote_name(path));
        Err(Self::new(problem, ""))
    }

    /// A file of a kernel file system.
    pub(super) fn of_kernel(path: &Path, filesystem: &str) -> Self {
        let problem =
            format!("{} is in {filesystem}, which is not read as a file", quote_name(path));
        Self::new(problem, "use a command instead")
    }

    /// A file that another program has changed between its opening and its writing.
    pub fn changed_meanwhile(path: &Path) -> Self {
        let path = quote_name(path);
        let problem = format!(
            "{path} was changed or replaced by another program meanwhile, so it was not written"
        );
        Self::new(problem, "read it again first").because(Reason::Changed)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for FileError {}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self { reason: error.reason, text: error.for_model() }
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        Self::failed(error.problem)
    }
}
