//! What a scripted reply looks like on the wire, and what a request says, for each provider's format.
//!
//! The frames follow the published streaming formats (OpenAI Responses and Chat Completions, Anthropic
//! Messages, Gemini `streamGenerateContent`, Ollama `/api/chat`), written out here by hand so that the
//! executables are held against the formats and not against their own encoder. No sockets here.

use serde_json::{Value, json};

/// A scripted reply of the model.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) text: String,
    /// Input tokens, cached ones included.
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
    /// Ended by the length limit.
    pub(crate) cut_off: bool,
    /// How many text deltas the stream has, at least.
    pub(crate) pieces: usize,
}

impl Reply {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), input: 1000, cached: 0, output: 10, cut_off: false, pieces: 3 }
    }

    pub(crate) fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        (self.input, self.cached, self.output) = (input, cached, output);
        self
    }

    pub(crate) fn cut_off(mut self) -> Self {
        self.cut_off = true;
        self
    }

    pub(crate) fn pieces(mut self, pieces: usize) -> Self {
        self.pieces = pieces;
        self
    }

    /// The text in about `pieces` parts, cut between characters.
    fn parts(&self) -> Vec<&str> {
        let size = (self.text.len() / self.pieces.max(1)).max(1);
        let mut rest = self.text.as_str();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let mut at = size.min(rest.len());
            while !rest.is_char_boundary(at) {
                at += 1;
            }
            let (part, tail) = rest.split_at(at);
            parts.push(part);
            rest = tail;
        }
        parts
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// The formats, told apart by the request's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Responses,
    Chat,
    Anthropic,
    Gemini,
    Ollama,
}

impl Format {
    /// The format that a path asks for, if it is one that makes the model speak.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let bare = path.split('?').next().unwrap_or(path);
        if bare.ends_with("/responses") {
            Some(Self::Responses)
        } else if bare.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if bare.ends_with("/messages") {
            Some(Self::Anthropic)
        } else if bare.ends_with(":streamGenerateContent") {
            Some(Self::Gemini)
        } else if bare.ends_with("/api/chat") {
            Some(Self::Ollama)
        } else {
            None
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        if self == Self::Ollama { "application/x-ndjson" } else { "text/event-stream" }
    }

    /// The frames of the whole stream, the end mark last.
    pub(crate) fn frames(self, reply: &Reply) -> Vec<String> {
        match self {
            Self::Responses => responses(reply),
            Self::Chat => chat(reply),
            Self::Anthropic => anthropic(reply),
            Self::Gemini => gemini(reply),
            Self::Ollama => ollama(reply),
        }
    }

    /// The body of the error that this provider sends with `status`.
    pub(crate) fn error(self, status: u16, kind: &str, message: &str) -> Value {
        match self {
            Self::Responses | Self::Chat => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            }
            Self::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
            Self::Ollama => json!({"error": message}),
        }
    }
}

