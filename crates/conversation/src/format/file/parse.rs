//! The parser of conversation files, in one pass over the lines. The grammar is at the head of [`super`].

use std::collections::HashMap;
use std::ops::Range;

use super::{BLOCKS, Parsed, Piece, Trouble};
use crate::format::attributes::{self, Attribute};
use crate::format::nearest::nearest;

/// Reads the start of an opening or closing tag of a block. Returns whether it is a closing one, and the name.
fn read_tag_start(text: &str) -> Option<(bool, &str)> {
    let inner = text.strip_prefix('<')?;
    let (closes, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
    let name = inner.split(|char| matches!(char, '\t'..='\r' | ' ' | '/' | '>')).next()?;
    BLOCKS.contains(&name).then_some((closes, name))
}

/// Parses a conversation file.
pub fn parse(text: &str) -> Parsed {
    Parser { text, at: 0, note: None, pieces: Vec::new() }.parse_file()
}

struct Parser<'a> {
    text: &'a str,
    /// Always the start of a line.
    at: usize,
    note: Option<Range<usize>>,
    pieces: Vec<Piece>,
}

impl Parser<'_> {
    fn parse_file(mut self) -> Parsed {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        while self.at < self.text.len() {
            match self.block() {
                Ok(Some((piece, next))) => {
                    self.flush_note();
                    self.pieces.push(piece);
                    self.at = next;
                }
                Ok(None) => self.note_line(),
                Err(trouble) => {
                    self.flush_note();
                    return Parsed { pieces: self.pieces, trouble: Some(trouble) };
                }
            }
        }
        self.flush_note();
        Parsed { pieces: self.pieces, trouble: None }
    }

    /// The line number of an offset, from 1. It is computed only for a defect.
    fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    fn note_line(&mut self) {
        let end = self.text[self.at..].find('\n').map_or(self.text.len(), |i| self.at + i + 1);
        if self.text[self.at..end].trim().is_empty() {
            if let Some(note) = &mut self.note {
                note.end = note.end.max(self.at);
            }
        } else {
            let start = self.note.as_ref().map_or(self.at, |note| note.start);
            self.note = Some(start..end);
        }
        self.at = end;
    }

    fn flush_note(&mut self) {
        let Some(range) = self.note.take() else { return };
        let note = self.text[range.clone()].trim_end();
        let span = range.start..range.start + note.len();
        self.pieces.push(Piece { name: None, attributes: Vec::new(), body: span.clone(), span });
    }

    fn block(&self) -> Result<Option<(Piece, usize)>, Trouble> {
        let start = self.at;
        let rest = &self.text[start..];
        if !rest.starts_with('<') {
            return Ok(None);
        }
        let Some(opening) = read_opening(rest) else { return self.check_tag(rest) };
        let BlockOpening { name, attributes, fence, is_closed, length } = opening;
        let tag_end = start + length;
        if is_closed {
            let next = self.after_line_end(tag_end);
            let (body, span) = (tag_end..tag_end, start..tag_end);
            return Ok(Some((Piece { name: Some(name), attributes, body, span }, next)));
        }
        let closing = closing_tag(name, fence.as_deref());
        let (body_start, crlf) = line_end(self.text, tag_end);
        let found = if body_start == tag_end && fence.is_none() {
            // Short results of older tools have their body on the line of the opening tag.
            self.text[tag_end..].find(&closing).map(|i| tag_end + i)
        } else {
            find_at_line_start(self.text, body_start, &closing)
        };
        let Some(close) = found else {
            return Err(self.unterminated_trouble(tag_end, name, fence.as_deref()));
        };
        if fence.is_none() && name != "initial_context" {
            let opener = format!("<{name}");
            if let Some(inner) = find_opening(&self.text[..close], body_start, &opener) {
                return Err(self.unclosed_trouble(name, &closing, body_start, inner));
            }
        }
        let mut body_end = close;
        let is = |at: usize, byte: u8| self.text.as_bytes().get(at) == Some(&byte);
        if close > body_start && is(close - 1, b'\n') {
            body_end -= 1;
            if crlf && body_end > body_start && is(body_end - 1, b'\r') {
                body_end -= 1;
            }
        }
        let span_end = close + closing.len();
        let next = self.after_line_end(span_end);
        let (body, span) = (body_start..body_end, start..span_end);
        Ok(Some((Piece { name: Some(name), attributes, body, span }, next)))
    }

    /// Checks text that begins with `<` and is not a whole opening tag: it is a note or a defect.
    fn check_tag(&self, rest: &str) -> Result<Option<(Piece, usize)>, Trouble> {
        let Some((closes, name)) = read_tag_start(rest) else {
            // `<agent-resp` and nothing more: the name itself was cut off.
            let is_cut_name = !rest.contains(['\n', '>', ' '])
                && BLOCKS.iter().any(|name| name.starts_with(&rest[1..]));
            return if is_cut_name { Err(self.torn_tail_trouble()) } else { Ok(None) };
        };
        let message = if closes {
            format!("</{name}> closes no block; put its opening tag back, or remove this line")
        } else if rest.contains('>') {
            format!("<{name} … has attributes that cannot be read; they are name=\"value\"")
        } else {
            // There is no `>`: the file was cut off within the tag.
            return Err(self.torn_tail_trouble());
        };
        Err(Trouble::Damaged { line: self.line_of(self.at), message, perhaps_torn: None })
    }

    /// Reports a block within which another block of the same name begins. Names the line that was probably meant as
    /// its end.
    fn unclosed_trouble(&self, name: &str, closing: &str, body: usize, inner: usize) -> Trouble {
        let (opened, next) = (self.line_of(self.at), self.line_of(inner));
        let mut at = body;
        let similar = self.text[body..inner].split_inclusive('\n').find_map(|line| {
            at += line.len();
            let found = line.trim().strip_prefix("</")?.strip_suffix('>')?;
            nearest(found, [name]).map(|_| (self.line_of(at - line.len()), found))
        });
        let hint = similar.map_or_else(String::new, |(line, found)| {
            format!(" (line {line} has </{found}>, which looks like it)")
        });
        let message = format!(
            "<{name}> is not closed before the next <{name}> in line {next}{hint}; put {closing} back where its text \
             ends, or remove the rest of the block"
        );
        Trouble::Damaged { line: opened, message, perhaps_torn: None }
    }

    /// Reports a block without an end: a torn tail, unless the text after it shows that the file continued.
    fn unterminated_trouble(&self, tag_end: usize, name: &str, fence: Option<&str>) -> Trouble {
        let rest = &self.text[tag_end..];
        let goes_on = match fence {
            // The writer fences every body that holds a block's tag, so a tag here was written after the block.
            None => block_starts(rest).next().is_some(),
            // A fenced body may hold anything, even whole blocks.
            Some(_) => ends_in_whole_block(rest),
        };
        if !goes_on {
            return self.torn_tail_trouble();
        }
        let closing = closing_tag(name, fence);
        let message = format!(
            "<{name}> is never closed by {closing}; put that line back where its text ends"
        );
        let perhaps_torn = fence.map(|_| self.at);
        Trouble::Damaged { line: self.line_of(self.at), message, perhaps_torn }
    }

    fn torn_tail_trouble(&self) -> Trouble {
        Trouble::Torn { offset: self.at, line: self.line_of(self.at) }
    }

    /// The start of the next line if only blanks precede it, else the offset itself: text after a closing tag is a
    /// note.
    fn after_line_end(&self, offset: usize) -> usize {
        let rest = &self.text[offset..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        if rest[blanks..].starts_with('\n') { offset + blanks + 1 } else { offset }
    }
}

