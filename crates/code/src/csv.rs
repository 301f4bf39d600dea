//! Finds possible cuts of comma-separated values: between records. A quoted field may hold line feeds, as in RFC 4180.
//!
//! ```text
//! record = field *( delimiter field ) LF
//! field  = '"' *( not-quote / '""' ) '"' / *( neither quote, delimiter nor LF )
//! ```
//! A quote opens a field only where a field begins. A record larger than the target is cut by lines.

use super::pack::{Sink, level};
use super::text::add_lines;

/// Finds records in a file as it streams.
#[derive(Debug)]
pub(crate) struct RecordScanner {
    target: u64,
    record: u64,
    at: u64,
    is_quoted: bool,
    /// The offset at which a quoted field has just ended: a quote there reopens it.
    closed: Option<u64>,
    /// The record does not fit: its lines are possible cuts.
    is_long: bool,
}

impl RecordScanner {
    /// Begins at the start of a file.
    pub(crate) fn new(target: u64) -> Self {
        Self { target, record: 0, at: 0, is_quoted: false, closed: None, is_long: false }
    }

    pub(super) fn scan_to(&mut self, sink: &mut Sink<'_>, end: u64) {
        let view = sink.view;
        let base = self.at;
        for found in memchr::memchr2_iter(b'"', b'\n', view.range(base, end)) {
            let at = base + found as u64;
            // The place where a record becomes too long must not depend on how much has been read.
            if at - self.record > self.target {
                self.at = at;
                self.measure(sink);
            }
            if view.byte_at(at) == Some(b'"') {
                if self.is_quoted {
                    self.is_quoted = false;
                    self.closed = Some(at + 1);
                } else {
                    let before = at.checked_sub(1).and_then(|before| view.byte_at(before));
                    self.is_quoted = self.closed == Some(at)
                        || matches!(before, None | Some(b',' | b';' | b'\t' | b'|' | b'\n'))
                        // The field is the first one after a byte order mark.
                        || at == 3 && view.byte_at(0) == Some(0xef);
                }
                continue;
            }
            self.at = at + 1;
            self.measure(sink);
            if !self.is_quoted {
                sink.add_boundary(self.at, level::STRUCTURE);
                self.record = self.at;
                self.is_long = false;
            } else if self.is_long {
                sink.add_boundary(self.at, level::LINE);
            }
        }
        self.at = end;
        self.measure(sink);
    }

    fn measure(&mut self, sink: &mut Sink<'_>) {
        if !self.is_long && self.at - self.record > self.target {
            sink.advance_to(self.record + self.target);
            let from = self.record.max(sink.start());
            add_lines(sink, from, self.at, level::LINE);
            self.is_long = true;
            self.is_quoted = false;
        }
        sink.advance_to(self.at);
    }
}

#[cfg(test)]
mod tests {
    use crate::cutter::tests::check;
    use crate::language::Language::Csv;

    #[test]
    fn records_stay_whole() {
        check(Csv, 16, "a,b\n1,2\n3,4\n5,6\n7,8\n", &["a,b\n1,2\n3,4\n5,6\n", "7,8\n"]);
        check(Csv, 16, "a,\"b\nc\nd\"\nx,\"y\"\"\nz\"\n", &["a,\"b\nc\nd\"\n", "x,\"y\"\"\nz\"\n"]);
        // A quote in the middle of a field is a character.
        check(Csv, 16, "a,5\" pipe\nb,6\" pipe\n", &["a,5\" pipe\n", "b,6\" pipe\n"]);
    }

    #[test]
    fn a_quote_that_nobody_closes_is_no_end_of_cutting() {
        check(
            Csv,
            16,
            "a,\"b\nc,d\ne,f\ng,h\ni,j\nk,l\n",
            &["a,\"b\nc,d\ne,f\n", "g,h\ni,j\nk,l\n"],
        );
    }
}
