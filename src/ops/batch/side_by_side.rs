//! Runs several nagents, a limited number at the same time, and passes on their ends.

use sys::interrupt::Interrupts;
use sys::process::Jobs;
use sys::process::job::{Finished, Job, JobId};

/// Several nagents: chooses the next to start, and takes their ends.
pub(crate) trait Batch {
    /// The next one to start, with its number. `None`: all were started, or no more may be.
    fn next_job(&mut self) -> Option<(usize, Job)>;

    /// Takes the end of one, or why it was not started.
    fn on_end(&mut self, number: usize, ended: Result<Finished, String>);
}

/// Runs them all. After a signal no more are started, and the running ones are ended.
pub(crate) fn run_batch(batch: &mut dyn Batch, at_once: u64, interrupts: &Interrupts) {
    let at_once = usize::try_from(at_once).unwrap_or(1).max(1);
    let (mut jobs, mut running): (_, Vec<(JobId, usize)>) = (Jobs::default(), Vec::new());
    loop {
        while jobs.running() < at_once && interrupts.pending().is_none() {
            let Some((number, job)) = batch.next_job() else { break };
            match jobs.start(job) {
                Ok(id) => running.push((id, number)),
                Err(error) => batch.on_end(number, Err(error.to_string())),
            }
        }
        let Some(finished) = jobs.next_finished(interrupts) else { return };
        let Some(at) = running.iter().position(|(id, _)| *id == finished.id) else { continue };
        let (_, number) = running.swap_remove(at);
        batch.on_end(number, Ok(finished));
    }
}
