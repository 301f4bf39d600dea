//! The cache of summaries: each is in a file `{key}.json`, where the key is the hash of the request.
//!
//! ```text
//! { "summary": "…", "provider": "openai", "model": "gpt-5.5", "words": 131, "created_at": "2026-11-21T20:45:14Z" }
//! ```
//! A file that cannot be read counts as missing. Nothing is removed here; users may remove any file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::summary_plan::count_words;
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::{clock, fs};

/// A summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The model's words.
    pub text: String,
    /// Provider and model; `None` if none was needed.
    pub by: Option<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct CacheFile {
    summary: String,
    provider: String,
    model: String,
    words: u64,
    /// The time in UTC (RFC 3339).
    created_at: String,
}

/// Reads the summary of a key, if there is one, and marks it as used now.
pub fn read_summary(folder: &Path, key: &str) -> Option<Summary> {
    let path = cache_path(folder, key);
    let text = fs::read_text(&path, limits::CACHED_SUMMARY).ok().flatten()?;
    fs::mark_used(&path);
    let CacheFile { summary, provider, model, .. } = serde_json::from_str(&text).ok()?;
    (!summary.trim().is_empty()).then_some(Summary { text: summary, by: Some((provider, model)) })
}

/// Writes a summary, replacing an existing one. It may be lost in a power cut: a sync would cost more than a new
/// request.
pub fn write_summary(folder: &Path, key: &str, summary: &Summary) -> Result<()> {
    let (provider, model) = summary.by.clone().unwrap_or_default();
    let words = count_words(&summary.text);
    let summary = summary.text.clone();
    let file = CacheFile { summary, provider, model, words, created_at: clock::now() };
    let text = serde_json::to_string_pretty(&file).context("cannot write a summary as JSON")?;
    let path = cache_path(folder, key);
    AtomicFile::new(&path).without_sync().write(format!("{text}\n").as_bytes())
}

fn cache_path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.json"))
}
