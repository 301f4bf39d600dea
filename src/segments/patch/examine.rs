//! What of a split was edited, and whether the source still is what was split: each file is read once.
//!
//! A segment that is as the index says is compared with its part of the source while it is hashed; only the parts of
//! edited ones are hashed. So all parts are known to be what they were without a hash of the whole source.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::split::{Hash, Split};
use super::{Failure, Hooks};
use crate::diff::lines::count_line_feeds;
use crate::sys::names::shown;

/// Bytes that are read at a time; they fit the processor's cache with what they are compared to.
const CHUNK: usize = 256 << 10;

/// A segment as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// It is not what the index says.
    pub(super) edited: bool,
    /// The hash of the file.
    pub(super) found: String,
    /// The file that was read, and when it was last changed.
    stamp: Stamp,
    /// The line ending that is added to it.
    pub(super) ending: &'static [u8],
    /// The text that it stands for, `ending` counted in.
    pub(super) extent: Extent,
    /// Its part of the source is what the index says.
    pub(super) same: bool,
    /// The line feeds in its part of the source, when that is so.
    pub(super) old_line_feeds: u64,
}

/// What tells one state of a file from another: device, inode, size, times of modification and change.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// The same without the time of change, which a second name changes too.
pub(super) type Identity = (u64, u64, u64, (i64, i64));

pub(super) fn identity(metadata: &Metadata) -> Identity {
    let (device, inode, size, modified, _) = stamp(metadata);
    (device, inode, size, modified)
}

impl Piece {
    /// The file that was read.
    pub(super) fn identity(&self) -> Identity {
        let (device, inode, size, modified, _) = self.stamp;
        (device, inode, size, modified)
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    )
}

/// What an index says of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) bytes: u64,
    pub(super) line_feeds: u64,
    /// It is empty or its last byte is a line feed.
    pub(super) ends_line: bool,
    pub(super) sha256: String,
}

impl Extent {
    pub(super) fn of(text: &[u8]) -> Self {
        Self {
            bytes: text.len() as u64,
            line_feeds: count_line_feeds(text),
            ends_line: text.last().is_none_or(|last| *last == b'\n'),
            sha256: Hash::of(text),
        }
    }
}

/// A split as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pieces: Vec<Piece>,
    /// The hash of all segments together.
    pub(super) whole: String,
    /// The source is what was split.
    pub(super) source_is_same: bool,
    pub(super) notes: Vec<String>,
}

/// Reads all segments, and the source.
pub(super) fn examine(
    split: &Split,
    source: &File,
    force: bool,
    hooks: &mut Hooks<'_>,
) -> Result<Found, Failure> {
    let look = |error| Failure::io("look at the source", &error);
    let metadata = source.metadata().map_err(look)?;
    let is_sized = metadata.len() == split.index.source_size_bytes;
    let original = split.folder.read(&split.original).ok().flatten();
    if !is_sized {
        is_of_one_piece(split, source, hooks)?;
    }
    if let Some(original) = &original
        && original.metadata().map_err(look)?.len() != split.index.source_size_bytes
    {
        is_of_one_piece(split, original, hooks)?;
    }
    let mut work = Work {
        split,
        source,
        is_sized,
        identity: (metadata.dev(), metadata.ino()),
        original: original.filter(|file| {
            file.metadata().is_ok_and(|metadata| metadata.len() == split.index.source_size_bytes)
        }),
        force,
        whole: Hash::default(),
        done: 0,
        notes: Vec::new(),
        buffers: (vec![0; CHUNK], vec![0; CHUNK]),
    };
    let count = split.segments.len();
    let pieces = (0..count).map(|at| work.piece(at, hooks)).collect::<Result<Vec<_>, _>>()?;
    if !force {
        are_in_place(split, &pieces)?;
    }
    let source_is_same = is_sized && pieces.iter().all(|piece| piece.same);
    Ok(Found { pieces, whole: work.whole.hex(), source_is_same, notes: work.notes })
}

