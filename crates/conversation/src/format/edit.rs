//! Parses edit blocks as models write them. It knows nothing about the file that they are meant for.
//!
//! ```text
//! edits  = blank* (block blank*)+              the whole may be in one code fence
//! block  = "<"{n} " SEARCH"  eol line*         n is seven or more, the same for a block's three markers
//!          "="{n}            eol line*
//!          ">"{n} " REPLACE" (eol | end)
//! eol    = blanks, then LF or CR LF
//! ```
//!
//! A marker starts its line. A run of another length is text: a block with longer markers can hold lines
//! that look like markers. A second `=` line of the block's own length is refused: nobody can tell which
//! of the two divides. Bodies are raw, and are whole lines with their ends: a body is
//! empty or ends in a line feed.

use super::harmless::truncate;
use crate::limits;

/// One search/replace block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditBlock {
    /// The lines to search for: empty, or whole lines that each end in a line feed.
    pub search: String,
    /// The replacement: empty, or whole lines that each end in a line feed.
    pub replace: String,
    /// The line of the opening marker in the text that was parsed, from 1.
    pub line: usize,
}

/// A mistake in the text of the blocks, and the correct form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Complaint {
    /// The line, from 1.
    pub line: usize,
    /// The mistake, and the correct form.
    pub message: String,
}

const SHORTEST: usize = 7;
const EXCERPT: usize = 80;
/// The form of a whole block, for complaints.
const SHAPE: &str = "a block is `<<<<<<< SEARCH`, the lines as they are in the file, `=======`, the new lines, `>>>>>>> REPLACE`";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Search,
    Divider,
    Replace,
}

impl Marker {
    fn marker_text(self, length: usize) -> String {
        match self {
            Self::Search => format!("{} SEARCH", "<".repeat(length)),
            Self::Divider => "=".repeat(length),
            Self::Replace => format!("{} REPLACE", ">".repeat(length)),
        }
    }
}

struct Open {
    block: EditBlock,
    length: usize,
    divided: bool,
}

/// Parses all blocks of a text, or reports the first thing that is not in the grammar.
pub fn parse(text: &str) -> Result<Vec<EditBlock>, Complaint> {
    let fence = fence_lines(text);
    let mut blocks = Vec::new();
    let mut open: Option<Open> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        match &mut open {
            Some(block) => {
                if block.take_line(line, number)? {
                    blocks.extend(open.take().map(|open| open.block));
                }
            }
            None if line.trim().is_empty()
                || fence.is_some_and(|(first, last)| index == first || index == last) => {}
            None => match marker(line) {
                Some((Marker::Search, length)) => {
                    if blocks.len() >= limits::EDIT_BLOCKS {
                        let message = format!("more than {} blocks", limits::EDIT_BLOCKS);
                        return Err(Complaint { line: number, message });
                    }
                    let block =
                        EditBlock { search: String::new(), replace: String::new(), line: number };
                    open = Some(Open { block, length, divided: false });
                }
                _ => return Err(describe_outside(line, number)),
            },
        }
    }
    if let Some(open) = open {
        return Err(open.describe_unclosed());
    }
    if blocks.is_empty() {
        return Err(Complaint { line: 1, message: format!("no edit block: {SHAPE}") });
    }
    Ok(blocks)
}

impl Open {
    /// Processes one line; returns true if it closed the block.
    fn take_line(&mut self, line: &str, number: usize) -> Result<bool, Complaint> {
        let found =
            marker(line).filter(|(_, length)| *length == self.length).map(|(marker, _)| marker);
        let opened = self.block.line;
        let equals = Marker::Divider.marker_text(self.length);
        let longer = self.length + 1;
        let message = match (found, self.divided) {
            (Some(Marker::Divider), false) => {
                self.divided = true;
                return Ok(false);
            }
            (Some(Marker::Replace), true) => return Ok(true),
            (None, divided) => {
                let body = if divided { &mut self.block.replace } else { &mut self.block.search };
                body.push_str(line);
                return Ok(false);
            }
            (Some(Marker::Divider), true) => format!(
                "a second `{equals}` in the block that begins at line {opened}, so it is unclear where its search ends: \
                 if the text itself holds such a line, write all three markers of this block longer, with {longer} characters"
            ),
            (Some(Marker::Replace), false) => format!(
                "the block that begins at line {opened} has no `{equals}` between its search and its replacement"
            ),
            (Some(Marker::Search), _) => format!(
                "a new block begins before the one that begins at line {opened} was closed with `{}`: if this line belongs to \
                 the text, write all three markers of that block longer, with {longer} characters",
                Marker::Replace.marker_text(self.length)
            ),
        };
        Err(Complaint { line: number, message })
    }