/// Whether the text ends in a whole block after a blank line, as the writer formats it.
fn ends_in_whole_block(text: &str) -> bool {
    let trimmed = text.trim_end();
    if trimmed.len() == text.len() {
        return false;
    }
    let last_line = trimmed.rfind('\n').map_or(0, |at| at + 1);
    let closing = &trimmed[last_line..];
    // The block that this line closes begins after the previous closing tag of the same form.
    let from = trimmed[..last_line].rfind(&format!("\n{closing}")).map_or(0, |at| at + 1);
    let follows_blank_line =
        |at: &usize| ["\n\n", "\n\r\n"].iter().any(|blank| trimmed[..*at].ends_with(blank));
    block_starts(trimmed).filter(follows_blank_line).any(|at| {
        read_opening(&trimmed[at..]).is_some_and(|it| {
            if it.is_closed {
                return at + it.length == trimmed.len();
            }
            at >= from && closing_tag(it.name, it.fence.as_deref()) == closing
        })
    })
}

/// The closing tag of a tag whose name is spelled so.
pub(crate) fn closing_tag(name: &str, fence: Option<&str>) -> String {
    fence.map_or_else(|| format!("</{name}>"), |word| format!("</{name} {word}>"))
}

/// Whether a reply begins in a text, which need not begin with a block. Text within a fenced block belongs to that
/// block, even if its opening tag is missing.
pub fn holds_reply(text: &str) -> bool {
    // The open fences, each with whether there was a reply before it.
    let mut fences = HashMap::new();
    let mut has_reply = false;
    for line in text.lines().filter(|line| line.starts_with('<')) {
        if let Some(opening) = read_opening(line) {
            has_reply |= opening.name == "agent-response";
            if let Some(word) = opening.fence {
                fences.insert(word, has_reply);
            }
        } else if let Some(word) = closing_fence(line) {
            has_reply = fences.remove(word).unwrap_or(false);
        }
    }
    has_reply
}

