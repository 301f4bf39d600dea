//! An answer as Markdown on a terminal, while it streams.
//!
//! ```text
//! line    drawn raw, word by word, until it is complete; then it is replaced by what it means
//! table   its lines are drawn raw until it ends; then its columns are aligned, if they fit
//! fence   each line is coloured when it is complete; the terminal breaks it, and nothing is added to it
//! ```
//! A line or a table that fills the window stays raw, and so does one during which the window was resized: the cursor goes
//! up only over rows that were drawn since, and that are all in the window. Pure: text in, text with control sequences out.

mod parse;

use super::style::{CYAN, DIM, GREEN, MAGENTA, PLAIN, RED, Rows, Span, Style, append, style_spans};
use code::highlight::Highlighter;
use code::language::Language;
use conversation::format::harmless::escape_text;
use conversation::limits::HIGHLIGHTED_CODE;

/// The state of an answer that streams.
#[derive(Default)]
pub struct Markdown {
    /// The columns and rows of the window.
    window: (usize, usize),
    /// The column where the first line begins.
    start: usize,
    /// Complete lines that may be a table, and the line that is not complete.
    table: String,
    line: String,
    /// Both of them raw; and the part that is drawn, with the rows below its first.
    raw: Rows,
    drawn: (String, usize),
    /// Whether what is drawn cannot be replaced.
    is_stuck: bool,
    is_in_list: bool,
    fence: Option<Fence>,
    pieces: Pieces,
    out: String,
}

/// The pieces of a text on its way to a terminal: the last character, and a joiner after it, which may join it to the next one.
#[derive(Debug, Default)]
pub struct Pieces(String);

impl Pieces {
    /// Shows hidden characters of the next piece. A joiner at its end waits for the one after it.
    pub fn escape(&mut self, piece: &str) -> String {
        let known = std::mem::take(&mut self.0);
        let shown = known.chars().next().map_or(0, |c| escape_text(&c.to_string()).len());
        let text = known + &piece.replace(['\r', '\u{ad}', '\u{61c}', '\u{200e}', '\u{200f}'], "");
        let whole = text.strip_suffix(['\u{200c}', '\u{200d}']).unwrap_or(&text);
        let last = whole.char_indices().next_back().map_or(0, |(at, _)| at);
        text[last..].clone_into(&mut self.0);
        escape_text(whole).split_off(shown)
    }
}

/// The text of what is raw. It is harmless already, and a joiner at its beginning belongs to what was drawn before.
fn raw_text(spans: Vec<Span>) -> String {
    spans.into_iter().map(|span| span.text).collect()
}

/// A code block between fences.
struct Fence {
    marks: String,
    is_diff: bool,
    code: Option<Highlighter>,
}

impl Markdown {
    /// Begins an answer at this column.
    pub fn begin(&mut self, column: usize) {
        (self.start, self.raw.column) = (column, column);
    }

    /// Takes a piece of the answer, in a window of this size, and returns what to print.
    pub fn push(&mut self, text: &str, window: (usize, usize)) -> String {
        if window != self.window {
            if self.window.0 > 0 {
                self.keep_drawn();
            }
            (self.window, self.raw.columns) = (window, window.0);
        }
        for part in self.pieces.escape(text).split_inclusive('\n') {
            match part.starts_with('|') {
                _ if !self.line.is_empty() || self.table.is_empty() => {}
                true => self.raw.push("\n", PLAIN),
                false => self.end_table(),
            }
            let text = part.trim_end_matches('\n');
            self.raw.push(text, PLAIN);
            // It may still open a fence.
            if !self.is_stuck || self.line.len() < 200 {
                self.line.push_str(text);
            }
            if text.len() < part.len() {
                self.end_line();
            }
        }
        self.draw();
        std::mem::take(&mut self.out)
    }

    /// Leaves what is drawn as it is, since it is no longer certain where it is: another program has written below it.
    pub fn keep_drawn(&mut self) {
        self.is_stuck |= self.start > 0 || !self.drawn.0.is_empty();
    }

    /// Ends the answer, and returns what to print.
    pub fn end(&mut self) -> String {
        if !self.line.is_empty() || self.is_stuck || self.start > 0 {
            self.end_line();
        }
        if !self.table.is_empty() {
            self.end_table();
        }
        let (window, out) = (self.window, std::mem::take(&mut self.out));
        *self = Self { window, raw: Rows::new(window.0, 0, ""), ..Self::default() };
        out
    }

