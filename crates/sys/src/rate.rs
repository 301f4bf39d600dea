//! Limits requests per minute, over all processes of a root.
//!
//! `rate.json` has the times of the last minute's requests, in seconds since 1970, under a lock in the same folder as
//! those of conversations. Times in the future are ignored: the clock was set back.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use super::atomic_file::AtomicFile;
use super::interrupt::Interrupts;
use super::lock::{LockError, lock_briefly};
use super::root::Root;
use super::{clock, fs};

const MINUTE: f64 = 60.0;

/// Minimum wait for this lock, which is held for moments only: `--lock-timeout 0` is about runs.
const MIN_PATIENCE: Duration = Duration::from_secs(1);

/// A limit of requests.
#[derive(Debug, Clone)]
pub struct RateLimit {
    folder: PathBuf,
    per_minute: usize,
    patience: Duration,
}

impl RateLimit {
    /// Limits the requests of all processes that use this root. `patience` is the maximum wait for another process that
    /// uses the file.
    pub fn new(root: &Root, per_minute: u64, patience: Duration) -> Self {
        let per_minute = usize::try_from(per_minute).unwrap_or(usize::MAX);
        Self { folder: root.path().to_owned(), per_minute, patience: patience.max(MIN_PATIENCE) }
    }

    /// Waits until a request may be sent, and counts it; `report` gets the reason of the wait.
    ///
    /// # Errors
    /// A signal came, or the times cannot be locked, read or written.
    pub fn wait_for_turn(
        &self,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Result<(), LockError> {
        loop {
            let Some(wait) = self.take_turn(interrupts, report)? else { return Ok(()) };
            let seconds = wait.as_secs_f64();
            report(&format!(
                "waiting {seconds:.0} s before the next request, for \"requests_per_minute\""
            ));
            if let Some(signal) = interrupts.wait_for_signal(Some(wait)) {
                return Err(LockError::Interrupted(signal));
            }
        }
    }

    /// Counts a request, or returns the time to wait until one is allowed.
    fn take_turn(
        &self,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&str),
    ) -> Result<Option<Duration>, LockError> {
        let locks = self.folder.join("conversations/.locks");
        for folder in [&self.folder, &self.folder.join("conversations"), &locks] {
            fs::create_private_folder(folder)?;
        }
        let _lock = lock_briefly(&locks.join("rate.json"), self.patience, interrupts, report)?;
        let path = self.folder.join("rate.json");
        let text = fs::read_text(&path, 1 << 20).ok().flatten().unwrap_or_default();
        let now = clock::since_epoch().as_secs_f64();
        let mut times: Vec<f64> = serde_json::from_str(&text).unwrap_or_default();
        times.retain(|time| *time <= now && *time > now - MINUTE);
        if times.len() >= self.per_minute {
            let wait = times[times.len() - self.per_minute] + MINUTE - now;
            return Ok(Some(Duration::from_secs_f64(wait.clamp(0.01, MINUTE))));
        }
        times.push(now);
        let text = serde_json::to_string(&times).context("cannot write times as JSON")?;
        AtomicFile::new(&path).without_sync().write(text.as_bytes())?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_wait_for_a_minute_to_pass() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root { folder: folder.path().to_owned() };
        let limit = RateLimit::new(&root, 2, Duration::ZERO);
        let take_turn = || limit.take_turn(&Interrupts::none(), &mut |_| ()).unwrap();
        assert_eq!(take_turn(), None);
        assert_eq!(take_turn(), None);
        let wait = take_turn().unwrap();
        assert!(wait > Duration::from_secs(55) && wait <= Duration::from_mins(1), "{wait:?}");
        // Times of a clock that was set back since, and a torn file, stop nobody.
        for text in ["[9e15, 9e15, 9e15]", "[1", "[1.0, 2.0]"] {
            std::fs::write(folder.path().join("rate.json"), text).unwrap();
            assert_eq!(take_turn(), None, "{text}");
        }
    }
}