/// The word of a line that closes a fenced block.
fn closing_fence(line: &str) -> Option<&str> {
    let (name, word) = line.trim_end().strip_prefix("</")?.strip_suffix('>')?.split_once(' ')?;
    BLOCKS.contains(&name).then_some(word)
}

/// A whole opening tag.
struct BlockOpening {
    name: &'static str,
    attributes: Vec<Attribute>,
    /// The first value of the attribute `fence`, which is not among the attributes.
    fence: Option<String>,
    /// Whether it ends in `/>`.
    is_closed: bool,
    /// Its bytes.
    length: usize,
}

/// Parses the opening tag of a block at the start of a text. It does not use a regular expression: a list of ten
/// thousand conversations parses a hundred thousand tags.
fn read_opening(text: &str) -> Option<BlockOpening> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let after = |rest: &str| {
        rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}').len()
    };
    let rest = text.strip_prefix('<')?;
    let name = rest.split(|c| !is_word(c)).next()?;
    let name = BLOCKS.iter().copied().find(|known| *known == name)?;
    let mut rest = rest.get(name.len()..)?;
    let (mut attributes, mut fence) = (Vec::new(), None);
    loop {
        let blanks = rest.len() - after(rest);
        let next = rest.get(blanks..)?;
        if let Some(behind) = next.strip_prefix("/>").or_else(|| next.strip_prefix('>')) {
            let is_closed = next.starts_with('/');
            let length = text.len() - behind.len();
            return Some(BlockOpening { name, attributes, fence, is_closed, length });
        }
        let key = next.split(|c| !is_word(c)).next()?;
        if blanks == 0 || !key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let value = next.get(key.len()..)?;
        let value = value.get(value.len() - after(value)..)?.strip_prefix('=')?;
        let value = value.get(value.len() - after(value)..)?;
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (raw, behind) = value.get(1..)?.split_once(quote)?;
        match key {
            "fence" => _ = fence.get_or_insert_with(|| attributes::decode(raw)),
            key => attributes.push((key.to_owned(), attributes::decode(raw))),
        }
        rest = behind;
    }
}

/// The offset after the line end at `at`, if there is one, and whether it is CRLF.
fn line_end(text: &str, at: usize) -> (usize, bool) {
    let rest = &text[at..];
    if rest.starts_with("\r\n") {
        (at + 2, true)
    } else if rest.starts_with('\n') {
        (at + 1, false)
    } else {
        (at, false)
    }
}

/// The first `needle` at or after `from` that starts a line; `from` itself counts as one.
fn find_at_line_start(text: &str, from: usize, needle: &str) -> Option<usize> {
    if text[from..].starts_with(needle) {
        return Some(from);
    }
    let with_line_feed = format!("\n{needle}");
    text[from..].find(&with_line_feed).map(|i| from + i + 1)
}

/// The first whole opening tag `<NAME` at or after `from` that starts a line.
fn find_opening(text: &str, from: usize, opener: &str) -> Option<usize> {
    let mut at = from;
    while let Some(found) = find_at_line_start(text, at, opener) {
        if read_opening(&text[found..]).is_some() {
            return Some(found);
        }
        at = found + opener.len();
    }
    None
}

fn block_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.match_indices("\n<")
        .map(|(at, _)| at + 1)
        .filter(|at| read_opening(&text[*at..]).is_some())
}
