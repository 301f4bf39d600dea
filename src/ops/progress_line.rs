//! A line on a terminal that shows the progress of long work and how long it will take. Work that takes less than a second
//! shows nothing, and neither does a stderr that is not a terminal.

use std::time::Duration;

use crate::out;
use crate::sys::clock::Stopwatch;
use crate::sys::terminal;
use crate::view::columns;
use crate::view::figures::bytes;

/// Work that takes less than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);
/// The shortest time between two updates.
const PACE: Duration = Duration::from_millis(200);

/// The line. It is cleared when it is dropped.
#[derive(Debug)]
pub struct ProgressLine {
    tool: &'static str,
    is_shown: bool,
    started: Stopwatch,
    updated: Option<Stopwatch>,
}

impl ProgressLine {
    /// Starts measuring the work of a tool.
    pub fn new(tool: &'static str) -> Self {
        let is_shown = terminal::stderr_is_terminal() && terminal::can_overwrite();
        Self { tool, is_shown, started: Stopwatch::start(), updated: None }
    }

    /// Shows how much is done, in a unit with a name in the plural; `None`: in bytes.
    pub fn show_progress(&mut self, done: u64, of: u64, unit: Option<&str>) {
        self.print_due(|elapsed| progress_text(done, of, unit, elapsed));
    }

    /// Shows what the tool waits for.
    pub fn show_text(&mut self, words: &str) {
        self.print_due(|_| words.to_owned());
    }

    fn print_due(&mut self, text: impl FnOnce(Duration) -> String) {
        let elapsed = self.started.elapsed();
        let is_early = self.updated.is_some_and(|updated| updated.elapsed() < PACE);
        if self.is_shown && !is_early && elapsed >= QUIET {
            self.show_now(&text(elapsed));
        }
    }

    /// Shows what the tool begins, which takes long.
    pub fn show_now(&mut self, words: &str) {
        if self.is_shown {
            let line = format!("{}: {words}", self.tool);
            let width = terminal::width().saturating_sub(1);
            out::overwrite(&columns::truncate(&line, width));
            self.updated = Some(Stopwatch::start());
        }
    }

    /// Clears the line, before something else is printed.
    pub fn clear(&mut self) {
        if self.updated.take().is_some() {
            out::overwrite("");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `12.3 MB of 100.0 MB, 9 s left`
fn progress_text(done: u64, of: u64, unit: Option<&str>, elapsed: Duration) -> String {
    let so_far = match unit {
        None => format!("{} of {}", bytes(done), bytes(of)),
        Some(name) => format!("{done} of {of} {name}"),
    };
    if done == 0 || of <= done {
        return so_far;
    }
    let left = elapsed.as_secs_f64() * (of - done) as f64 / done as f64;
    let left = match left {
        left if left < 100.0 => format!("{:.0} s", left.ceil()),
        left if left < 6000.0 => format!("{:.0} min", (left / 60.0).ceil()),
        left => format!("{:.0} h", (left / 3600.0).ceil()),
    };
    format!("{so_far}, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |done, of, unit, seconds, expect: &str| {
            assert_eq!(progress_text(done, of, unit, Duration::from_secs(seconds)), expect);
        };
        check(12_300_000, 100_000_000, None, 2, "12.3 MB of 100.0 MB, 15 s left");
        check(3, 40, Some("segments"), 30, "3 of 40 segments, 7 min left");
        check(0, 40, Some("segments"), 30, "0 of 40 segments");
        check(40, 40, Some("segments"), 30, "40 of 40 segments");
        check(1, 40_000, Some("segments"), 30, "1 of 40000 segments, 334 h left");
    }
}