fn event(value: &Value) -> String {
    match value["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    }
}

fn responses(reply: &Reply) -> Vec<String> {
    let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": reply.text, "annotations": []}]});
    let status = if reply.cut_off { "incomplete" } else { "completed" };
    let details = if reply.cut_off { json!({"reason": "max_output_tokens"}) } else { Value::Null };
    let mut frames = vec![
        event(&json!({"type": "response.created", "sequence_number": 0,
            "response": {"id": "resp_1", "status": "in_progress", "output": [], "usage": null}})),
        event(
            &json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
            "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        ),
        event(
            &json!({"type": "response.output_item.added", "sequence_number": 2, "output_index": 1,
            "item": {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}}),
        ),
        event(
            &json!({"type": "response.content_part.added", "sequence_number": 3, "item_id": "msg_1",
            "output_index": 1, "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
        ),
    ];
    for part in reply.parts() {
        frames.push(event(
            &json!({"type": "response.output_text.delta", "sequence_number": frames.len(),
            "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": part}),
        ));
    }
    frames
        .push(event(&json!({"type": "response.output_text.done", "sequence_number": frames.len(),
        "item_id": "msg_1", "output_index": 1, "content_index": 0, "text": reply.text})));
    frames.push(event(&json!({"type": format!("response.{status}"), "sequence_number": frames.len(),
        "response": {"id": "resp_1", "status": status, "model": "test-model-1", "incomplete_details": details,
            "output": [item],
            "usage": {"input_tokens": reply.input, "input_tokens_details": {"cached_tokens": reply.cached},
                "output_tokens": reply.output, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": reply.input.saturating_add(reply.output)}}})));
    frames
}

fn chat(reply: &Reply) -> Vec<String> {
    let chunk = |choices: Value, usage: Value| {
        event(
            &json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "test-model-1",
            "choices": choices, "usage": usage}),
        )
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut frames =
        vec![chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null)];
    for part in reply.parts() {
        frames.push(chunk(delta(json!({ "content": part }), Value::Null), Value::Null));
    }
    let finish = if reply.cut_off { "length" } else { "stop" };
    frames.push(chunk(delta(json!({}), json!(finish)), Value::Null));
    frames.push(chunk(
        json!([]),
        json!({"prompt_tokens": reply.input, "completion_tokens": reply.output,
            "total_tokens": reply.input.saturating_add(reply.output), "prompt_tokens_details": {"cached_tokens": reply.cached}}),
    ));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

fn anthropic(reply: &Reply) -> Vec<String> {
    let mut frames = vec![
        event(
            &json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "test-model-1", "content": [], "stop_reason": null,
            "usage": {"input_tokens": reply.input - reply.cached, "cache_read_input_tokens": reply.cached,
                "cache_creation_input_tokens": 0, "output_tokens": 1}}}),
        ),
        event(&json!({"type": "ping"})),
        event(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
    ];
    for part in reply.parts() {
        frames.push(event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": part}})));
    }
    let stop = if reply.cut_off { "max_tokens" } else { "end_turn" };
    frames.push(event(&json!({"type": "content_block_stop", "index": 0})));
    frames.push(event(
        &json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": reply.output}}),
    ));
    frames.push(event(&json!({"type": "message_stop"})));
    frames
}

fn gemini(reply: &Reply) -> Vec<String> {
    let parts = reply.parts();
    let last = parts.len().saturating_sub(1);
    let frame = |text: &str, finish: Option<&str>| {
        let mut candidate =
            json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
        let mut usage = json!({"promptTokenCount": reply.input, "totalTokenCount": reply.input});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
            usage = json!({"promptTokenCount": reply.input, "cachedContentTokenCount": reply.cached,
                "candidatesTokenCount": reply.output, "totalTokenCount": reply.input.saturating_add(reply.output)});
        }
        let value = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "test-model-1"});
        format!("data: {value}\r\n\r\n")
    };
    let finish = if reply.cut_off { "MAX_TOKENS" } else { "STOP" };
    if parts.is_empty() {
        return vec![frame("", Some(finish))];
    }
    parts.iter().enumerate().map(|(at, text)| frame(text, (at == last).then_some(finish))).collect()
}

fn ollama(reply: &Reply) -> Vec<String> {
    let line = |text: &str| {
        let value = json!({"model": "test-model", "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": text}, "done": false});
        format!("{value}\n")
    };
    let mut frames: Vec<String> = reply.parts().iter().map(|part| line(part)).collect();
    let reason = if reply.cut_off { "length" } else { "stop" };
    let last = json!({"model": "test-model", "created_at": "2026-01-01T00:00:01Z",
        "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "total_duration": 9, "prompt_eval_count": reply.input, "eval_count": reply.output});
    frames.push(format!("{last}\n"));
    frames
}

/// What a request says: the system prompt and the messages, whatever its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialogue {
    pub(crate) system: String,
    /// The provider's cache key, empty where there is none.
    pub(crate) key: String,
    /// (`user` or `assistant`, text).
    pub(crate) turns: Vec<(String, String)>,
}

impl Dialogue {
    /// Reads a request body; an error says what is not as the format wants it.
    pub(crate) fn read(format: Format, body: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| format!("the body is no JSON: {error}"))?;
        let mut system = match format {
            Format::Responses => text_of(&value["instructions"]),
            Format::Anthropic => text_of(&value["system"]),
            Format::Gemini => text_of(&value["systemInstruction"]["parts"]),
            Format::Chat | Format::Ollama => String::new(),
        };
        let list = match format {
            Format::Responses => &value["input"],
            Format::Gemini => &value["contents"],
            _ => &value["messages"],
        };
        let mut turns = Vec::new();
        if let Some(text) = list.as_str() {
            turns.push(("user".to_owned(), text.to_owned()));
        }
        for message in list.as_array().into_iter().flatten() {
            let content =
                if format == Format::Gemini { &message["parts"] } else { &message["content"] };
            let text = text_of(content);
            match message["role"].as_str() {
                Some("system" | "developer") => system.push_str(&text),
                Some("user") => turns.push(("user".to_owned(), text)),
                Some("assistant" | "model") => turns.push(("assistant".to_owned(), text)),
                role => return Err(format!("a message with the role {role:?}")),
            }
        }
        let key = value["prompt_cache_key"].as_str().unwrap_or_default().to_owned();
        Ok(Self { system, key, turns })
    }

    /// What every provider demands of a dialogue.
    pub(crate) fn complaint(&self) -> Option<String> {
        let role = |at: usize| self.turns.get(at).map(|(role, _)| role.as_str());
        if role(0) != Some("user") {
            return Some(format!("the first message is of {:?}, not of the user", role(0)));
        }
        if role(self.turns.len() - 1) != Some("user") {
            return Some("the last message is not the user's".to_owned());
        }
        if let Some(at) = self.turns.windows(2).position(|pair| pair[0].0 == pair[1].0) {
            return Some(format!("messages {at} and {} are both of {:?}", at + 1, role(at)));
        }
        let empty = self.turns.iter().position(|(_, text)| text.is_empty())?;
        Some(format!("message {empty} is empty"))
    }

    /// Whether `self` is the beginning of `later`: all messages equal, but the last of `self` may have grown.
    pub(crate) fn begins(&self, later: &Self) -> bool {
        let Some(((role, text), before)) = self.turns.split_last() else { return true };
        let at = before.len();
        later.turns.len() > at
            && later.turns[..at] == *before
            && later.turns[at].0 == *role
            && later.turns[at].1.starts_with(text.as_str())
    }
}

/// The text of a content that is a string, a part, or a list of parts. Parts are joined by a blank line.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n\n"),
        Value::Object(part) => part.get("text").map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

#[test]
fn dialogues_grow_only_at_their_end() {
    let read = |turns: &[(&str, &str)]| Dialogue {
        system: String::new(),
        key: String::new(),
        turns: turns.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect(),
    };
    let first = read(&[("user", "a")]);
    assert!(first.begins(&read(&[("user", "a\n\nmore")])));
    assert!(first.begins(&read(&[("user", "a"), ("assistant", "b"), ("user", "c")])));
    assert!(!first.begins(&read(&[("user", "b")])));
    assert!(
        !read(&[("user", "a"), ("assistant", "b"), ("user", "c")]).begins(&read(&[("user", "a")]))
    );
    assert!(read(&[("assistant", "a")]).complaint().is_some());
    assert!(read(&[("user", "a"), ("user", "b")]).complaint().is_some());
    assert!(read(&[("user", "a"), ("assistant", "b"), ("user", "c")]).complaint().is_none());
}

#[test]
fn streams_hold_their_text_whole() {
    let reply = Reply::new("héllo wörld").pieces(4);
    for format in
        [Format::Responses, Format::Chat, Format::Anthropic, Format::Gemini, Format::Ollama]
    {
        let frames = format.frames(&reply).concat();
        for part in reply.parts() {
            assert!(frames.contains(&format!("\"{part}\"")), "{format:?} lacks {part:?}");
        }
    }
    assert_eq!(reply.parts().concat(), reply.text);
}
