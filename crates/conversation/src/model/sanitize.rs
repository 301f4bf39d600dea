//! Makes a server's message safe to show: no control characters, no key material, at most 2,000 characters.
//!
//! Servers echo parts of the key that they refuse (`Incorrect API key provided: sk-ab***wxyz`). So a word is masked when
//! it looks like a key, when the server masked it, or when eight characters in a row are part of the key that was sent.

use crate::format::harmless::{is_hidden, truncate};
use crate::limits;

const MASK: &str = "[key]";
/// If this many consecutive characters are also in the key, that is not an accident.
const WINDOW: usize = 8;

/// Makes a server's text safe to show; `key` is the credential that was sent.
pub(crate) fn sanitize(text: &str, key: Option<&str>) -> String {
    let plain = text.replace(['\n', '\t', '\r'], " ").replace(is_hidden, "");
    let masked = mask_keys(&plain, key);
    truncate(masked.trim(), limits::ERROR_MESSAGE)
}

fn mask_keys(text: &str, key: Option<&str>) -> String {
    let key = key.map(str::trim).filter(|key| !key.is_empty());
    // A key may hold characters that split words.
    let replaced = key
        .filter(|key| key.len() >= WINDOW && text.contains(key))
        .map(|key| text.replace(key, MASK));
    let text = replaced.as_deref().unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let gap = rest.find(is_key_char).unwrap_or(rest.len());
        out.push_str(&rest[..gap]);
        rest = &rest[gap..];
        let end = rest.find(|c| !is_key_char(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        out.push_str(if is_secret(word, key) { MASK } else { word });
        rest = &rest[end..];
    }
    out
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.' | '+' | '/' | '=' | '•' | '…')
}

fn is_secret(word: &str, key: Option<&str>) -> bool {
    const PREFIXES: [&str; 11] = [
        "sk-", "sk_", "gsk_", "xai-", "hf_", "AIza", "AQ.", "ya29.", "eyJhbGci", "nvapi-", "crsr_",
    ];
    let begins = |part: &str| PREFIXES.iter().any(|prefix| part.starts_with(prefix));
    let looks_like_one = word.len() >= 8 && word.split(['/', '=']).any(begins);
    let masked_by_the_server = word.contains("***") || word.contains("•••");
    looks_like_one || masked_by_the_server || key.is_some_and(|key| shares_window(word, key))
}

fn shares_window(word: &str, key: &str) -> bool {
    if key.len() < WINDOW {
        return word == key;
    }
    // A window that is cut within a character is skipped; no window of ASCII letters is lost.
    word.len() >= WINDOW
        && (0..=key.len() - WINDOW)
            .any(|at| key.get(at..at + WINDOW).is_some_and(|window| word.contains(window)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "sk-canary-7f3a9b2c4d5e6f70";

    fn check(text: &str, expect: &str) {
        assert_eq!(sanitize(text, Some(KEY)), expect, "{text:?}");
    }

    #[test]
    fn key_material_goes() {
        check(
            "Incorrect API key provided: sk-canar*********6f70.",
            "Incorrect API key provided: [key]",
        );
        check("bad key 7f3a9b2c4d5e6f70", "bad key [key]");
        check("key ****6f70 is invalid", "key [key] is invalid");
        check("see https://h/x?key=sk-canary-7f3a9b2c4d5e6f70", "see https://h/x?key=[key]");
        check("Bearer eyJhbGciOiJIUzI1NiJ9.x.y", "Bearer [key]");
        check("an ordinary message about sk- and keys", "an ordinary message about sk- and keys");
        assert_eq!(sanitize("model none not found", Some("none")), "model [key] not found");
        assert_eq!(sanitize("with a~b:c~d;e~f it", Some("a~b:c~d;e~f")), "with [key] it");
        assert_eq!(sanitize("nonesuch", Some("none")), "nonesuch");
    }

    #[test]
    fn control_characters_and_length() {
        check("a\x1b[31mb\r\nc\u{202e}d\0\u{e0041}\u{ad}\u{9b}", "a[31mb  cd");
        assert_eq!(sanitize(&"ä".repeat(2000), None), "ä".repeat(2000));
        let long = sanitize(&"ä".repeat(5000), None);
        assert_eq!(long.chars().count(), 2000);
        assert!(long.ends_with('…'));
    }

    proptest! {
        #[test]
        fn no_window_of_the_key_gets_through(before in "[ a-z:\"]{0,20}", from in 0usize..18, len in 8usize..26, after in "[ a-z:\"]{0,20}") {
            let part = &KEY[from..(from + len).min(KEY.len())];
            let shown = sanitize(&format!("{before}{part}{after}"), Some(KEY));
            let leaks = KEY.as_bytes().windows(WINDOW).any(|window| {
                shown.as_bytes().windows(WINDOW).any(|shown| shown == window)
            });
            prop_assert!(!leaks, "{shown}");
        }
    }
}
