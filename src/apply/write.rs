//! What is written at a place that was found. Every byte that it writes is the file's, or one that the replacement asks for.
//!
//! Search and replacement are compared line by line, as their author wrote them. What they share is taken from the file as it is there;
//! the rest is new, and gets the file's indentation and line ends.

use super::find::Place;
use super::indent::Reindent;
use super::lines::{Line, core, indent, is_blank, plain, trim_end};
use super::{How, indent::Shift};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// The new text of a place, and how many lines that cost.
#[derive(Debug)]
pub(super) struct Written {
    pub text: String,
    pub removed: usize,
    pub added: usize,
}

/// Why it is not certain what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// A new line would start before the margin.
    Margin,
    /// The replacement may be meant in the search's indentation or in the file's.
    Indentation,
    /// New lines belong where the file has a blank line (its index) that the block does not show.
    BlankLine(usize),
}

enum Piece {
    /// A line of the file, as it is.
    Keep(usize),
    /// A new line, with the file's line whose end it takes.
    New { text: String, like: usize },
}

struct Writer<'a> {
    place: &'a Place,
    search: Vec<Line<'a>>,
    /// As in the place, for `search`.
    map: Vec<Option<usize>>,
    /// As in the place; none when `search` has been given the blank line that it lacked.
    gap: Option<(usize, usize)>,
    replace: &'a [Line<'a>],
    file: &'a [Line<'a>],
    reindent: Reindent<'a>,
    /// The author leaves blanks at the ends of lines where the file has none.
    stray: bool,
    /// Typographic characters that the author wrote where the file has plain ones, throughout.
    typographic: Vec<char>,
    pieces: Vec<Piece>,
    /// The next line of the file to take an end from.
    at: usize,
}

/// Writes a block at its place.
pub(super) fn write<'a>(
    place: &'a Place,
    search: &'a [Line<'a>],
    replace: &'a [Line<'a>],
    file: &'a [Line<'a>],
) -> Result<Written, Unclear> {
    let pairs: Vec<_> = search
        .iter()
        .zip(&place.map)
        .filter_map(|(s, f)| f.map(|f| (s.text, file[f].text)))
        .collect();
    let reindent =
        Reindent::new(&place.shift, &pairs, replace, file).ok_or(Unclear::Indentation)?;
    let ends_in_blank = |text: &str| trim_end(text).len() < text.len();
    let stray = place.how >= How::Trailing
        && pairs.iter().any(|(s, f)| ends_in_blank(s) && !ends_in_blank(f) && !is_blank(s));
    let typographic = typographic(&pairs);
    let pieces = Vec::with_capacity(replace.len());
    let at = place.lines.start;
    let (mut search, mut map, mut gap) = (search.to_vec(), place.map.clone(), place.gap);
    let mut ops = compare(&search, replace);
    if let Some((before, blank)) = gap {
        // The replacement may well have the blank line that the search lacks: then it is shared.
        let mut whole = search.clone();
        whole.insert(before, Line { text: "", ..file[blank] });
        let whole_ops = compare(&whole, replace);
        if shared(&whole_ops) > shared(&ops) {
            (search, ops, gap) = (whole, whole_ops, None);
            map.insert(before, Some(blank));
        }
    }
    let mut writer =
        Writer { place, search, map, gap, replace, file, reindent, stray, typographic, pieces, at };
    writer.all(&ops)?;
    Ok(writer.finish())
}

/// Line by line, as their author wrote them; how lines end does not count.
fn compare(search: &[Line], replace: &[Line]) -> Vec<DiffOp> {
    let old: Vec<&str> = search.iter().map(|line| line.text).collect();
    let new: Vec<&str> = replace.iter().map(|line| line.text).collect();
    capture_diff_slices(Algorithm::Myers, &old, &new)
}

fn shared(ops: &[DiffOp]) -> usize {
    ops.iter().map(|op| if let DiffOp::Equal { len, .. } = op { *len } else { 0 }).sum()
}

