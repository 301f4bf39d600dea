//! The results of applying blocks: a new text with its changes, or refusals.

use std::fmt;

/// A text with all blocks applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The new text.
    pub text: String,
    /// The changes by each block, in the order of the blocks.
    pub changes: Vec<Change>,
    /// The number of places in the file that were replaced: one line may have several.
    pub places: usize,
}

/// The change by one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The first line of the block's place in the new text, from 1.
    pub first_line: usize,
    /// The number of lines of the file that were removed.
    pub removed: usize,
    /// The number of new lines.
    pub added: usize,
    /// The difference that was ignored to find the block.
    pub how: How,
}

/// The difference that was ignored to find a block. A more tolerant reading is tried only if no stricter one finds the
/// block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// Nothing.
    Exact,
    /// Line ends differ (CR LF, no last line end), or a byte order mark.
    LineEnds,
    /// Blanks at ends of lines differ.
    Trailing,
    /// All lines are indented more or less by the same amount, or with tabs instead of spaces.
    Indent,
    /// Typographic quotes, dashes or spaces instead of plain ones, or the reverse.
    Quotes,
    /// There is a blank line too many or too few.
    BlankLines,
    /// The rest of a line of which the search holds only a part.
    PartOfLine,
}

/// The reason why a block was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its lines are not in the file.
    Missing,
    /// Its lines are in the file, but with a different indentation relative to each other.
    Indentation,
    /// It holds a part of a line, but blocks must hold whole lines.
    PartOfLine,
    /// Its lines are in the file more than once.
    Twice,
    /// The file already has its replacement.
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

/// A refusal of a block, with the reason. `Display` gives all of it, for a model to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRefusal {
    /// The number of the block, from 1.
    pub block: usize,
    /// The line of its opening marker in the text of the blocks.
    pub line: usize,
    /// The class of the cause.
    pub cause: Cause,
    /// The mistake, and the correct form.
    pub message: String,
    /// The most similar lines of the file, 12 at most.
    pub near: Vec<Quote>,
}

impl fmt::Display for EditRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}: {}", self.block, self.message)?;
        let width = self.near.last().map_or(0, |quote| quote.line.to_string().len());
        self.near
            .iter()
            .try_for_each(|quote| write!(f, "\n  {:>width$} | {}", quote.line, quote.text))
    }
}

impl std::error::Error for EditRefusal {}
