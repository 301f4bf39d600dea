//! Syncs and renames that all writers of files use.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Makes the content of a file, or the names in a folder, survive a power cut. The tests record the files that are
/// synced here.
pub(super) fn sync_file(file: &File) -> io::Result<()> {
    #[cfg(test)]
    tests::note(file);
    file.sync_all()
}

/// Appends bytes in one write, so that they outlast a power cut. After a failure, what was written of them is cut off again
/// if the file system lets it.
pub(super) fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    written.inspect_err(|_| drop(file.set_len(before).and_then(|()| file.sync_data())))
}

/// The folder that a path is in: for a name alone, the working folder.
pub fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|folder| sync_file(&folder))
        .with_context(|| format!("cannot make the folder {} durable", path.display()))
}

/// Makes the names in an open folder durable. A folder that may not be read cannot be synced; its files are in place
/// all the same.
pub(super) fn sync_names(dir: impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, ".", flags, Mode::empty()) {
        Ok(folder) => sync_file(&File::from(folder)),
        Err(_) => Ok(()),
    }
}

/// Renames a file; fails with `EXIST` where the new name is taken. On file systems without such a rename, it checks
/// first.
pub(super) fn rename_to_free_name(
    from_dir: impl AsFd,
    from: &OsStr,
    to_dir: impl AsFd,
    to: &OsStr,
) -> rustix::io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(&from_dir, from, &to_dir, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if rustix::fs::statat(&to_dir, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(Errno::EXIST);
            }
            rustix::fs::renameat(&from_dir, from, &to_dir, to)
        }
        result => result,
    }
}

#[cfg(test)]
pub(super) mod tests;
