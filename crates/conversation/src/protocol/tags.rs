//! The table of the tags that a model may write, and the names of all blocks.
//! The parser, the text for the model and the grammars are all generated from [`TAGS`]. ARCHITECTURE.md lists the steps
//! for a new tag.

use crate::format::file::BLOCKS;

/// Identifies a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is described by its row in TAGS")]
pub enum TagKind {
    Response,
    Read,
    FileRead,
    FilePatch,
    Write,
    Edit,
    List,
    Glob,
    Grep,
    Shell,
    Next,
    Conversation,
    Stdout,
    Script,
}

/// A tag: its form and its meaning.
#[derive(Debug)]
pub struct Tag {
    /// Identifies the tag in code.
    pub kind: TagKind,
    /// The name as the model writes it; case matters.
    pub name: &'static str,
    /// The attributes that it takes, except `fence`, which every tag with a body takes.
    pub attributes: &'static [TagAttribute],
    /// The text between the opening and the closing tag.
    pub body: Body,
    /// The block that holds the result; `None` for `nagent-response`, which is not an action.
    pub result: Option<&'static str>,
    /// The access that its action needs.
    pub access: Access,
    /// The attributes that say what its action is about, in the order in which people and results show them.
    pub target: &'static [&'static str],
    /// A line that explains it to the model.
    pub meaning: &'static str,
}

/// The access that the action of a tag needs. Rules for all actions of a kind use it: what a sandbox hides, which
/// actions `--approve` covers, where no mask may be written, and which actions `--after-write` follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None, or decided elsewhere.
    None,
    /// It reads the file or folder `path`, or the working folder.
    Read,
    /// It writes a file.
    Write,
    /// It runs commands.
    Run,
    /// It starts a conversation.
    Start,
}

/// One attribute of a tag.
#[derive(Debug)]
pub struct TagAttribute {
    /// The name; case matters.
    pub name: &'static str,
    /// Whether it must be given and not be empty. An optional [text](ValueType::Text) that is empty counts as not
    /// given.
    pub required: bool,
    /// The values that it takes.
    pub value: ValueType,
    /// The word for the value in the text for the model, which leaves an attribute out that has none.
    pub placeholder: &'static str,
    /// Attributes that cannot be given together with it.
    pub excludes: &'static [&'static str],
    /// A line that explains it to the model.
    pub meaning: &'static str,
}

/// The values that an attribute takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Any text.
    Text,
    /// Any text but an empty one, even if the attribute is optional.
    Name,
    /// A whole number from 1, in decimal digits without a leading zero; it fits in 64 bits.
    Positive,
    /// `true` or `false`.
    Flag,
}

/// The content of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Nothing: `<name …/>`. `<name …></name>` means the same.
    None,
    /// Raw text.
    Raw {
        /// The word for it in the text for the model.
        placeholder: &'static str,
        /// Whether it may be empty. If not, it must hold more than white space.
        may_be_empty: bool,
        /// The line breaks at its start and end that are removed.
        trim: Trim,
    },
}

/// The line breaks at the start and end of a body that are removed, carriage returns included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// One directly after the opening tag. The line break at the end of a file is part of the file.
    First,
    /// All, at the start and at the end.
    Outer,
}

const fn required(
    name: &'static str,
    placeholder: &'static str,
    meaning: &'static str,
) -> TagAttribute {
    TagAttribute { required: true, ..optional(name, ValueType::Text, placeholder, meaning) }
}

const fn optional(
    name: &'static str,
    value: ValueType,
    placeholder: &'static str,
    meaning: &'static str,
) -> TagAttribute {
    TagAttribute { name, required: false, value, placeholder, excludes: &[], meaning }
}

/// An attribute that the text for the model leaves out: it is told where it applies.
const fn untold(name: &'static str, meaning: &'static str) -> TagAttribute {
    optional(name, ValueType::Text, "", meaning)
}

/// A body that is prose or commands.
const fn prose(placeholder: &'static str) -> Body {
    Body::Raw { placeholder, may_be_empty: false, trim: Trim::Outer }
}

