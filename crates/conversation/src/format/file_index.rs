//! `file-index.json`, which maps files to their conversations. Text ↔ value; does not access the file system.
//!
//! ```json
//! {"by_file_id": {"2050:123:456": {"file_id": "2050:123:456", "path": "/p/x.py", "conversation": "x-0c2f"}}}
//! ```
//! The id consists of device, inode and time of birth, since inodes are reused; the time is 0 if the file system does
//! not record it. A file that does not exist yet has an entry under `path:PATH`. A path that is not UTF-8 is also
//! stored as `path_bytes`, in hexadecimal digits, next to its readable form. Unknown keys are kept. If another file
//! that already has a conversation replaces a file, the old entry stays, with `"gone": true`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hex::encode_hex;

/// The index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileIndex {
    /// Entries by the id of their file.
    pub by_file_id: BTreeMap<String, FileIndexEntry>,
    /// The other members of the file.
    pub other: Map<String, Value>,
}

/// One file's conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileIndexEntry {
    /// The id, as in the key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file_id: String,
    /// The last known path of the file, absolute and without links.
    #[serde(flatten, with = "written_path")]
    pub path: PathBuf,
    /// The conversation's name. It is data: check it before building a path from it.
    pub conversation: String,
    /// The other members of the entry.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A path in JSON.
mod written_path {
    use super::{OsStrExt, OsStringExt, Path, PathBuf, encode_hex};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct WrittenPath {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_bytes: Option<String>,
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let bytes = path.as_os_str().as_bytes();
        let path_bytes = std::str::from_utf8(bytes).is_err().then(|| encode_hex(bytes));
        WrittenPath { path: String::from_utf8_lossy(bytes).into_owned(), path_bytes }.serialize(to)
    }

    /// The bytes count only if they match the readable form: a person may have edited that.
    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        let written = WrittenPath::deserialize(from)?;
        let bytes = written.path_bytes.as_deref().and_then(read_hex);
        Ok(match bytes.filter(|bytes| String::from_utf8_lossy(bytes) == written.path) {
            Some(bytes) => PathBuf::from(std::ffi::OsString::from_vec(bytes)),
            None => PathBuf::from(written.path),
        })
    }

    pub(super) fn read_hex(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
    }
}

impl FileIndex {
    /// Reads the index.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut other: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut index = Self::default();
        match other.remove("by_file_id") {
            None => {}
            Some(Value::Object(entries)) => {
                for (id, value) in entries {
                    let entry: FileIndexEntry = serde_json::from_value(value)
                        .map_err(|error| format!("the entry {id}: {error}"))?;
                    index.insert_entry(FileIndexEntry { file_id: id, ..entry });
                }
            }
            Some(_) => return Err("\"by_file_id\" is not an object".to_owned()),
        }
        Ok(Self { other, ..index })
    }

    /// Formats the index.
    pub fn format(&self) -> String {
        let entries: Map<String, Value> = self
            .by_file_id
            .iter()
            .map(|(id, entry)| (id.clone(), serde_json::to_value(entry).unwrap_or_default()))
            .collect();
        let mut object = self.other.clone();
        object.insert("by_file_id".to_owned(), entries.into());
        format!("{:#}\n", Value::Object(object))
    }

    /// Stores an entry under its id, replacing any other.
    pub fn insert_entry(&mut self, entry: FileIndexEntry) {
        self.by_file_id.insert(entry.file_id.clone(), entry);
    }

    /// Keeps an entry whose path or identity now belongs to another entry.
    pub fn insert_gone_entry(&mut self, mut entry: FileIndexEntry) {
        entry.set_gone(true);
        if self.by_file_id.contains_key(&entry.file_id) || !is_made(&entry.file_id) {
            entry.file_id = format!("gone:{}", entry.conversation);
        }
        self.insert_entry(entry);
    }

    /// The entries whose file was last at a path.
    pub fn entries_at_path(&self, path: &Path) -> impl Iterator<Item = &FileIndexEntry> {
        self.by_file_id.values().filter(move |entry| entry.path == path)
    }
}

impl FileIndexEntry {
    /// The path's bytes in hexadecimal digits if it is not UTF-8.
    pub fn path_bytes(&self) -> Option<String> {
        self.path.to_str().is_none().then(|| encode_hex(self.path.as_os_str().as_bytes()))
    }

    /// Whether the path now belongs to another entry, whose file replaced this one.
    pub fn is_gone(&self) -> bool {
        self.other.get(GONE).is_some_and(|value| *value == Value::Bool(true))
    }

    /// Marks the entry as gone, or not.
    pub fn set_gone(&mut self, is_gone: bool) {
        if is_gone {
            self.other.insert(GONE.to_owned(), true.into());
        } else {
            self.other.remove(GONE);
        }
    }
}

/// The key of an entry that is gone.
const GONE: &str = "gone";

/// Whether an id has a time of birth, and so distinguishes its file from a later file with the same inode.
pub fn is_certain(id: &str) -> bool {
    let parts: Vec<&str> = id.split(':').collect();
    matches!(parts.as_slice(), [_, _, born] if born.parse::<u128>().is_ok_and(|born| born != 0))
}

