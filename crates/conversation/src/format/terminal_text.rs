//! The lines that a terminal would show of a command's output, without the colours. Progress bars overwrite their line.
//!
//! ```text
//! CR, CSI G            the next character starts the line again: `10%\r20%` is `20%`, and `done\r\n` is `done`
//! BS, CSI n D          the next character replaces the last ones
//! CSI K                clears the line, after CR or with 2
//! other sequences      (CSI, OSC, DCS, …) are dropped, half ones too; a line feed ends each
//! tab                  blanks to the next column of 8
//! other controls       are dropped
//! ```
//! Nothing that is left steers a terminal. Bytes that are not UTF-8 become U+FFFD.

use super::columns::width;
use super::harmless::is_hidden;

/// A reader of output, which may come in pieces of any size.
#[derive(Debug, Default)]
pub struct TerminalText {
    lines: Vec<String>,
    line: Vec<u8>,
    state: State,
    is_returned: bool,
    /// Number of characters that the next one replaces.
    back: usize,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In a control sequence, with its number so far.
    Control(Option<usize>),
    /// In a text for the terminal, such as a title.
    Message,
}

impl TerminalText {
    /// Reads the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push_byte(*byte);
        }
    }

    /// Returns the complete lines, and the one that has not ended yet.
    pub fn finish(mut self) -> (Vec<String>, Option<String>) {
        let open = (!self.line.is_empty()).then(|| self.take_line());
        (self.lines, open)
    }

    /// Returns the one line of a text without line feeds.
    pub fn show_line(text: &str) -> String {
        let mut line = Self::default();
        line.push(text.as_bytes());
        line.finish().1.unwrap_or_default()
    }

    fn push_byte(&mut self, byte: u8) {
        if byte == b'\n' {
            let line = self.take_line();
            self.lines.push(line);
            *self = Self { lines: std::mem::take(&mut self.lines), ..Self::default() };
            return;
        }
        self.state = match (&self.state, byte) {
            (_, 0x1b) | (State::Escape, b' '..=b'/') => State::Escape,
            (State::Escape, b'[') => State::Control(None),
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::Message,
            (State::Escape, b'0'..=b'~') | (State::Message, 0x07) => State::Text,
            (State::Control(number), b'0'..=b'9') => {
                let digit = usize::from(byte - b'0');
                State::Control(Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit)))
            }
            (State::Control(number), b' '..=b'?') => State::Control(*number),
            (State::Control(number), b'@'..=b'~') => {
                let number = *number;
                self.control(byte, number);
                State::Text
            }
            (State::Message, _) => State::Message,
            (State::Text | State::Escape | State::Control(_), _) => {
                self.put(byte);
                State::Text
            }
        };
    }

    fn control(&mut self, end: u8, number: Option<usize>) {
        match (end, number) {
            (b'G', None | Some(0 | 1)) => self.is_returned = true,
            (b'D', number) => self.back = self.back.saturating_add(number.unwrap_or(1)),
            (b'K', Some(2)) => self.line.clear(),
            (b'K', None | Some(0)) if self.is_returned => self.line.clear(),
            _ => {}
        }
    }

    fn put(&mut self, byte: u8) {
        match byte {
            b'\r' => self.is_returned = true,
            0x08 => self.back = self.back.saturating_add(1),
            b'\t' | b' '..=b'~' | 0x80.. => {
                if std::mem::take(&mut self.is_returned) {
                    self.line.clear();
                    self.back = 0;
                }
                for _ in 0..std::mem::take(&mut self.back).min(self.line.len()) {
                    // Up to the first byte of the last character.
                    while self.line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
                }
                self.line.push(byte);
            }
            _ => {}
        }
    }

    fn take_line(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let (mut shown, mut column) = (String::with_capacity(line.len()), 0);
        for c in String::from_utf8_lossy(&line).chars() {
            let from = shown.len();
            match c {
                '\t' => shown.extend(std::iter::repeat_n(' ', 8 - column % 8)),
                c if is_hidden(c) => shown.extend(c.escape_unicode()),
                c => shown.push(c),
            }
            column += width(&shown[from..]);
        }
        shown.truncate(shown.trim_end().len());
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut text = TerminalText::default();
        text.push(bytes);
        let (lines, open) = text.finish();
        lines.into_iter().chain(open).collect()
    }

    #[test]
    fn a_line_is_what_a_terminal_shows() {
        let check = |text: &str, expect: &[&str]| assert_eq!(lines(text.as_bytes()), expect);
        check("a\nb", &["a", "b"]);
        check("a\r\n\r\nb\r\n", &["a", "", "b"]);
        check(" 10%\r 20%\r100%\r\ndone", &["100%", "done"]);
        check("10%\r", &["10%"]);
        check("10%\r\x1b[K", &[]);
        check("abc\x1b[2Kd\x1b[1G\x1b[0Ke", &["e"]);
        check("|\x08/\x08-\x08 ok\x1b[2D!!", &[" !!"]);
        check("é\x08è", &["è"]);
        check("\x1b[1m\x1b[32m   Compiling\x1b[0m a v1", &["   Compiling a v1"]);
        check("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bP1;2|q\x1b\\c\x1b(Bd", &["abcd"]);
        check("\x1b]never ended\nnext\x1b[12", &["", "next"]);
        check("a\tb\t\tc\n世\tx", &["a       b               c", "世      x"]);
        check("\x07\0a\x7f\x0cb\u{9b}c\u{202e}", &["ab\\u{9b}c\\u{202e}"]);
        assert_eq!(lines(b"\xff\xe4\xb8|\x80"), ["\u{fffd}\u{fffd}|\u{fffd}"]);
        assert_eq!(TerminalText::show_line("10%\r\x1b[31m20%"), "20%");
    }

    proptest! {
        #[test]
        fn it_is_the_same_in_any_pieces_and_steers_nothing(
            pieces in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    "[\r\n\t\u{8}\u{1b}\\[\\]KGD012;a世]{0,8}".prop_map(String::into_bytes),
                ],
                0..12,
            ),
        ) {
            let mut text = TerminalText::default();
            for piece in &pieces {
                text.push(piece);
            }
            let (mut cut, open) = text.finish();
            cut.extend(open);
            prop_assert_eq!(&cut, &lines(&pieces.concat()));
            prop_assert!(!cut.concat().chars().any(is_hidden));
            // What is before a line feed does not matter to what is after it.
            let rest = lines(b"a\x1b[31mb\n");
            let joined = [pieces.concat(), b"\n".to_vec(), b"a\x1b[31mb\n".to_vec()].concat();
            let joined = lines(&joined);
            prop_assert_eq!(joined.last(), rest.last());
        }
    }
}
