//! A split on disk: its open folder, its index, the names of its files, and its source.
//!
//! Anybody may have written an index. Only the file names in its paths count, all files are in the folder of the index, and
//! an index in which one file has two roles is refused.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::previous_split::parse_completed;
use conversation::format::harmless::quote_name;
use conversation::format::index::Index;
use conversation::problem::Problem;
use sys::boundary::Boundary;
use sys::file_error::FileError;
use sys::folder::Folder;
use sys::interrupt::Interrupts;
use sys::opening::Opened;
use sys::{fs, read};

/// How long another process that works on the same split is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct OpenSplit {
    pub(super) folder: Folder,
    pub(super) index_name: OsString,
    pub(super) index: Index,
    pub(super) index_written: Option<SystemTime>,
    pub(super) segments: Vec<OsString>,
    pub(super) original: OsString,
}

impl OpenSplit {
    /// Opens the folder of an index within the boundary, locks it, and reads the index.
    pub(super) fn open_index(
        index: &Path,
        boundary: &Boundary,
        interrupts: &Interrupts,
    ) -> Result<(Self, File), Problem> {
        let index_path = fs::real_path(index).ok_or_else(|| index_not_found(index))?;
        let changed = || Problem::from(FileError::changed_meanwhile(&index_path));
        let opened = boundary.open_for_write(&index_path)?;
        if opened.path() != index_path {
            return Err(changed());
        }
        let folder = Folder::open_parent(&opened)?;
        let lock = folder.wait_for_lock(PATIENCE, interrupts)?;
        // A split that held the lock may have replaced the folder.
        if !folder.is_at_path() {
            return Err(changed());
        }
        let split = Self::read_split(folder, index_path.file_name().unwrap_or_default())?;
        // The boundary may allow the index alone; what is written beside it must be allowed too.
        let original = split.original_path();
        if boundary.open_for_write(&original)?.path() != original {
            let original = quote_name(&original);
            return Err(Problem::failed(format!("{original} is a symbolic link; remove it")));
        }
        Ok((split, lock))
    }

    fn read_split(folder: Folder, index_name: &OsStr) -> Result<Self, Problem> {
        let path = folder.path().join(index_name);
        let file = folder.open_file(index_name)?.ok_or_else(|| index_not_found(&path))?;
        let index_written = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let refuse = |why: String| unusable_index(&path, &why);
        let mut text = String::new();
        let read = file.take(conversation::limits::SEGMENT_INDEX + 1).read_to_string(&mut text);
        read.map_err(|error| refuse(format!("it cannot be read ({error})")))?;
        let index = parse_index(&text).map_err(refuse)?;
        let (segments, original) = file_names(&index, index_name).map_err(refuse)?;
        let index_name = index_name.to_owned();
        Ok(Self { folder, index_name, index, index_written, segments, original })
    }

    pub(super) fn index_path(&self) -> PathBuf {
        self.folder.path().join(&self.index_name)
    }

    pub(super) fn original_path(&self) -> PathBuf {
        self.folder.path().join(&self.original)
    }

    pub(super) fn segment_path(&self, at: usize) -> PathBuf {
        self.folder.path().join(&self.segments[at])
    }

    /// Names a segment in a message: `segment 2 (/out/big-0002.py)`.
    pub(super) fn describe_segment(&self, at: usize) -> String {
        format!("segment {} ({})", at + 1, quote_name(self.segment_path(at)))
    }

    pub(super) fn open_segment(&self, at: usize) -> Result<File, Problem> {
        self.folder.open_file(&self.segments[at])?.ok_or_else(|| {
            let number = at + 1;
            let path = quote_name(self.segment_path(at));
            Problem::failed(format!(
                "segment {number} is missing: {path}; to remove its text from the source, empty the file instead of deleting it"
            ))
        })
    }

    pub(super) fn has_file(&self, name: &OsStr) -> bool {
        name == self.index_name
            || name == self.original
            || self.segments.iter().any(|own| name == own)
    }
}

/// The source, open for what is to be done with it.
#[derive(Debug)]
pub(super) struct OpenSource {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Opened within the boundary, if it is to be written.
    pub(super) opened: Option<Opened>,
}

impl OpenSource {
    /// Opens the source that an index names; for reading alone if nothing is to be written.
    pub(super) fn open_file(
        is_dry: bool,
        boundary: &Boundary,
        split: &OpenSplit,
    ) -> Result<Self, Problem> {
        let path = PathBuf::from(&split.index.source_path);
        let missing = || {
            let (path, original) = (quote_name(&path), quote_name(split.original_path()));
            Problem::failed(format!(
                "source file not found: {path}; a copy of its content is in {original}"
            ))
        };
        let true_path = fs::real_path(&path).ok_or_else(missing)?;
        if true_path.parent() == Some(split.folder.path())
            && true_path.file_name().is_some_and(|name| split.has_file(name))
        {
            let path = quote_name(&path);
            return Err(Problem::failed(format!(
                "{path} belongs to the split itself; it cannot be the source"
            )));
        }
        if is_dry {
            let (file, _) = read::open_regular(&true_path)
                .map_err(|error| Problem::failed(error.to_string()))?;
            return Ok(Self { file, path: true_path, opened: None });
        }
        let opened = boundary.open_for_write(&path)?;
        let file = opened.file().ok_or_else(missing)?;
        let file = file.try_clone().map_err(|error| fs::cannot_read(file, &error))?;
        Ok(Self { file, path: opened.path().to_owned(), opened: Some(opened) })
    }
}

pub(super) fn index_not_found(path: &Path) -> Problem {
    Problem::failed(format!("index not found: {}", quote_name(path)))
}

pub(super) fn unusable_index(path: &Path, why: &str) -> Problem {
    let path = quote_name(path);
    Problem::failed(format!(
        "{path} cannot be used: {why}; split the file again into another folder"
    ))
}

/// Parses an index that covers its source without gaps.
pub(super) fn parse_index(text: &str) -> Result<Index, String> {
    if text.len() as u64 > conversation::limits::SEGMENT_INDEX {
        return Err(format!("it is larger than {} MiB", conversation::limits::SEGMENT_INDEX >> 20));
    }
    let index = parse_completed(text)?;
    index.check()?;
    if !Path::new(&index.source_path).is_absolute() {
        return Err("its source_path is not absolute".to_owned());
    }
    Ok(index)
}

/// Returns the names of the segments and of the kept original; no file has two roles.
fn file_names(index: &Index, index_name: &OsStr) -> Result<(Vec<OsString>, OsString), String> {
    let mut known: HashSet<OsString> = [index_name.to_owned()].into_iter().collect();
    let mut file_name = |path: &str| {
        let Some(name) = Path::new(path).file_name().filter(|name| !name.is_empty()) else {
            return Err(format!("{path:?} does not name a file"));
        };
        if known.insert(name.to_owned()) {
            Ok(name.to_owned())
        } else {
            Err(format!("it lists {} twice", quote_name(name)))
        }
    };
    let segments = index.segments.iter().map(|segment| file_name(&segment.path));
    let segments = segments.collect::<Result<Vec<OsString>, String>>()?;
    // The original is overwritten, so it must at least look like one.
    if Path::new(&index.original_path).extension() != Some(OsStr::new("orig")) {
        return Err(format!("its original_path {:?} does not end with .orig", index.original_path));
    }
    Ok((segments, file_name(&index.original_path)?))
}
