//! Masks credentials in text for a model: values that this process knows and, if requested, well-known shapes.
//!
//! A mask is `[key NAME]` for the value of a variable, `[masked KIND WORD]` for a shape. The word is a hash of the
//! secret and of a key that stays on this machine: the same secret always has the same mask, and nobody can test
//! guesses against the word. If the lines of a known private key appear separately later, each is masked.
//!
//! Secrets that were encoded, encrypted, split or reversed are not found.

mod private_key;
pub mod shapes;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};
use sha2::{Digest, Sha256};

use self::shapes::{SHAPES, is_likely};
use crate::format::hex::encode_hex;

/// Minimum length of a value that is masked, in bytes: shorter ones occur in other words by chance.
pub(crate) const SHORTEST: usize = 8;

/// A stream is masked in pieces of about this size, in bytes.
const WINDOW: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };
/// Number of bytes at the end of a piece that wait for the next one: no detectable secret is longer.
const HELD: usize = private_key::LONGEST + (32 << 10);
/// Maximum length of a word next to a cut that is removed because it may be part of a secret, in bytes.
const RAGGED: usize = 512;

static PATTERNS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().map(|shape| compile(shape.pattern)).collect());

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    let shape = SHAPES.iter().find(|shape| shape.name == "url-password");
    compile(shape.map_or("", |shape| shape.pattern))
});

static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"(?i)[?&;]\s*(?:password|pwd)=([^&;\s"'$]{3,})"#));

fn compile(pattern: &str) -> Regex {
    let built = RegexBuilder::new(pattern).unicode(false).build();
    built.expect("the patterns of the table are constants, and a test compiles each")
}

static MASK: LazyLock<regex::Regex> = LazyLock::new(|| {
    let mut kinds: Vec<&str> = SHAPES.iter().map(|shape| shape.name).collect();
    kinds.push(PRIVATE_KEY);
    let pattern =
        format!(r"\[masked (?:{}) [0-9a-f]{{8}}\]|\[key ([A-Za-z0-9_]+)\]", kinds.join("|"));
    regex::Regex::new(&pattern).expect("names of shapes are words")
});

const PRIVATE_KEY: &str = "private-key";

/// The values and shapes to mask.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The values, the longest first, and the names of their variables.
    known: Vec<(Vec<u8>, String)>,
    any_known: Option<Regex>,
    /// The key for the hashes in masks; `None`: shapes are not masked.
    salt: Option<Vec<u8>>,
    /// Lines of private keys found so far, with the mask of the key.
    learned: RefCell<HashMap<Vec<u8>, String>>,
}

#[derive(Debug, Clone)]
struct Span {
    /// The match: the secret, with the text that identifies it.
    whole: Range<usize>,
    secret: Range<usize>,
    /// A lower rank takes precedence.
    rank: usize,
    label: Label,
}

#[derive(Debug, Clone)]
enum Label {
    Mask(String),
    Shape(&'static str),
}

impl Redactor {
    /// Masks the values of variables, given with their names, and shapes where there is a `salt`. Short values are skipped.
    pub fn new<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
        salt: Option<&[u8]>,
    ) -> Self {
        let mut known: Vec<(Vec<u8>, String)> = Vec::new();
        let mut add = |value: &str, name: &str| {
            let is_new = known.iter().all(|(other, _)| other != value.as_bytes());
            if value.len() >= SHORTEST && is_new {
                known.push((value.as_bytes().to_vec(), name.to_owned()));
            }
        };
        for (name, value) in variables {
            let value = value.trim();
            add(value, name);
            // A value may also appear JSON-escaped, or split into lines: mask these forms too.
            if let Ok(json) = serde_json::to_string(value) {
                add(json.trim_matches('"'), name);
            }
            if value.contains('\n') {
                let lines = value.lines().filter(|line| line.len() >= 16);
                lines
                    .filter(|line| !line.contains("-----"))
                    .for_each(|line| add(line.trim(), name));
            }
        }
        known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let escaped: Vec<String> =
            known.iter().map(|(value, _)| regex::escape(&String::from_utf8_lossy(value))).collect();
        let any_known = (!escaped.is_empty())
            .then(|| RegexBuilder::new(&escaped.join("|")).size_limit(64 << 20).build().ok())
            .flatten();
        Self { known, any_known, salt: salt.map(<[u8]>::to_vec), learned: RefCell::default() }
    }

    /// Whether there is nothing that it could mask.
    pub fn is_idle(&self) -> bool {
        self.any_known.is_none() && self.salt.is_none()
    }

    /// Whether it masks shapes.
    pub fn finds_shapes(&self) -> bool {
        self.salt.is_some()
    }

