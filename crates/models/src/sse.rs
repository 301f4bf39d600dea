//! Splits bytes that arrive in any pieces, even parts of a character, into lines and server-sent events.
//!
//! The event format is that of the WHATWG HTML standard, section "Server-sent events": lines end with LF or CRLF (CR alone is not used);
//! `:` opens a comment; the `data:` lines of one event are joined by LF; a blank line ends it. Two additions are
//! necessary for real servers: an event at the end of the stream counts without its blank line, and lines that are not
//! fields (a bare JSON error after the events, plain text) are kept as [`EventReader::stray_lines`].

use conversation::limits;

/// A line or an event is longer than the limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong(pub usize);

/// Splits bytes into lines. It holds one line in memory.
#[derive(Debug)]
pub struct LineReader {
    line: Vec<u8>,
    max: usize,
}

impl LineReader {
    /// Creates a reader that allows lines of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { line: Vec::new(), max }
    }

    /// The next whole line, without its end; `None` if `input` is used up.
    pub fn next_line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLong> {
        let end = memchr::memchr(b'\n', input);
        let piece = &input[..end.unwrap_or(input.len())];
        if self.line.len() + piece.len() > self.max {
            return Err(TooLong(self.max));
        }
        self.line.extend_from_slice(piece);
        let Some(end) = end else {
            *input = &[];
            return Ok(None);
        };
        *input = &input[end + 1..];
        Ok(Some(self.finish()))
    }

    /// The rest at the end of the stream: a line without its end, possibly empty.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.line);
        line.pop_if(|byte| *byte == b'\r');
        line
    }
}

/// An event, its lines joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Whether the event's name is `error`. Other names are also in the data.
    pub error: bool,
    /// The data lines, joined by LF.
    pub data: Vec<u8>,
}

/// Splits bytes into events. It holds one event in memory.
#[derive(Debug)]
pub struct EventReader {
    lines: LineReader,
    /// The data of the current event, once it has any.
    data: Option<Vec<u8>>,
    error: bool,
    stray: Vec<u8>,
    max: usize,
}

impl EventReader {
    /// Creates a reader that allows lines and events of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { lines: LineReader::new(max), data: None, error: false, stray: Vec::new(), max }
    }

    /// The next whole event; `None` if `input` is used up.
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<StreamEvent>, TooLong> {
        while let Some(line) = self.lines.next_line(input)? {
            if let Some(event) = self.read_line(&line) {
                return Ok(Some(event));
            }
            if self.data.as_ref().is_some_and(|data| data.len() > self.max) {
                return Err(TooLong(self.max));
            }
        }
        Ok(None)
    }

    /// The event at the end of the stream, without its blank line. Its data may be incomplete.
    pub fn finish(&mut self) -> Option<StreamEvent> {
        let line = self.lines.finish();
        if !line.is_empty() {
            self.read_line(&line);
        }
        let mut event = self.take_event()?;
        event.data.truncate(self.max);
        Some(event)
    }

    /// The lines that are not part of an event, at most 64 KiB of them.
    pub fn stray_lines(&self) -> &[u8] {
        &self.stray
    }

    fn take_event(&mut self) -> Option<StreamEvent> {
        let error = std::mem::take(&mut self.error);
        Some(StreamEvent { error, data: self.data.take()? })
    }

    /// Reads a line; returns the event that it completes.
    fn read_line(&mut self, line: &[u8]) -> Option<StreamEvent> {
        // Bare JSON continues to the end of the stream, whatever its lines look like.
        if matches!(self.stray.first(), Some(b'{' | b'[')) {
            self.keep_stray_line(line);
            return None;
        }
        if line.is_empty() {
            return self.take_event();
        }
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(0) => return None,
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name) {
            b"data" => match &mut self.data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.error = value == b"error",
            b"id" | b"retry" => {}
            _ => self.keep_stray_line(line),
        }
        None
    }

    fn keep_stray_line(&mut self, line: &[u8]) {
        let room = limits::STREAM_STRAY.saturating_sub(self.stray.len() + 1);
        self.stray.extend_from_slice(&line[..line.len().min(room)]);
        if room > 0 {
            self.stray.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(chunks: &[&[u8]]) -> (Vec<String>, String) {
        let mut reader = EventReader::new(limits::STREAM_LINE);
        let mut found = Vec::new();
        let show = |event: StreamEvent| {
            format!(
                "{}{}",
                if event.error { "!" } else { "" },
                String::from_utf8_lossy(&event.data)
            )
        };
        for chunk in chunks {
            let mut input = *chunk;
            while let Some(event) = reader.next_event(&mut input).unwrap() {
                found.push(show(event));
            }
        }
        found.extend(reader.finish().map(show));
        (found, String::from_utf8_lossy(reader.stray_lines()).into_owned())
    }

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(events(&[text.as_bytes()]).0, expect, "{text:?}");
        for at in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(events(&[a, b]).0, expect, "{text:?} cut at {at}");
        }
    }

    #[test]
    fn the_rules_of_the_standard() {
        check("data: a\n\ndata:b\r\n\r\ndata:  c\r\n\r\n", &["a", "b", " c"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check(": note\nid: 1\nretry: 5\nevent: x\ndata: a\n\n\n\n", &["a"]);
        check("event: error\ndata: a\n\ndata: b\n\n", &["!a", "b"]);
        check("event: error\n\ndata: b\n\n", &["b"]);
        check("data: a\r\ndata: b\r\n\r\nevent: error\r\ndata: c\r\n\r\n", &["a\nb", "!c"]);
        check("\u{feff}data: ä\n\n", &["ä"]);
        check("data\n\n", &[""]);
        check("", &[]);
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        check("data: a\n\ndata: b", &["a", "b"]);
        check("data: a\n\ndata: b\n", &["a", "b"]);
    }

    #[test]
    fn bare_json_is_kept_aside() {
        let text = b"data: a\n\n{\"error\":\n  {\"message\":\"m\"}\n\n}\n";
        assert_eq!(
            events(&[text]),
            (vec!["a".to_owned()], "{\"error\":\n  {\"message\":\"m\"}\n\n}\n".to_owned())
        );
        let long = "x".repeat(limits::STREAM_STRAY * 2);
        assert_eq!(events(&[long.as_bytes()]).1.len(), limits::STREAM_STRAY);
    }

    #[test]
    fn lengths_are_bounded() {
        let mut reader = EventReader::new(10);
        let mut input: &[u8] = b"data: 12345678";
        assert_eq!(reader.next_event(&mut input), Err(TooLong(10)));
        let mut reader = EventReader::new(10);
        let mut input: &[u8] = b"data:12345\ndata:12345\n\n";
        assert_eq!(reader.next_event(&mut input), Err(TooLong(10)));
        let mut reader = EventReader::new(10);
        let mut input: &[u8] = b"data:12345\ndata:12345";
        assert_eq!(reader.next_event(&mut input), Ok(None));
        assert_eq!(reader.finish().map(|event| event.data), Some(b"12345\n1234".to_vec()));
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(text in "(data: ?[a-zä:]{0,6}|event: error|: c|\\{|\r|\n|\r\n|\n\n){0,24}", cuts in prop::collection::vec(0usize..200, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(events(&chunks), events(&[bytes]));
        }
    }
}
