//! The file index as older tools wrote it: with ids of device and inode alone, or as one flat object of paths and
//! conversations.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::format::file_index::{FileIndex, FileIndexEntry, path_id};

/// Parses an index in either form, skipping anything that is not an entry.
pub fn parse_entries(text: &str) -> Result<Vec<FileIndexEntry>, String> {
    let mut object: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(entries) = object.remove("by_file_id") else { return Ok(take_flat(&mut object)) };
    let Value::Object(entries) = entries else { return Ok(Vec::new()) };
    let read = |(id, value)| {
        let entry: FileIndexEntry = serde_json::from_value(value).ok()?;
        Some(FileIndexEntry { file_id: id, ..entry })
    };
    Ok(entries.into_iter().filter_map(read).collect())
}

/// Converts the flat members of an index into entries.
pub fn convert_flat(index: &mut FileIndex) {
    if index.by_file_id.is_empty() {
        for entry in take_flat(&mut index.other) {
            index.insert_entry(entry);
        }
    }
}

fn take_flat(object: &mut Map<String, Value>) -> Vec<FileIndexEntry> {
    let (flat, rest) = std::mem::take(object)
        .into_iter()
        .partition(|(key, value)| value.is_string() && path_of(key).starts_with('/'));
    *object = rest;
    let flat: Map<String, Value> = flat;
    let entries = flat.into_iter().map(|(key, conversation)| {
        let path = PathBuf::from(path_of(&key));
        let conversation = conversation.as_str().unwrap_or_default().to_owned();
        let file_id = path_id(&path);
        FileIndexEntry { file_id, path, conversation, other: Map::new() }
    });
    entries.collect()
}

fn path_of(key: &str) -> &str {
    key.strip_prefix("path:").unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_are_read() {
        assert!(parse_entries("[]").is_err());
        let found = |text: &str| -> Vec<(String, String, String)> {
            let entries = parse_entries(text).unwrap();
            entries
                .into_iter()
                .map(|e| (e.file_id, e.path.display().to_string(), e.conversation))
                .collect()
        };
        let one = |id: &str, path: &str, name: &str| {
            vec![(id.to_owned(), path.to_owned(), name.to_owned())]
        };
        assert_eq!(
            found("{\"/a\": \"c\", \"/b\": 1, \"/d\": null, \"x\": \"y\"}"),
            one("path:/a", "/a", "c")
        );
        assert_eq!(found("{\"path:/a\": \"c\"}"), one("path:/a", "/a", "c"));
        assert_eq!(
            found(
                "{\"by_file_id\": {\"1:2\": {\"file_id\": \"1:2\", \"path\": \"/a\", \"conversation\": \"c\"}, \"3:4\": 5}}"
            ),
            one("1:2", "/a", "c")
        );
        assert_eq!(found("{}"), []);
        let mut index = FileIndex::parse("{\"/a\": \"c\", \"x\": \"y\"}").unwrap();
        convert_flat(&mut index);
        assert_eq!((index.by_file_id.len(), index.other.len()), (1, 1));
    }

    proptest! {
        #[test]
        fn nothing_that_stands_in_a_file_panics(text in "\\PC{0,60}") {
            let _ = parse_entries(&text);
        }
    }
}
