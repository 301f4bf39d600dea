//! Items as a reply: what the parser undoes.
//!
//! One tag a line, attributes in the table's order, a fence only where a body holds its own closing tag.
//! A body is written as it is: line feeds that the parser would trim are the caller's to leave out.

use std::fmt::Write;

use crate::format::attributes::encode;
use crate::protocol::tags::{Body, FENCE, Tag, TagKind, Trim};
use crate::protocol::{Action, ReplyItem};

/// The reply that these items are, each ending in a line feed.
pub(super) fn format(items: &[ReplyItem]) -> String {
    let mut reply = String::new();
    for item in items {
        let (kind, values, body) = parts(item);
        write_tag(&mut reply, kind.table_row(), &values, body);
        reply.push('\n');
    }
    reply
}

/// A value beside the name of its attribute.
type Pair = (&'static str, Option<String>);

fn parts(item: &ReplyItem) -> (TagKind, Vec<Pair>, &str) {
    let action = match item {
        ReplyItem::Response(text) => return (TagKind::Response, Vec::new(), text),
        ReplyItem::Action(action) => action,
    };
    let some = |text: &String| Some(text.clone());
    let number = |number: &Option<u64>| number.map(|number| number.to_string());
    let flag = |set: bool| set.then(|| "true".to_owned());
    let (values, body) = match action {
        Action::Read { path, offset, limit, numbers } => {
            let given = vec![
                ("path", some(path)),
                ("offset", number(offset)),
                ("limit", number(limit)),
                ("numbers", flag(*numbers)),
            ];
            (given, "")
        }
        Action::FileRead { path } | Action::List { path } => (vec![("path", some(path))], ""),
        Action::FilePatch { index } => (vec![("index", some(index))], ""),
        Action::Write { path, text: body } => (vec![("path", some(path))], body.as_str()),
        Action::Edit { path, blocks, all } => {
            (vec![("path", some(path)), ("all", flag(*all))], blocks.as_str())
        }
        Action::Glob { pattern, path } => {
            (vec![("pattern", some(pattern)), ("path", path.clone())], "")
        }
        Action::Grep { pattern, path, glob, context, ignore_case } => {
            let values = vec![
                ("pattern", some(pattern)),
                ("path", path.clone()),
                ("glob", glob.clone()),
                ("context", number(context)),
                ("ignore_case", flag(*ignore_case)),
            ];
            (values, "")
        }
        Action::Shell { commands, timeout, keep } => {
            (vec![("timeout", number(timeout)), ("keep", keep.clone())], commands.as_str())
        }
        Action::Wrong { .. } => (Vec::new(), ""),
        Action::Next { prompt } => (Vec::new(), prompt.as_str()),
        Action::Stdout { text } => (Vec::new(), text.as_str()),
        Action::Script { code } => (Vec::new(), code.as_str()),
        Action::Conversation { prompt, name, from, file } => (
            vec![("name", name.clone()), ("from", from.clone()), ("file", file.clone())],
            prompt.as_str(),
        ),
    };
    (action.tag_kind(), values, body)
}

fn write_tag(reply: &mut String, tag: &Tag, values: &[Pair], body: &str) {
    let name = tag.name;
    *reply += "<";
    *reply += name;
    for (key, value) in values {
        if let Some(value) = value {
            attribute(reply, key, value);
        }
    }
    let Body::Raw { trim, .. } = tag.body else {
        *reply += "/>";
        return;
    };
    let fence = body.contains(&format!("</{name}>")).then(|| fence_for(body));
    if let Some(word) = &fence {
        attribute(reply, FENCE, word);
    }
    *reply += if trim == Trim::First { ">\n" } else { ">" };
    *reply += body;
    let word = fence.map(|word| format!(" {word}")).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(reply, "</{name}{word}>");
}

fn attribute(reply: &mut String, key: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = write!(reply, " {key}=\"{}\"", encode(value));
}

/// A word that the body does not hold.
fn fence_for(body: &str) -> String {
    let words = (1_u64..).map(|number| format!("end-{number}"));
    words.into_iter().find(|word| !body.contains(word.as_str())).unwrap_or_default()
}
