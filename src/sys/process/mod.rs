//! One engine for every process that nagent starts: shell actions, child nagents, tools that describe
//! themselves, command-line providers.
//!
//! One loop over poll(2) reads the pipes, feeds stdin, and waits for the ends of processes (pidfds), for
//! time limits and for signals: no thread, and no timer between a process's end and its result. A job is
//! its leader and all descendants; when the leader ends, so do they (`keeper`; `descend` where a keeper was
//! killed), and what is in the pipes by then is its output. This file knows nothing of what is run or why.

pub mod capture;
mod descend;
pub mod job;
mod keeper;
mod launch;

mod running;

use std::ops::ControlFlow;
use std::sync::Once;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::job::{Finished, Job, JobId, Outcome, StartError};
use self::running::{DUE, Running};
use crate::sys::interrupt::Interrupts;

/// The bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Jobs that run side by side. Those still running when this is dropped are killed.
#[derive(Debug, Default)]
pub struct Jobs {
    running: Vec<Running>,
    started: u64,
    chunk: Vec<u8>,
}

/// What a descriptor in the poll set is.
#[derive(Clone, Copy)]
enum Slot {
    Interrupt,
    Keeper(usize),
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
                    Slot::Keeper(at) => ended = ended.or(Some(at)),
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
            slots.push(Slot::Keeper(at));
            fds.push(PollFd::new(&running.pidfd, PollFlags::IN));
            let limit = match running.ending {
                Some(ending) => ending.next,
                None => running.deadline,
            };
            next_limit = [next_limit, limit, Some(running.nudge_at)].into_iter().flatten().min();
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
        for running in &mut self.running {
            running.kill(Outcome::Stopped, Instant::now());
        }
        for mut running in self.running.drain(..) {
            let end = Instant::now() + DUE;
            let mut left = Some(DUE);
            while let Some(time) = left
                && !running.has_ended(time)
            {
                left = end.checked_duration_since(Instant::now());
            }
            if left.is_none() {
                running.give_up(Outcome::Stopped);
            }
            running.reap();
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

#[cfg(test)]
mod tests;