    fn describe_unclosed(self) -> Complaint {
        let wanted = if self.divided { Marker::Replace } else { Marker::Divider };
        let message = format!(
            "this block is not closed: a line `{}` is missing, as long as the marker that opens the block",
            wanted.marker_text(self.length)
        );
        Complaint { line: self.block.line, message }
    }
}

/// The marker on a line, with the length of its run.
fn marker(line: &str) -> Option<(Marker, usize)> {
    let length = run_at_start(line);
    if length < SHORTEST {
        return None;
    }
    // The run consists of one ASCII character, so `length` is a character boundary.
    let word = line[length..].trim();
    let marker = match (line.as_bytes()[0], word) {
        (b'<', "SEARCH") => Marker::Search,
        (b'=', "") => Marker::Divider,
        (b'>', "REPLACE") => Marker::Replace,
        _ => return None,
    };
    Some((marker, length))
}

/// The number of times that the first character of a line is repeated, if it is a marker's character.
fn run_at_start(line: &str) -> usize {
    match line.as_bytes().first() {
        Some(&first @ (b'<' | b'=' | b'>')) => {
            line.bytes().take_while(|byte| *byte == first).count()
        }
        _ => 0,
    }
}

fn describe_outside(line: &str, number: usize) -> Complaint {
    let text = truncate(line.trim_end(), EXCERPT + 1);
    let message = if marker(line).is_some() {
        format!(
            "`{text}` outside any block: the `<<<<<<< SEARCH` that opens it is missing; {SHAPE}"
        )
    } else if marker(line.trim_start()).is_some() {
        format!("`{text}`: a marker starts at the beginning of its line")
    } else if run_at_start(line) >= SHORTEST {
        format!("`{text}` is not a marker; {SHAPE}")
    } else {
        format!("text outside the blocks: `{text}`; write explanations elsewhere; {SHAPE}")
    };
    Complaint { line: number, message }
}

