//! Captures a stream of output in bounded memory: its head, its tail, its counts.
//!
//! What is too long for memory, or is not UTF-8, goes whole into a file named after its hash, or into an unlinked file for a
//! caller that masks credentials before anything is stored.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::sys::fs::{self, hex};
use crate::sys::temp_files::TempFile;

/// What was captured of one stream.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes, at most `keep`.
    pub head: Vec<u8>,
    /// The last bytes after the head, at most `keep`. With `left_out` 0 they follow the head directly.
    pub tail: Vec<u8>,
    /// How many bytes there were.
    pub bytes: u64,
    /// How many lines there were; a last one without a line feed counts.
    pub lines: u64,
    /// How many bytes between head and tail are in the file only.
    pub left_out: u64,
    /// Whether the whole output is UTF-8.
    pub valid_utf8: bool,
    /// The file with the whole output, already synced. There is one when bytes were left out, or some are not UTF-8 or are
    /// NUL, and a folder was given.
    pub spooled: Option<Spooled>,
    /// The unlinked file instead of it, if the job asked for one. It vanishes with this value.
    pub unlinked: Option<File>,
    /// Why the file is missing: a full disk, a folder that cannot be written.
    pub spool_error: Option<String>,
}

/// A file with a whole output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    /// `{folder}/{sha256}.txt`.
    pub path: PathBuf,
    /// The hash of the content, in lower-case hexadecimal.
    pub sha256: String,
}

/// Hands over the content of a file, piece by piece.
fn for_each_chunk(file: &File, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut chunk = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        match file.read_at(&mut chunk, at) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                take(chunk.get(..count).unwrap_or_default());
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Captured {
    /// Passes the output through `change`, piece by piece (`None` at the end), and captures the result; a whole output goes
    /// into a file of `folder`. Where the middle of the output is lost, this drops the bytes around the gap up to the next
    /// line feed: `change` cannot see what they belong to.
    #[must_use]
    pub fn map_bytes(
        self,
        folder: PathBuf,
        keep: usize,
        change: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> Self {
        let mut new = Capture::new(keep, Some(folder), false);
        if let Some(file) = &self.unlinked {
            let copied = for_each_chunk(file, &mut |bytes| new.append(&change(Some(bytes))));
            if let Err(error) = copied {
                let why = format!("cannot read the whole output again: {error}");
                return self.drop_partial_lines(Some(why), change);
            }
            new.append(&change(None));
            return new.finish();
        }
        if self.left_out > 0 {
            return self.drop_partial_lines(None, change);
        }
        new.append(&change(Some(&self.head)));
        new.append(&change(Some(&self.tail)));
        new.append(&change(None));
        let new = new.finish();
        Self { spool_error: new.spool_error.clone().or(self.spool_error), ..new }
    }

    fn drop_partial_lines(
        mut self,
        why: Option<String>,
        change: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> Self {
        let before = self.head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let after = self.tail.iter().position(|byte| *byte == b'\n').unwrap_or(self.tail.len());
        // Without a gap the head's last line goes on in the tail.
        let gap = [&self.head[before..], &self.tail[..after]].map(<[u8]>::len);
        self.left_out += gap.iter().sum::<usize>() as u64;
        let mut changed = |bytes: &[u8]| {
            let mut out = change(Some(bytes));
            out.extend(change(None));
            out
        };
        self.head = changed(&self.head[..before]);
        self.tail = changed(&self.tail[after..]);
        self.unlinked = None;
        self.spool_error = self.spool_error.or(why);
        self
    }

    /// Returns the whole output as text, from memory or from the unlinked file. `None` if it has more than `limit` bytes, or
    /// there is no such file.
    pub fn whole_text(&self, limit: u64) -> Option<Cow<'_, str>> {
        if self.left_out == 0 {
            return Some(self.head_text());
        }
        let file = self.unlinked.as_ref().filter(|_| self.bytes <= limit)?;
        let mut bytes = Vec::new();
        for_each_chunk(file, &mut |piece| bytes.extend_from_slice(piece)).ok()?;
        String::from_utf8(bytes).ok().map(Cow::Owned)
    }

    /// Returns the head as text; the whole output if nothing was left out. What is not UTF-8 becomes U+FFFD; a character
    /// that is cut in two is dropped.
    pub fn head_text(&self) -> Cow<'_, str> {
        if self.left_out == 0 {
            let mut whole = self.head.clone();
            whole.extend_from_slice(&self.tail);
            return Cow::Owned(String::from_utf8_lossy(&whole).into_owned());
        }
        let cut = match std::str::from_utf8(&self.head) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.head.len(),
        };
        String::from_utf8_lossy(self.head.get(..cut).unwrap_or_default())
    }

    /// Returns the tail as text, in the same way; empty if nothing was left out.
    pub fn tail_text(&self) -> Cow<'_, str> {
        if self.left_out == 0 {
            return Cow::Borrowed("");
        }
        // A character has at most three continuation bytes.
        let cut = self.tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        String::from_utf8_lossy(self.tail.get(cut..).unwrap_or_default())
    }
}

/// A stream that is being captured.
#[derive(Debug)]
pub(super) struct Capture {
    keep: usize,
    folder: Option<PathBuf>,
    unlinked: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    line_feeds: u64,
    ends_open: bool,
    utf8: Utf8Check,
    has_nul: bool,
    spool: Option<Spool>,
    spool_error: Option<String>,
}

