//! The parser of replies. It is strict: one mistake in the form, and nothing in the reply counts. A wrong value only
//! affects its own action. Words before the first tag or after the last are a message if there is also an action.
//!
//! It makes one pass from left to right, with regular expressions anchored at the current position, so the time grows
//! linearly with the reply's length. It never guesses: the complaint describes the correct form, and the model writes
//! the reply again. The grammar is in the documentation of the parent module.

use crate::limits::{self, ATTRIBUTE_VALUE, REPLY_TAGS};
use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use super::complaint::{self, Malformed};
use super::tags::{self, Body, FENCE, Tag, TagKind, TagSet, Trim, ValueType};
use super::{Action, Change, ParsedReply, ReplyItem};
use crate::format::attributes;

/// White space between tags, and between the parts of a tag.
pub(super) const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern, compiled in every test run")
}

/// The opening or closing tag of a block that only nagent writes, in any spelling, up to the end of its name.
static DRIVER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\A<\s*(?:/\s*)?([A-Za-z][A-Za-z0-9_-]{0,63})"));
/// The start of a tag: a slash if it is a closing tag, and the name.
static TAG: LazyLock<Regex> = LazyLock::new(|| regex(r"\A<(/?)([A-Za-z_][A-Za-z0-9_.:-]*)"));
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"\A[ \t\r\n]+([A-Za-z_][A-Za-z0-9_.:-]*)[ \t\r\n]*=[ \t\r\n]*(?:"([^"]*)"|'([^']*)')"#)
});
static END: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[ \t\r\n]*(/?)>"));
/// A tag of this protocol anywhere in a text.
static ANYWHERE: LazyLock<Regex> = LazyLock::new(|| regex(r"<(/?)(nagent-[a-z-]+)"));
/// The valid words of a fence.
static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[A-Za-z0-9._-]{1,64}\z"));
static POSITIVE: LazyLock<Regex> = LazyLock::new(|| regex(r"\A[1-9][0-9]{0,19}\z"));

/// Parses a reply in which every tag is allowed. Never fails and never panics, whatever the text is.
pub fn parse_reply(reply: &str) -> ParsedReply<'_> {
    parse_reply_with(reply, TagSet::ALL)
}

/// Parses a reply in which these tags are allowed; any other tag is unknown.
pub fn parse_reply_with(reply: &str, tags: TagSet) -> ParsedReply<'_> {
    let at = if reply.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = Parser { reply, at, tags, bodies: Vec::new(), empty: None };
    match parser.parse_items() {
        Ok((items, None)) => ParsedReply::Whole(items),
        Ok((items, Some(block))) => {
            let offset = parser.at;
            ParsedReply::Forged { items, kept: &reply[..offset], block, offset }
        }
        Err(malformed) => ParsedReply::Malformed(malformed),
    }
}

/// Parses a text that is a whole opening tag; `None`: it is not one that is allowed.
pub(super) fn parse_opening(text: &str, tags: TagSet) -> Option<TagOpening> {
    let mut parser = Parser { reply: text, at: 0, tags, bodies: Vec::new(), empty: None };
    let tag = parser.parse_name().ok()?;
    let values = parser.parse_attributes(tag, 0).ok()?;
    let fence = values.find_value(FENCE);
    let closer =
        fence.map_or_else(|| format!("</{}>", tag.name), |word| format!("</{} {word}>", tag.name));
    (parser.at == text.len()).then_some(TagOpening { tag, closer, closed: values.closed })
}

/// An opening tag.
pub(super) struct TagOpening {
    pub(super) tag: &'static Tag,
    /// The closing tag that ends its body.
    pub(super) closer: String,
    /// Whether it ended in `/>`.
    pub(super) closed: bool,
}

struct Parser<'a> {
    reply: &'a str,
    /// The current position, in bytes; always a character boundary.
    at: usize,
    /// The allowed tags.
    tags: TagSet,
    /// Tags whose body ended at a closing tag without a fence word.
    bodies: Vec<&'static Tag>,
    /// The mistake of a response without a text, which counts only if there is no action.
    empty: Option<Malformed>,
}