    /// Returns the bytes with masks, and the number of masks; `None` if there is nothing to mask.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
        let spans = self.spans(bytes);
        (!spans.is_empty()).then(|| self.replace_spans(bytes, &spans))
    }

    /// Returns the bytes, with masks for any secrets.
    pub fn mask_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.redact_bytes(&bytes).map_or(bytes, |(masked, _)| masked)
    }

    /// Returns the text with masks, and the number of masks.
    pub fn redact_text(&self, text: String) -> (String, u64) {
        match self.redact_bytes(text.as_bytes()) {
            Some((bytes, count)) => (String::from_utf8_lossy(&bytes).into_owned(), count),
            None => (text, 0),
        }
    }

    /// Masks secrets in a text that was cut at each `…`, and removes possible parts of secrets next to the cuts.
    /// Returns the text, and the number of masks.
    pub fn redact_cut_lines(&self, text: String) -> (String, u64) {
        let (text, count) = self.redact_text(text);
        if self.is_idle() || !text.contains('…') {
            return (text, count);
        }
        let parts: Vec<&str> = text.split('…').collect();
        let last = parts.len() - 1;
        let cleaned = parts.into_iter().enumerate().map(|(at, part)| {
            let start = if at == 0 { 0 } else { self.count_cut_secret_bytes(part, false) };
            let part = &part[start..];
            let end = if at == last { part.len() } else { self.clean_end(part) };
            &part[..end]
        });
        (cleaned.collect::<Vec<_>>().join("…"), count)
    }

    /// The place where a cut text must end, so that it does not end in a part of a secret.
    pub fn clean_end(&self, text: &str) -> usize {
        text.len() - self.count_cut_secret_bytes(text, true)
    }

    /// Counts the bytes at the end of a text, or at its start, that may be part of a secret that was cut there.
    fn count_cut_secret_bytes(&self, text: &str, at_end: bool) -> usize {
        let bytes = text.as_bytes();
        let is_part = |value: &[u8], len: usize| {
            if at_end {
                bytes.ends_with(&value[..len])
            } else {
                bytes.starts_with(&value[value.len() - len..])
            }
        };
        let longest = |(value, _): &(Vec<u8>, String)| {
            (6..=value.len().min(bytes.len())).rev().find(|len| is_part(value, *len))
        };
        let mut ragged = self.known.iter().filter_map(longest).max().unwrap_or(0);
        if self.salt.is_some() {
            let run = if at_end {
                bytes.iter().rev().take_while(|byte| is_key_byte(**byte)).count()
            } else {
                bytes.iter().take_while(|byte| is_key_byte(**byte)).count()
            };
            ragged = ragged.max(Some(run).filter(|run| (6..=RAGGED).contains(run)).unwrap_or(0));
        }
        // The cut is never within a character.
        if at_end {
            text.len() - text.floor_char_boundary(text.len() - ragged)
        } else {
            text.ceil_char_boundary(ragged)
        }
    }

    /// The first mask in a text, if there is one.
    pub fn find_mask<'a>(&self, text: &'a str) -> Option<&'a str> {
        let is_ours = |name: &str| self.known.iter().any(|(_, known)| known == name);
        let mut masks = MASK.captures_iter(text);
        let found = masks.find(|mask| mask.get(1).is_none_or(|name| is_ours(name.as_str())))?;
        Some(found.get(0)?.as_str())
    }

    fn spans(&self, text: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        if let Some(any) = &self.any_known {
            for found in any.find_iter(text) {
                let name = self.known.iter().find(|(value, _)| value == found.as_bytes());
                let name = name.map_or("", |(_, name)| name);
                let label = Label::Mask(format!("[key {name}]"));
                spans.push(Span { whole: found.range(), secret: found.range(), rank: 0, label });
            }
        }
        if self.salt.is_some() {
            self.find_shapes(text, &mut spans);
        }
        merge_spans(text, spans)
    }

    fn find_shapes(&self, text: &[u8], spans: &mut Vec<Span>) {
        let learned = self.learned.borrow();
        if !learned.is_empty() {
            for run in private_key::RUN.find_iter(text) {
                if let Some(mask) = learned.get(run.as_bytes()) {
                    let label = Label::Mask(mask.clone());
                    spans.push(Span { whole: run.range(), secret: run.range(), rank: 2, label });
                }
            }
        }
        for range in private_key::spans(text) {
            let label = Label::Shape(PRIVATE_KEY);
            spans.push(Span { whole: range.clone(), secret: range, rank: 1, label });
        }
        for (at, (shape, pattern)) in SHAPES.iter().zip(PATTERNS.iter()).enumerate() {
            let has_group = pattern.captures_len() > 1;
            // Finding is much faster than capturing, and most texts have nothing.
            for found in pattern.find_iter(text) {
                let secret = if has_group {
                    let captures = pattern.captures_at(text, found.start());
                    let group = captures.and_then(|captures| captures.get(1));
                    group.map_or(found.range(), |group| group.range())
                } else {
                    found.range()
                };
                if is_likely(shape.likely, &text[secret.clone()]) {
                    let label = Label::Shape(shape.name);
                    spans.push(Span { whole: found.range(), secret, rank: 3 + at, label });
                }
            }
        }
    }

    fn replace_spans(&self, text: &[u8], spans: &[Span]) -> (Vec<u8>, u64) {
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            out.extend_from_slice(&text[at..span.secret.start]);
            let secret = &text[span.secret.clone()];
            let mask = match &span.label {
                Label::Mask(mask) => mask.clone(),
                Label::Shape(kind) => self.shape_mask(kind, secret),
            };
            out.extend_from_slice(mask.as_bytes());
            at = span.secret.end;
            if matches!(span.label, Label::Shape(PRIVATE_KEY)) {
                let lines = private_key::RUN.find_iter(secret).map(|line| line.as_bytes().to_vec());
                self.learned.borrow_mut().extend(lines.map(|line| (line, mask.clone())));
                // The line feed after a key is not part of it.
                at -= usize::from(secret.ends_with(b"\n"));
            }
        }
        out.extend_from_slice(&text[at..]);
        (out, spans.len() as u64)
    }

    fn shape_mask(&self, kind: &str, secret: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(self.salt.as_deref().unwrap_or_default());
        hash.update(kind.as_bytes());
        hash.update([0]);
        hash.update(secret.trim_ascii_end());
        format!("[masked {kind} {}]", &encode_hex(&hash.finalize())[..8])
    }
}

