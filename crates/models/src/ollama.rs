//! Ollama's own API (`POST /api/chat`): one JSON object a line.
//!
//! ```text
//! {"model":"gemma4","message":{"role":"assistant","content":"Hi"},"done":false}
//! {"model":"gemma4","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2,…}
//! ```
//!
//! Source: the API types of ollama. By default the server silently drops the oldest messages if they do not fit;
//! `truncate: false` makes that an error, and `shift: false` ends a reply that fills the window, where the server would
//! drop the oldest half and continue. Errors are `{"error":"text"}`, even in the middle of a reply, after a 200.

use serde_json::{Value, json};

use super::api::{Api, Endpoint, FileRules};
use super::json::{ChatMessage, read_count, read_some_text, read_text, write_body};
use super::partial_reply::PartialReply;
use super::{ChatRequest, Content, error};
use conversation::model::{ApiError, ErrorKind, StopReason, Usage, estimate};

/// Implements [`Api`] for Ollama's API.
pub struct Ollama;

impl Api for Ollama {
    fn chat_path(&self, _: &str) -> String {
        "/api/chat".to_owned()
    }

    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let options = json!({
            "num_ctx": ask.window,
            "num_predict": ask.max_output,
            "temperature": ask.options.temperature,
            "seed": ask.options.seed,
        });
        let think = ask.options.reasoning.map(|level| match level.to_word(ask.model) {
            "none" => Value::Bool(false),
            word => word.into(),
        });
        let system = ask.system.map(|text| ChatMessage::from_text("system", text));
        let messages = ask.contents().map(|(role, contents)| {
            let mut message = ChatMessage::from_joined_texts(role.as_str(), &contents);
            // Source: ollama's API types: base64 without a prefix, in a field next to the text.
            message.images.extend(contents.iter().filter_map(|content| match content {
                Content::File(file) => Some(file.base64()),
                Content::Text(_) => None,
            }));
            message
        });
        let head = json!({"model": ask.model, "stream": true, "truncate": false, "shift": false, "think": think, "format": ask.options.schema, "options": options});
        write_body(ask, server, head, "messages", system.into_iter().chain(messages))
    }

    fn is_json_lines(&self) -> bool {
        true
    }

    fn may_inline_reasoning(&self) -> bool {
        true
    }

    fn on_event(&self, line: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        let is_known = !line["message"].is_null() || !line["done"].is_null();
        if !line["error"].is_null() || !is_known {
            return Err(error::from_value(line, None));
        }
        reply.push_thought(&read_text(&line["message"]["thinking"]));
        reply.push_text(&read_text(&line["message"]["content"]))?;
        if line["done"] != true {
            return Ok(());
        }
        reply.model = read_some_text(&line["model"]);
        let input = read_count(&line["prompt_eval_count"]);
        let output = read_count(&line["eval_count"]);
        reply.usage = input.or(output).map(|_| Usage {
            input: input.unwrap_or(0),
            output: output.unwrap_or_else(|| estimate(reply.text())),
            // If the whole prompt was in the server's cache, the server does not count it.
            estimated: input.is_none() || output.is_none(),
            ..Usage::default()
        });
        reply.stop = Some(match &*read_text(&line["done_reason"]) {
            "length" => StopReason::Length,
            "load" | "unload" => {
                let message = "the server only loaded or unloaded the model";
                return Err(ApiError::new(ErrorKind::Broken, message));
            }
            // `stop`, and future names; older servers sent none.
            _ => StopReason::End,
        });
        reply.is_done = true;
        Ok(())
    }

    fn models_path(&self) -> &'static str {
        "/api/tags"
    }

    fn file_rules(&self, _: &Endpoint, _: &str) -> FileRules {
        FileRules { server: "Ollama", pictures: true, ..FileRules::TEXT_ONLY }
    }
}
