//! One running job: its pipes, its supervisor, and the state of its end.

use std::ffi::CString;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::ready;
use super::job::{Finished, Job, JobId, JobOutcome, Output, StartError, Stdin};
use super::request::{Config, ExitReport};
use super::supervisor::{self, Supervisor};
use conversation::exit::Signal;

/// Maximum number of bytes read after all writers should be gone. The kernel lets a pipe hold up to 1 MiB.
const LEFTOVER: u64 = 16 << 20;

/// Maximum time for a supervisor to end a job that is to be killed. Normally it gives up on its own before.
pub(super) const END_LIMIT: Duration = supervisor::PATIENCE.saturating_mul(2);

#[derive(Debug)]
pub(super) struct RunningJob {
    pub(super) id: JobId,
    pub(super) supervisor: Supervisor,
    end: Option<ExitReport>,
    /// The process id of the command; 0 if it is not known.
    pub(super) leader: u32,
    started: Instant,
    deadline: Option<Instant>,
    grace: Duration,
    limit: u64,
    pub(super) stdin: Option<StdinFeed>,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    /// Set once the job has been ordered to end.
    ending: Option<Ending>,
}

/// The progress of ending a job.
#[derive(Debug, Clone, Copy)]
struct Ending {
    /// The outcome that the job will have.
    outcome: JobOutcome,
    /// Whether the supervisor was ordered to kill its processes; before that, they are asked to end.
    is_killed: bool,
    /// The time of the next step.
    next: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct StdinFeed {
    pub(super) pipe: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) pipe: Option<OwnedFd>,
    /// Number of bytes kept: the first ones.
    keep: usize,
    kept: Vec<u8>,
    /// Number of bytes so far.
    bytes: u64,
}

/// Nagent's ends and the command's ends of a job's pipes.
struct Pipes {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    command: [Option<OwnedFd>; 3],
}

impl Pipes {
    fn create(job: &Job) -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (Some(read), Some(write)));
        let (stdout, command_stdout) = match job.output {
            Output::Merged | Output::Separate => pipe()?,
            Output::Inherited => (None, None),
        };
        let (stderr, command_stderr) = match job.output {
            Output::Merged => (None, command_stdout.as_ref().map(OwnedFd::try_clone).transpose()?),
            Output::Separate => pipe()?,
            Output::Inherited => (None, None),
        };
        let (command_stdin, stdin) = match &job.stdin {
            Stdin::Null => {
                let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                let failed = |error| {
                    io::Error::other(format!("cannot open /dev/null: {error}; is /dev mounted?"))
                };
                (Some(null.map_err(failed)?), None)
            }
            Stdin::Inherited => (None, None),
            Stdin::Bytes(_) | Stdin::Open => pipe()?,
        };
        // Only nagent's ends: the command's ends block as usual.
        for end in [&stdout, &stderr, &stdin].into_iter().flatten() {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { stdin, stdout, stderr, command: [command_stdin, command_stdout, command_stderr] })
    }
}

impl RunningJob {
    pub(super) fn start(job: Job, id: JobId) -> Result<Self, StartError> {
        let program =
            job.argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let other = |error: &dyn Display| StartError(format!("{program}: {error}"));
        if job.argv.is_empty() {
            return Err(other(&"there is no program to run"));
        }
        let pipes = Pipes::create(&job).map_err(|error| other(&error))?;
        let started = Instant::now();
        let folder = CString::new(job.cwd.as_os_str().as_bytes());
        let [stdin, stdout, stderr] = &pipes.command;
        let config = Config {
            job: &job,
            folder: folder.map_err(|error| other(&error))?,
            streams: [
                stdin.as_ref().map_or(rustix::stdio::stdin(), AsFd::as_fd),
                stdout.as_ref().map_or(rustix::stdio::stdout(), AsFd::as_fd),
                stderr.as_ref().map_or(rustix::stdio::stderr(), AsFd::as_fd),
            ],
        };
        let (supervisor, leader) = Supervisor::start(&config)
            .map_err(|error| StartError::explain(&error, &job, &program))?;
        // Drop this process's copies of the command's ends, so that the pipes can reach their end.
        drop(pipes.command);
        let bytes = match job.stdin {
            Stdin::Bytes(bytes) => bytes,
            _ => Vec::new(),
        };
        let stdin = pipes.stdin.map(|pipe| StdinFeed { pipe, bytes, written: 0 });
        let stream = |pipe| Stream { pipe, keep: job.keep, kept: Vec::new(), bytes: 0 };
        Ok(Self {
            id,
            supervisor,
            end: None,
            leader,
            started,
            deadline: job.timeout.and_then(|timeout| started.checked_add(timeout)),
            grace: job.grace,
            limit: job.limit,
            stdin,
            stdout: stream(pipes.stdout),
            stderr: stream(pipes.stderr),
            ending: None,
        })
    }

