//! Text in columns: its width on a terminal, and the places where it is wrapped.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::format::harmless::escape_text;

/// More blanks than this within a line are counted instead of shown: they would hide the text after them.
const BLANKS: usize = 40;
/// More empty lines than this are counted instead of shown.
const EMPTY_LINES: usize = 3;

/// The maximum width of a character, in columns: terminals differ where a mark makes the character before it a picture, and
/// what is counted too wide does no harm.
pub fn width_of(c: char) -> usize {
    if is_unsure(c) { 2 } else { c.width().unwrap_or(0) }
}

/// Whether terminals differ in the width of a character: the mark of pictures, their colours of skin, letters of flags.
pub fn is_unsure(c: char) -> bool {
    matches!(c, '\u{fe0f}' | '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}')
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

/// Wraps a line into rows of at most this many columns each; there is at least one row. A row ends after a blank, or in the
/// middle of a word that is wider than a row. A character wider than a row has a row of its own.
pub fn wrap_line(line: &str, columns: usize) -> Vec<&str> {
    wrap(line, 0, 0, columns).into_iter().map(|(row, _)| &line[row]).collect()
}

/// Wraps a line whose first row begins at column `start`, and the others at `hang`. Returns the rows, and whether each ends
/// in the middle of a word: the terminal breaks it, and its next row begins at the margin.
pub fn wrap(line: &str, start: usize, hang: usize, columns: usize) -> Vec<(Range<usize>, bool)> {
    let (mut rows, mut at, mut column) = (Vec::new(), 0, start);
    loop {
        let rest = &line[at..];
        let (row, left) = split(rest, columns.saturating_sub(column));
        let is_inside = |before: &str, after: &str| {
            !(after.is_empty() || after.starts_with(' ') || before.ends_with(' '))
        };
        let (mut end, mut is_broken) = (row.len(), is_inside(row, left));
        let word = row.rfind(' ').map_or(0, |blank| blank + 1);
        if is_broken && (word > 0 || column > hang) {
            let (part, after) = split(&rest[word..], columns.saturating_sub(hang));
            if part.contains(' ') || !is_inside(part, after) {
                (end, is_broken) = (word, false);
            }
        }
        if end == 0 && column <= hang {
            end = rest.chars().next().map_or(0, char::len_utf8);
        }
        let is_last = at + end == line.len();
        rows.push((at..at + end, is_broken && !is_last));
        if is_last {
            return rows;
        }
        (at, column) = (at + end, if is_broken { 0 } else { hang });
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
    fn rows_begin_where_they_hang_but_for_the_rest_of_a_long_word() {
        let check = |text: &str, start, hang, expect: &[(&str, bool)]| {
            let rows = wrap(text, start, hang, 8).into_iter();
            let rows: Vec<(&str, bool)> = rows.map(|(row, broken)| (&text[row], broken)).collect();
            assert_eq!(rows, expect);
        };
        check("one two", 4, 0, &[("one ", false), ("two", false)]);
        check("one two", 6, 2, &[("", false), ("one ", false), ("two", false)]);
        check("a 123456789012 b", 2, 2, &[("a 1234", true), ("56789012", false), (" b", false)]);
        check("1234567 b", 2, 2, &[("123456", true), ("7 b", false)]);
        check("12", 8, 0, &[("", false), ("12", false)]);
        check("123456789", 8, 0, &[("", true), ("12345678", true), ("9", false)]);
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
