//! The body of a request: JSON that holds each text as it is.

use super::input::{APIS, Input};
use conversation::model::{RequestMessage, Role};
use models::api::Endpoint;
use models::attachment::{Attachment, Payload, safe_name};
use models::{ChatRequest, sniff};
use serde_json::Value;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let api = input.one_of(&APIS);
    let (parts, later) = (usize::from(input.byte() % 6) + 1, usize::from(input.byte()));
    let text = input.text();
    let endpoint = Endpoint::new(api, "https://api.example.org", None, later.is_multiple_of(2));
    let second = ask(&text, parts);
    let request = endpoint.chat_request(&second);

    let value: Value = serde_json::from_slice(&request.body).expect("a body is JSON");
    let mut strings = Vec::new();
    gather(&value, &mut strings);
    let said: String = strings.concat();
    for part in second.messages.iter().flat_map(|message| &message.parts) {
        // An API may leave blank texts out.
        assert!(part.trim().is_empty() || said.contains(part), "{part:?} is not in {said:?}");
    }

    let name: String = text.chars().take(40).collect();
    if let Ok(found) = sniff::detect_format(&name, input.rest) {
        let safe = safe_name(&name, found);
        assert!(!safe.is_empty() && !safe.contains(['/', '"', '\r', '\n', '\\']));
        if !found.is_text() {
            let file = Attachment {
                place: (0, 0),
                name: safe,
                format: found,
                tokens: 0,
                payload: Payload::Bytes(input.rest.to_vec().into()),
            };
            let body = endpoint.chat_request(&ChatRequest { files: vec![file], ..second }).body;
            serde_json::from_slice::<Value>(&body).expect("a body with a file is JSON");
        }
    }
}

/// A request whose texts are slices of one text.
fn ask(text: &str, parts: usize) -> ChatRequest<'_> {
    let mut messages: Vec<RequestMessage<'_>> = Vec::new();
    let mut rest = text;
    let length = (text.len() / parts).max(64);
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(length);
        let (part, after) = rest.split_at(end);
        rest = after;
        let role = if messages.len().is_multiple_of(2) { Role::User } else { Role::Assistant };
        messages.push(RequestMessage { role, parts: vec![part] });
    }
    if messages.is_empty() {
        messages.push(RequestMessage { role: Role::User, parts: vec!["x"] });
    }
    ChatRequest {
        model: "m",
        system: None,
        messages,
        files: Vec::new(),
        cache_key: None,
        max_output: Some(1),
        window: None,
        options: Box::leak(Box::default()),
    }
}

fn gather<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| gather(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| gather(value, found)),
        _ => {}
    }
}
