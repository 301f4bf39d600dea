//! LineReader and server-sent events: however the stream is cut, the same events come out, and memory is bounded.

use super::input::{Input, pieces};
use models::sse::{EventReader, LineReader};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let seed = input.byte();
    let max = if input.byte().is_multiple_of(4) { 64 } else { 1 << 20 };
    let whole = events(std::iter::once(input.rest), max);
    let cut = events(pieces(input.rest, seed), max);
    assert_eq!(whole, cut);
    let single = events(input.rest.chunks(1), max);
    assert_eq!(whole, single);
    assert_eq!(lines(std::iter::once(input.rest), max), lines(pieces(input.rest, seed), max));
}

/// The events, what was no event, and whether a line was too long.
type Seen = (Vec<(bool, Vec<u8>)>, Vec<u8>, bool);

fn events<'a>(chunks: impl Iterator<Item = &'a [u8]>, max: usize) -> Seen {
    let mut reader = EventReader::new(max);
    let mut found = Vec::new();
    for mut chunk in chunks {
        loop {
            match reader.next_event(&mut chunk) {
                Ok(Some(event)) => found.push((event.error, event.data)),
                Ok(None) => break,
                Err(_) => return (found, reader.stray_lines().to_vec(), true),
            }
        }
    }
    if let Some(event) = reader.finish() {
        found.push((event.error, event.data));
    }
    for (_, data) in &found {
        assert!(data.len() <= max + 1);
    }
    (found, reader.stray_lines().to_vec(), false)
}

fn lines<'a>(chunks: impl Iterator<Item = &'a [u8]>, max: usize) -> (Vec<Vec<u8>>, bool) {
    let mut reader = LineReader::new(max);
    let mut found = Vec::new();
    for mut chunk in chunks {
        loop {
            match reader.next_line(&mut chunk) {
                Ok(Some(line)) => found.push(line),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    found.push(reader.finish());
    (found, false)
}
