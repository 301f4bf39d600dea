//! An answer as Markdown on a terminal, while it streams.
//!
//! ```text
//! line     drawn raw, word by word, until it is complete; then it is replaced by what it means
//! segment  the first rows of a line of many: replaced as soon as there are more, where nothing in it is open
//! table    its lines are drawn raw until it ends, or until they fill the window; then its columns are fixed
//! fence    each line is coloured when it is complete; the terminal breaks it, and nothing is added to it
//! ```
//! The cursor goes up only over rows that were drawn since, in a window of the same size, and that are all in it. After a
//! resize the rest of the line is printed as it is. What is drawn in the end depends on the text and the window, not on how
//! the text was cut; the work for a byte is bounded. Pure: text in, text with control sequences out.

mod grid;
mod inline;

use self::grid::Grid;
use super::render::diff_style;
use super::style::{
    BLUE, BOLD, CYAN, DIM, Flow, GREEN, MAGENTA, PLAIN, Span, Style, UNDERLINED, YELLOW,
    style_spans,
};
use code::highlight::{Highlighter, Token};
use code::language::Language;
use conversation::format::columns::{is_unsure, width, wrap};
use conversation::format::harmless::escape_text;
use conversation::limits::HIGHLIGHTED_CODE;

/// The text is read in pieces of this size, so that a line of any length is only held in part.
const PIECE: usize = 1024;
/// Maximum number of rows of a line before its beginning is drawn for good.
const SEGMENT_ROWS: usize = 8;
/// Maximum width of a line across.
const RULE: usize = 40;

/// The state of an answer that streams.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Markdown {
    columns: usize,
    height: usize,
    /// A carriage return whose line feed may follow.
    is_cr_held: bool,
    /// Complete lines that may be a table.
    held: Vec<String>,
    /// The line that is not complete, without what is drawn for good.
    pending: String,
    /// The column where `held` and `pending` begin.
    column: usize,
    /// The raw text that is drawn of them, and how many bytes of theirs that is.
    drawn: Flow,
    drawn_text: String,
    drawn_bytes: usize,
    /// Whether what is drawn cannot be replaced.
    is_stuck: bool,
    /// The block of a line whose beginning is drawn for good.
    line: Option<Block>,
    fence: Option<Fence>,
    grid: Option<Grid>,
    is_in_list: bool,
    is_in_html: bool,
    /// Whether the last line had text that an indented line would continue.
    is_in_text: bool,
    highlighters: Vec<(Language, Highlighter)>,
    out: String,
}

/// A code block between fences.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    quotes: usize,
    colours: Colours,
}

enum Colours {
    None,
    /// A diff, and whether its heads may follow; unknown before its first line.
    Diff(Option<bool>),
    Code(Language),
}

/// What a line is.
#[derive(Clone)]
enum Block {
    /// Shown exactly.
    Exact(Vec<Span>),
    /// Wrapped at words: what is before its text, and before its other rows; and its style.
    Text { first: String, hang: String, style: Style, is_markdown: bool, from: usize },
}

impl Markdown {
    /// Begins an answer at this column.
    pub fn begin(&mut self, column: usize) {
        self.column = column;
    }

