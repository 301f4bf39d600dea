//! Lists the processes that a command leaves running. Only [`LeftProcesses::describe`] allocates memory here: the
//! supervisor, a fork without an exec, uses the rest too.

use std::ffi::{CStr, CString};
use std::io::Write as _;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;
use rustix::thread::{Timespec, nanosleep};

use super::job::LeftRunning;

/// Calls a function with each process.
type EachProcess<'a> = &'a dyn Fn(&mut dyn FnMut(Pid));

/// Processes that a command has left running: their number, and the beginnings of the first ones' command lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeftProcesses {
    count: u16,
    /// The number of bytes used in `lines`.
    length: u16,
    /// Command lines, each with a line feed at its end.
    lines: [u8; Self::ROOM],
}

impl LeftProcesses {
    const ROOM: usize = 400;
    /// The length of its encoding in bytes.
    pub(super) const SIZE: usize = 4 + Self::ROOM;
    /// Maximum length of a command line that is shown, in bytes.
    const SHOWN: usize = 120;
    const NONE: Self = Self { count: 0, length: 0, lines: [0; Self::ROOM] };

    /// Lists the processes that `each` finds. `own` are the words of the command itself. A process may be about to
    /// start its program: until then it has the command line of the command, or none.
    pub(super) fn list_processes(own: &[CString], each: EachProcess<'_>) -> Self {
        let mut tries = 10;
        loop {
            let (mut left, mut are_started) = (Self::NONE, true);
            each(&mut |process| are_started &= left.count_process(process, own));
            tries -= 1;
            if are_started || tries == 0 {
                return left;
            }
            let pause = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
            let _ = nanosleep(&pause);
        }
    }

    /// Counts a process, unless it has ended. Returns false for one that may be about to start its program.
    fn count_process(&mut self, process: Pid, own: &[CString]) -> bool {
        let mut line = [0; Self::SHOWN];
        let read = read_of(process, "cmdline", &mut line);
        let end = line[..read].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        if end == 0 {
            return has_ended(process);
        }
        self.count = self.count.saturating_add(1);
        // A sandbox puts words before the command, and then execs it.
        let is_own = (0..own.len()).any(|at| is_command_line(&own[at..], &line[..read]));
        self.push(if is_own { b"a subshell of it" } else { &line[..end] });
        !is_own
    }

    fn push(&mut self, line: &[u8]) {
        let start = usize::from(self.length);
        let Some(room) = self.lines.get_mut(start..=start + line.len()) else { return };
        for (to, from) in room.iter_mut().zip(line) {
            // The arguments are separated by NUL.
            *to = if from.is_ascii_control() { b' ' } else { *from };
        }
        room[line.len()] = b'\n';
        self.length += u16::try_from(room.len()).unwrap_or(0);
    }

    /// Converts the list to text.
    pub(super) fn describe(&self) -> LeftRunning {
        let lines = self.lines.get(..usize::from(self.length)).unwrap_or_default();
        let commands = String::from_utf8_lossy(lines).lines().map(str::to_owned).collect();
        LeftRunning { count: self.count.into(), commands }
    }

    /// Encodes it in [`SIZE`](Self::SIZE) bytes.
    pub(super) fn to_bytes(self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.count.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..].copy_from_slice(&self.lines);
    }

    /// Decodes the bytes that [`to_bytes`](Self::to_bytes) wrote.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut lines = [0; Self::ROOM];
        lines.copy_from_slice(&bytes[4..]);
        Self { count: number(0), length: number(2), lines }
    }
}

/// Whether a process was started with these words, as far as its command line is known.
fn is_command_line(words: &[CString], line: &[u8]) -> bool {
    let mut bytes = words.iter().flat_map(CString::as_bytes_with_nul);
    line.iter().all(|byte| bytes.next() == Some(byte))
        && (line.len() == LeftProcesses::SHOWN || bytes.next().is_none())
}

/// Whether a process has ended, and only needs to be reaped.
fn has_ended(process: Pid) -> bool {
    let mut stat = [0; 512];
    let read = read_of(process, "stat", &mut stat);
    // `number (name) state …`, where the name may have parentheses.
    let name_end = stat[..read].iter().rposition(|byte| *byte == b')');
    let state = name_end.and_then(|end| stat.get(end + 2));
    state.is_none_or(|state| matches!(state, b'Z' | b'X'))
}

/// Reads the beginning of a file of a process; 0 bytes if that fails.
fn read_of(process: Pid, name: &str, bytes: &mut [u8]) -> usize {
    let mut path = [0; 32];
    if write!(&mut path[..], "/proc/{}/{name}", process.as_raw_nonzero()).is_err() {
        return 0;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return 0 };
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.and_then(|file| rustix::io::read(&file, bytes)).unwrap_or(0)
}
