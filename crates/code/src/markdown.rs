//! Finds possible cuts of Markdown, as pulldown-cmark parses it: before headings, preferably shallow ones; before other
//! blocks; and within a block that does not fit, before its items, rows and lines.
//!
//! A heading stays with the text after it, so that no segment ends with one. A file is read in windows that begin at a
//! top-level block. Offsets are byte offsets: bytes that are not UTF-8 are masked for the parser, one by one.

use std::borrow::Cow;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::grammar::Window;
use super::pack::{CutBoundary, CutRules, level};

/// The level of a top-level block that is not a heading. It does not open a segment on its own, even with natural cuts.
const BLOCK: u32 = level::PART;

/// Maximum number of quote and list marks, or of blanks, at the start of a line.
const DEEPEST: usize = 200;

/// Finds the possible cuts of a piece of a file. `first` and `last`: the file begins and ends with it. `None` if `stop`
/// returned true.
pub fn boundaries(
    piece: &[u8],
    rules: CutRules,
    first: bool,
    last: bool,
    stop: &mut dyn FnMut() -> bool,
) -> Option<Window> {
    let front = if first { front_matter(piece) } else { 0 };
    let text = blank_unparsable_bytes(&piece[front..]);
    let mut finder = Finder {
        piece,
        rules,
        front,
        found: Vec::new(),
        whole: vec![(0, front)],
        fits: Vec::new(),
        heading: None,
        top: Vec::new(),
    };
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    for (at, (event, range)) in Parser::new_ext(&text, options).into_offset_iter().enumerate() {
        if at % 1024 == 0 && stop() {
            return None;
        }
        match event {
            Event::Start(tag) if !is_inline(tag.to_end()) => {
                finder.start(&tag, range.start, range.end);
            }
            Event::End(tag) if !is_inline(tag) => drop(finder.fits.pop()),
            Event::Rule if finder.is_open() => {
                let at = finder.line_start(front + range.start);
                finder.begin(at, BLOCK, false);
            }
            _ => {}
        }
    }
    finder.name_lines();
    Some(finder.window(last))
}

/// The text for the parser: every byte in its place, except for those that are not UTF-8 and those that nest blocks
/// deeper than anyone reads, for which the parser's time grows with the square of the depth.
fn blank_unparsable_bytes(piece: &[u8]) -> Cow<'_, str> {
    let mut deep = Vec::new();
    let mut start = 0;
    for lf in memchr::memchr_iter(b'\n', piece).chain([piece.len()]) {
        let line = &piece[start..lf];
        deep.extend(too_deep(line).map(|(from, to)| start + from..start + to));
        start = lf + 1;
    }
    if let (Ok(text), true) = (std::str::from_utf8(piece), deep.is_empty()) {
        return Cow::Borrowed(text);
    }
    let mut bytes = piece.to_vec();
    for range in deep {
        bytes[range].fill(b'x');
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    Cow::Owned(text)
}

/// The part of a line's quote and list marks, or of its indentation, that is beyond [`DEEPEST`].
fn too_deep(line: &[u8]) -> Option<(usize, usize)> {
    let is_mark = |byte: &u8| matches!(byte, b'>' | b'-' | b'+' | b'*' | b'0'..=b'9' | b'.' | b')');
    // Most lines end here: they are short, and begin with a letter.
    if line.len() <= DEEPEST
        || !line.first().is_some_and(|byte| is_mark(byte) || byte.is_ascii_whitespace())
    {
        return None;
    }
    let run = line.iter().take_while(|byte| is_mark(byte) || byte.is_ascii_whitespace()).count();
    // The line is a horizontal rule.
    if run <= DEEPEST || line.iter().all(|byte| matches!(byte, b'-' | b' ' | b'\r')) {
        return None;
    }
    let mut depth = 0;
    let from = (0..run).find(|&at| {
        let is_blank = line[at].is_ascii_whitespace();
        depth += usize::from(line[at] == b'>' || is_blank);
        depth > DEEPEST
    })?;
    Some((from, run))
}

/// The end of the front matter, which goes from `---` or `+++` on the first line to the same mark, or `...`.
fn front_matter(piece: &[u8]) -> usize {
    let mark = if piece.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut at = mark;
    let mut opened: Option<&[u8]> = None;
    for lf in memchr::memchr_iter(b'\n', piece) {
        let line = piece[at..lf].trim_ascii_end();
        at = lf + 1;
        match opened {
            None if matches!(line, b"---" | b"+++") => opened = Some(line),
            None => break,
            Some(open) if line == open || (open == b"---" && line == b"...") => return at,
            Some(_) => {}
        }
    }
    // The front matter may end with the file, without a line feed.
    match opened {
        Some(open) if piece[at..].trim_ascii_end() == open && at > mark + 5 => piece.len(),
        _ => mark,
    }
}

