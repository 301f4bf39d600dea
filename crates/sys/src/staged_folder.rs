//! Builds a folder next to its final place, and then moves it there in one step.
//!
//! While it is built, the folder for the place `{name}` is called `.nagent-split-{name}`, and its builder holds a lock
//! (`flock`) on it. It is then exchanged with the existing folder (`RENAME_EXCHANGE`), which is removed, or restored if
//! something in it is worth keeping. A killed run leaves an unfinished new folder or the replaced one under the
//! temporary name; the next run for the same place removes it, or fails if something in it is worth keeping.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::atomic_file::AtomicFile;
use super::durable::parent_folder;
use super::fs::make_folders;
use super::lock::{self, LockError};
use conversation::format::harmless::quote_name;

const STAGE: &str = ".nagent-split-";
/// Maximum length of the place's name in the temporary name, in bytes; a file name has at most 255.
const NAME_BYTES: usize = 220;
const SYNCS: usize = 8;

/// Whether nothing in a folder is worth keeping.
pub(crate) type IsDisposable<'a> = &'a dyn Fn(&Path) -> bool;

/// A folder that is being built. It is removed when it is dropped before [`StagedFolder::publish`].
#[derive(Debug)]
pub struct StagedFolder {
    path: PathBuf,
    place: PathBuf,
    is_published: bool,
    /// The locks on the new folder and on the one at its place.
    _locks: (File, Option<File>),
}

impl StagedFolder {
    /// Creates the folder, and the missing parents of its place: for the owner alone if `private`, else with the usual
    /// permissions. If a folder exists at the place, its permissions are used. `is_disposable` decides about the folder
    /// that a killed run may have left.
    pub fn create(
        place: &Path,
        private: bool,
        is_disposable: IsDisposable<'_>,
    ) -> io::Result<Self> {
        let mode = if private { 0o700 } else { 0o777 };
        let is_there = fs::symlink_metadata(place).is_ok();
        let place = if is_there {
            fs::canonicalize(place)?
        } else {
            let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let parent = parent_folder(place);
            make_folders(parent, mode)?;
            fs::canonicalize(parent)?.join(name)
        };
        if is_there && !fs::metadata(&place)?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let place_lock = is_there.then(|| lock_folder(&place)).transpose()?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let name = &name[..name.floor_char_boundary(NAME_BYTES)];
        let path = place.with_file_name(format!("{STAGE}{name}"));
        let lock = loop {
            match DirBuilder::new().mode(mode).create(&path) {
                Ok(()) => break lock_folder(&path)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let _lock = lock_folder(&path)?;
                    if !is_disposable(&path) {
                        return Err(worth_keeping(&path));
                    }
                    fs::remove_dir_all(&path)?;
                }
                Err(error) => return Err(error),
            }
        };
        if is_there {
            fs::set_permissions(&path, fs::metadata(&place)?.permissions())?;
        }
        let locks = (lock, place_lock);
        Ok(Self { path, place, is_published: false, _locks: locks })
    }

    /// The true path that the folder will have.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Creates a file in the folder. The umask applies to `mode`.
    pub fn create_file(&self, name: &str, mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(mode).open(self.path.join(name))
    }

    /// Creates a file with a text, durably and whole or not at all: a killed run leaves no partial file.
    pub fn create_whole_file(&self, name: &str, mode: u32, text: &str) -> io::Result<()> {
        let path = self.path.join(name);
        AtomicFile::new(&path)
            .mode(mode)
            .write_with(true, &mut |file| file.write_all(text.as_bytes()))
    }

    /// Makes the content of all files durable, several in parallel: that takes a tenth of the time.
    pub fn sync_files(&self) -> io::Result<()> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            paths.push(entry?.path());
        }
        let sync = |paths: &[PathBuf]| {
            paths.iter().try_for_each(|path| File::open(path).and_then(|file| file.sync_all()))
        };
        if paths.len() <= SYNCS {
            return sync(&paths);
        }
        std::thread::scope(|scope| {
            let parts = paths.chunks(paths.len().div_ceil(SYNCS));
            let running: Vec<_> = parts.map(|paths| scope.spawn(move || sync(paths))).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    /// Moves the folder to its place, durably, and removes the one that was there. Fails and leaves all unchanged if
    /// that one is not disposable: an editor may have saved something in it meanwhile.
    pub fn publish(mut self, is_disposable: IsDisposable<'_>) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        let parent = File::open(self.place.parent().unwrap_or(Path::new("/")))?;
        if fs::symlink_metadata(&self.place).is_err() {
            fs::rename(&self.path, &self.place)?;
            self.is_published = true;
            return parent.sync_all();
        }
        self.exchange()?;
        // Until we know that the old folder is disposable, the drop must not remove it under this name.
        self.is_published = true;
        parent.sync_all()?;
        if !is_disposable(&self.path) {
            self.exchange()?;
            self.is_published = false;
            return Err(worth_keeping(&self.place));
        }
        fs::remove_dir_all(&self.path)?;
        parent.sync_all()
    }

    /// Exchanges the folder with the one at its place, in one step. A file system that cannot do that is refused.
    fn exchange(&self) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(CWD, &self.path, CWD, &self.place, RenameFlags::EXCHANGE)?)
    }
}

fn worth_keeping(folder: &Path) -> io::Error {
    let folder = quote_name(folder);
    io::Error::other(format!("{folder} has edits, or files that no split made; move it away"))
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        if !self.is_published {
            // A failure here is ignored: the first error matters more.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Takes the lock of a folder, which a patch takes too.
fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    match lock::lock_folder(folder.try_clone()?, path, None) {
        // A file system may have no locks.
        Ok(_) | Err(LockError::Failed(_)) => Ok(folder),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

/// Lists the names in a folder, including those that are not text.
pub fn list_names(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn begin(place: &Path) -> StagedFolder {
        let folder = StagedFolder::create(place, false, &|_| false).unwrap();
        folder.create_file("a", 0o600).unwrap().write_all(b"new").unwrap();
        folder.sync_files().unwrap();
        folder
    }

    #[test]
    fn nothing_stays_of_a_folder_that_is_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("x/y");
        let folder = begin(&place);
        let error = StagedFolder::create(&place, false, &|_| true).unwrap_err().to_string();
        assert!(error.contains("another process is working on"), "{error}");
        drop(folder);
        assert!(listing(&dir.path().join("x")).is_empty());
        begin(&place).publish(&|_| true).unwrap();
        assert_eq!(listing(&place), ["a"]);
        assert_eq!(listing(&dir.path().join("x")), ["y"]);
    }

    #[test]
    fn a_replaced_folder_is_removed_or_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("p");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("a"), "old").unwrap();
        let error = begin(&place).publish(&|_| false).unwrap_err().to_string();
        assert!(error.contains("move it away"), "{error}");
        assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "old");
        assert_eq!(listing(dir.path()), ["p"]);
        begin(&place).publish(&|_| true).unwrap();
        assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "new");
        assert_eq!(listing(dir.path()), ["p"]);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (left, place) = (dir.path().join(".nagent-split-p"), dir.path().join("p"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("b"), "left").unwrap();
        let error = StagedFolder::create(&place, false, &|_| false).unwrap_err().to_string();
        assert!(error.contains(".nagent-split-p has edits"), "{error}");
        assert_eq!(listing(&left), ["b"]);
        StagedFolder::create(&place, false, &|_| true).unwrap().publish(&|_| true).unwrap();
        assert_eq!(listing(dir.path()), ["p"]);
    }
}
