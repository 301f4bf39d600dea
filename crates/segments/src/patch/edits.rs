//! Finds out which segments were edited, and whether the source still is what was split.
//!
//! A segment was edited if its hash is not the one in the index.

use sha2::{Digest, Sha256};

use super::open::{OpenSplit, check_size};
use super::request::PatchHooks;
use conversation::format::index::Segment;
use conversation::problem::Problem;
use sys::fs::{encode_hex, sha256};

/// A segment as it is now.
#[derive(Debug)]
pub(super) struct SegmentState {
    /// Its text, with the line ending that it had lost.
    pub(super) text: Vec<u8>,
    pub(super) sha256: String,
    pub(super) is_edited: bool,
    /// The line ending that its file lacks.
    pub(super) lost_ending: &'static [u8],
}

/// How the source relates to the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceState {
    /// It is what was split.
    AsSplit,
    /// It equals the joined segments: an earlier run was killed before it had written the index.
    HasEdits,
    /// Something else has changed it.
    Changed,
}

#[derive(Debug)]
pub(super) struct Edits {
    pub(super) segments: Vec<SegmentState>,
    pub(super) joined_sha256: String,
    pub(super) source: SourceState,
    pub(super) notes: Vec<String>,
}

impl Edits {
    pub(super) fn numbers(&self) -> Vec<usize> {
        let all = self.segments.iter().enumerate();
        all.filter(|(_, segment)| segment.is_edited).map(|(at, _)| at + 1).collect()
    }
}

pub(super) fn find_edits(
    split: &OpenSplit,
    source: &[u8],
    hooks: &PatchHooks<'_>,
) -> Result<Edits, Problem> {
    let index = &split.index;
    let has_size = source.len() as u64 == index.source_size_bytes;
    let is_in_source =
        |entry: &Segment| source_part(source, entry).is_some_and(|old| sha256(old) == entry.sha256);
    let is_as_split = has_size && index.segments.iter().all(is_in_source);
    let (mut segments, mut notes, mut whole, mut size) = (Vec::new(), Vec::new(), Sha256::new(), 0);
    for (at, entry) in index.segments.iter().enumerate() {
        hooks.check_interrupts()?;
        let mut segment = read_segment(split, at, entry)?;
        // The last one may end as it likes.
        if is_as_split && segment.is_edited && at + 1 < index.segments.len() {
            let old = source_part(source, entry).unwrap_or_default();
            segment.lost_ending = find_lost_ending(old, &segment.text);
        }
        if !segment.lost_ending.is_empty() {
            let number = at + 1;
            notes.push(format!(
                "segment {number} had lost the line ending at its end and got it again"
            ));
            segment.text.extend_from_slice(segment.lost_ending);
            segment.sha256 = sha256(&segment.text);
        }
        size += segment.text.len();
        check_size(size)?;
        whole.update(&segment.text);
        segments.push(segment);
    }
    let joined_sha256 = encode_hex(&whole.finalize());
    let source_sha256 = sha256(source);
    let source = if is_as_split {
        SourceState::AsSplit
    } else if source_sha256 == joined_sha256 {
        SourceState::HasEdits
    } else if source_sha256 == index.source_sha256 {
        // The index has lost entries, whose text would count as removed, or lists other hashes.
        return Err(Problem::failed(
            "the index is inconsistent: its segments are not those of the source; split the file again into another folder",
        ));
    } else {
        SourceState::Changed
    };
    Ok(Edits { segments, joined_sha256, source, notes })
}

fn source_part<'s>(source: &'s [u8], entry: &Segment) -> Option<&'s [u8]> {
    source.get(usize::try_from(entry.start_byte).ok()?..usize::try_from(entry.end_byte).ok()?)
}

fn read_segment(split: &OpenSplit, at: usize, entry: &Segment) -> Result<SegmentState, Problem> {
    let text = split.read_segment(at)?;
    let sha256 = sha256(&text);
    let is_edited = sha256 != entry.sha256;
    Ok(SegmentState { text, sha256, is_edited, lost_ending: b"" })
}

/// Returns the line ending that an edited segment has lost, unless it was emptied or had been cut inside of a line.
fn find_lost_ending(old: &[u8], new: &[u8]) -> &'static [u8] {
    // A line feed of UTF-16 or UTF-32 follows a NUL; one byte more would shift the rest of the file.
    let was_line = old.last() == Some(&b'\n') && !old.ends_with(b"\0\n");
    match new.last() {
        Some(last) if *last != b'\n' && was_line => {
            if old.ends_with(b"\r\n") && *last != b'\r' {
                b"\r\n"
            } else {
                b"\n"
            }
        }
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_line_ending_comes_back() {
        let check =
            |old: &[u8], new: &[u8], expect: &[u8]| assert_eq!(find_lost_ending(old, new), expect);
        check(b"a\n", b"b", b"\n");
        check(b"a\r\n", b"b", b"\r\n");
        check(b"a\r\n", b"b\r", b"\n");
        check(b"a\n", b"b\n", b"");
        check(b"\0a\0\n", b"\0b", b"");
        check(b"a\n", b"", b"");
        check(b"cut", b"b", b"");
    }
}
