//! The change log: runs append to it, undo reads it. [`conversation::memory::changes`] defines its format.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::fs;
use super::root::Root;
use conversation::limits;
use conversation::memory::changes::{self, ChangeLogEntry, FileEvent};

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
    root: Root,
    /// Identifies the run; its children have the same.
    pub run: String,
    /// When it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// Names under which undo finds the run.
    pub of: Vec<String>,
    /// The folder that it was started in.
    pub folder: String,
    /// The first line of its prompt.
    pub prompt: String,
    /// The task of the run that started it; empty if none did.
    pub task: String,
}

impl ChangeLog {
    /// The log of a run that has no prompt yet.
    pub fn new(
        root: Root,
        run: String,
        conversation: String,
        of: Vec<String>,
        folder: String,
    ) -> Self {
        let (at, prompt, task) = Default::default();
        Self { root, run, at, conversation, of, folder, prompt, task }
    }

    /// The value of `NAGENT_RUN` for runs that this one starts now.
    pub fn started_by(&self) -> String {
        let shell = self.of.first().cloned().unwrap_or_default();
        let task = if self.task.is_empty() { &self.prompt } else { &self.task };
        let (run, task) = (self.run.clone(), task.clone());
        let started_by = StartedBy { run, shell, task };
        serde_json::to_string(&started_by).unwrap_or_default()
    }

    /// Appends a change of a file, durably. Segments and other files of nagent's own are not recorded.
    pub fn append(&self, path: &Path, event: FileEvent) -> Result<()> {
        self.append_by(fs::append_durably, path, event)
    }

    /// Appends the end of the run's commands in a folder, without waiting for the disk: where a crash loses it, undo takes the
    /// run for one that did not end, and names its changes.
    pub fn append_end(&self, top: &Path, why: String, since: u64) -> Result<()> {
        self.append_by(fs::append_text, top, FileEvent::CommandsRan { why, since })
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
        let entry = ChangeLogEntry {
            run: self.run.clone(),
            at: self.at.clone(),
            conversation: self.conversation.clone(),
            of: self.of.clone(),
            folder: self.folder.clone(),
            prompt: self.prompt.clone(),
            task: self.task.clone(),
            path: path.display().to_string(),
            event,
        };
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
