//! One job that runs: its pipes, its keeper, and how far its end has come. It waits for nothing but a keeper's end.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal as Kill, WaitId, WaitIdOptions, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};

use super::capture::Capture;
use super::job::{self, Finished, Job, JobId, Outcome, Output, StartError, Stdin};
use super::keeper::{self, Charge, Report};
use super::{descend, launch};
use crate::exit::Signal;
use crate::sys::env;

/// The most that is still read once all writers should be gone; the kernel lets a pipe hold 1 MiB.
const LEFTOVER: u64 = 16 << 20;

/// How often a keeper is continued, in case something has stopped it: then it would tell of no end.
const NUDGE: Duration = Duration::from_secs(1);

/// How long a keeper may take to end a job at once. It gives up by itself before.
pub(super) const DUE: Duration = keeper::PATIENCE.saturating_mul(2);

/// The keepers of all jobs in this process, whichever `Jobs` they belong to: none may be taken for an orphan.
static KEEPERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

pub(super) fn keepers() -> MutexGuard<'static, Vec<Pid>> {
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: JobId,
    keeper: Pid,
    /// The keeper's.
    pub(super) pidfd: OwnedFd,
    /// To the keeper: see `keeper`.
    orders: OwnedFd,
    pub(super) nudge_at: Instant,
    started: Instant,
    pub(super) deadline: Option<Instant>,
    grace: Duration,
    limit: u64,
    pub(super) stdin: Option<Feed>,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    /// Set once the job has been told to end.
    pub(super) ending: Option<Ending>,
}

/// How far the end of a job has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// As what it counts.
    outcome: Outcome,
    step: Step,
    /// When the next step is due.
    pub(super) next: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Its processes were asked to end.
    Asked,
    /// The keeper was told to kill them.
    Killed,
    /// The keeper was killed, since it did not.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Feed {
    pub(super) pipe: OwnedFd,
    bytes: Vec<u8>,
    at: usize,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) pipe: Option<OwnedFd>,
    pub(super) capture: Capture,
}

impl Running {
    pub(super) fn start(job: Job, id: JobId) -> Result<Self, StartError> {
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

        // Messages with an end: an order, a report.
        let (orders, keepers_end) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|error| other(&error))?;
        let mut command = Command::new(name);
        command.args(arguments).current_dir(&job.cwd).env_clear();
        command.envs(job.env.iter().map(|(name, value)| (name, value)));
        command
            .stdin(stdin_end.map_or_else(no_stdin, Stdio::from))
            .stdout(stdout_end.map_or_else(Stdio::inherit, Stdio::from))
            .stderr(stderr_end.map_or_else(Stdio::inherit, Stdio::from));
        let started = Instant::now();
        let charge = Charge { started, grace: job.grace, core: env::core_limit() };
        launch::under_keeper(&mut command, keepers_end, charge);

