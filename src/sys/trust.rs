//! Which texts of repositories the user has confirmed as words of his own: `trusted.json` in nagent's root, a path and the hash
//! of the text that was shown.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::atomic_file::AtomicFile;
use super::lock::{IndexWait, lock_index};
use super::root::Root;
use super::{clock, fs};
use crate::limits;

/// A text that the user has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The file, by its true path.
    pub path: String,
    /// The SHA-256 of its text.
    pub sha256: String,
    /// When it was confirmed.
    pub at: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustFile {
    version: u32,
    entries: Vec<Trusted>,
}

/// Reads what was confirmed.
///
/// # Errors
/// The file is damaged. Nothing is trusted then, and nothing is written.
pub fn load(root: &Root) -> Result<Vec<Trusted>> {
    let path = root.trusted();
    let Some(text) = fs::read_text(&path, limits::FILE_INDEX)? else { return Ok(Vec::new()) };
    let damaged = || format!("{} cannot be read; fix it, or move it away", path.display());
    let file: TrustFile = serde_json::from_str(&text).with_context(damaged)?;
    ensure!(file.version == 1, "{} is of a newer nagent", path.display());
    Ok(file.entries)
}

/// Records that these texts are trusted, and nothing else of these files; without a hash a file is trusted no more.
///
/// # Errors
/// The file could not be locked, read or written.
pub fn record(root: &Root, texts: &[(&Path, Option<&str>)], wait: IndexWait<'_>) -> Result<()> {
    let _lock = lock_index(root, "trusted.json", wait)?;
    let mut entries = load(root)?;
    for (path, sha256) in texts {
        let path = path.display().to_string();
        entries.retain(|entry| entry.path != path);
        let (sha256, at) = (sha256.map(str::to_owned), clock::now());
        entries.extend(sha256.map(|sha256| Trusted { path, sha256, at }));
    }
    let file = TrustFile { version: 1, entries };
    let text = serde_json::to_string_pretty(&file).context("cannot format it")?;
    AtomicFile::new(&root.trusted()).write(format!("{text}\n").as_bytes())
}
