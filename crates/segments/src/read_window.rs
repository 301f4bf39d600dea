//! Reads a file from front to back and keeps only the part that is still needed.

use std::fs::File;
use std::io::{self, Read};

use code::view::View;

const CHUNK: usize = 256 * 1024;

pub(super) struct ReadWindow {
    /// The file, positioned at the end of the view.
    pub(super) file: File,
    bytes: Vec<u8>,
    /// The start of the needed part in `bytes`.
    head: usize,
    /// Its start in the file.
    base: u64,
    /// Whether the whole file has been read.
    pub(super) at_end: bool,
}

impl ReadWindow {
    pub(super) fn new(file: File) -> Self {
        Self { file, bytes: Vec::new(), head: 0, base: 0, at_end: false }
    }

    pub(super) fn current_view(&self) -> View<'_> {
        View { base: self.base, bytes: &self.bytes[self.head..] }
    }

    /// Reads and returns the next chunk; an empty one at the end.
    pub(super) fn read_chunk(&mut self) -> io::Result<&[u8]> {
        // Moving the rest only when a quarter is free keeps the cost linear.
        if self.head > 0 && self.head >= (self.bytes.len() - self.head) / 4 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        let filled = self.bytes.len();
        // Doubling would take twice the memory.
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

    /// Drops the bytes before an offset of the file.
    pub(super) fn forget(&mut self, before: u64) {
        let dropped = usize::try_from(before.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let dropped = dropped.min(self.bytes.len() - self.head);
        self.head += dropped;
        self.base += dropped as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn forgetting_frees_memory_and_keeps_offsets() {
        let mut file = tempfile::tempfile().unwrap();
        let all: Vec<u8> = (0..CHUNK * 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
        file.write_all(&all).unwrap();
        file.rewind().unwrap();
        let mut window = ReadWindow::new(file);
        while !window.at_end {
            window.read_chunk().unwrap();
            let view = window.current_view();
            let (from, to) =
                (usize::try_from(view.base).unwrap(), usize::try_from(view.end_offset()).unwrap());
            assert_eq!(view.bytes, &all[from..to]);
            window.forget(view.end_offset().saturating_sub(100_000));
            assert!(window.bytes.capacity() <= 4 * CHUNK);
        }
        assert_eq!(window.current_view().end_offset(), all.len() as u64);
    }
}
