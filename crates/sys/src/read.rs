//! Reads one regular file for a model: whole when it is small, else a range of lines.
//!
//! Memory is bounded by the size of the piece, whatever the file is. Nothing here waits: a FIFO, a device or
//! a file of procfs is refused before anything is read from it.

use super::file_error::FileError;
use anyhow::Context;
use conversation::format::harmless::quote_name;
use conversation::limits::{self, READ_SEEK};
use conversation::reason::Reason;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How far lines are counted for the error about a file that is too large, in bytes.
const COUNT_LIMIT: u64 = 256 << 20;
const CHUNK: usize = 64 * 1024;

/// Which lines to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first line, from 1.
    pub offset: u64,
    /// How many lines; `None`: as many as fit.
    pub limit: Option<u64>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRead {
    /// The text as it is in the file, line endings included. Bytes that are not UTF-8 are U+FFFD.
    pub text: String,
    /// Size of the whole file in bytes.
    pub bytes: u64,
    /// Lines in `text`.
    pub lines: u64,
    /// Number of the first line of `text`, from 1.
    pub first_line: u64,
    /// Number of the last line of `text`; `first_line - 1` when there is none.
    pub last_line: u64,
    /// The file goes on behind `text`.
    pub more: bool,
    /// The last line is longer than a piece may be, and `text` ends inside of it.
    pub cut: bool,
    /// Every byte that was read is part of valid UTF-8.
    pub valid_utf8: bool,
}

/// The path without links of a file or folder that is to be read; errors have the path as it was asked for.
pub fn resolve_existing(asked: &Path, path: &Path) -> Result<PathBuf, FileError> {
    fs::canonicalize(path).map_err(|source| explain_failure(asked, path, source))
}

fn explain_failure(asked: &Path, path: &Path, source: io::Error) -> FileError {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            FileError::missing_at(asked, path)
        }
        _ => FileError::from_io("read", asked, source),
    }
}

/// Opens a regular file for reading, without ever waiting for it: no FIFO, no device, no file of procfs and its kin.
pub fn open_regular(path: &Path) -> Result<(File, Metadata), FileError> {
    open_checked(path, ResolveFlags::empty())
}

/// Like [`open_regular`], by a path without links: one that has come into it since it was asked about is not followed.
pub fn open_resolved(path: &Path) -> Result<(File, Metadata), FileError> {
    open_checked(path, ResolveFlags::NO_SYMLINKS)
}

fn open_checked(path: &Path, resolve: ResolveFlags) -> Result<(File, Metadata), FileError> {
    let failed = |source: io::Error| explain_failure(path, path, source);
    // Opening a device can already act on it, so its kind is asked first; and asked again of what was opened.
    check_regular(path, &fs::metadata(path).map_err(failed)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // A kernel or a container without that call.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    let file = File::from(file.map_err(|errno| failed(errno.into()))?);
    let meta = file.metadata().map_err(failed)?;
    check_regular(path, &meta)?;
    match virtual_filesystem(&file) {
        Some(filesystem) => Err(FileError::of_kernel(path, filesystem)),
        None => Ok((file, meta)),
    }
}

fn check_regular(path: &Path, meta: &Metadata) -> Result<(), FileError> {
    FileError::check_regular(path, FileType::from_raw_mode(meta.mode()), || {
        format!("use <nagent-list path=\"{}\"/> to see what is in it", quote_name(path))
    })
}

/// The name of a file system whose files are not data on a disk but questions to the kernel.
pub fn virtual_filesystem(file: impl AsFd) -> Option<&'static str> {
    // Numbers from linux/magic.h. A file system that cannot be asked is taken for a real one.
    match rustix::fs::fstatfs(file).ok()?.f_type {
        0x9fa0 => Some("procfs"),
        0x6265_6572 => Some("sysfs"),
        0x6462_6720 => Some("debugfs"),
        0x7472_6163 => Some("tracefs"),
        _ => None,
    }
}

