//! Runs processes: shell commands, child conversations, tools that describe themselves,
//! command-line providers.
//!
//! One loop over poll(2) reads the pipes, feeds stdin, and waits for processes to end (pidfds), for time limits and for
//! signals: there is no thread, and no timer between the end of a process and its result. A job is a command with all
//! of its descendants; when the command ends, so do they (`supervisor`), and the rest of its output is what the pipes
//! hold then.

pub mod capture;
pub mod job;
pub mod kept;
mod leader;
mod request;
pub mod restriction;
mod running;
mod supervisor;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use self::job::{Finished, Job, JobId, JobOutcome, StartError};
use self::running::{END_LIMIT, RunningJob};
use crate::interrupt::Interrupts;
use crate::ready;

/// Number of bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Jobs that run in parallel. Those still running when this is dropped are killed.
#[derive(Debug, Default)]
pub struct Jobs {
    running: Vec<RunningJob>,
    started: u64,
    chunk: Vec<u8>,
    /// The time after output at which the caller gets an empty piece: it can look at what has come, as seldom as that.
    pause: Option<Duration>,
    /// The time of the next empty piece, and the job whose output it follows.
    look: Option<(Instant, JobId)>,
}

/// The owner of a descriptor in the poll set.
#[derive(Clone, Copy)]
enum PollSource {
    Interrupt,
    Supervisor(usize),
    Stdin(usize),
    Stdout(usize),
    Stderr(usize),
}

impl Jobs {
    /// Returns the number of running jobs.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Starts a job. Its output is read and its limits hold while [`Jobs::next_finished`] waits.
    pub fn start(&mut self, job: Job) -> Result<JobId, StartError> {
        let running = RunningJob::start(job, JobId(self.started))?;
        self.started += 1;
        self.running.push(running);
        Ok(JobId(self.started - 1))
    }

    /// Waits for the next job to end. `None` when none runs. Once a signal is pending, all jobs are ended and returned
    /// one by one.
    pub fn next_finished(&mut self, interrupts: &Interrupts) -> Option<Finished> {
        self.next_streaming(interrupts, &mut |_, _| ControlFlow::Continue(()))
    }

    /// Waits for the next job to end, like [`Jobs::next_finished`], and passes each piece of stdout to `on_stdout` as
    /// soon as it is read. `Break` ends that job.
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
                running.check_limits(now, pending);
            }
            if let Some((_, id)) = self.look.take_if(|(at, _)| *at <= now) {
                let _ = on_stdout(id, &[]);
            }
            let mut ended = None;
            for source in self.poll_sources(interrupts, pending.is_none()) {
                match source {
                    PollSource::Interrupt => {}
                    PollSource::Supervisor(at) => {
                        ended = ended.or_else(|| self.running[at].has_ended().then_some(at));
                    }
                    PollSource::Stdin(at) => self.running[at].feed_stdin(),
                    PollSource::Stdout(at) => {
                        let running = &mut self.running[at];
                        if let Some(bytes) = running.stdout.read_chunk(&mut self.chunk) {
                            let at = self.pause.and_then(|pause| now.checked_add(pause));
                            self.look = self.look.or(at.map(|at| (at, running.id)));
                            let flow = on_stdout(running.id, &self.chunk[..bytes]);
                            running.check_output(flow);
                        }
                    }
                    PollSource::Stderr(at) => {
                        let running = &mut self.running[at];
                        if running.stderr.read_chunk(&mut self.chunk).is_some() {
                            running.check_output(ControlFlow::Continue(()));
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

    /// Waits until something can be done or a time limit is reached, and returns the sources that are ready.
    fn poll_sources(&self, interrupts: &Interrupts, watch_interrupts: bool) -> Vec<PollSource> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut next_limit = self.look.map(|(at, _)| at);
        if watch_interrupts {
            sources.push(PollSource::Interrupt);
            fds.push(PollFd::new(interrupts, PollFlags::IN));
        }
        for (at, running) in self.running.iter().enumerate() {
            if let Some(feed) = &running.stdin {
                sources.push(PollSource::Stdin(at));
                fds.push(PollFd::new(&feed.pipe, PollFlags::OUT));
            }
            if let Some(pipe) = &running.stdout.pipe {
                sources.push(PollSource::Stdout(at));
                fds.push(PollFd::new(pipe, PollFlags::IN));
            }
            if let Some(pipe) = &running.stderr.pipe {
                sources.push(PollSource::Stderr(at));
                fds.push(PollFd::new(pipe, PollFlags::IN));
            }
            sources.push(PollSource::Supervisor(at));
            fds.push(PollFd::new(&running.supervisor.socket, PollFlags::IN));
            next_limit = [next_limit, running.next_limit()].into_iter().flatten().min();
        }
        ready::wait(&mut fds, next_limit);
        let ready = sources.into_iter().zip(fds).filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|(source, _)| source).collect()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for running in &mut self.running {
            running.kill_job(JobOutcome::Stopped, Instant::now());
        }
        for mut running in self.running.drain(..) {
            if !running.has_ended_within(END_LIMIT) {
                running.kill_supervisor(JobOutcome::Stopped);
            }
            running.release();
        }
    }
}

/// Runs one job to its end.
pub fn run(job: Job, interrupts: &Interrupts) -> Result<Finished, StartError> {
    run_streaming(job, interrupts, None, &mut |_| ControlFlow::Continue(()))
}

/// Runs one job to its end, and passes on each piece of stdout as soon as it is read; `Break` ends the job. `pause` after
/// output, and not earlier again, `on_stdout` gets an empty piece.
pub fn run_streaming(
    job: Job,
    interrupts: &Interrupts,
    pause: Option<Duration>,
    on_stdout: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<Finished, StartError> {
    let mut jobs = Jobs::default();
    jobs.pause = pause;
    jobs.start(job)?;
    let finished = jobs.next_streaming(interrupts, &mut |_, chunk| on_stdout(chunk));
    Ok(finished.expect("one job was started, and next_streaming returns none only when none runs"))
}

#[cfg(test)]
mod tests;
