//! Lines for a terminal as pieces of text with styles, how they are wrapped, and the one table of the styles.

use conversation::format::columns::{width, width_of};
use conversation::format::harmless::escape_text;

/// The numbers of an SGR sequence; none for plain text.
pub type Style = &'static [u8];

/// No style.
pub const PLAIN: Style = &[];
/// A head, and the names in a diff.
pub const BOLD: Style = &[1];
/// Secondary text, such as the output of a command.
pub const DIM: Style = &[2];
/// Emphasis.
pub const ITALIC: Style = &[3];
/// A link.
pub const UNDERLINED: Style = &[4];
/// A line that a change removed.
pub const RED: Style = &[31];
/// A line that a change added.
pub const GREEN: Style = &[32];
/// The place of a change, and code between words.
pub const CYAN: Style = &[36];
/// Keywords of a program.
pub const MAGENTA: Style = &[35];
/// A script's memory.js.
pub const MEMORY: Style = &[38, 5, 82];
/// The agent of a script.
pub const AGENT: Style = &[38, 5, 213];
/// A script of the agent.
pub const SCRIPT: Style = &[38, 5, 39];
/// A request of memory.js.
pub const ASKED: Style = &[38, 5, 214];
/// An error in memory.js.
pub const FAILED: Style = &[38, 5, 196];

/// The styles that the texts of a look name.
pub const NAMED: [(&str, Style); 7] = [
    ("bold", BOLD),
    ("dim", DIM),
    ("red", RED),
    ("green", GREEN),
    ("yellow", &[33]),
    ("cyan", CYAN),
    ("off", PLAIN),
];

/// A piece of a line with its style. A row of one piece may be wider than the terminal, where it is a line of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// Its text.
    pub text: String,
    /// The numbers of its styles.
    pub codes: Vec<u8>,
}

impl Span {
    /// A piece in one style.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), codes: style.to_vec() }
    }
}

/// Rows of text on a terminal, wrapped at words while it comes. The terminal breaks a word that is wider than a row itself, so
/// that it can be copied. All of it is harmless already.
#[derive(Default)]
pub struct Rows {
    /// The text to print, with line feeds between the rows.
    pub(super) spans: Vec<Span>,
    /// The number of rows below the first, and the column behind them.
    pub(super) count: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
    /// Whether the terminal breaks all rows: code; and whether terminals differ in where they do.
    pub(super) is_exact: bool,
    pub(super) is_unsure: bool,
    /// The text before the rows below the first.
    hang: String,
    /// The blanks, and the word after them, that may belong on the next row.
    gap: Vec<Span>,
    word: Vec<Span>,
    /// Whether the word began on the rows already, because it is wider than one.
    is_long: bool,
}

impl Rows {
    /// Begins at this column.
    pub fn new(columns: usize, column: usize, hang: &str) -> Self {
        let hang = if width(hang) > columns / 2 { "" } else { hang }.to_owned();
        Self { column, columns, hang, ..Self::default() }
    }

    /// Adds text in a style.
    pub fn push(&mut self, text: &str, codes: &[u8]) {
        for c in text.chars() {
            let is_blank = matches!(c, ' ' | '\t' | '\n');
            if self.is_exact || self.is_long && !is_blank {
                self.place(c, codes);
                continue;
            }
            // A row may end before a wide letter, too.
            if is_blank || width_of(c) == 2 {
                self.end_word();
            }
            match c {
                '\n' => self.end_row(""),
                '\t' => (0..4).for_each(|_| append(&mut self.gap, ' ', codes)),
                ' ' => append(&mut self.gap, ' ', codes),
                c => {
                    append(&mut self.word, c, codes);
                    if measure(&self.word) > self.columns {
                        self.end_word();
                        self.is_long = true;
                    }
                }
            }
        }
    }

    /// Ends the word, and returns what is to be printed.
    pub fn finish(&mut self) -> Vec<Span> {
        self.end_word();
        std::mem::take(&mut self.spans)
    }

    fn end_word(&mut self) {
        self.is_long = false;
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let end = self.column + measure(&self.gap) + measure(&word);
        if end > self.columns && self.column > width(&self.hang) {
            self.end_row(&self.hang.clone());
        }
        for span in std::mem::take(&mut self.gap).into_iter().chain(word) {
            span.text.chars().for_each(|c| self.place(c, &span.codes));
        }
    }

    fn end_row(&mut self, hang: &str) {
        self.spans.push(Span::new(format!("\n{hang}"), PLAIN));
        (self.count, self.column, self.gap) = (self.count + 1, width(hang), Vec::new());
    }

    fn place(&mut self, c: char, codes: &[u8]) {
        let wide = if c == '\t' { 8 - self.column % 8 } else { width_of(c) };
        append(&mut self.spans, c, codes);
        if self.column + wide > self.columns {
            (self.count, self.column) = (self.count + 1, 0);
        }
        self.column += wide;
        self.is_unsure |=
            c == '\t' && self.column >= self.columns || c == '\u{fe0f}' && self.is_exact;
    }
}

/// The columns of pieces. Marks without a width count a little, too, so that no word is endless.
fn measure(spans: &[Span]) -> usize {
    spans.iter().map(|span| width(&span.text).max(span.text.len() / 8)).sum()
}

pub(super) fn append(spans: &mut Vec<Span>, c: char, codes: &[u8]) {
    match spans.last_mut() {
        Some(last) if last.codes == codes => last.text.push(c),
        _ => spans.push(Span { text: c.into(), codes: codes.to_vec() }),
    }
}

/// The text of pieces for a terminal, with their styles.
pub fn style_spans(spans: &[Span], has_colours: bool) -> String {
    let show = |span: &Span| {
        let text = escape_text(&span.text);
        if !has_colours || span.codes.is_empty() {
            return text;
        }
        let codes: Vec<String> = span.codes.iter().map(u8::to_string).collect();
        // Comes after everything that makes the text harmless.
        format!("\x1b[{}m{text}\x1b[0m", codes.join(";"))
    };
    spans.iter().map(show).collect()
}