/// The id for a file that does not exist yet.
pub fn path_id(path: &Path) -> String {
    path.to_str().map_or_else(
        || format!("path-bytes:{}", encode_hex(path.as_os_str().as_bytes())),
        |text| format!("path:{text}"),
    )
}

/// Whether an id belongs to a file that existed.
pub fn is_made(id: &str) -> bool {
    !id.starts_with("path")
}

/// Whether `name` is a backup that an editor makes of `original`: `x.py~`, `#x.py#`, `.x.py.bak`, `x.bak`.
pub fn is_backup(name: &OsStr, original: &OsStr) -> bool {
    const ENDINGS: [&str; 4] = ["bak", "orig", "old", "tmp"];
    let (name, original) = (Path::new(name), Path::new(original));
    let ending = name.extension().and_then(OsStr::to_str).unwrap_or_default();
    if name.file_stem() == original.file_stem() && ENDINGS.contains(&ending) {
        return true;
    }
    let (name, original) = (name.as_os_str().as_bytes(), original.as_os_str().as_bytes());
    let bare = name.iter().position(|byte| !b"#.~_".contains(byte)).unwrap_or(0);
    [name, &name[bare..]].into_iter().any(|name| {
        name.strip_prefix(original)
            .is_some_and(|rest| rest.first().is_some_and(|byte| !byte.is_ascii_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(bytes: &[u8]) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(bytes))
    }

    fn entry(id: &str, path: PathBuf, conversation: &str) -> FileIndexEntry {
        FileIndexEntry {
            file_id: id.into(),
            path,
            conversation: conversation.into(),
            other: Map::new(),
        }
    }

    #[test]
    fn unknown_keys_are_kept() {
        let text = r#"{"by_file_id":{"i":{"file_id":"i","path":"/p","conversation":"c","note":1}},"more":{}}"#;
        let index = FileIndex::parse(text).unwrap();
        assert_eq!(index.by_file_id["i"].path, Path::new("/p"));
        let again = FileIndex::parse(&index.format()).unwrap();
        assert_eq!(again.by_file_id["i"].other["note"], 1);
        assert!(again.other.contains_key("more"));
        assert_eq!(again, index);
    }

    #[test]
    fn a_path_that_is_no_text_keeps_its_bytes() {
        let mut index = FileIndex::default();
        let entry = entry("1:2:3", path(b"/p/x\xff"), "c");
        index.insert_entry(entry.clone());
        let text = index.format();
        assert!(
            text.contains("\"path\": \"/p/x\u{fffd}\"") && text.contains("2f702f78ff"),
            "{text}"
        );
        assert_eq!(FileIndex::parse(&text).unwrap().by_file_id["1:2:3"], entry);
        // An edit of the readable form is intended.
        let edited = text.replace("/p/x\u{fffd}", "/p/y");
        assert_eq!(FileIndex::parse(&edited).unwrap().by_file_id["1:2:3"].path, Path::new("/p/y"));
    }

    #[test]
    fn damage_is_told() {
        let error = |text: &str| FileIndex::parse(text).unwrap_err();
        assert!(error("[]").contains("invalid type"));
        assert!(error("{\"by_file_id\": {\"1:2").contains("EOF"));
        assert!(error("{\"by_file_id\": []}").contains("by_file_id"));
        assert!(error("{\"by_file_id\": {\"1:2:3\": {\"path\": \"/x\"}}}").contains("1:2:3"));
    }

    #[test]
    fn ids_with_a_time_of_birth_are_certain() {
        for (id, expect) in [
            ("2050:12:1790000000000000000", true),
            ("2050:12:0", false),
            ("2050:12", false),
            ("path:/a:b:3", false),
            ("1:2:3:4", false),
            ("", false),
        ] {
            assert_eq!(is_certain(id), expect, "{id}");
        }
        assert!(!is_certain(&path_id(Path::new("/a"))));
        assert_eq!(path_id(&path(b"/\xff")), "path-bytes:2fff");
    }

    #[test]
    fn backups_are_told_from_renamed_files() {
        let check = |name: &str, expect: bool| {
            assert_eq!(is_backup(name.as_ref(), "x.py".as_ref()), expect, "{name}");
        };
        for name in
            ["x.py~", "#x.py#", ".x.py.swp", "x.py.~1~", "x.py.bak", "x.bak", "x.orig", "_x.py_"]
        {
            check(name, true);
        }
        for name in ["y.py", "x.pyc", "xx.py", "x.py", "x.rs", "x", "x2.bak"] {
            check(name, false);
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_format(
            entries in prop::collection::vec(
                ("\\PC{0,6}", prop::collection::vec(any::<u8>(), 0..8), "\\PC{0,6}"),
                0..4,
            )
        ) {
            let mut index = FileIndex::default();
            for (id, bytes, conversation) in &entries {
                index.insert_entry(entry(id, path(bytes), conversation));
            }
            prop_assert_eq!(FileIndex::parse(&index.format()).unwrap(), index);
        }

        #[test]
        fn nothing_that_stands_in_a_file_panics(text in "\\PC{0,60}", bytes in "[0-9a-gü]{0,9}") {
            let _ = FileIndex::parse(&text);
            let _ = written_path::read_hex(&bytes);
        }
    }
}
