//! Examines the folder that a split is to replace: is it a split of the same file, and what in it must not be lost?
//!
//! Anybody may have written an index. A file counts as made by a split only if it has the name that a split gives it and
//! the hash that the index lists.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use super::naming::Naming;
use super::problems::{failure, read_failure};
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index};
use conversation::legacy::split_index;
use conversation::problem::Problem;
use sys::names::name_some;
use sys::staged_folder::list_names;
use sys::temp_files::is_temp_name;
use sys::{fs, read};

pub(super) fn load_index(path: &Path) -> Result<Index, Problem> {
    read::open_regular(path).map_err(|error| read_failure("read the index", path, &error))?;
    let text = fs::read_text(path, conversation::limits::SEGMENT_INDEX)?
        .ok_or_else(|| Problem::failed(format!("no such file: {}", quote_name(path))))?;
    parse_completed(&text)
        .map_err(|why| Problem::failed(format!("{} cannot be used: {why}", quote_name(path))))
}

/// Parses an index; one of another tool, which lacks keys that follow from the source, is completed first.
pub(super) fn parse_completed(text: &str) -> Result<Index, String> {
    let completed = split_index::complete(text, &read_source, &fs::sha256)?;
    index::parse(completed.as_deref().unwrap_or(text))
        .map_err(|error| format!("it is not an index of a split ({error})"))
}

/// Reads the source of an index that another tool wrote, while it is what was split.
fn read_source(path: &str, sha256: &str) -> Result<Vec<u8>, String> {
    let why = "it has no start_byte, end_byte and sha256, which follow from the source";
    let bytes = fs::read_bytes(Path::new(path), conversation::limits::KEPT_CONTENT)
        .map_err(|error| format!("{why}: {error:#}"))?
        .ok_or_else(|| format!("{why}, and {path} is not there"))?;
    if fs::sha256(&bytes) != sha256 {
        return Err(format!("{why}, and {path} has changed since the split"));
    }
    Ok(bytes)
}

/// Returns the name that the source had when it was split, which may be that of a link to it.
pub(super) fn given_name(index: &Index) -> Option<&str> {
    let original = Path::new(&index.original_path).file_name()?.to_str()?;
    original.strip_suffix(".orig").filter(|name| !name.is_empty())
}

/// Returns the names of the segments that do not have the text that the index lists, missing ones too.
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
    if list_files(folder)?.is_empty() {
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
    let path = folder.join(index::NAME);
    if !fs::exists(&path) {
        return Err(refuse("it is neither empty nor a split of this file"));
    }
    let index = load_index(&path).map_err(|problem| refuse(&problem.message))?;
    if Path::new(&index.source_path) != source {
        let why = format!("its index.json is the index of {}", quote_name(&index.source_path));
        return Err(refuse(&why));
    }
    let names = find_precious(folder, &index, stop)?;
    if names.is_empty() {
        return Ok(());
    }
    let names = name_some(&names, 10, ", ");
    Err(Problem::failed(format!(
        "will not replace {}, which has files that the split did not make as they are: {names}; put edited segments back with \
         nagent-file-patch, choose another folder with --output, or remove this one",
        quote_name(folder)
    )))
}

/// Whether a folder is empty, or a split in which nothing was edited and nothing else is.
pub(super) fn is_disposable(folder: &Path) -> bool {
    if list_names(folder).is_ok_and(|names| names.is_empty()) {
        return true;
    }
    load_index(&folder.join(index::NAME))
        .and_then(|index| find_precious(folder, &index, &|| false))
        .is_ok_and(|names| names.is_empty())
}

/// Whether nothing is lost with a folder that a killed split left: it has no index yet, or is disposable.
pub(super) fn is_disposable_leftover(folder: &Path) -> bool {
    !fs::exists(&folder.join(index::NAME)) || is_disposable(folder)
}

/// Names the files that would be lost: segments or the kept original with another text than the index lists, and files that
/// the split did not make.
fn find_precious(
    folder: &Path,
    index: &Index,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<String>, Problem> {
    let mut known: HashMap<String, &str> = HashMap::new();
    if let Some(naming) = given_name(index).map(Naming::new) {
        for segment in &index.segments {
            known.insert(naming.segment_name(segment.segment_index), &segment.sha256);
        }
        known.insert(naming.original_name(), &index.source_sha256);
    }
    let stem = Path::new(&index.source_path).file_stem().unwrap_or_default();
    let patch = format!("{}.patch", stem.to_string_lossy());
    let mut names = Vec::new();
    for name in list_files(folder)? {
        let name = name.to_string_lossy().into_owned();
        let is_as_made = match known.get(&name) {
            Some(hash) => has_hash(&folder.join(&name), hash, stop),
            // A patch file can be made again; a temporary file was left by a killed run.
            None => name == index::NAME || name == patch || is_temp_name(&name),
        };
        if !is_as_made {
            names.push(name);
        }
    }
    if stop() {
        return Err(Problem::failed(format!("examining {} was interrupted", quote_name(folder))));
    }
    names.sort();
    Ok(names)
}

fn list_files(folder: &Path) -> Result<Vec<OsString>, Problem> {
    if !fs::exists(folder) {
        return Ok(Vec::new());
    }
    list_names(folder).map_err(|error| failure("list", folder, error))
}

fn has_hash(path: &Path, sha256: &str, stop: &dyn Fn() -> bool) -> bool {
    fs::hash_file(path, stop).as_deref() == Some(sha256)
}
