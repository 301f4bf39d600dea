//! The change log: runs append to it, undo reads it. [`conversation::memory::changes`] defines its format.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::fs;
use super::root::Root;
use conversation::limits;
use conversation::memory::changes::{self, ChangeLogEntry, FileEvent, RunFacts};

/// The name of the lock of undo. No conversation can have it.
pub const LOCK: &str = "changes.json";

/// Identifies a run to the runs that it starts, as JSON in `NAGENT_RUN`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StartedBy {
    /// The run that they belong to.
    pub run: String,
    /// The conversation of its shell.
    pub shell: String,
    /// The first line of the first run's prompt.
    pub task: String,
}

/// Writes the log of changes for one run, with the facts that its entries have in common.
#[derive(Debug, Clone)]
pub struct ChangeLog {
    /// The root folder, which has the log.
    pub root: Root,
    /// The run; until it gets its prompt, without the time and the prompt.
    pub facts: RunFacts,
}

impl ChangeLog {
    /// The value of `NAGENT_RUN` for runs that this one starts now.
    pub fn started_by(&self) -> String {
        let RunFacts { run, of, prompt, task, .. } = &self.facts;
        let shell = of.first().cloned().unwrap_or_default();
        let task = if task.is_empty() { prompt.clone() } else { task.clone() };
        let started_by = StartedBy { run: run.clone(), shell, task };
        serde_json::to_string(&started_by).unwrap_or_default()
    }

    /// Appends a change of a file, durably. Segments and other files of nagent's own are not recorded.
    pub fn append(&self, path: &Path, event: FileEvent) -> Result<()> {
        self.append_by(fs::append_durably, path, event)
    }

    /// Appends the end of the run's commands in a folder, without waiting for the disk: where a crash loses it, undo takes the
    /// run for one that did not end, and names its changes.
    pub fn append_end(&self, top: &Path, event: FileEvent) -> Result<()> {
        self.append_by(fs::append_text, top, event)
    }

    fn append_by(
        &self,
        append: fn(&Path, &str) -> Result<()>,
        path: &Path,
        event: FileEvent,
    ) -> Result<()> {
        if fs::real_path(self.root.path()).is_some_and(|root| path.starts_with(root)) {
            return Ok(());
        }
        let (facts, path) = (self.facts.clone(), path.display().to_string());
        let entry = ChangeLogEntry { facts, path, event };
        let line = serde_json::to_string(&entry).context("cannot write an entry")?;
        // If a crash cut off the last line, the first line feed ends it.
        append(&self.root.change_log_path(), &format!("\n{line}\n"))
    }
}

/// Reads the log; empty where there is none.
///
/// # Errors
/// It cannot be read.
pub fn read_log(root: &Root) -> Result<Vec<ChangeLogEntry>> {
    let text = fs::read_text(&root.change_log_path(), limits::CHANGE_LOG)?;
    Ok(changes::parse(&text.unwrap_or_default()))
}
