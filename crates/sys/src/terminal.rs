//! Determines what stdin, stdout and stderr are connected to. Nothing is read, written or set here.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FileType;
use rustix::termios::Winsize;

/// Whether stdin is a terminal.
pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Whether stdout is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether stderr is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The columns of the terminal on stderr, else of that on stdout; 80 if there is none, or if it is unknown.
pub fn width() -> usize {
    window().0
}

/// The columns and rows of that terminal; no rows if they are unknown.
pub fn window() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stdout()));
    (columns(size), size.map_or(0, |size| size.ws_row.into()))
}

/// The columns of a terminal of this size; 80 if it is unknown.
pub(super) fn columns(size: rustix::io::Result<Winsize>) -> usize {
    size.map_or(80, |size| if size.ws_col > 0 { size.ws_col.into() } else { 80 })
}

/// The rows of the terminal on stderr; 24 if that is unknown.
pub fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(24, |size| if size.ws_row > 0 { size.ws_row.into() } else { 24 })
}

/// Whether this process is in the foreground of the terminal on stderr, as far as that can be known.
pub fn is_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stderr())
        .map_or(true, |group| group == rustix::process::getpgrp())
}

/// Whether the terminal can write over its current line: `TERM` names one, and not `dumb`.
pub fn can_overwrite() -> bool {
    env_value("TERM").is_some_and(|term| term != "dumb")
}

/// Whether the terminal shows colours: it can write over a line, and `NO_COLOR` is not set, or empty (no-color.org).
pub fn has_colours() -> bool {
    can_overwrite() && env_value("NO_COLOR").is_none()
}

fn env_value(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether stdin has input that could be read now, without waiting and without reading it.
///
/// True for a pipe or socket with bytes in it and for a file with bytes ahead; a terminal, `/dev/null`,
/// an empty pipe and an end of file do not count.
pub fn stdin_has_input() -> bool {
    has_input(io::stdin().as_fd())
}

/// Whether stdin is a pipe or a socket, whose data may come later.
pub(crate) fn stdin_is_stream() -> bool {
    let kind = rustix::fs::fstat(io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

fn has_input(fd: BorrowedFd<'_>) -> bool {
    let Ok(stat) = rustix::fs::fstat(fd) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let at = rustix::fs::tell(fd).unwrap_or(u64::MAX);
            u64::try_from(stat.st_size).is_ok_and(|size| at < size)
        }
        FileType::Fifo | FileType::Socket => {
            rustix::io::ioctl_fionread(fd).is_ok_and(|bytes| bytes > 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn check(fd: impl AsFd, expect: bool) {
        assert_eq!(has_input(fd.as_fd()), expect);
    }

    #[test]
    fn only_bytes_that_stand_ready_are_input() {
        check(File::open("/dev/null").unwrap(), false);
        check(File::open("/dev/zero").unwrap(), false);

        let (readable, writable) = rustix::pipe::pipe().unwrap();
        check(&readable, false);
        rustix::io::write(&writable, b"x").unwrap();
        check(&readable, true);
        drop(writable);
        check(&readable, true);
        rustix::io::read(&readable, &mut [0; 8]).unwrap();
        check(&readable, false);

        let (mut near, far) = UnixStream::pair().unwrap();
        check(&far, false);
        near.write_all(b"x").unwrap();
        check(&far, true);

        let mut file = tempfile::tempfile().unwrap();
        check(&file, false);
        file.write_all(b"x").unwrap();
        check(&file, false);
        file.seek(SeekFrom::Start(0)).unwrap();
        check(&file, true);
    }
}