/// Fails when an edited segment is what another was, and that one is another text too: no edit, but files that were
/// renamed, or entries that were put in another order. An emptied one is an edit: its text was moved.
fn are_in_place(split: &Split, pieces: &[Piece]) -> Result<(), Failure> {
    let strayed = |at: &usize| pieces[*at].edited && pieces[*at].extent.bytes > 0;
    let was: HashMap<&str, usize> = (0..pieces.len())
        .filter(strayed)
        .map(|at| (split.index.segments[at].sha256.as_str(), at))
        .collect();
    for at in (0..pieces.len()).filter(strayed) {
        let Some(other) = was.get(pieces[at].found.as_str()) else { continue };
        return Err(Failure::Refused(format!(
            "segment {} ({}) holds what segment {} ({}) was, which is edited too: they look renamed or reordered; \
             give the files their names again, or --force if they were edited so",
            at + 1,
            shown(split.path(at)),
            other + 1,
            shown(split.path(*other))
        )));
    }
    Ok(())
}

/// Fails for a file that has the hash of what was split, though its size is not that: the index has lost entries.
fn is_of_one_piece(split: &Split, file: &File, hooks: &mut Hooks<'_>) -> Result<(), Failure> {
    if super::journal::hash(file, hooks)? != split.index.source_sha256 {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "the index is not of one piece: what was split has {} bytes by its hash, and {} by source_size_bytes; split the file again",
        file.metadata().map_or(0, |metadata| metadata.len()),
        split.index.source_size_bytes
    )))
}

struct Work<'a> {
    split: &'a Split,
    source: &'a File,
    /// The source has the size that was split.
    is_sized: bool,
    identity: (u64, u64),
    original: Option<File>,
    force: bool,
    whole: Hash,
    done: u64,
    notes: Vec<String>,
    buffers: (Vec<u8>, Vec<u8>),
}

