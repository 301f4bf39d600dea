//! Reads a repository in a thread that is left behind when it does not end: a FIFO in place of an object, a disk that does
//! not answer or a file of a terabyte must not keep nagent waiting, and libgit2 cannot be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use sys::clock::Stopwatch;

/// How often the waiting thread looks at signals and the time.
const TICK: Duration = Duration::from_millis(50);

/// How long to wait for a thread that reads a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// This long in all.
    Total(Duration),
    /// As long as it makes progress at least this often.
    Idle(Duration),
}

/// Counts what the worker has read, so that the waiting thread sees its progress.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU64);

impl Progress {
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `work` in a thread. `None`, with the thread left behind, when patience ends or `keep_waiting` says so.
pub(super) fn run_in_worker<T: Send + 'static>(
    patience: Patience,
    keep_waiting: &mut dyn FnMut() -> bool,
    work: impl FnOnce(&Progress) -> T + Send + 'static,
) -> Option<T> {
    let progress = Arc::new(Progress::default());
    let (sender, receiver) = sync_channel(1);
    let own = Arc::clone(&progress);
    // Nobody listens any more when the thread was left behind.
    let worker = thread::Builder::new().spawn(move || drop(sender.send(work(&own))));
    worker.ok()?;
    let (mut waited, mut last) = (Stopwatch::start(), 0);
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = progress.0.load(Ordering::Relaxed);
        let limit = match patience {
            Patience::Total(limit) => limit,
            Patience::Idle(limit) => {
                if now != last {
                    (waited, last) = (Stopwatch::start(), now);
                }
                limit
            }
        };
        if waited.elapsed() >= limit || !keep_waiting() {
            return None;
        }
    }
}
