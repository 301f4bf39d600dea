//! The patch of the edited segments: their parts of the source, in whole lines, against what they became.
//!
//! Nothing of the source is read here but those parts and the lines around them.

use std::fs::File;

use super::Failure;
use super::examine::{Found, range, read_at};
use crate::diff::file_diff::add_part;
use crate::diff::lines::count_line_feeds;
use crate::diff::unified::{CONTEXT, UnifiedDiff};
use crate::format::index::Segment;

/// Bytes that are read at a time in search of a line's ends.
const STEP: usize = 4 << 10;

/// The diff of an unchanged source against its edited segments. `text` gives what a segment stands for.
pub(super) fn of_segments(
    name: &[u8],
    source: &File,
    segments: &[Segment],
    found: &Found,
    text: &mut dyn FnMut(usize) -> Result<Vec<u8>, Failure>,
) -> Result<Option<Vec<u8>>, Failure> {
    let size = segments.last().map_or(0, |last| last.end_byte);
    let lines = Lines { source, size };
    let failed = |error: &std::io::Error| Failure::io("read the source", error);
    let mut diff = UnifiedDiff::new(name);
    let mut edited = (0..segments.len()).filter(|at| found.pieces[*at].edited).peekable();
    let (mut line, mut counted) = (0u64, 0);
    while let Some(at) = edited.next() {
        line += found.pieces[counted..at].iter().map(|piece| piece.old_line_feeds).sum::<u64>();
        counted = at;
        // From the start of the line that the segment begins in, to the end of one.
        let (first, mut end) = (segments[at].start_byte, segments[at].end_byte);
        let start = lines.start(first).map_err(|error| failed(&error))?;
        let mut new = range(source, start, first).map_err(|error| failed(&error))?;
        let mut edit = text(at)?;
        if new.is_empty() {
            new = edit;
        } else {
            new.append(&mut edit);
        }
        loop {
            let is_whole = new.last().is_none_or(|last| *last == b'\n')
                && (end == start || lines.start(end).map_err(|error| failed(&error))? == end);
            if is_whole {
                break;
            }
            let next = lines.end(end).map_err(|error| failed(&error))?;
            // Another edited segment begins within this line: the two are one.
            let joined = edited.next_if(|at| segments[*at].start_byte <= next);
            let to = joined.map_or(next, |at| segments[at].start_byte);
            new.append(&mut range(source, end, to).map_err(|error| failed(&error))?);
            let Some(joined) = joined else {
                end = next;
                break;
            };
            new.append(&mut text(joined)?);
            end = segments[joined].end_byte;
        }
        let around = lines.around(start, end).map_err(|error| failed(&error))?;
        let old = range(source, around.0, around.1).map_err(|error| failed(&error))?;
        let inner = usize::try_from(start - around.0).unwrap_or_default()
            ..usize::try_from(end - around.0).unwrap_or_default();
        let Some(before) = old.get(..inner.start) else { return Err(changed()) };
        let first_line = line.saturating_sub(count_line_feeds(before));
        if old.len() < inner.end {
            return Err(changed());
        }
        add_part(&mut diff, &old, inner, &new, first_line);
    }
    Ok(diff.finish())
}

fn changed() -> Failure {
    Failure::Refused("the source was changed while it was read; run the same again".to_owned())
}

/// Where lines of a file begin and end.
struct Lines<'a> {
    source: &'a File,
    size: u64,
}

impl Lines<'_> {
    /// The start of the line that ends at a place or goes over it: the place behind the last line feed before.
    fn start(&self, mut at: u64) -> std::io::Result<u64> {
        let mut buffer = [0; STEP];
        while at > 0 {
            let from = at.saturating_sub(STEP as u64);
            let length = usize::try_from(at - from).unwrap_or(STEP);
            let count = read_at(self.source, &mut buffer[..length], from)?;
            if let Some(feed) = buffer[..count].iter().rposition(|byte| *byte == b'\n') {
                return Ok(from + feed as u64 + 1);
            }
            at = from;
        }
        Ok(0)
    }

    /// The end of the line that a byte is on: the place behind the next line feed.
    fn end(&self, mut at: u64) -> std::io::Result<u64> {
        let mut buffer = [0; STEP];
        while at < self.size {
            let count = read_at(self.source, &mut buffer, at)?;
            if count == 0 {
                break;
            }
            if let Some(feed) = buffer[..count].iter().position(|byte| *byte == b'\n') {
                return Ok(at + feed as u64 + 1);
            }
            at += count as u64;
        }
        Ok(self.size)
    }

    /// A range of whole lines and the lines of context around it.
    fn around(&self, mut start: u64, mut end: u64) -> std::io::Result<(u64, u64)> {
        for _ in 0..CONTEXT {
            start = self.start(start.saturating_sub(1))?;
            end = self.end(end)?;
        }
        Ok((start, end))
    }
}
