//! Finds possible cuts of text that is read line by line: paragraphs of plain text, JSON lines, and files that were not
//! parsed.
//!
//! Lines end at LF. Blank lines belong to the paragraph before them. Only a paragraph that does not fit is cut, between
//! lines.

use super::pack::{Sink, level};

/// The role of lines in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStructure {
    /// Paragraphs, with blank lines between them.
    Paragraphs,
    /// Each line is an element.
    Elements,
    /// Lines of a structure that could not be parsed: cuts between paragraphs are preferred, and none is natural.
    Unread,
}

/// Finds lines and paragraphs in a file as it streams.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct LineScanner {
    kind: LineStructure,
    target: u64,
    /// The start of the line that is being read.
    line: u64,
    /// The offset up to which the line was read.
    at: u64,
    /// Whether only blanks of the line were read so far.
    is_blank: bool,
    /// The start of the paragraph.
    paragraph: u64,
    /// Whether the paragraph does not fit: then its lines are possible cuts.
    is_long: bool,
    /// Whether the paragraph has a line that is not blank.
    has_text: bool,
    /// Whether the paragraph has such a line and the line before this one is blank.
    is_parted: bool,
}

impl LineScanner {
    /// Begins at the start of a line.
    pub(crate) fn new(kind: LineStructure, target: u64, at: u64) -> Self {
        Self {
            kind,
            target,
            line: at,
            at,
            is_blank: true,
            paragraph: at,
            is_long: false,
            has_text: false,
            is_parted: false,
        }
    }

    pub(super) fn scan_to(&mut self, sink: &mut Sink<'_>, end: u64) {
        let view = sink.view;
        let bytes = view.range(self.at, end);
        let base = self.at;
        let mut from = 0;
        for lf in memchr::memchr_iter(b'\n', bytes) {
            self.scan_part(sink, &bytes[from..lf]);
            from = lf + 1;
            self.at = base + from as u64;
            self.end_line(sink);
        }
        if from < bytes.len() {
            self.scan_part(sink, &bytes[from..]);
            self.at = end;
            // A line that is still blank may belong to this paragraph or begin the next.
            if !self.is_blank || end - self.line > self.target {
                self.measure(sink);
            }
        }
    }

    fn scan_part(&mut self, sink: &mut Sink<'_>, part: &[u8]) {
        if self.is_blank && !part.iter().all(u8::is_ascii_whitespace) {
            self.is_blank = false;
            self.begin_line(sink);
        }
    }

    /// Records that the line is not blank.
    fn begin_line(&mut self, sink: &mut Sink<'_>) {
        match self.kind {
            LineStructure::Elements => sink.add_boundary(self.line, level::STRUCTURE),
            LineStructure::Paragraphs | LineStructure::Unread if self.is_parted => {
                let part =
                    if self.kind == LineStructure::Unread { level::PART } else { level::STRUCTURE };
                sink.add_boundary(self.line, part);
                self.paragraph = self.line;
                self.is_long = false;
            }
            LineStructure::Paragraphs | LineStructure::Unread => {}
        }
        self.is_parted = false;
        self.has_text = true;
    }

    fn end_line(&mut self, sink: &mut Sink<'_>) {
        self.measure(sink);
        // Blank lines at the very start belong to the text after them: there is nothing before them.
        self.is_parted |= self.is_blank && self.has_text;
        self.line = self.at;
        self.is_blank = true;
        if self.is_long {
            sink.add_boundary(self.line, level::LINE);
        }
    }

    /// Adds the lines of a paragraph that has become too large.
    fn measure(&mut self, sink: &mut Sink<'_>) {
        if !self.is_long && self.at - self.paragraph > self.target {
            self.is_long = true;
            // The first cut must not depend on how much was read at once.
            sink.advance_to(self.paragraph + self.target);
            // Text that was cut off may no longer be in the view.
            let from = self.paragraph.max(sink.start()).max(sink.view.base);
            for lf in memchr::memchr_iter(b'\n', sink.view.range(from, self.line)) {
                sink.add_boundary(from + lf as u64 + 1, level::LINE);
            }
        }
        sink.advance_to(self.at);
    }
}

#[cfg(test)]
mod tests {
    use crate::cutter::tests::check;
    use crate::language::Language::{JsonLines, Text};

    #[test]
    fn paragraphs_stay_whole_and_blank_lines_stand_behind_them() {
        check(Text, 16, "one\ntwo\n\nthree\nfour\n", &["one\ntwo\n\n", "three\nfour\n"]);
        check(Text, 16, "one two\r\n \t\r\n\r\nthree\n", &["one two\r\n \t\r\n\r\n", "three\n"]);
        // A blank line at the very start does not end a paragraph.
        check(Text, 16, "\n\n\n\n\n\none two three", &["\n\n\n\n\n\n", "one two three"]);
        check(Text, 16, "a\n\nb\n\nc\n\nd\n\ne\n\nf\n\n", &["a\n\nb\n\nc\n\nd\n\ne\n\n", "f\n\n"]);
    }

    #[test]
    fn a_paragraph_that_does_not_fit_is_cut_at_its_lines() {
        check(
            Text,
            16,
            "one two\nthree\nfour five\nsix\n",
            &["one two\nthree\n", "four five\nsix\n"],
        );
        check(
            Text,
            16,
            "a line of more than sixteen\nb\n",
            &["a line of more t", "han sixteen\nb\n"],
        );
    }

    #[test]
    fn json_lines_are_cut_between_lines() {
        check(
            JsonLines,
            16,
            "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n",
            &["{\"a\":1}\n{\"b\":2}\n", "{\"c\":3}\n"],
        );
    }
}
