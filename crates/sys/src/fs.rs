//! Reads and writes nagent's own files: private, durable, named in every error.
//!
//! There are two ways to write: [`AtomicFile`], and append (in [`super::conversation_file`]). Files that the model
//! reads and writes go through [`super::read`] and [`super::boundary`] instead.

use conversation::limits;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::AtFlags;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub use conversation::format::hex::encode_hex;

use super::atomic_file::AtomicFile;
use super::durable::{self, parent_folder, rename_to_free_name};
use super::file_stamp::{FileStamp, time_of_birth};
use super::read::{open_regular, open_resolved};
use super::temp_files::TempFile;
use super::walk::walk_below;
use conversation::format::harmless::quote_name;

mod private; // folders for their owner alone

pub use super::durable::sync_folder;
pub(super) use private::make_folders;
pub use private::{
    check_folder_owner, check_owner, create_private_folder, keep_private, make_executable,
};

/// Whether there is anything at the path, a dangling link included.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Whether there is anything at the path, like [`exists`]; returns errors other than "not found".
pub fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", path.display())),
    }
}

/// Copies a file from its current position to its end, in the kernel where possible; a signal may interrupt that.
fn copy_rest(from: &mut File, to: &mut File) -> io::Result<()> {
    loop {
        match io::copy(from, to) {
            Ok(_) => return Ok(()),
            // Both files are positioned after the bytes copied so far.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Adds the path of the file, which procfs knows, to a read error.
pub fn cannot_read(file: &File, error: &io::Error) -> io::Error {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let name = path.map_or_else(|_| "an open file".to_owned(), quote_name);
    io::Error::new(error.kind(), format!("cannot read {name}: {error}"))
}

/// The size of a regular file in bytes, or `None`.
pub fn file_size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// Reads the text of a file if it exists. Never waits at a FIFO; at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<Option<String>> {
    let Some(bytes) = read_bytes(path, limit)? else { return Ok(None) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| anyhow::anyhow!("cannot read {}: it is not UTF-8 text", path.display()))
}

/// Reads the bytes of a file if it exists. Never waits at a FIFO; at most `limit` bytes.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    Ok(read_dated(path, limit)?.map(|(bytes, _)| bytes))
}

/// Reads the bytes of a file with the time since 1970 when it was last modified; otherwise like [`read_bytes`].
pub fn read_dated(path: &Path, limit: u64) -> Result<Option<(Vec<u8>, Duration)>> {
    let what = || format!("cannot read {}", path.display());
    let Some((file, metadata)) = open_own_file(path, &mut OpenOptions::new()).with_context(what)?
    else {
        return Ok(None);
    };
    let bytes = read_within(file, metadata.len(), limit).with_context(what)?;
    Ok(Some((bytes, modified_time(&metadata))))
}

/// Reads an open file of (as last seen) `size` bytes to its end. More than `limit` bytes are an error.
pub fn read_within(file: impl Read, size: u64, limit: u64) -> Result<Vec<u8>> {
    ensure!(size <= limit, "it has {size} bytes, over the limit of {limit}");
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    // One byte more than the limit: a file may have grown since its size was read, and files of procfs report 0.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "it has more than {limit} bytes");
    Ok(bytes)
}

/// Reads a regular file by its path without links; a link that has been put into the path since is not followed.
pub fn read_resolved(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let (file, metadata) = open_resolved(path)?;
    read_within(file, metadata.len(), limit)
}

pub(super) fn modified_time(metadata: &fs::Metadata) -> Duration {
    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Duration::new(u64::try_from(metadata.mtime()).unwrap_or(0), nanos)
}

/// Opens a regular file of nagent's own; `None`: there is none. Never waits at a FIFO.
pub(super) fn open_own_file(
    path: &Path,
    options: &mut OpenOptions,
) -> Result<Option<(File, fs::Metadata)>> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match options.read(true).custom_flags(nonblock).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        bail!("it is not a regular file");
    }
    Ok(Some((file, metadata)))
}

