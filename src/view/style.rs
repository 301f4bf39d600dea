//! Lines for a terminal as pieces of text with styles, how they flow from row to row, and the one table of the styles.

use std::ops::Range;

use conversation::format::columns::{is_unsure, width, width_of, wrap};
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
/// Text that is struck through.
pub const STRUCK: Style = &[9];
/// A line that a change removed.
pub const RED: Style = &[31];
/// A line that a change added.
pub const GREEN: Style = &[32];
/// The place of a change, and code between words.
pub const CYAN: Style = &[36];
/// Types of a program.
pub const YELLOW: Style = &[33];
/// Functions of a program.
pub const BLUE: Style = &[94];
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
    ("yellow", YELLOW),
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

/// Pieces of a line on a terminal, with line feeds between their rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow {
    /// The pieces.
    pub spans: Vec<Span>,
    /// The number of rows below the first.
    pub rows: usize,
    /// The column of the cursor after it.
    pub column: usize,
    /// Whether a terminal may need other rows.
    pub is_unsure: bool,
}

impl Flow {
    /// Wraps a line at words: it begins at column `start`, and its other rows after `hang`. All of it is harmless.
    pub fn wrap(line: &[Span], start: usize, hang: &Span, columns: usize) -> Self {
        let text: String = line.iter().map(|span| span.text.as_str()).collect();
        let mut flow = Self { column: start, ..Self::default() };
        let rows = wrap(&text, start, width(&hang.text), columns);
        let (mut left, mut begins) = ((line, 0), true);
        for (at, (row, is_broken)) in rows.iter().enumerate() {
            let is_last = at + 1 == rows.len();
            let mut shown = row.clone();
            if !begins {
                shown.start = row.end - text[row.clone()].trim_start_matches(' ').len();
            }
            if !is_last && !is_broken {
                shown.end = shown.start + text[shown.clone()].trim_end_matches(' ').len();
            }
            flow.column += width(&text[shown.clone()]);
            left = cut(left, shown, &mut flow.spans);
            if is_last {
                break;
            }
            flow.rows += 1;
            flow.is_unsure |= *is_broken && text.contains(is_unsure);
            (flow.column, begins) = (0, *is_broken);
            if !is_broken {
                flow.spans.extend([Span::new("\n", PLAIN), hang.clone()]);
                flow.column = width(&hang.text);
            }
        }
        flow
    }

    /// A line that is shown exactly: the terminal breaks it.
    pub fn exact(line: Vec<Span>, start: usize, columns: usize) -> Self {
        let mut flow = Self { column: start, ..Self::default() };
        let mut is_odd = false;
        for c in line.iter().flat_map(|span| span.text.chars()) {
            let wide = if c == '\t' { 8 - flow.column % 8 } else { width_of(c) };
            is_odd |= c == '\t' || is_unsure(c);
            if flow.column + wide > columns {
                (flow.rows, flow.column) = (flow.rows + 1, 0);
            }
            flow.column += wide;
        }
        Self {
            is_unsure: is_odd && (flow.rows > 0 || flow.column + 8 > columns),
            spans: line,
            ..flow
        }
    }

    /// Appends a line below.
    pub fn push_line(&mut self, mut line: Self) {
        if !self.spans.is_empty() || self.rows > 0 {
            self.spans.push(Span::new("\n", PLAIN));
            self.rows += 1;
        }
        self.spans.append(&mut line.spans);
        (self.rows, self.column) = (self.rows + line.rows, line.column);
        self.is_unsure |= line.is_unsure;
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

/// Appends a range of a line to other pieces. Returns the pieces that are left, and the offset of the first.
fn cut<'a>(
    (mut line, mut from): (&'a [Span], usize),
    range: Range<usize>,
    into: &mut Vec<Span>,
) -> (&'a [Span], usize) {
    while let Some((span, rest)) = line.split_first() {
        let end = from + span.text.len();
        let part = range.start.max(from)..range.end.min(end);
        if part.start < part.end {
            let text = &span.text[part.start - from..part.end - from];
            into.push(Span { text: text.to_owned(), codes: span.codes.clone() });
        }
        if end > range.end {
            break;
        }
        (line, from) = (rest, end);
    }
    (line, from)
}
