//! Cuts a file as it streams, in bounded memory: a scanner finds possible cuts, and the packer chooses among them.
//!
//! The driver passes a [`View`] of the file that begins no later than [`Cutter::keep_from`] and reaches
//! [`Cutter::wanted_end`] if the file is that long; final segments come out. They do not depend on the size of the
//! views, only on the fixed size of the parsers' windows.

use super::character::Unit;
use super::language::Language;
use super::pack::{CutRules, Packer, Sink, level};
use super::view::View;
use super::{grammar, kinds, markdown, text};

/// Maximum size of Markdown that is parsed at once, in bytes.
const MARKDOWN_WINDOW: u64 = 4 << 20;

#[derive(Debug)]
enum Scanner {
    Lines(text::LineScanner),
    Bytes,
    Markdown,
    Grammar(Language, grammar::ParseContext),
}

/// Cuts one file.
#[derive(Debug)]
pub struct Cutter {
    packer: Packer,
    scanner: Scanner,
    rules: CutRules,
    /// The start of the parser's next window.
    at: u64,
    /// Windows that could not be parsed, as start and end.
    unparsed: Vec<(u64, u64)>,
}

impl Cutter {
    /// Begins a file of this type. `unit` differs from [`Unit::Byte`] only for data that is not text, which is cut by
    /// size alone.
    pub fn new(language: Language, unit: Unit, is_text: bool, rules: CutRules) -> Self {
        let lines = |kind| Scanner::Lines(text::LineScanner::new(kind, rules.target, 0));
        let scanner = match language {
            _ if !is_text || unit != Unit::Byte => Scanner::Bytes,
            Language::Text => lines(text::LineStructure::Paragraphs),
            Language::JsonLines | Language::Csv => lines(text::LineStructure::Elements),
            Language::Markdown => Scanner::Markdown,
            language if kinds::grammar(language).is_some() => {
                Scanner::Grammar(language, grammar::ParseContext::default())
            }
            _ => lines(text::LineStructure::Paragraphs),
        };
        let packer = Packer::new(rules, unit);
        Self { packer, scanner, rules, at: 0, unparsed: Vec::new() }
    }

    /// The size of a parser's window; `None` if the file is read line by line.
    fn window(&self) -> Option<u64> {
        let least = match &self.scanner {
            Scanner::Markdown => MARKDOWN_WINDOW,
            Scanner::Grammar(language, _) => grammar::max_piece_size(*language),
            _ => return None,
        };
        // Text that fits into a segment should fit into a window.
        Some(least.max(self.rules.target.saturating_mul(2)))
    }

    /// The offset up to which the next view should reach, if the file does.
    pub fn wanted_end(&self) -> u64 {
        self.window().map_or(0, |window| self.at.saturating_add(window))
    }

    /// The offset of the first byte that is still needed.
    pub fn keep_from(&self) -> u64 {
        self.packer.pending()
    }

    /// Windows that could not be parsed and were cut by lines, as start and end.
    pub fn unparsed_ranges(&self) -> &[(u64, u64)] {
        &self.unparsed
    }

    /// Stops parsing: the rest is cut by lines.
    pub fn give_up(&mut self) {
        if self.window().is_some() {
            let kind = text::LineStructure::Unread;
            self.scanner = Scanner::Lines(text::LineScanner::new(kind, self.rules.target, self.at));
        }
    }

    /// Reads all lines of the view, or one window of a parser. `last`: the file ends with the view. Returns whether all
    /// of the file has been read; until then call it again, with more of the file if `wanted_end` requires it.
    ///
    /// Parsers call `stop`; if it returns true, the current window is cut by lines.
    pub fn read_view(
        &mut self,
        view: View<'_>,
        last: bool,
        stop: &mut dyn FnMut() -> bool,
        out: &mut Vec<(u64, u64)>,
    ) -> bool {
        let is_done = self.scan_view(view, last, stop);
        out.append(&mut self.packer.settled);
        is_done
    }