/// Makes an empty folder for its owner alone, among the temporary ones. It is removed when it is dropped.
pub fn empty_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("nagent-").tempdir();
    folder.context("cannot make a temporary folder")
}

/// Copies a file to a new name that must be free, private and durable.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let copy = || -> Result<()> {
        let old = open_own_file(from, &mut OpenOptions::new())?;
        let (mut old, _) = old.context("there is no such file")?;
        Ok(AtomicFile::new(to).write_with(true, &mut |new| copy_rest(&mut old, new))?)
    };
    copy().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Appends text to a regular file, private when it is new. Never waits at a FIFO.
pub fn append_text(path: &Path, text: &str) -> Result<()> {
    let mut file = open_to_append(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot append to {}", path.display()))
}

/// Appends text to a file of nagent's own, and makes it durable.
pub(crate) fn append_durably(path: &Path, text: &str) -> Result<()> {
    let mut file = open_journal(path)?;
    let appended = durable::append(&mut file, text.as_bytes());
    appended.with_context(|| format!("cannot append to {}", path.display()))
}

/// Opens a file of nagent's own for appending, private when it is new. Its name survives a power cut.
pub(super) fn open_journal(path: &Path) -> Result<File> {
    let file = open_to_append(path)?;
    // Nobody writes to it before this, so a file that is not empty has a durable name, whoever made it.
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        sync_folder(parent_folder(path))?;
    }
    Ok(file)
}

/// Opens a regular file for appending, private when it is new. Never waits at a FIFO.
pub fn open_to_append(path: &Path) -> Result<File> {
    let what = || format!("cannot append to {}", path.display());
    // Opening a FIFO or a device can have effects.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        bail!("{}: it is not a regular file", what());
    }
    let opened = open_own_file(path, OpenOptions::new().append(true).create(true).mode(0o600));
    let (file, _) = opened.with_context(what)?.with_context(what)?;
    Ok(file)
}

/// Renames a file or folder within the toolkit's root, durably. The new name must be free.
pub fn rename_file(from: &Path, to: &Path) -> Result<()> {
    let here = rustix::fs::CWD;
    rename_to_free_name(here, from.as_os_str(), here, to.as_os_str())
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
    sync_folder(parent_folder(to))
}

/// Removes a folder if it is empty. Returns whether it did.
pub fn remove_empty_folder(path: &Path) -> bool {
    fs::remove_dir(path).is_ok()
}

/// Removes a file that may be gone already.
pub fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The names in a folder, sorted; none when the folder is not there.
pub fn list_names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let entries = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> =
        entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// When a file was last modified, since 1970; zero where that is not known.
pub fn modified(path: &Path) -> Duration {
    fs::metadata(path).map_or(Duration::ZERO, |metadata| modified_time(&metadata))
}

/// Identifies a file independently of its name: device, inode and time of birth, since inodes are reused.
pub fn file_id(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let born = time_of_birth(path, AtFlags::empty()).unwrap_or(0);
    Some(format!("{}:{}:{born}", metadata.dev(), metadata.ino()))
}

/// Whether a file is a program: regular and executable.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The path with links resolved, when it exists.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The size of all files below a folder in bytes, links not followed.
pub fn bytes_below(folder: &Path) -> u64 {
    walk_below(folder, &|_| true)
        .filter_map(|entry| entry.metadata().ok())
        .filter(|metadata| !metadata.is_dir())
        .map(|metadata| metadata.len())
        .sum()
}

/// A new file in `outputs`, which is named after the hash of its content once that is complete.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: TempFile,
    folder: PathBuf,
    hash: Sha256,
}

impl OutputFile {
    /// Creates the file, and its folder where that is missing.
    pub(super) fn create(outputs: &Path) -> io::Result<Self> {
        make_folders(outputs, 0o700)?;
        let file = TempFile::create(outputs)?;
        Ok(Self { file, folder: outputs.to_owned(), hash: Sha256::new() })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.file_mut().write_all(bytes)
    }

