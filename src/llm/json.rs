//! JSON helpers that the APIs share: bodies written straight into memory, and fields read leniently.
//!
//! Servers that call themselves compatible send `null`, arrays and floats where others send strings and integers.
//! [`read_text`] and [`read_count`] accept all of these, so that one odd field does not cost the reply.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::attachment::Attachment;
use super::{ChatRequest, Message};

/// Writes the body of a request, usually in one allocation.
pub(super) fn write_body(ask: &ChatRequest<'_>, value: &impl Serialize) -> Vec<u8> {
    let text = ask.text_bytes();
    let parts: usize = ask.messages.iter().map(|message| message.parts.len()).sum();
    let file = ask.file.as_ref().map_or(0, Attachment::base64_len);
    // Escapes are about ten percent of source code, and room that is not used costs no memory; each part has its keys.
    let mut bytes = Vec::with_capacity(text + text / 5 + parts * 96 + file + 1024);
    serde_json::to_writer(&mut bytes, value)
        .expect("strings and numbers written to memory cannot fail");
    bytes
}

/// A message as every API but Google's writes it.
#[derive(Serialize)]
pub(super) struct ChatMessage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#type: Option<&'static str>,
    role: &'static str,
    pub(super) content: MessageContent<'a>,
    /// Ollama's place for images: base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) images: Vec<String>,
}

/// The content of a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

/// A part of a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ContentPart<'a> {
    Text {
        r#type: &'static str,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    File(Value),
}

/// Anthropic's mark for its cache.
#[derive(Serialize)]
pub(super) struct CacheControl {
    pub(super) r#type: &'static str,
}

impl<'a> ContentPart<'a> {
    pub(super) fn text(r#type: &'static str, text: &'a str) -> Self {
        Self::Text { r#type, text, cache_control: None }
    }
}

impl<'a> ChatMessage<'a> {
    /// A message whose content is a string.
    pub(super) fn plain(role: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        let content = MessageContent::Text(text.into());
        Self { r#type: None, role, content, images: Vec::new() }
    }

    /// A message whose content is a string: its parts with a blank line between them.
    pub(super) fn joined(message: &Message<'a>) -> Self {
        let text = match message.parts[..] {
            [part] => Cow::Borrowed(part),
            _ => Cow::Owned(message.parts.join("\n\n")),
        };
        Self::plain(message.role.as_str(), text)
    }

    /// A message whose content is a list of parts, a file first: providers want it before the text.
    pub(super) fn in_parts(
        message: &Message<'a>,
        r#type: &'static str,
        file: Option<Value>,
    ) -> Self {
        let texts = message.parts.iter().map(|text| ContentPart::text(r#type, text));
        let parts = file.map(ContentPart::File).into_iter().chain(texts).collect();
        let content = MessageContent::Parts(parts);
        Self { r#type: None, role: message.role.as_str(), content, images: Vec::new() }
    }
}

/// Reads a text. Numbers, booleans and `null` are an empty text; an array is the texts of its parts, without those of
/// another type than `text` and `output_text` (thinking, images).
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

/// Reads a text that may be missing.
pub(super) fn read_some_text(value: &Value) -> Option<String> {
    Some(read_text(value).into_owned()).filter(|text| !text.is_empty())
}

/// Reads a count of tokens; `None` where the server gave none. Negative ones are zero, floats are cut.
pub(super) fn read_count(value: &Value) -> Option<u64> {
    match value {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, which is what is wanted"
        )]
        Value::Number(number) => number.as_u64().or(number.as_f64().map(|number| number as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Reads the first of some fields, by their JSON pointers, that is a number above zero.
pub(super) fn read_size(value: &Value, paths: &[&str]) -> Option<u64> {
    let read = |path: &&str| value.pointer(path)?.as_u64().filter(|&size| size > 0);
    paths.iter().find_map(read)
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
