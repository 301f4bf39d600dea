//! Runs several nagents, a limited number at the same time, and passes on their events and ends.

use std::ops::ControlFlow;

use crate::drive::nagent_child::ChildLines;
use sys::interrupt::Interrupts;
use sys::process::Jobs;
use sys::process::job::{Finished, Job, JobId};

/// Several nagents: chooses the next to start, and takes their lines and ends.
pub(crate) trait Batch {
    /// The next one to start, with its number. `None`: all were started, or no more may be.
    fn next_job(&mut self) -> Option<(usize, Job)>;

    /// Whether they report what they do, line by line.
    fn is_followed(&self) -> bool {
        false
    }

    /// A line that one reports.
    fn on_line(&mut self, _number: usize, _line: &str) {}

    /// Takes the end of one, or why it was not started.
    fn on_end(&mut self, number: usize, ended: Result<Finished, String>);
}

/// Runs them all. After a signal no more are started, and the running ones are ended.
pub(crate) fn run_batch(batch: &mut dyn Batch, at_once: u64, interrupts: &Interrupts) {
    let at_once = usize::try_from(at_once).unwrap_or(1).max(1);
    let (mut jobs, mut running): (_, Vec<(JobId, usize, ChildLines)>) = (Jobs::new(), Vec::new());
    let is_followed = batch.is_followed();
    loop {
        while jobs.running() < at_once && interrupts.pending().is_none() {
            let Some((number, job)) = batch.next_job() else { break };
            match jobs.start(job) {
                Ok(id) => running.push((id, number, ChildLines::default())),
                Err(error) => batch.on_end(number, Err(error.to_string())),
            }
        }
        let mut on_stdout = |id: JobId, bytes: &[u8]| {
            let mut found =
                running.iter_mut().filter(|(running, ..)| is_followed && *running == id);
            if let Some((_, number, lines)) = found.next() {
                lines.push(bytes, &mut |line| batch.on_line(*number, line));
            }
            ControlFlow::Continue(())
        };
        let Some(mut finished) = jobs.next_streaming(interrupts, &mut on_stdout) else { return };
        let Some(at) = running.iter().position(|(id, ..)| *id == finished.id) else { continue };
        let (_, number, lines) = running.swap_remove(at);
        if is_followed {
            finished.stdout = lines.answer;
        }
        batch.on_end(number, Ok(finished));
    }
}
