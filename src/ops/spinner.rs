//! A line on the terminal that turns while something takes long, with its seconds. It disappears when that ends.
//!
//! A thread draws it, since the run itself waits in the kernel meanwhile. It holds the lock while it writes, so that no
//! other line gets into the middle of this one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::out;
use crate::sys::clock::Stopwatch;
use crate::sys::terminal;
use crate::view::columns;
use crate::view::figures::bytes;

/// What takes less than this shows nothing.
const QUIET: Duration = Duration::from_millis(500);
/// The time between two pictures.
const PACE: Duration = Duration::from_millis(100);
const PICTURES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The line.
#[derive(Default)]
pub(super) struct Spinner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    work: Option<Work>,
    is_drawn: bool,
    picture: usize,
    is_over: bool,
}

struct Work {
    name: String,
    started: Stopwatch,
    /// How much of a reply has come.
    bytes: u64,
}

impl Spinner {
    /// Begins to wait for some work.
    pub(super) fn start(&mut self, name: &str) {
        let mut state = self.shared.lock();
        state.work = Some(Work { name: name.to_owned(), started: Stopwatch::start(), bytes: 0 });
        drop(state);
        self.shared.changed.notify_one();
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            // Without a thread there is no spinner.
            self.thread = thread::Builder::new().spawn(move || shared.draw()).ok();
        }
    }

    /// Shows how much has come of what is waited for.
    pub(super) fn set_bytes(&self, bytes: u64) {
        if let Some(work) = &mut self.shared.lock().work {
            work.bytes = bytes;
        }
    }

    /// The work has ended: the line is gone.
    pub(super) fn stop(&self) {
        let mut state = self.shared.lock();
        state.work = None;
        state.clear();
    }

    /// Prints something in place of the line, which comes back below it if the work goes on.
    pub(super) fn print_above(&self, print: impl FnOnce()) {
        let mut state = self.shared.lock();
        state.clear();
        print();
        drop(state);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.clear();
        state.is_over = true;
        drop(state);
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            out::overwrite("");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let State { work, is_drawn, picture, .. } = &mut *state;
            let wait = match work {
                None => Duration::MAX,
                Some(work) => match QUIET.checked_sub(work.started.elapsed()) {
                    Some(left) if !left.is_zero() => left,
                    _ => {
                        *picture = (*picture + 1) % PICTURES.len();
                        let line = format!("{} {}", PICTURES[*picture], work.text());
                        let width = terminal::width().saturating_sub(1);
                        out::overwrite(&columns::truncate(&line, width));
                        *is_drawn = true;
                        PACE
                    }
                },
            };
            state = if wait == Duration::MAX {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.changed.wait_timeout(state, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl Work {
    /// `model 12 s, 4.1 KB`
    fn text(&self) -> String {
        let seconds = self.started.elapsed().as_secs();
        let came = if self.bytes > 0 { format!(", {}", bytes(self.bytes)) } else { String::new() };
        format!("{} {seconds} s{came}", self.name)
    }
}
