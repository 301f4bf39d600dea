//! `index.json`, which lists the segments of a large file: text ↔ value.
//!
//! The keys are those of the public Python tool, and `start_byte`, `end_byte` and `sha256`. Unknown keys are ignored.
//! Anyone may have written an index: [`Index::check`] checks that it covers its source; other code decides whether a
//! path in it may be read or written.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The name of the file.
pub const NAME: &str = "index.json";

/// Describes a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The source, absolute, links resolved.
    pub source_path: String,
    /// The SHA-256 of the source as it was split, in lower-case hexadecimal digits.
    pub source_sha256: String,
    /// Its size in bytes.
    pub source_size_bytes: u64,
    /// Its number of lines, including a last line without a line feed.
    pub source_line_count: u64,
    /// The file type by whose rules it was split.
    pub split_type: String,
    /// The requested maximum size of a segment, in bytes.
    pub target_bytes: u64,
    /// Whether it was cut at every natural boundary.
    pub natural: bool,
    /// The time of the split, in UTC (RFC 3339).
    pub created_at: String,
    /// The number of segments.
    pub segment_count: usize,
    /// The segments, in the order of the source.
    pub segments: Vec<Segment>,
    /// A summary of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its number, from 1.
    pub segment_index: usize,
    /// The absolute path of its file, which is next to the index.
    pub path: String,
    /// The line of the source that its first byte is on, from 1.
    pub start_line_num: u64,
    /// The line of the source that its last byte is on; `start_line_num - 1` when it is empty.
    pub end_line_num: u64,
    /// The offset of its first byte in the source.
    pub start_byte: u64,
    /// The offset of the byte after its last.
    pub end_byte: u64,
    /// The SHA-256 of its text at the time the index was written.
    pub sha256: String,
    /// Its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Parses an index.
pub fn parse(text: &str) -> Result<Index, String> {
    serde_json::from_str(text).map_err(|error| {
        format!("it is not an index of a split, or was written by an older tool ({error})")
    })
}

/// Formats an index, with a final line feed.
pub fn format(index: &Index) -> String {
    let mut text =
        serde_json::to_string_pretty(index).expect("strings, numbers and lists become JSON");
    text.push('\n');
    text
}

impl Index {
    /// Checks that the segments cover the source in order, without a gap, from its first byte to its last.
    pub fn check(&self) -> Result<(), String> {
        if !Path::new(&self.source_path).is_absolute() {
            return Err("its source_path is not absolute".to_owned());
        }
        if self.segments.len() != self.segment_count {
            return Err(format!(
                "segment_count is {}, but {} segments are listed",
                self.segment_count,
                self.segments.len()
            ));
        }
        let mut end = 0;
        for (number, segment) in (1..).zip(&self.segments) {
            let Segment { segment_index, start_byte, end_byte, .. } = segment;
            if *segment_index != number {
                return Err(format!(
                    "segment {segment_index} is listed where segment {number} belongs"
                ));
            }
            if *start_byte != end || end_byte < start_byte {
                return Err(format!(
                    "segment {number} begins at byte {start_byte} of the source and ends at byte {end_byte}; the one before it ends at byte {end}"
                ));
            }
            end = *end_byte;
        }
        if end != self.source_size_bytes {
            let size = self.source_size_bytes;
            return Err(format!("the segments end at byte {end}, the source at byte {size}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(sizes: &[u64]) -> Index {
        let mut end = 0;
        let segments = sizes.iter().enumerate().map(|(at, size)| {
            let start_byte = end;
            end += size;
            Segment {
                segment_index: at + 1,
                path: format!("/out/big-{:04}.txt", at + 1),
                start_line_num: 1,
                end_line_num: 1,
                start_byte,
                end_byte: end,
                sha256: "ab".repeat(32),
                summary: None,
            }
        });
        let segments: Vec<Segment> = segments.collect();
        Index {
            source_path: "/p/big.txt".to_owned(),
            source_sha256: "cd".repeat(32),
            source_size_bytes: sizes.iter().sum(),
            source_line_count: 1,
            split_type: "txt".to_owned(),
            target_bytes: 32_768,
            natural: false,
            created_at: "2026-11-21T20:45:14Z".to_owned(),
            segment_count: segments.len(),
            segments,
            summary: None,
        }
    }

    proptest! {
        #[test]
        fn text_and_value_undo_each_other(sizes in prop::collection::vec(0u64..100, 0..9), summary: Option<String>) {
            let index = Index { summary, ..index(&sizes) };
            prop_assert_eq!(parse(&format(&index)).unwrap(), index.clone());
            prop_assert_eq!(index.check(), Ok(()));
        }
    }

    #[test]
    fn what_does_not_cover_its_source() {
        let check = |change: fn(&mut Index), expect: &str| {
            let mut index = index(&[3, 4, 5]);
            change(&mut index);
            let error = index.check().unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(|index| drop(index.segments.pop()), "segment_count is 3, but 2");
        check(
            |index| {
                index.segments.remove(0);
                index.segment_count = 2;
            },
            "segment 2 is listed where segment 1",
        );
        check(|index| index.segments.swap(0, 1), "segment 2 is listed where segment 1");
        check(
            |index| index.segments[1].start_byte = 2,
            "begins at byte 2 of the source and ends at byte 7; the one before it ends at byte 3",
        );
        check(
            |index| index.segments[2].end_byte = 6,
            "begins at byte 7 of the source and ends at byte 6",
        );
        check(|index| index.source_size_bytes = 13, "end at byte 12, the source at byte 13");
        check(|index| index.source_path = "p".to_owned(), "not absolute");
    }

    #[test]
    fn what_is_no_index() {
        let check = |text: &str, expect: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check("", "EOF");
        check("[]", "invalid");
        check("{\"source_path\": 1}", "expected a string");
        check("{\"source_path\": \"/p\"}", "an older tool (missing field `source_sha256`");
    }
}
