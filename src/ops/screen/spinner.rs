//! A line on the terminal that turns while something takes long, with its seconds and its progress, below the last lines
//! that a running command has printed. All of it disappears when that ends.
//!
//! Nothing is drawn while the process is in the background: the terminal belongs to the shell then.
//!
//! A thread draws it, since the work itself waits in the kernel or counts. It holds the lock while it writes, so that no
//! other line gets into the middle of this one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::out;
use conversation::format::columns;
use sys::clock::Stopwatch;
use sys::interrupt::ResumeWatch;
use sys::terminal;
use sys::tty::HiddenTyping;
use view::render::earlier_row;
use view::style::{DIM, PLAIN, Span};

/// Work that takes less than this shows nothing.
const QUIET: Duration = Duration::from_millis(500);
/// The time between two frames.
const PACE: Duration = Duration::from_millis(100);
/// Number of frames that are left out while a window is resized: tmux tells its new width up to 250 ms late, and until then it
/// is not known how many rows there are.
const RESIZED: usize = 3;
/// Number of lines of a running command that are shown.
pub const LIVE_LINES: usize = 3;
const PICTURES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The tries of a request. The same error five times says no more than once, so the line counts them.
#[derive(Debug, Default)]
pub struct Tries {
    error: String,
    failures: u32,
}

impl Tries {
    /// Counts a failure. Whether its error is another one than the last.
    pub fn add(&mut self, error: &str) -> bool {
        self.failures += 1;
        std::mem::replace(&mut self.error, error.to_owned()) != error
    }

    /// The name of the work: `model`, later `model (try 2)`.
    pub fn name(&self) -> String {
        match self.failures {
            0 => "model".to_owned(),
            failures => format!("model (try {})", failures + 1),
        }
    }
}

/// The line. Where it is not shown, it does nothing.
#[derive(Debug)]
pub struct Spinner {
    shared: Option<Arc<Shared>>,
    thread: OnceLock<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SpinnerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SpinnerState {
    work: Option<SpinnerWork>,
    /// The rows above the line, by the names of the children that they are of.
    rows: BTreeMap<Vec<String>, Vec<Span>>,
    /// The end of what is typed meanwhile.
    typed: Option<Span>,
    /// Keeps what is typed from getting between the rows. A session reads it, and shows it below them.
    hidden: Option<HiddenTyping>,
    drawn: DrawnRows,
    /// The width of the window, and for how many frames more nothing is drawn since it has changed.
    window: (usize, usize),
    picture: usize,
    is_over: bool,
}

#[derive(Debug)]
struct SpinnerWork {
    /// Its name; empty for a command, which is shown above.
    name: String,
    started: Stopwatch,
    /// The text after its seconds.
    note: String,
}

impl Spinner {
    /// A spinner that shows nothing yet, and never does if stderr is not a terminal that can overwrite a line.
    pub fn new(is_wanted: bool) -> Self {
        let is_shown = is_wanted && terminal::stderr_is_terminal() && terminal::can_overwrite();
        Self { shared: is_shown.then(Arc::default), thread: OnceLock::new() }
    }

    /// Whether it can be shown at all.
    pub fn is_shown(&self) -> bool {
        self.shared.is_some()
    }

    /// Begins to wait for a command.
    pub fn start_command(&self) {
        self.start("");
        self.set_note(" · Ctrl-C stops it".to_owned());
    }

    /// Shows the end of the output of a running command, that of a child's with its name.
    pub fn show_output(&self, children: &[String], lines: &[String], lines_before: u64) {
        let Some(shared) = &self.shared else { return };
        let name = children.last().map(|name| format!("[{name}] ")).unwrap_or_default();
        let earlier = earlier_row(lines_before).filter(|_| children.is_empty());
        let lines = lines.iter().map(|line| Span::new(format!("  {name}{line}"), DIM));
        let rows = earlier.into_iter().chain(lines).collect();
        shared.lock_state().rows.insert(children.to_vec(), rows);
    }

    /// Forgets the output of a command that has ended.
    pub fn end_output(&self, children: &[String]) {
        let Some(shared) = &self.shared else { return };
        shared.lock_state().rows.remove(children);
    }

    /// Begins to wait for some work.
    pub fn start(&self, name: &str) {
        let Some(shared) = &self.shared else { return };
        let (name, started) = (name.to_owned(), Stopwatch::start());
        let mut state = shared.lock_state();
        state.rows.clear();
        state.hide_typing();
        state.work = Some(SpinnerWork { name, started, note: String::new() });
        drop(state);
        shared.changed.notify_one();
        self.thread.get_or_init(|| {
            let shared = Arc::clone(shared);
            // Without a thread there is no spinner.
            thread::Builder::new().spawn(move || shared.draw_until_stopped()).ok()
        });
    }

    /// Does some work, and shows the line meanwhile.
    pub fn during<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        self.start(name);
        let done = work();
        self.stop();
        done
    }

    /// Shows text after the seconds, in place of an earlier one.
    pub fn set_note(&self, note: String) {
        let Some(shared) = &self.shared else { return };
        shared.lock_state().work.iter_mut().for_each(|work| work.note.clone_from(&note));
    }

