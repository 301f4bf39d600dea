//! The index of a split as the public Python tool writes it.

use serde_json::Value;

/// Reads a source by its path, if it has this hash.
pub type ReadSource<'a> = &'a dyn Fn(&str, &str) -> Result<Vec<u8>, String>;

/// Adds what an index of the public Python tool does not have: where each segment begins and ends in the source, its hash, and
/// the name of the kept original. `None` where nothing is missing. `source` gives the text of the source by its path and its
/// hash, or why it cannot.
///
/// # Errors
/// The lines of the segments do not fit the source.
pub fn complete(
    text: &str,
    source: ReadSource<'_>,
    hash: &dyn Fn(&[u8]) -> String,
) -> Result<Option<String>, String> {
    let Ok(mut index) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let get = |index: &Value, key: &str| index[key].as_str().unwrap_or_default().to_owned();
    let (path, sha256) = (get(&index, "source_path"), get(&index, "source_sha256"));
    let is_old = |segment: &Value| segment.is_object() && segment["start_byte"].is_null();
    let segments = index["segments"].as_array().filter(|segments| segments.iter().all(is_old));
    if segments.is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let bytes = source(&path, &sha256)?;
    // Where each line begins, and the end.
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut lines: Vec<usize> = std::iter::once(0).chain(starts).collect();
    if lines.last() != Some(&bytes.len()) {
        lines.push(bytes.len());
    }
    let offset = |number: &Value, more: usize| {
        let at = usize::try_from(number.as_u64()?).ok()?.checked_sub(1)? + more;
        lines.get(at).copied()
    };
    for segment in index["segments"].as_array_mut().into_iter().flatten() {
        let range = offset(&segment["start_line_num"], 0).zip(offset(&segment["end_line_num"], 1));
        let (start, end) = range.filter(|(start, end)| start <= end).ok_or_else(|| {
            format!("the lines of segment {} are not in the source", segment["segment_index"])
        })?;
        segment["start_byte"] = start.into();
        segment["end_byte"] = end.into();
        segment["sha256"] = hash(&bytes[start..end]).into();
    }
    if index["original_path"].is_null() {
        index["original_path"] = format!("{path}.orig").into();
    }
    for (key, value) in [("natural", Value::Bool(false)), ("created_at", "".into())] {
        if index[key].is_null() {
            index[key] = value;
        }
    }
    Ok(Some(index.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::{format, parse};

    #[test]
    fn an_index_of_the_public_tool_is_completed_from_its_source() {
        let old = |end: u64| {
            format!(
                r#"{{"source_path": "/p/a", "source_sha256": "h", "source_size_bytes": 5, "source_line_count": 3, "split_type": "txt",
                "target_bytes": 3, "natural": false, "created_at": "T", "segment_count": 2, "segments": [
                {{"segment_index": 1, "path": "/o/a-1", "start_line_num": 1, "end_line_num": 2}},
                {{"segment_index": 2, "path": "/o/a-2", "start_line_num": 3, "end_line_num": {end}}}]}}"#
            )
        };
        let source = |path: &str, sha256: &str| {
            assert_eq!((path, sha256), ("/p/a", "h"));
            Ok(b"a\nb\nc".to_vec())
        };
        let hash = |bytes: &[u8]| format!("h{}", bytes.len());
        let text = complete(&old(3), &source, &hash).unwrap().unwrap();
        let index = parse(&text).unwrap();
        assert_eq!(index.check(), Ok(()));
        let ranges: Vec<_> = index.segments.iter().map(|s| (s.start_byte, s.end_byte)).collect();
        assert_eq!(ranges, [(0, 4), (4, 5)]);
        assert_eq!((&*index.segments[1].sha256, &*index.original_path), ("h1", "/p/a.orig"));
        assert!(complete(&old(4), &source, &hash).unwrap_err().contains("segment 2"));
        assert_eq!(complete(&format(&index), &source, &hash), Ok(None));
        assert_eq!(complete("no JSON", &source, &hash), Ok(None));
    }
}
