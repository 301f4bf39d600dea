//! New files that do not have their name yet, and the removal of those that killed runs left.
//!
//! A new file has no name at all where the file system supports that, so that nothing of it remains after a kill.
//! Elsewhere, and for an instant before it is renamed, it is called `.nagent-{32 digits}.tmp`, and its maker holds a
//! lock (`flock`) on it; the kernel frees the lock however the maker ends. A file with such a name that is not locked
//! and older than an hour is removed when the next new file is made in its folder. Nothing else is ever removed here.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};

use super::durable::{rename_to_free_name, sync_file, sync_names};

/// Minimum age of a file that is removed: its maker may be between creating and locking it.
const MIN_AGE: Duration = Duration::from_hours(1);

/// The mode of a file for its owner alone.
pub(super) const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// A new file in a folder. It is removed when it is dropped before it has its name.
#[derive(Debug)]
pub(crate) struct TempFile {
    dir: OwnedFd,
    file: File,
    name: String,
    /// Whether it is in the folder under `name`.
    is_linked: bool,
}

impl TempFile {
    /// Creates a file for its owner alone.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Self::create_in(open_folder(folder)?, PRIVATE)
    }

    /// Creates a file in an open folder. The umask applies to `mode`.
    pub(super) fn create_in(dir: OwnedFd, mode: Mode) -> io::Result<Self> {
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(dir) = rustix::fs::openat(&dir, ".", readable, Mode::empty()) {
            remove_leftovers(&dir);
        }
        let name = format!(".nagent-{}.tmp", uuid::Uuid::new_v4().simple());
        let unnamed = create_unnamed(&dir, mode);
        let is_linked = unnamed.is_none();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let named = || rustix::fs::openat(&dir, &name, flags, mode).map(File::from);
        let file = unnamed.map_or_else(named, Ok)?;
        // On a file system without locks, only the age protects it.
        _ = file.try_lock();
        Ok(Self { dir, file, name, is_linked })
    }

    /// The file, open for reading and writing.
    pub(super) fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name, not yet durably. A file of that name is replaced; with `no_clobber` the error is
    /// `AlreadyExists`.
    pub(super) fn persist(&mut self, name: &OsStr, no_clobber: bool) -> io::Result<()> {
        if !self.is_linked {
            // A link cannot replace a file, so link it under a temporary name and rename that.
            let linked_as = if no_clobber { name } else { self.name.as_ref() };
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(CWD, path, &self.dir, linked_as, AtFlags::SYMLINK_FOLLOW)?;
            if no_clobber {
                return Ok(());
            }
            self.is_linked = true;
        }
        if no_clobber {
            rename_to_free_name(&self.dir, self.name.as_ref(), &self.dir, name)?;
        } else {
            rustix::fs::renameat(&self.dir, &self.name, &self.dir, name)?;
        }
        self.is_linked = false;
        Ok(())
    }

    /// Gives the file its name like [`TempFile::persist`], durably. If that fails, a new name is removed again.
    pub(super) fn persist_durably(mut self, name: &OsStr, no_clobber: bool) -> io::Result<()> {
        sync_file(&self.file)?;
        self.persist(name, no_clobber)?;
        sync_names(&self.dir).inspect_err(|_| {
            if no_clobber {
                // No other process knows the file yet, and the name was new.
                _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
            }
        })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.is_linked {
            // A failure here is ignored: the first error matters more.
            _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Opens a folder to create files in it.
pub(super) fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, folder, flags, Mode::empty())?)
}

/// A new file without a name, if the file system supports that and there is procfs, which is needed to name it later.
fn create_unnamed(dir: &OwnedFd, mode: Mode) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXEC_OK).ok()?;
    rustix::fs::openat(dir, ".", flags, mode).ok().map(File::from)
}

/// Whether this is the name of a new file, or of one that a killed run left.
pub fn is_temp_name(name: &str) -> bool {
    name.strip_prefix(".nagent-").and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(|word| {
        word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The device and inode numbers of the folders that this process has already cleaned.
static DONE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Removes the new files that killed runs left in a folder, once per folder and process. Errors are ignored.
fn remove_leftovers(dir: impl AsFd) {
    let Ok(stat) = rustix::fs::fstat(&dir) else { return };
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if done.contains(&(stat.st_dev, stat.st_ino)) {
        return;
    }
    done.push((stat.st_dev, stat.st_ino));
    let Ok(entries) = Dir::read_from(&dir) else { return };
    for entry in entries.flatten().take(20_000) {
        if entry.file_name().to_str().is_ok_and(is_temp_name) {
            _ = remove_leftover(&dir, entry.file_name());
        }
    }
}

/// Removes a file that is not locked and was not written for an hour.
fn remove_leftover(dir: impl AsFd, name: &std::ffi::CStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let is_ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    let is_old = metadata.modified()?.elapsed().is_ok_and(|age| age > MIN_AGE);
    if is_ours && is_old && file.try_lock().is_ok() {
        rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
    }
    Ok(())
}

/// If all tests run in one process, an inode number may be reused.
#[cfg(test)]
pub(super) fn forget_done() {
    DONE.lock().unwrap().clear();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_unlocked_files_of_ours_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = |digit: &str| format!(".nagent-{}.tmp", digit.repeat(32));
        let removed = [name("0"), name("a")];
        let kept = [
            name("1"),
            name("2"),
            name("3") + "0",
            format!("x{}", name("4")),
            ".nagent-notes.tmp".to_owned(),
        ];
        let long_ago = SystemTime::now() - 2 * MIN_AGE;
        for name in removed.iter().chain(&kept) {
            let path = folder.path().join(name);
            fs::write(&path, "x").unwrap();
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        let locked = File::open(folder.path().join(&kept[0])).unwrap();
        locked.try_lock().unwrap();
        let young = File::options().write(true).open(folder.path().join(&kept[1])).unwrap();
        young.set_modified(SystemTime::now()).unwrap();
        fs::create_dir(folder.path().join(name("5"))).unwrap();
        forget_done();
        remove_leftovers(File::open(folder.path()).unwrap());
        for name in &removed {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        for name in &kept {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        assert!(folder.path().join(name("5")).exists());
    }

    #[test]
    fn a_new_file_is_gone_unless_it_has_its_name_and_takes_no_name_that_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        drop(TempFile::create(folder.path()).unwrap());
        assert_eq!(count(), 0);
        for (no_clobber, content) in [(true, "one"), (false, "two")] {
            let mut new = TempFile::create(folder.path()).unwrap();
            io::Write::write_all(new.file_mut(), content.as_bytes()).unwrap();
            new.persist("name".as_ref(), no_clobber).unwrap();
            drop(new);
            assert_eq!(fs::read_to_string(folder.path().join("name")).unwrap(), content);
        }
        let mut third = TempFile::create(folder.path()).unwrap();
        let taken = third.persist("name".as_ref(), true).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        drop(third);
        assert_eq!(count(), 1);
    }
}
