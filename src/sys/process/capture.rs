//! A stream of output, read in bounded memory: its head, its tail, its figures, and when that is not all
//! of it, or no UTF-8, a file with the whole, named for its hash. It knows nothing of processes.

use std::borrow::Cow;
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::sys::fs::{self, hex};

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

impl Captured {
    /// All of it as text, from memory, or from the file that a long output went to. Nothing where that is over `limit`
    /// bytes, or no file has what memory left out.
    pub fn whole(&self, limit: u64) -> Option<Cow<'_, str>> {
        if self.left_out == 0 {
            return Some(self.head_text());
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
    /// Keeps `keep` bytes of the head and as many of the tail; a file goes into `folder`.
    pub(super) fn new(keep: usize, folder: Option<PathBuf>) -> Self {
        Self {
            keep,
            folder,
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
        let opened = Spool::open(folder).and_then(|mut spool| {
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
        let spooled = self.spool.take().and_then(|spool| match spool.persist() {
            Ok(spooled) => Some(spooled),
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
    file: NamedTempFile,
    hash: Sha256,
}

impl Spool {
    fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let file = tempfile::Builder::new().prefix(".output-").tempfile_in(folder)?;
        Ok(Self { folder: folder.to_owned(), file, hash: Sha256::new() })
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.hash.update(chunk);
        self.file.write_all(chunk)
    }

    fn persist(self) -> io::Result<Spooled> {
        let sha256 = hex(&self.hash.finalize());
        let path = self.folder.join(format!("{sha256}.txt"));
        self.file.as_file().sync_all()?;
        match self.file.persist_noclobber(&path) {
            Ok(_) => {}
            // The same bytes are there already: the temporary file goes with the error.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
        File::open(&self.folder)?.sync_all()?;
        Ok(Spooled { path, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn capture(keep: usize, folder: Option<&Path>, chunks: &[&[u8]]) -> Captured {
        let mut capture = Capture::new(keep, folder.map(Path::to_owned));
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.finish()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_fits_stays_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let captured = capture(4, Some(folder.path()), &[b"ab\ncd", b"efg"]);
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"ab\nc"[..], &b"defg"[..]));
        assert_eq!((captured.bytes, captured.lines, captured.left_out), (8, 2, 0));
        assert_eq!((captured.head_text(), captured.tail_text()), ("ab\ncdefg".into(), "".into()));
        assert!(captured.spooled.is_none() && captured.valid_utf8);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_in_a_file_named_for_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("deep/outputs");
        let captured = capture(2, Some(&outputs), &[b"abc", b"", b"d\nxyz"]);
        assert_eq!(
            (&captured.head[..], &captured.tail[..], captured.left_out),
            (&b"ab"[..], &b"yz"[..], 4)
        );
        let spooled = captured.spooled.unwrap();
        assert_eq!(std::fs::read(&spooled.path).unwrap(), b"abcd\nxyz");
        assert_eq!(
            spooled.sha256,
            "4c3ab5cc77ae26cffb87fddbf2acce7a7e8faf1e321b97628b1fd4097730a335"
        );
        assert_eq!(names(&outputs), [format!("{}.txt", spooled.sha256)]);
        assert_eq!(std::fs::metadata(&spooled.path).unwrap().permissions().mode() & 0o777, 0o600);

        // The same output again: the file stays as it is, and no temporary one is left.
        let before = std::fs::metadata(&spooled.path).unwrap().modified().unwrap();
        let again = capture(2, Some(&outputs), &[b"abcd\nxyz"]);
        assert_eq!(again.spooled, Some(spooled.clone()));
        assert_eq!(names(&outputs).len(), 1);
        assert_eq!(std::fs::metadata(&spooled.path).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn bytes_that_are_no_utf8_are_kept_even_when_few() {
        let folder = tempfile::tempdir().unwrap();
        let captured = capture(100, Some(folder.path()), &[b"a\xff\0b"]);
        assert!(!captured.valid_utf8);
        assert_eq!(captured.head_text(), "a\u{fffd}\0b");
        assert_eq!(std::fs::read(captured.spooled.unwrap().path).unwrap(), b"a\xff\0b");
        let captured = capture(100, Some(folder.path()), &[b"a\0b"]);
        assert!(captured.valid_utf8);
        assert_eq!(std::fs::read(captured.spooled.unwrap().path).unwrap(), b"a\0b");
    }

    #[test]
    fn cuts_do_not_leave_half_characters() {
        let text = "aä".repeat(20);
        let captured = capture(5, None, &[text.as_bytes()]);
        assert_eq!((captured.head_text(), captured.tail_text()), ("aäa".into(), "äaä".into()));
        let captured = capture(4, None, &[text.as_bytes()]);
        assert_eq!((captured.head_text(), captured.tail_text()), ("aäa".into(), "aä".into()));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let captured = capture(1, Some(&file), &[b"abc", b"def"]);
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"a"[..], &b"f"[..]));
        assert!(captured.spooled.is_none());
        let error = captured.spool_error.unwrap();
        assert!(
            error.starts_with("cannot keep the whole output in ") && error.contains("file"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn figures_do_not_depend_on_where_the_stream_is_cut(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..60),
                "[a-zä€😀\n]{0,30}".prop_map(String::into_bytes),
            ],
            keep in 0_usize..20,
            step in 1_usize..9,
        ) {
            let chunks: Vec<&[u8]> = bytes.chunks(step).collect();
            let captured = capture(keep, None, &chunks);
            prop_assert_eq!(&captured, &capture(keep, None, &[&bytes]));
            prop_assert_eq!(captured.valid_utf8, std::str::from_utf8(&bytes).is_ok());
            prop_assert_eq!(&captured.head[..], &bytes[..keep.min(bytes.len())]);
            let tail = bytes.len().saturating_sub(keep).min(keep);
            prop_assert_eq!(&captured.tail[..], &bytes[bytes.len() - tail..]);
            prop_assert_eq!(captured.left_out, (bytes.len() - captured.head.len() - tail) as u64);
            if captured.valid_utf8 {
                let text = captured.head_text() + captured.tail_text();
                prop_assert!(!text.contains(char::REPLACEMENT_CHARACTER));
            }
        }
    }
}
