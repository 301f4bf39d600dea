//! Masks the credentials that this process knows in text for a model: `[key NAME]` replaces the value of a variable.
//!
//! Other secrets are not found, nor values that were encoded, encrypted, split or reversed.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// Minimum length of a value that is masked, in bytes: shorter ones occur in other words by chance.
pub(crate) const SHORTEST: usize = 8;

/// A stream is masked in pieces of about this size, in bytes.
const WINDOW: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };
/// Number of bytes at the end of a piece that wait for the next one, so that a value may come in two.
const HELD: usize = 96 << 10;

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    compile(r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@"'<>\[\]{}]*:([^\s/@"'<>\[\]{}$]{3,})@"#)
});
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| compile(r#"(?i)[?&;]\s*(?:password|pwd)=([^&;\s"'$]{3,})"#));
static MASK: LazyLock<regex::Regex> =
    LazyLock::new(|| regex::Regex::new(r"\[key ([A-Za-z0-9_]+)\]").expect("a constant pattern"));

fn compile(pattern: &str) -> Regex {
    RegexBuilder::new(pattern).unicode(false).build().expect("a constant pattern")
}

/// The values to mask.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The values, the longest first, and the names of their variables.
    known: Vec<(Vec<u8>, String)>,
    any_known: Option<Regex>,
}

impl Redactor {
    /// Masks the values of variables, given with their names. Short values are skipped.
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
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
                let is_secret = |line: &&str| line.len() >= 16 && !line.contains("-----");
                value.lines().filter(is_secret).for_each(|line| add(line.trim(), name));
            }
        }
        known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let escaped: Vec<String> =
            known.iter().map(|(value, _)| regex::escape(&String::from_utf8_lossy(value))).collect();
        let any_known = (!escaped.is_empty())
            .then(|| RegexBuilder::new(&escaped.join("|")).size_limit(64 << 20).build().ok())
            .flatten();
        Self { known, any_known }
    }

    /// Whether there is nothing that it could mask.
    pub fn is_idle(&self) -> bool {
        self.any_known.is_none()
    }

    /// Returns the bytes with masks, and the number of masks; `None` if there is nothing to mask.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
        let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
        for found in self.any_known.as_ref()?.find_iter(bytes) {
            let name = self.known.iter().find(|(value, _)| value == found.as_bytes());
            let name = name.map_or("", |(_, name)| name);
            out.extend_from_slice(&bytes[at..found.start()]);
            out.extend_from_slice(format!("[key {name}]").as_bytes());
            at = found.end();
            count += 1;
        }
        out.extend_from_slice(&bytes[at..]);
        (count > 0).then_some((out, count))
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
        let ragged = self.known.iter().filter_map(longest).max().unwrap_or(0);
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
        let found = MASK.captures_iter(text).find(|mask| is_ours(&mask[1]))?;
        Some(found.get(0)?.as_str())
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
        let mut cut = self.held.len() - HELD;
        let mut across = redactor.any_known.iter().flat_map(|any| any.find_iter(&self.held));
        if let Some(value) = across.find(|value| value.end() > cut) {
            cut = cut.min(value.start());
        }
        let rest = self.held.split_off(cut);
        let settled = std::mem::replace(&mut self.held, rest);
        self.mask(redactor, settled)
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
        self.mask(redactor, rest)
    }

    fn mask(&mut self, redactor: &Redactor, bytes: Vec<u8>) -> Vec<u8> {
        let Some((masked, count)) = redactor.redact_bytes(&bytes) else { return bytes };
        self.count += count;
        masked
    }
}

#[cfg(test)]
mod tests;
