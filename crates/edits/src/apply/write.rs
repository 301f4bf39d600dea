//! Writes the new text of a place that was found. Every byte comes from the file or from the replacement.
//!
//! Search and replacement are paired line by line ([`align`]). Shared lines keep the file's bytes; lines that differ
//! only in indentation keep the file's text; new lines get the file's indentation and line ends.

use super::align::{Step, align};
use super::find::MatchPlace;
use super::indent::{Reindent, Shift};
use super::lines::{Line, indent, is_blank, plain_char, trim_end, without_blanks};
use super::outcome::How;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// The new text of a place, and how many lines were removed and added.
#[derive(Debug)]
pub(super) struct NewText {
    pub text: String,
    pub removed: usize,
    pub added: usize,
}

/// The reason why it is not certain what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// A new line would start before the margin.
    Margin,
    /// It is not certain whether the replacement uses the search's indentation or the file's.
    Indentation,
    /// New lines belong next to a blank line of the file (its index) that the block does not show.
    BlankLine(usize),
}

enum Piece {
    /// A line of the file, unchanged.
    Keep(usize),
    /// A new line, with the line end of the line `like` of the file.
    New { text: String, like: usize },
}

struct Writer<'a> {
    place: &'a MatchPlace,
    search: Vec<Line<'a>>,
    map: Vec<Option<usize>>,
    /// The gap of the place; `None` once the missing blank line has been added to `search`.
    gap: Option<(usize, usize)>,
    replace: &'a [Line<'a>],
    file: &'a [Line<'a>],
    reindent: Reindent<'a>,
    /// Whether the search has blanks at the ends of lines that the file does not have.
    stray: bool,
    /// The blanks that the search, unlike the file, has after every line with text.
    everywhere: Option<String>,
    /// Plain characters of the file that are always typographic ones in the search.
    typographic: Vec<char>,
    pieces: Vec<Piece>,
    /// The next line of the file, from which new lines take their line end.
    at: usize,
}

pub(super) fn write<'a>(
    place: &'a MatchPlace,
    search: &'a [Line<'a>],
    replace: &'a [Line<'a>],
    file: &'a [Line<'a>],
) -> Result<NewText, Unclear> {
    let pairs: Vec<_> = search
        .iter()
        .zip(&place.map)
        .filter_map(|(s, f)| f.map(|f| (s.text, file[f].text)))
        .collect();
    let reindent =
        Reindent::new(&place.shift, &pairs, replace, file).ok_or(Unclear::Indentation)?;
    let stray = place.how >= How::Trailing
        && pairs
            .iter()
            .any(|(s, f)| trailing_blanks(s).len() > trailing_blanks(f).len() && !is_blank(s));
    let typographic = find_typographic(&pairs);
    let everywhere = find_trailing_blanks(&pairs).filter(|_| stray);
    let pieces = Vec::with_capacity(replace.len());
    let at = place.lines.start;
    let (mut search, mut map, mut gap) = (search.to_vec(), place.map.clone(), place.gap);
    let (mut steps, score) = align(&search, replace, None);
    if let Some((before, blank)) = gap {
        // If the replacement has the blank line that the search lacks, the two share it.
        let mut whole = search.clone();
        whole.insert(before, Line { text: "", ..file[blank] });
        // If it is next to other blank lines, any of them could be meant.
        let is_alone = !is_blank(search[before].text) && !is_blank(search[before - 1].text);
        let (whole_steps, whole_score) = align(&whole, replace, is_alone.then_some(before));
        if whole_score > score {
            (search, steps, gap) = (whole, whole_steps, None);
            map.insert(before, Some(blank));
        }
    }
    let mut writer = Writer {
        place,
        search,
        map,
        gap,
        replace,
        file,
        reindent,
        stray,
        everywhere,
        typographic,
        pieces,
        at,
    };
    writer.write_steps(&steps)?;
    Ok(writer.finish())
}

