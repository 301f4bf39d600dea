//! One engine for every process that nagent starts: shell actions, child nagents, tools that describe
//! themselves, command-line providers.
//!
//! One loop over poll(2) reads the pipes, feeds stdin, and waits for the ends of processes (pidfds), for
//! time limits and for signals: no thread, and no timer between a process's end and its result. A job is
//! its leader and all descendants; when the leader ends, so do they (`descend`), and what is in the pipes
//! by then is its output. This file knows nothing of what is run or why.

pub mod capture;
mod descend;
pub mod job;
mod launch;

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal as Kill, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group,
    pidfd_open, waitid,
};
use uuid::Uuid;

use self::capture::Capture;
use self::descend::{Leader, MARK};
use self::job::{Finished, Job, JobId, Outcome, Output, StartError, Stdin};
use crate::exit::Signal;
use crate::sys::interrupt::Interrupts;

/// The bytes read at once.
const CHUNK: usize = 64 * 1024;

/// The most that is still read once all writers should be gone; the kernel lets a pipe hold 1 MiB.
const LEFTOVER: u64 = 16 << 20;

/// All leaders that run in this process, whichever [`Jobs`] they belong to: none may be taken for another's orphan.
static LEADERS: Mutex<Vec<Leader>> = Mutex::new(Vec::new());

fn leaders() -> MutexGuard<'static, Vec<Leader>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Jobs that run side by side. Those still running when this is dropped are killed.
#[derive(Debug, Default)]
pub struct Jobs {
    running: Vec<Running>,
    started: u64,
    chunk: Vec<u8>,
}

#[derive(Debug)]
struct Running {
    id: JobId,
    leader: Leader,
    pidfd: OwnedFd,
    started: Instant,
    deadline: Option<Instant>,
    grace: Duration,
    limit: u64,
    stdin: Option<Feed>,
    stdout: Stream,
    stderr: Stream,
    /// Set once the job has been told to end: as what it counts, and when it is killed.
    ending: Option<(Outcome, Option<Instant>)>,
}

#[derive(Debug)]
struct Feed {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    at: usize,
}

#[derive(Debug)]
struct Stream {
    pipe: Option<OwnedFd>,
    capture: Capture,
}

/// What a descriptor in the poll set is.
#[derive(Clone, Copy)]
enum Slot {
    Interrupt,
    Leader(usize),
    Stdin(usize),
    Stdout(usize),
    Stderr(usize),
}

