//! A file read from front to back, of which no more is held than is still needed.

use std::fs::File;
use std::io::{self, Read};

use crate::code::view::View;

/// How much is read at once, in bytes.
const CHUNK: usize = 256 * 1024;

/// The part of a file that is in memory.
pub(super) struct Tape {
    file: File,
    bytes: Vec<u8>,
    /// Where what is needed begins in `bytes`.
    head: usize,
    /// The same in the file.
    base: u64,
    at_end: bool,
}

impl Tape {
    pub(super) fn new(file: File) -> Self {
        Self { file, bytes: Vec::new(), head: 0, base: 0, at_end: false }
    }

    /// What is in memory.
    pub(super) fn view(&self) -> View<'_> {
        View { base: self.base, bytes: &self.bytes[self.head..] }
    }

    /// Whether the file ends with the view.
    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Reads the next chunk, and gives it; an empty one at the end.
    pub(super) fn read(&mut self) -> io::Result<&[u8]> {
        // Moving what is left costs a few times the bytes that are gone, never the square of anything.
        if self.head > 0 && self.head >= (self.bytes.len() - self.head) / 4 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        let filled = self.bytes.len();
        // Not doubled: that would be twice the memory.
        if self.bytes.capacity() < filled + CHUNK {
            self.bytes.reserve_exact(CHUNK.max(filled / 8));
        }
        self.bytes.resize(filled + CHUNK, 0);
        let count = loop {
            match self.file.read(&mut self.bytes[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.bytes.truncate(filled + count.as_ref().copied().unwrap_or(0));
        self.at_end = count? == 0;
        Ok(&self.bytes[filled..])
    }

    /// What stands before an offset is not needed any more.
    pub(super) fn forget(&mut self, before: u64) {
        let gone = usize::try_from(before.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let gone = gone.min(self.bytes.len() - self.head);
        self.head += gone;
        self.base += gone as u64;
    }

    /// The file, whose place is where the view ends.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn what_is_forgotten_makes_room_and_offsets_stay() {
        let mut file = tempfile::tempfile().unwrap();
        let all: Vec<u8> = (0..CHUNK * 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
        file.write_all(&all).unwrap();
        file.rewind().unwrap();
        let mut tape = Tape::new(file);
        while !tape.at_end() {
            tape.read().unwrap();
            let view = tape.view();
            let (from, to) =
                (usize::try_from(view.base).unwrap(), usize::try_from(view.end_offset()).unwrap());
            assert_eq!(view.bytes, &all[from..to]);
            tape.forget(view.end_offset().saturating_sub(100_000));
            assert!(tape.bytes.capacity() <= 4 * CHUNK);
        }
        assert_eq!(tape.view().end_offset(), all.len() as u64);
    }
}
