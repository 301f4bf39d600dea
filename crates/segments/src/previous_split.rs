//! Examines the folder that a split is to replace: whether it is a split of the same file, and which of its files must
//! not be lost.
//!
//! Anybody may have written an index. A file counts as made by a split only if its name has the number that a split
//! gives it and its hash is the one in the index.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::problems::failure;
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index, Segment};
use conversation::problem::Problem;
use sys::fs;
use sys::names::{name_some, suggest_paths};
use sys::staged_folder::list_names;
use sys::temp_files::is_temp_name;

/// Reads an index that covers its source without gaps.
pub fn load_index(path: &Path) -> Result<Index, Problem> {
    let text = fs::read_text(path, conversation::limits::SEGMENT_INDEX)?.ok_or_else(|| {
        Problem::failed(format!("index not found: {}{}", quote_name(path), suggest_paths(path)))
    })?;
    let index = index::parse(&text).and_then(|index| index.check().map(|()| index));
    index.map_err(|why| {
        let path = quote_name(path);
        Problem::failed(format!("{path} cannot be used: {why}; split the file again"))
    })
}

/// Returns the names of the segments whose text is not the one in the index, including missing ones.
pub fn edited_segments(index_path: &Path, index: &Index, stop: &dyn Fn() -> bool) -> Vec<String> {
    let folder = index_path.parent().unwrap_or(Path::new("/"));
    let names = index.segments.iter().filter_map(|segment| {
        let name = Path::new(&segment.path).file_name()?;
        (!has_hash(&folder.join(name), &segment.sha256, stop)).then(|| quote_name(name))
    });
    names.collect()
}

/// Fails if a folder must not be replaced by a split of `source`: it has edited segments, files that no split made, the
/// index of another source, or the source itself.
pub(super) fn check_replaceable(
    folder: &Path,
    source: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), Problem> {
    let names = if fs::exists(folder) { list_names(folder) } else { Ok(Vec::new()) };
    let names = names.map_err(|error| failure("list", folder, error))?;
    if names.is_empty() {
        return Ok(());
    }
    let refuse = |why: &str| {
        let folder = quote_name(folder);
        Problem::failed(format!(
            "will not replace {folder}: {why}; choose another folder with --output"
        ))
    };
    if source.starts_with(folder) {
        return Err(refuse("the file that is to be split is in it"));
    }
    if !names.iter().any(|name| name == index::NAME) {
        return Err(refuse("it is neither empty nor a split of this file"));
    }
    let index =
        load_index(&folder.join(index::NAME)).map_err(|problem| refuse(&problem.message))?;
    if Path::new(&index.source_path) != source {
        let why = format!("its index.json is the index of {}", quote_name(&index.source_path));
        return Err(refuse(&why));
    }
    let names = find_precious(folder, names, &index, stop);
    if names.is_empty() {
        return Ok(());
    }
    let names = name_some(&names, 10, ", ");
    Err(refuse(&format!(
        "it has edited segments, or files that the split did not make: {names} (nagent-file-patch puts \
         segments back)"
    )))
}

/// Names the files that would be lost: segments with another text than in the index, and files that the split did not
/// make.
fn find_precious(
    folder: &Path,
    names: Vec<OsString>,
    index: &Index,
    stop: &dyn Fn() -> bool,
) -> Vec<String> {
    let segments = index.segments.iter().filter_map(|segment| Some((made_name(segment)?, segment)));
    let segments: HashMap<&OsStr, &Segment> = segments.collect();
    let stem = Path::new(&index.source_path).file_stem().unwrap_or_default();
    let patch = format!("{}.patch", stem.to_string_lossy());
    let is_as_made = |name: &OsString| match segments.get(name.as_os_str()) {
        Some(segment) => has_hash(&folder.join(name), &segment.sha256, stop),
        // A patch file can be made again; a temporary file is a remnant of a killed run.
        None => name == index::NAME || *name == *patch || is_temp_name(&name.to_string_lossy()),
    };
    let lost = names.into_iter().filter(|name| !is_as_made(name));
    let mut lost: Vec<String> = lost.map(quote_name).collect();
    lost.sort();
    lost
}

/// The name of a segment's file, if it has the number that a split gives it.
fn made_name(segment: &Segment) -> Option<&OsStr> {
    let name = Path::new(&segment.path).file_name()?;
    let number = format!("-{:04}", segment.segment_index);
    name.to_str()?.contains(&number).then_some(name)
}

fn has_hash(path: &Path, sha256: &str, stop: &dyn Fn() -> bool) -> bool {
    fs::hash_file(path, stop).as_deref() == Some(sha256)
}
