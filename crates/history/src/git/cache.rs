//! Caches histories in `{root}/history/{repository}/{path}/{head}.json`; the names of the two folders are parts of hashes.
//!
//! There is one file for each head: somebody who changes branches finds both. At most [`MAX_HEADS`] are kept for a path.
//! Files are replaced atomically, and a file that is damaged counts as missing: processes may write at the same time, and
//! anybody may delete them.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::co_change::CoChangeCounts;
use crate::{FileCommit, path_text};
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::fs;

const MAX_HEADS: usize = 4;

/// The version of the format; files of another version count as missing.
const VERSION: u32 = 4;

/// The history of a file at one head. Names and addresses are as in the commits: the mailmap is applied later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedHistory {
    /// [`Cache::basis`] when it was written; with another one the file counts as missing.
    pub(super) basis: String,
    /// Newest first.
    pub(super) commits: Vec<FileCommit>,
    pub(super) co_changes: CoChangeCounts,
    /// Where reading stopped when its time was over; empty when all was read.
    pub(super) frontier: Vec<FrontierCommit>,
}

/// A commit that was not read yet, and the file's path there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FrontierCommit {
    pub(super) id: String,
    #[serde(with = "path_text")]
    pub(super) path: Vec<u8>,
}

pub(super) struct Cache {
    folder: PathBuf,
    /// The version of the format, and the hash of the list of commits at which a shallow clone ends.
    pub(super) basis: String,
    /// The heads of which there is a file, by path.
    heads: HashMap<Vec<u8>, HashSet<String>>,
}

impl Cache {
    pub(super) fn new(folder: &Path, repository: &Path, shallow: &str) -> Self {
        let folder = folder.join(shorten_hash(repository.as_os_str().as_bytes()));
        Self { folder, basis: format!("{VERSION} {shallow}"), heads: HashMap::new() }
    }

    /// Returns what was cached for a path at a head. Cheap where there is nothing: a walk asks at each commit.
    pub(super) fn read_head(&mut self, head: &str, path: &[u8]) -> Option<CachedHistory> {
        if !self.heads.contains_key(path) {
            let names = fs::list_names(&self.path_folder(path)).unwrap_or_default();
            let heads = names.iter().filter_map(|name| name.strip_suffix(".json"));
            self.heads.insert(path.to_owned(), heads.map(str::to_owned).collect());
        }
        if !self.heads[path].contains(head) {
            return None;
        }
        let file = self.path_folder(path).join(format!("{head}.json"));
        let text = fs::read_text(&file, limits::CACHED_HISTORY).ok()??;
        let cached: CachedHistory = serde_json::from_str(&text).ok()?;
        (cached.basis == self.basis).then_some(cached)
    }

    /// Writes the history of a path at a head, and removes the oldest ones of too many heads.
    pub(super) fn write_head(
        &self,
        head: &str,
        path: &[u8],
        history: &CachedHistory,
    ) -> Result<()> {
        let text = serde_json::to_string(history)?;
        if text.len() as u64 > limits::CACHED_HISTORY {
            return Ok(());
        }
        let folder = self.path_folder(path);
        fs::create_private_folder(&folder)?;
        let name = format!("{head}.json");
        AtomicFile::new(&folder.join(&name)).without_sync().write(text.as_bytes())?;
        let mut others: Vec<(Duration, PathBuf)> = fs::list_names(&folder)?
            .into_iter()
            .filter(|other| *other != name && other.strip_suffix(".json").is_some())
            .map(|other| folder.join(other))
            .map(|path| (fs::modified(&path), path))
            .collect();
        others.sort();
        let surplus = (others.len() + 1).saturating_sub(MAX_HEADS);
        others.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }

    fn path_folder(&self, path: &[u8]) -> PathBuf {
        self.folder.join(shorten_hash(path))
    }
}

fn shorten_hash(bytes: &[u8]) -> String {
    let mut hash = fs::sha256(bytes);
    hash.truncate(24);
    hash
}
