//! Finds out which segments were edited, and whether the source still is what was split.
//!
//! A segment was edited if its hash is not the one in the index. Only edited segments are kept in memory.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use super::open::OpenSplit;
use super::request::PatchHooks;
use conversation::problem::Problem;
use edits::diff::lines::count_line_feeds;
use sys::file_stamp::FileStamp;
use sys::fs::{self, cannot_read, encode_hex, sha256};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SegmentExtent {
    pub(super) bytes: u64,
    pub(super) line_feeds: u64,
    /// It is empty, or its last byte is a line feed.
    pub(super) ends_line: bool,
    pub(super) sha256: String,
}

impl SegmentExtent {
    pub(super) fn new(text: &[u8], sha256: String) -> Self {
        Self {
            bytes: text.len() as u64,
            line_feeds: count_line_feeds(text),
            ends_line: text.last().is_none_or(|last| *last == b'\n'),
            sha256,
        }
    }
}

#[derive(Debug)]
pub(super) struct SegmentState {
    /// Its text, if it was edited, with the line ending that it had lost.
    pub(super) edited: Option<Vec<u8>>,
    /// It had lost its line ending, so the file is to be rewritten.
    pub(super) gets_ending: bool,
    /// The file that was read.
    pub(super) stamp: Option<FileStamp>,
    /// The text that it stands for.
    pub(super) extent: SegmentExtent,
    /// The source still has what the segment was when the index was written.
    is_in_source: bool,
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
        all.filter(|(_, segment)| segment.edited.is_some()).map(|(at, _)| at + 1).collect()
    }
}

pub(super) fn find_edits(
    split: &OpenSplit,
    source: &File,
    hooks: &mut PatchHooks<'_>,
) -> Result<Edits, Problem> {
    let has_size = read_metadata(source)?.len() == split.index.source_size_bytes;
    let original = split.folder.open_file(&split.original).ok().flatten();
    let reader = SegmentReader { split, source: has_size.then_some(source), original };
    let source_stamp = FileStamp::of_open(source);
    let (mut segments, mut notes, mut whole) = (Vec::new(), Vec::new(), Sha256::new());
    let mut done = 0;
    for at in 0..split.segments.len() {
        hooks.check_interrupts()?;
        let segment = reader.read_segment(at, source_stamp, &mut whole, &mut notes)?;
        done += segment.extent.bytes;
        (hooks.progress)(done, split.index.source_size_bytes);
        segments.push(segment);
    }
    let joined_sha256 = encode_hex(&whole.finalize());
    let is_as_split = has_size && segments.iter().all(|segment| segment.is_in_source);
    let source = if is_as_split {
        SourceState::AsSplit
    } else {
        compare_source(split, source, &joined_sha256)?
    };
    Ok(Edits { segments, joined_sha256, source, notes })
}

/// Looks at a source that does not have the parts that the index lists.
fn compare_source(split: &OpenSplit, source: &File, joined: &str) -> Result<SourceState, Problem> {
    let sha256 = hash_file(source)?;
    if sha256 == joined {
        return Ok(SourceState::HasEdits);
    }
    // The index has lost entries, whose text would count as removed, or lists other hashes.
    if sha256 == split.index.source_sha256 {
        return Err(inconsistent_index("its segments are not those of the source"));
    }
    Ok(SourceState::Changed)
}

struct SegmentReader<'a> {
    split: &'a OpenSplit,
    /// The source, if it has the size that was split.
    source: Option<&'a File>,
    original: Option<File>,
}

