//! A file that the user names for output. A regular file is replaced in one step, a link is followed, and anything
//! else, such as `>(…)`, a FIFO or `/dev/null`, is opened and written.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};

use super::atomic_file::AtomicFile;
use super::durable::parent_folder;
use super::input::is_inherited_descriptor;

/// Whether a path names standard output.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Refuses a file that cannot be written, before there is any output.
///
/// # Errors
/// It is a folder, it or its folder does not exist or may not be written.
pub fn check_output(path: &Path) -> Result<()> {
    if is_opened(path) {
        return Ok(());
    }
    let path = follow_links(path);
    if path.is_dir() {
        bail!("cannot write {}: it is a folder", path.display());
    }
    let is_there = fs::symlink_metadata(&path).is_ok();
    access(parent_folder(&path), Access::WRITE_OK)
        .and_then(|()| if is_there { access(&path, Access::WRITE_OK) } else { Ok(()) })
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes bytes to the file that the user named. As on stdout, a reader that has gone is not an error.
///
/// # Errors
/// It cannot be written.
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<()> {
    if !is_opened(path) {
        return AtomicFile::new(&follow_links(path)).keep_mode().write(bytes);
    }
    let path = if is_stdout(path) { Path::new("/dev/stdout") } else { path };
    let opened = OpenOptions::new().append(true).open(path);
    match opened.and_then(|mut file| file.write_all(bytes)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).with_context(|| format!("cannot write {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Whether the file is opened and written, not replaced: an open file of this process, a FIFO, a device.
fn is_opened(path: &Path) -> bool {
    let is_plain = |metadata: fs::Metadata| metadata.is_file() || metadata.is_dir();
    is_stdout(path)
        || is_inherited_descriptor(path)
        || path == Path::new("/dev/stderr")
        || fs::metadata(path).is_ok_and(|metadata| !is_plain(metadata))
}

/// Follows symbolic links; their target need not exist.
fn follow_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}
