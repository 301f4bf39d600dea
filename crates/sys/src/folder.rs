//! Opens regular files by plain names in an open folder: for a split, whose index anybody may have written.
//!
//! No path here can lead elsewhere: symbolic links are not followed, FIFOs and devices not opened. The write boundary
//! ([`super::boundary`]) has already checked the folder, for the file that it was opened for.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::file_error::FileError;
use super::file_stamp::FileStamp;
use super::interrupt::Interrupts;
use super::lock::lock_folder;
use super::opening::{Opened, READ_FILE};
use conversation::problem::Problem;

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of a file that the write boundary allowed.
    pub fn open_parent(opened: &Opened) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = opened.path().parent().unwrap_or(Path::new("/")).to_owned();
        let failed = |errno| FileError::from_io("open the folder", &path, errno);
        if !opened.missing.is_empty() {
            return Err(failed(Errno::NOENT));
        }
        let dir = rustix::fs::openat(&opened.dir, ".", flags, Mode::empty()).map_err(failed)?;
        Ok(Self { dir, path })
    }

    /// The true path of the folder when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading; `None` if there is none. Anything but a regular file is refused.
    pub fn open_file(&self, name: &OsStr) -> Result<Option<File>, FileError> {
        let path = self.path.join(name);
        let failed = |errno: Errno| FileError::from_io("read", &path, errno);
        let stat = match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        FileError::check_regular(&path, FileType::from_raw_mode(stat.st_mode), String::new)?;
        let file = rustix::fs::openat(&self.dir, name, READ_FILE, Mode::empty()).map_err(failed)?;
        Ok(Some(File::from(file)))
    }

    /// Whether the path of the folder still leads to it.
    pub fn is_at_path(&self) -> bool {
        let now = FileStamp::of_path(&self.path);
        now.zip(FileStamp::of_open(&self.dir)).is_some_and(|(now, open)| now.same_file(&open))
    }

    /// Takes the lock of the folder, which a split takes too, waiting at most `patience`. It lasts until the file is closed.
    pub fn wait_for_lock(
        &self,
        patience: Duration,
        interrupts: &Interrupts,
    ) -> Result<File, Problem> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, ".", flags, Mode::empty());
        let file = file.map_err(|errno| FileError::from_io("lock", &self.path, errno))?;
        Ok(lock_folder(File::from(file), &self.path, Some((patience, interrupts)))?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::boundary::{Boundary, BoundaryFolders};
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let places = BoundaryFolders {
            cwd: dir.path(),
            toplevel: None,
            home: None,
            root: &root,
            tmpdir: None,
        };
        let boundary = Boundary::for_file(places, Path::new("index.json")).unwrap();
        let opened = boundary.open_for_write(Path::new("index.json")).unwrap();
        let folder = Folder::open_parent(&opened).unwrap();
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
        folder.open_file("file".as_ref()).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(folder.open_file("none".as_ref()).unwrap().is_none());
        for (name, kind) in [("link", "symbolic link"), ("sub", "folder"), ("fifo", "FIFO")] {
            let error = folder.open_file(name.as_ref()).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
    }

    #[test]
    fn a_lock_is_held_once() {
        let (_dir, folder) = folder();
        let interrupts = Interrupts::none();
        let take = || folder.wait_for_lock(Duration::from_millis(30), &interrupts);
        let held = take().unwrap();
        assert!(take().unwrap_err().message.contains("another process"));
        drop(held);
        take().unwrap();
    }
}
