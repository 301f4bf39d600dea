//! A job: its command, its limits, and its outcome.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use super::restriction::Restriction;
use conversation::exit::Signal;
use conversation::limits;

/// The default time between SIGTERM and SIGKILL for a job that overran its time or was interrupted.
pub const GRACE: Duration = Duration::from_millis(200);

/// The stdin of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    Null,
    /// These bytes, then the end of file. It is not an error if the job does not read them.
    Bytes(Vec<u8>),
    /// A pipe that the caller writes to.
    Open,
    /// The stdin of this process.
    Inherited,
}

/// The destination of a job's stdout and stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Into one pipe, in the order written, as stdout.
    Merged,
    /// Into one pipe each.
    Separate,
    /// The same as for this process: nothing is captured, and there is no limit.
    Inherited,
}

/// A command and its limits.
#[derive(Debug)]
pub struct Job {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The folder that it runs in.
    pub cwd: PathBuf,
    /// Its whole environment; nothing else is passed on.
    pub env: Vec<(OsString, OsString)>,
    /// Its stdin.
    pub stdin: Stdin,
    /// Its stdout and stderr.
    pub output: Output,
    /// Descriptors that the program inherits, under the same numbers as here.
    pub inherit: Vec<OwnedFd>,
    /// The rights that the program gives up before it starts.
    pub restriction: Option<Restriction>,
    /// Whether the program is `bwrap`, so that processes that the command leaves running are below the process that
    /// `bwrap` leaves.
    pub is_bwrap: bool,
    /// Maximum running time; `None`: no limit.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL. A job that has jobs of its own to end needs more than they do.
    pub grace: Duration,
    /// Number of bytes of each stream in [`Finished`], the first ones. All of stdout can be read while it arrives.
    pub keep: usize,
    /// The limit of its output in bytes, both streams together; a job that writes more is ended.
    pub limit: u64,
}

impl Job {
    /// Creates a job with no stdin, merged output of which 8 KiB are kept, and no time limit.
    pub fn new(argv: Vec<OsString>, cwd: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Self {
            argv,
            cwd,
            env,
            stdin: Stdin::Null,
            output: Output::Merged,
            inherit: Vec::new(),
            restriction: None,
            is_bwrap: false,
            timeout: None,
            grace: GRACE,
            keep: 8 * 1024,
            limit: limits::COMMAND_OUTPUT,
        }
    }
}

/// Identifies a job within its `Jobs`, counted up from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(super) u64);

/// The way in which a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// On its own.
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
    /// It was ended because nagent received this signal.
    Interrupted(Signal),
    /// It was ended because it wrote more than its limit.
    TooMuch,
    /// It was ended because the reader of its output stopped it.
    Stopped,
}

/// A job's result.
#[derive(Debug)]
pub struct Finished {
    /// The job's id.
    pub id: JobId,
    /// The way in which it ended.
    pub outcome: JobOutcome,
    /// The time from its start to the end of its command.
    pub took: Duration,
    /// Whether all its processes are gone. False if one could not be killed, or if the supervisor was.
    pub all_gone: bool,
    /// The number of processes that were still running when the command ended on its own, and were then ended too.
    pub left: u16,
    /// The beginning of its stdout; with [`Output::Merged`], also of stderr.
    pub stdout: Vec<u8>,
    /// The beginning of its stderr; empty with [`Output::Merged`].
    pub stderr: Vec<u8>,
}

/// The reason why a job did not start, as opposed to a program that ran and exited with 126 or 127.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {0}")]
pub struct StartError(pub(super) String);

impl StartError {
    /// Explains an error of exec or chdir.
    pub(super) fn explain(error: &io::Error, job: &Job, program: &str) -> Self {
        let folder = std::fs::metadata(&job.cwd).and_then(|metadata| {
            if !metadata.is_dir() {
                return Err(Errno::NOTDIR.into());
            }
            Ok(rustix::fs::access(&job.cwd, rustix::fs::Access::EXEC_OK)?)
        });
        if let Err(why) = folder {
            let folder = job.cwd.display();
            return Self(format!("{program} in {folder}: {why}; is the folder still there?"));
        }
        Self(match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR) => format!(
                "{program}: not found, or the interpreter in its first line is not; check the name and PATH"
            ),
            Some(Errno::ACCESS | Errno::ISDIR) => {
                format!("{program}: it is not executable for this user; try chmod +x")
            }
            // The kernel refuses an argument over 128 KiB, and arguments and environment that together exceed its limit.
            Some(Errno::TOOBIG) => {
                let arguments = job.argv.iter().map(|argument| argument.len() + 1).sum::<usize>();
                let environment = job.env.iter().map(|(name, value)| name.len() + value.len() + 2);
                let bytes = arguments + environment.sum::<usize>();
                format!(
                    "{program}: its arguments and environment ({bytes} bytes) are longer than the system allows; put the \
                     text into a file"
                )
            }
            _ => format!("{program}: {error}"),
        })
    }
}
