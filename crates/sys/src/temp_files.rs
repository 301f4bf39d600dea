//! New files that do not have their name yet.
//!
//! A new file has no name at all where the file system supports that, so that nothing of it remains after a kill.
//! Elsewhere, and for an instant before it is renamed, it is called `.nagent-{32 digits}.tmp`: there a kill leaves it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::durable::{rename_to_free_name, sync_file, sync_names};

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
        let name = format!(".nagent-{}.tmp", uuid::Uuid::new_v4().simple());
        let unnamed = create_unnamed(&dir, mode);
        let is_linked = unnamed.is_none();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let named = || rustix::fs::openat(&dir, &name, flags, mode).map(File::from);
        let file = unnamed.map_or_else(named, Ok)?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