    fn scan_view(&mut self, view: View<'_>, last: bool, stop: &mut dyn FnMut() -> bool) -> bool {
        let window = self.window();
        let mut sink = Sink { view, packer: &mut self.packer };
        let Some(window) = window else {
            // A character before a forced cut must be complete.
            let end = if last {
                view.end_offset()
            } else {
                view.end_offset().saturating_sub(3).max(self.at)
            };
            match &mut self.scanner {
                Scanner::Lines(scanner) => scanner.scan_to(&mut sink, end),
                _ => sink.advance_to(end),
            }
            self.at = end;
            return last;
        };
        let end = view.end_offset().min(self.at.saturating_add(window));
        let is_last = last && end == view.end_offset();
        let piece = view.range(self.at, end);
        let target = self.rules.target;
        let found = match &mut self.scanner {
            Scanner::Markdown => {
                markdown::boundaries(piece, self.rules, self.at == 0, is_last, stop)
            }
            Scanner::Grammar(language, context) => {
                grammar::boundaries(*language, piece, target, is_last, context, stop)
            }
            _ => None,
        };
        let length = piece.len();
        // A window without progress would be read again and again.
        let found = found.filter(|window| window.end > 0 && window.end <= length || length == 0);
        if let Some(window) = found {
            for boundary in window.boundaries {
                sink.add_boundary(self.at + boundary.at, boundary.level);
            }
            self.at = if is_last { end } else { self.at + window.end as u64 };
        } else {
            let lines = memchr::memrchr(b'\n', piece).map_or(length, |lf| lf + 1);
            let next = if is_last { end } else { self.at + lines as u64 };
            sink.add_boundary(self.at, level::LINE);
            text::LineScanner::new(text::LineStructure::Unread, target, self.at)
                .scan_to(&mut sink, next);
            self.unparsed.push((self.at, next));
            self.at = next;
        }
        sink.advance_to(self.at);
        last && self.at == view.end_offset()
    }

    /// Ends the file at the end of the view, once all of it was read.
    pub fn finish(mut self, view: View<'_>, out: &mut Vec<(u64, u64)>) {
        self.packer.finish(view, view.end_offset());
        out.append(&mut self.packer.settled);
    }
}

