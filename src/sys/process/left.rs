//! Names the processes that a command leaves running. Nothing here allocates memory but [`LeftProcesses::describe`]: the
//! supervisor, a fork without an exec, uses it too.

use std::ffi::CStr;
use std::io::Write as _;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;

use super::job::LeftRunning;

/// Processes that a command has left running: their number, and the beginnings of the first ones' command lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sys) struct LeftProcesses {
    count: u16,
    /// How much of `lines` is used.
    length: u16,
    /// Command lines, each with a line feed at its end.
    lines: [u8; Self::ROOM],
}

impl LeftProcesses {
    const ROOM: usize = 400;
    /// The length of its bytes.
    pub(super) const SIZE: usize = 4 + Self::ROOM;
    /// How much of a command line is shown, in bytes.
    const SHOWN: usize = 120;
    /// No process.
    pub(in crate::sys) const NONE: Self = Self { count: 0, length: 0, lines: [0; Self::ROOM] };

    /// Counts a process. One that has ended has no command line.
    pub(in crate::sys) fn add(&mut self, process: Pid) {
        let mut path = [0; 32];
        if write!(&mut path[..], "/proc/{}/cmdline", process.as_raw_nonzero()).is_err() {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(path) = CStr::from_bytes_until_nul(&path) else { return };
        let Ok(file) = openat(CWD, path, flags, Mode::empty()) else { return };
        let mut line = [0; Self::SHOWN];
        let Ok(read @ 1..) = rustix::io::read(&file, &mut line[..]) else { return };
        self.count = self.count.saturating_add(1);
        let end = line[..read].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let line = &line[..end];
        let start = usize::from(self.length);
        let Some(room) = self.lines.get_mut(start..=start + line.len()) else { return };
        for (to, from) in room.iter_mut().zip(line) {
            // There is a NUL between arguments.
            *to = if from.is_ascii_control() { b' ' } else { *from };
        }
        room[line.len()] = b'\n';
        self.length += u16::try_from(room.len()).unwrap_or(0);
    }

    /// As texts.
    pub(in crate::sys) fn describe(&self) -> LeftRunning {
        let lines = self.lines.get(..usize::from(self.length)).unwrap_or_default();
        let commands = String::from_utf8_lossy(lines).lines().map(str::to_owned).collect();
        LeftRunning { count: self.count.into(), commands }
    }

    /// Writes it into [`SIZE`](Self::SIZE) bytes.
    pub(super) fn to_bytes(self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.count.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..].copy_from_slice(&self.lines);
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut lines = [0; Self::ROOM];
        lines.copy_from_slice(&bytes[4..]);
        Self { count: number(0), length: number(2), lines }
    }
}
