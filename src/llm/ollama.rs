//! Ollama's own API (`POST /api/chat`): one JSON object a line.
//!
//! ```text
//! {"model":"gemma4","message":{"role":"assistant","content":"Hi"},"done":false}
//! {"model":"gemma4","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2,…}
//! ```
//!
//! Source: the API types of ollama. By default the server silently drops the oldest messages when they do not fit;
//! `truncate: false` makes that an error. Errors are `{"error":"text"}`, also in the middle of a reply, after a 200.

use serde::Serialize;
use serde_json::Value;

use super::api::{Api, Endpoint, FileRules, ModelInfo, ModelPage};
use super::attachment::{Attachment, FileFormat};
use super::json::{ChatMessage, read_count, read_size, read_some_text, read_text, write_body};
use super::partial_reply::PartialReply;
use super::{ApiError, ChatRequest, ErrorKind, StopReason, Usage, error, estimate};

/// Ollama's API.
pub struct Ollama;

impl Api for Ollama {
    fn chat_path(&self, _: &str) -> String {
        "/api/chat".to_owned()
    }

    fn chat_body(&self, ask: &ChatRequest<'_>, _: &Endpoint) -> Vec<u8> {
        #[derive(Serialize)]
        struct OllamaBody<'a> {
            model: &'a str,
            stream: bool,
            truncate: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            options: Option<OllamaOptions>,
            messages: Vec<ChatMessage<'a>>,
        }
        #[derive(Serialize)]
        struct OllamaOptions {
            #[serde(skip_serializing_if = "Option::is_none")]
            num_ctx: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            num_predict: Option<u64>,
        }
        let options = OllamaOptions { num_ctx: ask.window, num_predict: ask.max_output };
        let has_options = options.num_ctx.is_some() || options.num_predict.is_some();
        let system = ask.system.map(|text| ChatMessage::plain("system", text));
        let messages = ask.messages_and_file().map(|(message, file)| {
            let mut message = ChatMessage::joined(message);
            // Source: ollama's API types: base64 without a prefix, beside the text.
            message.images.extend(file.map(Attachment::base64));
            message
        });
        let body = OllamaBody {
            model: ask.model,
            stream: true,
            truncate: false,
            options: has_options.then_some(options),
            messages: system.into_iter().chain(messages).collect(),
        };
        write_body(ask, &body)
    }

    fn is_json_lines(&self) -> bool {
        true
    }

    fn may_think_aloud(&self) -> bool {
        true
    }

    fn on_event(&self, line: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        let is_known = !line["message"].is_null() || !line["done"].is_null();
        if !line["error"].is_null() || !is_known {
            return Err(error::from_value(line, None));
        }
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
            // A prompt that was wholly in the server's cache is not counted.
            estimated: input.is_none() || output.is_none(),
            ..Usage::default()
        });
        reply.stop = Some(match &*read_text(&line["done_reason"]) {
            "length" => StopReason::Length,
            "load" | "unload" => {
                let message = "the server only loaded or unloaded the model";
                return Err(ApiError::new(ErrorKind::Broken, message));
            }
            // `stop`, and names to come; older servers gave none.
            _ => StopReason::End,
        });
        reply.is_done = true;
        Ok(())
    }

    fn models_path(&self, _: Option<&str>) -> String {
        "/api/tags".to_owned()
    }

    /// The models that are installed.
    fn read_models(&self, list: &Value) -> Option<ModelPage> {
        let models = match list.get("models")? {
            Value::Null => &[][..],
            models => models.as_array()?,
        };
        let models = models.iter().filter_map(|model| {
            let name = model.get("name").or_else(|| model.get("model"))?.as_str()?;
            let window = read_size(model, &["/details/context_length"]);
            Some(ModelInfo { id: name.to_owned(), window, max_output: None })
        });
        Some(ModelPage { models: models.collect(), next: None })
    }

    /// From memory of its source: the formats that it decodes for the model.
    fn file_rules(&self, _: bool) -> FileRules {
        FileRules {
            server: "Ollama",
            images: &[FileFormat::Png, FileFormat::Jpeg, FileFormat::Webp],
            documents: &[],
            image_limit: u64::MAX,
            document_limit: u64::MAX,
            uploads_images: false,
        }
    }
}
