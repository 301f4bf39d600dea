//! Anthropic's Messages API (`POST /v1/messages`), streamed as server-sent events.
//!
//! ```text
//! {"type":"message_start","message":{"model":"…","usage":{"input_tokens":9,…}}}
//! {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}
//! {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}
//! {"type":"message_stop"}
//! ```
//!
//! Source: anthropic-sdk-python and the platform's API reference. Counts in `message_delta` are cumulative; cached
//! tokens are not included in `input_tokens`. Thinking is never text. An `error` may come at any time after a 200. A
//! reply is one message from its start to its stop, and each piece must belong to the open block: otherwise the stream
//! has lost or mixed up events, and the reply is not valid.

use serde_json::{Value, json};

use super::api::{Api, Endpoint, FileRules, FilesApi, UploadForm};
use super::attachment::{Attachment, FileFormat};
use super::catalog::{Model, ReasoningWords};
use super::json::{
    ChatMessage, ContentPart, MessageContent, merge, read_count, read_some_text, read_text,
    write_body,
};
use super::options::{ChatOptions, Reasoning};
use super::partial_reply::PartialReply;
use super::schema::is_closed;
use super::{ChatRequest, Content, catalog, error};
use conversation::limits;
use conversation::model::{ApiError, ErrorKind, Role, StopReason, Usage};

/// The API requires `max_tokens`. If nobody chose a value: the model's maximum, but at most this, which is about 100 KB
/// of text. Older models reserve the room for the reply in the window, and a runaway reply must end.
const LONGEST_REPLY: u64 = 32_000;
/// For unknown models: every model in use accepts it.
const UNKNOWN_LIMIT: u64 = 8_192;

/// Implements [`Api`] for the Messages API.
pub struct Messages;

impl Api for Messages {
    fn chat_path(&self, _: &str) -> String {
        "/v1/messages".to_owned()
    }

    /// Sets three cache marks: on the system prompt, which all turns share, and on the last two user messages.
    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let marked = ask.marked_messages();
        let messages = ask.contents().enumerate().map(|(index, (role, contents))| {
            write_message(role, &contents, write_file, marked.contains(&index))
        });
        let known = catalog::find_model(ask.model);
        let longest = known.as_ref().and_then(|model| model.max_output);
        let default = longest.map_or(UNKNOWN_LIMIT, |most| most.min(LONGEST_REPLY));
        let thinking = write_thinking(ask, known.as_ref());
        // The budget for thinking counts as part of the reply.
        let budget = thinking["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
        let default = (default + budget).min(longest.unwrap_or(u64::MAX));
        let system = ask.system.filter(|text| !text.trim().is_empty());
        let mut head = json!({
            "model": ask.model,
            "max_tokens": ask.max_output.unwrap_or(default),
            "stream": true,
            "system": system.map(|text| [write_text(text, true)]),
            "temperature": ask.options.temperature.filter(|_| takes_temperature(ask.model, ask.options)),
            "service_tier": ask.options.service_tier,
        });
        merge(&mut head, &thinking);
        if let Some(schema) = ask.options.schema.as_ref().filter(|schema| is_closed(schema)) {
            let format = json!({"type": "json_schema", "schema": schema});
            merge(&mut head, &json!({"output_config": {"format": format}}));
        }
        write_body(ask, server, head, "messages", messages)
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn key_header(&self, key: &str, _: &str) -> (&'static str, String) {
        // OAuth tokens are sent as bearer tokens, and never together with an API key.
        if key.starts_with("sk-ant-oat") {
            ("authorization", format!("Bearer {key}"))
        } else {
            ("x-api-key", key.to_owned())
        }
    }

    fn on_event(&self, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        if !event["error"].is_null() {
            return Err(error::from_value(event, None));
        }
        let delta = &event["delta"];
        read_usage(&event["usage"], reply);
        let kind = event["type"].as_str().unwrap_or_default();
        check_place(kind, event, reply)?;
        match kind {
            "content_block_delta" if delta["type"] == "text_delta" => {
                reply.push_text(&read_text(&delta["text"]))?;
            }
            "content_block_delta" if delta["type"] == "thinking_delta" => {
                reply.push_thought(&read_text(&delta["thinking"]));
            }
            "content_block_start" if event["content_block"]["type"] == "text" => {
                reply.push_text(&read_text(&event["content_block"]["text"]))?;
            }
            "message_start" => {
                reply.model = read_some_text(&event["message"]["model"]);
                read_usage(&event["message"]["usage"], reply);
            }
            "message_delta" if !delta["stop_reason"].is_null() => {
                reply.announced_stop = Some(read_stop(delta)?);
            }
            "message_stop" => {
                reply.stop = reply.announced_stop;
                reply.is_done = true;
            }
            "error" => return Err(error::from_value(event, None)),
            _ => {}
        }
        Ok(())
    }

    fn on_body(&self, message: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        let Some(blocks) = message["content"].as_array() else {
            return Err(error::from_value(message, None));
        };
        for block in blocks {
            match block["type"].as_str() {
                Some("text") => reply.push_text(&read_text(&block["text"]))?,
                Some("thinking") => reply.push_thought(&read_text(&block["thinking"])),
                _ => {}
            }
        }
        reply.model = read_some_text(&message["model"]);
        read_usage(&message["usage"], reply);
        reply.stop = Some(read_stop(message)?);
        Ok(())
    }

    fn models_path(&self) -> &'static str {
        "/v1/models?limit=1000"
    }

