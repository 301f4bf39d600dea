//! The protocol between the model and the driver: what a reply may hold, and what it comes to.
//!
//! In reading order: [`tags`] is the one description of the tags; `parse` judges a reply by it and
//! `complaint` words what is wrong; `format` writes a reply; `text` and `grammar` say the same to
//! models and to constrained decoders. Pure: nothing here knows of files, shells, networks or
//! conversations, runs anything, or repairs a reply. What does not parse does not run.
//!
//! ```text
//! reply     = [BOM] space* (tag space*)+             at most 1,000 tags
//! tag       = "<" name attribute* space* "/>"        also "<" name attribute* space* ">" space* "</" name ">"
//!           | "<" name attribute* space* ">" body "</" name ">"
//!           | "<" name attribute* space* ">" body "</" name " " word ">"   with fence="word"
//! attribute = space+ key space* "=" space* ('"' [^"]* '"' | "'" [^']* "'")
//! space     = " " | "\t" | "\r" | "\n"
//! ```
//!
//! In values `&quot; &apos; &amp; &lt; &gt;` are decoded, once, and nothing else is. A body is raw up to
//! the first closing tag that matches.

// No panic: what is read here, anybody may have written.
#![deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod complaint;
mod format;
mod grammar;
mod parse;
pub mod tags;
mod text;

pub use complaint::Malformed;
pub use format::format;
pub use grammar::{gbnf, lark};
pub use parse::parse_reply;
pub use tags::TagKind;
pub use text::protocol_text;

/// Something that the model wants done. Each is answered by a block of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A file inline.
    Read {
        /// The file.
        path: String,
        /// The first line wanted, counted from 1.
        offset: Option<u64>,
        /// How many lines.
        limit: Option<u64>,
    },
    /// A file of any size, split when it is large.
    FileRead {
        /// The file.
        path: String,
    },
    /// Merge edited segments into their source.
    FilePatch {
        /// The path of the segments' `index.json`.
        index: String,
    },
    /// Write a whole file.
    Write {
        /// The file.
        path: String,
        /// All that it is to hold, possibly nothing.
        text: String,
    },
    /// Change parts of a file.
    Edit {
        /// The file.
        path: String,
        /// The search/replace blocks as they came, not yet looked at.
        blocks: String,
    },
    /// What a folder holds.
    List {
        /// The folder.
        path: String,
    },
    /// Files whose path matches.
    Glob {
        /// The glob.
        pattern: String,
        /// The folder to look in.
        path: Option<String>,
    },
    /// Lines that match.
    Grep {
        /// The regular expression.
        pattern: String,
        /// The folder or file to look in.
        path: Option<String>,
        /// Only files whose path matches this glob.
        glob: Option<String>,
    },
    /// Run commands in a shell.
    Shell {
        /// The script, without line feeds at its ends.
        commands: String,
        /// Seconds until it is ended.
        timeout: Option<u64>,
    },
    /// Go on, with a prompt that the model gives itself.
    Next {
        /// The prompt, without line feeds at its ends.
        prompt: String,
    },
    /// A child conversation.
    Conversation {
        /// The prompt, without line feeds at its ends.
        prompt: String,
        /// The child's name.
        name: Option<String>,
        /// The saved conversation that it starts from.
        from: Option<String>,
        /// The file whose own conversation it is; never beside `name` or `from`.
        file: Option<String>,
    },
}

impl Action {
    /// Which tag it came from.
    pub fn kind(&self) -> TagKind {
        match self {
            Self::Read { .. } => TagKind::Read,
            Self::FileRead { .. } => TagKind::FileRead,
            Self::FilePatch { .. } => TagKind::FilePatch,
            Self::Write { .. } => TagKind::Write,
            Self::Edit { .. } => TagKind::Edit,
            Self::List { .. } => TagKind::List,
            Self::Glob { .. } => TagKind::Glob,
            Self::Grep { .. } => TagKind::Grep,
            Self::Shell { .. } => TagKind::Shell,
            Self::Next { .. } => TagKind::Next,
            Self::Conversation { .. } => TagKind::Conversation,
        }
    }

    /// The name of its tag.
    pub fn tag(&self) -> &'static str {
        self.kind().tag().name
    }

    /// The name of the block that answers it.
    pub fn result_block(&self) -> &'static str {
        self.kind().tag().result.expect("every row but that of nagent-response has one")
    }
}

/// One tag of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Words for the user, without line feeds at their ends.
    Response(String),
    /// Something to do.
    Action(Action),
}

/// What a reply comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedReply<'a> {
    /// Every byte of it is tags and white space. At least one item.
    Whole(Vec<Item>),
    /// It holds a block of the driver at its top level, and what stands before that is whole.
    Forged {
        /// The items before the block, at least one.
        items: Vec<Item>,
        /// The text before the block, byte for byte.
        kept: &'a str,
        /// The block's name as the driver spells it.
        block: String,
        /// Where the block begins, in bytes.
        offset: usize,
    },
    /// Nothing of it counts.
    Malformed(Malformed),
}

/// A notation that the protocol can be printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// The text that a model reads.
    Text,
    /// llama.cpp's grammar notation.
    Gbnf,
    /// The Lark dialect of llguidance and of OpenAI's custom tools.
    Lark,
}

impl std::str::FromStr for Notation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "gbnf" => Ok(Self::Gbnf),
            "lark" => Ok(Self::Lark),
            _ => Err(format!("no notation {name:?}: choose text, gbnf or lark")),
        }
    }
}

/// The protocol in a notation, ending in a line feed.
pub fn print(notation: Notation) -> String {
    match notation {
        Notation::Text => protocol_text(),
        Notation::Gbnf => gbnf(),
        Notation::Lark => lark(),
    }
}

#[cfg(test)]
mod tests;
