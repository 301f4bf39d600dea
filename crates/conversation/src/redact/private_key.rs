//! Finds private keys in PEM and PuTTY formats, even with line numbers, on one line, or without their beginning or end.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// Maximum length of a block, in bytes: a key of 16,384 bits has 13 KB.
pub(super) const LONGEST: usize = 64 << 10;

static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: [0-9]+")
        .expect("a constant pattern")
});
static END: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC:")
        .expect("a constant pattern")
});
/// A run of base64 that can be a line of a body; the last line of one may be shorter.
pub(super) static RUN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)[A-Za-z0-9+/=]{32,}").expect("a constant pattern"));

pub(super) fn spans(text: &[u8]) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    // Most texts hold none of these words.
    let holds = |word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
    if !holds("PRIVATE KEY") && !holds("Private-") {
        return spans;
    }
    let mut at = 0;
    while let Some(begin) = BEGIN.find_at(text, at) {
        let most = text.len().min(begin.end() + LONGEST);
        let next = BEGIN.find_at(&text[..most], begin.end()).map_or(most, |next| next.start());
        let whole = END
            .find_at(&text[..next], begin.end())
            .filter(|end| RUN.is_match(&text[begin.end()..end.start()]))
            .map(|end| end.end());
        let end = whole.unwrap_or_else(|| open_end(&text[..next], begin.end()));
        if end > begin.end() {
            spans.push(begin.start()..end);
        }
        at = end;
    }
    for end in END.find_iter(text) {
        if spans.iter().any(|span| span.start < end.end() && end.start() < span.end) {
            continue;
        }
        let low = end.start().saturating_sub(LONGEST);
        let start = open_start(text, low, end.start());
        if start < end.start() {
            spans.push(start..end.end());
        }
    }
    spans.sort_by_key(|span| span.start);
    spans
}

/// The end of a block without an end mark: after the last line that looks like a line of the body.
fn open_end(text: &[u8], begin: usize) -> usize {
    let mut end = begin;
    let mut at = begin;
    let mut is_first = true;
    while at < text.len() {
        let line_end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed + 1);
        let line = &text[at..line_end];
        // The text was cut within the last line of the body.
        let is_last = line_end == text.len() && !line.ends_with(b"\n");
        let is_head = memchr::memmem::find(line, b": ").is_some() && !RUN.is_match(line);
        if RUN.is_match(line)
            || (is_last && at > begin && ends_in_base64(line) && !line.contains(&b' '))
        {
            end = line_end;
        } else if !(is_first || is_head || line.trim_ascii().is_empty() || ends_bare(line)) {
            break;
        }
        is_first = false;
        at = line_end;
    }
    end
}

/// The start of a block without a begin mark.
fn open_start(text: &[u8], low: usize, end: usize) -> usize {
    let mut start = end;
    let line_of =
        |at: usize| memchr::memrchr(b'\n', &text[low..at]).map_or(low, |feed| low + feed + 1);
    let mut at = line_of(end);
    // The block may be on one line, with escaped line feeds.
    if let Some(run) = RUN.find(&text[at..end]) {
        start = at + run.start();
    }
    let mut is_nearest = true;
    while at > low {
        let line_start = line_of(at - 1);
        let line = &text[line_start..at];
        match RUN.find_iter(line).last() {
            // The last line of a body may be short.
            None if is_nearest && ends_in_base64(line) => {}
            None => break,
            Some(_) => start = line_start,
        }
        is_nearest = false;
        at = line_start;
    }
    start
}

fn ends_in_base64(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
}

/// Whether a line is only the prefix of a listing (a number or a name, and a colon) for an empty line.
fn ends_bare(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b":") || line.trim_ascii().iter().all(u8::is_ascii_digit)
}