struct Values {
    tag: &'static Tag,
    given: Vec<(&'static str, String)>,
    closed: bool,
    /// The mistake in a value.
    wrong: Option<String>,
}

impl<'a> Parser<'a> {
    /// Parses all items, up to the first block that only nagent writes, if there is one.
    fn parse_items(&mut self) -> Result<(Vec<ReplyItem>, Option<String>), Malformed> {
        let mut items = Vec::new();
        self.skip_space();
        // The start of words outside of tags.
        let mut prose = None;
        if let Some(words) = self.prose_before() {
            prose = Some(self.at);
            self.at += words.len();
            items.push(ReplyItem::Response(words.trim_matches(SPACE).to_owned()));
        }
        let first_tag = items.len();
        loop {
            let end = self.at;
            self.skip_space();
            if self.remaining().is_empty() {
                break;
            }
            if items.len() > first_tag && self.at > end && is_prose(self.remaining()) {
                prose = prose.or(Some(self.at));
                items.push(ReplyItem::Response(self.remaining().trim_matches(SPACE).to_owned()));
                self.at = self.reply.len();
                break;
            }
            if let Some(block) = self.driver_block() {
                if items.is_empty() {
                    return Err(self.malformed_at(self.at, complaint::describe_forged(&block)));
                }
                self.check_words(prose, &mut items)?;
                return Ok((items, Some(block)));
            }
            if items.len() - first_tag == limits::REPLY_TAGS {
                let message =
                    format!("more than {REPLY_TAGS} tags in one reply: send fewer at a time");
                return Err(self.malformed_at(self.at, message));
            }
            items.push(self.parse_tag()?);
        }
        if items.is_empty() {
            let message =
                "the reply is empty: answer with <nagent-response>, or use another tag to act";
            return Err(self.malformed_at(self.at, message.to_owned()));
        }
        self.check_words(prose, &mut items)?;
        Ok((items, None))
    }

    /// The words before the first tag. If the tag is on their line, they count only if no words follow it: a tag in the
    /// middle of a text is only mentioned, and so is one that is indented as a code block.
    fn prose_before(&self) -> Option<&'a str> {
        let rest = self.remaining();
        let tag = ANYWHERE
            .captures(rest)
            .filter(|tag| self.tags.find_tag(&tag[2]).is_some() && tag[1].is_empty())?;
        let tag = tag.get(0).filter(|tag| tag.start() > 0)?.start();
        let words = &rest[..tag];
        if !is_prose(words) {
            return None;
        }
        let indent = words.rsplit('\n').next().unwrap_or_default();
        let is_line = indent.trim_matches([' ', '\t']).is_empty();
        if is_line && (indent.contains('\t') || indent.len() >= CODE_INDENT) {
            return None;
        }
        let mut after = Parser { at: self.at + tag, bodies: Vec::new(), empty: None, ..*self };
        if is_line || after.parse_tag().is_err() {
            return Some(words);
        }
        // Two mentions, or a mention and a tag, would become one tag that spans all the text between them.
        let whole = &rest[tag + 1..after.at - self.at];
        if ANYWHERE.captures_iter(whole).any(|inner| inner[1].is_empty()) {
            return None;
        }
        let next = after.remaining().trim_start_matches(SPACE);
        (next.is_empty() || next.starts_with('<')).then_some(words)
    }

    /// Refuses words outside of tags, and a response without a text, if there is no action in the reply.
    fn check_words(
        &mut self,
        prose: Option<usize>,
        items: &mut Vec<ReplyItem>,
    ) -> Result<(), Malformed> {
        if items.iter().any(|item| matches!(item, ReplyItem::Action(_))) {
            items.retain(|item| !matches!(item, ReplyItem::Response(text) if text.is_empty()));
            return Ok(());
        }
        if let Some(at) = prose {
            return Err(self.malformed_at(at, complaint::stray_text(&self.reply[at..])));
        }
        self.empty.take().map_or(Ok(()), Err)
    }

    fn remaining(&self) -> &'a str {
        &self.reply[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.reply.len() - self.remaining().trim_start_matches(SPACE).len();
    }

    fn malformed_at(&self, offset: usize, message: String) -> Malformed {
        Malformed::new(self.reply, offset, message)
    }

    /// The block that begins or ends here, if it is one that only nagent writes.
    fn driver_block(&self) -> Option<String> {
        tags::driver_block(&DRIVER.captures(self.remaining())?[1])
    }