    /// Draws what is raw.
    fn draw(&mut self) {
        let text = raw_text(std::mem::take(&mut self.raw.spans));
        self.out.push_str(&text);
        let is_full = self.raw.count + 1 >= self.window.1 && !text.is_empty();
        self.is_stuck |= self.raw.is_unsure || is_full;
        if !self.is_stuck {
            self.drawn = (std::mem::take(&mut self.drawn.0) + &text, self.raw.count);
        }
    }

    fn end_line(&mut self) {
        let is_row = self.line.starts_with('|') && self.fence.is_none() && !self.is_stuck;
        let line = std::mem::take(&mut self.line);
        if is_row {
            self.table.push_str(&(line + "\n"));
        } else {
            let shown = self.show_line(&line);
            self.put(&shown);
        }
    }

    fn end_table(&mut self) {
        let lines = std::mem::take(&mut self.table);
        let shown = parse::align_table(&lines, self.window.0).unwrap_or_else(|| {
            let rows = lines.lines().map(|line| self.show_line(line));
            rows.collect::<Vec<_>>().join(&Span::new("\n", PLAIN))
        });
        self.put(&shown);
    }

    /// Draws lines for good, in place of what is drawn.
    fn put(&mut self, shown: &[Span]) {
        let (drawn, rows) = std::mem::take(&mut self.drawn);
        if self.is_stuck {
            self.out.push_str(&raw_text(self.raw.finish()));
        } else {
            let text = style_spans(shown, true);
            if let Some(rest) = text.strip_prefix(&drawn) {
                self.out.push_str(rest);
            } else {
                let right = if self.start > 0 { &format!("\x1b[{}C", self.start) } else { "" };
                let up = "\x1b[K\x1b[A".repeat(rows);
                self.out.push_str(&format!("\r{up}{right}\x1b[K{text}"));
            }
        }
        self.out.push('\n');
        self.raw = Rows::new(self.window.0, 0, "");
        self.raw.is_exact = self.fence.is_some();
        (self.start, self.is_stuck) = (0, false);
        self.table.clear();
    }

    /// Formats a complete line, and notes what it means for the next.
    fn show_line(&mut self, line: &str) -> Vec<Span> {
        if let Some(fence) = self.fence.take() {
            return self.show_code(fence, line);
        }
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        if indent > 3 && !self.is_in_list || text.is_empty() {
            return vec![Span::new(line, PLAIN)];
        }
        let block = parse::parse(text, self.window.0);
        self.is_in_list = block.is_item || self.is_in_list && indent > 0;
        if let Some((marks, word)) = block.fence {
            let word = word.split([' ', ',', '{']).next().unwrap_or_default();
            let is_diff = matches!(word, "diff" | "patch");
            let code = Language::from_name(word).and_then(Highlighter::new);
            self.fence = Some(Fence { marks, is_diff, code });
        }
        let indent = " ".repeat(indent);
        let mut rows = Rows::new(self.window.0, self.start, &(indent.clone() + &block.hang));
        rows.push(&indent, PLAIN);
        block.spans.iter().for_each(|span| rows.push(&span.text, &span.codes));
        rows.finish()
    }

    /// Shows a line within a fence, or its end.
    fn show_code(&mut self, mut fence: Fence, line: &str) -> Vec<Span> {
        let mark = &fence.marks[fence.marks.len() - 1..];
        let after = line.trim().strip_prefix(&fence.marks);
        if after.is_some_and(|after| after.trim_start_matches(mark).is_empty()) {
            return vec![Span::new(line, DIM)];
        }
        let style = match line.as_bytes() {
            [b'-', ..] if fence.is_diff => RED,
            [b'+', ..] if fence.is_diff => GREEN,
            [b'@', ..] if fence.is_diff => CYAN,
            _ => PLAIN,
        };
        let names = fence.code.as_mut().and_then(|code| code.push_line(line, HIGHLIGHTED_CODE));
        let mut shown = Vec::new();
        for (at, c) in line.char_indices() {
            let style = names.as_ref().map_or(style, |names| style_of(names[at]));
            append(&mut shown, c, style);
        }
        fence.code = fence.code.filter(|_| names.is_some());
        self.fence = Some(fence);
        shown
    }
}

/// The style of what a query names so.
fn style_of(name: &str) -> Style {
    match name.split('.').next().unwrap_or_default() {
        "comment" => DIM,
        "keyword" | "tag" => MAGENTA,
        "string" => GREEN,
        "attribute" | "boolean" | "constant" | "number" | "property" | "type" => CYAN,
        _ => PLAIN,
    }
}

#[cfg(test)]
mod tests;
