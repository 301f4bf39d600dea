//! Finds the conversation that belongs to a file. The index on disk is updated under its lock.
//!
//! A file is found in this order:
//! 1. by its identity: the same file under any path and name; a hard link is the same file;
//! 2. by the absolute path: an editor that saves by renaming, a file that was created again.
//!
//! No entry is dropped: one whose path another entry's file has taken is marked as gone, and the user gets a note.
//!
//! An entry whose file still exists belongs to that file alone: two clones, worktrees and copies are separate files. If
//! the file system reports no time of birth, an inode may have been given to another file, so it counts only while the
//! path is the same. The format of the index is in [`conversation::format::file_index`]; this module prints nothing and
//! starts no program.

use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::Map;

use conversation::format::file_index::{FileIndex, FileIndexEntry, is_backup, is_certain, path_id};
use conversation::legacy::file_index::convert_flat;
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::interrupt::Interrupts;
use sys::lock::{self, LockError};
use sys::root::{self, Root};
use sys::{fs, legacy};

/// The name of its lock. No conversation's name ends in `.json`, so no run can hold this lock.
const LOCK: &str = "file-index.json";

/// The index with the entries of older tools.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All entries.
    pub index: FileIndex,
    /// Older indexes whose entries are in it.
    old: Vec<PathBuf>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Reads the index, and older ones next to it. Changes nothing.
pub fn load_index(root: &Root) -> Result<Loaded> {
    let path = root.file_index();
    let mut loaded = Loaded::default();
    if let Some(text) = fs::read_text(&path, limits::FILE_INDEX)? {
        loaded.index = FileIndex::parse(&text).map_err(|error| {
            anyhow::anyhow!(
                "{} is not an index of files ({error}), and was not changed; fix it, or move it away to start a new one",
                path.display()
            )
        })?;
        convert_flat(&mut loaded.index);
    }
    let old = legacy::read_file_indexes(root)?;
    for entry in old.entries {
        // By its path: the older id has no time of birth, and the inode may belong to another file now.
        if loaded.index.entries_at_path(&entry.path).next().is_none() {
            loaded.index.insert_entry(entry);
        }
    }
    Ok(Loaded { old: old.paths, notes: old.notes, ..loaded })
}

/// Finds the entry of a file, by its true path. Changes nothing.
pub fn find_entry(root: &Root, path: &Path) -> Result<Option<FileIndexEntry>> {
    let index = load_index(root)?.index;
    Ok(IndexedFile::inspect(path).entry(root, &index).cloned())
}

/// Returns the entry of a file, by its true path, created or updated where necessary, and notes for the user.
/// `new_name` makes the name of a new conversation.
pub fn register(
    root: &Root,
    path: &Path,
    new_name: impl FnOnce() -> String,
    interrupts: &Interrupts,
) -> Result<(FileIndexEntry, Vec<String>), LockError> {
    // Without the lock first: mostly there is nothing to write.
    let loaded = load_index(root)?;
    let file = IndexedFile::inspect(path);
    if loaded.old.is_empty()
        && let Some(entry) = file.entry(root, &loaded.index)
        && file.updated_entry(entry) == *entry
    {
        return Ok((entry.clone(), loaded.notes));
    }
    let _lock = lock::lock_index(root, LOCK, interrupts)?;
    let mut loaded = load_index(root)?;
    let known = file.entry(root, &loaded.index).cloned();
    let old = known.unwrap_or_else(|| FileIndexEntry {
        file_id: path_id(path),
        path: path.to_owned(),
        conversation: new_name(),
        other: Map::new(),
    });
    loaded.index.by_file_id.remove(&old.file_id);
    let entry = file.updated_entry(&old);
    let same_id = loaded.index.by_file_id.remove(&entry.file_id);
    loaded.notes.extend(free_path(&mut loaded.index, path));
    loaded.index.insert_entry(entry.clone());
    if let Some(other) = same_id.filter(has_usable_name) {
        loaded.index.insert_gone_entry(other);
    }
    save_index(root, &loaded)?;
    Ok((entry, loaded.notes))
}

/// Updates the identity of a conversation's file at the end of a run: writing replaces a file by another one.
pub fn update_identity(
    root: &Root,
    conversation: &str,
    interrupts: &Interrupts,
) -> Result<(), LockError> {
    let is_outdated = |entry: &&FileIndexEntry| {
        entry.conversation == conversation
            && !entry.is_gone()
            && fs::file_id(&entry.path).is_some_and(|id| id != entry.file_id)
    };
    if !load_index(root)?.index.by_file_id.values().any(|entry| is_outdated(&entry)) {
        return Ok(());
    }
    let _lock = lock::lock_index(root, LOCK, interrupts)?;
    let mut loaded = load_index(root)?;
    let index = &mut loaded.index;
    let entries: Vec<FileIndexEntry> =
        index.by_file_id.values().filter(is_outdated).cloned().collect();
    for entry in entries {
        let file = IndexedFile::inspect(&entry.path);
        // Another program has put a file there that has its own conversation.
        if let Some(id) = &file.id
            && !index.by_file_id.contains_key(id)
            && find_moved_file(&entry).is_none()
        {
            index.by_file_id.remove(&entry.file_id);
            index.insert_entry(file.updated_entry(&entry));
        }
    }
    Ok(save_index(root, &loaded)?)
}

