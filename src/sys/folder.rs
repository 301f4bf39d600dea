//! An open folder, and regular files in it by plain names: for a split, whose index may have been written by anybody.
//!
//! There is no path here that could lead elsewhere: links are not followed, FIFOs and devices not opened. Whether the
//! folder may be written was asked of [`super::boundary`] before, by the file that it was opened for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::denied::Denied;
use super::interrupt::Interrupts;
use super::lock::{WaitError, wait_lock};
use super::opening::Opened;
use crate::exit::Signal;

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    path: PathBuf,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "held open, and nothing else")] File);

/// Why a lock was not had.
#[derive(Debug)]
pub enum NoLock {
    /// Another process holds it.
    Busy,
    /// A signal came while waiting.
    Interrupted(Signal),
    /// The system refused.
    Failed(Denied),
}

impl Folder {
    /// The folder of a file that the write boundary let through.
    pub fn of(opened: &Opened) -> Result<Self, Denied> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = opened.path().parent().unwrap_or(Path::new("/")).to_owned();
        let failed = |errno| Denied::io("open the folder", &path, errno);
        if !opened.missing.is_empty() {
            return Err(failed(Errno::NOENT));
        }
        let dir = rustix::fs::openat(&opened.dir, ".", flags, Mode::empty()).map_err(failed)?;
        Ok(Self { dir, path })
    }

    /// Its true path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading. Nothing where there is none; anything but a regular file is refused.
    pub fn read(&self, name: &OsStr) -> Result<Option<File>, Denied> {
        let path = self.path.join(name);
        let special = |kind| Err(Denied::Special { path: super::names::shown(&path), kind });
        let failed = |errno: Errno| Denied::io("read", &path, errno);
        let stat = match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return special("folder"),
            FileType::Symlink => return special("symbolic link"),
            FileType::Fifo => return special("FIFO"),
            FileType::Socket => return special("socket"),
            _ => return special("device"),
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::empty()).map_err(failed)?;
        Ok(Some(File::from(file)))
    }

    /// Makes a file, has it filled, and makes its content durable. What stood under the name is removed before, and
    /// the file too when it could not be filled. It gets the mode of `like`, where there is such a file.
    pub fn create(
        &self,
        name: &OsStr,
        like: &OsStr,
        write: &mut dyn FnMut(&mut File) -> io::Result<()>,
    ) -> Result<(), Denied> {
        let path = self.path.join(name);
        let failed = |error: io::Error| Denied::io("write", &path, error);
        self.remove(name)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| failed(errno.into()))?;
        if let Ok(stat) = rustix::fs::statat(&self.dir, like, AtFlags::SYMLINK_NOFOLLOW) {
            let mode = Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777);
            rustix::fs::fchmod(&file, mode).map_err(|errno| failed(errno.into()))?;
        }
        let mut file = File::from(file);
        let filled = write(&mut file).and_then(|()| file.sync_all());
        if filled.is_err() {
            // The error that led here says more than one about this.
            _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
        }
        filled.map_err(failed)
    }

    /// Gives a file another name, in one step; what stood under that is gone. Not yet durable.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Denied> {
        rustix::fs::renameat(&self.dir, from, &self.dir, to)
            .map_err(|errno| Denied::io("replace", &self.path.join(to), errno))
    }

    /// Gives a file a second name.
    pub fn link(&self, from: &OsStr, to: &OsStr) -> Result<(), Denied> {
        self.remove(to)?;
        rustix::fs::linkat(&self.dir, from, &self.dir, to, AtFlags::empty())
            .map_err(|errno| Denied::io("make a second name for", &self.path.join(from), errno))
    }

    /// Removes a file that may be gone already.
    pub fn remove(&self, name: &OsStr) -> Result<(), Denied> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Denied::io("remove", &self.path.join(name), errno)),
        }
    }

    /// Makes names durable.
    pub fn sync(&self) -> Result<(), Denied> {
        rustix::io::retry_on_intr(|| rustix::fs::fsync(&self.dir))
            .map_err(|errno| Denied::io("sync the folder", &self.path, errno))
    }

    /// All names in it.
    pub fn names(&self) -> Result<Vec<OsString>, Denied> {
        use std::os::unix::ffi::OsStrExt;
        let failed = |errno: Errno| Denied::io("list", &self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        }
        Ok(names)
    }

    /// Takes the folder's lock, the one that [`super::split_files`] takes too, waiting up to `longest`.
    pub fn lock(&self, longest: Duration, interrupts: &Interrupts) -> Result<Held, NoLock> {
        let failed = |error: io::Error| NoLock::Failed(Denied::io("lock", &self.path, error));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, ".", flags, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        let file = File::from(file);
        match wait_lock(&file, longest, interrupts, &mut |_| ()) {
            Ok(()) => Ok(Held(file)),
            Err(WaitError::TimedOut) => Err(NoLock::Busy),
            Err(WaitError::Interrupted(signal)) => Err(NoLock::Interrupted(signal)),
            Err(WaitError::Failed(error)) => Err(failed(error)),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::boundary::{Boundary, Places};
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let places =
            Places { cwd: dir.path(), toplevel: None, home: None, root: &root, tmpdir: None };
        let boundary = Boundary::for_file(places, Path::new("index.json")).unwrap();
        let opened = boundary.open_for_write(Path::new("index.json")).unwrap();
        let folder = Folder::of(&opened).unwrap();
        (dir, folder)
    }

    #[test]
    fn only_regular_files_are_read() {
        let (dir, folder) = folder();
        fs::write(dir.path().join("file"), "text").unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let mut text = String::new();
        folder.read("file".as_ref()).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(folder.read("none".as_ref()).unwrap().is_none());
        for (name, kind) in [("link", "symbolic link"), ("sub", "folder"), ("fifo", "FIFO")] {
            let error = folder.read(name.as_ref()).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_filled_does_not_stay() {
        let (dir, folder) = folder();
        fs::write(dir.path().join("old"), "").unwrap();
        fs::set_permissions(dir.path().join("old"), fs::Permissions::from_mode(0o640)).unwrap();
        folder.create("new".as_ref(), "old".as_ref(), &mut |file| file.write_all(b"x")).unwrap();
        let mode = fs::metadata(dir.path().join("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let failing = &mut |_: &mut File| Err(io::Error::other("full"));
        folder.create("new".as_ref(), "old".as_ref(), failing).unwrap_err();
        assert_eq!(folder.names().unwrap().iter().filter(|name| *name == "new").count(), 0);
    }

    #[test]
    fn a_lock_is_held_once() {
        let (_dir, folder) = folder();
        let interrupts = Interrupts::none();
        let take = || folder.lock(Duration::from_millis(30), &interrupts);
        let held = take().unwrap();
        assert!(matches!(take(), Err(NoLock::Busy)));
        drop(held);
        take().unwrap();
    }
}
