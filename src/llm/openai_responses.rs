//! OpenAI's Responses API (`POST /v1/responses`), streamed as server-sent events.
//!
//! ```text
//! {"type":"response.created","response":{…}}
//! {"type":"response.output_text.delta","output_index":1,"delta":"Hi"}
//! {"type":"response.completed","response":{"status":"completed","usage":{…},…}}      or .incomplete, .failed, error
//! ```
//!
//! Source: openai-python and openai-openapi (events, fields); the nested form of `error` and errors after a 200 were
//! seen live and are what Codex reads. Unknown events and items are skipped; reasoning and commentary are never text.

use serde_json::{Value, json};

use super::api::{Api, Endpoint, FileRules};
use super::attachment::{Attachment, FileFormat, Payload};
use super::json::{
    ChatMessage, MessageContent, merge, read_count, read_some_text, read_text, write_body,
    write_parts,
};
use super::partial_reply::PartialReply;
use super::schema::{is_closed, is_of_object};
use super::{ApiError, ChatRequest, ErrorKind, Message, Role, StopReason, error, openai};

/// The name of the tool that carries a reply which is held to a grammar.
const TOOL: &str = "reply";

/// The Responses API.
pub struct Responses;

impl Api for Responses {
    fn chat_path(&self, _: &str) -> String {
        "/responses".to_owned()
    }

    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let mut head = json!({
            "model": ask.model,
            "instructions": ask.system,
            "store": false,
            "stream": true,
            "stream_options": {"include_obfuscation": false},
            "prompt_cache_key": openai::cache_key(ask, server),
            "max_output_tokens": ask.max_output,
            "reasoning": {
                "effort": ask.options.reasoning.map(|level| level.to_word(ask.model)),
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
        let messages = ask.messages_and_file().map(|(message, file)| write_message(message, file));
        write_body(ask, server, head, "input", messages)
    }

    /// Its last event repeats the whole text.
    fn longest_event(&self) -> usize {
        crate::limits::REPLY_TEXT + crate::limits::STREAM_LINE
    }

    fn on_event(&self, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        if !event["error"].is_null() {
            return Err(error::from_value(event, None));
        }
        match event["type"].as_str().unwrap_or_default() {
            "response.custom_tool_call_input.delta"
                if reply.tool != read_count(&event["output_index"]) => {}
            "response.output_text.delta" | "response.custom_tool_call_input.delta" => {
                let item = read_count(&event["output_index"]);
                reply.push_text_of(item, &read_text(&event["delta"]))?;
            }
            "response.output_item.added" if is_tool_call(&event["item"]) => {
                reply.tool = read_count(&event["output_index"]);
            }
            "response.output_item.added" if is_commentary(&event["item"]) => {
                reply.set_aside(read_count(&event["output_index"]));
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
    fn file_rules(&self, _: bool) -> FileRules {
        use FileFormat::{Doc, Docx, Odt, Pdf, Ppt, Pptx, Xls, Xlsx};
        FileRules {
            server: "OpenAI",
            images: openai::IMAGES,
            documents: &[Pdf, Docx, Xlsx, Pptx, Odt, Doc, Xls, Ppt],
            image_limit: FileRules::fitting(openai::REQUEST_LIMIT),
            document_limit: FileRules::fitting(openai::REQUEST_LIMIT),
            uploads_images: true,
            files_api: Some(openai::FILES_API),
        }
    }
}

/// The user's parts are kept apart; for the model's own words a plain string is the documented form. OpenAI takes a
/// message without its `type`, llama.cpp does not ("Cannot determine type of 'item'").
fn write_message<'a>(message: &Message<'a>, file: Option<&Attachment<'_>>) -> ChatMessage<'a> {
    let mut written = match message.role {
        Role::User => {
            let parts = write_parts(message, Some("input_text"), file.map(write_file));
            ChatMessage::new("user", MessageContent::Parts(parts))
        }
        Role::Assistant => ChatMessage::joined(message),
    };
    written.r#type = Some("message");
    written
}

fn write_file(file: &Attachment<'_>) -> Value {
    let is_image = file.format.is_image();
    match file.payload {
        Payload::Bytes(_) if is_image => {
            json!({"type": "input_image", "detail": "auto", "image_url": file.data_url()})
        }
        Payload::Bytes(_) => {
            json!({"type": "input_file", "filename": file.name, "file_data": file.data_url()})
        }
        Payload::Remote(remote) if is_image => {
            json!({"type": "input_image", "detail": "auto", "file_id": remote.id})
        }
        Payload::Remote(remote) => json!({"type": "input_file", "file_id": remote.id}),
    }
}

/// The only tool, which the model must call: what it writes is the reply. It is never called by anybody; the conversation has its
/// input as a message. Source: the guide “function calling”, custom tools with context-free grammars.
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

/// Newer models comment on what they are about to do, in messages of their own before the answer.
fn is_commentary(item: &Value) -> bool {
    item["type"] == "message" && item["phase"] == "commentary"
}

/// A tool that is not ours is nothing that anybody asked for.
fn is_tool_call(item: &Value) -> bool {
    item["type"] == "custom_tool_call" && item["name"] == TOOL
}

/// Reads the messages of a whole response. In a stream this is needed only when no text came before.
fn read_output(response: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
    let items = response["output"].as_array().into_iter().flatten();
    for (index, item) in items.enumerate() {
        if is_commentary(item) {
            reply.set_aside(u64::try_from(index).ok());
        }
        if is_tool_call(item) {
            reply.push_text_of(u64::try_from(index).ok(), &read_text(&item["input"]))?;
        }
        if item["type"] != "message" {
            continue;
        }
        for part in item["content"].as_array().into_iter().flatten() {
            if part["type"] == "output_text" {
                reply.push_text_of(u64::try_from(index).ok(), &read_text(&part["text"]))?;
            } else if part["type"] == "refusal" {
                reply.push_refusal(&read_text(&part["refusal"]));
            }
        }
    }
    Ok(())
}

/// Reads how a response ended. `event` is what it came in: the place of an error differs.
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
        // `max_output_tokens`, `max_messages`, `steered`, no reason, and names to come: the text is not whole.
        ("incomplete", _) => StopReason::Length,
        ("failed", _) => return Err(error::from_value(&Value::Null, None)),
        (status, reason) => {
            let message = format!("the response ended as \"{status}\" {reason}");
            return Err(ApiError::new(ErrorKind::Cut, message.trim_end()));
        }
    });
    reply.is_done = true;
    Ok(())
}