impl Jobs {
    /// None running.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Starts a job: its output is read, and its limits hold, while [`Jobs::next`] waits.
    pub fn start(&mut self, job: Job) -> Result<JobId, StartError> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            launch::keep_inherited_descriptors();
            descend::adopt_orphans();
        });
        let running = Running::start(job, JobId(self.started))?;
        self.started += 1;
        self.running.push(running);
        Ok(JobId(self.started - 1))
    }

    /// Waits for the next job to end: the first to end is the first to be told. `None` when none runs. Once a
    /// signal is pending, all jobs are ended, and told one by one.
    pub fn next(&mut self, interrupts: &Interrupts) -> Option<Finished> {
        self.next_streaming(interrupts, &mut |_, _| ControlFlow::Continue(()))
    }

    /// The same, with each piece of stdout handed to `on_stdout` as it comes, before the result that counts it.
    /// `Break` ends that job.
    pub fn next_streaming(
        &mut self,
        interrupts: &Interrupts,
        on_stdout: &mut dyn FnMut(JobId, &[u8]) -> ControlFlow<()>,
    ) -> Option<Finished> {
        self.chunk.resize(CHUNK, 0);
        loop {
            if self.running.is_empty() {
                return None;
            }
            let pending = interrupts.pending();
            let now = Instant::now();
            for running in &mut self.running {
                running.look_at(now, pending);
            }
            let mut ended = None;
            for slot in self.wait(interrupts, pending.is_none(), now) {
                match slot {
                    Slot::Interrupt => {}
                    Slot::Leader(at) => ended = ended.or(Some(at)),
                    Slot::Stdin(at) => self.running[at].feed(),
                    Slot::Stdout(at) => {
                        let running = &mut self.running[at];
                        if let Some(bytes) = running.stdout.read(&mut self.chunk) {
                            let flow = on_stdout(running.id, &self.chunk[..bytes]);
                            running.has_read(flow);
                        }
                    }
                    Slot::Stderr(at) => {
                        let running = &mut self.running[at];
                        if running.stderr.read(&mut self.chunk).is_some() {
                            running.has_read(ControlFlow::Continue(()));
                        }
                    }
                }
            }
            if let Some(at) = ended {
                let running = self.running.remove(at);
                return Some(running.finish(&mut self.chunk, on_stdout));
            }
        }
    }

    /// Waits until something can be done, and says what, or until a time limit.
    fn wait(&self, interrupts: &Interrupts, watch_interrupts: bool, now: Instant) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut fds = Vec::new();
        let mut next_limit: Option<Instant> = None;
        if watch_interrupts {
            slots.push(Slot::Interrupt);
            fds.push(PollFd::new(interrupts, PollFlags::IN));
        }
        for (at, running) in self.running.iter().enumerate() {
            if let Some(feed) = &running.stdin {
                slots.push(Slot::Stdin(at));
                fds.push(PollFd::new(&feed.pipe, PollFlags::OUT));
            }
            if let Some(pipe) = &running.stdout.pipe {
                slots.push(Slot::Stdout(at));
                fds.push(PollFd::new(pipe, PollFlags::IN));
            }
            if let Some(pipe) = &running.stderr.pipe {
                slots.push(Slot::Stderr(at));
                fds.push(PollFd::new(pipe, PollFlags::IN));
            }
            slots.push(Slot::Leader(at));
            fds.push(PollFd::new(&running.pidfd, PollFlags::IN));
            let limit = match running.ending {
                Some((_, kill_at)) => kill_at,
                None => running.deadline,
            };
            next_limit = [next_limit, limit].into_iter().flatten().min();
        }
        let left = next_limit.map(|limit| limit.saturating_duration_since(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut fds, left.as_ref()).is_err() {
            // EINTR: whoever waits looks again at everything.
            return Vec::new();
        }
        slots
            .into_iter()
            .zip(fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(slot, _)| slot)
            .collect()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for running in self.running.drain(..) {
            let _ = kill_process_group(running.leader.pid, Kill::KILL);
            let _ = waitid(WaitId::PidFd(running.pidfd.as_fd()), WaitIdOptions::EXITED);
            running.end_descendants();
        }
    }
}

/// Runs one job to its end.
pub fn run(job: Job, interrupts: &Interrupts) -> Result<Finished, StartError> {
    run_streaming(job, interrupts, &mut |_| ControlFlow::Continue(()))
}

