//! Removes what is no longer needed: conversations are moved into the trash, stored files are deleted.
//!
//! A stored file may be used again at any instant, by a run that stores the same content. Such a run first marks the
//! file as used now, and then checks that it still has its name. Here a file is first renamed, and then its time is
//! checked: whichever comes second notices the other, so no run relies on a file that is then removed.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::durable::{rename_to_free_name, sync_folder};
use super::fs::{create_private_folder, modified_time, rename_file};
use super::lock::{LockMode, try_lock};
use super::root::Root;
use super::temp_files::is_temp_name;
use super::walk::walk_below;

/// A file or folder that may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes; for a folder, that of all files in it.
    pub bytes: u64,
    /// The time of the last modification, of it or of anything in it, since 1970.
    pub modified: Duration,
    /// The time of the last change of its inode, as by a rename, since 1970.
    pub changed: Duration,
}

impl Stored {
    /// Reads the metadata of a path. `None` if it does not exist.
    pub fn read_metadata(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
        let changed = Duration::new(u64::try_from(metadata.ctime()).unwrap_or(0), nanos);
        let (bytes, modified) = measure(path, &metadata);
        Some(Self { path: path.to_owned(), bytes, modified, changed })
    }

    /// The file name, where it is text.
    pub fn file_name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Whether it is a remnant of a killed removal or writer.
    pub fn is_leftover(&self) -> bool {
        is_temp_name(self.file_name())
    }
}

/// The size of a file or folder, and the time of the last modification in it. Links are not followed.
fn measure(path: &Path, metadata: &Metadata) -> (u64, Duration) {
    if !metadata.is_dir() {
        return (metadata.len(), modified_time(metadata));
    }
    let below = walk_below(path, &|_| true).filter_map(|entry| entry.metadata().ok());
    below.fold((0, modified_time(metadata)), |(bytes, modified), metadata| {
        let own = if metadata.is_dir() { 0 } else { metadata.len() };
        (bytes + own, modified.max(modified_time(&metadata)))
    })
}

/// Lists a folder in the order of names. A missing folder is empty.
pub fn list_stored(folder: &Path) -> Vec<Stored> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut stored: Vec<Stored> =
        entries.filter_map(|entry| Stored::read_metadata(&entry.path())).collect();
    stored.sort_by(|a, b| a.path.cmp(&b.path));
    stored
}

/// All files below a folder, in the order of paths.
pub fn list_files_below(folder: &Path) -> Vec<Stored> {
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| !kind.is_dir());
    let files = walk_below(folder, &|_| true).filter(is_file);
    let mut files: Vec<Stored> =
        files.filter_map(|file| Stored::read_metadata(&file.path())).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Moves a conversation, whose lock is held, into the trash together with its companion files, and returns its new
/// path.
///
/// # Errors
/// It was not moved, unless the error names a companion file.
pub fn move_to_trash(root: &Root, name: &str) -> Result<PathBuf> {
    let trash = root.trash_folder();
    create_private_folder(&trash)?;
    let place = free_place(&trash, name);
    rename_file(&root.conversation(name), &place)?;
    for beside in root.companion_folders(name).iter().filter(|beside| beside.exists()) {
        let ending = beside.extension().unwrap_or_default();
        rename_file(beside, &place.with_added_extension(ending))?;
    }
    sync_folder(&root.conversations())?;
    Ok(place)
}

/// A free path in a folder: this name, or one with an id appended.
pub(super) fn free_place(folder: &Path, name: &str) -> PathBuf {
    let place = folder.join(name);
    let is_taken = fs::symlink_metadata(&place).is_ok();
    if is_taken { folder.join(format!("{name}-{}", uuid::Uuid::new_v4())) } else { place }
}

/// Removes a file, or a folder with everything in it. It is not an error if it does not exist.
pub fn remove(path: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a stored file or folder unless it was used after `cutoff`, a time since 1970, or is locked. Returns whether
/// it is gone.
pub fn remove_unused(stored: &Stored, cutoff: Duration) -> io::Result<bool> {
    // A split that is in use is locked.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let lock = OpenOptions::new().read(true).custom_flags(nonblock).open(&stored.path).ok();
    let is_free = |file: &File| try_lock(file, LockMode::Exclusive, &stored.path).unwrap_or(false);
    if !lock.as_ref().is_some_and(is_free) {
        return Ok(false);
    }
    let aside =
        stored.path.with_file_name(format!(".nagent-{}.tmp", uuid::Uuid::new_v4().simple()));
    let here = rustix::fs::CWD;
    rename_to_free_name(here, stored.path.as_os_str(), here, aside.as_os_str())?;
    if Stored::read_metadata(&aside).is_some_and(|now| now.modified > cutoff) {
        // If a run has stored it again meanwhile, this file is the second copy.
        match rename_to_free_name(here, aside.as_os_str(), here, stored.path.as_os_str()) {
            Err(rustix::io::Errno::EXIST) => {}
            restored => return restored.map(|()| false).map_err(Into::into),
        }
    }
    remove(&aside).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::store_output;

    #[test]
    fn what_is_used_again_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = store_output(dir.path(), b"content").unwrap();
        let old = Duration::from_secs(1000);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + old).unwrap();
        let stored = Stored::read_metadata(&path).unwrap();
        assert_eq!((stored.modified, stored.bytes), (old, 7));
        // A run stores the same content after the look.
        store_output(dir.path(), b"content").unwrap();
        assert!(!remove_unused(&stored, old).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"content");
        let used = Stored::read_metadata(&path).unwrap();
        assert!(used.modified > old);
        assert!(remove_unused(&used, used.modified).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // And now it has to be stored again.
        assert_eq!(fs::read(store_output(dir.path(), b"content").unwrap()).unwrap(), b"content");
    }

    #[test]
    fn what_is_locked_stays() {
        let dir = tempfile::tempdir().unwrap();
        let split = dir.path().join("split");
        fs::create_dir(&split).unwrap();
        let lock = File::open(&split).unwrap();
        lock.try_lock().unwrap();
        let stored = Stored::read_metadata(&split).unwrap();
        assert!(!remove_unused(&stored, Duration::MAX).unwrap());
        drop(lock);
        assert!(remove_unused(&stored, Duration::MAX).unwrap() && !split.exists());
        // Nobody writes to it.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &split, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let stored = Stored::read_metadata(&split).unwrap();
        assert!(remove_unused(&stored, Duration::MAX).unwrap() && !split.exists());
    }
}
