//! The conversation file: text ↔ blocks.
//!
//! ```text
//! file   = { block | note | blank line }
//! block  = '<' NAME attributes '>' LF body LF '</' NAME '>'
//!        | '<' NAME attributes ' fence="WORD"' '>' LF body LF '</' NAME ' ' WORD '>'
//!        | '<' NAME attributes ' />'
//! note   = any other text: somebody wrote it into the file, and it counts as the user's words
//! ```
//! A tag of a block is at the start of a line. Bodies are raw. A block without a fence ends at the first
//! `</NAME>` that starts a line; one with a fence only at `</NAME WORD>`. A body gets a fence when it holds
//! anything that looks like a tag of nagent's ([`needs_fence`]), so no body can end its own block or open another.
//!
//! Parsing never fails: it returns the pieces, and at most one [`Trouble`]. It reads no file, and it does not know the
//! meaning of the tags inside an `agent-response`. Blocks of older tools parse too: they have no fence, a body that
//! begins on the line of the opening tag, and no blank lines between them.

// No panics: anyone may have written this text.
#![deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod parse;

use std::ops::Range;

pub(crate) use self::parse::closing_tag;
pub use self::parse::{holds_reply, parse};
use crate::format::attributes::{self, Attribute};

/// The names of all blocks. Only nagent and the user write them; in a reply they are forged. The last four belong to
/// the hooks of older tools: they are read, never written.
pub const BLOCKS: &[&str] = &[
    "initial_context",
    "user-prompt",
    "agent-response",
    "nagent-turn-status",
    "system",
    "context-update",
    "nagent-read-result",
    "nagent-file-read-result",
    "nagent-file-patch-result",
    "nagent-write-result",
    "nagent-edit-result",
    "nagent-list-result",
    "nagent-glob-result",
    "nagent-grep-result",
    "nagent-shell-result",
    "nagent-next-input",
    "nagent-conversation-result",
    "nagent-stdout-result",
    "nagent-script-result",
    "hook-per-run",
    "hook-per-file-edit",
    "hook-per-response",
    "hook-per-turn",
];

/// Whether a text begins with something because of which a body needs a fence: anything that looks like a tag of nagent's, or
/// that opens a block ([`BLOCKS`], and `context`, which the first context has around the text of a file).
fn is_suspect(text: &str) -> bool {
    let is_space = |char: char| matches!(char, '\t'..='\r' | ' ');
    let Some(inner) = text.strip_prefix('<') else { return false };
    let inner = inner.trim_start_matches(is_space);
    let inner = inner.strip_prefix('/').unwrap_or(inner).trim_start_matches(is_space);
    let begins = |text: &str, word: &str| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    ["nagent", "user-prompt", "agent-response", "system", "hook-per-"]
        .into_iter()
        .any(|word| begins(inner, word))
        || begins(inner, "context") && !inner[7..].starts_with(is_word)
        // With any character in between.
        || begins(inner, "initial") && {
            let mut behind = inner[7..].chars();
            behind.next().is_some_and(|char| char != '\n') && begins(behind.as_str(), "context")
        }
}

/// A block to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// One of [`BLOCKS`].
    pub name: &'static str,
    /// The attributes, without `fence`.
    pub attributes: Vec<Attribute>,
    /// The raw body; `None` for a self-closing block.
    pub body: Option<String>,
}

impl Block {
    /// A self-closing block without attributes.
    pub fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), body: None }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.attributes.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds an attribute if it has a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        attributes::find_value(&self.attributes, name)
    }

    /// The block as text, with a final line feed. `own` are the tags that an `agent-response` may hold without a fence;
    /// `word` draws random fence words, again and again until one does not occur in the body.
    pub fn format(&self, own: &[&str], word: &mut dyn FnMut() -> String) -> String {
        let name = self.name;
        let attributes = attributes::format(&self.attributes);
        let Some(body) = &self.body else { return format!("<{name}{attributes} />\n") };
        if !needs_fence(name, body, own) {
            return format!("<{name}{attributes}>\n{body}\n</{name}>\n");
        }
        let mut fence = word();
        while body.contains(&fence) {
            fence = word();
        }
        format!("<{name}{attributes} fence=\"{fence}\">\n{body}\n</{name} {fence}>\n")
    }
}

/// Whether a body needs a fence in its block.
pub(crate) fn needs_fence(name: &str, body: &str, own: &[&str]) -> bool {
    if name == "initial_context" {
        return true;
    }
    body.match_indices('<')
        .map(|(at, _)| &body[at..])
        .any(|rest| is_suspect(rest) && (name != "agent-response" || !is_own_tag(rest, own)))
}

/// Whether the text begins with an opening or closing tag of `own`, spelled exactly.
fn is_own_tag(text: &str, own: &[&str]) -> bool {
    let text = text.trim_start_matches('<');
    let text = text.strip_prefix('/').unwrap_or(text);
    own.iter().any(|tag| {
        text.strip_prefix(tag).is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_whitespace() || c == '>' || c == '/')
        })
    })
}

/// A piece of a parsed file: a block, or a note, which is text outside any block, without the blank lines around it. All
/// ranges are byte offsets into its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// One of [`BLOCKS`]; `None` for a note.
    name: Option<&'static str>,
    /// The attributes of a block, `fence` left out.
    pub attributes: Vec<Attribute>,
    /// The body of a block, empty and at the span's end when it is self-closing; all of a note.
    pub body: Range<usize>,
    /// The piece as it is in the file, without the line feed after it.
    pub span: Range<usize>,
}

impl Piece {
    /// The block's name, or `None` for a note.
    pub fn name(&self) -> Option<&'static str> {
        self.name
    }

    /// The value of a block's attribute.
    pub fn get(&self, attribute: &str) -> Option<&str> {
        attributes::find_value(&self.attributes, attribute)
    }

    /// The value of a block's attribute as a number.
    pub fn number(&self, attribute: &str) -> Option<u64> {
        self.get(attribute)?.parse().ok()
    }

    /// The body of a block, or the text of a note.
    pub fn body_text<'a>(&self, file: &'a str) -> &'a str {
        &file[self.body.clone()]
    }
}

/// A defect of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The last append was cut off: everything from `offset` on belongs to a block that has no end.
    Torn {
        /// The offset of the torn tail.
        offset: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// A tag that belongs to no block, or a block that swallows others: do not read the file as a shorter conversation.
    Damaged {
        /// The line of the tag, from 1.
        line: usize,
        /// The defect, and how to fix it.
        message: String,
        /// The offset of the torn tail, if this comes from a crash and not from an edit: a fenced body that was cut off
        /// may end in whole blocks of its own, and the text alone cannot tell. Callers that know about a crash can.
        perhaps_torn: Option<usize>,
    },
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Torn { line, .. } => write!(f, "line {line}: the last block does not end"),
            Self::Damaged { line, message, .. } => write!(f, "line {line}: {message}"),
        }
    }
}

/// The pieces of a file up to the first defect, and the defect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Blocks and notes in order.
    pub pieces: Vec<Piece>,
    /// The defect, if there is one.
    pub trouble: Option<Trouble>,
}

#[cfg(test)]
mod tests;
