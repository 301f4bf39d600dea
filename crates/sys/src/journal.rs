//! A file of lines to which one process at a time appends; the next process continues it.
//!
//! The lock is `flock` on the file itself: the kernel frees it however its holder ends, and on a shared file system
//! when the holder's host is given up. If a kill or a power cut left a partial line, a line feed is added, so that the
//! next line is not lost.

use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::file_stamp::FileStamp;
use super::interrupt::Interrupts;
use super::lock::{LockError, LockWait, wait_lock};
use super::{durable, fs};

/// The open file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Whether its last line is incomplete.
    is_torn: bool,
}

impl Journal {
    /// Opens a journal, which need not exist, takes its lock, and reads it. `waiting` is called once if another process
    /// has the lock.
    ///
    /// # Errors
    /// Another process keeps it for longer than `patience`, a signal came, or it cannot be read or written.
    pub fn open(
        path: &Path,
        limit: u64,
        patience: Duration,
        interrupts: &Interrupts,
        waiting: &mut dyn FnMut(),
    ) -> Result<(Self, String), LockError> {
        loop {
            let file = fs::open_journal(path)?;
            let wait = LockWait { report: Some(waiting), ..LockWait::new(patience, interrupts) };
            if !wait_lock(&file, path, wait)? {
                return Err(LockError::Busy(format!("{} is in use", path.display())));
            }
            // Another process may have archived it while this one waited.
            let stamps = FileStamp::of_open(&file).zip(FileStamp::of_path(path));
            if stamps.is_some_and(|(open, named)| open.same_file(&named)) {
                let mut journal = Self { path: path.to_owned(), file, is_torn: false };
                let text = journal.read(limit)?;
                return Ok((journal, text));
            }
        }
    }

    fn read(&mut self, limit: u64) -> Result<String> {
        let what = || format!("cannot read {}", self.path.display());
        let metadata = self.file.metadata().with_context(what)?;
        self.file.rewind().with_context(what)?;
        let bytes = fs::read_within(&self.file, metadata.len(), limit).with_context(what)?;
        self.is_torn = bytes.last().is_some_and(|byte| *byte != b'\n');
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Appends a line, in one write, and durably: it survives a power cut.
    ///
    /// # Errors
    /// It cannot be written. A partial line is cut off.
    pub fn append(&mut self, line: &str) -> Result<()> {
        let what = || format!("cannot append to {}", self.path.display());
        let end = if self.is_torn { "\n" } else { "" };
        durable::append(&mut self.file, format!("{end}{line}\n").as_bytes()).with_context(what)?;
        self.is_torn = false;
        Ok(())
    }

    /// Archives the file, so that the next open starts with an empty one.
    ///
    /// # Errors
    /// The name is taken, or the folder cannot be written.
    pub fn archive(self, to: &Path) -> Result<()> {
        fs::rename_file(&self.path, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<(Journal, String), LockError> {
        Journal::open(path, 1 << 20, Duration::ZERO, &Interrupts::none(), &mut || ())
    }

    #[test]
    fn one_process_appends_and_a_torn_line_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        let (mut journal, text) = open(&path).unwrap();
        assert_eq!(text, "");
        journal.append("one").unwrap();
        assert!(matches!(open(&path), Err(LockError::Busy(_))));
        drop(journal);
        std::fs::write(&path, "one\ntw").unwrap();
        let (mut journal, _) = open(&path).unwrap();
        journal.append("three").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntw\nthree\n");
        journal.archive(&dir.path().join("old")).unwrap();
        assert_eq!(open(&path).unwrap().1, "");
    }
}
