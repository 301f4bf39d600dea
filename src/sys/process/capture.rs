//! A stream of output, read in bounded memory: its head, its tail, its figures, and when that is not all
//! of it, or no UTF-8, a file with the whole, named for its hash, or without a name for whoever goes over it before
//! it is kept. It knows nothing of processes.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::sys::fs::{self, hex};
use crate::sys::temp_files::TempFile;

/// What one stream gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, `keep` at most.
    pub head: Vec<u8>,
    /// The last bytes, `keep` at most, none that the head has. With `left_out` 0 it follows the head.
    pub tail: Vec<u8>,
    /// All bytes.
    pub bytes: u64,
    /// All lines; a last one without a line feed counts.
    pub lines: u64,
    /// The bytes between head and tail, which are in the file alone.
    pub left_out: u64,
    /// Whether all of it is UTF-8.
    pub valid_utf8: bool,
    /// The file that holds the whole, durable by now. There is one when bytes were left out, or some are no UTF-8 or
    /// NUL, and a folder was given.
    pub spooled: Option<Spooled>,
    /// In its place, the file without a name that was asked for.
    pub nameless: Option<Nameless>,
    /// Why there is no such file although there should be: a full disk, a folder that cannot be written.
    pub spool_error: Option<String>,
}

/// A whole output in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    /// `{folder}/{sha256}.txt`.
    pub path: PathBuf,
    /// In lower-case hexadecimal.
    pub sha256: String,
}

/// An open file that no folder names: it is gone when this value is.
#[derive(Debug, Clone)]
pub struct Nameless(Arc<File>);

