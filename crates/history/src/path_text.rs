//! Writes paths, which are bytes, into JSON: as a string where they are UTF-8, else as an array of numbers.

use serde::{Deserialize, Deserializer, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum PathText {
    Utf8(String),
    Bytes(Vec<u8>),
}

/// Writes a path.
pub fn serialize<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(path) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => serializer.collect_seq(path),
    }
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    Ok(match PathText::deserialize(deserializer)? {
        PathText::Utf8(text) => text.into_bytes(),
        PathText::Bytes(bytes) => bytes,
    })
}
