//! Tables of Markdown: aligned columns where they fit, cells of several rows where they must, else the lines as they are.

use super::inline;
use crate::view::style::{BOLD, DIM, Flow, PLAIN, Span, Style};
use conversation::format::columns::width;

/// The columns between two cells.
const GAP: usize = 2;

/// The columns of a table: the width of each, and how its cells are aligned.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    columns: Vec<(usize, Align)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Align {
    Left,
    Center,
    Right,
}

/// Whether the second of two lines makes them the head of a table.
pub(super) fn is_head(first: &str, second: &str) -> bool {
    let marks = cells(second);
    let is_mark = |cell: &&str| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'));
    second.contains('|') && marks.iter().all(is_mark) && marks.len() == cells(first).len()
}

/// The cells of a line: between bars that are neither escaped nor in code.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut cells, mut from, mut is_escaped, mut is_code) = (Vec::new(), 0, false, false);
    for (at, c) in line.char_indices() {
        is_code ^= c == '`' && (is_code || line[at + 1..].contains('`'));
        if c == '|' && !is_escaped && !is_code {
            cells.push(line[from..at].trim());
            from = at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    if !line[from..].trim().is_empty() {
        cells.push(line[from..].trim());
    }
    cells
}

impl Grid {
    /// The columns for the first lines of a table: its head, its marks, and rows. `None` if they do not fit.
    pub(super) fn new(lines: &[&str], columns: usize) -> Option<Self> {
        let aligns = cells(lines[1]).into_iter().map(|mark| {
            match (mark.starts_with(':'), mark.ends_with(':')) {
                (true, true) => Align::Center,
                (false, true) => Align::Right,
                _ => Align::Left,
            }
        });
        // The width of each column, and of its longest word.
        let mut widths: Vec<(usize, usize, Align)> = aligns.map(|align| (1, 1, align)).collect();
        for (at, line) in lines.iter().enumerate().filter(|(at, _)| *at != 1) {
            let row = cells(line);
            for (cell, (most, word, _)) in row.iter().zip(&mut widths) {
                let text = plain_text(&inline::spans(cell, head_style(at)));
                let longest = text.split(' ').map(width).max().unwrap_or_default();
                (*most, *word) = ((*most).max(width(&text)).min(columns), (*word).max(longest));
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        let sum = |widths: &[(usize, usize, Align)]| {
            gaps + widths.iter().map(|(most, ..)| *most).sum::<usize>()
        };
        while sum(&widths) > columns {
            let can_shrink = widths.iter_mut().filter(|(most, word, _)| most > word);
            can_shrink.max_by_key(|(most, ..)| *most)?.0 -= 1;
        }
        Some(Self { columns: widths.into_iter().map(|(most, _, align)| (most, align)).collect() })
    }

    /// The line between the head and the rows.
    pub(super) fn rule(&self) -> Flow {
        let lines = self.columns.iter().map(|(most, _)| "─".repeat(*most));
        let text = lines.collect::<Vec<_>>().join(&" ".repeat(GAP));
        Flow { column: width(&text), spans: vec![Span::new(text, DIM)], ..Flow::default() }
    }

    /// The rows of a line. Cells that are too many are at its end.
    pub(super) fn line(&self, line: &str, is_first: bool) -> Flow {
        let mut row = cells(line);
        let more = row.split_off(row.len().min(self.columns.len())).join(" | ");
        let style = head_style(usize::from(!is_first));
        let columns: Vec<Vec<Vec<Span>>> = (self.columns.iter())
            .enumerate()
            .map(|(at, (most, _))| {
                let cell = inline::spans(row.get(at).copied().unwrap_or_default(), style);
                let flow = Flow::wrap(&cell, 0, &Span::default(), *most);
                flow.spans.split(|span| span.text == "\n").map(<[Span]>::to_vec).collect()
            })
            .collect();
        let mut flow = Flow::default();
        for at in 0..columns.iter().map(Vec::len).max().unwrap_or_default() {
            let (mut spans, mut owed) = (Vec::new(), 0);
            for (column, (most, align)) in columns.iter().zip(&self.columns) {
                let cell = column.get(at).map(Vec::as_slice).unwrap_or_default();
                let left = most.saturating_sub(width(&plain_text(cell)));
                let before = match align {
                    Align::Left => 0,
                    Align::Center => left / 2,
                    Align::Right => left,
                };
                if !cell.is_empty() {
                    spans.push(Span::new(" ".repeat(owed + before), PLAIN));
                    spans.extend_from_slice(cell);
                    owed = 0;
                }
                owed += if cell.is_empty() { most + GAP } else { left - before + GAP };
            }
            let column = width(&plain_text(&spans));
            flow.push_line(Flow { spans, column, ..Flow::default() });
        }
        if !more.is_empty() {
            let most = self.columns.iter().map(|(most, _)| most + GAP).sum();
            flow.push_line(Flow::wrap(&inline::spans(&more, style), 0, &Span::default(), most));
        }
        flow
    }
}

fn head_style(at: usize) -> Style {
    if at == 0 { BOLD } else { PLAIN }
}

fn plain_text(spans: &[Span]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}