impl Writer<'_> {
    fn all(&mut self, ops: &[DiffOp]) -> Result<(), Unclear> {
        for (index, op) in ops.iter().enumerate() {
            let (old, new) = (op.old_range(), op.new_range());
            if self.gap.is_some_and(|(before, _)| before == old.start && !old.is_empty()) {
                self.gap_after(&ops[..index])?;
            }
            match op {
                DiffOp::Equal { .. } => {
                    let inserts = |op: Option<&DiffOp>| {
                        op.is_some_and(|op| matches!(op, DiffOp::Insert { .. }))
                    };
                    let before = index > 0 && inserts(ops.get(index - 1));
                    self.equal(&old, before, inserts(ops.get(index + 1)));
                }
                DiffOp::Delete { .. } => self.pass(&old),
                DiffOp::Insert { .. } => self.new_lines(&(old.start..old.start), &new)?,
                DiffOp::Replace { .. } => {
                    let gap = self
                        .place
                        .gap
                        .filter(|(before, _)| old.start < *before && *before < old.end);
                    match gap {
                        // Line by line the same number: the blank line stays between the same two.
                        Some((before, blank)) => {
                            if old.len() != new.len() {
                                return Err(Unclear::BlankLine(blank));
                            }
                            let middle = new.start + before - old.start;
                            self.new_lines(&(old.start..before), &(new.start..middle))?;
                            self.pieces.push(Piece::Keep(blank));
                            self.new_lines(&(before..old.end), &(middle..new.end))?;
                        }
                        None => self.new_lines(&old, &new)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// A blank line of the file that neither search nor replacement has, after a stretch of the comparison: it stays,
    /// unless it is just where something is inserted, which may belong before it or after it.
    fn gap_after(&mut self, before: &[DiffOp]) -> Result<(), Unclear> {
        let Some((_, blank)) = self.gap else { return Ok(()) };
        if matches!(before.last(), Some(DiffOp::Insert { .. })) {
            return Err(Unclear::BlankLine(blank));
        }
        self.pieces.push(Piece::Keep(blank));
        Ok(())
    }

    /// Lines that search and replacement share: the file's own.
    fn equal(&mut self, old: &Range<usize>, inserted_before: bool, inserted_after: bool) {
        for i in old.clone() {
            if let Some((_, blank)) = self.gap.filter(|(before, _)| *before == i && i > old.start) {
                self.pieces.push(Piece::Keep(blank));
            }
            if let Some(line) = self.map[i] {
                self.pieces.push(Piece::Keep(line));
                self.at = line;
            } else if (i == old.start && inserted_before) || (i + 1 == old.end && inserted_after) {
                // A blank line that the file lacks is nothing to keep, unless it sets off what is inserted.
                self.pieces.push(Piece::New { text: String::new(), like: self.at });
            }
        }
    }

    fn pass(&mut self, old: &Range<usize>) {
        self.at = old.clone().rev().find_map(|i| self.map[i]).unwrap_or(self.at);
    }

    fn new_lines(&mut self, old: &Range<usize>, new: &Range<usize>) -> Result<(), Unclear> {
        let cores = self.cores(old, new);
        for (k, i) in new.clone().enumerate() {
            let line = &self.replace[i];
            if let Some(at) = old.clone().nth(k).and_then(|i| self.map[i]) {
                self.at = at;
            }
            let text = self.new_line(line.text, cores.as_ref().map(|cores| cores[k].as_str()))?;
            self.pieces.push(Piece::New { text, like: self.at });
        }
        self.pass(old);
        Ok(())
    }

    fn new_line(&self, text: &str, changed: Option<&str>) -> Result<String, Unclear> {
        let shifted = self.place.shift != Shift::None;
        if is_blank(text) {
            return Ok(if shifted || self.stray { String::new() } else { text.to_owned() });
        }
        if !shifted && !self.stray && changed.is_none() {
            return Ok(text.to_owned());
        }
        let body = core(text);
        let tail = if self.stray { "" } else { &text[trim_end(text).len()..] };
        let indent = self.reindent.indent(indent(text)).ok_or(Unclear::Margin)?;
        Ok(format!("{indent}{}{tail}", changed.unwrap_or(body)))
    }

    /// Where quotes were overlooked: the texts of the new lines, without blanks at their ends, in which the words that they share with the
    /// search are the file's own.
    fn cores(&self, old: &Range<usize>, new: &Range<usize>) -> Option<Vec<String>> {
        if self.place.how < How::Quotes {
            return None;
        }
        let join = |lines: &[Line]| {
            lines.iter().map(|line| core(line.text)).collect::<Vec<_>>().join("\n")
        };
        let (was, now) = (join(&self.search[old.clone()]), join(&self.replace[new.clone()]));
        // Character by character the same as `was`, but for the shape of quotes.
        let there: Vec<&str> = old
            .clone()
            .map(|i| self.map[i].map_or("", |line| core(self.file[line].text)))
            .collect();
        let there: Vec<char> = there.join("\n").chars().collect();
        let (was, now) = (tokens(&was), tokens(&now));
        let starts: Vec<usize> = was
            .iter()
            .scan(0, |at, token| {
                *at += token.chars().count();
                Some(*at)
            })
            .collect();
        let mut text = String::new();
        for op in capture_diff_slices(Algorithm::Myers, &was, &now) {
            if let DiffOp::Equal { old_index, len, .. } = op {
                let from = old_index.checked_sub(1).map_or(0, |before| starts[before]);
                text.extend(there.get(from..starts[old_index + len - 1]).unwrap_or_default());
            } else {
                let fresh = now[op.new_range()].iter().flat_map(|token| token.chars());
                text.extend(
                    fresh.map(|c| if self.typographic.contains(&c) { plain(c) } else { c }),
                );
            }
        }
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        (lines.len() == new.len()).then_some(lines)
    }

    fn finish(self) -> Written {
        let lines = &self.place.lines;
        let kept = self.pieces.iter().filter(|piece| matches!(piece, Piece::Keep(_))).count();
        let at_end = lines.end == self.file.len()
            && self.file.last().is_some_and(|line| line.end.is_empty());
        let mut text = String::new();
        let count = self.pieces.len();
        for (index, piece) in self.pieces.iter().enumerate() {
            let (body, like) = match piece {
                Piece::Keep(line) => (self.file[*line].text, *line),
                Piece::New { text, like } => (text.as_str(), *like),
            };
            text.push_str(body);
            if !(at_end && index + 1 == count) {
                text.push_str(self.line_end(like));
            }
        }
        Written { text, removed: lines.len() - kept, added: count - kept }
    }

    /// The end of a line of the file; where it has none, of the line before it; where there is no other, the block's own.
    fn line_end(&self, like: usize) -> &str {
        let before = like.checked_sub(1).and_then(|before| self.file.get(before));
        let lines = [self.file.get(like), before, self.replace.first()];
        lines.into_iter().flatten().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or("\n")
    }
}

/// Characters of the search that stand for plain ones of the file, each time that they occur in it.
fn typographic(pairs: &[(&str, &str)]) -> Vec<char> {
    let mut found: Vec<char> = Vec::new();
    let mut meant: Vec<char> = Vec::new();
    for (s, f) in pairs.iter().map(|(s, f)| (core(s), core(f))).filter(|(s, _)| !s.is_ascii()) {
        for (s, f) in s.chars().zip(f.chars()).filter(|(s, _)| plain(*s) != *s) {
            let list = if s == f { &mut meant } else { &mut found };
            if !list.contains(&s) {
                list.push(s);
            }
        }
    }
    found.retain(|c| !meant.contains(c));
    found
}

/// Words, and every other character by itself.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (token, after) =
            rest.split_at(word.max(if word == 0 { first.len_utf8() } else { word }));
        tokens.push(token);
        rest = after;
    }
    tokens
}