impl Work<'_> {
    fn piece(&mut self, at: usize, hooks: &mut Hooks<'_>) -> Result<Piece, Failure> {
        let entry = &self.split.index.segments[at];
        let (number, size) = (at + 1, entry.end_byte.saturating_sub(entry.start_byte));
        let path = self.split.path(at);
        let file = self.split.open(at)?;
        let failed = |error: &std::io::Error| {
            Failure::Refused(format!("cannot read segment {number} ({}): {error}", shown(&path)))
        };
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        if (metadata.dev(), metadata.ino()) == self.identity {
            return Err(Failure::Refused(format!(
                "segment {number} ({}) is the source itself, by another name",
                shown(&path)
            )));
        }
        let is_lost = metadata.len() == 0
            && size > 0
            && metadata
                .modified()
                .ok()
                .zip(self.split.written)
                .is_some_and(|(own, index)| own < index);
        if is_lost && !self.force {
            return Err(Failure::Refused(format!(
                "segment {number} ({}) is empty, and was not changed after the index was written: it was lost in a crash, not edited; \
                 split the file again, or give --force to take its text out of the source",
                shown(&path)
            )));
        }
        let mut hash = Hash::default();
        let (mut length, mut feeds, mut last) = (0u64, 0u64, b'\n');
        let mut same = self.is_sized && metadata.len() == size;
        loop {
            hooks.go_on()?;
            let (buffer, other) = (&mut self.buffers.0, &mut self.buffers.1);
            let count = read_at(&file, buffer, length).map_err(|error| failed(&error))?;
            let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
            hash.feed(chunk);
            self.whole.feed(chunk);
            feeds += count_line_feeds(chunk);
            last = chunk[count - 1];
            if same {
                let from = entry.start_byte.saturating_add(length);
                let is_read = read_at(self.source, &mut other[..count], from)
                    .map_err(|error| Failure::io("read the source", &error))?;
                same = is_read == count && chunk == &other[..count];
            }
            length += count as u64;
            self.done += count as u64;
            (hooks.progress)(self.done, self.split.index.source_size_bytes);
        }
        let found = hash.hex();
        if found == entry.sha256 {
            if length != size {
                return Err(Failure::Refused(format!(
                    "the index is not of one piece: segment {number} is as it says, with {length} bytes, but stands for {size}; split the file again"
                )));
            }
            let extent = Extent {
                bytes: length,
                line_feeds: feeds,
                ends_line: last == b'\n',
                sha256: found.clone(),
            };
            return Ok(Piece {
                edited: false,
                found,
                stamp: stamp(&metadata),
                ending: b"",
                extent,
                same,
                old_line_feeds: feeds,
            });
        }
        let old = self.old(at, hooks)?;
        let is_inner = number < self.split.segments.len();
        let missing = |old: &Old| lost_ending(&old.tail, length, last);
        let ending = old.is_known.then_some(&old).filter(|_| is_inner).map_or(&b""[..], missing);
        self.whole.feed(ending);
        if old.is_known {
            self.note(at, &old, ending, length)?;
        }
        let mut extent = Extent {
            bytes: length,
            line_feeds: feeds,
            ends_line: length == 0 || last == b'\n',
            sha256: found.clone(),
        };
        if !ending.is_empty() {
            let mut text = read_whole(self.split, at)?;
            text.extend_from_slice(ending);
            extent = Extent::of(&text);
        }
        Ok(Piece {
            edited: true,
            found,
            stamp: stamp(&metadata),
            ending,
            extent,
            same: old.same,
            old_line_feeds: old.line_feeds,
        })
    }

    /// The part of the source that a segment was, or of the kept original where the source has changed.
    fn old(&mut self, at: usize, hooks: &Hooks<'_>) -> Result<Old, Failure> {
        let entry = &self.split.index.segments[at];
        let buffer = &mut self.buffers.0;
        let mut old = |file: &File| -> Result<Old, Failure> {
            let mut old = Old { is_crlf: true, ..Old::default() };
            let mut hash = Hash::default();
            let mut place = entry.start_byte;
            while place < entry.end_byte {
                hooks.go_on()?;
                let most = usize::try_from(entry.end_byte - place).unwrap_or(CHUNK).min(CHUNK);
                let count = read_at(file, &mut buffer[..most], place)
                    .map_err(|error| Failure::io("read the source", &error))?;
                if count == 0 {
                    break;
                }
                hash.feed(&buffer[..count]);
                old.feed(&buffer[..count]);
                place += count as u64;
            }
            old.is_known = hash.hex() == entry.sha256;
            Ok(old)
        };
        if self.is_sized {
            let old = old(self.source)?;
            if old.is_known {
                return Ok(Old { same: true, ..old });
            }
        }
        self.original.as_ref().map_or_else(|| Ok(Old::default()), &mut old)
    }

    fn note(&mut self, at: usize, old: &Old, ending: &[u8], length: u64) -> Result<(), Failure> {
        let number = at + 1;
        if !ending.is_empty() {
            self.notes.push(format!(
                "segment {number} had lost the line ending at its end and got it again"
            ));
        }
        if length > 0 && old.is_crlf && old.line_feeds > 0 {
            let new = read_whole(self.split, at)?;
            if new.contains(&b'\n') && !new.windows(2).any(|pair| pair == b"\r\n") {
                self.notes.push(format!(
                    "segment {number} had CRLF at the end of each line and now has LF everywhere; its lines are all changed"
                ));
            }
        }
        Ok(())
    }
}

/// What a segment was.
#[derive(Default)]
struct Old {
    /// It could be found out.
    is_known: bool,
    /// It still stands in the source.
    same: bool,
    line_feeds: u64,
    /// Each of its line feeds stands behind a CR.
    is_crlf: bool,
    /// Its last two bytes.
    tail: Vec<u8>,
}

impl Old {
    fn feed(&mut self, chunk: &[u8]) {
        self.line_feeds += count_line_feeds(chunk);
        if self.is_crlf {
            let before = self.tail.last().into_iter().chain(chunk);
            self.is_crlf = match chunk.first() {
                Some(b'\n') if self.tail.is_empty() => false,
                _ => !before
                    .clone()
                    .zip(before.skip(1))
                    .any(|pair| matches!(pair, (a, b'\n') if *a != b'\r')),
            };
        }
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(2)..]);
        self.tail.drain(..self.tail.len().saturating_sub(2));
    }
}

