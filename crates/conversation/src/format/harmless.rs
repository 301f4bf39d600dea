//! Makes untrusted text safe to show next to our own: on its line, in its cell, within its block.
//!
//! ```text
//! hidden     control characters (C0, C1), direction marks, zero-width characters, fillers and tag characters: shown as
//!            \u{…}, in names as a shell has them. The only list of them; terminals, prompts and errors all go by it
//! markers    {file-history} {file-summary} {file-knowledge}, opening or closing, in any case, with anything but letters
//!            and digits between their words: shown with a backslash behind the brace
//! ```
//! Pure: text in, text out. Escaped text can be read, and never has the original's effect.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

/// The letters of the markers around what a conversation reads of its file.
const MARKERS: [&str; 3] = ["filehistory", "filesummary", "fileknowledge"];

/// Whether a character moves the cursor, reorders the line or cannot be seen.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            // The soft hyphen, the grapheme joiner and the fillers of Hangul, Khmer and Mongolian.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}'
            // The blank of Braille.
            | '\u{2800}'
            // Directions, joiners, line separators.
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Annotations; variation selectors, except for the two that choose between text and emoji form.
            | '\u{fff9}'..='\u{fffb}' | '\u{fe00}'..='\u{fe0d}'
            // Controls for shorthand and music; tags, and the selectors above them.
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name or path as text on one line: unchanged if it is plain, else in the shell's `$'…'` quotes, so that a shell can
/// read it back.
pub fn quote_name(name: impl AsRef<OsStr>) -> String {
    let bytes = name.as_ref().as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(is_hidden)
    {
        return text.to_owned();
    }
    let mut out = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\'' | '\\' => out.extend(['\\', c]),
                c if c.is_ascii_control() => push_byte(&mut out, c as u8),
                c if is_hidden(c) => {
                    _ = write!(out, "\\U{:08x}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut out, *byte);
        }
    }
    out.push('\'');
    out
}

/// Writes a byte in octal, always with three digits: `\x` would swallow hexadecimal digits after it.
fn push_byte(out: &mut String, byte: u8) {
    _ = write!(out, "\\{byte:03o}");
}

/// Puts a text on one line: white space becomes blanks, hidden characters are shown, and the rest after `most`
/// characters is cut.
pub fn escape_line(text: &str, most: usize) -> String {
    // The result is bounded: nothing after this could be shown, so a text of any length costs little.
    let bound = most.saturating_mul(4).saturating_add(64);
    let text = &text[..text.floor_char_boundary(bound.saturating_mul(4))];
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&escape_text(&words.join(" ")), most)
}

/// Shows hidden characters, and keeps line feeds and tabs, and joiners between characters that are not ASCII: emoji, Persian and
/// Hindi are written with them. CR LF is a line end; any other CR would overwrite its line.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let is_joined = |c: Option<&char>| c.is_some_and(|c| !c.is_ascii() && !is_hidden(*c));
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{200c}' | '\u{200d}'
                if is_joined(out.chars().next_back().as_ref()) && is_joined(chars.peek()) =>
            {
                out.push(c);
            }
            c if is_hidden(c) => {
                _ = write!(out, "{}", c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

/// The first `most` characters; if the text was cut, the last one is an ellipsis.
pub fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The whole lines at the start of a text that fit into this many bytes; `None` if all of the text fits.
pub fn cut_at_line(text: &str, most: usize) -> Option<&str> {
    let head = &text[..text.floor_char_boundary(most)];
    (text.len() > most).then(|| &head[..head.rfind('\n').unwrap_or(0)])
}

/// Breaks up all markers, and anything at the end of the text that could become one together with text appended to it.
pub fn without_markers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        out.push(c);
        if c == '{' && opens_marker(&text[at + 1..]) {
            out.push('\\');
        }
    }
    out
}

/// Whether a marker follows a brace: all its letters, or as many as the text has.
fn opens_marker(rest: &str) -> bool {
    let mut letters = String::new();
    for c in rest.chars() {
        if c == '{' {
            return false;
        }
        // Every form of a letter counts as the letter; letters of other scripts count as blanks.
        let folded = c.to_uppercase().flat_map(char::to_lowercase);
        for letter in folded.filter(char::is_ascii_alphanumeric) {
            letters.push(letter);
            if MARKERS.contains(&letters.as_str()) {
                return true;
            }
            if !MARKERS.iter().any(|marker| marker.starts_with(&letters)) {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_a_line() {
        let check = |text: &str, most, expect: &str| assert_eq!(escape_line(text, most), expect);
        check(" a\n\tb\r\n c ", 80, "a b c");
        check("\x1b[31mred\u{202e}", 80, "\\u{1b}[31mred\\u{202e}");
        check("abcdef", 4, "abc…");
        check("abcd", 4, "abcd");
        check(&"x ".repeat(1 << 20), 3, "x …");
    }

    #[test]
    fn plain_names_are_shown_as_they_are_and_others_as_the_shell_takes_them() {
        let check =
            |name: &[u8], expect: &str| assert_eq!(quote_name(OsStr::from_bytes(name)), expect);
        check(b"src/main.rs", "src/main.rs");
        check("Größe mit Raum.txt".as_bytes(), "Größe mit Raum.txt");
        check(b"a\nb", r"$'a\nb'");
        check(b"\x1b[31mred", r"$'\033[31mred'");
        check(b"\xff\xfe", r"$'\377\376'");
        check("a\u{202e}b".as_bytes(), r"$'a\U0000202eb'");
        check(b"it's\\\x07", r"$'it\'s\\\007'");
    }

    #[test]
    fn markers_are_broken_up_however_they_are_spelled() {
        let check = |text: &str, expect: &str| assert_eq!(without_markers(text), expect);
        check("a {file-history} b", "a {\\file-history} b");
        check("{/FILE-History}", "{\\/FILE-History}");
        check("{ / file _ summary }", "{\\ / file _ summary }");
        check("{\nfile\n-knowledge", "{\\\nfile\n-knowledge");
        check("{file} {files} {fil", "{file} {files} {\\fil");
        check("{", "{\\");
        check("{x}{{file-history}", "{x}{{\\file-history}");
        check("{\\u{66}ile-history}", "{\\u{66}ile-history}");
        check(
            "{ﬁle {fileſummary} {file-\u{212a}nowledge}",
            "{ﬁle {\\fileſummary} {\\file-\u{212a}nowledge}",
        );
    }

    proptest! {
        #[test]
        fn no_joint_makes_a_marker(
            left in "([{}/ fFiIlLeE-]|file-|history|summary|\\{file){0,6}",
            right in "([{}/ fFiIlLeE-]|file-|history\\}|summary\\}|\\{file){0,6}",
        ) {
            let joined = format!("{}{}", without_markers(&left), without_markers(&right));
            let marker = r"(?i)\{(?:[^\\{a-z][^{a-z]*)?file[^{a-z]*(?:history|summary|knowledge)";
            prop_assert!(!regex::Regex::new(marker).unwrap().is_match(&joined), "{joined}");
        }

        #[test]
        fn nothing_hidden_is_left(text in any::<String>(), bytes: Vec<u8>) {
            let is_odd = |c: char| is_hidden(c) && !"\u{200c}\u{200d}".contains(c);
            prop_assert!(!escape_line(&text, 50).chars().any(is_odd));
            prop_assert!(escape_line(&text, 50).chars().count() <= 50);
            prop_assert!(!quote_name(OsStr::from_bytes(&bytes)).chars().any(is_hidden));
        }
    }
}
