//! The cache of summaries: each is in a file `{key}.json`, where the key is the hash of what was asked for.
//!
//! ```text
//! { "summary": "…", "provider": "openai", "model": "gpt-5.5", "words": 131, "created_at": "2026-11-21T20:45:14Z",
//!   "source_sha256": "b658…" }
//! ```
//! A file that cannot be read counts as missing. Nothing is removed here; any of them may be removed by hand.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::sys::atomic_file::AtomicFile;
use crate::sys::fs;

/// A summary and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedSummary {
    /// The text.
    pub summary: String,
    /// The provider.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Its number of words.
    pub words: u64,
    /// When it was written, in UTC (RFC 3339).
    pub created_at: String,
    /// The SHA-256 of the bytes that it summarises.
    pub source_sha256: String,
}

/// Reads the summary of a key, if there is one.
pub fn read_summary(folder: &Path, key: &str) -> Option<CachedSummary> {
    let text = fs::read_text(&cache_path(folder, key), limits::CACHED_SUMMARY).ok().flatten()?;
    let cached: CachedSummary = serde_json::from_str(&text).ok()?;
    (!cached.summary.trim().is_empty()).then_some(cached)
}

/// Writes a summary, replacing one that is there.
pub fn write_summary(folder: &Path, key: &str, summary: &CachedSummary) -> Result<()> {
    let mut text =
        serde_json::to_string_pretty(summary).context("cannot write a summary as JSON")?;
    text.push('\n');
    AtomicFile::new(&cache_path(folder, key)).write(text.as_bytes())
}

fn cache_path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_summary_comes_back_and_a_damaged_one_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let cached = CachedSummary {
            summary: "ö\n\"x\"".into(),
            provider: "openai".into(),
            model: "m".into(),
            words: 2,
            created_at: "2026-11-21T20:45:14Z".into(),
            source_sha256: "ab".repeat(32),
        };
        assert_eq!(read_summary(folder.path(), "k"), None);
        write_summary(folder.path(), "k", &cached).unwrap();
        assert_eq!(read_summary(folder.path(), "k"), Some(cached.clone()));
        write_summary(folder.path(), "k", &CachedSummary { summary: " ".into(), ..cached })
            .unwrap();
        assert_eq!(read_summary(folder.path(), "k"), None);
        AtomicFile::new(&folder.path().join("k.json")).write(b"{\"summary\": \"x\"").unwrap();
        assert_eq!(read_summary(folder.path(), "k"), None);
    }
}
