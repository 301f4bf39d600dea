//! A text as lines that keep their ends, and the definition of blanks.

use conversation::format::edit::EditBlock;
use std::cell::OnceCell;
use std::ops::{Deref, Range};

/// A line: its text, and the line end that follows it (`"\n"`, `"\r\n"`, or nothing at the end of the text).
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub text: &'a str,
    pub end: &'a str,
    /// The start of the line, in bytes.
    pub at: usize,
}

/// The lines of a file, with their keys, which are computed when needed.
pub(super) struct File<'a> {
    lines: Vec<Line<'a>>,
    keys: OnceCell<Vec<u64>>,
}

impl<'a> File<'a> {
    pub(super) fn new(lines: Vec<Line<'a>>) -> Self {
        Self { lines, keys: OnceCell::new() }
    }

    pub(super) fn line_keys(&self) -> &[u64] {
        self.keys.get_or_init(|| self.lines.iter().map(|line| line_key(line.text)).collect())
    }
}

impl<'a> Deref for File<'a> {
    type Target = [Line<'a>];

    fn deref(&self) -> &[Line<'a>] {
        &self.lines
    }
}

/// Splits a text at line feeds; a carriage return before one belongs to the line end.
pub(super) fn split(text: &str) -> Vec<Line<'_>> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let start = at;
            at += line.len();
            let body = line
                .strip_suffix('\n')
                .map_or(line, |body| body.strip_suffix('\r').unwrap_or(body));
            Line { text: body, end: &line[body.len()..], at: start }
        })
        .collect()
}

/// Converts a range of lines to a range of bytes.
pub(super) fn bytes(lines: &[Line], range: &Range<usize>) -> (usize, usize) {
    let end = lines.last().map_or(0, |line| line.at + line.text.len() + line.end.len());
    let at = |index: usize| lines.get(index).map_or(end, |line| line.at);
    (at(range.start), at(range.end))
}

/// Splits a text into its byte order mark and the rest.
pub(super) fn split_mark(text: &str) -> (&str, &str) {
    text.strip_prefix('\u{feff}')
        .map_or(("", text), |rest| (&text[..text.len() - rest.len()], rest))
}

pub(super) fn trim_end(text: &str) -> &str {
    let is_text = |byte: u8| !matches!(byte, b' ' | b'\t' | b'\r' | 0xb | 0xc);
    &text[..text.bytes().rposition(is_text).map_or(0, |last| last + 1)]
}

/// The blanks at the start of a line.
pub(super) fn indent(text: &str) -> &str {
    &text[..text.len() - text.trim_start_matches([' ', '\t']).len()]
}

pub(super) fn without_blanks(text: &str) -> &str {
    trim_end(text).trim_start_matches([' ', '\t'])
}

pub(super) fn is_blank(text: &str) -> bool {
    trim_end(text).is_empty()
}

/// The plain form of a typographic character; any other is unchanged.
pub(super) fn plain_char(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' | '\u{2bc}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => '"',
        '\u{2010}' | '\u{2011}' | '\u{2012}' | '\u{2013}' | '\u{2014}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{202f}' | '\u{2009}' => ' ',
        c => c,
    }
}

/// A hash that ignores outer blanks and the shape of quotes; 0 for a blank line. Lines that any reading equates have
/// the same hash.
pub(super) fn line_key(text: &str) -> u64 {
    // All control characters count as blanks, which includes what readings ignore.
    fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
        while let [0..=b' ', rest @ ..] | [rest @ .., 0..=b' '] = bytes {
            bytes = rest;
        }
        bytes
    }
    let bytes = trim_blanks(text.as_bytes());
    if bytes.is_empty() && is_blank(text) {
        0
    } else if bytes.is_ascii() {
        quick_hash(bytes)
    } else {
        quick_hash(trim_blanks(text.chars().map(plain_char).collect::<String>().as_bytes()))
    }
}

/// A fast hash, never 0. Collisions do no harm: the lines are compared as well.
fn quick_hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(bytes.len() as u64, |hash, word| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x517c_c1b7_2722_0a95)
    }) | 1
}

/// The block with plain blanks instead of no-break ones, if its search has no-break blanks at the start or end of a
/// line.
pub(super) fn typed_blanks(block: &EditBlock) -> Option<EditBlock> {
    let outer = |line: &str| {
        let is_blank = |c: char| plain_char(c) == ' ' || c == '\t' || c == '\r';
        let start = line.len() - line.trim_start_matches(is_blank).len();
        let end = line.trim_end_matches(is_blank).len().max(start);
        (start, end)
    };
    let is_odd = |line: &str| {
        let (start, end) = outer(line);
        !line[..start].is_ascii() || !line[end..].is_ascii()
    };
    if block.search.is_ascii() || !block.search.split('\n').any(is_odd) {
        return None;
    }
    let plain_blank = |c: char| if plain_char(c) == ' ' { ' ' } else { c };
    let typed = |text: &str| text.chars().map(plain_blank).collect::<String>();
    let (search, replace) = (typed(&block.search), typed(&block.replace));
    Some(EditBlock { search, replace, line: block.line })
}