/// Every tag that a model may write.
pub const TAGS: &[Tag] = &[
    Tag {
        kind: TagKind::Response,
        name: "nagent-response",
        attributes: &[],
        body: prose("TEXT"),
        result: None,
        access: Access::None,
        target: &[],
        meaning: "your answer to the user; it ends the run. Beside actions it is a progress note. Tags inside it are text",
    },
    Tag {
        kind: TagKind::Read,
        name: "nagent-read",
        attributes: &[
            required("path", "P", "the file"),
            optional("offset", ValueType::Positive, "N", "the first line to read, counted from 1"),
            optional("limit", ValueType::Positive, "N", "how many lines"),
            optional("numbers", ValueType::Flag, "true", "number the lines"),
        ],
        body: Body::None,
        result: Some("nagent-read-result"),
        access: Access::Read,
        target: &["path", "offset", "limit"],
        meaning: "read a file, or lines of it. offset: the first line (from 1); limit: how many; numbers: adds line numbers; leave them out of edits",
    },
    Tag {
        kind: TagKind::FileRead,
        name: "nagent-file-read",
        attributes: &[required("path", "P", "the file")],
        body: Body::None,
        result: Some("nagent-file-read-result"),
        access: Access::Read,
        target: &["path"],
        meaning: "read a file too large for nagent-read: lists its segments",
    },
    Tag {
        kind: TagKind::FilePatch,
        name: "nagent-file-patch",
        attributes: &[required("index", "P", "the index.json beside the segments")],
        body: Body::None,
        result: Some("nagent-file-patch-result"),
        access: Access::Write,
        target: &["index"],
        meaning: "put edited segments back into their file; P is their index.json",
    },
    Tag {
        kind: TagKind::Write,
        name: "nagent-write",
        attributes: &[required("path", "P", "the file")],
        body: Body::Raw { placeholder: "TEXT", may_be_empty: true, trim: Trim::First },
        result: Some("nagent-write-result"),
        access: Access::Write,
        target: &["path"],
        meaning: "write a whole file; a line break directly after > is ignored",
    },
    Tag {
        kind: TagKind::Edit,
        name: "nagent-edit",
        attributes: &[
            required("path", "P", "the file"),
            optional("all", ValueType::Flag, "true", "change every match"),
        ],
        body: Body::Raw { placeholder: "BLOCKS", may_be_empty: false, trim: Trim::First },
        result: Some("nagent-edit-result"),
        access: Access::Write,
        target: &["path"],
        meaning: "change parts of a file, as described below; all: every match",
    },
    Tag {
        kind: TagKind::List,
        name: "nagent-list",
        attributes: &[required("path", "P", "the folder")],
        body: Body::None,
        result: Some("nagent-list-result"),
        access: Access::Read,
        target: &["path"],
        meaning: "list a folder",
    },
    Tag {
        kind: TagKind::Glob,
        name: "nagent-glob",
        attributes: &[
            required("pattern", "G", "the glob, as in src/**/*.rs"),
            optional("path", ValueType::Text, "P", "the folder to look in"),
        ],
        body: Body::None,
        result: Some("nagent-glob-result"),
        access: Access::Read,
        target: &["pattern", "path"],
        meaning: "find files by path; a G without / matches at any depth",
    },
    Tag {
        kind: TagKind::Grep,
        name: "nagent-grep",
        attributes: &[
            required("pattern", "R", "the regular expression"),
            optional("path", ValueType::Text, "P", "the folder or file to look in"),
            optional("glob", ValueType::Text, "G", "only files whose path matches"),
            optional("context", ValueType::Positive, "N", "lines to show around each match"),
            optional("ignore_case", ValueType::Flag, "true", "ignore case"),
        ],
        body: Body::None,
        result: Some("nagent-grep-result"),
        access: Access::Read,
        target: &["pattern", "path", "glob"],
        meaning: "search files with a regular expression; context: lines shown around a match",
    },
    Tag {
        kind: TagKind::Shell,
        name: "nagent-shell",
        attributes: &[
            optional("timeout", ValueType::Positive, "S", "the time limit in seconds"),
            TagAttribute {
                name: "keep",
                required: false,
                value: ValueType::Name,
                placeholder: "N",
                excludes: &["timeout"],
                meaning: "start COMMANDS in the background under the name N, until you answer. The same name again ends them",
            },
            untold("sandbox", "off, to run outside of the sandbox, which the user is asked about"),
            untold("reason", "why it cannot run in the sandbox"),
        ],
        body: prose("COMMANDS"),
        result: Some("nagent-shell-result"),
        access: Access::Run,
        target: &[],
        meaning: "run commands in a shell, for at most S seconds",
    },
    Tag {
        kind: TagKind::Next,
        name: "nagent-next",
        attributes: &[],
        body: prose("PROMPT"),
        result: Some("nagent-next-input"),
        access: Access::None,
        target: &[],
        meaning: "take another turn, with PROMPT as your next input",
    },
    Tag {
        kind: TagKind::Conversation,
        name: "nagent-conversation",
        attributes: &[
            optional("name", ValueType::Name, "N", "the child's name"),
            optional("from", ValueType::Name, "", "the saved conversation that it starts from"),
            TagAttribute {
                name: "file",
                required: false,
                value: ValueType::Name,
                placeholder: "P",
                excludes: &["name", "from"],
                meaning: "ask the conversation of file P, which may write P; you get its answer and the diff",
            },
        ],
        body: prose("PROMPT"),
        result: Some("nagent-conversation-result"),
        access: Access::Start,
        target: &["file", "name"],
        meaning: "start a child conversation that sees only PROMPT; you get its answer. Adjacent ones run in parallel. Use a name again to continue that child",
    },
    Tag {
        kind: TagKind::Stdout,
        name: "nagent-stdout",
        attributes: &[],
        body: Body::Raw { placeholder: "TEXT", may_be_empty: true, trim: Trim::First },
        result: Some("nagent-stdout-result"),
        access: Access::None,
        target: &[],
        meaning: "write to stdout; a line break directly after > is ignored",
    },
    Tag {
        kind: TagKind::Script,
        name: "nagent-script",
        attributes: &[],
        body: prose("CODE"),
        result: Some("nagent-script-result"),
        access: Access::None,
        target: &[],
        meaning: "run JavaScript; the result is the value of the last statement and the console output",
    },
];