/// Reads text: all of it when the file has at most `whole_limit` bytes and no range is given, else the range.
///
/// A piece has at most `whole_limit` bytes of the file. Where a range holds more, the piece ends behind the
/// last whole line that fits, and `more` says that there is more; one line that is longer still is cut at a
/// character's boundary, and `cut` says so. `stop` is asked now and then. No link in the path is followed.
pub fn read_text(
    path: &Path,
    range: Option<Range>,
    whole_limit: u64,
    stop: &dyn Fn() -> bool,
) -> Result<TextRead, FileError> {
    match range {
        Some(Range { offset: 0, .. }) => Err("offset is 0, and lines are counted from 1"),
        Some(Range { limit: Some(0), .. }) => Err("limit is 0, and must be at least 1"),
        _ => Ok(()),
    }
    .map_err(|problem| FileError::new(problem, ""))?;
    let (file, meta) = open_resolved(path)?;
    let mut source =
        ChunkReader { path, file, bytes: meta.len(), at: 0, buffer: vec![0; CHUNK], stop };
    let Some(range) = range else {
        if meta.len() > whole_limit {
            return Err(source.too_large(whole_limit));
        }
        // The size was true a moment ago: a file that grows, or a file system that says 0, is noticed here.
        let piece = source.read_lines(Range { offset: 1, limit: None }, whole_limit)?;
        return if piece.more { Err(source.too_large(whole_limit)) } else { Ok(piece) };
    };
    source.read_lines(range, whole_limit)
}

/// A file that is read from front to back, a chunk at a time.
struct ChunkReader<'a> {
    path: &'a Path,
    file: File,
    bytes: u64,
    at: u64,
    buffer: Vec<u8>,
    stop: &'a dyn Fn() -> bool,
}

impl ChunkReader<'_> {
    /// Reads the next chunk and gives its length; 0 at the end. A NUL byte in it is an error.
    fn read_chunk(&mut self) -> Result<usize, FileError> {
        if (self.stop)() {
            return Err(FileError::interrupted_read(self.path));
        }
        let count = loop {
            match self.file.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(FileError::from_io("read", self.path, source)),
                Ok(count) => break count,
            }
        };
        let chunk = &self.buffer[..count];
        if let Some(index) = chunk.iter().position(|byte| *byte == 0) {
            let is_utf16 = chunk.starts_with(b"\xff\xfe") || chunk.starts_with(b"\xfe\xff");
            let (kind, convert) = if self.at == 0 && is_utf16 {
                (" or UTF-16 text", ", or convert it with `iconv -f UTF-16 -t UTF-8`")
            } else {
                ("", "")
            };
            let (path, bytes, at) = (quote_name(self.path), self.bytes, self.at + index as u64);
            let problem =
                format!("{path} is binary{kind}: {bytes} bytes, a NUL byte at offset {at}");
            let advice = format!("look at it with `file` or `xxd` in <nagent-shell>{convert}");
            return Err(FileError::new(problem, advice));
        }
        self.at += count as u64;
        Ok(count)
    }

    fn too_large(mut self, limit: u64) -> FileError {
        let mut lines = 0;
        let mut last = b'\n';
        self.at = 0;
        if let Err(source) = self.file.rewind() {
            return FileError::from_io("read", self.path, source);
        }
        let counted = loop {
            match self.read_chunk() {
                Err(error) => return error,
                Ok(0) => break true,
                Ok(_) if self.at > COUNT_LIMIT => break false,
                Ok(count) => {
                    lines += newlines(&self.buffer[..count]);
                    last = self.buffer[count - 1];
                }
            }
        };
        lines += u64::from(last != b'\n');
        let path = quote_name(self.path);
        let more_than = if counted { "" } else { "more than " };
        let problem = format!(
            "{path} has {} bytes and {more_than}{lines} lines, too large to show in full (maximum {limit} bytes)",
            self.bytes.max(self.at)
        );
        let advice = format!(
            "read a range of lines, as in <nagent-read path=\"{path}\" offset=\"1\" limit=\"200\"/>, or all of it in \
             segments with <nagent-file-read path=\"{path}\"/>"
        );
        FileError::new(problem, advice).because(Reason::TooLarge)
    }

    fn read_lines(&mut self, range: Range, cap: u64) -> Result<TextRead, FileError> {
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        let end = range.limit.map_or(u64::MAX, |limit| range.offset.saturating_add(limit));
        // The line that the next byte belongs to.
        let mut line = 1;
        let mut piece: Vec<u8> = Vec::new();
        let mut last = b'\n';
        let mut more = false;
        while !more {
            let count = self.read_chunk()?;
            if count == 0 {
                break;
            }
            if line < range.offset && self.at > limits::READ_SEEK {
                let (path, offset) = (quote_name(self.path), range.offset);
                let problem =
                    format!("{path}: line {offset} is more than {READ_SEEK} bytes into the file");
                return Err(FileError::new(problem, "use `sed -n` or `tail -c` in <nagent-shell>"));
            }
            last = self.buffer[count - 1];
            for part in self.buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                more = line >= end || piece.len() > cap;
                if more {
                    break;
                }
                if line >= range.offset {
                    piece.extend_from_slice(part);
                }
                line += u64::from(part.ends_with(b"\n"));
            }
            more |= piece.len() > cap;
        }
        if piece.is_empty() && range.offset > 1 {
            let lines = line - 1 + u64::from(last != b'\n');
            let (path, offset) = (quote_name(self.path), range.offset);
            let problem = format!("{path} has {lines} lines, so there is no line {offset}");
            return Err(FileError::new(problem, "offset counts lines from 1"));
        }
        let mut cut = false;
        if piece.len() > cap {
            piece.truncate(cap);
            let lines_end = piece.iter().rposition(|byte| *byte == b'\n').map(|index| index + 1);
            cut = lines_end.is_none();
            piece.truncate(lines_end.unwrap_or_else(|| match std::str::from_utf8(&piece) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => cap,
            }));
        }
        let lines = count_lines(&piece);
        let (text, valid_utf8) = match String::from_utf8(piece) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        let (first_line, last_line) = (range.offset, range.offset.saturating_add(lines) - 1);
        let bytes = self.bytes.max(self.at);
        Ok(TextRead { text, bytes, lines, first_line, last_line, more, cut, valid_utf8 })
    }
}

