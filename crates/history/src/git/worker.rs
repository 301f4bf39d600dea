//! Reads a repository in a thread that is abandoned if it does not end: a FIFO in place of an object, a disk that does
//! not answer or a file of a terabyte must not block nagent, and libgit2 cannot be interrupted.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use sys::clock::Stopwatch;

/// The interval at which the waiting thread checks signals and the time.
const TICK: Duration = Duration::from_millis(50);

/// Runs `work` in a thread. `None` if the time is over or `keep_waiting` returns false; the thread is then abandoned.
pub(super) fn run_in_worker<T: Send + 'static>(
    time: Duration,
    keep_waiting: &mut dyn FnMut() -> bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = sync_channel(1);
    // If the thread was abandoned, there is no receiver any more.
    thread::Builder::new().spawn(move || drop(sender.send(work()))).ok()?;
    let started = Stopwatch::start();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if started.elapsed() < time && keep_waiting() => {}
            Err(_) => return None,
        }
    }
}