/// The attribute that every tag with a body takes: the body then ends only at `</name WORD>`.
pub(crate) const FENCE: &str = "fence";

/// The tags that a model may write in a run; `nagent-response` is always one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagSet(u32);

impl Default for TagSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl TagSet {
    /// Every tag but those of scripts.
    pub const ALL: Self = Self(!(1 << TagKind::Stdout as u32 | 1 << TagKind::Script as u32));

    /// The tags of scripts in plain language.
    pub const SCRIPTS: Self = Self(
        1 << TagKind::Response as u32 | 1 << TagKind::Stdout as u32 | 1 << TagKind::Script as u32,
    );

    /// Reads the names of tags, with or without `nagent-`.
    ///
    /// # Errors
    /// A name is not that of a tag; the text lists all names.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut set = 1 << TagKind::Response as u32;
        for name in names {
            let bare = name.trim().trim_start_matches("nagent-");
            let Some(tag) = Self::ALL.find_tag(&format!("nagent-{bare}")) else {
                let known: Vec<&str> = Self::ALL.iter().map(Tag::short_name).collect();
                return Err(format!(
                    "there is no tag \"{}\"; the tags are {}",
                    bare.escape_debug(),
                    known.join(", ")
                ));
            };
            set |= 1 << tag.kind as u32;
        }
        Ok(Self(set))
    }

    /// Whether it contains a tag.
    pub fn contains(self, kind: TagKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// The rows of its tags, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = &'static Tag> {
        TAGS.iter().filter(move |tag| self.contains(tag.kind))
    }

    /// Finds one of its tags by the exact name.
    pub fn find_tag(self, name: &str) -> Option<&'static Tag> {
        self.iter().find(|tag| tag.name == name)
    }

    /// The names without `nagent-`, separated by commas, as [`parse`](Self::parse) reads them.
    pub fn names(self) -> String {
        self.iter().map(Tag::short_name).collect::<Vec<_>>().join(",")
    }
}

/// Finds the block that a name refers to, ignoring case and `_` for `-`; `nagent-foo-result` counts as one too.
pub(crate) fn driver_block(name: &str) -> Option<String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let name = plain(name);
    if let Some(block) = BLOCKS.iter().find(|block| plain(block) == name) {
        return Some((*block).to_owned());
    }
    (name.starts_with("nagent-") && name.ends_with("-result")).then_some(name)
}

impl TagKind {
    /// The row of this tag.
    pub fn table_row(self) -> &'static Tag {
        TAGS.iter()
            .find(|tag| tag.kind == self)
            .expect("there is a row for each kind, which a test holds")
    }
}

