//! A file that the user names for output. A regular file is replaced in one step, a link is followed, and anything
//! else, such as `>(…)`, a FIFO or `/dev/null`, is opened and written.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, Mode, OFlags, access};

use super::atomic_file::AtomicFile;
use super::durable::parent_folder;
use super::input::is_inherited_descriptor;
use super::names::follow_links;
use super::temp_files::open_folder;

/// Whether a path names standard output.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// A file for output, whose folder is opened before there is any: what happens to its path meanwhile leads the output
/// nowhere else.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// The folder and the name in it; `None` for an open file of this process, which has none.
    place: Option<(OwnedFd, OsString)>,
    /// Whether it is, or was to be, a regular file; anything else is opened and written.
    is_replaced: bool,
}

impl OutputFile {
    /// Opens the folder.
    ///
    /// # Errors
    /// It is a folder, it or its folder does not exist or may not be written.
    pub fn open(path: &Path) -> Result<Self> {
        let is_open = is_stdout(path) || path == Path::new("/dev/stderr");
        if is_open || is_inherited_descriptor(path) {
            return Ok(Self { path: path.to_owned(), place: None, is_replaced: false });
        }
        let target = follow_links(path);
        let name = target.file_name().filter(|_| !target.is_dir());
        let Some(name) = name else { bail!("cannot write {}: it is a folder", path.display()) };
        let is_replaced = fs::metadata(&target).map_or(true, |metadata| metadata.is_file());
        let open = || -> io::Result<OwnedFd> {
            if target.exists() {
                access(&target, Access::WRITE_OK)?;
            }
            if is_replaced {
                access(parent_folder(&target), Access::WRITE_OK)?;
            }
            open_folder(parent_folder(&target))
        };
        let folder = open().with_context(|| format!("cannot write {}", target.display()))?;
        let place = Some((folder, name.to_owned()));
        Ok(Self { path: std::path::absolute(path)?, place, is_replaced })
    }

    /// Its path, absolute but for an open file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes bytes to the file. As on stdout, a reader that has gone is not an error.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        match self.write_bytes(bytes) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).with_context(|| format!("cannot write {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    fn write_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let Some((folder, name)) = &self.place else {
            let path = if is_stdout(&self.path) { Path::new("/dev/stdout") } else { &self.path };
            return OpenOptions::new().append(true).open(path)?.write_all(bytes);
        };
        if !self.is_replaced {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            return File::from(opened).write_all(bytes);
        }
        let file = AtomicFile::within(folder, name).keep_mode();
        file.write_with(false, &mut |file| file.write_all(bytes))
    }
}