    fn page_parameter(&self) -> &'static str {
        "after_id"
    }

    /// The size of an image is from an older page. Its side is that of a request with more than 20 images: the next
    /// turn may have more, and what it begins with must stay the same.
    fn file_rules(&self, _: &Endpoint, model: &str) -> FileRules {
        let window = catalog::find_model(model).and_then(|model| model.window);
        let is_long = window.is_some_and(|window| window >= 1_000_000);
        let pages = if is_long { limits::ANTHROPIC_PAGES_LONG } else { limits::ANTHROPIC_PAGES };
        let request = FileRules::max_file_size(limits::ANTHROPIC_REQUEST);
        FileRules {
            server: "Anthropic",
            pictures: true,
            documents: &[FileFormat::Pdf],
            image_limit: limits::ANTHROPIC_PICTURE / 4 * 3,
            side: limits::ANTHROPIC_SIDE,
            document_limit: request,
            pages,
            request: (request, pages),
            // A page is 1,500 to 3,000 tokens of text, and an image.
            page_tokens: 3_000,
            files_api: Some(FilesApi {
                path: "/v1/files",
                form: UploadForm::Fields(&[("expires_in_seconds", "3600")]),
                headers: &[("anthropic-beta", "files-api-2025-04-14")],
            }),
            ..FileRules::TEXT_ONLY
        }
    }
}

/// Checks that an event follows the previous events, and records the position in the stream.
fn check_place(kind: &str, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
    let block = read_count(&event["index"]);
    let place = &mut reply.place;
    let wrong = match kind {
        // Proxies repeat it for the same message.
        "message_start" => {
            let id = read_some_text(&event["message"]["id"]);
            let is_again = id.is_some() && place.message == id;
            place.message = id;
            let has_begun = std::mem::replace(&mut place.has_begun, true);
            (has_begun && !is_again).then_some("a second message began")
        }
        "message_stop" if !place.has_begun => Some("its end came without its start"),
        "message_stop" if reply.announced_stop.is_none() => {
            Some("its end came without a stop_reason")
        }
        "content_block_start" => {
            place.block = block;
            None
        }
        "content_block_stop" => {
            place.block = place.block.filter(|open| Some(*open) != block);
            None
        }
        "content_block_delta" if block != place.block => {
            Some("a piece came for a block that is not open")
        }
        _ => None,
    };
    let Some(wrong) = wrong else { return Ok(()) };
    let message = format!("the reply's events do not fit together: {wrong}");
    Err(ApiError::new(ErrorKind::Broken, &message))
}

/// Whether a model accepts a temperature with these options: while it thinks, it accepts only the default of 1.
pub fn takes_temperature(model: &str, options: &ChatOptions) -> bool {
    let known = catalog::find_model(model);
    let words = known.map_or(ReasoningWords::Unknown, |model| model.reasoning);
    let thinks = match options.reasoning {
        None | Some(Reasoning::Off) => !can_be_off(&words),
        Some(_) => true,
    };
    !thinks || options.temperature == Some(1.0)
}

/// Whether thinking can be turned off for a model.
fn can_be_off(words: &ReasoningWords) -> bool {
    match words {
        ReasoningWords::Words(words) => words.contains(&"none"),
        _ => true,
    }
}

/// Writes how much to think. Models from 4.6 on decide that themselves, and accept an effort; older ones accept a
/// budget; the newest cannot turn thinking off, and get the least effort.
fn write_thinking(ask: &ChatRequest<'_>, known: Option<&Model>) -> Value {
    let words = known.map_or(&ReasoningWords::Unknown, |model| &model.reasoning);
    let can_be_off = can_be_off(words);
    let display = ask.shows_reasoning().then_some("summarized");
    match (ask.options.reasoning, words) {
        // If the model thinks anyway, its thinking can be shown.
        (None, _) if can_be_off => json!({}),
        (None, _) => {
            json!({"thinking": display.map(|_| json!({"type": "adaptive", "display": display}))})
        }
        (Some(Reasoning::Off), ReasoningWords::Budget(..)) => json!({}),
        // The budget counts as part of the reply: if no room for the answer would remain, the model answers without
        // thinking.
        (Some(_), ReasoningWords::Budget(least, _))
            if ask.max_output.is_some_and(|most| most <= *least) =>
        {
            json!({})
        }
        (Some(level), ReasoningWords::Budget(least, most)) => {
            let room = ask.max_output.map_or(*most, |max| max.saturating_sub(1));
            let tokens = level.to_tokens(*least, *most).min(room);
            json!({"thinking": {"type": "enabled", "budget_tokens": tokens}})
        }
        (Some(Reasoning::Off), _) if can_be_off => json!({"thinking": {"type": "disabled"}}),
        (Some(level), _) => json!({
            "thinking": {"type": "adaptive", "display": display},
            "output_config": {"effort": level.to_word(ask.model)},
        }),
    }
}

