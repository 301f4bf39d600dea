//! The parser of replies. It is strict about tags: one mistake in their form, and nothing in the reply counts. A wrong value or
//! attribute only affects its own action. Words around tags are messages, or part of the answer; what wraps a whole reply (a
//! code fence, reasoning) is left out, and so is what can mean only one thing in another spelling.
//!
//! It makes one pass from left to right, with regular expressions anchored at the current position, so the time grows
//! linearly with the reply's length. It never guesses: the complaint describes the correct form, and the model writes
//! the reply again. The grammar is in the documentation of the parent module.

use super::complaint::{self, Malformed};
use super::scan::{self, BLANK, RawAttribute, find_tags, is_positive};
use super::tags::{self, Body, FENCE, Tag, TagAttribute, TagKind, TagSet, Trim, ValueType};
use super::{Action, Change, ParsedReply, ReplyItem};
use crate::format::attributes;
use crate::format::file::closing_tag;
use crate::limits::{self, ATTRIBUTE_VALUE, REPLY_TAGS};

/// White space between tags; the last two are marks that nobody sees.
pub(super) const SPACE: [char; 6] = [' ', '\t', '\r', '\n', '\u{feff}', '\u{200b}'];

/// Parses a reply in which every tag is allowed. Never fails and never panics, whatever the text is.
pub fn parse_reply(reply: &str) -> ParsedReply<'_> {
    parse_reply_with(reply, TagSet::ALL)
}

/// Parses a reply in which these tags are allowed; any other tag is unknown.
pub fn parse_reply_with(reply: &str, tags: TagSet) -> ParsedReply<'_> {
    let (at, end) = find_content(reply);
    let content = reply.get(..end).unwrap_or(reply);
    let mut parser = Parser { reply: content, at, tags, bodies: Vec::new(), empty: None };
    match parser.parse_items() {
        Ok((items, None)) => ParsedReply::Whole(items),
        Ok((items, Some(block))) => {
            let offset = parser.at;
            ParsedReply::Forged { items, kept: &reply[..offset], block, offset }
        }
        Err(malformed) => ParsedReply::Malformed(malformed),
    }
}

/// The range of a reply without what wraps all of it: reasoning that a program did not take off, and one code fence.
fn find_content(reply: &str) -> (usize, usize) {
    let mut rest = reply.trim_start_matches(SPACE);
    for name in ["think", "thinking"] {
        let thoughts = rest.split_once(&format!("</{name}>"));
        let is_thought = |text: &str| {
            text.starts_with(&format!("<{name}>")) || !text.contains('<') && name == "think"
        };
        if let Some((_, after)) = thoughts.filter(|(before, _)| is_thought(before)) {
            rest = after.trim_start_matches(SPACE);
        }
    }
    let start = reply.len() - rest.len();
    let inner = rest.strip_prefix("```").and_then(|rest| rest.split_once('\n'));
    let inner = inner.filter(|(word, inner)| {
        word.trim_end().bytes().all(|byte| byte.is_ascii_alphanumeric())
            && inner.trim_start_matches(SPACE).starts_with('<')
    });
    let closed = rest.trim_end_matches(SPACE).strip_suffix("```");
    match (inner, closed.filter(|text| text.ends_with('\n'))) {
        (Some((_, inner)), Some(closed)) if closed.len() > rest.len() - inner.len() => {
            (reply.len() - inner.len(), start + closed.len())
        }
        _ => (start, reply.len()),
    }
}

/// The tag of an action that begins a line of an answer, outside of code fences, and is whole: the model may have meant it.
pub fn find_action_in(answer: &str, tags: TagSet) -> Option<&'static str> {
    let (mut at, mut is_code) = (0, false);
    for line in answer.split_inclusive('\n') {
        let start = line.trim_start_matches(SPACE);
        is_code ^= complaint::CODE_FENCES.iter().any(|fence| start.starts_with(fence));
        if !is_code && start.starts_with('<') {
            let at = at + line.len() - start.len();
            let mut parser = Parser { reply: answer, at, tags, bodies: Vec::new(), empty: None };
            if let Ok(ReplyItem::Action(action)) = parser.parse_tag()
                && !matches!(action, Action::Wrong { .. })
            {
                return Some(action.tag_name());
            }
        }
        at += line.len();
    }
    None
}

/// Finds a tag by its name; case and `_` for `-` do not matter, since no other tag can be meant.
fn find_spelled(tags: TagSet, name: &str) -> Option<&'static Tag> {
    tags.find_tag(name).or_else(|| tags.find_tag(&name.to_ascii_lowercase().replace('_', "-")))
}