    /// Names and syncs the file, and returns its path. A file of that name stays, unless its content has another hash.
    pub(super) fn finish(self) -> io::Result<PathBuf> {
        let sha256 = encode_hex(&self.hash.finalize());
        let name = format!("{sha256}.txt");
        let path = self.folder.join(&name);
        if !is_stored(&path, &sha256) {
            self.file.persist_durably(name.as_ref(), false)?;
        }
        Ok(path)
    }
}

/// The path under which content with this hash is stored.
pub fn output_path(outputs: &Path, sha256: &str) -> PathBuf {
    outputs.join(format!("{sha256}.txt"))
}

/// The hash of stored content, from the name of its file.
pub fn stored_hash(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Stores bytes under the name of their hash, and returns the path.
pub fn store_output(outputs: &Path, bytes: &[u8]) -> Result<PathBuf> {
    store_new(outputs, bytes, true)
}

/// Stores bytes under the name of their hash, durable only after [`sync_outputs`]: one wait for many files.
pub fn store_output_unsynced(outputs: &Path, bytes: &[u8]) -> Result<PathBuf> {
    store_new(outputs, bytes, false)
}

fn store_new(outputs: &Path, bytes: &[u8], is_durable: bool) -> Result<PathBuf> {
    let sha256 = sha256(bytes);
    let path = output_path(outputs, &sha256);
    if !is_stored(&path, &sha256) {
        create_private_folder(outputs)?;
        let file = AtomicFile::new(&path);
        if is_durable { file } else { file.without_sync() }.write(bytes)?;
    }
    Ok(path)
}

/// Makes stored files durable.
pub fn sync_outputs(outputs: &Path, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.with_context(|| format!("cannot make {} durable", path.display()))?;
    }
    if paths.is_empty() { Ok(()) } else { Ok(sync_folder(outputs)?) }
}

/// Creates a file in `outputs` for the output of a command that keeps running. Its name begins with `name`, and is new.
///
/// # Errors
/// The folder or the file cannot be created.
pub fn create_output(outputs: &Path, name: &str) -> Result<(PathBuf, File)> {
    create_private_folder(outputs)?;
    let path = outputs.join(format!("{name}-{}.txt", uuid::Uuid::new_v4().simple()));
    let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
    Ok((path.clone(), file.with_context(|| format!("cannot create {}", path.display()))?))
}

/// Whether a stored file still has the content of its name. A command may have written to it, or a crash left it empty.
///
/// Marks the file as used now, and then checks that it still exists: [`super::removal`] removes files that were not
/// used for long, and moves a file out of the way before it checks the time. So one of the two always notices the
/// other.
fn is_stored(path: &Path, sha256: &str) -> bool {
    let Some((file, _)) = open_own_file(path, &mut OpenOptions::new()).ok().flatten() else {
        return false;
    };
    if sha256_of_file(&file).is_ok_and(|hash| hash == sha256) {
        // The time of another user's file cannot be changed. Nobody prunes such a file.
        let _ = file.set_modified(SystemTime::now());
        let stamps = FileStamp::of_open(&file).zip(FileStamp::of_path(path));
        return stamps.is_some_and(|(open, named)| open.same_file(&named));
    }
    false
}