impl Writer<'_> {
    fn write_steps(&mut self, steps: &[Step]) -> Result<(), Unclear> {
        for (index, step) in steps.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| steps.get(before));
            match step {
                Step::Same { old, .. } | Step::Like { old, .. } => {
                    self.keep_gap(*old, before)?;
                    let inserts = |step: Option<&Step>| matches!(step, Some(Step::Other { old, .. }) if old.is_empty());
                    let beside_new = inserts(before) || inserts(steps.get(index + 1));
                    match (step, self.map[*old]) {
                        (Step::Like { new, .. }, Some(line)) => {
                            self.write_like(*old, *new, line)?;
                        }
                        (_, line) => self.keep_line(line, beside_new),
                    }
                }
                Step::Other { old, new } => {
                    if !old.is_empty() {
                        self.keep_gap(old.start, before)?;
                    }
                    let gap = self.gap.filter(|(at, _)| old.start < *at && *at < old.end);
                    match gap {
                        _ if new.is_empty() => self.skip_lines(old),
                        // If there are as many lines as before, the blank line stays between the same two.
                        Some((at, blank)) => {
                            if old.len() != new.len() {
                                return Err(Unclear::BlankLine(blank));
                            }
                            let middle = new.start + at - old.start;
                            self.new_lines(&(old.start..at), &(new.start..middle))?;
                            self.pieces.push(Piece::Keep(blank));
                            self.new_lines(&(at..old.end), &(middle..new.end))?;
                        }
                        None => self.new_lines(old, new)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps a blank line of the file that neither search nor replacement has, before a line of the search. It is not
    /// certain if text is inserted exactly there, which may belong before the blank line or after it.
    fn keep_gap(&mut self, old: usize, before: Option<&Step>) -> Result<(), Unclear> {
        let Some((_, blank)) = self.gap.filter(|(at, _)| *at == old) else { return Ok(()) };
        if matches!(before, Some(Step::Other { old, .. }) if old.is_empty()) {
            return Err(Unclear::BlankLine(blank));
        }
        self.pieces.push(Piece::Keep(blank));
        Ok(())
    }

    fn keep_line(&mut self, line: Option<usize>, beside_new: bool) {
        if let Some(line) = line {
            self.pieces.push(Piece::Keep(line));
            self.at = line;
        } else if beside_new {
            // A blank line that the file lacks is written only to separate the inserted text.
            self.pieces.push(Piece::New { text: String::new(), like: self.at });
        }
    }

    /// Writes a line in which only blanks differ: blanks that the edit changes are changed, everything else stays as in
    /// the file.
    fn write_like(&mut self, old: usize, new: usize, line: usize) -> Result<(), Unclear> {
        let (was, now) = (self.search[old].text, self.replace[new].text);
        let there = self.file[line].text;
        if is_blank(was) && was != there {
            // The search did not show the blanks of this line, so the edit does not change them.
            self.keep_line(Some(line), false);
            return Ok(());
        }
        self.at = line;
        if is_blank(was) {
            self.pieces.push(Piece::New { text: now.to_owned(), like: line });
            return Ok(());
        }
        let start = if indent(was) == indent(now) {
            indent(there).to_owned()
        } else {
            self.reindent.indent(indent(now)).ok_or(Unclear::Margin)?
        };
        let text = format!(
            "{start}{}{}",
            without_blanks(there),
            self.blanks_after(now, Some((was, there)))
        );
        self.pieces.push(if text == there {
            Piece::Keep(line)
        } else {
            Piece::New { text, like: line }
        });
        Ok(())
    }

    fn skip_lines(&mut self, old: &Range<usize>) {
        self.at = old.clone().rev().find_map(|i| self.map[i]).unwrap_or(self.at);
    }

    fn new_lines(&mut self, old: &Range<usize>, new: &Range<usize>) -> Result<(), Unclear> {
        let cores = self.with_file_quotes(old, new);
        for (k, i) in new.clone().enumerate() {
            let line = &self.replace[i];
            if let Some(at) = old.clone().nth(k).and_then(|i| self.map[i]) {
                self.at = at;
            }
            let facing = old.clone().nth(k).map(|i| (self.search[i].text, self.map[i]));
            let facing = facing.and_then(|(s, line)| Some((s, self.file[line?].text)));
            let changed = cores.as_ref().map(|cores| cores[k].as_str());
            let text = self.new_line(line.text, changed, facing)?;
            self.pieces.push(Piece::New { text, like: self.at });
        }
        self.skip_lines(old);
        Ok(())
    }

    /// Returns a new line in the file's style. `changed` is its text if quotes were ignored; `facing` are the lines it replaces.
    fn new_line(
        &self,
        text: &str,
        changed: Option<&str>,
        facing: Option<(&str, &str)>,
    ) -> Result<String, Unclear> {
        let shifted = self.place.shift != Shift::None;
        if is_blank(text) {
            return Ok(if shifted || self.stray { String::new() } else { text.to_owned() });
        }
        if !shifted && !self.stray && changed.is_none() {
            return Ok(text.to_owned());
        }
        let body = without_blanks(text);
        let tail = self.blanks_after(text, facing);
        let indent = self.reindent.indent(indent(text)).ok_or(Unclear::Margin)?;
        Ok(format!("{indent}{}{tail}", changed.unwrap_or(body)))
    }

    /// The blanks at the end of a new line: those of the replacement, unless they are stray.
    fn blanks_after<'t>(&self, text: &'t str, facing: Option<(&str, &'t str)>) -> &'t str {
        if let Some(more) = &self.everywhere {
            return trailing_blanks(text).strip_suffix(more.as_str()).unwrap_or_default();
        }
        match facing {
            Some((_, there)) if trailing_blanks(text) == trailing_blanks(there) => {
                trailing_blanks(there)
            }
            Some((was, there)) if self.stray && trailing_blanks(text) == trailing_blanks(was) => {
                trailing_blanks(there)
            }
            _ if self.stray => "",
            _ => trailing_blanks(text),
        }
    }

    /// If quotes were ignored: the trimmed new lines, with the file's own form of the words that they share with the
    /// search.
    fn with_file_quotes(&self, old: &Range<usize>, new: &Range<usize>) -> Option<Vec<String>> {
        if self.place.how < How::Quotes {
            return None;
        }
        let join = |lines: &[Line]| {
            lines.iter().map(|line| without_blanks(line.text)).collect::<Vec<_>>().join("\n")
        };
        let (was, now) = (join(&self.search[old.clone()]), join(&self.replace[new.clone()]));
        // The file's characters for `was`, which are the same except for the shape of quotes.
        let there: Vec<&str> = old
            .clone()
            .map(|i| self.map[i].map_or("", |line| without_blanks(self.file[line].text)))
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
                text.extend(fresh.map(|c| if self.is_stand_in(c) { plain_char(c) } else { c }));
            }
        }
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        (lines.len() == new.len()).then_some(lines)
    }

    /// Whether a character replaces a plain one: the search has it where the file has the plain one.
    fn is_stand_in(&self, c: char) -> bool {
        plain_char(c) != c && self.typographic.contains(&plain_char(c))
    }

    fn finish(self) -> NewText {
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
        NewText { text, removed: lines.len() - kept, added: count - kept }
    }

    /// The line end of a line of the file; if it has none, that of the line before it; else the block's own.
    fn line_end(&self, like: usize) -> &str {
        let before = like.checked_sub(1).and_then(|before| self.file.get(before));
        let lines = [self.file.get(like), before, self.replace.first()];
        lines.into_iter().flatten().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or("\n")
    }
}

/// The plain characters of the file that are always typographic ones in the search.
fn find_typographic(pairs: &[(&str, &str)]) -> Vec<char> {
    let mut found: Vec<char> = Vec::new();
    let mut meant: Vec<char> = Vec::new();
    for (s, f) in pairs
        .iter()
        .map(|(s, f)| (without_blanks(s), without_blanks(f)))
        .filter(|(s, _)| !s.is_ascii())
    {
        for (s, f) in s.chars().zip(f.chars()).filter(|(s, _)| plain_char(*s) != *s) {
            let list = if s == f { &mut meant } else { &mut found };
            if !list.contains(&plain_char(s)) {
                list.push(plain_char(s));
            }
        }
    }
    found.retain(|c| !meant.contains(c));
    found
}

/// The blanks that the search has after every line with text, in addition to the file's own.
fn find_trailing_blanks(pairs: &[(&str, &str)]) -> Option<String> {
    let mut more = pairs.iter().filter(|(s, _)| !is_blank(s)).map(|(s, f)| {
        trailing_blanks(s).strip_prefix(trailing_blanks(f)).filter(|more| !more.is_empty())
    });
    let first = more.next()??;
    more.all(|more| more == Some(first)).then(|| first.to_owned())
}

fn trailing_blanks(text: &str) -> &str {
    &text[trim_end(text).len()..]
}

/// Splits a text into words and single other characters.
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
