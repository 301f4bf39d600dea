//! Why a file is not read, listed or searched: one message for each reason, for the model, with what to do instead.

use std::io;

/// How far into a file the first line of a range is searched for, in bytes.
pub(super) const MAX_SEEK_BYTES: u64 = 4 << 30;

/// Maximum size of a compiled regular expression, in bytes.
pub(super) const MAX_REGEX_BYTES: usize = 8 << 20;

/// Why a file was not read, with what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file or folder.
    #[error("no such file or folder: {path}{hint}")]
    Missing {
        /// The path that was asked for.
        path: String,
        /// What is near, or nothing.
        hint: String,
    },
    /// A folder.
    #[error("{path} is a folder; use <nagent-list path=\"{path}\"/> to see what is in it")]
    Folder {
        /// The path that was asked for.
        path: String,
    },
    /// A file where a folder was meant.
    #[error("{path} is not a folder; read a file with <nagent-read path=\"{path}\"/>")]
    NotFolder {
        /// The path that was asked for.
        path: String,
    },
    /// A FIFO, a socket or a device.
    #[error(
        "{path} is a {kind}, which is never read: it may block for ever; only regular files are"
    )]
    Special {
        /// The path that was asked for.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A file of procfs, sysfs or their kin.
    #[error(
        "{path} is in {filesystem}, which is not read as a file; use a command for what it tells"
    )]
    Virtual {
        /// The path that was asked for.
        path: String,
        /// Name of the file system.
        filesystem: &'static str,
    },
    /// The file holds NUL bytes.
    #[error("{path} is binary{}: {bytes} bytes, a NUL byte at offset {at}; look at it with `file` or `xxd` in <nagent-shell>{}",
        if *.utf16 { " or UTF-16 text" } else { "" }, if *.utf16 { ", or convert it with `iconv -f UTF-16 -t UTF-8`" } else { "" })]
    Binary {
        /// The path that was asked for.
        path: String,
        /// Size of the file.
        bytes: u64,
        /// Where the first NUL byte is, from 0.
        at: u64,
        /// The file starts with the byte order mark of UTF-16.
        utf16: bool,
    },
    /// Larger than what is shown whole, and no range was given.
    #[error("{path} has {bytes} bytes and {}{lines} lines, too much to show whole ({limit} bytes at most); read a range of lines, \
        as in <nagent-read path=\"{path}\" offset=\"1\" limit=\"200\"/>, or all of it in segments with <nagent-file-read path=\"{path}\"/>",
        if *.counted { "" } else { "more than " })]
    TooLarge {
        /// The path that was asked for.
        path: String,
        /// Size of the file.
        bytes: u64,
        /// Lines, as far as they were counted.
        lines: u64,
        /// All lines were counted.
        counted: bool,
        /// What is shown whole, in bytes.
        limit: u64,
    },
    /// The range starts behind the last line.
    #[error("{path} has {lines} lines, so there is no line {offset}; offset counts lines from 1")]
    PastEnd {
        /// The path that was asked for.
        path: String,
        /// Lines of the file.
        lines: u64,
        /// The line that was asked for.
        offset: u64,
    },
    /// An offset or a limit of 0.
    #[error("offset counts lines from 1 and limit is at least 1, but {name} is 0")]
    Zero {
        /// Which of them.
        name: &'static str,
    },
    /// The range starts so far in that looking for it would take too long.
    #[error(
        "{path}: line {offset} is more than {MAX_SEEK_BYTES} bytes into the file; use `sed -n` or `tail -c` in <nagent-shell>"
    )]
    TooFar {
        /// The path that was asked for.
        path: String,
        /// The line that was asked for.
        offset: u64,
    },
    /// An invalid regular expression.
    #[error(
        "the pattern is not a valid regular expression: {0}; a plain ( [ {{ . * + ? | ^ $ \\ is written with a backslash before it, \
        and there are no look-arounds and no backreferences"
    )]
    Regex(String),
    /// A regular expression that needs too much memory.
    #[error(
        "the pattern is too large a regular expression (over {MAX_REGEX_BYTES} bytes compiled); make its counted repetitions smaller"
    )]
    RegexSize,
    /// An invalid glob.
    #[error(
        "{glob} is not a valid glob: {why}; as in .gitignore, `*.rs` is in any folder, `src/*.rs` is in src, `src/**/*.rs` is in or below it, \
        and a plain [ or {{ is written with a backslash before it"
    )]
    Glob {
        /// The glob that was given.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// The run was asked to stop.
    #[error("reading {path} was interrupted")]
    Stopped {
        /// The path that was asked for.
        path: String,
    },
    /// The system refused.
    #[error("cannot read {path}: {source}{}", advice(.source))]
    Io {
        /// The path that was asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; look at its owner and mode with `ls -l` in <nagent-shell>"
        }
        io::ErrorKind::InvalidInput => "; the path is empty or holds a NUL byte",
        _ => "",
    }
}
