//! The status file of a run: `{name}.run` next to its conversation while it runs; its exit code is written to the lock
//! file.
//!
//! The note is written in place with one write each time, so that it does not slow down a run. Its first and its last
//! key are the same count, so that a reader notices that it has read in the middle of a write, and reads again. It
//! cannot notice a mix of two notes whose ends fit together, which takes a writer that never rests; so the note only
//! informs. Neither file is synced: after a power cut the conversation is what counts.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::root::Root;
use super::{clock, env, fs};

/// Maximum size of a note, and of the line about the end of a run, in bytes.
const NOTE: u64 = 16 << 10;

/// Number of attempts to read a note that is being written.
const TRIES: u32 = 20;

/// A process, on every machine that shares the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its host.
    pub host: String,
    /// Its number.
    pub pid: u32,
    /// Its start time, in ticks since boot: numbers are used again.
    pub ticks: String,
    /// The pid namespace of this number.
    pub namespace: String,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Running,
    /// It has ended; its number may belong to another process now.
    Dead,
    /// It is on another host or in another container, where this one cannot check.
    Elsewhere,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> &'static Self {
        static OWN: LazyLock<Process> = LazyLock::new(|| {
            let namespace = std::fs::read_link("/proc/self/ns/pid");
            Process {
                host: env::host_name(),
                pid: std::process::id(),
                ticks: env::start_time_if_alive("self").unwrap_or_default(),
                namespace: namespace.map(|path| path.display().to_string()).unwrap_or_default(),
            }
        });
        &OWN
    }

    /// Checks whether it is still running.
    pub fn check_liveness(&self) -> Liveness {
        let own = Self::current();
        if self.host != own.host || self.namespace != own.namespace {
            return Liveness::Elsewhere;
        }
        match env::start_time_if_alive(&self.pid.to_string()) {
            Some(ticks) if ticks == self.ticks => Liveness::Running,
            _ => Liveness::Dead,
        }
    }

    /// Sends it SIGINT. False if it has ended.
    ///
    /// # Errors
    /// It belongs to another user.
    pub fn send_interrupt(&self) -> Result<bool> {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let flags = rustix::process::PidfdFlags::empty();
        let opened = pid.map(|pid| rustix::process::pidfd_open(pid, flags));
        // The number cannot be reused while the pidfd is open.
        let Some(Ok(pidfd)) = opened.filter(|_| self.check_liveness() == Liveness::Running) else {
            return Ok(false);
        };
        match rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::INT) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error).context(format!("cannot send SIGINT to process {}", self.pid)),
        }
    }
}

/// The present activity of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The conversation that started it.
    pub parent: Option<String>,
    /// Its working folder.
    pub cwd: String,
    /// Its turn, from 1; 0 before the first.
    pub turn: u64,
    /// The current action: `model`, or a tag with its target.
    pub action: String,
    /// The start of that action, RFC 3339.
    pub since: String,
    /// Input tokens so far, including those of children.
    pub tokens_in: u64,
    /// Output tokens so far.
    pub tokens_out: u64,
    /// US dollars so far, where prices are known.
    pub cost: Option<f64>,
    /// The last line of the last result or response.
    pub last_line: String,
}

/// The note of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunNote {
    /// Number of times that it was written.
    n: u64,
    /// The process of the run.
    #[serde(flatten)]
    pub process: Process,
    /// The start of the run, RFC 3339.
    pub started: String,
    /// The present activity.
    #[serde(flatten)]
    pub activity: Activity,
    /// Equal to `n` in a complete note.
    end: u64,
}

impl RunNote {
    /// Reads the note of a conversation. `None` if no run uses it, or only that of an older nagent.
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        Self::read_at(&root.run_note(name))
    }

    pub(super) fn read_at(path: &Path) -> Option<Self> {
        for _ in 0..TRIES {
            let text = fs::read_text(path, NOTE).ok().flatten()?;
            match serde_json::from_str::<Self>(&text) {
                Ok(note) if note.n == note.end => return Some(note),
                // The scheduler may have stopped the writer in the middle of its write.
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }
}

/// The note of this process, which is rewritten again and again.
#[derive(Debug)]
pub(super) struct NoteFile {
    file: File,
    note: RunNote,
    /// Size of the file in bytes.
    written: usize,
}

impl NoteFile {
    /// Creates the note at a path, where a killed run may have left one.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let what = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.with_context(what)?;
        let (process, started) = (Process::current().clone(), clock::now());
        let note = RunNote { process, started, ..RunNote::default() };
        let mut begun = Self { file, note, written: 0 };
        begun.write().with_context(what)?;
        Ok(begun)
    }

    /// Writes the present activity. A failure does not fail the run.
    pub(super) fn write_activity(&mut self, activity: Activity) {
        if self.note.activity != activity {
            self.note.activity = activity;
            let _ = self.write();
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.note.n += 1;
        self.note.end = self.note.n;
        let text = serde_json::to_string(&self.note)?;
        // Overwrite the rest of a longer note with blanks: if the file were cut first, it would be empty for an
        // instant.
        let width = self.written.saturating_sub(1);
        let text = format!("{text:width$}\n");
        self.written = text.len();
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

/// The end of the last run of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The process of the run.
    #[serde(flatten)]
    pub process: Process,
    /// Its exit code.
    pub exit_code: u8,
    /// When it ended, RFC 3339.
    pub ended: String,
}

impl RunEnd {
    /// Reads the end of the last run of a conversation. `None` if it was killed, or if nothing was recorded.
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        let text = fs::read_text(&root.locks().join(name), NOTE).ok().flatten()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the exit code of this process's run into the lock file, whose lock is held. A failure is not an error.
    pub(super) fn write(lock: &File, exit_code: u8) {
        let process = Process::current().clone();
        let end = Self { process, exit_code, ended: clock::now() };
        let Ok(text) = serde_json::to_string(&end) else { return };
        let text = format!("{text}\n");
        let _ = lock.write_all_at(text.as_bytes(), 0).and_then(|()| {
            // Cutting a file takes ten times as long as reading its length.
            let is_longer = lock.metadata()?.len() > text.len() as u64;
            if is_longer { lock.set_len(text.len() as u64) } else { Ok(()) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(words: &str) -> Activity {
        Activity { last_line: words.repeat(50), ..Activity::default() }
    }

    #[test]
    fn a_note_is_whole_whatever_was_there_or_it_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.run");
        std::fs::write(&path, "x".repeat(9000)).unwrap();
        let mut file = NoteFile::begin(&path).unwrap();
        for words in ["a", "longer words", ""] {
            file.write_activity(activity(words));
            let note = RunNote::read_at(&path).unwrap();
            assert_eq!(note.activity, activity(words));
            assert_eq!(note.process.check_liveness(), Liveness::Running);
        }
        // A text that was read in the middle of a write is not a note.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("\"n\":", "\"n\":1", 1)).unwrap();
        assert_eq!(RunNote::read_at(&path), None);
    }

    #[test]
    fn a_process_that_has_the_number_of_a_dead_one_is_another() {
        let own = Process::current();
        assert_eq!(own.check_liveness(), Liveness::Running);
        let reused = Process { ticks: "1".to_owned(), ..own.clone() };
        assert_eq!(
            (reused.check_liveness(), reused.send_interrupt().unwrap()),
            (Liveness::Dead, false)
        );
        assert_eq!(
            Process { host: "other".to_owned(), ..own.clone() }.check_liveness(),
            Liveness::Elsewhere
        );
        assert_eq!(Process { pid: u32::MAX, ..own.clone() }.check_liveness(), Liveness::Dead);
    }
}
