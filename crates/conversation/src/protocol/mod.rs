//! The protocol between the model and the driver: the grammar of a reply, and the result of parsing one.
//!
//! In reading order: [`tags`] is the one description of the tags; `parse` parses a reply by it, [`stream`] shows the
//! answer while it arrives, and `complaint` describes mistakes; `text` and `grammar` explain the protocol to models and
//! to constrained decoders. Pure: nothing here knows about files, shells, networks or conversations, runs anything, or
//! repairs a reply. If a reply does not parse, none of it runs.
//!
//! ```text
//! reply     = space* [prose] (tag space* [space prose])+    at most 1,000 tags
//! tag       = "<" name attribute* space* ["/"] ">"          also "<" name attribute* space* ">" space* "</" name ">"
//!           | "<" name attribute* space* ">" body "</" name ">"
//!           | "<" name attribute* space* ">" body "</" name " " word ">"   with fence="word"
//! attribute = space+ key space* "=" space* ('"' [^"]* '"' | "'" [^']* "'" | word)
//! space     = " " | "\t" | "\r" | "\n" | U+FEFF | U+200B
//! ```
//!
//! Before that, a code fence around everything and reasoning in `<think>` are left out. Prose is text around tags: a message to
//! the user, or a part of the answer. It has no `<` at the start of a line, no open code fence, and no tag or block of nagent's. In values `&quot; &apos; &amp; &lt; &gt;`
//! are decoded, once, and nothing else is. A body is raw up to the first closing tag that matches.

// No panics: anyone may have written this text.
#![deny(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod complaint;
mod grammar;
mod parse;
mod scan;
pub mod stream;
pub mod tags;
mod text;

use std::collections::BTreeMap;

pub use complaint::Malformed;
pub use grammar::{write_gbnf, write_lark};
pub use parse::{find_action_in, parse_reply, parse_reply_with};
pub use tags::{Access, TagKind, TagSet};
pub use text::protocol_text;

/// An action that the model requests. The driver answers each with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "TAGS describes each tag and its attributes, under the same names")]
pub enum Action {
    Read {
        path: String,
        offset: Option<u64>,
        limit: Option<u64>,
        numbers: bool,
    },
    FileRead {
        path: String,
    },
    Change(Change),
    List {
        path: String,
    },
    Glob {
        pattern: String,
        path: Option<String>,
    },
    Grep {
        pattern: String,
        path: Option<String>,
        glob: Option<String>,
        context: Option<u64>,
        ignore_case: bool,
    },
    Shell {
        commands: String,
        timeout: Option<u64>,
        keep: Option<String>,
        /// The reason for running outside of the sandbox, if it is to.
        outside: Option<String>,
    },
    Next {
        prompt: String,
    },
    Conversation {
        prompt: String,
        name: Option<String>,
        from: Option<String>,
        file: Option<String>,
    },
    Stdout {
        text: String,
    },
    Script {
        code: String,
    },
    /// A tag with the right form and a wrong value. Its result is an error with the reason.
    Wrong {
        kind: TagKind,
        why: String,
    },
}

/// An action that changes a file of the user's. Before performing one, store the file's content, and check that the
/// model has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "TAGS describes each tag and its attributes, under the same names")]
pub enum Change {
    FilePatch {
        index: String,
    },
    Write {
        path: String,
        text: String,
    },
    /// The search/replace blocks are not parsed yet.
    Edit {
        path: String,
        blocks: String,
        all: bool,
    },
}

