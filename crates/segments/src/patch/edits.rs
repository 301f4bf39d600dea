//! Finds out which segments were edited, and whether the source still is what was split.
//!
//! A segment was edited if its hash is not the one in the index. Only edited segments are kept in memory.

use std::collections::HashMap;
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
    /// The hash of the file that was read.
    pub(super) file_sha256: String,
    /// The file that was read.
    pub(super) stamp: Option<FileStamp>,
    /// The text that it stands for.
    pub(super) extent: SegmentExtent,
    /// The source still has what the segment was when the index was written.
    pub(super) is_in_source: bool,
    /// Line feeds of what the segment was, if the source still has it.
    pub(super) old_line_feeds: u64,
}

#[derive(Debug)]
pub(super) struct Edits {
    pub(super) segments: Vec<SegmentState>,
    pub(super) joined_sha256: String,
    pub(super) matches_source: bool,
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
    force: bool,
    hooks: &mut PatchHooks<'_>,
) -> Result<Edits, Problem> {
    let size = read_metadata(source)?.len();
    let has_size = size == split.index.source_size_bytes;
    let original = split.folder.open_file(&split.original).ok().flatten();
    let reader = SegmentReader { split, source: has_size.then_some(source), original, force };
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
    if !force {
        refuse_renamed_segments(split, &segments)?;
    }
    let matches_source = has_size && segments.iter().all(|segment| segment.is_in_source);
    Ok(Edits { segments, joined_sha256: encode_hex(&whole.finalize()), matches_source, notes })
}

/// Fails if an edited segment holds what another one was: then files were renamed or index entries reordered.
fn refuse_renamed_segments(split: &OpenSplit, segments: &[SegmentState]) -> Result<(), Problem> {
    let is_candidate =
        |at: &usize| segments[*at].edited.is_some() && segments[*at].extent.bytes > 0;
    let was: HashMap<&str, usize> = (0..segments.len())
        .filter(is_candidate)
        .map(|at| (split.index.segments[at].sha256.as_str(), at))
        .collect();
    for at in (0..segments.len()).filter(is_candidate) {
        let Some(other) = was.get(segments[at].file_sha256.as_str()) else { continue };
        return Err(Problem::failed(format!(
            "{} holds the old text of {}, which has changed too: were the files renamed or the index reordered? Restore \
             the file names, or use --force if the edits are right",
            split.describe_segment(at),
            split.describe_segment(*other)
        )));
    }
    Ok(())
}

struct SegmentReader<'a> {
    split: &'a OpenSplit,
    /// The source, if it has the size that was split.
    source: Option<&'a File>,
    original: Option<File>,
    force: bool,
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
        let file_sha256 = sha256(&text);
        let is_edited = file_sha256 != entry.sha256;
        if !is_edited && text.len() as u64 != size {
            return Err(inconsistent_index(&format!(
                "segment {} has {} bytes and the hash that is listed, but its range has {size} bytes",
                at + 1,
                text.len()
            )));
        }
        let read_old = |file: Option<&File>| {
            file.map(|file| read_part(file, entry.start_byte, entry.end_byte))
        };
        let is_old =
            |part: &Vec<u8>| if is_edited { sha256(part) == entry.sha256 } else { *part == text };
        let mut old = read_old(self.source).transpose()?.filter(is_old);
        let is_in_source = old.is_some();
        if is_edited && !is_in_source {
            old = read_old(self.original.as_ref()).and_then(Result::ok).filter(is_old);
        }
        let mut ending: &[u8] = b"";
        if let Some(old) = old.as_ref().filter(|_| is_edited) {
            if at + 1 < self.split.segments.len() {
                ending = find_lost_ending(old, &text);
            }
            add_notes(at + 1, old, &text, ending, notes);
        }
        text.extend_from_slice(ending);
        whole.update(&text);
        let sha256 = if ending.is_empty() { file_sha256.clone() } else { sha256(&text) };
        Ok(SegmentState {
            extent: SegmentExtent::new(&text, sha256),
            edited: is_edited.then_some(text),
            gets_ending: !ending.is_empty(),
            file_sha256,
            stamp,
            is_in_source,
            old_line_feeds: old.map_or(0, |old| count_line_feeds(&old)),
        })
    }

    /// Reads a segment. A file that is empty though it was not touched after the index was written lost its text in a
    /// crash; without `force` it is not taken for an edit.
    fn read_file(&self, at: usize, size: u64) -> Result<(Vec<u8>, Option<FileStamp>), Problem> {
        let mut file = self.split.open_segment(at)?;
        let segment = || self.split.describe_segment(at);
        let failed =
            |error: io::Error| Problem::failed(format!("cannot read {}: {error}", segment()));
        let metadata = file.metadata().map_err(failed)?;
        let times = metadata.modified().ok().zip(self.split.index_written);
        let is_older = times.is_some_and(|(segment, index)| segment < index);
        if metadata.len() == 0 && size > 0 && is_older && !self.force {
            return Err(Problem::failed(format!(
                "{} is empty, but was not changed since the index was written: its text was lost in a crash; split the file \
                 again, or use --force to remove this text from the source",
                segment()
            )));
        }
        let stamp = FileStamp::of_open(&file);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        Ok((text, stamp))
    }
}

pub(super) fn inconsistent_index(what: &str) -> Problem {
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

pub(super) fn read_whole(file: &File) -> Result<Vec<u8>, Problem> {
    Ok(read_part(file, 0, read_metadata(file)?.len())?)
}

pub(super) fn hash_file(mut file: &File) -> io::Result<String> {
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
