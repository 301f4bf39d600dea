//! The file of the log of changes: appended to by runs, read by undo. [`crate::memory::changes`] has its form.

use std::path::Path;

use anyhow::{Context, Result};

use super::root::Root;
use super::{clock, fs};
use crate::limits;
use crate::memory::changes::{self, Entry, FileEvent};

/// The name of the lock of undo. No conversation can have it.
pub const LOCK: &str = "changes.json";

/// What a run writes to the log.
#[derive(Debug, Clone)]
pub struct ChangeLog {
    root: Root,
    /// Identifies the run; its children have the same.
    pub run: String,
    /// When it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// The names by which it is found.
    pub of: Vec<String>,
    /// The first line of its prompt.
    pub prompt: String,
    /// That of the run that started it, where one did.
    pub task: String,
}

impl ChangeLog {
    /// The log of a run that has no prompt yet.
    pub fn new(root: Root, run: String, conversation: String, of: Vec<String>) -> Self {
        let (at, prompt, task) = Default::default();
        Self { root, run, at, conversation, of, prompt, task }
    }

    /// Appends what happens to a file, durably. Segments and other files of nagent's own are not recorded.
    pub fn append(&self, path: &Path, event: FileEvent) -> Result<()> {
        if fs::real_path(self.root.path()).is_some_and(|root| path.starts_with(root)) {
            return Ok(());
        }
        append(
            &self.root,
            &Entry {
                run: self.run.clone(),
                at: self.at.clone(),
                conversation: self.conversation.clone(),
                of: self.of.clone(),
                prompt: self.prompt.clone(),
                task: self.task.clone(),
                path: path.display().to_string(),
                event,
            },
        )
    }
}

/// Appends a line, durably.
///
/// # Errors
/// It could not be written.
pub fn append(root: &Root, entry: &Entry) -> Result<()> {
    let line = serde_json::to_string(entry).context("cannot write an entry")?;
    // Behind a line that was cut off it begins a new one.
    fs::append_durably(&root.changes(), &format!("\n{line}\n"))
}

/// Records that a conversation has another name, so that its changes are found by that.
///
/// # Errors
/// It could not be written.
pub fn record_rename(root: &Root, from: &str, to: &str) -> Result<()> {
    append(
        root,
        &Entry {
            run: String::new(),
            at: clock::now(),
            conversation: from.to_owned(),
            of: Vec::new(),
            prompt: String::new(),
            task: String::new(),
            path: String::new(),
            event: FileEvent::Rename { to: to.to_owned() },
        },
    )
}

/// Reads the log, with the names that conversations have now; empty where there is none.
///
/// # Errors
/// It cannot be read.
pub fn read_log(root: &Root) -> Result<Vec<Entry>> {
    let text = fs::read_text(&root.changes(), limits::CHANGE_LOG)?;
    let mut entries = changes::parse(&text.unwrap_or_default());
    changes::rename_all(&mut entries);
    Ok(entries)
}