impl Action {
    /// The tag that it came from.
    pub fn tag_kind(&self) -> TagKind {
        match self {
            Self::Read { .. } => TagKind::Read,
            Self::FileRead { .. } => TagKind::FileRead,
            Self::Change(Change::FilePatch { .. }) => TagKind::FilePatch,
            Self::Change(Change::Write { .. }) => TagKind::Write,
            Self::Change(Change::Edit { .. }) => TagKind::Edit,
            Self::List { .. } => TagKind::List,
            Self::Glob { .. } => TagKind::Glob,
            Self::Grep { .. } => TagKind::Grep,
            Self::Shell { .. } => TagKind::Shell,
            Self::Next { .. } => TagKind::Next,
            Self::Conversation { .. } => TagKind::Conversation,
            Self::Stdout { .. } => TagKind::Stdout,
            Self::Script { .. } => TagKind::Script,
            Self::Wrong { kind, .. } => *kind,
        }
    }

    /// The access that it needs; none for a tag that does not run.
    pub fn access(&self) -> Access {
        match self {
            Self::Wrong { .. } => Access::None,
            Self::Change(_) => Access::Write,
            action => action.tag_kind().table_row().access,
        }
    }

    /// The attributes that were given, and the body.
    pub fn attributes_and_body(&self) -> (BTreeMap<String, String>, &str) {
        let mut attributes = BTreeMap::new();
        let mut set = |name: &str, value: Option<&str>| {
            attributes.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        };
        let number = |number: &Option<u64>| number.map(|number| number.to_string());
        let body = match self {
            Self::Read { path, offset, limit, numbers } => {
                set("path", Some(path));
                set("offset", number(offset).as_deref());
                set("limit", number(limit).as_deref());
                set("numbers", numbers.then_some("true"));
                ""
            }
            Self::FileRead { path } | Self::List { path } => {
                set("path", Some(path));
                ""
            }
            Self::Change(Change::FilePatch { index }) => {
                set("index", Some(index));
                ""
            }
            Self::Change(Change::Write { path, text }) => {
                set("path", Some(path));
                text
            }
            Self::Change(Change::Edit { path, blocks, all }) => {
                set("path", Some(path));
                set("all", all.then_some("true"));
                blocks
            }
            Self::Glob { pattern, path } => {
                set("pattern", Some(pattern));
                set("path", path.as_deref());
                ""
            }
            Self::Grep { pattern, path, glob, context, ignore_case } => {
                set("pattern", Some(pattern));
                set("path", path.as_deref());
                set("glob", glob.as_deref());
                set("context", number(context).as_deref());
                set("ignore_case", ignore_case.then_some("true"));
                ""
            }
            Self::Shell { commands, timeout, keep, outside } => {
                set("sandbox", outside.as_ref().map(|_| "off"));
                set("reason", outside.as_deref().filter(|why| !why.is_empty()));
                set("keep", keep.as_deref());
                set("timeout", number(timeout).as_deref());
                commands
            }
            Self::Next { prompt } => prompt,
            Self::Script { code } => code,
            Self::Stdout { text } => text,
            Self::Wrong { .. } => "",
            Self::Conversation { prompt, name, from, file } => {
                set("name", name.as_deref());
                set("from", from.as_deref());
                set("file", file.as_deref());
                prompt
            }
        };
        (attributes, body)
    }

    /// The name of its tag.
    pub fn tag_name(&self) -> &'static str {
        self.tag_kind().table_row().name
    }

    /// The name of the block that answers it.
    pub fn result_block(&self) -> &'static str {
        self.tag_kind().table_row().result.expect("every row but that of nagent-response has one")
    }
}

/// A tag of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyItem {
    /// Words for the user, without line feeds at the start and end.
    Response(String),
    /// An action.
    Action(Action),
}

/// The result of parsing a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedReply<'a> {
    /// All of it is tags, prose and white space. There is at least one item.
    Whole(Vec<ReplyItem>),
    /// It has a block of the driver at its top level, and the part before that is well-formed.
    Forged {
        /// The items before the block, at least one.
        items: Vec<ReplyItem>,
        /// The text before the block, byte for byte.
        kept: &'a str,
        /// The block's name as the driver spells it.
        block: String,
        /// Where the block begins, in bytes.
        offset: usize,
    },
    /// Nothing in it counts.
    Malformed(Malformed),
}

#[cfg(test)]
mod tests;
