//! `file-index.json`: which file has which conversation. Text ↔ value; reads no file, asks no file system.
//!
//! ```json
//! {"by_file_id": {"2050:123:456": {"file_id": "2050:123:456", "path": "/p/x.py", "conversation": "x-0c2f"}}}
//! ```
//! The id is device, inode and time of birth together, since inodes are reused. The toolkit wrote it, so reading it is
//! a `Result`. Keys that it does not know are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The index.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileIndex {
    /// Entries by the id of their file.
    #[serde(default)]
    pub by_file_id: BTreeMap<String, Entry>,
    /// Whatever else stands in the file.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One file's conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The id, as in the key.
    pub file_id: String,
    /// Where the file was, absolute.
    pub path: String,
    /// The conversation's name.
    pub conversation: String,
    /// Whatever else stands in the entry.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl FileIndex {
    /// Reads an index.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Writes it.
    pub fn format(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        format!("{value:#}\n")
    }

    /// The conversation of a file, by its id (none when the file does not exist yet), else by its path when the file
    /// that the path was noted for is no longer there: an editor saved by renaming.
    pub fn find(&self, id: Option<&str>, path: &str) -> Option<&Entry> {
        id.and_then(|id| self.by_file_id.get(id))
            .or_else(|| self.by_file_id.values().find(|entry| entry.path == path))
    }

    /// Notes a file's conversation, in place of what was noted for its id, path or conversation before.
    pub fn put(&mut self, entry: Entry) {
        self.by_file_id
            .retain(|_, old| old.path != entry.path && old.conversation != entry.conversation);
        self.by_file_id.insert(entry.file_id.clone(), entry);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(id: &str, path: &str, conversation: &str) -> Entry {
        Entry {
            file_id: id.into(),
            path: path.into(),
            conversation: conversation.into(),
            other: Map::new(),
        }
    }

    #[test]
    fn a_file_is_found_by_id_then_by_path() {
        let mut index = FileIndex::default();
        index.put(entry("1:2:3", "/a", "a-1"));
        assert_eq!(index.find(Some("1:2:3"), "/moved").unwrap().conversation, "a-1");
        assert_eq!(index.find(Some("9:9:9"), "/a").unwrap().conversation, "a-1");
        assert_eq!(index.find(None, "/b"), None);
        index.put(entry("9:9:9", "/a", "a-1"));
        assert_eq!(index.by_file_id.len(), 1);
    }

    #[test]
    fn unknown_keys_are_kept() {
        let text = r#"{"by_file_id":{"i":{"file_id":"i","path":"/p","conversation":"c","note":1}},"by_path":{}}"#;
        let again = FileIndex::parse(&FileIndex::parse(text).unwrap().format()).unwrap();
        assert_eq!(again.by_file_id["i"].other["note"], 1);
        assert!(again.other.contains_key("by_path"));
    }

    proptest! {
        #[test]
        fn parse_undoes_format(entries in prop::collection::vec(("\\PC{0,6}", "\\PC{0,6}", "\\PC{0,6}"), 0..4)) {
            let mut index = FileIndex::default();
            for (id, path, conversation) in &entries {
                index.put(entry(id, path, conversation));
            }
            prop_assert_eq!(FileIndex::parse(&index.format()).unwrap(), index);
        }
    }
}