/// Runs one job to its end, with each piece of stdout handed over as it comes; `Break` ends it.
pub fn run_streaming(
    job: Job,
    interrupts: &Interrupts,
    on_stdout: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<Finished, StartError> {
    let mut jobs = Jobs::new();
    jobs.start(job)?;
    let finished = jobs.next_streaming(interrupts, &mut |_, chunk| on_stdout(chunk));
    Ok(finished.expect("one job was started, and next returns none only when none runs"))
}

impl Running {
    fn start(job: Job, id: JobId) -> Result<Self, StartError> {
        let program =
            job.argv.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let other = |error: &dyn std::fmt::Display| StartError::Other {
            program: program.clone(),
            why: error.to_string(),
        };
        let Some((name, arguments)) = job.argv.split_first() else {
            return Err(other(&"there is no program to run"));
        };
        let pipes = || -> io::Result<_> {
            let pipe = || pipe_with(PipeFlags::CLOEXEC).map(|(near, far)| (Some(near), Some(far)));
            let (stdout, stdout_end) = match job.output {
                Output::Merged | Output::Separate => pipe()?,
                Output::Inherited => (None, None),
            };
            let (stderr, stderr_end) = match job.output {
                Output::Merged => (None, stdout_end.as_ref().map(OwnedFd::try_clone).transpose()?),
                Output::Separate => pipe()?,
                Output::Inherited => (None, None),
            };
            let (stdin_end, stdin) = match &job.stdin {
                Stdin::Null | Stdin::Inherited => (None, None),
                Stdin::Bytes(_) => pipe()?,
            };
            // The near ends alone: what the job sees blocks as usual.
            for end in [&stdout, &stderr, &stdin].into_iter().flatten() {
                fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
            }
            Ok(((stdin_end, stdout_end, stderr_end), (stdin, stdout, stderr)))
        };
        let (far, (stdin_pipe, stdout, stderr)) = pipes().map_err(|error| other(&error))?;
        let (stdin_end, stdout_end, stderr_end) = far;
        let no_stdin = match &job.stdin {
            Stdin::Inherited => Stdio::inherit,
            Stdin::Null | Stdin::Bytes(_) => Stdio::null,
        };

        let mark = Uuid::new_v4().simple().to_string();
        let inherited =
            job.env.iter().find(|(name, _)| name == OsStr::new(MARK)).map(|(_, marks)| marks);
        let marks = inherited.map_or_else(OsString::new, |marks| {
            let mut marks = marks.clone();
            marks.push(":");
            marks
        });
        let mut marks = marks;
        marks.push(&mark);

        let mut command = Command::new(name);
        command.args(arguments).current_dir(&job.cwd).env_clear();
        command.envs(job.env.iter().map(|(name, value)| (name, value))).env(MARK, marks);
        command
            .stdin(stdin_end.map_or_else(no_stdin, Stdio::from))
            .stdout(stdout_end.map_or_else(Stdio::inherit, Stdio::from))
            .stderr(stderr_end.map_or_else(Stdio::inherit, Stdio::from));
        launch::in_own_session(&mut command);

        // Held until the leader is in the list, so that no other thread takes it for an orphan.
        let mut leaders = leaders();
        let started = Instant::now();
        let child = command.spawn().map_err(|error| job::explain(&error, &job, program.clone()))?;
        let pid = Pid::from_child(&child);
        let leader = Leader { pid, mark };
        leaders.push(leader.clone());
        drop(leaders);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
            // Without descriptors to spare nothing can be watched.
            let _ = kill_process_group(pid, Kill::KILL);
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            self::leaders().retain(|running| *running != leader);
            other(&error)
        })?;
        let stdin = match (stdin_pipe, job.stdin) {
            (Some(pipe), Stdin::Bytes(bytes)) => Some(Feed { pipe, bytes, at: 0 }),
            _ => None,
        };
        Ok(Self {
            id,
            leader,
            pidfd,
            started,
            deadline: job.timeout.and_then(|timeout| started.checked_add(timeout)),
            grace: job.grace,
            limit: job.limit,
            stdin,
            stdout: Stream {
                pipe: stdout,
                capture: Capture::new(job.keep, job.spool.clone(), job.nameless),
            },
            stderr: Stream {
                pipe: stderr,
                capture: Capture::new(job.keep, job.spool, job.nameless),
            },
            ending: None,
        })
    }

    /// Does what the time and a signal ask for.
    fn look_at(&mut self, now: Instant, pending: Option<Signal>) {
        match self.ending {
            None => {
                if let Some(signal) = pending {
                    self.end(Outcome::Interrupted(signal), now);
                } else if self.deadline.is_some_and(|deadline| deadline <= now) {
                    self.end(Outcome::TimedOut, now);
                }
            }
            Some((outcome, Some(kill_at))) if kill_at <= now => self.kill(outcome),
            Some(_) => {}
        }
    }

    /// Asks the job's processes to end, and kills them later.
    fn end(&mut self, outcome: Outcome, now: Instant) {
        self.ending = Some((outcome, Some(now + self.grace)));
        let _ = kill_process_group(self.leader.pid, Kill::TERM);
        // A stopped process takes no notice before it is continued.
        let _ = kill_process_group(self.leader.pid, Kill::CONT);
    }

    fn kill(&mut self, outcome: Outcome) {
        self.ending = Some((outcome, None));
        let _ = kill_process_group(self.leader.pid, Kill::KILL);
    }

    fn has_read(&mut self, flow: ControlFlow<()>) {
        if self.ending.is_some() {
            return;
        }
        if self.stdout.capture.bytes().saturating_add(self.stderr.capture.bytes()) > self.limit {
            self.kill(Outcome::TooMuch);
        } else if flow.is_break() {
            self.end(Outcome::Stopped, Instant::now());
        }
    }

    /// Writes as much of stdin as the pipe takes.
    fn feed(&mut self) {
        let Some(feed) = &mut self.stdin else { return };
        match rustix::io::write(&feed.pipe, feed.bytes.get(feed.at..).unwrap_or_default()) {
            Ok(written) => {
                feed.at += written;
                if feed.at < feed.bytes.len() {
                    return;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => return,
            // The job has closed its stdin: it wants no more.
            Err(_) => {}
        }
        self.stdin = None;
    }

    /// The leader has ended: ends the rest, reads what the pipes hold, and makes the result.
    fn finish(
        mut self,
        chunk: &mut [u8],
        on_stdout: &mut dyn FnMut(JobId, &[u8]) -> ControlFlow<()>,
    ) -> Finished {
        let took = self.started.elapsed();
        // While the leader is not reaped, its number and its group's are nobody else's.
        let _ = kill_process_group(self.leader.pid, Kill::KILL);
        let status = loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Err(Errno::INTR) => {}
                status => break status.ok().flatten(),
            }
        };
        self.end_descendants();

        // All writers are gone: the pipes end, or are empty.
        let end = self.stdout.capture.bytes().saturating_add(LEFTOVER);
        let mut wanted = true;
        while self.stdout.capture.bytes() < end
            && let Some(bytes) = self.stdout.read(chunk)
        {
            wanted = wanted && on_stdout(self.id, &chunk[..bytes]).is_continue();
        }
        let end = self.stderr.capture.bytes().saturating_add(LEFTOVER);
        while self.stderr.capture.bytes() < end && self.stderr.read(chunk).is_some() {}

        let outcome = match (self.ending, status) {
            (Some((outcome, _)), _) => outcome,
            (None, status) => outcome(status.as_ref()),
        };
        Finished {
            id: self.id,
            outcome,
            took,
            stdout: self.stdout.capture.finish(),
            stderr: self.stderr.capture.finish(),
        }
    }

    /// The leader is reaped: ends what it left.
    fn end_descendants(&self) {
        let mut leaders = leaders();
        leaders.retain(|running| *running != self.leader);
        descend::end_descendants(&self.leader, &leaders);
    }
}

impl Stream {
    /// Reads once into `chunk` and the capture. `None` when there is nothing now, or nothing any more.
    fn read(&mut self, chunk: &mut [u8]) -> Option<usize> {
        loop {
            match rustix::io::read(self.pipe.as_ref()?, &mut *chunk) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Ok(0) | Err(_) => {
                    self.pipe = None;
                    return None;
                }
                Ok(bytes) => {
                    self.capture.push(&chunk[..bytes]);
                    return Some(bytes);
                }
            }
        }
    }
}

fn outcome(status: Option<&WaitIdStatus>) -> Outcome {
    let signal = status.and_then(WaitIdStatus::terminating_signal);
    match signal {
        Some(signal) => Outcome::Killed { signal },
        None => Outcome::Ended { code: status.and_then(WaitIdStatus::exit_status).unwrap_or(-1) },
    }
}

#[cfg(test)]
mod tests;