impl Tag {
    /// The name without `nagent-`.
    pub fn short_name(&self) -> &'static str {
        self.name.trim_start_matches("nagent-")
    }

    /// Finds an attribute by its exact name.
    pub fn attribute(&self, name: &str) -> Option<&'static TagAttribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The sets of attributes that may be given together, each attribute with whether it is required: one set without
    /// the attributes that exclude others, then one for each of those, which comes first and is required there.
    pub fn forms(&self) -> Vec<Vec<(&'static TagAttribute, bool)>> {
        let plain = self.attributes.iter().filter(|attribute| attribute.excludes.is_empty());
        let mut forms = vec![plain.map(|attribute| (attribute, attribute.required)).collect()];
        for one in self.attributes.iter().filter(|attribute| !attribute.excludes.is_empty()) {
            let others = self
                .attributes
                .iter()
                .filter(|other| other.excludes.is_empty() && !one.excludes.contains(&other.name));
            let others = others.map(|other| (other, other.required));
            forms.push(std::iter::once((one, true)).chain(others).collect());
        }
        forms
    }

    /// The tag as in the text for the model, one line for each of its [forms](Self::forms).
    pub(crate) fn usage_lines(&self) -> Vec<String> {
        self.forms().iter().map(|form| self.usage_line(form)).collect()
    }

    fn usage_line(&self, form: &[(&TagAttribute, bool)]) -> String {
        let name = self.name;
        let told = form.iter().filter(|(attribute, _)| !attribute.placeholder.is_empty());
        let attributes = told.map(|(attribute, must)| {
            let pair = format!("{}=\"{}\"", attribute.name, attribute.placeholder);
            if *must { format!(" {pair}") } else { format!(" [{pair}]") }
        });
        let attributes: String = attributes.collect();
        match self.body {
            Body::None => format!("<{name}{attributes}/>"),
            Body::Raw { placeholder, .. } => format!("<{name}{attributes}>{placeholder}</{name}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_row() {
        for tag in TAGS {
            assert_eq!(tag.kind.table_row().name, tag.name);
            let found =
                TagSet::ALL.find_tag(tag.name).or_else(|| TagSet::SCRIPTS.find_tag(tag.name));
            assert!(found.is_some_and(|found| found.kind == tag.kind));
        }
    }

    #[test]
    fn rows_are_sound() {
        for tag in TAGS {
            assert!(tag.name.starts_with("nagent-"), "{}", tag.name);
            assert!(driver_block(tag.name).is_none(), "{} is nobody's block", tag.name);
            assert_eq!(tag.result.is_none(), tag.kind == TagKind::Response, "{}", tag.name);
            assert!(tag.result.is_none_or(|result| BLOCKS.contains(&result)), "{}", tag.name);
            assert!(tag.access != Access::Read || tag.attribute("path").is_some(), "{}", tag.name);
            assert!(tag.target.iter().all(|name| tag.attribute(name).is_some()), "{}", tag.name);
            for attribute in tag.attributes {
                assert!(std::ptr::eq(tag.attribute(attribute.name).unwrap(), attribute));
                assert_ne!(attribute.name, FENCE);
                for other in attribute.excludes {
                    assert!(tag.attribute(other).is_some_and(|other| !other.required));
                }
                assert!(attribute.excludes.is_empty() || !attribute.required);
                assert!(!attribute.required || tag.target.contains(&attribute.name));
                assert!(!attribute.meaning.is_empty());
            }
        }
    }

    #[test]
    fn driver_blocks_are_known_in_every_spelling() {
        for block in BLOCKS.iter().copied() {
            assert_eq!(driver_block(block).as_deref(), Some(block));
            assert_eq!(driver_block(&block.to_uppercase()).as_deref(), Some(block));
            assert_eq!(driver_block(&block.replace('-', "_")).as_deref(), Some(block));
        }
        assert_eq!(driver_block("Nagent-Foo-Result").as_deref(), Some("nagent-foo-result"));
        for other in ["nagent-shell", "systemd", "result", "nagent-result-x", "my-system", ""] {
            assert_eq!(driver_block(other), None, "{other}");
        }
    }

    #[test]
    fn shapes_read_like_the_contract() {
        let shapes: Vec<_> = TAGS.iter().flat_map(Tag::usage_lines).collect();
        assert_eq!(
            shapes,
            [
                r#"<nagent-response>TEXT</nagent-response>"#,
                r#"<nagent-read path="P" [offset="N"] [limit="N"] [numbers="true"]/>"#,
                r#"<nagent-file-read path="P"/>"#,
                r#"<nagent-file-patch index="P"/>"#,
                r#"<nagent-write path="P">TEXT</nagent-write>"#,
                r#"<nagent-edit path="P" [all="true"]>BLOCKS</nagent-edit>"#,
                r#"<nagent-list path="P"/>"#,
                r#"<nagent-glob pattern="G" [path="P"]/>"#,
                r#"<nagent-grep pattern="R" [path="P"] [glob="G"] [context="N"] [ignore_case="true"]/>"#,
                r#"<nagent-shell [timeout="S"]>COMMANDS</nagent-shell>"#,
                r#"<nagent-shell keep="N">COMMANDS</nagent-shell>"#,
                r#"<nagent-next>PROMPT</nagent-next>"#,
                r#"<nagent-conversation [name="N"]>PROMPT</nagent-conversation>"#,
                r#"<nagent-conversation file="P">PROMPT</nagent-conversation>"#,
                r#"<nagent-stdout>TEXT</nagent-stdout>"#,
                r#"<nagent-script>CODE</nagent-script>"#,
            ]
        );
    }
}