    fn parse_tag(&mut self) -> Result<ReplyItem, Malformed> {
        let start = self.at;
        let tag = self.parse_name()?;
        let mut values = self.parse_attributes(tag, start)?;
        let body = match tag.body {
            Body::None => {
                if !values.closed {
                    self.parse_empty_pair(tag, start)?;
                }
                ""
            }
            Body::Raw { may_be_empty, trim, .. } => {
                if values.closed {
                    return Err(
                        self.malformed_at(start, complaint::describe_form(tag, "needs a body"))
                    );
                }
                let body = self.parse_body(tag, values.find_value(FENCE), start)?;
                if !may_be_empty && body.trim_matches(SPACE).is_empty() {
                    let wrong = complaint::describe_form(tag, "has an empty body");
                    if tag.kind == TagKind::Response {
                        self.empty = self.empty.take().or(Some(self.malformed_at(start, wrong)));
                        return Ok(ReplyItem::Response(String::new()));
                    }
                    values.wrong = values.wrong.or(Some(wrong));
                }
                trim_body(body, trim)
            }
        };
        Ok(build(&values, body.to_owned()))
    }

    fn parse_name(&mut self) -> Result<&'static Tag, Malformed> {
        let rest = self.remaining();
        let Some(found) = TAG.captures(rest) else {
            let spaced = rest.strip_prefix('<').map(|rest| rest.trim_start_matches(SPACE));
            let message = match spaced {
                Some(name) if name.starts_with("nagent-") => {
                    "remove the white space between < and the name of the tag".to_owned()
                }
                _ => self.unknown_tag_behind(rest).unwrap_or_else(|| complaint::stray_text(rest)),
            };
            return Err(self.stray_tag(message));
        };
        let (whole, name) = (&found[0], &found[2]);
        if !found[1].is_empty() {
            return Err(self.stray_tag(complaint::stray_closer(name)));
        }
        let Some(tag) = self.tags.find_tag(name) else {
            if whole.len() == rest.len() {
                return Err(self.malformed_at(self.at, "the reply ends inside a tag".to_owned()));
            }
            return Err(self.stray_tag(complaint::unknown_tag(name, self.tags)));
        };
        self.at += whole.len();
        Ok(tag)
    }

    /// Explains why words are not a message: the first tag after them is unknown.
    fn unknown_tag_behind(&self, words: &str) -> Option<String> {
        let tag = ANYWHERE.captures(words)?;
        let is_unknown = tag[1].is_empty() && self.tags.find_tag(&tag[2]).is_none();
        is_unknown.then(|| complaint::unknown_tag(&tag[2], self.tags))
    }

    /// Reports an unknown tag. If the next tag closes one that was already parsed, the body of that one probably ended
    /// too early.
    fn stray_tag(&self, message: String) -> Malformed {
        let next = if self.bodies.is_empty() { None } else { ANYWHERE.captures(self.remaining()) };
        let early = next.filter(|next| !next[1].is_empty());
        let early = early.and_then(|next| self.bodies.iter().find(|tag| tag.name == &next[2]));
        let hint = early.map(|tag| complaint::fence_hint(tag)).unwrap_or_default();
        self.malformed_at(self.at, message + &hint)
    }

    fn parse_attributes(&mut self, tag: &'static Tag, start: usize) -> Result<Values, Malformed> {
        let mut values = Values { tag, given: Vec::new(), closed: false, wrong: None };
        while let Some(found) = ATTRIBUTE.captures(self.remaining()) {
            let key = found.get(1).map_or(self.at, |key| self.at + key.start());
            self.parse_attribute(&mut values, &found, key)?;
            self.at += found[0].len();
        }
        let Some(end) = END.captures(self.remaining()) else {
            return Err(self.broken_tag(tag));
        };
        values.closed = !end[1].is_empty();
        self.at += end[0].len();
        for attribute in tag.attributes {
            let is_given = values.find_value(attribute.name).is_some();
            if attribute.required && !is_given {
                let wrong = format!("needs {}, {}", attribute.name, attribute.meaning);
                return Err(self.malformed_at(start, complaint::describe_form(tag, &wrong)));
            }
            let excluded =
                attribute.excludes.iter().find(|other| values.find_value(other).is_some());
            if let Some(other) = excluded.filter(|_| is_given) {
                let wrong = format!("cannot take both {} and {other}", attribute.name);
                values.wrong = values.wrong.or_else(|| Some(complaint::describe_form(tag, &wrong)));
            }
        }
        Ok(values)
    }

    /// Checks one attribute, whose name begins at `at`, and stores its value.
    fn parse_attribute(
        &self,
        values: &mut Values,
        found: &Captures<'_>,
        at: usize,
    ) -> Result<(), Malformed> {
        let tag = values.tag;
        let key = &found[1];
        let raw = found.get(2).or_else(|| found.get(3)).map_or("", |raw| raw.as_str());
        let value = attributes::decode(raw);
        let (name, wrong) = if key == FENCE && tag.body != Body::None {
            if !WORD.is_match(&value) {
                let message = "a fence is one word of at most 64 letters, digits, dots, - and _";
                return Err(self.malformed_at(at, message.to_owned()));
            }
            (FENCE, None)
        } else {
            let Some(attribute) = tag.attribute(key) else {
                return Err(self.malformed_at(at, complaint::unknown_attribute(tag, key)));
            };
            let (name, meaning) = (attribute.name, attribute.meaning);
            let is_number = || POSITIVE.is_match(&value) && value.parse::<u64>().is_ok();
            let bytes = value.len();
            let wrong = if bytes > ATTRIBUTE_VALUE {
                let most = format!("the maximum is {ATTRIBUTE_VALUE}");
                Some(format!("the value of {key} in <{}> has {bytes} bytes; {most}", tag.name))
            } else if attribute.required && value.is_empty() {
                Some(format!("{name} of <{}> is empty: it is {meaning}", tag.name))
            } else if attribute.value == ValueType::Name && value.is_empty() {
                Some(format!("{name} of <{}> is empty: leave it out, or give a value", tag.name))
            } else if attribute.value == ValueType::Flag && !matches!(&*value, "true" | "false") {
                Some(format!("{name} of <{}> is \"true\" or \"false\"", tag.name))
            } else if attribute.value == ValueType::Positive && !is_number() {
                let number = "must be a whole number from 1";
                let given = complaint::excerpt_of(&value, 40);
                let tag = tag.name;
                Some(format!("{name} of <{tag}> {number}, and is \"{given}\": it is {meaning}"))
            } else {
                None
            };
            (name, wrong)
        };
        if values.find_value(name).is_some() {
            return Err(
                self.malformed_at(at, format!("<{}> has the attribute {key} twice", tag.name))
            );
        }
        values.wrong = values.wrong.take().or(wrong);
        values.given.push((name, value));
        Ok(())
    }

    /// Reports an opening tag that continues neither with an attribute nor with its end.
    fn broken_tag(&self, tag: &Tag) -> Malformed {
        let inner = self.remaining().trim_start_matches(SPACE);
        let message = if inner.is_empty() {
            format!("the reply ends inside <{}>", tag.name)
        } else {
            format!(
                "cannot parse <{}> from here on: write each attribute as name=\"value\", with white space before it and \
                 &quot; for a \" in it, and end the tag with > or />",
                tag.name
            )
        };
        self.malformed_at(self.reply.len() - inner.len(), message)
    }

    /// Parses the closing tag of a tag without a body that was written as a pair.
    fn parse_empty_pair(&mut self, tag: &Tag, start: usize) -> Result<(), Malformed> {
        self.skip_space();
        let closing =
            self.remaining().strip_prefix("</").and_then(|rest| rest.strip_prefix(tag.name));
        let Some(rest) = closing.and_then(|rest| rest.strip_prefix('>')) else {
            return Err(self
                .malformed_at(start, complaint::describe_form(tag, "has no body and ends in />")));
        };
        self.at = self.reply.len() - rest.len();
        Ok(())
    }

    fn parse_body(
        &mut self,
        tag: &'static Tag,
        fence: Option<&str>,
        start: usize,
    ) -> Result<&'a str, Malformed> {
        let name = tag.name;
        let closer = fence.map_or_else(|| format!("</{name}>"), |word| format!("</{name} {word}>"));
        let rest = self.remaining();
        let Some(length) = rest.find(&closer) else {
            let message = format!("<{name}> is not closed: {closer} is missing");
            return Err(self.malformed_at(start, message));
        };
        self.at += length + closer.len();
        if fence.is_none() && !self.bodies.iter().any(|seen| seen.kind == tag.kind) {
            self.bodies.push(tag);
        }
        Ok(&rest[..length])
    }
}

