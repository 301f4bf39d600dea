//! A file that the user names for reading: a regular file, or a stream that can be read only once: `-`, `/dev/stdin`,
//! `<(…)`, `/dev/null`. A stream is copied into a private folder first, so that it can be read like any file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::fs::{empty_folder, read_bytes};
use super::interrupt::Interrupts;
use super::stdin;
use conversation::problem::Problem;

/// A file to read. A copy is removed when this is dropped.
#[derive(Debug)]
pub struct InputFile {
    /// The name that the user gave.
    name: PathBuf,
    path: PathBuf,
    folder: Option<TempDir>,
}

/// Whether a path is that of an open file of this process, or of `/dev/null`. Any other FIFO or device might block.
pub(super) fn is_inherited_descriptor(path: &Path) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"];
    let is_open = folders.iter().any(|folder| path.starts_with(folder));
    is_open || path == Path::new("/dev/stdin") || path == Path::new("/dev/null")
}

/// Whether a path is that of a stream, which can be read once: `-`, or an open file that is neither a file nor a folder.
pub fn is_stream(path: &Path) -> bool {
    let is_plain = |metadata: fs::Metadata| metadata.is_file() || metadata.is_dir();
    is_stdin(path)
        || is_inherited_descriptor(path)
            && fs::metadata(path).is_ok_and(|metadata| !is_plain(metadata))
}

/// Whether a path names standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdin")
}

impl InputFile {
    /// Opens the file that the user named. A missing regular file is an error only when it is read.
    ///
    /// # Errors
    /// A stream cannot be read, or has more than [`conversation::limits::STDIN_PROMPT`] bytes; a signal came.
    pub fn open(path: &Path, interrupts: &Interrupts) -> Result<Self, Problem> {
        if !is_stream(path) {
            return Ok(Self { name: path.to_owned(), path: path.to_owned(), folder: None });
        }
        let bytes = if path == Path::new("-") {
            stdin::read_to_end(interrupts)?
        } else {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            stdin::read_stream(file, &path.display().to_string(), interrupts)?
        };
        let bytes = bytes.map_err(Problem::interrupted)?;
        let folder = empty_folder()?;
        let copy = folder.path().join("stdin");
        fs::write(&copy, bytes).with_context(|| format!("cannot write {}", copy.display()))?;
        Ok(Self { name: path.to_owned(), path: copy, folder: Some(folder) })
    }

    /// Whether it is a copy of a stream.
    pub fn is_copy(&self) -> bool {
        self.folder.is_some()
    }

    /// Reads it as text. `None` if the file does not exist.
    ///
    /// # Errors
    /// It cannot be read, has more than `limit` bytes, or is not UTF-8 text: the error shows the name that the user
    /// gave.
    pub fn read_text(&self, limit: u64) -> anyhow::Result<Option<String>> {
        let Some(bytes) = read_bytes(&self.path, limit)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| {
            let name =
                if is_stdin(&self.name) { "stdin".into() } else { self.name.to_string_lossy() };
            anyhow::anyhow!("cannot read {name}: it is not UTF-8 text")
        })?;
        Ok(Some(text))
    }

    /// The path from which it can be read.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
