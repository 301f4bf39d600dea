//! Describes the mistake in a reply, for the model that wrote it.

use std::fmt;

use super::tags::{self, Body, FENCE, Tag, TagKind, TagSet};
use crate::format::harmless::truncate;
use crate::format::nearest::nearest;

/// The marks that open a code block in Markdown.
pub(super) const CODE_FENCES: [&str; 2] = ["```", "~~~"];

/// The mistake that makes a reply malformed, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The place of the mistake, in bytes from the start of the reply.
    pub offset: usize,
    /// The line of the mistake, from 1.
    pub line: usize,
    /// The mistake, and the correct form.
    pub message: String,
    /// The text at that place: at most 80 characters, escaped; empty at the end of the reply.
    pub excerpt: String,
}

/// Maximum length of an excerpt, in characters.
const EXCERPT: usize = 80;
/// Maximum length of a name that is quoted from a reply, in characters.
const NAME: usize = 40;

impl Malformed {
    pub(super) fn new(reply: &str, offset: usize, message: String) -> Self {
        let (before, after) = reply.split_at(offset);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { offset, line, message, excerpt: excerpt_of(after, EXCERPT) }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, message, excerpt, .. } = self;
        write!(f, "{message} (line {line} of the reply")?;
        if excerpt.is_empty() { write!(f, ", its end)") } else { write!(f, ": {excerpt})") }
    }
}

/// Returns the beginning of `text`, at most `limit` characters, with invisible characters escaped.
pub(super) fn excerpt_of(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for char in text.chars().take(limit + 1) {
        match char {
            '"' | '\'' | '\\' => shown.push(char),
            _ => shown.extend(char.escape_debug()),
        }
    }
    truncate(&shown, limit)
}

pub(super) fn unknown_tag(name: &str, tags: TagSet) -> String {
    let shown = excerpt_of(name, NAME);
    let bare = shown.to_ascii_lowercase().replace('_', "-");
    let bare = bare.strip_prefix("nagent-").unwrap_or(&bare);
    let names: Vec<_> = tags.iter().map(Tag::short_name).collect();
    if let Some(near) = nearest(bare, names) {
        return format!("there is no tag <{shown}>; did you mean <nagent-{near}>?");
    }
    let names: Vec<_> = tags.iter().map(|tag| tag.name).collect();
    format!("there is no tag <{shown}>; the tags are {}", names.join(", "))
}

pub(super) fn unknown_attribute(tag: &Tag, name: &str) -> String {
    let shown = excerpt_of(name, NAME);
    let mut names: Vec<_> = tag.attributes.iter().map(|attribute| attribute.name).collect();
    if tag.body != Body::None {
        names.push(FENCE);
    }
    let near = nearest(&shown.to_ascii_lowercase(), names.iter().copied());
    let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    describe_form(tag, &format!("has no attribute {shown}{near}"))
}

pub(super) fn stray_text(text: &str) -> String {
    if let Some(fence) = CODE_FENCES.iter().find(|fence| text.starts_with(**fence)) {
        return format!("a code fence outside of tags: write the tags without {fence} around them");
    }
    if text.starts_with("<!") {
        return "comments are not allowed: a reply contains only tags and white space".to_owned();
    }
    if text.starts_with(['{', '[']) {
        let named = tags::TAGS.iter().find(|tag| text.contains(tag.name));
        let tag = named.unwrap_or_else(|| TagKind::Shell.table_row());
        let usage = tag.usage_lines().swap_remove(0);
        return format!("act with the tags of the protocol, not with JSON: write {usage}");
    }
    "text outside of tags: put it in <nagent-response>".to_owned()
}

pub(super) fn describe_forged(block: &str) -> String {
    let instead = match block {
        "agent-response" => "write your tags without it, and an answer as <nagent-response>",
        _ => "write only the action; nagent adds the result",
    };
    format!("only nagent writes <{block}>, as it does all results and prompts: {instead}")
}

/// Explains how to fix a body that ended too early.
pub(super) fn fence_hint(tag: &Tag) -> String {
    let name = tag.name;
    format!(
        "; the body of <{name}> ended at its first </{name}>: if the text contains that tag, \
         write <{name} fence=\"WORD\" …> and close it with </{name} WORD>, where WORD is a word that is not in the text"
    )
}

/// Describes the mistake in a tag's form, and shows the correct form.
pub(super) fn describe_form(tag: &Tag, wrong: &str) -> String {
    format!("<{}> {wrong}: write {}", tag.name, tag.usage_lines().join(" or "))
}

pub(super) fn stray_closer(name: &str) -> String {
    let shown = excerpt_of(name, NAME);
    let is_known = TagSet::ALL.find_tag(name).is_some();
    let known = if is_known { "" } else { ", and there is no such tag" };
    format!("</{shown}> has no opening tag{known}")
}

#[cfg(test)]
mod tests {
    use super::tags::TagKind;
    use super::*;

    #[test]
    fn excerpts_are_short_and_harmless() {
        let check = |text: &str, expect: &str| assert_eq!(excerpt_of(text, 10), expect);
        check("plain", "plain");
        check("0123456789", "0123456789");
        check("01234567890", "012345678…");
        check("a\n\u{1b}b", r"a\n\u{1b}b");
        check("a\u{202e}b", r"a\u{202e}b");
        check("a\u{200b}bcdefgh", r"a\u{200b}…");
        check(r#"say "\""#, r#"say "\""#);
        check("ééééééééééé", "ééééééééé…");
        check("", "");
    }

    #[test]
    fn near_names_are_offered() {
        let check = |name: &str, expect: &str| {
            let message = unknown_tag(name, TagSet::ALL);
            assert!(message.ends_with(&format!("did you mean <{expect}>?")), "{message}");
        };
        check("nagent-sheel", "nagent-shell");
        check("nagent_shell", "nagent-shell");
        check("NAGENT-SHELL", "nagent-shell");
        check("shell", "nagent-shell");
        check("nagent-answer-response", "nagent-response");
        check("nagent-patch", "nagent-file-patch");
        check("nagent-conversations", "nagent-conversation");
        assert!(unknown_tag("thought", TagSet::ALL).ends_with("nagent-next, nagent-conversation"));
        assert!(unknown_tag(&"x".repeat(1_000_000), TagSet::ALL).len() < 400);
        assert!(
            unknown_attribute(TagKind::Read.table_row(), "Path").contains("did you mean path?")
        );
        let next = unknown_attribute(TagKind::Next.table_row(), "zzz");
        assert!(next.ends_with("write <nagent-next>PROMPT</nagent-next>"), "{next}");
    }

    #[test]
    fn the_place_is_named() {
        let complaint = Malformed::new("a\nbé\ncd", 6, "wrong".into());
        assert_eq!(complaint.to_string(), "wrong (line 3 of the reply: cd)");
        let complaint = Malformed::new("a\n", 2, "wrong".into());
        assert_eq!(complaint.to_string(), "wrong (line 2 of the reply, its end)");
    }
}