    /// Takes a piece of the answer, in a window of this size, and returns what to print.
    pub fn push(&mut self, text: &str, (columns, height): (usize, usize)) -> String {
        if (columns, height) != (self.columns, self.height) {
            let is_open = self.column > 0 || self.drawn_bytes > 0;
            self.is_stuck |= is_open && self.columns > 0;
            (self.columns, self.height) = (columns, height);
        }
        let mut text = if self.is_cr_held { format!("\r{text}") } else { text.to_owned() };
        self.is_cr_held = text.ends_with('\r');
        if self.is_cr_held {
            text.pop();
        }
        for line in escape_text(&text).split_inclusive('\n') {
            let (mut rest, is_complete) = (line.trim_end_matches('\n'), line.ends_with('\n'));
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
                if self.fence.is_some() {
                    self.pending.push_str(piece);
                } else {
                    self.pending.push_str(&piece.replace('\t', "    "));
                }
                rest = after;
                if !rest.is_empty() || !is_complete {
                    self.cut_segments(false);
                }
            }
            if is_complete {
                self.end_line();
            }
        }
        self.draw();
        std::mem::take(&mut self.out)
    }

    /// Ends the answer, and returns what to print.
    pub fn end(&mut self) -> String {
        if std::mem::take(&mut self.is_cr_held) {
            self.pending.push_str("\\u{d}");
        }
        if !self.pending.is_empty() || self.column > 0 {
            self.end_line();
        }
        self.end_table();
        let highlighters = std::mem::take(&mut self.highlighters);
        let (columns, height, out) = (self.columns, self.height, std::mem::take(&mut self.out));
        *self = Self { columns, height, highlighters, ..Self::default() };
        out
    }

    /// Ends the line that is pending.
    fn end_line(&mut self) {
        self.cut_segments(true);
        let line = std::mem::take(&mut self.pending);
        if self.line.is_none() && self.fence.is_none() && self.takes_table_line(&line) {
            return;
        }
        let block = match self.line.take() {
            Some(block) => block,
            None => self.block_of(&line),
        };
        let flow = self.lay_out(&block, &line);
        self.put_line(flow, line);
    }

    /// Whether a line belongs to a table, or may be its head: then it is held, or drawn as its row.
    fn takes_table_line(&mut self, line: &str) -> bool {
        let has_bar = line.contains('|') && !line.trim_start().starts_with('>');
        let is_next = match (self.held.first(), self.held.len(), &self.grid) {
            (_, _, Some(_)) => has_bar,
            (None, ..) => has_bar && self.column == 0 && self.block_name(line).is_none(),
            (Some(head), 1, _) => grid::is_head(head, line),
            _ => has_bar,
        } && !self.is_stuck;
        if !is_next {
            self.end_table();
            let is_new = has_bar && self.column == 0 && !self.is_stuck;
            if !(is_new && self.block_name(line).is_none()) {
                return false;
            }
        }
        if let Some(grid) = &self.grid {
            let flow = grid.line(line, false);
            self.put_line(flow, line.to_owned());
            return true;
        }
        self.held.push(line.to_owned());
        let rows: usize = self.held.iter().map(|line| self.lay_out_raw(line, 0).rows + 1).sum();
        if self.held.len() > 2 && rows + self.segment_rows() + 2 > self.height {
            self.put_table(true);
        }
        true
    }

    /// Ends a table, or shows the line that could have been its head.
    fn end_table(&mut self) {
        self.grid = None;
        if !self.held.is_empty() {
            self.put_table(false);
        }
    }

    /// Draws the lines that are held for good. `goes_on`: more rows may follow.
    fn put_table(&mut self, goes_on: bool) {
        let held = std::mem::take(&mut self.held);
        let lines: Vec<&str> = held.iter().map(String::as_str).collect();
        let grid = if lines.len() > 1 { Grid::new(&lines, self.columns) } else { None };
        let mut flow = Flow::default();
        for (at, line) in lines.iter().enumerate() {
            flow.push_line(match &grid {
                Some(grid) if at == 1 => grid.rule(),
                Some(grid) => grid.line(line, at == 0),
                None => {
                    let block = self.block_of(line);
                    self.lay_out(&block, line)
                }
            });
        }
        self.is_in_text = true;
        self.put_line(flow, lines.join("\n"));
        self.grid = grid.filter(|_| goes_on && !self.is_stuck);
    }

    fn segment_rows(&self) -> usize {
        (self.height / 3).clamp(1, SEGMENT_ROWS)
    }

    /// Draws the beginning of the line for good, while it has too many rows.
    fn cut_segments(&mut self, is_complete: bool) {
        loop {
            let seen = self.visible_len(is_complete);
            let column = if self.held.is_empty() { self.column } else { 0 };
            if self.lay_out_raw(&self.pending[..seen], column).rows < self.segment_rows() {
                return;
            }
            self.end_table();
            let mut most = seen;
            if let Some(fence) = &mut self.fence {
                // A line that is not parsed: the rest of the code has no colours.
                fence.colours = Colours::None;
                self.line = Some(Block::Exact(Vec::new()));
            } else {
                let rows = wrap(&self.pending[..seen], self.column, 0, self.columns);
                most = rows.get(self.segment_rows() - 1).map_or(seen, |(row, _)| row.end.max(1));
            }
            let most = self.pending.ceil_char_boundary(most);
            let start = self.pending[..most].to_owned();
            let block = self.line.take().unwrap_or_else(|| self.block_of(&start));
            let end = match &block {
                Block::Text { from, is_markdown: true, .. } => {
                    let cut = inline::last_cut(&self.pending[*from..most]);
                    cut.filter(|cut| *cut > 0).map_or(most, |cut| from + cut)
                }
                _ => most,
            };
            let rest = self.pending.split_off(end);
            let part = std::mem::replace(&mut self.pending, rest);
            let flow = self.lay_out(&block, &part);
            let column = std::mem::replace(&mut self.column, flow.column);
            self.put(&flow, &part, column);
            // The rest is printed as it is where its column is not sure.
            self.is_stuck |= self.fence.is_none() && part.contains(is_unsure);
            self.line = Some(match block {
                Block::Text { hang, style, is_markdown, .. } => {
                    Block::Text { first: String::new(), hang, style, is_markdown, from: 0 }
                }
                Block::Exact(_) => Block::Exact(Vec::new()),
            });
        }
    }

    /// The length of what is drawn of the line that is pending: its last word may still grow.
    fn visible_len(&self, is_complete: bool) -> usize {
        let word = self.pending.rfind(' ').map_or(0, |at| at + 1);
        let is_whole =
            is_complete || self.fence.is_some() || width(&self.pending[word..]) > self.columns;
        if is_whole { self.pending.len() } else { word }
    }

    fn lay_out_raw(&self, text: &str, column: usize) -> Flow {
        let spans = vec![Span::new(text, PLAIN)];
        match self.fence {
            Some(_) => Flow::exact(spans, column, self.columns),
            None => Flow::wrap(&spans, column, &Span::default(), self.columns),
        }
    }

    /// Draws what is pending as it is.
    fn draw(&mut self) {
        if self.is_stuck {
            self.end_table();
            self.out.push_str(self.pending.get(self.drawn_bytes..).unwrap_or_default());
            self.drawn_bytes = self.pending.len();
            return;
        }
        let seen = self.visible_len(false);
        let mut flow = Flow { column: self.column, ..Flow::default() };
        let mut bytes = seen;
        for line in &self.held {
            flow.push_line(self.lay_out_raw(line, 0));
            bytes += line.len() + 1;
        }
        let column = if self.held.is_empty() { self.column } else { 0 };
        let line = self.lay_out_raw(&self.pending[..seen], column);
        if !self.held.is_empty() || seen > 0 {
            flow.push_line(line);
        }
        let text = style_spans(&flow.spans, false);
        self.replace(&text, self.column);
        self.is_stuck |= flow.is_unsure || flow.rows + 1 >= self.height.max(2);
        (self.drawn, self.drawn_text, self.drawn_bytes) = (flow, text, bytes);
    }

    /// Prints a text where something is drawn already, from this column on.
    fn replace(&mut self, text: &str, column: usize) {
        if let Some(rest) = text.strip_prefix(&self.drawn_text) {
            return self.out.push_str(rest);
        }
        self.out.push('\r');
        if self.drawn.rows > 0 {
            // From the second row: tmux keeps a whole screen that is cleared, with what is to be replaced.
            let up = self.drawn.rows - 1;
            self.out.push_str(&if up > 0 { format!("\x1b[{up}A") } else { String::new() });
            self.out.push_str("\x1b[J\x1b[A");
        }
        if column > 0 {
            self.out.push_str(&format!("\x1b[{column}C"));
        }
        self.out.push_str("\x1b[K");
        self.out.push_str(text);
    }

    /// Draws the first lines of what is held and pending for good.
    fn put_line(&mut self, mut flow: Flow, mut raw: String) {
        flow.spans.push(Span::new("\n", PLAIN));
        raw.push('\n');
        let column = std::mem::take(&mut self.column);
        self.put(&flow, &raw, column);
        self.is_stuck = self.drawn_bytes > 0;
    }

    /// Draws the first bytes of what is held and pending for good, where they are not drawn already.
    fn put(&mut self, flow: &Flow, raw: &str, column: usize) {
        if self.is_stuck {
            self.out.push_str(raw.get(self.drawn_bytes..).unwrap_or_default());
            self.drawn_bytes = self.drawn_bytes.saturating_sub(raw.len());
        } else {
            self.replace(&style_spans(&flow.spans, true), column);
            self.drawn_bytes = 0;
        }
        (self.drawn, self.drawn_text) = (Flow::default(), String::new());
    }

    /// The rows of a block, or of the rest of its line.
    fn lay_out(&self, block: &Block, line: &str) -> Flow {
        match block {
            Block::Exact(spans) if self.line.is_none() && !spans.is_empty() => {
                Flow::exact(spans.clone(), self.column, self.columns)
            }
            Block::Exact(_) => Flow::exact(vec![Span::new(line, PLAIN)], self.column, self.columns),
            Block::Text { first, hang, style, is_markdown, from } => {
                let text = line.get(*from..).unwrap_or_default();
                let mut spans = vec![Span::new(first.as_str(), PLAIN)];
                if *is_markdown {
                    spans.extend(inline::spans(text, style));
                } else {
                    spans.push(Span::new(text, style));
                }
                let hang = Span::new(hang.as_str(), PLAIN);
                Flow::wrap(&spans, self.column, &hang, self.columns)
            }
        }
    }

    /// The name of a block that is no paragraph, for a line outside of a fence.
    fn block_name(&self, line: &str) -> Option<&'static str> {
        let text = line.trim_start();
        match () {
            () if open_fence(line).is_some() => Some("fence"),
            () if self.is_in_html || is_html(text) => Some("html"),
            () if !self.is_in_text && !self.is_in_list && line.starts_with("    ") => Some("code"),
            () if is_rule(text) => Some("rule"),
            () => None,
        }
    }

    /// Decides what a line is, and what it means for the next.
    fn block_of(&mut self, line: &str) -> Block {
        if let Some(fence) = self.fence.take() {
            return self.fence_line(fence, line);
        }
        let plain = |text: &str, style| Block::Exact(vec![Span::new(text, style)]);
        let name = self.block_name(line);
        if line.trim().is_empty() {
            (self.is_in_text, self.is_in_html) = (false, false);
            return plain(line, PLAIN);
        }
        self.is_in_text = name != Some("code");
        match name {
            Some("fence") => {
                self.fence = open_fence(line).map(|(fence, word)| self.with_colours(fence, word));
                plain(line, DIM)
            }
            Some("code") => plain(line, PLAIN),
            Some("rule") => plain(&"─".repeat(self.columns.min(RULE)), DIM),
            Some(_) => {
                self.is_in_html = true;
                let (first, hang) = (String::new(), String::new());
                Block::Text { first, hang, style: PLAIN, is_markdown: false, from: 0 }
            }
            None => {
                let (block, is_item) = text_block(line, self.columns / 2);
                self.is_in_list = is_item || self.is_in_list && line.starts_with(' ');
                block
            }
        }
    }

    fn with_colours(&mut self, fence: Fence, word: &str) -> Fence {
        if matches!(word, "diff" | "patch") {
            return Fence { colours: Colours::Diff(None), ..fence };
        }
        let Some(language) = Language::from_name(word) else { return fence };
        match self.highlighters.iter_mut().find(|(known, _)| *known == language) {
            Some((_, highlighter)) => highlighter.clear(),
            None => match Highlighter::new(language) {
                Some(highlighter) => self.highlighters.push((language, highlighter)),
                None => return fence,
            },
        }
        Fence { colours: Colours::Code(language), ..fence }
    }

    /// A line within a fence, or its end.
    fn fence_line(&mut self, mut fence: Fence, line: &str) -> Block {
        let (quotes, code) = strip_quotes(line, fence.quotes);
        if quotes < fence.quotes {
            return self.block_of(line);
        }
        let text = code.trim();
        let is_end = text.len() >= fence.length && text.chars().all(|c| c == fence.mark);
        if is_end {
            return Block::Exact(vec![Span::new(line, DIM)]);
        }
        let indent = code.len() - code.trim_start_matches(' ').len();
        let code = &code[indent.min(fence.indent)..];
        let mut spans = vec![Span::new("│ ".repeat(quotes), PLAIN)];
        match &mut fence.colours {
            Colours::Diff(is_head) => {
                let is_head = is_head.get_or_insert_with(|| {
                    ["--- ", "diff ", "index "].iter().any(|head| code.starts_with(head))
                });
                spans.push(Span::new(code, diff_style(code, is_head)));
            }
            Colours::Code(language) => match self.highlight(*language, code) {
                Some(coloured) => spans.extend(coloured),
                None => fence.colours = Colours::None,
            },
            Colours::None => {}
        }
        if matches!(fence.colours, Colours::None) {
            spans.push(Span::new(code, PLAIN));
        }
        self.fence = Some(fence);
        Block::Exact(spans)
    }

    /// A line of code with the colours of its tokens. `None` if there is too much, or if it cannot be parsed.
    fn highlight(&mut self, language: Language, code: &str) -> Option<Vec<Span>> {
        let (_, highlighter) =
            self.highlighters.iter_mut().find(|(known, _)| *known == language)?;
        if highlighter.text_len() + code.len() > HIGHLIGHTED_CODE {
            return None;
        }
        let (mut spans, mut at) = (Vec::new(), 0);
        for (range, token) in highlighter.push_line(code)? {
            spans.push(Span::new(&code[at..range.start], PLAIN));
            spans.push(Span::new(&code[range.clone()], style_of(token)));
            at = range.end;
        }
        spans.push(Span::new(&code[at..], PLAIN));
        spans.retain(|span| !span.text.is_empty());
        Some(spans)
    }
}

