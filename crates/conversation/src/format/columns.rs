//! Text in columns: its width on a terminal, and the places where it is wrapped.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

use crate::format::harmless::escape_text;

/// More blanks than this within a line are counted instead of shown: they would hide the text after them.
const BLANKS: usize = 40;
/// More empty lines than this are counted instead of shown.
const EMPTY_LINES: usize = 3;

/// The width of a character, in columns: a mark that makes a picture of the one before it makes that wide.
pub fn width_of(c: char) -> usize {
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// The width of a text, in columns.
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The first part of a text that fits into this many columns; it ends in an ellipsis if the text was cut.
pub fn truncate(text: &str, columns: usize) -> String {
    let (fits, rest) = split(text, columns);
    if rest.is_empty() {
        return text.to_owned();
    }
    let (fits, _) = split(fits, columns.saturating_sub(1));
    format!("{fits}…")
}

/// Wraps a line into rows of at most this many columns each; there is at least one row. A row ends after a blank,
/// unless its last word is wider than a row. A character wider than a row has a row of its own.
pub fn wrap_line(line: &str, columns: usize) -> Vec<&str> {
    let (mut rows, mut rest) = (Vec::new(), line);
    loop {
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let mut end = split(rest, columns).0.len().max(first);
        let from = rest[..end].rfind(' ').map_or(0, |at| at + 1);
        let word = rest[from..].split(' ').next().unwrap_or_default();
        if from > 0 && end < from + word.len() && width(word) <= columns {
            end = from;
        }
        rows.push(&rest[..end]);
        rest = &rest[end..];
        if rest.is_empty() {
            return rows;
        }
    }
}

fn split(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += width_of(*c);
        used > columns
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// Splits a text into lines that can be shown: hidden characters escaped, tabs as blanks, long runs of blanks and of
/// empty lines counted.
pub fn visible_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut empty = 0;
    let add_empty = |lines: &mut Vec<String>, empty: &mut usize| match std::mem::take(empty) {
        count if count > EMPTY_LINES => lines.push(format!("({count} empty lines)")),
        count => lines.extend(std::iter::repeat_n(String::new(), count)),
    };
    for line in escape_text(text).lines() {
        if line.trim().is_empty() {
            empty += 1;
            continue;
        }
        add_empty(&mut lines, &mut empty);
        lines.push(visible_line(line));
    }
    add_empty(&mut lines, &mut empty);
    lines
}

/// Makes blanks visible that a shell does not treat as blanks: `rm\u{a0}-rf` is a single word, and a carriage return is
/// part of a word, even at the end of a line.
pub fn show_odd_blanks(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_whitespace() && !c.is_ascii() || c == '\r';
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if is_odd(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(show).collect()
}

fn visible_line(line: &str) -> String {
    let (mut out, mut column, mut blanks) = (String::with_capacity(line.len()), 0, 0);
    for c in line.trim_end().chars() {
        let wide = match c {
            '\t' => 8 - column % 8,
            c if c.is_whitespace() => 1,
            c => {
                push_blanks(&mut out, std::mem::take(&mut blanks));
                out.push(c);
                column += width_of(c);
                continue;
            }
        };
        (blanks, column) = (blanks + wide, column + wide);
    }
    out
}

fn push_blanks(out: &mut String, count: usize) {
    if count > BLANKS {
        out.push_str(&format!(" ␠×{} ", count - 2));
    } else {
        out.extend(std::iter::repeat_n(' ', count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_wide_as_the_terminal() {
        let check =
            |text: &str, columns, expect: &[&str]| assert_eq!(wrap_line(text, columns), expect);
        check("", 4, &[""]);
        check("abcd", 4, &["abcd"]);
        check("abcde", 4, &["abcd", "e"]);
        check("世界世", 4, &["世界", "世"]);
        check("a世界", 2, &["a", "世", "界"]);
        check("世a", 1, &["世", "a"]);
        check("e\u{301}e\u{301}", 1, &["e\u{301}", "e\u{301}"]);
        check("ab", 0, &["a", "b"]);
        check("one two three", 8, &["one two ", "three"]);
        check("one two three", 7, &["one two", " three"]);
        check("one twothree", 8, &["one ", "twothree"]);
        check("one twothrees", 8, &["one twot", "hrees"]);
        assert_eq!(
            (width("世a"), truncate("世界a", 4), truncate("世界", 4)),
            (3, "世…".into(), "世界".into())
        );
    }

    #[test]
    fn nothing_is_pushed_out_of_sight() {
        let check = |text: &str, expect: &[&str]| assert_eq!(visible_lines(text), expect);
        check("a\n\tb \n", &["a", "        b"]);
        check("a\u{1b}[2Jb\rc\r\nd", &["a\\u{1b}[2Jb\\u{d}c", "d"]);
        check(&format!("ls;{}evil", " ".repeat(500)), &["ls; ␠×498 evil"]);
        check(&format!("ls{}evil", "\n".repeat(500)), &["ls", "(499 empty lines)", "evil"]);
        check("a\n\nb", &["a", "", "b"]);
    }
}