/// Parses a text that is a whole opening tag; `None`: it is not one that is allowed.
pub(super) fn parse_opening(text: &str, tags: TagSet) -> Option<TagOpening> {
    let mut parser = Parser { reply: text, at: 0, tags, bodies: Vec::new(), empty: None };
    let (tag, name) = parser.parse_name().ok()?;
    let values = parser.parse_attributes(tag).ok()?;
    let closer = closing_tag(name, values.find_value(FENCE));
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
        let mut tags = 0;
        let forged = loop {
            let end = self.at;
            self.skip_space();
            if self.remaining().is_empty() {
                break None;
            }
            if (self.at > end || items.is_empty())
                && let Some(words) = self.words(tags > 0)
            {
                self.at += words.len();
                items.push(ReplyItem::Response(words.trim_matches(SPACE).to_owned()));
                continue;
            }
            if let Some(block) = self.driver_block() {
                if tags == 0 {
                    return Err(self.malformed_at(self.at, complaint::describe_forged(&block)));
                }
                break Some(block);
            }
            if tags == limits::REPLY_TAGS {
                let message =
                    format!("more than {REPLY_TAGS} tags in one reply: send fewer at a time");
                return Err(self.malformed_at(self.at, message));
            }
            items.push(self.parse_tag()?);
            tags += 1;
        };
        items.retain(|item| !matches!(item, ReplyItem::Response(text) if text.is_empty()));
        if items.is_empty() {
            let message =
                "the reply is empty: answer with <nagent-response>, or use another tag to act";
            let empty = self.empty.take();
            return Err(empty.unwrap_or_else(|| self.malformed_at(self.at, message.to_owned())));
        }
        Ok((items, forged))
    }

    /// The words that begin here: those before a tag, or behind the last one.
    fn words(&self, is_after_tag: bool) -> Option<&'a str> {
        let rest = self.remaining();
        self.prose_before().or_else(|| Some(rest).filter(|_| is_after_tag && is_prose(rest)))
    }

    /// The words before the next tag. If the tag is on their line, they count only if no words follow it: a tag in the
    /// middle of a text is only mentioned, and so is one that is indented as a code block.
    fn prose_before(&self) -> Option<&'a str> {
        let rest = self.remaining();
        let tag = find_tags(rest).next().filter(|tag| tag.at > 0 && !tag.closes)?;
        let tag = find_spelled(self.tags, tag.name).map(|_| tag.at)?;
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
        if find_tags(whole).any(|inner| !inner.closes) {
            return None;
        }
        let next = after.remaining().trim_start_matches(SPACE);
        (next.is_empty() || next.starts_with('<')).then_some(words)
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
        tags::driver_block(scan::read_loose_name(self.remaining())?)
    }

    fn parse_tag(&mut self) -> Result<ReplyItem, Malformed> {
        let start = self.at;
        let (tag, name) = self.parse_name()?;
        let mut values = self.parse_attributes(tag)?;
        let body = match tag.body {
            Body::None => {
                // Without its slash, it can only mean the same.
                if !values.closed {
                    self.skip_closing_tag(name);
                }
                ""
            }
            Body::Raw { .. } if values.closed && tag.kind != TagKind::Response => {
                let wrong = complaint::describe_form(tag, "needs a body");
                values.wrong = values.wrong.or(Some(wrong));
                ""
            }
            Body::Raw { may_be_empty, trim, .. } => {
                let closer = closing_tag(name, values.find_value(FENCE));
                let body =
                    if values.closed { "" } else { self.parse_body(&values, &closer, start)? };
                if !may_be_empty && body.trim_matches(BLANK).is_empty() {
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

    /// The tag that begins here, and its name as it is spelled.
    fn parse_name(&mut self) -> Result<(&'static Tag, &'a str), Malformed> {
        let rest = self.remaining();
        let Some(found) = scan::read_tag(rest) else {
            let spaced = rest.strip_prefix('<').map(|rest| rest.trim_start_matches(BLANK));
            let message = match spaced {
                Some(name) if name.starts_with("nagent-") => {
                    "remove the white space between < and the name of the tag".to_owned()
                }
                _ => self.unknown_tag_behind(rest).unwrap_or_else(|| complaint::stray_text(rest)),
            };
            return Err(self.stray_tag(message));
        };
        let name = found.name;
        if found.closes {
            return Err(self.stray_tag(complaint::stray_closer(name)));
        }
        let Some(tag) = find_spelled(self.tags, name) else {
            if found.len() == rest.len() {
                return Err(self.malformed_at(self.at, "the reply ends inside a tag".to_owned()));
            }
            return Err(self.stray_tag(complaint::unknown_tag(name, self.tags)));
        };
        self.at += found.len();
        Ok((tag, name))
    }

    /// Explains why words are not a message: the first tag after them is unknown.
    fn unknown_tag_behind(&self, words: &str) -> Option<String> {
        let tag = find_tags(words).next()?;
        let is_unknown = !tag.closes && find_spelled(self.tags, tag.name).is_none();
        is_unknown.then(|| complaint::unknown_tag(tag.name, self.tags))
    }

    /// Reports an unknown tag. If the next tag closes one that was already parsed, the body of that one probably ended
    /// too early.
    fn stray_tag(&self, message: String) -> Malformed {
        let early = find_tags(self.remaining()).next().filter(|next| next.closes);
        let early = early.and_then(|next| self.bodies.iter().find(|tag| tag.name == next.name));
        let hint = early.map(|tag| complaint::fence_hint(tag)).unwrap_or_default();
        self.malformed_at(self.at, message + &hint)
    }

    fn parse_attributes(&mut self, tag: &'static Tag) -> Result<Values, Malformed> {
        let mut values = Values { tag, given: Vec::new(), closed: false, wrong: None };
        while let Some(found) = scan::read_attribute(self.remaining()) {
            self.parse_attribute(&mut values, found)?;
            self.at += found.end;
        }
        let Some((closed, length)) = scan::read_end(self.remaining()) else {
            return Err(self.broken_tag(tag));
        };
        values.closed = closed;
        self.at += length;
        for attribute in tag.attributes {
            let is_given = values.find_value(attribute.name).is_some();
            if attribute.required && !is_given {
                let wrong = format!("needs {}, {}", attribute.name, attribute.meaning);
                values.wrong = values.wrong.or_else(|| Some(complaint::describe_form(tag, &wrong)));
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

    /// Checks one attribute, and stores its value.
    fn parse_attribute(
        &self,
        values: &mut Values,
        found: RawAttribute<'_>,
    ) -> Result<(), Malformed> {
        let tag = values.tag;
        let key = found.name;
        let mut value = attributes::decode(found.value);
        let (name, wrong) = if key == FENCE && tag.body != Body::None {
            if !scan::is_fence_word(&value) {
                let message = "a fence is one word of at most 64 letters, digits, dots, - and _";
                return Err(self.malformed_at(self.at + found.at, message.to_owned()));
            }
            (FENCE, None)
        } else {
            let Some(attribute) = tag.attribute(key) else {
                let wrong = || Some(complaint::unknown_attribute(tag, key));
                values.wrong = values.wrong.take().or_else(wrong);
                return Ok(());
            };
            let (name, meaning) = (attribute.name, attribute.meaning);
            let Some(plain) = plain_value(attribute, value) else { return Ok(()) };
            value = plain;
            let is_number = || is_positive(&value) && value.parse::<u64>().is_ok();
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
        let is_other = values.find_value(name).is_some_and(|given| given != value);
        let wrong = wrong
            .or_else(|| is_other.then(|| format!("<{}> has the attribute {key} twice", tag.name)));
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

    /// Skips the closing tag of a tag without a body that was written as a pair.
    fn skip_closing_tag(&mut self, name: &str) {
        let rest = self.remaining().trim_start_matches(SPACE);
        if let Some(rest) = rest.strip_prefix(&closing_tag(name, None)) {
            self.at = self.reply.len() - rest.len();
        }
    }

    fn parse_body(
        &mut self,
        values: &Values,
        closer: &str,
        start: usize,
    ) -> Result<&'a str, Malformed> {
        let (tag, rest) = (values.tag, self.remaining());
        let Some(length) = rest.find(closer) else {
            let message = format!("<{}> is not closed: {closer} is missing", tag.name);
            return Err(self.malformed_at(start, message));
        };
        self.at += length + closer.len();
        let has_fence = values.find_value(FENCE).is_some();
        if !has_fence && !self.bodies.iter().any(|seen| seen.kind == tag.kind) {
            self.bodies.push(tag);
        }
        Ok(&rest[..length])
    }
}

/// A value in the spelling of the table, where another one can mean nothing else. `None`: as if it were left out.
fn plain_value(attribute: &TagAttribute, value: String) -> Option<String> {
    let plain = value.trim().to_ascii_lowercase();
    match (attribute.value, attribute.name, plain.as_str()) {
        (ValueType::Flag, _, "true" | "1" | "yes") => Some("true".to_owned()),
        (ValueType::Flag, _, "false" | "0" | "no") => Some("false".to_owned()),
        (ValueType::Positive, _, "" | "none") | (ValueType::Positive, "context", "0") => None,
        (ValueType::Positive, "offset", "0") => Some("1".to_owned()),
        (ValueType::Positive, ..) => {
            let number = plain.strip_suffix('s').filter(|_| attribute.name == "timeout");
            let number = number.unwrap_or(&plain).trim_end().trim_start_matches('+');
            let digits = number.trim_start_matches('0');
            Some(if is_positive(digits) { digits.to_owned() } else { value })
        }
        _ => Some(value),
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
        scan::read_loose_name(&words[at..]).is_some_and(|name| {
            name.to_ascii_lowercase().starts_with("nagent") || tags::driver_block(name).is_some()
        })
    };
    let has_open_fence = |fence: &str| words.matches(fence).count() % 2 == 1;
    words.contains(char::is_alphanumeric)
        && !complaint::CODE_FENCES.into_iter().any(has_open_fence)
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
    if let Some(why) = values.wrong.as_ref().filter(|_| values.tag.kind != TagKind::Response) {
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
