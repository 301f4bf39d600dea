//! Items as a reply: what the parser undoes.
//!
//! One tag a line, attributes in the table's order, a fence only where a body holds its own closing tag.
//! A body is written as it is: line feeds that the parser would trim are the caller's to leave out.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::format::attributes::encode;
use crate::protocol::ReplyItem;
use crate::protocol::tags::{Body, FENCE, Tag, TagKind, Trim};

/// The reply that these items are, each ending in a line feed.
pub(super) fn format(items: &[ReplyItem]) -> String {
    let mut reply = String::new();
    for item in items {
        let (kind, (values, body)) = match item {
            ReplyItem::Response(text) => (TagKind::Response, (BTreeMap::new(), text.as_str())),
            ReplyItem::Action(action) => (action.tag_kind(), action.attributes_and_body()),
        };
        write_tag(&mut reply, kind.table_row(), &values, body);
        reply.push('\n');
    }
    reply
}

fn write_tag(reply: &mut String, tag: &Tag, values: &BTreeMap<String, String>, body: &str) {
    let name = tag.name;
    *reply += "<";
    *reply += name;
    for known in tag.attributes {
        if let Some(value) = values.get(known.name) {
            attribute(reply, known.name, value);
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
