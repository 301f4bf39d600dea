//! Writes a file in one step: readers see the old content or the new one, never a part.
//!
//! This is for the toolkit's own files; the user's are written through [`super::replace`], which asks the write boundary.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, Mode};

use super::durable::parent_folder;
use super::temp_files::{PRIVATE, TempFile, open_folder};

/// Options for writing a file: for its owner alone and durably, unless an option says otherwise. With [`super::replace`]
/// (files of the user, in the boundary) and the files of `outputs/` (named by their hash) this is one of three ways to write
/// a whole file.
#[derive(Debug, Clone, Copy)]
pub struct AtomicFile<'a> {
    /// Its path; only its name where the folder is open.
    path: &'a Path,
    folder: Option<BorrowedFd<'a>>,
    /// The permissions of a new file, from which the umask takes some.
    mode: Mode,
    keeps_mode: bool,
    is_durable: bool,
}

impl<'a> AtomicFile<'a> {
    /// Starts with the file at this path, which need not exist. Its folder must.
    pub fn new(path: &'a Path) -> Self {
        Self { path, folder: None, mode: PRIVATE, keeps_mode: false, is_durable: true }
    }

    /// Starts with the file of this name in an open folder.
    pub fn within(folder: &'a impl AsFd, name: &'a OsStr) -> Self {
        Self { folder: Some(folder.as_fd()), ..Self::new(Path::new(name)) }
    }

    /// Sets the permissions of a new file.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode: Mode::from_raw_mode(mode), ..self }
    }

    /// Keeps the file's permissions, for a file that others may read; a new file gets those that the umask allows.
    #[must_use]
    pub fn keep_mode(self) -> Self {
        Self { keeps_mode: true, ..self.mode(0o666) }
    }

    /// Skips the two syncs, for a file that may be lost in a power cut: a cache.
    #[must_use]
    pub fn without_sync(self) -> Self {
        Self { is_durable: false, ..self }
    }

    /// Writes the file, replacing the one that is there.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        self.write_with(false, &mut |file| file.write_all(bytes))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes a new file.
    pub fn create(self, bytes: &[u8]) -> Result<()> {
        self.write_with(true, &mut |file| file.write_all(bytes))
            .with_context(|| format!("cannot create {}", self.path.display()))
    }

    /// Writes what `fill` puts into the file; `no_clobber` as in [`AtomicFile::create`].
    pub fn write_with(
        self,
        no_clobber: bool,
        fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = self.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = match self.folder {
            Some(folder) => folder.try_clone_to_owned()?,
            None => open_folder(parent_folder(self.path))?,
        };
        let old = rustix::fs::statat(&dir, name, AtFlags::empty());
        let old = old.ok().filter(|_| self.keeps_mode);
        let mut new = TempFile::create_in(dir, if old.is_some() { PRIVATE } else { self.mode })?;
        if let Some(old) = old {
            rustix::fs::fchmod(new.file_mut(), Mode::from_raw_mode(old.st_mode & 0o777))?;
        }
        fill(new.file_mut())?;
        if self.is_durable {
            new.persist_durably(name, no_clobber)
        } else {
            new.persist(name, no_clobber)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::durable::tests as synced;
    use super::*;

    #[test]
    fn what_is_written_is_durable_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for content in ["one", "other"] {
            AtomicFile::new(&path).write(content.as_bytes()).unwrap();
            synced::check(&path);
        }
        AtomicFile::new(&path).keep_mode().write(b"others").unwrap();
        synced::check(&path);
        let path = dir.path().join("b");
        AtomicFile::new(&path).create(b"one").unwrap();
        synced::check(&path);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_is_private_unless_its_mode_is_kept_and_a_taken_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        AtomicFile::new(&path).without_sync().write(b"one").unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        AtomicFile::new(&path).keep_mode().write(b"two").unwrap();
        assert_eq!(mode(), 0o640);
        let taken = AtomicFile::new(&path).create(b"three").unwrap_err();
        let kind = taken.downcast_ref::<io::Error>().map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
