//! Finds the edited segments, and checks whether the source is still the one that was split.
//!
//! A segment was edited if its hash is not the one in the index.

use std::ops::Range;

use super::open::{OpenSplit, check_size};
use super::request::PatchHooks;
use conversation::format::index::Segment;
use conversation::problem::Problem;
use sys::fs::sha256;

/// The present state of a segment.
#[derive(Debug)]
pub(super) struct SegmentState {
    /// Its range in the joined text, including the line ending that it had lost.
    pub(super) range: Range<usize>,
    pub(super) sha256: String,
    pub(super) is_edited: bool,
    /// The line ending that its file lacks.
    pub(super) lost_ending: &'static [u8],
}

/// The state of the source relative to the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceState {
    /// It is the source that was split.
    AsSplit,
    /// It equals the joined segments: an earlier run was killed before it had written the index.
    HasEdits,
    /// Another program has changed it.
    Changed,
}

#[derive(Debug)]
pub(super) struct Edits {
    /// The text of all segments.
    pub(super) joined: Vec<u8>,
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
    let (mut joined, mut segments, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (at, entry) in index.segments.iter().enumerate() {
        hooks.check_interrupts()?;
        let start = joined.len();
        joined.append(&mut split.read_segment(at)?);
        let mut hash = sha256(&joined[start..]);
        let is_edited = hash != entry.sha256;
        let mut lost_ending: &[u8] = b"";
        // The last segment needs no line ending.
        if is_as_split && is_edited && at + 1 < index.segments.len() {
            let old = source_part(source, entry).unwrap_or_default();
            lost_ending = find_lost_ending(old, &joined[start..]);
        }
        if !lost_ending.is_empty() {
            let number = at + 1;
            notes.push(format!(
                "segment {number} had lost the line ending at its end; it was restored"
            ));
            joined.extend_from_slice(lost_ending);
            hash = sha256(&joined[start..]);
        }
        check_size(joined.len())?;
        let range = start..joined.len();
        segments.push(SegmentState { range, sha256: hash, is_edited, lost_ending });
    }
    let joined_sha256 = sha256(&joined);
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
    Ok(Edits { joined, segments, joined_sha256, source, notes })
}

fn source_part<'s>(source: &'s [u8], entry: &Segment) -> Option<&'s [u8]> {
    source.get(usize::try_from(entry.start_byte).ok()?..usize::try_from(entry.end_byte).ok()?)
}

/// Returns the line ending that an edited segment has lost, unless it was emptied or had been cut inside of a line.
fn find_lost_ending(old: &[u8], new: &[u8]) -> &'static [u8] {
    // A line feed of UTF-16 or UTF-32 follows a NUL; one byte more would shift the rest of the file.
    let was_line = old.last() == Some(&b'\n') && !old.ends_with(b"\0\n");
    match new.last().filter(|last| was_line && **last != b'\n') {
        None => b"",
        Some(last) if *last != b'\r' && old.ends_with(b"\r\n") => b"\r\n",
        Some(_) => b"\n",
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
