//! Why nothing was looked at: one message for each reason, with what to do instead.

use super::grep::REGEX_LIMIT;
use super::read_error::ReadError;
use std::io;

/// Why nothing was looked at, with what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such folder or file.
    #[error("no such file or folder: {path}{hint}")]
    Missing {
        /// The path that was asked for.
        path: String,
        /// What is near, or nothing.
        hint: String,
    },
    /// A file where a folder was meant.
    #[error("{path} is no folder; read a file with <nagent-read path=\"{path}\"/>")]
    NotFolder {
        /// The path that was asked for.
        path: String,
    },
    /// The kernel's own folders.
    #[error(
        "{path} is not searched: its files are questions to the kernel; use a command in <nagent-shell>"
    )]
    Virtual {
        /// The path that was asked for.
        path: String,
    },
    /// A regular expression that is none.
    #[error(
        "the pattern is no regular expression: {0}; a plain ( [ {{ . * + ? | ^ $ \\ is written with a backslash before it, \
        and there are no look-arounds and no backreferences"
    )]
    Regex(String),
    /// A regular expression that needs too much memory.
    #[error(
        "the pattern is too large a regular expression (over {REGEX_LIMIT} bytes compiled); make its counted repetitions smaller"
    )]
    RegexSize,
    /// A glob that is none.
    #[error(
        "{glob} is no glob: {why}; as in .gitignore, `*.rs` is in any folder, `src/*.rs` is in src, `src/**/*.rs` is in or below it, \
        and a plain [ or {{ is written with a backslash before it"
    )]
    Glob {
        /// The glob that was given.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// A single file was to be searched, and cannot be.
    #[error(transparent)]
    File(#[from] ReadError),
    /// The system refused.
    #[error("cannot look at {path}: {source}")]
    Io {
        /// The path that was asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}
