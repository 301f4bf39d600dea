//! The time of day (always UTC), stopwatches, and waiting.

use std::time::{Duration, Instant, SystemTime};

use crate::exit::Signal;
use crate::sys::interrupt::Interrupts;

/// Now, as RFC 3339 in UTC to the second: `2026-11-21T22:40:00Z`.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// A monotonic stopwatch, running from the start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start. Time that the machine slept does not count.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits for `duration`, or until a signal asks to end: then that signal, at once.
pub fn sleep_interruptible(duration: Duration, interrupts: &Interrupts) -> Option<Signal> {
    interrupts.wait(Some(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_to_the_second() {
        let stamp = now();
        assert_eq!(stamp.len(), "2026-11-21T22:40:00Z".len(), "{stamp}");
        assert!(stamp.ends_with('Z') && humantime::parse_rfc3339(&stamp).is_ok());
    }

    #[test]
    fn a_sleep_ends_with_its_time_or_with_a_signal() {
        let interrupts = Interrupts::none();
        let watch = Stopwatch::start();
        assert_eq!(sleep_interruptible(Duration::from_millis(30), &interrupts), None);
        assert!(watch.elapsed() >= Duration::from_millis(30));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                interrupts.raise(Signal::Int);
            });
            let watch = Stopwatch::start();
            assert_eq!(
                sleep_interruptible(Duration::from_secs(20), &interrupts),
                Some(Signal::Int)
            );
            assert!(watch.elapsed() < Duration::from_secs(1));
        });
    }
}
