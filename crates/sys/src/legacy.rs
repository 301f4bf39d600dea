//! Finds and imports files that older tools left in nagent's root. [`conversation::legacy`] parses them.

use std::cmp::Reverse;
use std::path::PathBuf;

use anyhow::Result;

use super::fs;
use super::removal::free_place;
use super::root::{self, Root};
use conversation::format::file_index::{FileIndexEntry, path_id};
use conversation::legacy::file_index::parse_entries;
use conversation::limits;

/// Finds a conversation of this name in the root itself. `None` if there is none, or if one exists at the present
/// place.
pub fn old_conversation(root: &Root, name: &str) -> Option<PathBuf> {
    let old = root.path().join(name);
    (fs::file_size(&old).is_some() && !fs::exists(&root.conversation(name))).then_some(old)
}

/// Moves a conversation to the present place, and returns its old path.
pub fn move_old_conversation(root: &Root, name: &str) -> Result<Option<PathBuf>> {
    let Some(old) = old_conversation(root, name) else { return Ok(None) };
    root.prepare()?;
    fs::rename_file(&old, &root.conversation(name))?;
    Ok(Some(old))
}

/// The indexes of files, one of each process that had worked on some.
#[derive(Debug, Default)]
pub struct OldFileIndexes {
    /// The paths of those that could be read.
    pub paths: Vec<PathBuf>,
    /// Their entries, by the paths of files; of several conversations for one file the last used one comes first.
    pub entries: Vec<FileIndexEntry>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Reads the indexes of files. Changes nothing.
pub fn read_file_indexes(root: &Root) -> Result<OldFileIndexes> {
    let mut found = OldFileIndexes::default();
    let is_old = |name: &String| {
        let rest = name.strip_prefix("file-index-");
        rest.is_some_and(|rest| rest.strip_suffix(".json").is_some())
    };
    for name in fs::list_names(&root.conversations())?.into_iter().filter(is_old) {
        let path = root.conversations().join(name);
        let read = fs::read_text(&path, limits::FILE_INDEX)
            .map_err(|error| format!("{error:#}"))
            .and_then(|text| parse_entries(&text.unwrap_or_default()));
        match read {
            Ok(entries) => {
                found.paths.push(path);
                for entry in entries {
                    match with_checked_name(root, entry) {
                        Ok(entry) => found.entries.push(entry),
                        Err(error) => {
                            found.notes.push(format!("an older index of files: {error}"));
                        }
                    }
                }
            }
            Err(error) => found.notes.push(format!(
                "{} is an older index of files that cannot be read ({error}); it was left alone",
                path.display()
            )),
        }
    }
    let last_used = |entry: &FileIndexEntry| fs::modified(&root.conversation(&entry.conversation));
    found.entries.sort_by_key(|entry| Reverse(last_used(entry)));
    Ok(found)
}

/// Checks the conversation's name in an entry, which may be a path.
fn with_checked_name(root: &Root, entry: FileIndexEntry) -> Result<FileIndexEntry, String> {
    let folder = format!("{}/", root.conversations().display());
    let name = entry.conversation.strip_prefix(&folder).unwrap_or(&entry.conversation).to_owned();
    root::check_name(&name)?;
    Ok(FileIndexEntry { file_id: path_id(&entry.path), conversation: name, ..entry })
}

/// Renames imported indexes, so that they are imported once.
pub fn archive_indexes(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(path);
        fs::rename_file(path, &free_place(folder, &format!("folded-{name}")))?;
    }
    Ok(())
}
