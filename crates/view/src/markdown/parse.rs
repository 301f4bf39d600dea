//! The meaning of one line of Markdown, or of the lines of a table: pulldown-cmark's events as pieces with styles.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::style::{BOLD, CYAN, DIM, ITALIC, PLAIN, Span, Style, UNDERLINED};
use crate::table::format_table;
use conversation::format::columns::{width, wrap_line};
use conversation::format::harmless::escape_text;

/// A line, or a table.
#[derive(Default)]
pub(super) struct Block {
    pub(super) spans: Vec<Span>,
    /// The text before its rows below the first.
    pub(super) hang: String,
    pub(super) is_item: bool,
    /// The marks that open and close a fence, and the words after them.
    pub(super) fence: Option<(String, String)>,
    codes: Vec<u8>,
    /// The links that are open: where their text begins, and their address.
    links: Vec<(usize, String)>,
    has_text: bool,
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

/// The meaning of a line without the blanks before it, in a window of this width.
pub(super) fn parse(line: &str, columns: usize) -> Block {
    let mut block = Block::default();
    for (event, range) in Parser::new_ext(line, Options::ENABLE_TABLES).into_offset_iter() {
        let source = &line[range.start..];
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                if let CodeBlockKind::Fenced(word) = kind {
                    // Within a quote, the lines of the fence are quoted as well.
                    let before = if line.starts_with('>') { &line[..range.start] } else { "" };
                    let count = source.len() - source.trim_start_matches(&source[..1]).len();
                    block.fence = Some((before.to_owned() + &source[..count], word.into_string()));
                }
                block.has_text = false;
                break;
            }
            Event::Start(tag) => block.start(tag, source),
            Event::End(tag) => block.end(tag),
            Event::Code(text) => block.push(&text, CYAN),
            Event::Text(text) => {
                // A backslash of a formula or a path is no escape of Markdown's.
                let is_formula = text.starts_with(['(', ')', '[', ']', '{', '}', '\\']);
                if is_formula && line[..range.start].ends_with('\\') {
                    block.push("\\", PLAIN);
                }
                block.push(&text, PLAIN);
            }
            Event::InlineHtml(text) | Event::Html(text) => block.push(&text, PLAIN),
            Event::Rule => block.push(&"─".repeat(columns.min(40)), DIM),
            _ => {}
        }
    }
    if block.fence.is_some() || !block.has_text && line.contains(char::is_alphanumeric) {
        // Code, or an address that is named elsewhere.
        let style = if block.fence.is_some() { DIM } else { PLAIN };
        (block.spans, block.hang) = (vec![Span::new(line, style)], String::new());
    }
    block
}

/// The rows of a table, with long cells on several lines. `None` if the lines are none, have too many cells, or do not fit.
pub(super) fn align_table(lines: &str, columns: usize) -> Option<Vec<Span>> {
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let most = bars(lines.lines().next()?);
    let Block { rows, alignments, .. } = parse(lines, columns);
    if rows.len() + 1 != lines.lines().count() || lines.lines().any(|line| bars(line) > most) {
        return None;
    }
    let is_right = |at: &usize| alignments[*at] == Alignment::Right;
    let right: Vec<usize> = (0..alignments.len()).filter(is_right).collect();
    let rows = wrap_cells(&rows, columns)?;
    let text = format_table(&rows.concat(), &right);
    let widest = text.lines().map(width).max()?;
    let end_of_head = text.match_indices('\n').nth(rows[0].len() - 1)?.0;
    let (head, rest) = text.split_at(end_of_head);
    let (rule, rest) = (format!("\n{}\n", "─".repeat(widest)), rest.trim_matches('\n'));
    Some(vec![Span::new(head, BOLD), Span::new(rule, DIM), Span::new(rest, PLAIN)])
}

/// The lines of each row, where no column is wider than the window has room for.
fn wrap_cells(rows: &[Vec<String>], columns: usize) -> Option<Vec<Vec<Vec<String>>>> {
    let count = rows.iter().map(Vec::len).max()?;
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at));
    let widths: Vec<usize> =
        (0..count).map(|at| cells(at).map(|cell| width(cell)).max().unwrap_or(0)).collect();
    let fits =
        |most: &usize| widths.iter().map(|width| width.min(most) + 2).sum::<usize>() <= columns + 2;
    // Narrower columns would break words.
    let most = (8..=columns.max(8)).rev().find(fits)?;
    let wrap = |row: &Vec<String>| {
        let cells: Vec<Vec<&str>> = row.iter().map(|cell| wrap_line(cell, most)).collect();
        let lines = 0..cells.iter().map(Vec::len).max().unwrap_or(1);
        let part =
            |cell: &Vec<&str>, at| cell.get(at).map_or("", |it: &&str| it.trim_end()).to_owned();
        lines.map(|at| cells.iter().map(|cell| part(cell, at)).collect()).collect()
    };
    Some(rows.iter().map(wrap).collect())
}

impl Block {
    /// Adds a piece. An entity may be any character.
    fn push(&mut self, text: &str, style: Style) {
        self.has_text = true;
        let text = escape_text(&text.replace('\n', " "));
        self.spans.push(Span { text, codes: [&self.codes, style].concat() });
    }

    fn start(&mut self, tag: Tag<'_>, source: &str) {
        match tag {
            Tag::Heading { .. } => self.codes.extend([BOLD, UNDERLINED].concat()),
            Tag::BlockQuote(_) => {
                self.spans.push(Span::new("│ ", PLAIN));
                self.hang.push_str("│ ");
            }
            Tag::Item => {
                let mark = source.split_inclusive(' ').next().unwrap_or_default();
                self.spans.push(Span::new(mark.replace(['-', '*', '+'], "•"), PLAIN));
                self.hang.push_str(&" ".repeat(mark.len()));
                self.is_item = true;
            }
            Tag::Strong => self.codes.extend(BOLD),
            Tag::Emphasis => self.codes.extend(ITALIC),
            Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. } => {
                self.codes.extend(UNDERLINED);
                let address = format!("{dest_url} {title}").trim_end().to_owned();
                self.links.push((self.spans.len(), address));
            }
            Tag::Table(alignments) => self.alignments = alignments,
            Tag::TableHead | Tag::TableRow => self.rows.push(Vec::new()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis => drop(self.codes.pop()),
            TagEnd::TableCell => {
                let cell = text_of(&std::mem::take(&mut self.spans));
                self.rows.last_mut().into_iter().for_each(|row| row.push(cell.clone()));
            }
            TagEnd::Link | TagEnd::Image => {
                self.codes.pop();
                let Some((from, address)) = self.links.pop() else { return };
                if text_of(self.spans.get(from..).unwrap_or_default()) != address {
                    self.push(&format!(" ({address})"), DIM);
                }
            }
            _ => {}
        }
    }
}

fn text_of(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}
