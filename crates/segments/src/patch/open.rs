//! A split on disk: its open folder, its index, the names of its files, and its source.
//!
//! Anybody may have written an index. Only the file names of its paths are used, all files are in the folder of the
//! index, and an index in which one file has two roles is refused.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::previous_split::load_index;
use conversation::format::harmless::quote_name;
use conversation::format::index::Index;
use conversation::limits::PATCHED_FILE;
use conversation::problem::Problem;
use sys::boundary::Boundary;
use sys::file_error::FileError;
use sys::folder::Folder;
use sys::interrupt::Interrupts;
use sys::opening::Opened;
use sys::{fs, replace};

/// Maximum wait for another process that works on the same split.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct OpenSplit {
    folder: Folder,
    pub(super) index_path: PathBuf,
    pub(super) index: Index,
    pub(super) segments: Vec<OsString>,
}

impl OpenSplit {
    /// Opens the folder of an index within the boundary, locks it, and reads the index.
    pub(super) fn open_index(
        index: &Path,
        boundary: &Boundary,
        interrupts: &Interrupts,
    ) -> Result<(Self, File), Problem> {
        let index_path = find_index(index)?;
        let opened = boundary.open_for_write(&index_path)?;
        let folder = Folder::open_parent(&opened)?;
        let lock = folder.wait_for_lock(PATIENCE, interrupts)?;
        // A split that held the lock may have replaced the folder.
        if opened.path() != index_path || !folder.is_at_path() {
            return Err(FileError::changed_meanwhile(&index_path).into());
        }
        let index = load_index(&index_path)?;
        let segments = file_names(&index, &index_path).map_err(|why| {
            let path = quote_name(&index_path);
            Problem::failed(format!("{path} cannot be used: {why}; split the file again"))
        })?;
        Ok((Self { folder, index_path, index, segments }, lock))
    }

    /// The path of a file in the folder of the split.
    pub(super) fn file_path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read_segment(&self, at: usize) -> Result<Vec<u8>, Problem> {
        let path = self.file_path(&self.segments[at]);
        let file = self.folder.open_file(&self.segments[at])?.ok_or_else(|| {
            Problem::failed(format!(
                "segment {} is missing: {}; to remove its text from the source, empty the file instead of deleting it",
                at + 1,
                quote_name(&path)
            ))
        })?;
        let mut text = Vec::new();
        let read = (&file).take(PATCHED_FILE + 1).read_to_end(&mut text);
        read.map_err(|error| fs::cannot_read(&file, &error))?;
        Ok(text)
    }
}

/// The source that an index names.
#[derive(Debug)]
pub(super) struct OpenSource {
    pub(super) text: Vec<u8>,
    pub(super) path: PathBuf,
    /// Opened within the boundary, if it is to be written.
    pub(super) opened: Option<Opened>,
}

impl OpenSource {
    /// Reads the source that an index names; a dry run does not need the right to write it.
    pub(super) fn open_file(
        is_dry: bool,
        boundary: &Boundary,
        index: &Index,
    ) -> Result<Self, Problem> {
        let path = Path::new(&index.source_path);
        let missing = || Problem::failed(format!("source file not found: {}", quote_name(path)));
        let true_path = fs::real_path(path).ok_or_else(missing)?;
        if is_dry {
            let text = fs::read_bytes(&true_path, PATCHED_FILE)?.ok_or_else(missing)?;
            return Ok(Self { text, path: true_path, opened: None });
        }
        let opened = boundary.open_for_write(path)?;
        let text = replace::read_bytes(&opened, PATCHED_FILE + 1)?.ok_or_else(missing)?;
        check_size(text.len())?;
        Ok(Self { text, path: opened.path().to_owned(), opened: Some(opened) })
    }
}

/// Fails if a source is too large to be held in memory.
pub(super) fn check_size(bytes: usize) -> Result<(), Problem> {
    if bytes as u64 <= PATCHED_FILE {
        return Ok(());
    }
    let most = PATCHED_FILE >> 20;
    Err(Problem::failed(format!(
        "only files of up to {most} MiB can be patched, and this one is larger; edit it with another program"
    )))
}

/// Returns the true path of an index.
pub(super) fn find_index(path: &Path) -> Result<PathBuf, Problem> {
    let missing = || Problem::failed(format!("index not found: {}", quote_name(path)));
    fs::real_path(path).ok_or_else(missing)
}

/// Returns the names of the segments; no file has two roles.
fn file_names(index: &Index, index_path: &Path) -> Result<Vec<OsString>, String> {
    let mut known: HashSet<OsString> =
        index_path.file_name().map(OsString::from).into_iter().collect();
    let names = index.segments.iter().map(|segment| {
        let path = &segment.path;
        let name = Path::new(path).file_name().map(OsString::from);
        let name = name.ok_or_else(|| format!("{path:?} does not name a file"))?;
        if !known.insert(name.clone()) {
            return Err(format!("it lists {} twice", quote_name(name)));
        }
        Ok(name)
    });
    names.collect()
}