/// Marks a stored file as used now, so that prune does not remove it.
pub fn mark_used(path: &Path) {
    // The time of another user's file cannot be changed.
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Stores the rest of an open file under the name of its hash. Fails where `stop` returns true.
pub fn store_file(outputs: &Path, file: &mut File, stop: &dyn Fn() -> bool) -> Result<PathBuf> {
    let size = file.metadata().map_err(|error| cannot_read(file, &error))?.len();
    if size > limits::KEPT_CONTENT {
        bail!(
            "it has {size} bytes, over the limit of {}; the user has to move it away first",
            limits::KEPT_CONTENT
        );
    }
    let mut keep = || -> io::Result<PathBuf> {
        let mut new = OutputFile::create(outputs)?;
        // Read no more than this: the file may be growing.
        for_each_chunk(file.take(size), &mut |bytes| {
            if stop() { Err(io::Error::other("interrupted")) } else { new.write(bytes) }
        })?;
        new.finish()
    };
    keep().with_context(|| format!("cannot keep a copy in {}", outputs.display()))
}

/// Stores a file as [`store_file`] does; where that fails, in the folder `spare`.
pub fn store_file_or(
    outputs: &Path,
    spare: Option<&Path>,
    file: &mut File,
    stop: &dyn Fn() -> bool,
) -> Result<PathBuf> {
    let stored = store_file(outputs, file, stop);
    let Some(spare) = spare.filter(|_| stored.is_err()) else { return stored };
    file.rewind()?;
    store_file(spare, file, stop)
}

/// The SHA-256 of the unread rest of a file, in lower-case hexadecimal digits.
pub fn sha256_of_file(file: impl Read) -> io::Result<String> {
    hash_until(file, &|| false)
}

/// The SHA-256 of a regular file; `None` where it cannot be read, or `stop` returned true.
pub fn hash_file(path: &Path, stop: &dyn Fn() -> bool) -> Option<String> {
    hash_until(open_regular(path).ok()?.0, stop).ok()
}

fn hash_until(file: impl Read, stop: &dyn Fn() -> bool) -> io::Result<String> {
    let mut hash = Sha256::new();
    for_each_chunk(file, &mut |bytes| {
        hash.update(bytes);
        if stop() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    })?;
    Ok(encode_hex(&hash.finalize()))
}

/// Reads a file line by line; a line that is longer than 16 MiB in several pieces.
pub fn for_each_line(path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    let (file, _) = open_regular(path)?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut line = Vec::new();
    while reader.by_ref().take(16 << 20).read_until(b'\n', &mut line)? > 0 {
        take(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    Ok(())
}

/// Reads a file to its end, piece by piece.
fn for_each_chunk(
    mut file: impl Read,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&chunk[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads content that was stored under a hash, and checks it.
///
/// # Errors
/// It no longer exists, cannot be read, or does not have this hash.
pub fn read_stored(outputs: &Path, sha256: &str) -> Result<Vec<u8>> {
    // The hash comes from a file that anybody may edit.
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash {
        bail!("\"{}\" is not the name of a stored content", sha256.escape_debug());
    }
    let path = output_path(outputs, sha256);
    let bytes = read_bytes(&path, limits::KEPT_CONTENT)?.with_context(|| {
        format!("cannot read the stored content {}: it is gone", path.display())
    })?;
    if self::sha256(&bytes) != sha256 {
        bail!("{} has changed since it was stored: its hash differs", path.display());
    }
    Ok(bytes)
}

/// The SHA-256 of bytes, in lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    encode_hex(&Sha256::digest(bytes))
}

/// Stores bytes as the next `{n}.txt` of a folder, and returns the path.
pub fn store_numbered(folder: &Path, bytes: &[u8]) -> Result<PathBuf> {
    create_private_folder(folder)?;
    let taken = list_names(folder)?;
    let last = taken.iter().filter_map(|name| name.strip_suffix(".txt")?.parse::<u32>().ok()).max();
    let mut n = u64::from(last.unwrap_or(0));
    loop {
        n += 1;
        let path = folder.join(format!("{n}.txt"));
        let write = &mut |file: &mut File| file.write_all(bytes);
        match AtomicFile::new(&path).write_with(true, write) {
            // Another process took the number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => {
                return result
                    .with_context(|| format!("cannot create {}", path.display()))
                    .map(|()| path);
            }
        }
    }
}

#[cfg(test)]
mod tests;
