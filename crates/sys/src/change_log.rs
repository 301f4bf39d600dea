//! The change log: runs append to it, undo reads it. [`conversation::memory::changes`] defines its format.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::root::Root;
use super::{clock, fs};
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
    /// The first line of its prompt.
    pub prompt: String,
    /// The task of the run that started it; empty if none did.
    pub task: String,
}

impl ChangeLog {
    /// The log of a run that has no prompt yet.
    pub fn new(root: Root, run: String, conversation: String, of: Vec<String>) -> Self {
        let (at, prompt, task) = Default::default();
        Self { root, run, at, conversation, of, prompt, task }
    }

    /// The value of `NAGENT_RUN` for runs that this one starts now.
    pub fn started_by(&self) -> String {
        let shell = self.of.first().cloned().unwrap_or_default();
        let task = if self.task.is_empty() { &self.prompt } else { &self.task };
        let (run, task) = (self.run.clone(), task.clone());
        let started_by = StartedBy { run, shell, task };
        serde_json::to_string(&started_by).unwrap_or_default()
    }

    /// Appends a change of a file, durably.
    pub fn append(&self, path: &Path, event: FileEvent) -> Result<()> {
        self.append_all(vec![(path.to_owned(), event)])
    }

    /// Appends changes of files, durably, in one write. Segments and other files of nagent's own are not recorded.
    pub fn append_all(&self, events: Vec<(PathBuf, FileEvent)>) -> Result<()> {
        let root = fs::real_path(self.root.path());
        let is_own = |path: &Path| root.as_ref().is_some_and(|root| path.starts_with(root));
        let events = events.into_iter().filter(|(path, _)| !is_own(path));
        let entries: Vec<ChangeLogEntry> = events
            .map(|(path, event)| ChangeLogEntry {
                run: self.run.clone(),
                at: self.at.clone(),
                conversation: self.conversation.clone(),
                of: self.of.clone(),
                prompt: self.prompt.clone(),
                task: self.task.clone(),
                path: path.display().to_string(),
                event,
            })
            .collect();
        append(&self.root, &entries)
    }
}

/// Appends lines, durably.
///
/// # Errors
/// They could not be written.
pub fn append(root: &Root, entries: &[ChangeLogEntry]) -> Result<()> {
    let mut text = String::new();
    for entry in entries {
        // If a crash cut off the last line, the first line feed ends it.
        text.push('\n');
        text.push_str(&serde_json::to_string(entry).context("cannot write an entry")?);
        text.push('\n');
    }
    if text.is_empty() { Ok(()) } else { fs::append_durably(&root.change_log_path(), &text) }
}

/// Records that a conversation was renamed, so that its changes are found under the new name.
///
/// # Errors
/// It could not be written.
pub fn record_rename(root: &Root, from: &str, to: &str) -> Result<()> {
    append(
        root,
        &[ChangeLogEntry {
            run: String::new(),
            at: clock::now(),
            conversation: from.to_owned(),
            of: Vec::new(),
            prompt: String::new(),
            task: String::new(),
            path: String::new(),
            event: FileEvent::Rename { to: to.to_owned() },
        }],
    )
}

/// Reads the entries after so many bytes of the log.
///
/// # Errors
/// It cannot be read.
pub fn read_since(root: &Root, bytes: u64) -> Result<Vec<ChangeLogEntry>> {
    let text = fs::read_text(&root.change_log_path(), limits::CHANGE_LOG)?.unwrap_or_default();
    let start = usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok(changes::parse(text.get(start..).unwrap_or_default()))
}

/// Reads the log, with the present names of the conversations; empty where there is none.
///
/// # Errors
/// It cannot be read.
pub fn read_log(root: &Root) -> Result<Vec<ChangeLogEntry>> {
    let text = fs::read_text(&root.change_log_path(), limits::CHANGE_LOG)?;
    let mut entries = changes::parse(&text.unwrap_or_default());
    changes::rename_all(&mut entries);
    Ok(entries)
}