/// Whether a line begins a turn, as in `Human: yes, go ahead`. Models that write on after their own reply produce such
/// lines.
fn is_turn_label(line: &str) -> bool {
    let name = line.split_once(':').map_or("", |(name, _)| name.trim());
    ["human", "user", "assistant", "system"].iter().any(|label| name.eq_ignore_ascii_case(label))
}

/// The indentation of a code block in Markdown, in blanks.
const CODE_INDENT: usize = 4;

/// Whether words outside of tags can be a message: no `<` at the start of a line, no code fence, nothing that looks
/// like a tag or a block of nagent's, and no turn that the model writes in someone else's name.
fn is_prose(words: &str) -> bool {
    let looks_like_tag = |at: usize| {
        let found = DRIVER.captures(&words[at..]);
        found.is_some_and(|found| {
            found[1].to_ascii_lowercase().starts_with("nagent")
                || tags::driver_block(&found[1]).is_some()
        })
    };
    words.contains(char::is_alphanumeric)
        && !complaint::CODE_FENCES.iter().any(|fence| words.contains(fence))
        && !words.lines().any(|line| line.trim_start().starts_with('<') || is_turn_label(line))
        && !words.match_indices('<').any(|(at, _)| looks_like_tag(at))
}

fn trim_body(body: &str, trim: Trim) -> &str {
    match trim {
        Trim::First => {
            body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body)
        }
        Trim::Outer => body.trim_matches(['\r', '\n']),
    }
}

