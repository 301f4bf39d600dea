//! The patch of an unchanged source: compares the edited segments with their part of it, in whole lines.
//! Only those parts and a few lines around them are read, so a small edit of a large file needs little memory.

use std::fs::File;
use std::io;

use super::edits::{Edits, read_part};
use conversation::format::index::Segment;
use edits::diff::file_diff::add_part;
use edits::diff::lines::count_line_feeds;
use edits::diff::unified::{CONTEXT, UnifiedDiff};

const STEP: u64 = 4 << 10;

pub(super) fn diff_segments(
    name: &[u8],
    source: &File,
    segments: &[Segment],
    edits: &Edits,
) -> io::Result<Option<Vec<u8>>> {
    let size = segments.last().map_or(0, |last| last.end_byte);
    let mut diff = UnifiedDiff::new(name);
    let edited = edits.segments.iter().zip(segments);
    let mut edited =
        edited.filter_map(|(state, segment)| Some((state.edited.as_ref()?, segment))).peekable();
    while let Some((text, segment)) = edited.next() {
        let mut new = text.clone();
        let mut end = find_line_end(source, segment.end_byte, size)?;
        let mut done = segment.end_byte;
        // Edited segments that share a line go together.
        while let Some((text, next)) = edited.next_if(|(_, next)| next.start_byte <= end) {
            new.append(&mut read_part(source, done, next.start_byte)?);
            new.extend_from_slice(text);
            done = next.end_byte;
            end = find_line_end(source, done, size)?;
        }
        new.append(&mut read_part(source, done, end)?);
        let (window_start, window) = read_around(source, segment.start_byte, end, size)?;
        let offset = |place: u64| usize::try_from(place - window_start).unwrap_or(usize::MAX);
        let start = offset(segment.start_byte).min(window.len());
        let line_start = memchr::memrchr(b'\n', &window[..start]).map_or(0, |feed| feed + 1);
        let mut whole_lines = window[line_start..start].to_vec();
        whole_lines.append(&mut new);
        let line = segment.start_line_num.saturating_sub(1);
        let first_line = line.saturating_sub(count_line_feeds(&window[..start]));
        let part = line_start..offset(end).min(window.len());
        add_part(&mut diff, &window, part, &whole_lines, first_line);
    }
    Ok(diff.finish())
}

fn find_line_end(source: &File, mut at: u64, size: u64) -> io::Result<u64> {
    while at < size {
        let part = read_part(source, at, at + STEP)?;
        if let Some(feed) = memchr::memchr(b'\n', &part) {
            return Ok(at + feed as u64 + 1);
        }
        at += part.len().max(1) as u64;
    }
    Ok(size)
}

/// Reads a range with the lines of context around it. Returns where the text begins: at the start of a line.
fn read_around(source: &File, start: u64, end: u64, size: u64) -> io::Result<(u64, Vec<u8>)> {
    // The line that `start` is in counts too.
    let wanted = CONTEXT + 1;
    let mut margin = STEP;
    let (before, from) = loop {
        let from = start.saturating_sub(margin);
        let before = read_part(source, from, start)?;
        let feed = memchr::memrchr_iter(b'\n', &before).nth(wanted - 1);
        if let Some(skip) = feed.map(|feed| feed + 1).or((from == 0).then_some(0)) {
            break (before[skip..].to_vec(), from + skip as u64);
        }
        margin *= 4;
    };
    let mut to = end;
    for _ in 0..CONTEXT {
        to = find_line_end(source, to, size)?;
    }
    let mut window = before;
    window.append(&mut read_part(source, start, to)?);
    Ok((from, window))
}