impl PartialEq for Nameless {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Nameless {}

impl Nameless {
    /// Hands over all of it, piece by piece.
    fn each(&self, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut chunk = vec![0; 256 << 10];
        let mut at = 0;
        loop {
            match self.0.read_at(&mut chunk, at) {
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
}

impl Captured {
    /// The same after `change` went over it, piece by piece (`None` at the end); what is kept whole goes into a file of
    /// `folder`, with its name. Figures are those of the new text. Where a part of it is in no file, the bytes around the
    /// gap are dropped as far as the next line feed: `change` does not see what they belong to.
    #[must_use]
    pub fn through(
        self,
        folder: PathBuf,
        keep: usize,
        change: &mut dyn FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> Self {
        let mut new = Capture::new(keep, Some(folder), false);
        let file = self.nameless.clone();
        if let Some(file) = file {
            match file.each(&mut |bytes| new.push(&change(Some(bytes)))) {
                Ok(()) => {
                    new.push(&change(None));
                    return new.finish();
                }
                Err(error) => {
                    let why = format!("cannot read the whole output again: {error}");
                    return self.around_the_gap(Some(why), change);
                }
            }
        }
        if self.left_out > 0 {
            return self.around_the_gap(None, change);
        }
        new.push(&change(Some(&self.head)));
        new.push(&change(Some(&self.tail)));
        new.push(&change(None));
        let new = new.finish();
        Self { spool_error: new.spool_error.clone().or(self.spool_error), ..new }
    }

    fn around_the_gap(
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
        self.nameless = None;
        self.spool_error = self.spool_error.or(why);
        self
    }

    /// All of it as text, from memory, or from the file that a long output went to. Nothing where that is over `limit`
    /// bytes, or no file has what memory left out.
    pub fn whole(&self, limit: u64) -> Option<Cow<'_, str>> {
        if self.left_out == 0 {
            return Some(self.head_text());
        }
        if let Some(file) = &self.nameless {
            if self.bytes > limit {
                return None;
            }
            let mut bytes = Vec::new();
            file.each(&mut |piece| bytes.extend_from_slice(piece)).ok()?;
            return String::from_utf8(bytes).ok().map(Cow::Owned);
        }
        fs::read_text(&self.spooled.as_ref()?.path, limit).ok()?.map(Cow::Owned)
    }

    /// The head as text: all of the output when nothing was left out. What is no UTF-8 shows as U+FFFD; a
    /// character that the cut went through is dropped.
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

    /// The tail as text, in the same way: empty when nothing was left out.
    pub fn tail_text(&self) -> Cow<'_, str> {
        if self.left_out == 0 {
            return Cow::Borrowed("");
        }
        // A character has three continuation bytes at most.
        let cut = self.tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        String::from_utf8_lossy(self.tail.get(cut..).unwrap_or_default())
    }
}

/// The stream while it comes.
#[derive(Debug)]
pub(super) struct Capture {
    keep: usize,
    folder: Option<PathBuf>,
    nameless: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    line_feeds: u64,
    ends_open: bool,
    utf8: Utf8,
    has_nul: bool,
    spool: Option<Spool>,
    spool_error: Option<String>,
}

impl Capture {
    /// Keeps `keep` bytes of the head and as many of the tail; a file goes into `folder`, with a name or without.
    pub(super) fn new(keep: usize, folder: Option<PathBuf>, nameless: bool) -> Self {
        Self {
            keep,
            folder,
            nameless,
            head: Vec::new(),
            tail: Vec::new(),
            bytes: 0,
            line_feeds: 0,
            ends_open: false,
            utf8: Utf8::default(),
            has_nul: false,
            spool: None,
            spool_error: None,
        }
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        let Some(last) = chunk.last() else { return };
        let overflows =
            self.head.len() + self.tail.len() + chunk.len() > self.keep.saturating_mul(2);
        if overflows && self.spool.is_none() {
            self.open_spool();
        }
        if let Some(spool) = &mut self.spool
            && let Err(error) = spool.write(chunk)
        {
            self.fail(&error);
        }
        self.bytes += chunk.len() as u64;
        self.line_feeds += chunk.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        self.ends_open = *last != b'\n';
        self.utf8.push(chunk);
        self.has_nul = self.has_nul || chunk.contains(&0);

        let room = self.keep.saturating_sub(self.head.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        self.tail.extend_from_slice(rest);
        // Trimmed now and then, not at each push: each byte is moved once at most.
        if self.tail.len() >= self.keep.saturating_mul(2) {
            self.trim_tail();
        }
    }

    fn trim_tail(&mut self) {
        let surplus = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..surplus);
    }

    /// Opens the file and writes what came so far, unless there is no folder or it has failed before.
    fn open_spool(&mut self) {
        let Some(folder) = &self.folder else { return };
        if self.spool_error.is_some() {
            return;
        }
        let opened = Spool::open(folder, self.nameless).and_then(|mut spool| {
            spool.write(&self.head)?;
            spool.write(&self.tail)?;
            Ok(spool)
        });
        match opened {
            Ok(spool) => self.spool = Some(spool),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.spool = None;
        let folder = self.folder.as_deref().unwrap_or(Path::new("")).display();
        self.spool_error = Some(format!("cannot keep the whole output in {folder}: {error}"));
    }

    /// Ends the stream: the file, if there is one, is durable under its name before this returns.
    pub(super) fn finish(mut self) -> Captured {
        let valid_utf8 = self.utf8.is_valid();
        if (!valid_utf8 || self.has_nul) && self.spool.is_none() {
            self.open_spool();
        }
        let mut nameless = None;
        let spooled = self.spool.take().and_then(|spool| match spool.persist() {
            Ok(Kept::Named(spooled)) => Some(spooled),
            Ok(Kept::Nameless(file)) => {
                nameless = Some(file);
                None
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        });
        self.trim_tail();
        Captured {
            left_out: self.bytes.saturating_sub((self.head.len() + self.tail.len()) as u64),
            head: self.head,
            tail: self.tail,
            bytes: self.bytes,
            lines: self.line_feeds + u64::from(self.ends_open),
            valid_utf8,
            spooled,
            nameless,
            spool_error: self.spool_error,
        }
    }
}

/// Whether a stream is UTF-8, wherever it is cut.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character at the end of the last chunk.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8 {
    fn push(&mut self, mut chunk: &[u8]) {
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

/// The file that gets the whole.
#[derive(Debug)]
struct Spool {
    folder: PathBuf,
    file: SpoolFile,
    hash: Sha256,
}

#[derive(Debug)]
enum SpoolFile {
    Named(TempFile),
    Nameless(File),
}

/// What became of the file.
enum Kept {
    Named(Spooled),
    Nameless(Nameless),
}

impl Spool {
    fn open(folder: &Path, nameless: bool) -> io::Result<Self> {
        fs::make_folders(folder, 0o700, &mut Vec::new())?;
        let file = if nameless {
            SpoolFile::Nameless(tempfile::tempfile_in(folder)?)
        } else {
            SpoolFile::Named(TempFile::create(folder)?)
        };
        Ok(Self { folder: folder.to_owned(), file, hash: Sha256::new() })
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        match &mut self.file {
            SpoolFile::Named(file) => {
                self.hash.update(chunk);
                file.file_mut().write_all(chunk)
            }
            SpoolFile::Nameless(file) => file.write_all(chunk),
        }
    }

    fn persist(self) -> io::Result<Kept> {
        let file = match self.file {
            SpoolFile::Nameless(file) => return Ok(Kept::Nameless(Nameless(Arc::new(file)))),
            SpoolFile::Named(file) => file,
        };
        let sha256 = hex(&self.hash.finalize());
        let name = format!("{sha256}.txt");
        let path = self.folder.join(&name);
        if !fs::is_kept(&path, &sha256) {
            file.persist_durably(name.as_ref(), false)?;
        }
        Ok(Kept::Named(Spooled { path, sha256 }))
    }
}

#[cfg(test)]
mod tests;
