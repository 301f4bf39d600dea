//! The line on stderr that says how far a long piece of work is, and how long the rest may take. On a terminal only, not on
//! one that cannot move back, and not within the first second.

use std::time::Duration;

use crate::out;
use crate::sys::clock::Stopwatch;
use crate::sys::terminal;

/// Work up to this long is not worth a line.
const QUIET: Duration = Duration::from_secs(1);
/// The shortest time between two updates.
const PACE: Duration = Duration::from_millis(100);

/// The line. It is wiped when the value goes.
#[derive(Debug)]
pub struct Line {
    tool: &'static str,
    may_show: bool,
    started: Stopwatch,
    updated: Option<Stopwatch>,
}

impl Line {
    /// One that shows nothing yet.
    pub fn new(tool: &'static str) -> Self {
        let may_show = terminal::stderr_is_terminal() && !terminal::is_plain();
        Self { tool, may_show, started: Stopwatch::start(), updated: None }
    }

    /// So many are done, of so many. Call it as often as you like.
    pub fn at(&mut self, done: u64, of: u64, unit: &str) {
        let elapsed = self.started.elapsed();
        let is_due = self.updated.is_none_or(|watch| watch.elapsed() >= PACE);
        if self.may_show && elapsed >= QUIET && is_due {
            out::overwrite(&text(self.tool, done, of, unit, elapsed));
            self.updated = Some(Stopwatch::start());
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.updated.is_some() {
            out::overwrite("");
        }
    }
}

/// `nagent-x: 3 of 40 segments, about 2 min left`
fn text(tool: &str, done: u64, of: u64, unit: &str, elapsed: Duration) -> String {
    let mut text = format!("{tool}: {done} of {of} {unit}");
    if done > 0 && done < of {
        let seconds = elapsed.as_secs_f64() / done as f64 * (of - done) as f64;
        let left = if seconds < 90.0 {
            format!("{seconds:.0} s")
        } else if seconds < 5_400.0 {
            format!("{:.0} min", seconds / 60.0)
        } else {
            format!("{:.1} h", seconds / 3_600.0)
        };
        text.push_str(&format!(", about {left} left"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |done, of, seconds, expect: &str| {
            assert_eq!(text("t", done, of, "segments", Duration::from_secs(seconds)), expect);
        };
        check(0, 40, 5, "t: 0 of 40 segments");
        check(10, 40, 10, "t: 10 of 40 segments, about 30 s left");
        check(1, 40, 10, "t: 1 of 40 segments, about 6 min left");
        check(1, 4_000, 10, "t: 1 of 4000 segments, about 11.1 h left");
        check(40, 40, 10, "t: 40 of 40 segments");
    }
}
