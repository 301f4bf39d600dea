//! The time of day (always UTC), and stopwatches.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The present time as RFC 3339 in UTC to the second: `2026-11-21T22:40:00Z`.
pub fn now() -> String {
    format_time(since_epoch())
}

/// The time since 1970.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time since 1970 on the kernel's clock for files, which is late by up to a tick.
pub fn of_files() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.try_into().unwrap_or_default()
}

/// Formats a time since 1970 as RFC 3339 in UTC to the second, up to the year 9999.
pub fn format_time(since_epoch: Duration) -> String {
    let time = UNIX_EPOCH + since_epoch.min(Duration::from_secs(253_402_300_799));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The seconds since a time in RFC 3339; 0 where it is in the future, as clocks can be set back.
pub fn seconds_since(time: &str) -> u64 {
    let then = humantime::parse_rfc3339(time).unwrap_or_else(|_| SystemTime::now());
    then.elapsed().unwrap_or_default().as_secs()
}

/// A monotonic stopwatch, running from the start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start, without time that the machine slept.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_to_the_second() {
        let stamp = now();
        assert_eq!(stamp.len(), "2026-11-21T22:40:00Z".len(), "{stamp}");
        assert!(stamp.ends_with('Z') && humantime::parse_rfc3339(&stamp).is_ok());
        let century = Duration::from_hours(100 * 365 * 24);
        assert_eq!(format_time(90 * century), "9999-12-31T23:59:59Z");
    }
}
