//! JSON helpers that the APIs share: bodies are written directly to memory, and fields are read leniently.
//!
//! Servers that claim to be compatible send `null`, arrays and floats where others send strings and integers.
//! [`read_text`] and [`read_count`] accept all of these, so that one odd field does not cost the reply.

use conversation::format::numbers::whole;
use std::borrow::Cow;
use std::cell::Cell;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer as _};
use serde_json::{Map, Value};

use super::api::Endpoint;
use super::attachment::Attachment;
use super::{ChatRequest, Content};

/// Writes the body of a request, usually in one allocation: the members of `head` that are not null, merged with those
/// that the user set, then the messages.
pub(super) fn write_body<'a>(
    ask: &ChatRequest<'_>,
    server: &Endpoint,
    mut head: Value,
    key: &str,
    messages: impl IntoIterator<Item = ChatMessage<'a>>,
) -> Vec<u8> {
    let text = ask.text_bytes();
    let parts: usize = ask.messages.iter().map(|message| message.parts.len()).sum();
    let file = ask.files.iter().map(|file| file.bytes().len().div_ceil(3) * 4).sum::<usize>();
    // Escapes are about ten percent of source code, and unused capacity costs no memory; each part has its keys.
    let mut bytes = Vec::with_capacity(text + text / 5 + parts * 96 + file + 1024);
    let messages = InTurn(Cell::new(Some(messages.into_iter())));
    let own = Value::Object(server.body.clone());
    merge(&mut head, &own);
    drop_nulls(&mut head);
    let mut members = head.as_object().into_iter().flatten().filter(|(name, _)| *name != key);
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let written = serializer.serialize_map(None).and_then(|mut body| {
        members.try_for_each(|(name, value)| body.serialize_entry(name, value))?;
        body.serialize_entry(key, &messages)?;
        body.end()
    });
    written.expect("strings and numbers written to memory cannot fail");
    bytes
}

/// Messages that are made while they are written, so that one uses the memory of the one before.
struct InTurn<I>(Cell<Option<I>>);

impl<'a, I: Iterator<Item = ChatMessage<'a>>> Serialize for InTurn<I> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

/// Merges the members of an object into another, objects recursively.
pub(super) fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Removes the members that are null, and objects that then are empty.
fn drop_nulls(value: &mut Value) {
    let Value::Object(members) = value else { return };
    members.retain(|_, member| {
        let had_members = member.as_object().is_some_and(|object| !object.is_empty());
        drop_nulls(member);
        let is_empty = member.as_object().is_some_and(Map::is_empty);
        !(member.is_null() || had_members && is_empty)
    });
}

#[derive(Serialize)]
pub(super) struct ChatMessage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#type: Option<&'static str>,
    role: &'static str,
    /// The kind of a message of the model, at OpenAI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<&'static str>,
    #[serde(flatten)]
    content: MessageContent<'a>,
    /// Images in base64, for Ollama.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) images: Vec<String>,
}

#[derive(Serialize)]
pub(super) enum MessageContent<'a> {
    #[serde(rename = "content")]
    Text(Cow<'a, str>),
    #[serde(rename = "content")]
    Parts(Vec<ContentPart<'a>>),
    #[serde(rename = "parts")]
    GeminiParts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ContentPart<'a> {
    Text {
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<&'static str>,
        text: &'a str,
        /// Anthropic's mark for its cache.
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Value>,
    },
    File(Value),
}

impl<'a> ChatMessage<'a> {
    pub(super) fn new(role: &'static str, content: MessageContent<'a>) -> Self {
        Self { r#type: None, role, phase: None, content, images: Vec::new() }
    }

    /// A message with a string as content.
    pub(super) fn from_text(role: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(role, MessageContent::Text(text.into()))
    }

    /// A message with a string as content: its texts with blank lines between them.
    pub(super) fn from_joined_texts(role: &'static str, contents: &[Content<'a>]) -> Self {
        let mut texts = contents.iter().filter_map(|content| match content {
            Content::Text(text) => Some(*text),
            Content::File(_) => None,
        });
        let first = Cow::Borrowed(texts.next().unwrap_or_default());
        Self::from_text(role, texts.fold(first, |all, text| all + "\n\n" + text))
    }
}

/// The parts of a message.
pub(super) fn write_parts<'a>(
    contents: &[Content<'a>],
    r#type: Option<&'static str>,
    write_file: fn(&Attachment) -> Value,
) -> Vec<ContentPart<'a>> {
    let write = |content: &Content<'a>| match content {
        Content::Text(text) => ContentPart::Text { r#type, text, cache_control: None },
        Content::File(file) => ContentPart::File(write_file(file)),
    };
    contents.iter().map(write).collect()
}

/// Reads a text. For an array, the texts of its parts, without thinking and images; numbers, booleans and `null` are
/// empty.
pub(super) fn read_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        Value::Array(parts) => parts.iter().map(read_text).collect::<String>().into(),
        Value::Object(part) => match part.get("type").and_then(Value::as_str) {
            None | Some("" | "text" | "output_text") => {
                part.get("text").map_or("".into(), read_text)
            }
            Some(_) => "".into(),
        },
        _ => "".into(),
    }
}

/// Reads the thinking among the parts of a message (Mistral).
pub(super) fn read_thinking(content: &Value) -> Cow<'_, str> {
    let parts = content.as_array().into_iter().flatten();
    parts.map(|part| read_text(&part["thinking"])).collect::<String>().into()
}

pub(super) fn read_some_text(value: &Value) -> Option<String> {
    Some(read_text(value).into_owned()).filter(|text| !text.is_empty())
}

/// Reads a count of tokens; `None` if the server sent none. Negative counts become zero, floats are truncated.
pub(super) fn read_count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or(number.as_f64().map(whole)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_many_forms() {
        let check = |json: &str, expect: &str| {
            assert_eq!(read_text(&serde_json::from_str(json).unwrap()), expect, "{json}");
        };
        check(r#""plain""#, "plain");
        check("null", "");
        check("7", "");
        check("-1.5", "");
        check("true", "");
        check(
            r#"["a",{"type":"text","text":"b"},{"type":"thinking","thinking":[{"type":"text","text":"no"}]}]"#,
            "ab",
        );
        check(r#"{"text":"one part"}"#, "one part");
    }

    #[test]
    fn counts_come_in_many_forms() {
        let check = |json: &str, expect| {
            assert_eq!(read_count(&serde_json::from_str(json).unwrap()), expect, "{json}");
        };
        check("7", Some(7));
        check("-7", Some(0));
        check("7.9", Some(7));
        check("null", None);
        check(r#""12""#, Some(12));
        check(r#"{"a":[1]}"#, None);
    }
}