/// The indexes of the two lines of a code fence around the whole text.
fn fence_lines(text: &str) -> Option<(usize, usize)> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (first, opening) = lines.next()?;
    let (last, closing) = lines.last()?;
    let run = opening.chars().take_while(|c| *c == '`').count();
    (run >= 3 && !opening[run..].contains('`') && closing.trim_end() == &opening[..run])
        .then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: Result<&[(&str, &str)], (usize, &str)>) {
        let got = parse(text);
        match (&got, expect) {
            (Ok(blocks), Ok(expect)) => {
                let blocks: Vec<_> =
                    blocks.iter().map(|b| (b.search.as_str(), b.replace.as_str())).collect();
                assert_eq!(blocks, expect, "{text}");
            }
            (Err(complaint), Err((line, part))) => {
                assert_eq!(complaint.line, line, "{complaint}");
                assert!(complaint.message.contains(part), "{complaint}");
            }
            _ => panic!("{text}\n{got:?}"),
        }
    }

    #[test]
    fn blocks_that_parse() {
        let one: &[(&str, &str)] = &[("a\n", "b\n")];
        check("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", Ok(one));
        check("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", Ok(one));
        check("\n \n<<<<<<< SEARCH  \na\n======= \nb\n>>>>>>> REPLACE \n\n", Ok(one));
        check("```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n", Ok(one));
        check("\n```diff\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", Ok(one));
        check("<<<<<<<< SEARCH\na\n========\nb\n>>>>>>>> REPLACE\n", Ok(one));
        check(
            "<<<<<<< SEARCH\r\na\r\n=======\r\nb\r\n>>>>>>> REPLACE\r\n",
            Ok(&[("a\r\n", "b\r\n")]),
        );
        check("<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n", Ok(&[("", "")]));
        check("<<<<<<< SEARCH\n\n=======\n\n\n>>>>>>> REPLACE\n", Ok(&[("\n", "\n\n")]));
        check(
            "<<<<<<< SEARCH\nT\n========\n=======\nU\n========\n>>>>>>> REPLACE\n",
            Ok(&[("T\n========\n", "U\n========\n")]),
        );
        check(
            "<<<<<<<< SEARCH\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n========\n\n>>>>>>>> REPLACE\n",
            Ok(&[("<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n", "\n")]),
        );
        check(
            "<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nc\n=======\nd\n>>>>>>> REPLACE\n",
            Ok(&[("a\n", ""), ("c\n", "d\n")]),
        );
        check(
            "<<<<<<< SEARCH\n<<<<<<< HEAD\n  =======\n=======\n=======x\n>>>>>>> REPLACE",
            Ok(&[("<<<<<<< HEAD\n  =======\n", "=======x\n")]),
        );
    }

    #[test]
    fn blocks_that_do_not() {
        check("", Err((1, "no edit block")));
        check("\n\n", Err((1, "no edit block")));
        check("```\n```", Err((1, "no edit block")));
        check("hello", Err((1, "text outside the blocks: `hello`")));
        check("=======\n", Err((1, "the `<<<<<<< SEARCH` that opens it is missing")));
        check(" <<<<<<< SEARCH\n", Err((1, "beginning of its line")));
        check("\n<<<<<<< HEAD\n", Err((2, "is not a marker")));
        check("<<<<<<< SEARCH\na\n", Err((1, "`=======` is missing")));
        check("<<<<<<< SEARCH\na\n=======\nb\n", Err((1, "`>>>>>>> REPLACE` is missing")));
        check(
            "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>>> REPLACE\n",
            Err((1, "a line `>>>>>>> REPLACE` is missing")),
        );
        check("<<<<<<< SEARCH\na\n========\nb\n>>>>>>> REPLACE\n", Err((5, "has no `=======`")));
        check("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", Err((3, "has no `=======`")));
        check(
            "<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n",
            Err((5, "a second `=======`")),
        );
        check(
            "<<<<<<< SEARCH\na\n=======\nb\n<<<<<<< SEARCH\n",
            Err((5, "before the one that begins at line 1")),
        );
        check("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE\nDone.\n", Err((5, "`Done.`")));
        check("```\n<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE\n", Err((1, "text outside")));
        check(&"é".repeat(200), Err((1, "é…`")));
    }

    /// The blocks as text: markers are longer than any run at the start of a line.
    fn format(blocks: &[EditBlock]) -> String {
        let block = |block: &EditBlock| {
            let lines = block.search.lines().chain(block.replace.lines());
            let length = SHORTEST.max(lines.map(run_at_start).max().unwrap_or(0) + 1);
            let [search, divider, replace] =
                [Marker::Search, Marker::Divider, Marker::Replace].map(|it| it.marker_text(length));
            format!("{search}\n{}{divider}\n{}{replace}\n", block.search, block.replace)
        };
        blocks.iter().map(block).collect()
    }

    fn body() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            "[ -~é\t\r]{0,12}",
            (0..12usize, "[<=>]").prop_map(|(n, c)| c.repeat(n)),
            (6..10usize).prop_map(|n| Marker::Search.marker_text(n)),
            (6..10usize).prop_map(|n| Marker::Replace.marker_text(n)),
        ];
        proptest::collection::vec(line, 0..6)
            .prop_map(|lines| lines.iter().flat_map(|l| [l.as_str(), "\n"]).collect())
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bodies in proptest::collection::vec((body(), body()), 1..4)) {
            let blocks: Vec<_> = bodies.into_iter().map(|(search, replace)| EditBlock { search, replace, line: 0 }).collect();
            let mut back = parse(&format(&blocks)).unwrap();
            for block in &mut back {
                block.line = 0;
            }
            prop_assert_eq!(back, blocks);
        }

        #[test]
        fn no_text_panics(text in "(?s).{0,200}", noise in body()) {
            let _ = parse(&text);
            let _ = parse(&noise);
        }
    }
}