impl SegmentReader<'_> {
    fn read_segment(
        &self,
        at: usize,
        source: Option<FileStamp>,
        whole: &mut Sha256,
        notes: &mut Vec<String>,
    ) -> Result<SegmentState, Problem> {
        let entry = &self.split.index.segments[at];
        let size = entry.end_byte - entry.start_byte;
        let (mut text, stamp) = self.read_file(at, size)?;
        if stamp.zip(source).is_some_and(|(stamp, source)| stamp.same_file(&source)) {
            let segment = self.split.describe_segment(at);
            return Err(Problem::failed(format!(
                "{segment} is the source itself, under another name"
            )));
        }
        let mut hash = sha256(&text);
        let is_edited = hash != entry.sha256;
        if !is_edited && text.len() as u64 != size {
            return Err(inconsistent_index(&format!(
                "segment {} has {} bytes and the hash that is listed, but its range has {size} bytes",
                at + 1,
                text.len()
            )));
        }
        let read_old = |file: Option<&File>| {
            let part = file.map(|file| read_part(file, entry.start_byte, entry.end_byte));
            Ok::<_, io::Error>(part.transpose()?.filter(|part| sha256(part) == entry.sha256))
        };
        let mut old = read_old(self.source)?;
        let is_in_source = old.is_some();
        let mut ending: &[u8] = b"";
        if is_edited {
            // After an interrupted run the source has the new text.
            old = old.or_else(|| read_old(self.original.as_ref()).ok().flatten());
            let old = old.unwrap_or_default();
            if at + 1 < self.split.segments.len() {
                ending = find_lost_ending(&old, &text);
            }
            add_notes(at + 1, &old, &text, ending, notes);
        }
        if !ending.is_empty() {
            text.extend_from_slice(ending);
            hash = sha256(&text);
        }
        whole.update(&text);
        Ok(SegmentState {
            extent: SegmentExtent::new(&text, hash),
            edited: is_edited.then_some(text),
            gets_ending: !ending.is_empty(),
            stamp,
            is_in_source,
        })
    }

    /// Reads a segment. A file that is empty though it was not touched after the index was written lost its text in a
    /// crash; it is not taken for an edit.
    fn read_file(&self, at: usize, size: u64) -> Result<(Vec<u8>, Option<FileStamp>), Problem> {
        let mut file = self.split.open_segment(at)?;
        let segment = || self.split.describe_segment(at);
        let failed =
            |error: io::Error| Problem::failed(format!("cannot read {}: {error}", segment()));
        let metadata = file.metadata().map_err(failed)?;
        let times = metadata.modified().ok().zip(self.split.index_written);
        let is_older = times.is_some_and(|(segment, index)| segment < index);
        if metadata.len() == 0 && size > 0 && is_older {
            return Err(Problem::failed(format!(
                "{} is empty, but was not changed since the index was written: its text was lost in a crash; split the file \
                 again, or save the empty file once more to remove this text from the source",
                segment()
            )));
        }
        let stamp = FileStamp::of_open(&file);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        Ok((text, stamp))
    }
}

fn inconsistent_index(what: &str) -> Problem {
    Problem::failed(format!(
        "the index is inconsistent: {what}; split the file again into another folder"
    ))
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

fn add_notes(number: usize, old: &[u8], new: &[u8], ending: &[u8], notes: &mut Vec<String>) {
    if !ending.is_empty() {
        notes
            .push(format!("segment {number} had lost the line ending at its end and got it again"));
    }
    let crlf = |text: &[u8]| text.windows(2).filter(|pair| pair == b"\r\n").count() as u64;
    let feeds = count_line_feeds(old);
    if feeds > 0 && crlf(old) == feeds && new.contains(&b'\n') && crlf(new) == 0 {
        notes.push(format!(
            "segment {number} had CRLF at the end of each line and now has LF everywhere; all its lines change"
        ));
    }
}

pub(super) fn read_part(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    // An index may claim any size.
    let length = end.min(read_metadata(file)?.len()).saturating_sub(start);
    let mut part = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut part, start).map_err(|error| cannot_read(file, &error))?;
    Ok(part)
}

pub(super) fn read_metadata(file: &File) -> io::Result<Metadata> {
    file.metadata().map_err(|error| cannot_read(file, &error))
}

fn hash_file(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    fs::sha256_of_file(file).map_err(|error| cannot_read(file, &error))
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