fn style_of(token: Token) -> Style {
    match token {
        Token::Comment => DIM,
        Token::Constant | Token::Name => CYAN,
        Token::Function => BLUE,
        Token::Keyword => MAGENTA,
        Token::String => GREEN,
        Token::Type => YELLOW,
    }
}

/// The number of marks of a quote before a line, up to `most`, and the rest of it.
fn strip_quotes(line: &str, most: usize) -> (usize, &str) {
    let (mut rest, mut count) = (line, 0);
    while count < most
        && let Some(after) = rest.trim_start_matches(' ').strip_prefix('>')
    {
        (rest, count) = (after.strip_prefix(' ').unwrap_or(after), count + 1);
    }
    (count, rest)
}

/// The fence that a line opens, and the word for its language.
fn open_fence(line: &str) -> Option<(Fence, &str)> {
    let (quotes, rest) = strip_quotes(line, usize::MAX);
    let text = rest.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = text.trim_start_matches(mark);
    let (length, indent) = (text.len() - info.len(), rest.len() - text.len());
    let word = info.split_whitespace().next().unwrap_or_default();
    let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then_some((Fence { mark, length, indent, quotes, colours: Colours::None }, word))
}

/// Whether a line begins with a tag of HTML, and not with an address.
fn is_html(text: &str) -> bool {
    let Some(tag) = text.strip_prefix('<') else { return false };
    let name = tag.split('>').next().unwrap_or_default();
    tag.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'))
        && !name.contains("://")
        && !name.contains('@')
}