/// The size of a regular file in bytes, and its bytes from `start` on, `most` at most. A range behind the end is empty.
pub fn read_range(path: &Path, start: u64, most: u64) -> anyhow::Result<(u64, Vec<u8>)> {
    let (mut file, metadata) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))
        .and_then(|_| file.take(most).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", quote_name(path)))?;
    Ok((metadata.len(), bytes))
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Lines of a text; one without a line feed at its end counts too.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    newlines(bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn file(content: &[u8]) -> (TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.txt");
        fs::write(&path, content).unwrap();
        (dir, path)
    }

    fn read(path: &Path, range: Option<(u64, Option<u64>)>) -> Result<TextRead, FileError> {
        let range = range.map(|(offset, limit)| Range { offset, limit });
        read_text(&resolve_existing(path, path)?, range, limits::READ_WHOLE, &|| false)
    }

    #[track_caller]
    fn fails(path: &Path, range: Option<(u64, Option<u64>)>, expect: &str) {
        let error = read(path, range).unwrap_err().for_model();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_small_file_is_read_whole_with_its_line_endings() {
        let (_dir, path) = file(b"\xef\xbb\xbfone\r\ntwo");
        let got = read(&path, None).unwrap();
        assert_eq!(got.text, "\u{feff}one\r\ntwo");
        assert_eq!((got.bytes, got.lines, got.first_line, got.last_line), (11, 2, 1, 2));
        assert!(!got.more && !got.cut && got.valid_utf8);
        let (_dir, path) = file(b"");
        let got = read(&path, None).unwrap();
        assert_eq!((got.text.as_str(), got.lines, got.first_line, got.last_line), ("", 0, 1, 0));
    }

    #[test]
    fn the_limit_is_inclusive_and_what_is_above_it_says_size_lines_and_what_to_do() {
        let (_dir, path) = file(&[b"x".repeat(65_535), b"\n".to_vec()].concat());
        assert_eq!(read(&path, None).unwrap().lines, 1);
        let (_dir, path) = file(&b"line\n".repeat(20_000));
        fails(&path, None, "has 100000 bytes and 20000 lines");
        fails(&path, None, "offset=\"1\" limit=\"200\"");
        fails(&path, None, "<nagent-file-read path=");
    }

    #[test]
    fn a_range_counts_lines_from_one() {
        let (_dir, path) = file(b"1\n2\n3\n4");
        let check = |offset, limit, text: &str, last, more| {
            let got = read(&path, Some((offset, limit))).unwrap();
            assert_eq!(
                (got.text.as_str(), got.first_line, got.last_line, got.more),
                (text, offset, last, more)
            );
        };
        check(1, Some(1), "1\n", 1, true);
        check(2, Some(2), "2\n3\n", 3, true);
        check(3, None, "3\n4", 4, false);
        check(4, Some(u64::MAX), "4", 4, false);
        check(1, Some(4), "1\n2\n3\n4", 4, false);
        fails(&path, Some((5, None)), "has 4 lines, so there is no line 5");
        fails(&path, Some((u64::MAX, Some(u64::MAX))), "has 4 lines");
        fails(&path, Some((0, None)), "offset is 0");
        fails(&path, Some((1, Some(0))), "limit is 0");
        let (_dir, path) = file(b"1\n");
        fails(&path, Some((2, None)), "has 1 lines");
    }

    #[test]
    fn pieces_of_a_large_file_end_at_lines_and_join_to_the_file() {
        let whole: String = "line ä\r\n".repeat(40_000);
        let (_dir, path) = file(whole.as_bytes());
        let mut joined = String::new();
        let mut next = 1;
        loop {
            let got = read(&path, Some((next, None))).unwrap();
            assert!(got.text.len() as u64 <= limits::READ_WHOLE && !got.cut);
            joined.push_str(&got.text);
            next = got.last_line + 1;
            if !got.more {
                break;
            }
        }
        assert!(joined == whole);
    }

    #[test]
    fn one_line_longer_than_a_piece_is_cut_at_a_character() {
        let (_dir, path) = file(format!("head\nx{}\ntail\n", "ä".repeat(100_000)).as_bytes());
        let got = read(&path, Some((2, Some(1)))).unwrap();
        assert_eq!(got.text.len(), 65_535);
        assert!(got.cut && got.more && got.valid_utf8);
        assert_eq!((got.lines, got.last_line), (1, 2));
        assert_eq!(read(&path, Some((3, None))).unwrap().text, "tail\n");
        let got = read(&path, Some((1, None))).unwrap();
        assert_eq!((got.text.as_str(), got.more, got.cut), ("head\n", true, false));
    }

    #[test]
    fn what_is_no_utf8_is_shown_as_such() {
        let (_dir, path) = file(b"caf\xe9\n");
        let got = read(&path, None).unwrap();
        assert_eq!((got.text.as_str(), got.valid_utf8, got.bytes), ("caf\u{fffd}\n", false, 5));
    }

    #[test]
    fn binary_files_are_named_as_such() {
        let (_dir, path) = file(b"\x7fELF\0\0");
        fails(&path, None, "is binary: 6 bytes, a NUL byte at offset 4");
        fails(&path, Some((1, None)), "xxd");
        let (_dir, path) = file(b"\xff\xfeh\0i\0");
        fails(&path, None, "iconv");
    }

    #[test]
    fn a_sparse_terabyte_is_refused_at_once() {
        let (_dir, path) = file(b"start\n");
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        fails(&path, None, "is binary: 1099511627776 bytes");
        fails(&path, Some((1_000_000, Some(5))), "is binary");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(CWD, at("fifo"), Kind::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        symlink(at("fifo"), at("link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fails(&at("fifo"), None, "is a FIFO");
        fails(&at("link"), None, "is a FIFO");
        fails(&at("socket"), None, "is a socket");
        fails(&at("loop"), None, "cannot read");
        // A link that has come into a path since it was resolved.
        fs::write(at("file"), "x").unwrap();
        symlink(dir.path(), at("way")).unwrap();
        assert!(open_regular(&at("way/file")).is_ok() && open_resolved(&at("way/file")).is_err());
        fails(Path::new("/dev/zero"), None, "is a device");
        fails(dir.path(), None, "is a folder\nuse <nagent-list");
        fails(Path::new("a\0b"), None, "NUL byte");
        fails(Path::new(""), None, "no such file");
    }

    #[test]
    fn files_of_the_kernel_are_refused_by_any_name() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/proc/self/environ", dir.path().join("env")).unwrap();
        fails(Path::new("/proc/self/environ"), None, "is in procfs");
        fails(Path::new("/proc/self/root/proc/version"), None, "is in procfs");
        fails(&dir.path().join("env"), None, "is in procfs");
        fails(Path::new("/sys/kernel/uevent_seqnum"), None, "is in sysfs");
    }

    #[test]
    fn a_missing_file_says_what_is_near() {
        let (dir, _path) = file(b"");
        fails(&dir.path().join("fiel.txt"), None, "near: ");
    }

    #[test]
    fn a_stop_ends_it() {
        let (_dir, path) = file(b"text");
        let error = read_text(&path, None, limits::READ_WHOLE, &|| true).unwrap_err();
        assert!(error.to_string().contains("was interrupted"), "{error}");
    }

    #[test]
    fn ranges_of_bytes() {
        let (dir, path) = file(b"0123456789");
        let check = |start, most, expect: &str| {
            assert_eq!(read_range(&path, start, most).unwrap(), (10, expect.as_bytes().to_vec()));
        };
        check(0, 100, "0123456789");
        check(3, 4, "3456");
        check(8, 4, "89");
        check(20, 4, "");
        let error = read_range(dir.path(), 0, 1).unwrap_err().to_string();
        assert!(error.contains("is a folder") && !error.contains("<nagent"), "{error}");
    }
}
