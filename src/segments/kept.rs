//! Summaries that were paid for, each in a file of its own: `{key}.json`, where the key is the hash of what was asked for.
//!
//! ```text
//! { "summary": "…", "provider": "openai", "model": "gpt-5.5", "words": 131, "created_at": "2026-11-21T20:45:14Z",
//!   "source_sha256": "b658…" }
//! ```
//! A file that cannot be understood counts as none. Nothing is removed here: people may remove any of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::sys::atomic_file::AtomicFile;
use crate::sys::fs;

/// The largest file of a summary that is read, in bytes.
const LIMIT: u64 = 4 << 20;

/// A summary and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The text.
    pub summary: String,
    /// Whose model wrote it.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// Its words.
    pub words: u64,
    /// When, in UTC, as RFC 3339 writes it.
    pub created_at: String,
    /// The SHA-256 of the bytes that it summarises.
    pub source_sha256: String,
}

/// The kept summary of a key, if there is one.
pub fn read(folder: &Path, key: &str) -> Option<Kept> {
    let text = fs::read_text(&path(folder, key), LIMIT).ok().flatten()?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (!kept.summary.trim().is_empty()).then_some(kept)
}

/// Keeps a summary, in place of one that is there.
pub fn write(folder: &Path, key: &str, kept: &Kept) -> Result<()> {
    let mut text = serde_json::to_string_pretty(kept).context("cannot describe a summary")?;
    text.push('\n');
    AtomicFile::new(&path(folder, key)).write(text.as_bytes())
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.json"))
}

/// The file that is locked while a summary is asked for.
pub fn lock(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_damage_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept {
            summary: "ö\n\"x\"".into(),
            provider: "openai".into(),
            model: "m".into(),
            words: 2,
            created_at: "2026-11-21T20:45:14Z".into(),
            source_sha256: "ab".repeat(32),
        };
        assert_eq!(read(folder.path(), "k"), None);
        write(folder.path(), "k", &kept).unwrap();
        assert_eq!(read(folder.path(), "k"), Some(kept.clone()));
        write(folder.path(), "k", &Kept { summary: " ".into(), ..kept }).unwrap();
        assert_eq!(read(folder.path(), "k"), None);
        AtomicFile::new(&folder.path().join("k.json")).write(b"{\"summary\": \"x\"").unwrap();
        assert_eq!(read(folder.path(), "k"), None);
    }
}