    /// Shows what is typed meanwhile below the line: the end of it, if it is long.
    pub fn show_typed(&self, text: &str) {
        let Some(shared) = &self.shared else { return };
        let room = terminal::width().saturating_sub(3);
        let text = text.rsplit('\n').next().unwrap_or_default().replace('\t', " ");
        let text = columns::truncate_left(&text, room);
        let typed = (!text.is_empty()).then(|| Span::new(format!("» {text}"), PLAIN));
        shared.lock_state().typed = typed;
    }

    /// Removes the line, since the work has ended.
    pub fn stop(&self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock_state();
        state.work = None;
        state.rows.clear();
        state.drawn.clear();
    }

    /// Prints something in place of the line, which comes back below it if the work goes on.
    pub fn print_above(&self, print: impl FnOnce()) {
        let Some(shared) = &self.shared else { return print() };
        let mut state = shared.lock_state();
        state.drawn.clear();
        print();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.lock_state();
        state.drawn.clear();
        state.is_over = true;
        drop(state);
        shared.changed.notify_one();
        if let Some(thread) = self.thread.take().flatten() {
            let _ = thread.join();
        }
    }
}

impl SpinnerState {
    fn hide_typing(&mut self) {
        self.hidden = self.hidden.take().or_else(HiddenTyping::start);
    }

    fn draw(&mut self) {
        if !terminal::is_foreground() {
            return self.drawn = DrawnRows::default();
        }
        self.hide_typing();
        let Some(work) = &self.work else { return };
        let width = terminal::width();
        if self.window.0 != width {
            let is_first = self.window.0 == 0;
            self.window = (width, if is_first { 0 } else { RESIZED });
        }
        if self.window.1 > 0 {
            self.window.1 -= 1;
            return;
        }
        self.picture = (self.picture + 1) % PICTURES.len();
        let seconds = work.started.elapsed().as_secs();
        // `model 12 s`, `model 12 s, 4.1 KB`, `split 2 s, 12.3 MB of 100.0 MB`
        let line = format!("{} {seconds} s{}", work.name, work.note);
        let line = format!("{} {}", PICTURES[self.picture], line.trim_start());
        let most = (LIVE_LINES + 1).min(terminal::height().saturating_sub(3));
        // Of several children the last line each.
        let each = if self.rows.len() > 1 { 1 } else { most };
        let last = self.rows.values().flat_map(|it| &it[it.len().saturating_sub(each)..]);
        let rows: Vec<&Span> = last.collect();
        let rows = rows[rows.len().saturating_sub(most)..].iter().map(|row| (*row).clone());
        let rows = rows.chain([Span::new(line, &[])]).chain(self.typed.clone());
        self.drawn.replace(rows.collect());
    }
}

/// Rows at the end of what a terminal shows, which are drawn again in place.
#[derive(Debug, Default)]
pub struct DrawnRows {
    /// Their widths.
    widths: Vec<usize>,
}

impl DrawnRows {
    /// Removes them.
    pub fn clear(&mut self) {
        // In the background what was drawn is out of reach.
        if !self.widths.is_empty() && terminal::is_foreground() {
            let above = self.count_rows().saturating_sub(1);
            out::print_codes(&format!("\r\x1b[K{}", "\x1b[A\x1b[K".repeat(above)));
        }
        *self = Self::default();
    }

    /// The number of rows of the terminal that it takes. Where the window has become narrower, they were wrapped.
    fn count_rows(&self) -> usize {
        let columns = terminal::width();
        self.widths.iter().map(|width| width.div_ceil(columns).max(1)).sum()
    }

    /// Draws other rows in their place, each cut to the width of the window.
    pub fn replace(&mut self, mut rows: Vec<Span>) {
        let width = terminal::width().saturating_sub(1);
        for row in &mut rows {
            row.text = columns::truncate(&row.text, width);
        }
        let lines: Vec<String> = rows
            .iter()
            .map(|row| out::style_spans(std::slice::from_ref(row), terminal::has_colours()))
            .collect();
        let before = self.count_rows();
        let up = if before > 1 { format!("\x1b[{}A", before - 1) } else { String::new() };
        // Nothing is cleared from the top of the screen on: a terminal may keep what was there in its history, each time.
        let rest = if before > lines.len() { "\x1b[J" } else { "" };
        out::print_codes(&format!("\r{up}\x1b[K{}{rest}", lines.join("\n\x1b[K")));
        self.widths = rows.iter().map(|row| columns::width(&row.text)).collect();
    }
}

impl Shared {
    fn lock_state(&self) -> MutexGuard<'_, SpinnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw_until_stopped(&self) {
        let resumed = ResumeWatch::start();
        let mut state = self.lock_state();
        while !state.is_over {
            if resumed.take() {
                // The shell has written below it, and has set its own modes.
                state.drawn = DrawnRows::default();
                state.hidden = None;
            }
            let wait = match &state.work {
                None => Duration::MAX,
                Some(work) => match QUIET.checked_sub(work.started.elapsed()) {
                    Some(left) if !left.is_zero() => left,
                    _ => {
                        state.draw();
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
