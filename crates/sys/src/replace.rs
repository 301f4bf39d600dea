//! Replaces the content of a file that the write boundary allowed, and reads a file for an edit.
//!
//! The old content is stored first. The new content is written to a new file, synced, and renamed over the old one, so
//! that a kill at any instant leaves one or the other. That separates a file with several hard links from its other
//! names. It has to: anybody may have made such a link, from a writable folder to a file that must not be written. Only
//! the file that a conversation was opened on is then written in place, by its identity. All access is through the open
//! folder, never through a path.

use super::durable::{sync_file, sync_names};
use super::file_error::FileError;
use super::file_stamp::FileStamp;
use super::fs;
use super::opening::{Opened, READ_FILE, true_path};
use super::read::count_lines;
use super::temp_files::TempFile;
use conversation::format::harmless::quote_name;
use conversation::limits::{self, EDITED_FILE};
use conversation::reason::Reason;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Maximum size of the names of a file's extended attributes, and of the value of one, in bytes.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The true path of the file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// Whether the file did not exist before.
    pub created: bool,
    /// The path of the stored previous content.
    pub previous: Option<PathBuf>,
    /// Number of other names of the file, which still have the previous content.
    pub parted: u64,
}

/// Reads the file from its start; `None` if it does not exist.
fn read_from_start<T>(
    opened: &Opened,
    read: impl FnOnce(&File) -> std::io::Result<T>,
) -> Result<Option<T>, FileError> {
    let Some((file, _)) = &opened.old else { return Ok(None) };
    let mut at_start = file;
    let read = at_start.rewind().and_then(|()| read(file)).map(Some);
    read.map_err(|error| FileError::from_io("read", &opened.path, error))
}

/// The first `most` bytes of a file; `None` if it does not exist.
pub fn read_bytes(opened: &Opened, most: u64) -> Result<Option<Vec<u8>>, FileError> {
    read_from_start(opened, |file| {
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map(|_| bytes)
    })
}

/// The SHA-256 of a file's content; `None` if it does not exist.
pub fn hash_target(opened: &Opened) -> Result<Option<String>, FileError> {
    read_from_start(opened, |file| fs::sha256_of_file(file))
}

/// The content of a file that is to be edited, at most 64 MiB.
pub fn read_target(opened: &Opened) -> Result<Vec<u8>, FileError> {
    let size = opened.bytes();
    let most = if size > limits::EDITED_FILE { 0 } else { EDITED_FILE + 1 };
    let bytes = read_bytes(opened, most)?
        .ok_or_else(|| FileError::missing_at(&opened.path, &opened.path))?;
    let size = size.max(bytes.len() as u64);
    if size <= limits::EDITED_FILE {
        return Ok(bytes);
    }
    let problem = format!(
        "{} has {size} bytes, over the limit of {EDITED_FILE} for an edit",
        quote_name(&opened.path)
    );
    Err(FileError::new(problem, "use `sed` in <nagent-shell>").because(Reason::TooLarge))
}

/// Stores the old file's content, from its start, and returns the path of the copy.
pub type KeepPrevious<'a> = &'a mut dyn FnMut(&mut File) -> anyhow::Result<PathBuf>;