impl Values {
    fn find_value(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// A required value; its presence has been checked.
    fn required(&self, name: &str) -> String {
        self.find_value(name).unwrap_or_default().to_owned()
    }

    /// An optional value; an empty one counts as left out.
    fn optional(&self, name: &str) -> Option<String> {
        self.find_value(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.find_value(name)?.parse().ok()
    }
}

fn build(values: &Values, body: String) -> ReplyItem {
    if let Some(why) = &values.wrong {
        return ReplyItem::Action(Action::Wrong { kind: values.tag.kind, why: why.clone() });
    }
    ReplyItem::Action(match values.tag.kind {
        TagKind::Response => return ReplyItem::Response(body),
        TagKind::Read => Action::Read {
            path: values.required("path"),
            offset: values.number("offset"),
            limit: values.number("limit"),
            numbers: values.find_value("numbers") == Some("true"),
        },
        TagKind::FileRead => Action::FileRead { path: values.required("path") },
        TagKind::FilePatch => Action::Change(Change::FilePatch { index: values.required("index") }),
        TagKind::Write => {
            Action::Change(Change::Write { path: values.required("path"), text: body })
        }
        TagKind::Edit => Action::Change(Change::Edit {
            path: values.required("path"),
            blocks: body,
            all: values.find_value("all") == Some("true"),
        }),
        TagKind::List => Action::List { path: values.required("path") },
        TagKind::Glob => {
            Action::Glob { pattern: values.required("pattern"), path: values.optional("path") }
        }
        TagKind::Grep => Action::Grep {
            pattern: values.required("pattern"),
            path: values.optional("path"),
            glob: values.optional("glob"),
            context: values.number("context"),
            ignore_case: values.find_value("ignore_case") == Some("true"),
        },
        TagKind::Shell => Action::Shell {
            commands: body,
            timeout: values.number("timeout"),
            keep: values.optional("keep"),
            outside: (values.find_value("sandbox") == Some("off"))
                .then(|| values.optional("reason").unwrap_or_default()),
        },
        TagKind::Next => Action::Next { prompt: body },
        TagKind::Stdout => Action::Stdout { text: body },
        TagKind::Script => Action::Script { code: body },
        TagKind::Conversation => Action::Conversation {
            prompt: body,
            name: values.optional("name"),
            from: values.optional("from"),
            file: values.optional("file"),
        },
    })
}