/// A text, with a mark for the cache if the part up to its end should be cached.
pub(super) fn write_text(text: &str, is_marked: bool) -> ContentPart<'_> {
    let cache_control = is_marked.then(|| json!({"type": "ephemeral"}));
    ContentPart::Text { r#type: Some("text"), text, cache_control }
}

/// A message of text blocks and files.
pub(super) fn write_message<'a>(
    role: Role,
    contents: &[Content<'a>],
    write_file: fn(&Attachment) -> Value,
    is_marked: bool,
) -> ChatMessage<'a> {
    // The API refuses blank blocks, and such a block would make every later request of the conversation fail.
    let is_blank =
        |content: &&Content<'_>| matches!(content, Content::Text(text) if text.trim().is_empty());
    let mut contents: Vec<Content<'_>> =
        contents.iter().filter(|content| !is_blank(content)).copied().collect();
    if contents.is_empty() {
        contents.push(Content::Text("(blank)"));
    }
    let last = contents.len() - 1;
    let write = |(index, content): (usize, Content<'a>)| {
        let is_marked = is_marked && index == last;
        match content {
            Content::Text(text) => write_text(text, is_marked),
            Content::File(file) => {
                let mut part = write_file(file);
                if is_marked {
                    part["cache_control"] = json!({"type": "ephemeral"});
                }
                ContentPart::File(part)
            }
        }
    };
    let parts = contents.into_iter().enumerate().map(write).collect();
    ChatMessage::new(role.as_str(), MessageContent::Parts(parts))
}

/// Source: the guides on vision, PDF and files.
fn write_file(file: &Attachment) -> Value {
    let source = match file.remote() {
        None => {
            json!({"type": "base64", "media_type": file.format.media_type(), "data": file.base64()})
        }
        Some(remote) => json!({"type": "file", "file_id": remote.id}),
    };
    if file.format.is_image() {
        json!({"type": "image", "source": source})
    } else {
        json!({"type": "document", "title": file.name, "source": source})
    }
}

/// Updates the counts with those of an event, which may have only some of them.
fn read_usage(counts: &Value, reply: &mut PartialReply) {
    let count = |name: &str| read_count(&counts[name]);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    if reply.usage.is_none() && input.or(output).is_none() {
        return;
    }
    let old = reply.usage.unwrap_or_default();
    let cached = count("cache_read_input_tokens").unwrap_or(old.cached);
    let cache_written = count("cache_creation_input_tokens").unwrap_or(old.cache_written);
    let reasoning = read_count(&counts["output_tokens_details"]["thinking_tokens"]);
    let old_input = old.input.saturating_sub(old.cached).saturating_sub(old.cache_written);
    reply.usage = Some(Usage {
        input: input.unwrap_or(old_input).saturating_add(cached).saturating_add(cache_written),
        cached,
        cache_written,
        output: output.unwrap_or(old.output),
        reasoning: reasoning.unwrap_or(old.reasoning),
        estimated: false,
    });
}

/// Reads the stop reason of a message or of a delta.
fn read_stop(message: &Value) -> Result<StopReason, ApiError> {
    match &*read_text(&message["stop_reason"]) {
        "max_tokens" | "model_context_window_exceeded" => Ok(StopReason::Length),
        "refusal" => {
            let details = &message["stop_details"];
            let why = read_some_text(&details["explanation"])
                .or_else(|| read_some_text(&details["category"]));
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            Err(ApiError::new(ErrorKind::Refused, &format!("the model refused{why}")))
        }
        // A retry would pause again.
        "pause_turn" => Err(ApiError::new(
            ErrorKind::Other,
            "the provider paused the turn (pause_turn), which it does for tools of its own: leave them out of \"body\"",
        )),
        "" => Err(ApiError::new(ErrorKind::Cut, "the reply has no stop_reason")),
        // `end_turn`, `stop_sequence`, `tool_use` (no tools are offered), and future names.
        _ => Ok(StopReason::End),
    }
}