/// Replaces the file's content, or creates the file.
///
/// `keep_previous` gets the old file, at its start, and returns the path of the stored content; if it fails, nothing is
/// written. Mode, owner and extended attributes are kept; a new file gets the mode that the umask allows. The file must
/// still be the one that was opened, unchanged since then. When this returns, the content is durable.
///
/// Two files are written in place: the conversation's own file if it has several hard links, and one whose owner cannot be
/// given to a new file.
pub fn replace_file(
    mut opened: Opened,
    bytes: &[u8],
    keep_previous: KeepPrevious<'_>,
) -> Result<Replacement, FileError> {
    let (created, parted) = (opened.old.is_none(), opened.count_other_links());
    opened.create_folders()?;
    let is_in_place = opened.is_target && opened.is_linked();
    let previous = keep_old(&mut opened, keep_previous)?;
    check_unchanged(&opened)?;
    if is_in_place || !write_new_file(&opened, bytes)? {
        if !is_in_place && opened.is_linked() {
            let problem = format!(
                "{} has several hard links and another owner, so it can be neither replaced nor written in place",
                quote_name(&opened.path)
            );
            return Err(FileError::new(problem, "write to another file"));
        }
        write_in_place(&opened, |file| file.write_all(bytes), previous.as_deref())?;
    }
    let (size, lines) = (bytes.len() as u64, count_lines(bytes));
    Ok(Replacement { path: opened.path, bytes: size, lines, created, previous, parted })
}

/// Removes the file after its content was stored, and returns the path of the copy. The file must still be the one that
/// was opened.
pub fn remove_file(
    mut opened: Opened,
    keep_previous: KeepPrevious<'_>,
) -> Result<Option<PathBuf>, FileError> {
    if !opened.exists() {
        return Ok(None);
    }
    let previous = keep_old(&mut opened, keep_previous)?;
    check_unchanged(&opened)?;
    rustix::fs::unlinkat(&opened.dir, &opened.name, AtFlags::empty())
        .map_err(|errno| FileError::from_io("remove", &opened.path, errno))?;
    sync_folder(&opened)?;
    Ok(previous)
}

fn keep_old(opened: &mut Opened, keep: KeepPrevious<'_>) -> Result<Option<PathBuf>, FileError> {
    let Some((file, _)) = &mut opened.old else { return Ok(None) };
    let kept = file.rewind().map_err(anyhow::Error::from).and_then(|()| keep(file));
    kept.map(Some).map_err(|source| {
        let path = quote_name(&opened.path);
        let problem = format!(
            "{path} was left as it is, since its previous content could not be kept: {source:#}"
        );
        FileError::new(problem, "")
    })
}

/// Checks that the folder is still at its path, and that the name in it is still the file that was opened, unchanged.
fn check_unchanged(opened: &Opened) -> Result<(), FileError> {
    let changed = || FileError::changed_meanwhile(&opened.path);
    let folder = opened.path.parent().ok_or_else(changed)?;
    if true_path(&opened.dir, folder).ok().as_deref() != Some(folder) {
        return Err(changed());
    }
    match (&opened.old, rustix::fs::statat(&opened.dir, &opened.name, AtFlags::SYMLINK_NOFOLLOW)) {
        (None, Err(Errno::NOENT)) => Ok(()),
        (Some((_, old)), Ok(now)) if is_unchanged(old, &now) => Ok(()),
        (_, Ok(_) | Err(Errno::NOENT)) => Err(changed()),
        (_, Err(errno)) => Err(FileError::from_io("look at", &opened.path, errno)),
    }
}

fn is_unchanged(old: &Stat, now: &Stat) -> bool {
    FileStamp::from(old).is_unchanged(&FileStamp::from(now))
}

/// Overwrites the file itself. The error of a partial write has the path of its `previous` content.
fn write_in_place(
    opened: &Opened,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
    previous: Option<&Path>,
) -> Result<(), FileError> {
    let failed = |errno: Errno| FileError::from_io("write", &opened.path, errno);
    let flags = READ_FILE | OFlags::WRONLY;
    let file =
        rustix::fs::openat(&opened.dir, &opened.name, flags, Mode::empty()).map_err(failed)?;
    let now = rustix::fs::fstat(&file).map_err(failed)?;
    if !opened.old.as_ref().is_some_and(|(_, old)| is_unchanged(old, &now)) {
        return Err(FileError::changed_meanwhile(&opened.path));
    }
    let mut file = File::from(file);
    // Cut the file to its length last: until then, an interrupted write has not shortened it.
    write(&mut file)
        .and_then(|()| file.stream_position())
        .and_then(|end| file.set_len(end))
        .and_then(|()| sync_file(&file))
        .map_err(|source| {
            let path = quote_name(&opened.path);
            let previous = previous.filter(|previous| !previous.as_os_str().is_empty());
            let previous = previous.map_or_else(String::new, |previous| {
                let kept = quote_name(previous);
                format!("; its previous content is in {kept}: copy that over it")
            });
            let problem = format!(
                "cannot write {path}: {source}; it is written in place and may be half written{previous}"
            );
            FileError::new(problem, "")
        })
}