struct Finder<'a> {
    piece: &'a [u8],
    rules: CutRules,
    /// The offset of the parsed text in the piece.
    front: usize,
    found: Vec<CutBoundary>,
    /// Blocks that must not be cut at their lines, as start and end, in the order of their starts.
    whole: Vec<(usize, usize)>,
    fits: Vec<bool>,
    /// The start of the block before this one, if it is a heading.
    heading: Option<usize>,
    /// The top-level blocks: their starts, and whether a cut is possible there.
    top: Vec<(usize, bool)>,
}

impl Finder<'_> {
    fn line_start(&self, offset: usize) -> usize {
        memchr::memrchr(b'\n', &self.piece[..offset]).map_or(0, |lf| lf + 1)
    }

    /// Whether a cut is possible at the parser's position: no block that fits is open.
    fn is_open(&self) -> bool {
        self.fits.iter().all(|fits| !fits)
    }

    fn start(&mut self, tag: &Tag<'_>, start: usize, end: usize) {
        let (start, end) = (self.front + start, self.front + end);
        let fits = (end - start) as u64 <= self.rules.target;
        if self.is_open() {
            let at = self.line_start(start);
            match tag {
                // The head of a table stays with its first row.
                Tag::TableHead => self.heading = Some(at),
                Tag::Heading { level, .. } => {
                    self.begin(at, level::STRUCTURE + *level as u32 - 1, true);
                }
                _ => self.begin(at, BLOCK, false),
            }
            if fits {
                self.whole.push((at, end));
            }
        }
        self.fits.push(fits);
    }

    /// Begins a block whose outer blocks, if any, do not fit.
    fn begin(&mut self, at: usize, level: u32, is_heading: bool) {
        let depth = u32::try_from(self.fits.len()).unwrap_or(u32::MAX).min(400);
        // Consecutive headings stay together, unless they leave no room for the text after the last one.
        let room = self.rules.target / 2;
        let heading =
            self.heading.take().filter(|first| !is_heading || (at - first) as u64 <= room);
        if depth == 0 {
            self.top.push((at, heading.is_none()));
        }
        if let Some(heading) = heading {
            self.whole.push((heading, at + 1));
        } else {
            let level = if depth == 0 { level } else { level::PART + depth };
            self.found.push(CutBoundary { at: at as u64, level });
        }
        if is_heading {
            self.heading = Some(heading.unwrap_or(at));
        }
    }

    /// Adds the lines of each top-level block that does not fit, and of the text up to the next block: those after a
    /// blank line are preferred, and none is within a smaller block that fits.
    fn name_lines(&mut self) {
        self.whole.sort_unstable();
        let mut starts: Vec<usize> = self.top.iter().map(|(at, _)| *at).collect();
        starts.insert(0, 0);
        starts.push(self.piece.len());
        let mut whole = self.whole.iter().copied().peekable();
        let mut kept = 0;
        for pair in starts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            if end.saturating_sub(start) as u64 <= self.rules.target {
                continue;
            }
            let mut is_parted = false;
            let mut at = start;
            let lfs = memchr::memchr_iter(b'\n', &self.piece[start..end]).map(|lf| start + lf + 1);
            for next in lfs.chain([end]) {
                let is_blank = self.piece[at..next].trim_ascii().is_empty();
                while let Some((_, to)) = whole.next_if(|(from, _)| *from < at) {
                    kept = kept.max(to);
                }
                if at > start && at < end && at >= kept && !is_blank {
                    let level = if is_parted { level::PART + 500 } else { level::LINE };
                    self.found.push(CutBoundary { at: at as u64, level });
                }
                is_parted = is_blank;
                at = next;
            }
        }
    }

    /// The cuts found, up to the start of the next window.
    fn window(self, last: bool) -> Window {
        let mut found = self.found;
        found.sort_by_key(|boundary| (boundary.at, boundary.level));
        found.dedup_by_key(|boundary| boundary.at);
        let length = self.piece.len();
        if last {
            return Window { boundaries: found, end: length };
        }
        // The last block may continue after the window, or turn out to be another kind of block: the next window begins
        // with it.
        let block = self.top.iter().rev().find(|(at, may_cut)| *may_cut && *at > 0);
        let end = block.map_or_else(
            || {
                // One block fills the window: the next begins with its last item, or its last line.
                let is_part = |found: &&CutBoundary| {
                    (level::PART..level::PART + 500).contains(&found.level)
                        && found.at > length as u64 / 2
                };
                let part = found.iter().rev().find(is_part);
                let line = memchr::memrchr(b'\n', self.piece).map_or(length, |lf| lf + 1);
                part.and_then(|part| usize::try_from(part.at).ok()).unwrap_or(line)
            },
            |(at, _)| *at,
        );
        found.retain(|boundary| boundary.at < end as u64);
        Window { boundaries: found, end }
    }
}

/// Whether a tag is within a block. The options allow no other such tags.
fn is_inline(tag: TagEnd) -> bool {
    use TagEnd::{Emphasis, Image, Link, Strikethrough, Strong, TableCell};
    matches!(tag, Emphasis | Image | Link | Strikethrough | Strong | TableCell)
}

#[cfg(test)]
mod tests;