impl Capture {
    /// Keeps `keep` bytes of the head and as many of the tail in memory; the file goes into `folder`.
    pub(super) fn new(keep: usize, folder: Option<PathBuf>, unlinked: bool) -> Self {
        Self {
            keep,
            folder,
            unlinked,
            head: Vec::new(),
            tail: Vec::new(),
            bytes: 0,
            line_feeds: 0,
            ends_open: false,
            utf8: Utf8Check::default(),
            has_nul: false,
            spool: None,
            spool_error: None,
        }
    }

    /// Returns how many bytes have come so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the next bytes.
    pub(super) fn append(&mut self, chunk: &[u8]) {
        let Some(last) = chunk.last() else { return };
        let overflows =
            self.head.len() + self.tail.len() + chunk.len() > self.keep.saturating_mul(2);
        if overflows && self.spool.is_none() {
            self.open_spool();
        }
        if let Some(spool) = &mut self.spool
            && let Err(error) = spool.write(chunk)
        {
            self.record_failure(&error);
        }
        self.bytes += chunk.len() as u64;
        self.line_feeds += chunk.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        self.ends_open = *last != b'\n';
        self.utf8.append(chunk);
        self.has_nul = self.has_nul || chunk.contains(&0);

        let room = self.keep.saturating_sub(self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        self.tail.extend_from_slice(rest);
        // Not at each push, so that each byte is moved at most once.
        if self.tail.len() >= self.keep.saturating_mul(2) {
            self.trim_tail();
        }
    }

    fn trim_tail(&mut self) {
        let surplus = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..surplus);
    }

    /// Opens the file and writes what came so far, unless there is no folder or an earlier attempt failed.
    fn open_spool(&mut self) {
        let Some(folder) = &self.folder else { return };
        if self.spool_error.is_some() {
            return;
        }
        let opened = Spool::create(folder, self.unlinked).and_then(|mut spool| {
            spool.write(&self.head)?;
            spool.write(&self.tail)?;
            Ok(spool)
        });
        match opened {
            Ok(spool) => self.spool = Some(spool),
            Err(error) => self.record_failure(&error),
        }
    }

    fn record_failure(&mut self, error: &io::Error) {
        self.spool = None;
        let folder = self.folder.as_deref().unwrap_or(Path::new("")).display();
        self.spool_error = Some(format!("cannot keep the whole output in {folder}: {error}"));
    }

    /// Ends the stream. The file, if there is one, is synced under its name before this returns.
    pub(super) fn finish(mut self) -> Captured {
        let valid_utf8 = self.utf8.is_valid();
        if (!valid_utf8 || self.has_nul) && self.spool.is_none() {
            self.open_spool();
        }
        let (spooled, unlinked) = match self.spool.take().map(Spool::finish) {
            None => (None, None),
            Some(Ok(files)) => files,
            Some(Err(error)) => {
                self.record_failure(&error);
                (None, None)
            }
        };
        self.trim_tail();
        Captured {
            left_out: self.bytes.saturating_sub((self.head.len() + self.tail.len()) as u64),
            head: self.head,
            tail: self.tail,
            bytes: self.bytes,
            lines: self.line_feeds + u64::from(self.ends_open),
            valid_utf8,
            spooled,
            unlinked,
            spool_error: self.spool_error,
        }
    }
}

/// Checks whether a stream is UTF-8, wherever it is cut into chunks.
#[derive(Debug, Default)]
struct Utf8Check {
    /// The beginning of a character at the end of the last chunk.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8Check {
    fn append(&mut self, mut chunk: &[u8]) {
        // An open character is completed byte by byte, three at most.
        while !self.open.is_empty() && !self.broken {
            let Some((first, rest)) = chunk.split_first() else { return };
            chunk = rest;
            self.open.push(*first);
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) => self.broken = error.error_len().is_some(),
            }
        }
        if self.broken {
            return;
        }
        if let Err(error) = std::str::from_utf8(chunk) {
            self.broken = error.error_len().is_some();
            self.open.extend_from_slice(chunk.get(error.valid_up_to()..).unwrap_or_default());
        }
    }

    fn is_valid(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

/// The file that receives the whole output.
#[derive(Debug)]
enum Spool {
    Named { file: TempFile, folder: PathBuf, hash: Sha256 },
    Unlinked(File),
}

impl Spool {
    fn create(folder: &Path, unlinked: bool) -> io::Result<Self> {
        fs::make_folders(folder, 0o700, &mut Vec::new())?;
        if unlinked {
            return tempfile::tempfile_in(folder).map(Self::Unlinked);
        }
        let file = TempFile::create(folder)?;
        Ok(Self::Named { file, folder: folder.to_owned(), hash: Sha256::new() })
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self {
            Self::Named { file, hash, .. } => {
                hash.update(chunk);
                file.file_mut().write_all(chunk)
            }
            Self::Unlinked(file) => file.write_all(chunk),
        }
    }

    /// Gives the file its name and syncs it, or returns the unlinked file.
    fn finish(self) -> io::Result<(Option<Spooled>, Option<File>)> {
        let (file, folder, hash) = match self {
            Self::Named { file, folder, hash } => (file, folder, hash),
            Self::Unlinked(file) => return Ok((None, Some(file))),
        };
        let sha256 = hex(&hash.finalize());
        let name = format!("{sha256}.txt");
        let path = folder.join(&name);
        if !fs::is_stored(&path, &sha256) {
            file.persist_durably(name.as_ref(), false)?;
        }
        Ok((Some(Spooled { path, sha256 }), None))
    }
}

#[cfg(test)]
mod tests;