/// The first password in an address, `scheme://user:password@host`, or in its parameters, `…;password=…`.
pub fn url_password(text: &[u8]) -> Option<&[u8]> {
    // Most texts have no address with a user in it, and matching the patterns takes time.
    let has_user = |from: usize| memchr::memchr(b'@', &text[from..]);
    let address = || ADDRESS.captures(text);
    let parameter = || memchr::memchr(b'=', text).and_then(|_| PARAMETER.captures(text));
    let found = memchr::memmem::find(text, b"://").and_then(has_user).and_then(|_| address());
    Some(found.or_else(parameter)?.get(1)?.as_bytes())
}

/// Masks a stream as it arrives; the result does not depend on how the stream is split.
#[derive(Debug, Default)]
pub struct Stream {
    held: Vec<u8>,
    /// The number of masks so far.
    pub count: u64,
}

impl Stream {
    /// Takes the next bytes, and returns those that are final.
    pub fn push(&mut self, redactor: &Redactor, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if self.held.len() < WINDOW + HELD {
            return Vec::new();
        }
        let spans = redactor.spans(&self.held);
        let mut cut = self.held.len() - HELD;
        // A cut between lines is best: the text before a secret identifies it.
        if let Some(feed) = memchr::memrchr(b'\n', &self.held[cut - (32 << 10)..cut]) {
            cut = cut - (32 << 10) + feed + 1;
        }
        for span in spans.iter().rev() {
            if span.whole.start < cut && cut < span.whole.end {
                cut = span.whole.start;
            }
        }
        let settled: Vec<Span> = spans.into_iter().filter(|span| span.whole.end <= cut).collect();
        let (out, count) = redactor.replace_spans(&self.held[..cut], &settled);
        self.count += count;
        self.held.drain(..cut);
        out
    }

    /// Returns the end of what has come but is not final, masked, without what may be the first part of a secret at its end,
    /// and the number of line feeds before it.
    pub fn peek(&self, redactor: &Redactor) -> (Vec<u8>, u64) {
        // A secret that begins before this is over long before the end.
        let (before, end) = self.held.split_at(self.held.len().saturating_sub(2 * HELD));
        let before = memchr::memchr_iter(b'\n', before).count() as u64;
        let masked = redactor.redact_bytes(end).map(|(masked, _)| masked);
        let text = String::from_utf8_lossy(masked.as_deref().unwrap_or(end));
        (text.as_bytes()[..redactor.clean_end(&text)].to_vec(), before)
    }

    /// Returns the rest.
    pub fn finish(&mut self, redactor: &Redactor) -> Vec<u8> {
        let rest = std::mem::take(&mut self.held);
        let Some((masked, count)) = redactor.redact_bytes(&rest) else { return rest };
        self.count += count;
        masked
    }
}

/// Sorts spans, and merges those that overlap; a merged span gets the label of the lower rank.
fn merge_spans(text: &[u8], mut spans: Vec<Span>) -> Vec<Span> {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    for span in &mut spans {
        while span.secret.start > 0 && is_inside(span.secret.start) {
            span.secret.start -= 1;
        }
        while is_inside(span.secret.end) {
            span.secret.end += 1;
        }
        span.whole.start = span.whole.start.min(span.secret.start);
        span.whole.end = span.whole.end.max(span.secret.end);
    }
    spans.sort_by_key(|span| (span.secret.start, span.rank));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.secret.start < last.secret.end => {
                last.secret.end = last.secret.end.max(span.secret.end);
                last.whole.start = last.whole.start.min(span.whole.start);
                last.whole.end = last.whole.end.max(span.whole.end);
                if span.rank < last.rank {
                    (last.rank, last.label) = (span.rank, span.label);
                }
            }
            _ => merged.push(span),
        }
    }
    merged
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_+/=.~".contains(&byte)
}

#[cfg(test)]
mod tests;
