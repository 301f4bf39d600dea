//! Files in nagent's root that store decisions of the user, as a version and entries: `approvals.json` and `trusted.json`.

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::atomic_file::AtomicFile;
use super::fs;
use super::interrupt::Interrupts;
use super::lock::lock_index;
use super::root::Root;
use conversation::limits;

#[derive(Serialize, Deserialize)]
struct EntryFile<T> {
    version: u32,
    entries: Vec<T>,
}

/// Reads all entries, the oldest first.
///
/// # Errors
/// The file is damaged; it is not used, and nothing is written.
pub fn load_entries<T: DeserializeOwned>(root: &Root, name: &str) -> Result<Vec<T>> {
    let path = root.path().join(name);
    let Some(text) = fs::read_text(&path, limits::FILE_INDEX)? else { return Ok(Vec::new()) };
    let damaged =
        || format!("{} is damaged; fix it, or move it away to be asked again", path.display());
    let file: EntryFile<T> = serde_json::from_str(&text).with_context(damaged)?;
    ensure!(file.version == 1, "{} was written by a newer nagent", path.display());
    Ok(file.entries)
}

/// Changes the entries under the file's lock.
///
/// # Errors
/// The file could not be locked, read or written.
pub fn update_entries<T: Serialize + DeserializeOwned>(
    root: &Root,
    name: &str,
    interrupts: &Interrupts,
    change: impl FnOnce(&mut Vec<T>),
) -> Result<()> {
    let _lock = lock_index(root, name, interrupts)?;
    let mut file = EntryFile { version: 1, entries: load_entries(root, name)? };
    change(&mut file.entries);
    let text = serde_json::to_string_pretty(&file).context("cannot format it")?;
    AtomicFile::new(&root.path().join(name)).write(format!("{text}\n").as_bytes())
}
