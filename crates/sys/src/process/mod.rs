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
        self.next_streaming(interrupts, &mut |_, _| ())
    }

    /// Waits for the next job to end, like [`Jobs::next_finished`], and passes each piece of stdout to `on_stdout` as
    /// soon as it is read.
    pub fn next_streaming(
        &mut self,
        interrupts: &Interrupts,
        on_stdout: &mut dyn FnMut(JobId, &[u8]),
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
                on_stdout(id, &[]);
            }
            self.wait(interrupts, pending.is_none());
            let mut ended = None;
            for (at, running) in self.running.iter_mut().enumerate() {
                // None of these waits.
                running.feed_stdin();
                if let Some(bytes) = running.stdout.read_chunk(&mut self.chunk) {
                    let next = self.pause.and_then(|pause| now.checked_add(pause));
                    self.look = self.look.or(next.map(|next| (next, running.id)));
                    on_stdout(running.id, &self.chunk[..bytes]);
                    running.check_output();
                }
                if running.stderr.read_chunk(&mut self.chunk).is_some() {
                    running.check_output();
                }
                if ended.is_none() && running.has_ended() {
                    ended = Some(at);
                }
            }
            if let Some(at) = ended {
                let running = self.running.remove(at);
                return Some(running.finish(&mut self.chunk, on_stdout));
            }
        }
    }

    /// Waits until something can be done or a time limit is reached.
    fn wait(&self, interrupts: &Interrupts, watches_signals: bool) {
        let mut until = self.look.map(|(at, _)| at);
        let mut fds = Vec::new();
        fds.extend(watches_signals.then(|| PollFd::new(interrupts, PollFlags::IN)));
        for running in &self.running {
            fds.extend(running.stdin.iter().map(|feed| PollFd::new(&feed.pipe, PollFlags::OUT)));
            let pipes = [&running.stdout.pipe, &running.stderr.pipe].into_iter().flatten();
            fds.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            fds.push(PollFd::new(&running.supervisor.socket, PollFlags::IN));
            until = [until, running.next_limit()].into_iter().flatten().min();
        }
        ready::wait(&mut fds, until);
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
    run_streaming(job, interrupts, None, &mut |_| ())
}

/// Runs one job to its end, and passes on each piece of stdout as soon as it is read. `pause` after
/// output, and not earlier again, `on_stdout` gets an empty piece.
pub fn run_streaming(
    job: Job,
    interrupts: &Interrupts,
    pause: Option<Duration>,
    on_stdout: &mut dyn FnMut(&[u8]),
) -> Result<Finished, StartError> {
    let mut jobs = Jobs::default();
    jobs.pause = pause;
    jobs.start(job)?;
    let finished = jobs.next_streaming(interrupts, &mut |_, chunk| on_stdout(chunk));
    Ok(finished.expect("one job was started, and next_streaming returns none only when none runs"))
}

#[cfg(test)]
mod tests;
