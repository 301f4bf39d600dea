//! How often servers are asked: limited by the minute, over all processes of a root.
//!
//! `rate.json` has the times of the last minute's requests, in seconds since 1970, under a lock beside those of the conversations. Times that are
//! ahead of the clock do not count: it was set back.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::atomic_file::AtomicFile;
use super::interrupt::Interrupts;
use super::root::Root;
use super::{clock, fs};
use crate::exit::Signal;

const MINUTE: f64 = 60.0;

/// The limit.
#[derive(Debug, Clone)]
pub struct RateLimit {
    folder: PathBuf,
    per_minute: usize,
}

impl RateLimit {
    /// At most this many requests in a minute, of all that use this root.
    pub fn new(root: &Root, per_minute: u64) -> Self {
        let per_minute = usize::try_from(per_minute).unwrap_or(usize::MAX);
        Self { folder: root.path().to_owned(), per_minute }
    }

    /// Waits until a request may be sent, and counts it; `report` gets each time that it waits. A signal ends the wait, and is
    /// returned.
    pub fn wait_for_turn(
        &self,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(Duration),
    ) -> Result<Option<Signal>> {
        loop {
            let Some(wait) = self.take_turn()? else { return Ok(None) };
            report(wait);
            if let Some(signal) = interrupts.wait(Some(wait)) {
                return Ok(Some(signal));
            }
        }
    }

    /// Counts a request, or says how long to wait until there is room for one.
    fn take_turn(&self) -> Result<Option<Duration>> {
        let locks = self.folder.join("conversations/.locks");
        for folder in [&self.folder, &self.folder.join("conversations"), &locks] {
            fs::create_private_folder(folder)?;
        }
        let lock = locks.join("rate.json");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let lock = opened.with_context(|| format!("cannot open {}", lock.display()))?;
        // Held for the time of a small file's writing.
        lock.lock().context("cannot lock the times of requests")?;
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
        let limit = RateLimit { folder: folder.path().to_owned(), per_minute: 2 };
        assert_eq!(limit.take_turn().unwrap(), None);
        assert_eq!(limit.clone().take_turn().unwrap(), None);
        let wait = limit.take_turn().unwrap().unwrap();
        assert!(wait > Duration::from_secs(55) && wait <= Duration::from_mins(1), "{wait:?}");
        // Times of a clock that was set back since, and a torn file, stop nobody.
        for text in ["[9e15, 9e15, 9e15]", "[1", "[1.0, 2.0]"] {
            std::fs::write(folder.path().join("rate.json"), text).unwrap();
            assert_eq!(limit.take_turn().unwrap(), None, "{text}");
        }
    }
}