        // Held until the keeper is in the list, so that no other thread takes it for an orphan.
        let mut keepers = keepers();
        let child = command.spawn().map_err(|error| job::explain(&error, &job, program.clone()))?;
        let keeper = Pid::from_child(&child);
        keepers.push(keeper);
        drop(keepers);
        // With it goes this process's copy of the keeper's end.
        drop(command);
        let pidfd = pidfd_open(keeper, PidfdFlags::empty()).map_err(|error| {
            // Without descriptors to spare nothing can be watched.
            let _ = kill_process(keeper, Kill::KILL);
            let _ = waitid(WaitId::Pid(keeper), WaitIdOptions::EXITED);
            end_orphans(keeper);
            other(&error)
        })?;
        let stdin = match (stdin_pipe, job.stdin) {
            (Some(pipe), Stdin::Bytes(bytes)) => Some(Feed { pipe, bytes, at: 0 }),
            _ => None,
        };
        Ok(Self {
            id,
            keeper,
            pidfd,
            orders,
            nudge_at: started + NUDGE,
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
    pub(super) fn look_at(&mut self, now: Instant, pending: Option<Signal>) {
        if self.nudge_at <= now {
            self.nudge_at = now + NUDGE;
            let _ = pidfd_send_signal(&self.pidfd, Kill::CONT);
        }
        let Some(ending) = self.ending else {
            if let Some(signal) = pending {
                self.end(Outcome::Interrupted(signal), now);
            } else if self.deadline.is_some_and(|deadline| deadline <= now) {
                self.end(Outcome::TimedOut, now);
            }
            return;
        };
        if ending.next.is_some_and(|next| next <= now) {
            match ending.step {
                Step::Asked => self.kill(ending.outcome, now),
                Step::Killed | Step::GivenUp => self.give_up(ending.outcome),
            }
        }
    }

    /// Asks the job's processes to end, and has them killed later.
    fn end(&mut self, outcome: Outcome, now: Instant) {
        self.ending = Some(Ending { outcome, step: Step::Asked, next: Some(now + self.grace) });
        self.order(keeper::TERM);
    }

    pub(super) fn kill(&mut self, outcome: Outcome, now: Instant) {
        self.ending = Some(Ending { outcome, step: Step::Killed, next: Some(now + DUE) });
        self.order(keeper::KILL);
    }

    /// Does without a keeper that does not end: something keeps it stopped, or a process may not be signalled.
    pub(super) fn give_up(&mut self, outcome: Outcome) {
        self.ending = Some(Ending { outcome, step: Step::GivenUp, next: None });
        let _ = pidfd_send_signal(&self.pidfd, Kill::KILL);
    }

    fn order(&self, order: u8) {
        // Fails when the keeper has ended: its descriptor tells.
        let _ = send(&self.orders, &[order], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let _ = pidfd_send_signal(&self.pidfd, Kill::CONT);
    }

    /// Whether the keeper ends within this time.
    pub(super) fn has_ended(&self, time: Duration) -> bool {
        let time = Timespec::try_from(time).unwrap_or_default();
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&time))
            .is_ok_and(|ready| ready > 0)
    }

    pub(super) fn has_read(&mut self, flow: ControlFlow<()>) {
        if self.ending.is_some() {
            return;
        }
        if self.stdout.capture.bytes().saturating_add(self.stderr.capture.bytes()) > self.limit {
            self.kill(Outcome::TooMuch, Instant::now());
        } else if flow.is_break() {
            self.end(Outcome::Stopped, Instant::now());
        }
    }

    /// Writes as much of stdin as the pipe takes.
    pub(super) fn feed(&mut self) {
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

    /// The keeper has ended, and everything else with it: reads what the pipes hold, and makes the result.
    pub(super) fn finish(
        mut self,
        chunk: &mut [u8],
        on_stdout: &mut dyn FnMut(JobId, &[u8]) -> ControlFlow<()>,
    ) -> Finished {
        let by_now = self.started.elapsed();
        let (report, all_gone) = self.reap();

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

        let status = report.map_or(Err(Kill::KILL.as_raw()), |report| report.status);
        let outcome = match (self.ending, status) {
            (Some(ending), _) => ending.outcome,
            (None, Ok(code)) => Outcome::Ended { code },
            (None, Err(signal)) => Outcome::Killed { signal },
        };
        Finished {
            id: self.id,
            outcome,
            took: report.map_or(by_now, |report| report.took),
            all_gone,
            stdout: self.stdout.capture.finish(),
            stderr: self.stderr.capture.finish(),
        }
    }

    /// Reaps the keeper, and ends what it left, which is nothing unless it was killed. Its report, if it made one, and whether
    /// nothing is left.
    pub(super) fn reap(&mut self) -> (Option<Report>, bool) {
        let wait = || waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        while matches!(wait(), Err(Errno::INTR)) {}
        let report = Report::read(self.orders.as_fd());
        let mut all_gone = report.is_some_and(|report| report.all_gone);
        if all_gone {
            keepers().retain(|running| *running != self.keeper);
        } else {
            all_gone = end_orphans(self.keeper);
        }
        (report, all_gone)
    }
}

/// Ends what a keeper left that is reaped by now. False when some of it stays.
fn end_orphans(keeper: Pid) -> bool {
    let mut keepers = keepers();
    keepers.retain(|running| *running != keeper);
    descend::end_orphans(&keepers)
}

impl Stream {
    /// Reads once into `chunk` and the capture. `None` when there is nothing now, or nothing any more.
    pub(super) fn read(&mut self, chunk: &mut [u8]) -> Option<usize> {
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