/// Writes a new file and renames it. False where the owner cannot be given to a new file.
fn write_new_file(opened: &Opened, bytes: &[u8]) -> Result<bool, FileError> {
    let failed = |error: std::io::Error| FileError::from_io("write beside", &opened.path, error);
    // Nobody else reads it before it has the old file's mode; for a new file the kernel applies the umask.
    let new = if opened.executable { 0o777 } else { 0o666 };
    let mode = Mode::from_raw_mode(if opened.old.is_some() { 0o600 } else { new });
    let dir = opened.dir.try_clone().map_err(failed)?;
    let mut new = TempFile::create_in(dir, mode).map_err(failed)?;
    if !fill_new_file(opened, new.file_mut(), bytes)? {
        return Ok(false);
    }
    check_unchanged(opened)?;
    match new.persist(&opened.name, opened.old.is_none()) {
        Ok(()) => sync_folder(opened).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(FileError::changed_meanwhile(&opened.path))
        }
        Err(error) => Err(FileError::from_io("replace", &opened.path, error)),
    }
}

/// Writes the content, the owner and the mode. False where the owner cannot be given to a new file.
fn fill_new_file(opened: &Opened, file: &mut File, bytes: &[u8]) -> Result<bool, FileError> {
    let failed = |error: std::io::Error| FileError::from_io("write", &opened.path, error);
    if let Some((old_file, old)) = &opened.old {
        let new = rustix::fs::fstat(file.as_fd()).map_err(|errno| failed(errno.into()))?;
        let owner = (old.st_uid != new.st_uid).then(|| Uid::from_raw(old.st_uid));
        let group = (old.st_gid != new.st_gid).then(|| Gid::from_raw(old.st_gid));
        if (owner.is_some() || group.is_some())
            && rustix::fs::fchown(file.as_fd(), owner, group).is_err()
        {
            return Ok(false);
        }
        copy_attributes(old_file, file);
        // After the owner, whose change clears set-id bits.
        let mut mode = Mode::from_raw_mode(old.st_mode);
        if opened.is_linked() {
            // Anybody may have linked a set-user-id program into a writable folder: the copy must not be one.
            mode -= Mode::SUID | Mode::SGID;
        }
        rustix::fs::fchmod(file.as_fd(), mode).map_err(|errno| failed(errno.into()))?;
    }
    file.write_all(bytes).and_then(|()| sync_file(file)).map_err(failed)?;
    Ok(true)
}

/// Gives a file the extended attributes of another one, as far as they can be set: labels, access lists, the user's
/// own. The capabilities of a program are not copied: they are for its old content.
fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0; MAX_ATTRIBUTES];
    let length = rustix::fs::flistxattr(from, &mut names).unwrap_or(0);
    for name in names[..length].split(|byte| *byte == 0) {
        let mut value = vec![0; MAX_ATTRIBUTES];
        if !matches!(name, b"" | b"security.capability")
            && let Ok(length) = rustix::fs::fgetxattr(from, name, &mut value)
        {
            _ = rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}

fn sync_folder(opened: &Opened) -> Result<(), FileError> {
    // A folder that may be entered but not read cannot be synced; the file is in place all the same.
    sync_names(&opened.dir)
        .map_err(|error| FileError::from_io("sync the folder of", &opened.path, error))
}

#[cfg(test)]
mod tests;