/// Cuts a text in memory; returns the segments as offsets.
pub fn cut_text(language: Language, bytes: &[u8], rules: CutRules) -> Vec<(u64, u64)> {
    let mut cutter = Cutter::new(language, Unit::Byte, true, rules);
    let view = View { base: 0, bytes };
    let mut out = Vec::new();
    while !cutter.read_view(view, true, &mut || false, &mut out) {}
    cutter.finish(view, &mut out);
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cuts a text shown whole, and a few bytes at a time.
    pub(crate) fn split(language: Language, bytes: &[u8], target: u64) -> Vec<Vec<u8>> {
        let rules = CutRules { target, natural: false };
        let whole = cut_text(language, bytes, rules);
        for step in [1, 7] {
            let parts = bit_by_bit(language, bytes, rules, step);
            assert_eq!(whole, parts, "whole, and {step} at a time");
        }
        let range = |(a, b): (u64, u64)| {
            bytes[usize::try_from(a).unwrap()..usize::try_from(b).unwrap()].to_vec()
        };
        whole.into_iter().map(range).collect()
    }

    /// As the driver does it, showing no more than it must.
    fn bit_by_bit(
        language: Language,
        bytes: &[u8],
        rules: CutRules,
        step: usize,
    ) -> Vec<(u64, u64)> {
        let mut cutter = Cutter::new(language, Unit::Byte, true, rules);
        let mut out = Vec::new();
        let mut shown = 0;
        loop {
            let wants = usize::try_from(cutter.wanted_end()).unwrap();
            shown = (shown + step).max(wants).min(bytes.len());
            let base = cutter.keep_from();
            let view = View { base, bytes: &bytes[usize::try_from(base).unwrap()..shown] };
            assert!(cutter.window().is_some() || view.bytes.len() as u64 <= 3 * rules.target + 10);
            if cutter.read_view(view, shown == bytes.len(), &mut || false, &mut out) {
                let base = cutter.keep_from();
                let view = View { base, bytes: &bytes[usize::try_from(base).unwrap()..] };
                cutter.finish(view, &mut out);
                return out;
            }
        }
    }

    #[track_caller]
    pub(crate) fn check(language: Language, target: u64, text: &str, expect: &[&str]) {
        let got = split(language, text.as_bytes(), target);
        let got: Vec<_> = got.iter().map(|part| String::from_utf8_lossy(part)).collect();
        assert_eq!(got, expect);
    }

    fn languages() -> impl Strategy<Value = Language> {
        use Language::{Csv, JsonLines, Markdown, Text};
        prop::sample::select(vec![Text, JsonLines, Csv, Markdown])
    }

    /// Bytes of the kind that lines, quotes, marks and broken characters are made of.
    pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let pieces: &[&[u8]] = &[
            b"\n",
            b"\n\n",
            b"\r\n",
            b" ",
            b"a",
            b"word ",
            b"a,b",
            b"\"",
            b"\"\"",
            b"# h\n",
            b"## h\n",
            b"```\n",
            b"- item\n",
            b"| a | b |\n",
            b"|---|---|\n",
            b"===\n",
            b"---\n",
            b"> q\n",
            b"<div>\n",
            b"    code\n",
            "é".as_bytes(),
            "😀".as_bytes(),
            b"\xff",
            b"\xe2\x82",
            b"\0",
            b"{}\n",
            b"[x]: y\n",
        ];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..120)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn segments_are_the_file_and_none_is_over_the_target_or_needlessly_small(
            language in languages(), bytes in bytes(), target in 16u64..200,
        ) {
            let parts = split(language, &bytes, target);
            prop_assert_eq!(parts.concat(), bytes.clone());
            for part in &parts {
                prop_assert!(!part.is_empty() && part.len() as u64 <= target);
            }
            for pair in parts.windows(2) {
                let sizes = [pair[0].len() as u64, pair[1].len() as u64];
                prop_assert!(sizes[0] + sizes[1] > target || sizes.iter().all(|size| *size >= target.div_ceil(4)));
            }
            if std::str::from_utf8(&bytes).is_ok() {
                for part in &parts {
                    prop_assert!(std::str::from_utf8(part).is_ok(), "a character is cut");
                }
            }
        }

        #[test]
        fn data_is_cut_by_size(bytes in prop::collection::vec(any::<u8>(), 0..300), target in 16u64..64) {
            let rules = CutRules { target, natural: false };
            let mut cutter = Cutter::new(Language::Text, Unit::Four, false, rules);
            let view = View { base: 0, bytes: &bytes };
            let mut out = Vec::new();
            cutter.read_view(view, true, &mut || false, &mut out);
            cutter.finish(view, &mut out);
            let mut at = 0;
            for (a, b) in out {
                prop_assert!(a == at && a % 4 == 0 && b - a <= target);
                at = b;
            }
            prop_assert_eq!(at, bytes.len() as u64);
        }
    }

    #[test]
    fn what_no_parser_takes_is_cut_by_lines() {
        let text = "{\n  \"a\": 1\n}\n".repeat(1_000);
        let mut cutter =
            Cutter::new(Language::Json, Unit::Byte, true, CutRules { target: 20, natural: false });
        let view = View { base: 0, bytes: text.as_bytes() };
        let mut out = Vec::new();
        while !cutter.read_view(view, true, &mut || true, &mut out) {}
        assert_eq!(cutter.unparsed_ranges(), [(0, text.len() as u64)]);
        cutter.finish(view, &mut out);
        for (_, end) in out {
            assert_eq!(text.as_bytes()[usize::try_from(end).unwrap() - 1], b'\n');
        }
    }
}