    /// Returns when [`RunningJob::check_limits`] must be called again.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.ending.map_or(self.deadline, |ending| ending.next)
    }

    /// Ends the job if its time is over or a signal is pending, and takes the next step of ending it if that is due.
    pub(super) fn check_limits(&mut self, now: Instant, pending: Option<Signal>) {
        let Some(ending) = self.ending else {
            if let Some(signal) = pending {
                self.terminate(JobOutcome::Interrupted(signal), now);
            } else if self.deadline.is_some_and(|deadline| deadline <= now) {
                self.terminate(JobOutcome::TimedOut, now);
            }
            return;
        };
        if ending.next.is_some_and(|next| next <= now) {
            if ending.is_killed {
                self.kill_supervisor(ending.outcome);
            } else {
                self.kill_job(ending.outcome, now);
            }
        }
    }

    /// Asks the job's processes to end; after the grace they are killed.
    pub(super) fn terminate(&mut self, outcome: JobOutcome, now: Instant) {
        let next = Some(now + self.grace);
        self.ending = Some(Ending { outcome, is_killed: false, next });
        self.supervisor.order(supervisor::TERM);
    }

    pub(super) fn kill_job(&mut self, outcome: JobOutcome, now: Instant) {
        let next = Some(now + END_LIMIT);
        self.ending = Some(Ending { outcome, is_killed: true, next });
        self.supervisor.order(supervisor::KILL);
    }

    /// Kills a supervisor that does not end: something keeps it stopped, or a process cannot be killed.
    pub(super) fn kill_supervisor(&mut self, outcome: JobOutcome) {
        self.ending = Some(Ending { outcome, is_killed: true, next: None });
        self.supervisor.kill();
    }

    /// Returns whether the job has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.end = self.end.take().or_else(|| self.supervisor.end());
        self.end.is_some()
    }

    /// Waits up to `time` for the end of the job.
    pub(super) fn has_ended_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            ready::wait(&mut [PollFd::new(&self.supervisor.socket, PollFlags::IN)], Some(until));
            if self.has_ended() || until <= Instant::now() {
                return self.end.is_some();
            }
        }
    }

    /// Ends a job that wrote too much.
    pub(super) fn check_output(&mut self) {
        let bytes = self.stdout.bytes.saturating_add(self.stderr.bytes);
        if self.ending.is_none() && bytes > self.limit {
            self.kill_job(JobOutcome::TooMuch, Instant::now());
        }
    }

    /// Writes as many bytes to stdin as the pipe takes.
    pub(super) fn feed_stdin(&mut self) {
        let Some(feed) = &mut self.stdin else { return };
        match rustix::io::write(&feed.pipe, feed.bytes.get(feed.written..).unwrap_or_default()) {
            Ok(count) => {
                feed.written += count;
                if feed.written < feed.bytes.len() {
                    return;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => return,
            // The job has closed its stdin.
            Err(_) => {}
        }
        self.stdin = None;
    }

    /// Reads the rest of the output after the supervisor has ended, and returns the result.
    pub(super) fn finish(
        mut self,
        chunk: &mut [u8],
        on_stdout: &mut dyn FnMut(JobId, &[u8]),
    ) -> Finished {
        let took = self.started.elapsed();
        // All writers are gone: the pipes end, or are empty.
        let end = self.stdout.bytes.saturating_add(LEFTOVER);
        while self.stdout.bytes < end
            && let Some(bytes) = self.stdout.read_chunk(chunk)
        {
            on_stdout(self.id, &chunk[..bytes]);
        }
        let end = self.stderr.bytes.saturating_add(LEFTOVER);
        while self.stderr.bytes < end && self.stderr.read_chunk(chunk).is_some() {}

        let ExitReport { status, all_gone, left } = self.end.unwrap_or(ExitReport::UNKNOWN);
        let outcome = match (self.ending, status) {
            (Some(ending), _) => ending.outcome,
            (None, Ok(code)) => JobOutcome::Ended { code },
            (None, Err(signal)) => JobOutcome::Killed { signal },
        };
        self.supervisor.release(all_gone);
        Finished {
            id: self.id,
            outcome,
            took,
            all_gone,
            left,
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
        }
    }

    /// Lets go of a job that has ended, or whose supervisor was killed.
    pub(super) fn release(self) {
        self.supervisor.release(self.end.is_some_and(|end| end.all_gone));
    }
}

impl Stream {
    /// Reads once into `chunk`, and keeps the first bytes. `None` when there is nothing now, or the stream
    /// has ended.
    pub(super) fn read_chunk(&mut self, chunk: &mut [u8]) -> Option<usize> {
        loop {
            match rustix::io::read(self.pipe.as_ref()?, &mut *chunk) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Ok(0) | Err(_) => {
                    self.pipe = None;
                    return None;
                }
                Ok(bytes) => {
                    self.bytes += bytes as u64;
                    let room = self.keep.saturating_sub(self.kept.len()).min(bytes);
                    self.kept.extend_from_slice(&chunk[..room]);
                    return Some(bytes);
                }
            }
        }
    }
}
