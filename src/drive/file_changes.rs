//! A change of the file that a conversation belongs to, by its run: for its block, and for the report.

use std::path::{Path, PathBuf};

use anyhow::Result;

use conversation::format::file::Block;
use conversation::limits;
use conversation::memory::changes::{NO_FILE, short_hash};
use conversation::reason::Reason;
use sys::{fs, read};

/// A change of the file by the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The SHA-256 of the content before, or [`NO_FILE`].
    pub before: String,
    /// The SHA-256 of the content after, or [`NO_FILE`].
    pub after: String,
}

/// The block that records a change.
pub(super) fn change_block(path: &Path, change: &RunChange) -> Block {
    let path = path.display();
    let text = match (change.before.as_str(), change.after.as_str()) {
        (NO_FILE, _) => format!("this run created {path}"),
        (_, NO_FILE) => format!("in this run {path} was removed"),
        _ => format!("this run changed {path}"),
    };
    Block::new("system")
        .with("change", "run")
        .with("path", path)
        .with("before", short_hash(&change.before))
        .with("after", short_hash(&change.after))
        .body(text)
}

/// The hash of a file's content, kept in `outputs` where that is given. `None`: the file cannot be read, or is too large.
pub(super) fn content_hash(path: &Path, outputs: Option<&PathBuf>) -> Result<Option<String>> {
    let (mut file, metadata) = match read::open_resolved(path) {
        Ok(opened) => opened,
        Err(error) if error.reason == Some(Reason::Missing) => {
            return Ok(Some(NO_FILE.to_owned()));
        }
        Err(_) => return Ok(None),
    };
    if metadata.len() > limits::TRACKED_FILE {
        return Ok(None);
    }
    let Some(outputs) = outputs else {
        return Ok(fs::sha256_of_file(file).ok());
    };
    // Also after a signal: the changes of a run are recorded at its end.
    let kept = fs::store_file(outputs, &mut file, &|| false)?;
    Ok(Some(fs::stored_hash(&kept)))
}
