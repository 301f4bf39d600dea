//! Where histories are kept: `{root}/history/{repository}/{path}/{head}.json`, each folder's name a part of a hash.
//!
//! A file of its own for each head: whoever changes branches finds both. At most [`HEADS`] are kept for a path. Files are
//! replaced whole, and what is not understood is none: processes may write side by side, and anybody may remove them.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use git2::Oid;

use super::super::fs;
use super::walk::Earlier;
use crate::history::kept::{self, Kept, Key, Rest};
use crate::sys::atomic_file::AtomicFile;

/// Heads that are kept for a path.
const HEADS: usize = 4;

/// The largest file that is read or written, in bytes.
const LIMIT: u64 = 32 << 20;

/// What was kept for one file of one repository.
pub(super) struct Store {
    folder: PathBuf,
    /// What is asked for.
    pub(super) key: Key,
    /// The heads that there is something for, by the file's path.
    heads: HashMap<Vec<u8>, Vec<String>>,
    /// What the walk went on from.
    pub(super) grafted: Option<Grafted>,
}

/// What was kept for a head that the walk came to.
pub(super) struct Grafted {
    pub(super) kept: Kept,
    pub(super) rest: Rest,
    /// Commits below it, with the file's path: gathered when one is asked for, which is seldom.
    below: OnceCell<HashSet<(String, Vec<u8>)>>,
}

impl Grafted {
    /// What became of paths that its head does not have.
    pub(super) fn today(&self) -> HashMap<&[u8], Option<&[u8]>> {
        let path = |number: u32| self.rest.paths[number as usize].as_slice();
        self.rest.today.iter().map(|(old, new)| (path(*old), new.map(path))).collect()
    }

    fn below(&self) -> &HashSet<(String, Vec<u8>)> {
        self.below.get_or_init(|| {
            let touches = self.kept.touches.iter();
            let touches = touches.map(|(touch, _)| (touch.id.clone(), touch.path.clone()));
            touches.chain(self.rest.seen.iter().cloned()).collect()
        })
    }
}

/// A short name for bytes.
fn short(bytes: &[u8]) -> String {
    let mut hash = fs::sha256(bytes);
    hash.truncate(24);
    hash
}

impl Store {
    pub(super) fn new(cache: &Path, key: Key) -> Self {
        let folder = cache.join(short(&key.repository));
        Self { folder, key, heads: HashMap::new(), grafted: None }
    }

    fn folder(&self, path: &[u8]) -> PathBuf {
        self.folder.join(short(path))
    }

    /// What is kept for the head itself.
    pub(super) fn read(&self) -> Option<Kept> {
        kept::parse(&self.text(&self.key)?, &self.key)
    }

    fn text(&self, key: &Key) -> Option<String> {
        let file = self.folder(&key.path).join(format!("{}.json", key.head));
        fs::read_text(&file, LIMIT).ok().flatten()
    }

    /// Keeps what was read, and drops the oldest of too many heads.
    pub(super) fn write(&self, kept: &Kept, rest: &Rest) -> Result<()> {
        let text = kept::format(kept, rest);
        if text.len() as u64 > LIMIT {
            return Ok(());
        }
        let folder = self.folder(&kept.key.path);
        fs::create_private_folder(&folder)?;
        let name = format!("{}.json", kept.key.head);
        AtomicFile::new(&folder.join(&name)).without_sync().write(text.as_bytes())?;
        let mut others: Vec<(u64, PathBuf)> = fs::list_names(&folder)?
            .into_iter()
            .filter(|other| *other != name && other.strip_suffix(".json").is_some())
            .map(|other| folder.join(other))
            .map(|path| (fs::modified_seconds(&path), path))
            .collect();
        others.sort();
        let too_many = (others.len() + 1).saturating_sub(HEADS);
        others.iter().take(too_many).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

impl Earlier for Store {
    fn is_head(&mut self, commit: Oid, path: &[u8]) -> bool {
        if !self.heads.contains_key(path) {
            let names = fs::list_names(&self.folder(path)).unwrap_or_default();
            let heads = names.iter().filter_map(|name| name.strip_suffix(".json"));
            self.heads.insert(path.to_owned(), heads.map(str::to_owned).collect());
        }
        let heads = self.heads.get(path).map(Vec::as_slice).unwrap_or_default();
        if heads.is_empty() {
            return false;
        }
        let head = commit.to_string();
        if !heads.contains(&head) {
            return false;
        }
        let key = Key { path: path.to_owned(), head, ..self.key.clone() };
        let Some(text) = self.text(&key) else { return false };
        let Some(kept) = kept::parse(&text, &key) else { return false };
        let Some(rest) = kept::parse_rest(&text, &kept) else { return false };
        self.grafted = Some(Grafted { kept, rest, below: OnceCell::new() });
        true
    }

    fn passed(&self, commit: Oid, path: &[u8]) -> bool {
        let key = (commit.to_string(), path.to_owned());
        self.grafted.as_ref().is_some_and(|grafted| grafted.below().contains(&key))
    }
}
