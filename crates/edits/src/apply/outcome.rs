//! The results of applying blocks: a new text with its changes, or refusals.

use serde::Serialize;
use std::fmt;

/// A text with all blocks applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The new text.
    pub text: String,
    /// What each block did, in the order of the blocks.
    pub changes: Vec<Change>,
    /// How many places of the file were replaced: in one line there may be several.
    pub places: usize,
}

/// What one block did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The first line of the block's place in the new text, from 1.
    pub first_line: usize,
    /// Lines of the file that are gone.
    pub removed: usize,
    /// Lines that are new.
    pub added: usize,
    /// What had to be ignored to find the block.
    pub how: How,
}

/// What had to be ignored to find a block. A laxer reading is tried only if no stricter one finds the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// Nothing.
    Exact,
    /// Line ends differ (CR LF, no last line end), or a byte order mark.
    LineEnds,
    /// Blanks at ends of lines differ.
    Trailing,
    /// All lines are indented by the same amount more or less, or with tabs instead of spaces.
    Indent,
    /// Typographic quotes, dashes or spaces instead of plain ones, or the reverse.
    Quotes,
    /// A blank line too many or too few.
    BlankLines,
    /// The rest of a line of which the search has a part.
    PartOfLine,
}

/// Why a block was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its lines are not in the file.
    Missing,
    /// Its lines are in the file, but differently indented among themselves.
    Indentation,
    /// It holds a part of a line, where blocks hold whole lines.
    PartOfLine,
    /// Its lines are there more than once.
    Twice,
    /// The file already has what it would write.
    AlreadyApplied,
    /// Its search holds no text.
    Empty,
    /// Its search and its replacement are the same.
    NoChange,
    /// It changes lines that another block changes too.
    Overlap,
    /// It was found, but it is not certain what to write.
    Unclear,
}

/// A line of the file, quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// Its number, from 1.
    pub line: usize,
    /// Its text, cut at 200 characters.
    pub text: String,
}

/// A block that was not applied, and why. `Display` gives all of it, for a model to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRefusal {
    /// The number of the block, from 1.
    pub block: usize,
    /// The line of its opening marker in the text of the blocks.
    pub line: usize,
    /// The class of the cause.
    pub cause: Cause,
    /// What is wrong, and what to do.
    pub message: String,
    /// The nearest lines of the file, 12 at most.
    pub near: Vec<Quote>,
}

impl fmt::Display for EditRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} (line {}): {}", self.block, self.line, self.message)?;
        let width = self.near.last().map_or(0, |quote| quote.line.to_string().len());
        self.near
            .iter()
            .try_for_each(|quote| write!(f, "\n  {:>width$} | {}", quote.line, quote.text))
    }
}

impl std::error::Error for EditRefusal {}

impl How {
    /// Its name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::LineEnds => "line_ends",
            Self::Trailing => "trailing",
            Self::Indent => "indent",
            Self::Quotes => "quotes",
            Self::BlankLines => "blank_lines",
            Self::PartOfLine => "part_of_line",
        }
    }
}

/// What happens to the line end at the end of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LastEnd {
    #[default]
    Stays,
    Comes,
    Goes,
}
