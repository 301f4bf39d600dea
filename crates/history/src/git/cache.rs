//! Caches the last history of a file in `{root}/history/{hash of repository and path}.json`.
//!
//! Files are replaced atomically, and one that is damaged or for another head counts as missing: processes may write at
//! the same time, and anybody may delete them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{CoChangedFile, FileCommit};
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::fs;

/// The version of the format; files of another version count as missing.
const VERSION: u32 = 5;

/// The history of a file at a head. Names and addresses are as in the commits: the mailmap is applied later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedHistory {
    /// The [`Cache::basis`] at the time of writing; with another one the file counts as missing.
    pub(super) basis: String,
    /// Newest first.
    pub(super) commits: Vec<FileCommit>,
    pub(super) co_changed: Vec<CoChangedFile>,
    /// Number of commits in which `co_changed` was counted.
    pub(super) counted: u64,
    /// The time up to which commits were read when the time was over.
    pub(super) read_back_to: Option<i64>,
}

/// The cached history of a path at a head.
pub(super) struct Cache {
    file: PathBuf,
    /// The version of the format, and the head.
    pub(super) basis: String,
}

impl Cache {
    pub(super) fn new(folder: &Path, repository: &Path, path: &[u8], head: &str) -> Self {
        let key = [repository.as_os_str().as_bytes(), path].join(&0);
        let file = folder.join(format!("{}.json", fs::sha256(&key)));
        Self { file, basis: format!("{VERSION} {head}") }
    }

    pub(super) fn read(&self) -> Option<CachedHistory> {
        let text = fs::read_text(&self.file, limits::CACHED_HISTORY).ok()??;
        let cached: CachedHistory = serde_json::from_str(&text).ok()?;
        (cached.basis == self.basis).then_some(cached)
    }

    pub(super) fn write(&self, history: &CachedHistory) -> Result<()> {
        let text = serde_json::to_string(history)?;
        if text.len() as u64 > limits::CACHED_HISTORY {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            fs::create_private_folder(folder)?;
        }
        AtomicFile::new(&self.file).without_sync().write(text.as_bytes())
    }
}
