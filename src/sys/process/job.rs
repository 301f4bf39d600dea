//! A job: what to run and within which bounds, and what came of it. Values only: nothing here starts
//! anything, though telling why a start failed takes a look at the folder.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use super::capture::Captured;
use crate::exit::Signal;

/// The time between SIGTERM and SIGKILL for a job that overran its time or was interrupted, unless it names its own.
pub const GRACE: Duration = Duration::from_millis(200);

/// The bytes of output after which a job is ended, unless it names its own.
pub const OUTPUT_LIMIT: u64 = 1 << 30;

/// What a job reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    Null,
    /// These bytes, then the end of file. A job that does not read them is no error.
    Bytes(Vec<u8>),
    /// What this process reads.
    Inherited,
}

/// Where a job's stdout and stderr go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Into one pipe, in the order written. [`Finished::stdout`] holds both.
    Merged,
    /// Into one each.
    Separate,
    /// Where this process's own go: nothing is captured, and no limit of output holds.
    Inherited,
}

/// What to run, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program, looked up in the `PATH` of `env` when it has no slash, and its arguments.
    pub argv: Vec<OsString>,
    /// The folder that it runs in.
    pub cwd: PathBuf,
    /// Its whole environment; nothing else is passed on.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Where it writes.
    pub output: Output,
    /// The longest that it may run; `None`: for ever.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL. A job that has jobs of its own to end needs more than they do.
    pub grace: Duration,
    /// The bytes of each stream's head and of its tail that are kept in memory.
    pub keep: usize,
    /// The bytes of output, both streams together, after which it is ended.
    pub limit: u64,
    /// The folder for whole outputs, made when it is needed.
    pub spool: Option<PathBuf>,
    /// Whether a whole output goes into a file without a name, which ends with the result: whoever takes it decides what of
    /// it is kept.
    pub nameless: bool,
}

impl Job {
    /// A job with no stdin, merged output, no time limit, 8 KiB of head and of tail, no folder for outputs.
    pub fn new(argv: Vec<OsString>, cwd: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self {
            argv,
            cwd,
            env,
            stdin: Stdin::Null,
            output: Output::Merged,
            timeout: None,
            grace: GRACE,
            keep: 8 * 1024,
            limit: OUTPUT_LIMIT,
            spool: None,
            nameless: false,
        }
    }
}

/// Which job. Unique within its `Jobs`, counted up from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself.
    Ended {
        /// The exit code.
        code: i32,
    },
    /// By a signal that this engine did not send.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It was ended at its time limit.
    TimedOut,
    /// It was ended because nagent got this signal.
    Interrupted(Signal),
    /// It was ended because it wrote more than its limit.
    TooMuch,
    /// It was ended because the reader of its output had enough.
    Stopped,
}

/// A job's result. By now no process of it is left, but for what cannot be killed.
#[derive(Debug)]
pub struct Finished {
    /// Which job.
    pub id: JobId,
    /// How it ended.
    pub outcome: Outcome,
    /// From its start to its leader's end.
    pub took: Duration,
    /// Whether no process of it is left.
    pub all_gone: bool,
    /// What it wrote to stdout; with [`Output::Merged`], to stderr as well.
    pub stdout: Captured,
    /// What it wrote to stderr; empty with [`Output::Merged`].
    pub stderr: Captured,
}

/// Why a job did not start. It is told apart from a program that ran and exited with 126 or 127.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error(
        "cannot start {program}: not found, or the interpreter in its first line is not; check the name and PATH"
    )]
    NotFound {
        /// As it was named.
        program: String,
    },
    /// It is there and cannot be executed.
    #[error("cannot start {program}: it is not executable for this user; try chmod +x")]
    NotExecutable {
        /// As it was named.
        program: String,
    },
    /// The kernel takes no argument over 128 KiB, and no arguments and environment over its limit together.
    #[error(
        "cannot start {program}: its arguments and environment ({bytes} bytes) are longer than the system allows; put the text into a file"
    )]
    TooLong {
        /// As it was named.
        program: String,
        /// Arguments and environment together.
        bytes: usize,
    },
    /// The folder to run in is gone, is no folder, or may not be entered.
    #[error("cannot start {program} in {folder}: {why}; is the folder still there?", folder = folder.display())]
    NoFolder {
        /// As it was named.
        program: String,
        /// The folder.
        folder: PathBuf,
        /// The system's words.
        why: String,
    },
    /// Anything else: no processes or descriptors left, a NUL in an argument.
    #[error("cannot start {program}: {why}")]
    Other {
        /// As it was named.
        program: String,
        /// The system's words.
        why: String,
    },
}

/// Says which of the things that exec and chdir report alike it was.
pub(super) fn explain(error: &io::Error, job: &Job, program: String) -> StartError {
    let folder = std::fs::metadata(&job.cwd).and_then(|metadata| {
        if !metadata.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(rustix::fs::access(&job.cwd, rustix::fs::Access::EXEC_OK)?)
    });
    if let Err(why) = folder {
        return StartError::NoFolder { program, folder: job.cwd.clone(), why: why.to_string() };
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => StartError::NotFound { program },
        Some(Errno::ACCESS | Errno::ISDIR) => StartError::NotExecutable { program },
        Some(Errno::TOOBIG) => {
            let arguments = job.argv.iter().map(|argument| argument.len() + 1).sum::<usize>();
            let environment =
                job.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
            StartError::TooLong { program, bytes: arguments + environment }
        }
        _ => StartError::Other { program, why: error.to_string() },
    }
}
