//! OpenAI's Responses API (`POST /v1/responses`), streamed as server-sent events.
//!
//! ```text
//! {"type":"response.created","response":{…}}
//! {"type":"response.output_text.delta","output_index":1,"delta":"Hi"}
//! {"type":"response.completed","response":{"status":"completed","usage":{…},…}}      or .incomplete, .failed, error
//! ```
//!
//! Source: openai-python and openai-openapi (events, fields); the nested form of `error` and errors after a 200 were
//! observed live and are what Codex reads. Unknown events and items are skipped; reasoning and commentary are never
//! text. Events have numbers (`sequence_number`), which reveal a lost, duplicated or misplaced piece; some servers send
//! none.

use serde_json::{Value, json};

use super::api::{Api, Endpoint, FileRules};
use super::attachment::{Attachment, FileFormat};
use super::json::{
    ChatMessage, MessageContent, merge, read_count, read_some_text, read_text, write_body,
    write_parts,
};
use super::partial_reply::{PartialReply, StreamPosition};
use super::schema::{is_closed, is_of_object};
use super::{ChatRequest, Content, error, openai};
use conversation::model::{ApiError, ErrorKind, Role, StopReason};

/// The name of the tool that receives a reply with a grammar.
const TOOL: &str = "reply";

/// Implements [`Api`] for the Responses API.
pub struct Responses;

impl Api for Responses {
    fn chat_path(&self, _: &str) -> String {
        "/responses".to_owned()
    }

    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let streams = server.streams(ask);
        let mut head = json!({
            "model": ask.model,
            "instructions": ask.system,
            "store": false,
            "stream": streams,
            "stream_options": streams.then(|| json!({"include_obfuscation": false})),
            "prompt_cache_key": openai::cache_key(ask, server),
            "max_output_tokens": ask.max_output,
            "reasoning": {
                "effort": ask.options.reasoning_of(ask.model).map(|level| level.to_word(ask.model)),
                "summary": (server.official && ask.shows_reasoning()).then_some("auto"),
            },
            "temperature": ask.options.temperature,
            "service_tier": ask.options.service_tier,
            "text": ask.options.schema.as_ref().filter(|schema| is_of_object(schema)).map(|schema| json!({"format": {
                "type": "json_schema", "name": "answer", "schema": schema, "strict": is_closed(schema),
            }})),
        });
        if let Some(grammar) = &ask.options.grammar {
            merge(&mut head, &write_grammar(grammar));
        }
        // A conversation keeps only the answer of a reply: commentary is shown and dropped.
        let phase = (server.official && has_phases(ask.model)).then_some("final_answer");
        let messages = ask.contents().map(|(role, contents)| {
            let mut written = write_message(role, &contents);
            written.phase = phase.filter(|_| role == Role::Assistant);
            written
        });
        write_body(ask, server, head, "input", messages)
    }

    /// The last event of a stream repeats the whole text.
    fn longest_event(&self) -> usize {
        conversation::limits::REPLY_TEXT + conversation::limits::STREAM_LINE
    }

    fn on_event(&self, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        if !event["error"].is_null() {
            return Err(error::from_value(event, None));
        }
        let kind = event["type"].as_str().unwrap_or_default();
        if is_repeated(kind, event, &mut reply.place)? {
            return Ok(());
        }
        let item = read_count(&event["output_index"]);
        note_place(kind, reply);
        match kind {
            "response.custom_tool_call_input.delta" if reply.tool != item => {}
            "response.output_text.delta" | "response.custom_tool_call_input.delta" => {
                reply.push_text_of(item, &read_text(&event["delta"]))?;
            }
            // The whole text, if the server sends no pieces.
            "response.output_text.done" if !reply.place.has_part => {
                reply.push_text_of(item, &read_text(&event["text"]))?;
                reply.place.has_item = true;
            }
            "response.output_item.done" if !reply.place.has_item => {
                read_item(item, &event["item"], reply)?;
            }
            "response.output_item.added" if is_tool_call(&event["item"]) => reply.tool = item,
            "response.output_item.added" if is_commentary(&event["item"]) => {
                reply.asides.extend(item);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                reply.push_thought(&read_text(&event["delta"]));
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
                reply.push_thought("\n");
            }
            "response.refusal.delta" => reply.push_refusal(&read_text(&event["delta"])),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let response = &event["response"];
                if reply.is_empty() {
                    read_output(response, reply)?;
                }
                read_end(response, event, reply)?;
            }
            "error" => return Err(error::from_value(event, None)),
            _ => {}
        }
        Ok(())
    }

    fn on_body(&self, response: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        read_output(response, reply)?;
        read_end(response, response, reply)
    }

    /// The table “accepted file types” does not have ods and odp.
    fn file_rules(&self, _: &Endpoint, _: &str) -> FileRules {
        use FileFormat::{Doc, Docx, Odt, Pdf, Ppt, Pptx, Xls, Xlsx};
        FileRules { documents: &[Pdf, Docx, Xlsx, Pptx, Odt, Doc, Xls, Ppt], ..openai::FILE_RULES }
    }
}

/// The user's parts are sent separately; for the model's own messages, a plain string is the documented form. OpenAI
/// accepts a message without its `type`, llama.cpp does not ("Cannot determine type of 'item'").
fn write_message<'a>(role: Role, contents: &[Content<'a>]) -> ChatMessage<'a> {
    let mut written = match role {
        Role::User => {
            let parts = write_parts(contents, Some("input_text"), write_file);
            ChatMessage::new("user", MessageContent::Parts(parts))
        }
        Role::Assistant => ChatMessage::from_joined_texts(role.as_str(), contents),
    };
    written.r#type = Some("message");
    written
}

