//! A split that is open: its folder, the names of its files, its index.
//!
//! An index is data that anybody may have written. Of its paths only the file names count, all files are those of the
//! index's own folder, and names that would make one file stand for two things are refused.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::Failure;
use crate::format::index::{self, Index};
use crate::sys::folder::Folder;
use crate::sys::fs;
use crate::sys::names::shown;

/// The largest index that is read, in bytes.
const INDEX_LIMIT: u64 = 256 << 20;

/// A split, by its open folder.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) folder: Folder,
    /// The name of the index in it.
    pub(super) name: OsString,
    pub(super) index: Index,
    /// The names of the segments.
    pub(super) segments: Vec<OsString>,
    /// The name of the kept original.
    pub(super) original: OsString,
    /// When the index was written.
    pub(super) written: Option<SystemTime>,
}

/// The name of what will take a file's place.
pub(super) fn new_name(name: &OsStr) -> OsString {
    with(name, "new")
}

/// The name of a segment as it was before it was rewritten.
pub(super) fn undo_name(name: &OsStr) -> OsString {
    with(name, "ours")
}

/// The longest name of a file, in bytes.
const NAME_LIMIT: usize = 255;

/// A name that nobody picks: what stands under it is removed.
fn with(name: &OsStr, what: &str) -> OsString {
    let around = |name: &OsStr| {
        let mut own = OsString::from(".");
        own.push(name);
        own.push(format!(".nagent-{what}"));
        own
    };
    let own = around(name);
    if own.len() <= NAME_LIMIT {
        return own;
    }
    around(Hash::of(name.as_encoded_bytes()).as_ref())
}

impl Split {
    /// Reads the index of this name in a folder, and checks it.
    pub(super) fn load(folder: Folder, name: &OsStr) -> Result<Self, Failure> {
        let path = folder.path().join(name);
        let Some((text, written)) = read_text(&folder, name)? else {
            return Err(Failure::Refused(format!("index not found: {}", shown(&path))));
        };
        let refuse = |why: &str| {
            Failure::Refused(format!(
                "{} cannot be used: {why}; split the file again into another folder, or mend the index by hand",
                shown(&path)
            ))
        };
        let index = parse(&text).map_err(|why| refuse(&why))?;
        let (segments, original) = names(&index, name).map_err(|why| refuse(&why))?;
        Ok(Self { folder, name: name.to_owned(), index, segments, original, written })
    }

    /// The path of a segment.
    pub(super) fn path(&self, at: usize) -> PathBuf {
        self.folder.path().join(&self.segments[at])
    }

    /// Opens a segment.
    pub(super) fn open(&self, at: usize) -> Result<File, Failure> {
        self.folder.read(&self.segments[at])?.ok_or_else(|| {
            Failure::Refused(format!(
                "segment {} is missing: {}; to take its text out of the source, empty the file instead of removing it",
                at + 1,
                shown(self.path(at))
            ))
        })
    }

    /// All names that files of the split have, or may have for a while.
    pub(super) fn is_own_name(&self, name: &OsStr) -> bool {
        let main = [&self.name, &self.original].into_iter().chain(&self.segments);
        main.into_iter().any(|own| name == own || name == new_name(own) || name == undo_name(own))
    }
}

/// The text of a file in the folder, and when it was written.
pub(super) fn read_text(
    folder: &Folder,
    name: &OsStr,
) -> Result<Option<(String, Option<SystemTime>)>, Failure> {
    let Some(mut file) = folder.read(name)? else { return Ok(None) };
    let path = folder.path().join(name);
    let failed = |why: &str| Failure::Refused(format!("cannot read {}: {why}", shown(&path)));
    let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut bytes = Vec::new();
    (&mut file)
        .take(INDEX_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error.to_string()))?;
    if bytes.len() as u64 > INDEX_LIMIT {
        return Err(failed("it is too large for an index"));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("it is no UTF-8 text"))?;
    Ok(Some((text, written)))
}

/// An index that covers its source, by its text.
pub(super) fn parse(text: &str) -> Result<Index, String> {
    let index =
        index::parse(text).map_err(|error| format!("it is no index of a split ({error})"))?;
    index.check()?;
    if !Path::new(&index.source_path).is_absolute() {
        return Err("its source_path is not absolute".to_owned());
    }
    Ok(index)
}

/// The names of the segments and of the kept original, each of them one file's.
pub(super) fn names(index: &Index, name: &OsStr) -> Result<(Vec<OsString>, OsString), String> {
    let mut taken: HashSet<OsString> = [name.to_owned(), new_name(name)].into_iter().collect();
    let mut take = |path: &str| {
        let Some(name) = Path::new(path).file_name().filter(|name| !name.is_empty()) else {
            return Err(format!("{path:?} names no file"));
        };
        for name in [name.to_owned(), new_name(name), undo_name(name)] {
            if let Some(twice) = taken.replace(name) {
                return Err(format!("it names {} twice", shown(twice)));
            }
        }
        Ok(name.to_owned())
    };
    let segments = index.segments.iter().map(|segment| take(&segment.path));
    let segments = segments.collect::<Result<Vec<OsString>, String>>()?;
    // It is replaced, so it must be what it is said to be.
    if Path::new(&index.original_path).extension() != Some(OsStr::new("orig")) {
        return Err(format!("its original_path {:?} does not end with .orig", index.original_path));
    }
    let original = take(&index.original_path)?;
    Ok((segments, original))
}

/// A SHA-256 that is fed piece by piece.
#[derive(Default)]
pub(super) struct Hash(Sha256);

impl Hash {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In lower-case hexadecimal digits.
    pub(super) fn hex(self) -> String {
        fs::hex(&self.0.finalize())
    }

    pub(super) fn of(bytes: &[u8]) -> String {
        let mut hash = Self::default();
        hash.feed(bytes);
        hash.hex()
    }
}
