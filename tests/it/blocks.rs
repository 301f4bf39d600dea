//! A second, simple reader of conversation files, so that the tests do not trust the one they test.
//!
//! Grammar: a block opens with `<NAME attr="v" …>` at the start of a line and ends at the first line that
//! starts with `</NAME>`, or with `</NAME WORD>` where it carries `fence="WORD"`; or it closes itself with
//! `/>`. What stands between blocks is a note, under the name `note`.

use std::collections::BTreeMap;

/// One block of a conversation file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Block {
    /// An attribute, empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// The blocks of `text`. Panics on a block without an end: a conversation file never has one.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = &rest[..rest.find('\n').map_or(rest.len(), |at| at + 1)];
        let Some((name, attributes, after, closed)) = opening(rest) else {
            if !line.trim().is_empty() {
                found.push(Block {
                    name: "note".into(),
                    attributes: BTreeMap::new(),
                    body: line.trim_end().into(),
                });
            }
            rest = &rest[line.len()..];
            continue;
        };
        let mut body = "";
        rest = after;
        if !closed {
            let end = match attributes.get("fence") {
                Some(word) => format!("</{name} {word}>"),
                None => format!("</{name}>"),
            };
            let at = if rest.starts_with(&end) {
                Some(0)
            } else {
                rest.find(&format!("\n{end}")).map(|at| at + 1)
            };
            let at = at.unwrap_or_else(|| panic!("<{name}> has no {end} in:\n{text}"));
            body = rest[..at].strip_suffix('\n').unwrap_or(&rest[..at]);
            rest = &rest[at + end.len()..];
        }
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        found.push(Block { name, attributes, body: body.to_owned() });
    }
    found
}

type Opening<'a> = (String, BTreeMap<String, String>, &'a str, bool);

/// An opening tag at the head of `text`: its name, attributes, what follows it, whether it closes itself.
fn opening(text: &str) -> Option<Opening<'_>> {
    let mut rest = text.strip_prefix('<')?;
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)))?;
    let name = rest[..length].to_owned();
    if name.is_empty() {
        return None;
    }
    rest = &rest[length..];
    let mut attributes = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some(after) = rest.strip_prefix("/>") {
            return Some((name, attributes, after, true));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Some((name, attributes, after.strip_prefix('\n').unwrap_or(after), false));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        let value = value
            .replace("&quot;", "\"")
            .replace("&apos;", "'")
            .replace("&lt;", "<")
            .replace("&gt;", ">");
        attributes.insert(key.to_owned(), value.replace("&amp;", "&"));
        rest = after;
    }
}

#[test]
fn blocks_are_read_with_fences_notes_and_attributes() {
    let text = "<a fence=\"w1\">\nx\n</a>\n</a w1>\n\nhand note\n<b-c p=\"a&quot;b\" n=\"1\" />\n<user-prompt>\n</user-prompt>\n";
    let found = blocks(text);
    let names: Vec<_> = found.iter().map(|block| block.name.as_str()).collect();
    assert_eq!(names, ["a", "note", "b-c", "user-prompt"]);
    assert_eq!(found[0].body, "x\n</a>");
    assert_eq!(found[1].body, "hand note");
    assert_eq!((found[2].get("p"), found[2].get("n")), ("a\"b", "1"));
    assert_eq!(found[3].body, "");
}