fn is_rule(text: &str) -> bool {
    let Some(mark) = text.chars().next().filter(|c| matches!(c, '-' | '*' | '_')) else {
        return false;
    };
    let marks = text.chars().filter(|c| *c == mark).count();
    marks >= 3 && text.chars().all(|c| c == mark || c == ' ')
}

/// A paragraph, a heading, a quote or an item, or some within others; and whether there is an item. What is before its
/// text has at most this many columns.
fn text_block(line: &str, most: usize) -> (Block, bool) {
    let (mut first, mut hang, mut is_item) = (String::new(), String::new(), false);
    let mut rest = line;
    loop {
        let text = rest.trim_start_matches(' ');
        let indent = " ".repeat((rest.len() - text.len()).min(most.saturating_sub(width(&first))));
        first.push_str(&indent);
        hang.push_str(&indent);
        rest = text;
        if width(&first) >= most {
            break;
        }
        if let Some(after) = text.strip_prefix('>') {
            first.push_str("│ ");
            hang.push_str("│ ");
            rest = after.strip_prefix(' ').unwrap_or(after);
        } else if let Some((mark, after)) = list_mark(text) {
            first.push_str(&mark);
            hang.push_str(&" ".repeat(width(&mark)));
            (rest, is_item) = (after, true);
            let task = [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")];
            let task = task.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, to)));
            if let Some((after, shown)) = task {
                first.push_str(shown);
                hang.push_str("  ");
                rest = after;
                break;
            }
        } else {
            break;
        }
    }
    let level = rest.len() - rest.trim_start_matches('#').len();
    let after = &rest[level..];
    let mut style = PLAIN;
    if (1..=6).contains(&level) && (after.is_empty() || after.starts_with(' ')) {
        style = if level == 1 { TITLE } else { BOLD };
        rest = after.trim_start_matches(' ');
    }
    let from = line.len() - rest.len();
    (Block::Text { first, hang, style, is_markdown: true, from }, is_item)
}

/// The style of the first heading.
const TITLE: Style = &[BOLD[0], UNDERLINED[0]];

/// The mark of an item, as it is shown, and the text after it.
fn list_mark(text: &str) -> Option<(String, &str)> {
    if let Some(after) = text.strip_prefix(['-', '*', '+']) {
        let after = if after.is_empty() { after } else { after.strip_prefix(' ')? };
        return Some(("• ".to_owned(), after));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = text[digits..].strip_prefix(['.', ')'])?.strip_prefix(' ')?;
    (1..=9).contains(&digits).then(|| (format!("{} ", &text[..=digits]), after))
}

#[cfg(test)]
mod tests;