/// The line ending that an edited segment lacks, though it had one. One that is empty was emptied on purpose, and one
/// that was cut inside of a line had none.
fn lost_ending(old: &[u8], length: u64, last: u8) -> &'static [u8] {
    // A line feed of UTF-16 or UTF-32 has NULs before it: a byte would shift all that follows.
    let is_line = old.last() == Some(&b'\n') && !old.ends_with(b"\0\n");
    if length == 0 || last == b'\n' || !is_line {
        return b"";
    }
    if old.ends_with(b"\r\n") && last != b'\r' { b"\r\n" } else { b"\n" }
}

/// The whole text of a segment, as the file is now.
pub(super) fn read_whole(split: &Split, at: usize) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    split.open(at)?.read_to_end(&mut text).map_err(|error| {
        Failure::Refused(format!(
            "cannot read segment {} ({}): {error}",
            at + 1,
            shown(split.path(at))
        ))
    })?;
    Ok(text)
}

/// The text that an examined segment stands for.
pub(super) fn text(split: &Split, at: usize, piece: &Piece) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let mut file = split.open(at)?;
    let read = file.read_to_end(&mut text).and_then(|_| file.metadata());
    if !read.is_ok_and(|metadata| stamp(&metadata) == piece.stamp) {
        return Err(has_changed(split, at));
    }
    text.extend_from_slice(piece.ending);
    Ok(text)
}

/// Writes the text that an examined segment stands for.
pub(super) fn write_text(
    split: &Split,
    at: usize,
    piece: &Piece,
    to: &mut File,
) -> std::io::Result<()> {
    let mut file = split.open(at).map_err(std::io::Error::other)?;
    crate::sys::fs::copy_rest(&mut file, to)?;
    if stamp(&file.metadata()?) != piece.stamp {
        return Err(std::io::Error::other(has_changed(split, at)));
    }
    to.write_all(piece.ending)
}

pub(super) fn has_changed(split: &Split, at: usize) -> Failure {
    Failure::Refused(format!(
        "segment {} ({}) was changed while it was put back, so the source was not touched; run the same again",
        at + 1,
        shown(split.path(at))
    ))
}

/// Bytes of a file from a place on, fewer where it ends.
pub(super) fn read_at(file: &File, buffer: &mut [u8], from: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], from.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A range of a file; only as much of it as there is.
pub(super) fn range(file: &File, from: u64, to: u64) -> std::io::Result<Vec<u8>> {
    let there = file.metadata()?.len();
    let length = to.min(there).saturating_sub(from);
    let mut text = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
    let count = read_at(file, &mut text, from)?;
    text.truncate(count);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_line_ending_comes_back() {
        let check = |old: &[u8], new: &[u8], expect: &[u8]| {
            let last = new.last().copied().unwrap_or(b'\n');
            assert_eq!(lost_ending(old, new.len() as u64, last), expect);
        };
        check(b"a\n", b"b", b"\n");
        check(b"a\r\n", b"b", b"\r\n");
        check(b"a\r\n", b"b\r", b"\n");
        check(b"a\n", b"b\n", b"");
        check(b"\0a\0\n", b"\0b", b"");
        check(b"a\n", b"", b"");
        check(b"cut", b"b", b"");
    }

    #[test]
    fn what_a_segment_was_does_not_depend_on_the_pieces_it_is_read_in() {
        let check = |text: &[u8], is_crlf: bool| {
            for cut in 0..=text.len() {
                let mut old = Old { is_crlf: true, ..Old::default() };
                for chunk in [&text[..cut], &text[cut..]] {
                    if !chunk.is_empty() {
                        old.feed(chunk);
                    }
                }
                assert_eq!(old.is_crlf, is_crlf, "{text:?} at {cut}");
                assert_eq!(old.line_feeds, count_line_feeds(text));
                assert!(text.ends_with(&old.tail) && old.tail.len() == text.len().min(2));
            }
        };
        check(b"a\r\nb\r\nc", true);
        check(b"a\r\nb\n", false);
        check(b"\na\r\n", false);
        check(b"\r\n\r\n", true);
        check(b"", true);
    }
}
