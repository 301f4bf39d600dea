//! Captures a stream of output in bounded memory: its head, its tail, its counts.
//!
//! Output that is too long for memory, or is not UTF-8, is stored whole in a file named after its hash.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use crate::fs::OutputFile;
use conversation::limits;

/// The captured output of one stream.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes, at most `keep`.
    pub head: Vec<u8>,
    /// The last bytes after the head, at most `keep`. With `left_out` 0 they follow the head directly.
    pub tail: Vec<u8>,
    /// Number of bytes in total.
    pub bytes: u64,
    /// Number of lines; a last one without a line feed counts.
    pub lines: u64,
    /// Number of bytes between head and tail, which are in the file only.
    pub left_out: u64,
    /// The file with the whole output, `{folder}/{sha256}.txt`, already synced. There is one when
    /// bytes were left out, or some are not UTF-8 or are NUL.
    pub spooled: Option<PathBuf>,
    /// The reason why the file is missing: a full disk, a folder that cannot be written.
    pub spool_error: Option<String>,
}

impl Captured {
    /// Returns the head as text; the whole output if nothing was left out. Bytes that are not UTF-8 become U+FFFD; a
    /// character that is cut in two is dropped.
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

    /// Returns the tail as text; empty if nothing was left out. Bytes that are not UTF-8 become U+FFFD; a character
    /// that is cut in two is dropped.
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
#[derive(Debug, Default)]
pub struct Capture {
    keep: usize,
    folder: PathBuf,
    /// Maximum size of the file in bytes.
    room: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    line_feeds: u64,
    ends_open: bool,
    utf8: Utf8Check,
    has_nul: bool,
    spool: Option<OutputFile>,
    spool_error: Option<String>,
}

impl Capture {
    /// Keeps `keep` bytes of the head and the same number of the tail in memory; a file goes into `folder`, which is
    /// created when it is needed. A file that would be larger than `room` is not kept.
    pub fn new(keep: usize, folder: PathBuf, room: u64) -> Self {
        Self { keep, folder, room, ..Self::default() }
    }

    /// Appends the next bytes.
    pub fn append(&mut self, chunk: &[u8]) {
        let Some(last) = chunk.last() else { return };
        let overflows =
            self.head.len() + self.tail.len() + chunk.len() > self.keep.saturating_mul(2);
        if overflows && self.spool.is_none() {
            self.open_spool();
        }
        self.bytes += chunk.len() as u64;
        if let Some(spool) = &mut self.spool {
            let written = if self.bytes <= self.room {
                spool.write(chunk)
            } else {
                let most = limits::RUN_OUTPUT >> 30;
                Err(io::Error::other(format!(
                    "over the limit of {most} GiB for all commands of a run"
                )))
            };
            if let Err(error) = written {
                self.record_failure(&error);
            }
        }
        self.line_feeds += memchr::memchr_iter(b'\n', chunk).count() as u64;
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

    /// Opens the file and writes the output so far, unless an earlier attempt failed.
    fn open_spool(&mut self) {
        if self.spool_error.is_some() {
            return;
        }
        let opened = OutputFile::create(&self.folder).and_then(|mut spool| {
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
        let folder = self.folder.display();
        self.spool_error = Some(format!("cannot keep the whole output in {folder}: {error}"));
    }

    /// Returns the end of the output so far, at most `keep` bytes, and the number of line feeds before it.
    pub fn end(&self) -> (Vec<u8>, u64) {
        let mut end = self.tail.clone();
        if end.len() < self.keep {
            end.splice(..0, self.head.iter().copied());
        }
        end.drain(..end.len().saturating_sub(self.keep));
        let lines = self.line_feeds - memchr::memchr_iter(b'\n', &end).count() as u64;
        (end, lines)
    }

    /// Ends the stream. The file, if there is one, is synced under its name before this returns.
    pub fn finish(mut self) -> Captured {
        let valid_utf8 = !self.utf8.broken && self.utf8.open.is_empty();
        if (!valid_utf8 || self.has_nul) && self.spool.is_none() {
            self.open_spool();
        }
        let spooled =
            self.spool.take().map(OutputFile::finish).transpose().unwrap_or_else(|error| {
                self.record_failure(&error);
                None
            });
        self.trim_tail();
        Captured {
            left_out: self.bytes.saturating_sub((self.head.len() + self.tail.len()) as u64),
            head: self.head,
            tail: self.tail,
            bytes: self.bytes,
            lines: self.line_feeds + u64::from(self.ends_open),
            spooled,
            spool_error: self.spool_error,
        }
    }
}

/// Checks whether a stream is UTF-8, however it is cut into chunks.
#[derive(Debug, Default)]
struct Utf8Check {
    /// The beginning of a character at the end of the last chunk.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8Check {
    fn append(&mut self, mut chunk: &[u8]) {
        // An incomplete character is completed byte by byte, three at most.
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
}

#[cfg(test)]
mod tests;