/// Removes the entries of a file that will not come back: a working copy. Its conversation stays.
pub fn remove_entries(root: &Root, path: &Path, interrupts: &Interrupts) -> Result<(), LockError> {
    let _lock = lock::lock_index(root, LOCK, interrupts)?;
    let mut loaded = load_index(root)?;
    loaded.index.by_file_id.retain(|_, entry| entry.path != path);
    Ok(save_index(root, &loaded)?)
}

/// Writes the index, then renames the older ones that it includes, so that they are imported once.
fn save_index(root: &Root, loaded: &Loaded) -> Result<()> {
    AtomicFile::new(&root.file_index()).write(loaded.index.format().as_bytes())?;
    legacy::archive_indexes(&loaded.old)
}

struct IndexedFile<'a> {
    path: &'a Path,
    /// `None` if the file does not exist yet.
    id: Option<String>,
}

impl<'a> IndexedFile<'a> {
    fn inspect(path: &'a Path) -> Self {
        Self { path, id: fs::file_id(path) }
    }

    fn entry<'i>(&self, root: &Root, index: &'i FileIndex) -> Option<&'i FileIndexEntry> {
        let may_be_used = |entry: &&FileIndexEntry| has_usable_name(entry);
        let by_id = self.id.as_ref().and_then(|id| index.by_file_id.get(id)).filter(|entry| {
            // A hard link: the other name is still there.
            let is_linked = || fs::file_id(&entry.path).as_ref() == self.id.as_ref();
            is_certain(&entry.file_id) || entry.path == self.path || is_linked()
        });
        if let Some(entry) = by_id.filter(may_be_used) {
            return Some(entry);
        }
        let at_path = index.entries_at_path(self.path).filter(may_be_used);
        let free = at_path.filter(|entry| find_moved_file(entry).is_none());
        free.max_by_key(|entry| (!entry.is_gone(), last_used(root, entry)))
    }

    /// The entry updated to this file.
    fn updated_entry(&self, entry: &FileIndexEntry) -> FileIndexEntry {
        let mut entry = FileIndexEntry {
            file_id: self.id.clone().unwrap_or_else(|| path_id(self.path)),
            path: self.path.to_owned(),
            ..entry.clone()
        };
        entry.set_gone(false);
        entry
    }
}

/// Whether the name of the entry's conversation is usable; a forged name is not.
fn has_usable_name(entry: &FileIndexEntry) -> bool {
    root::check_name(&entry.conversation).is_ok()
}

/// Reassigns a path: entries that had it get the new path of their file, or are marked gone. Returns notes for the user.
fn free_path(index: &mut FileIndex, path: &Path) -> Vec<String> {
    let others: Vec<FileIndexEntry> =
        index.entries_at_path(path).filter(|entry| !entry.is_gone()).cloned().collect();
    let mut notes = Vec::new();
    for mut other in others {
        index.by_file_id.remove(&other.file_id);
        if let Some(now) = find_moved_file(&other) {
            other.path = now;
            index.insert_entry(other);
        } else if has_usable_name(&other) {
            let (file, name) = (path.display(), &other.conversation);
            notes.push(format!(
                "{file} is another file now; to continue conversation {name} of the old one: \
                 --file-edit {file} --load-conversation {name}"
            ));
            index.insert_gone_entry(other);
        }
    }
    notes
}

/// Finds an entry's own file: at its path, or under another name in the same folder, but not as an editor's backup.
fn find_moved_file(entry: &FileIndexEntry) -> Option<PathBuf> {
    if fs::file_id(&entry.path).is_some_and(|id| id == entry.file_id) {
        return Some(entry.path.clone());
    }
    if !is_certain(&entry.file_id) {
        return None;
    }
    let inode: u64 = entry.file_id.split(':').nth(1)?.parse().ok()?;
    let original = entry.path.file_name()?;
    let files = std::fs::read_dir(entry.path.parent()?).ok()?.flatten();
    files
        .filter(|file| file.ino() == inode && !is_backup(&file.file_name(), original))
        .map(|file| file.path())
        .find(|path| fs::file_id(path).is_some_and(|id| id == entry.file_id))
}

/// The time of the last write to an entry's conversation, since 1970.
fn last_used(root: &Root, entry: &FileIndexEntry) -> Duration {
    root::check_name(&entry.conversation)
        .map_or(Duration::ZERO, |()| fs::modified(&root.conversation(&entry.conversation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_time_of_birth_an_inode_counts_only_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root { folder: folder.path().join("root") };
        let (here, other) = (folder.path().join("here"), folder.path().join("other"));
        let find = |entry_id: &str, file_id: &str, path: &Path| {
            let mut index = FileIndex::default();
            index.insert_entry(FileIndexEntry {
                file_id: entry_id.to_owned(),
                path: here.clone(),
                conversation: "c".to_owned(),
                other: Map::new(),
            });
            let file = IndexedFile { path, id: Some(file_id.to_owned()) };
            file.entry(&root, &index).is_some()
        };
        assert!(find("1:2:3", "1:2:3", &other), "renamed");
        assert!(find("1:2:0", "1:2:0", &here));
        assert!(!find("1:2:0", "1:2:0", &other), "renamed, or another one's");
        assert!(find("1:2:0", "1:5:0", &here), "saved by renaming");
    }
}