/// Whether a model marks the phase of its messages, and needs that mark in requests: OpenAI's from 5.3 on. "Preserve
/// and resend phase on all assistant messages — dropping it can degrade performance" (openai-python). Others may not
/// know the field.
fn has_phases(model: &str) -> bool {
    let id = model.rsplit('/').next().unwrap_or(model);
    openai::gpt_version(id).is_some_and(|version| version >= (5, 3))
}

fn write_file(file: &Attachment) -> Value {
    match file.remote() {
        None if file.format.is_image() => {
            json!({"type": "input_image", "detail": "auto", "image_url": file.data_url()})
        }
        None => {
            json!({"type": "input_file", "filename": file.name, "file_data": file.data_url()})
        }
        Some(remote) => json!({"type": "input_file", "file_id": remote.id}),
    }
}

/// Offers a single tool, which the model must call: its input is the reply. nagent never runs it; the conversation
/// stores the input as a message. Source: the guide “function calling”, custom tools with context-free grammars.
fn write_grammar(grammar: &str) -> Value {
    json!({
        "tools": [{
            "type": "custom",
            "name": TOOL,
            "description": "Takes your reply, in the tags that the instructions describe.",
            "format": {"type": "grammar", "syntax": "lark", "definition": grammar},
        }],
        "tool_choice": {"type": "custom", "name": TOOL},
        "parallel_tool_calls": false,
    })
}

/// Whether an item is commentary: newer models announce their next steps in separate messages before the answer.
fn is_commentary(item: &Value) -> bool {
    item["type"] == "message" && item["phase"] == "commentary"
}

/// Whether an item is a call of our tool. Calls of any other tool are ignored.
fn is_tool_call(item: &Value) -> bool {
    item["type"] == "custom_tool_call" && item["name"] == TOOL
}

/// Whether the event is a duplicate. A piece of text that does not follow the previous event is an error: one is
/// missing or misplaced, which would change the text. For other events the numbers prove nothing: LiteLLM's are
/// constant.
fn is_repeated(kind: &str, event: &Value, place: &mut StreamPosition) -> Result<bool, ApiError> {
    let is_first = !std::mem::replace(&mut place.has_begun, true);
    // Gateways put 0 into events of their own.
    let number = event["sequence_number"].as_u64().filter(|number| *number > 0 || is_first);
    let last = std::mem::replace(&mut place.event, number);
    let has_text = matches!(
        kind,
        "response.output_text.delta"
            | "response.output_text.done"
            | "response.custom_tool_call_input.delta"
    );
    let Some(number) = number.filter(|_| has_text) else { return Ok(false) };
    let last_piece = place.piece.replace(number);
    if last_piece == Some(number) {
        return Ok(true);
    }
    let is_next = last.is_none_or(|last| last.checked_add(1) == Some(number));
    if is_next && last_piece.is_none_or(|last| last < number) {
        return Ok(false);
    }
    let last = last.or(last_piece).unwrap_or_default();
    let message =
        format!("event {number} of the reply came after event {last}: the stream lost data");
    Err(ApiError::new(ErrorKind::Broken, &message))
}

/// Records whether an item and its part have begun to arrive.
fn note_place(kind: &str, reply: &mut PartialReply) {
    let place = &mut reply.place;
    match kind {
        "response.output_item.added" => {
            (place.has_item, place.has_part) = (false, false);
        }
        "response.content_part.added" => place.has_part = false,
        "response.output_text.delta"
        | "response.custom_tool_call_input.delta"
        | "response.refusal.delta" => {
            (place.has_item, place.has_part) = (true, true);
        }
        _ => {}
    }
}

/// Reads the items of a whole response. In a stream this is needed only when no text came before.
fn read_output(response: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
    let mut items = (0..).zip(response["output"].as_array().into_iter().flatten());
    items.try_for_each(|(index, item)| read_item(Some(index), item, reply))
}

/// Reads a whole item.
fn read_item(index: Option<u64>, item: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
    if is_commentary(item) {
        reply.asides.extend(index);
    }
    if is_tool_call(item) {
        reply.push_text_of(index, &read_text(&item["input"]))?;
    }
    let is_message = item["type"] == "message";
    let parts = item["content"].as_array().filter(|_| is_message).into_iter().flatten();
    for part in parts {
        if part["type"] == "output_text" {
            reply.push_text_of(index, &read_text(&part["text"]))?;
        } else if part["type"] == "refusal" {
            reply.push_refusal(&read_text(&part["refusal"]));
        }
    }
    Ok(())
}

/// Reads the end of a response. `event` is the event that holds it: the place of an error differs.
fn read_end(response: &Value, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
    let status = read_text(&response["status"]);
    reply.model = read_some_text(&response["model"]).or(reply.model.take());
    reply.usage = openai::read_usage(&response["usage"], "input_tokens", "output_tokens");
    if status.is_empty() || !response["error"].is_null() {
        return Err(error::from_value(event, None));
    }
    let reason = read_text(&response["incomplete_details"]["reason"]);
    reply.stop = Some(match (&*status, &*reason) {
        ("completed", _) => StopReason::End,
        ("incomplete", "content_filter") => {
            let message = "the provider's content filter stopped the reply";
            return Err(ApiError::new(ErrorKind::Refused, message));
        }
        // `max_output_tokens`, `max_messages`, `steered`, no reason, and future names: the text is not whole.
        ("incomplete", _) => StopReason::Length,
        ("failed", _) => return Err(error::from_value(&Value::Null, None)),
        (status, reason) => {
            let message = format!("the response ended with status \"{status}\" {reason}");
            return Err(ApiError::new(ErrorKind::Cut, message.trim_end()));
        }
    });
    reply.is_done = true;
    Ok(())
}
