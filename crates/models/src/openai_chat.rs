//! Chat Completions (`POST …/chat/completions`): OpenAI's, and that of the many servers compatible with it.
//!
//! ```text
//! {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}
//! {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
//! {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}
//! [DONE]
//! ```
//!
//! Source: openai-python for the format; for the variants the sources and documentation of vLLM, llama.cpp,
//! groq-python, mistral client-python, OpenRouter, DeepSeek and Azure. A reply is whole once a `finish_reason` has
//! arrived. Reasoning (`reasoning`, `reasoning_content`, thinking parts) is never text. An answer that is not streamed
//! has the same form with `message` instead of `delta`. Chunks without choices are ignored.

use serde_json::{Value, json};

use super::anthropic::{write_message, write_text};
use super::api::{Api, Endpoint, FileRules};
use super::attachment::Attachment;
use super::json::{
    ChatMessage, MessageContent, merge, read_count, read_some_text, read_text, read_thinking,
    write_body, write_parts,
};
use super::options::Reasoning;
use super::partial_reply::PartialReply;
use super::schema::{is_closed, is_of_object};
use super::server::{GrammarForm, ReasoningForm, SchemaForm};
use super::{ChatRequest, Content, error, openai};
use conversation::model::{ApiError, ErrorKind, Role, StopReason};

/// Implements [`Api`] for Chat Completions.
pub struct ChatCompletions;

impl Api for ChatCompletions {
    fn chat_path(&self, _: &str) -> String {
        "/chat/completions".to_owned()
    }

    /// OpenAI's own server gets the current form (`developer`, `max_completion_tokens`, content parts), any other
    /// server the oldest.
    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let official = server.official;
        // Mistral and Groq refuse unknown keys, and send the usage without a request for it.
        let is_strict = server.server.is_some_and(|server| server.is_strict);
        let is_mistral = server.server.is_some_and(|server| server.name == "mistral");
        let has_new_limit = official || server.server.is_some_and(|server| server.has_new_limit);
        let (options, streams) = (ask.options, server.streams(ask));
        let role = if official { "developer" } else { "system" };
        // Marks for Anthropic's cache: OpenRouter passes them on, and caches nothing without them.
        let takes_marks = server.server.is_some_and(|server| server.name == "openrouter")
            && ask.model.starts_with("anthropic/");
        let marked = ask.marked_messages();
        let system = ask.system.map(|text| {
            if takes_marks && !text.trim().is_empty() {
                ChatMessage::new(role, MessageContent::Parts(vec![write_text(text, true)]))
            } else {
                ChatMessage::from_text(role, text)
            }
        });
        let messages = ask.contents().enumerate().map(|(index, (role, contents))| {
            if takes_marks {
                return write_message(role, &contents, write_file, marked.contains(&index));
            }
            let has_file = contents.iter().any(|content| matches!(content, Content::File(_)));
            // Templates of open models often accept strings only.
            if has_file || official && role == Role::User {
                let parts = write_parts(&contents, Some("text"), write_file);
                ChatMessage::new(role.as_str(), MessageContent::Parts(parts))
            } else {
                ChatMessage::from_joined_texts(role.as_str(), &contents)
            }
        });
        let mut head = json!({
            "model": ask.model,
            "stream": streams,
            "stream_options": (streams && !is_strict).then(|| json!({"include_usage": true})),
            "prompt_cache_key": openai::cache_key(ask, server),
            "max_completion_tokens": ask.max_output.filter(|_| has_new_limit),
            "max_tokens": ask.max_output.filter(|_| !has_new_limit),
            "temperature": options.temperature,
            "seed": options.seed.filter(|_| !is_mistral),
            "random_seed": options.seed.filter(|_| is_mistral),
            "service_tier": options.service_tier,
        });
        if let Some(schema) = &options.schema {
            merge(&mut head, &write_schema(server, schema));
        }
        if let Some(grammar) = &options.grammar {
            merge(&mut head, &write_grammar(server, grammar));
        }
        if let Some(level) = options.reasoning_of(ask.model) {
            let form = server.server.map_or(ReasoningForm::Effort, |server| server.reasoning);
            merge(&mut head, &write_reasoning(form, level, ask.model));
        }
        write_body(ask, server, head, "messages", system.into_iter().chain(messages))
    }

    fn may_inline_reasoning(&self) -> bool {
        true
    }

    fn on_event(&self, chunk: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        let choices = chunk["choices"].as_array();
        // OpenRouter reports errors in a choice, Groq in a field of its own.
        let in_choices = choices.into_iter().flatten().map(|choice| &choice["error"]);
        let mut inner = in_choices.chain([&chunk["x_groq"]["error"]]).filter(|it| !it.is_null());
        if let (Some(inner), true) = (inner.next(), chunk["error"].is_null()) {
            return Err(error::from_value(&json!({ "error": inner }), None));
        }
        let is_error = ["error", "message", "detail"].iter().any(|key| !chunk[key].is_null());
        if is_error || chunk["object"] == "error" || !(chunk.is_object() || chunk.is_null()) {
            return Err(error::from_value(chunk, None));
        }
        reply.model = reply.model.take().or_else(|| read_some_text(&chunk["model"]));
        for counts in [&chunk["x_groq"]["usage"], &chunk["usage"]] {
            let usage = openai::read_usage(counts, "prompt_tokens", "completion_tokens");
            reply.usage = usage.or(reply.usage);
        }
        for choice in choices.into_iter().flatten() {
            if read_count(&choice["index"]).unwrap_or(0) != 0 {
                continue;
            }
            let delta =
                if choice["delta"].is_null() { &choice["message"] } else { &choice["delta"] };
            for thought in [&delta["reasoning_content"], &delta["reasoning"]] {
                reply.push_thought(&read_text(thought));
            }
            reply.push_thought(&read_thinking(&delta["content"]));
            reply.push_text(&read_text(&delta["content"]))?;
            reply.push_refusal(&read_text(&delta["refusal"]));
            if let Some(reason) = read_some_text(&choice["finish_reason"]) {
                // A reply that was cut off stays cut off, whatever a gateway reports at the end.
                let stop = read_stop(&reason)?;
                reply.stop = reply.stop.filter(|stop| *stop == StopReason::Length).or(Some(stop));
            }
        }
        Ok(())
    }

    fn on_body(&self, body: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        self.on_event(body, reply)?;
        // Chunks may be empty, a whole body may not.
        if body["choices"].is_null() { Err(error::from_value(body, None)) } else { Ok(()) }
    }

    /// “Chat Completions accepts only PDF files as file content parts”. Compatible servers have limits of their own.
    /// Of the other servers that nagent knows, OpenRouter and Azure take documents.
    fn file_rules(&self, server: &Endpoint, _: &str) -> FileRules {
        let takes_documents =
            server.server.is_none_or(|server| ["openrouter", "azure"].contains(&server.name));
        let rules = FileRules { server: "a Chat Completions server", ..FileRules::ANY_PICTURE };
        match server.official {
            true => FileRules { server: "OpenAI's Chat Completions", ..openai::FILE_RULES },
            false if takes_documents => rules,
            false => FileRules { documents: &[], ..rules },
        }
    }
}

/// Writes the form of the reply. An unknown server may refuse the key, so it only gets the form in words.
fn write_schema(server: &Endpoint, schema: &Value) -> Value {
    let form = match server.server {
        Some(known) => known.schema,
        None if server.official => SchemaForm::OpenAi,
        None => return json!({}),
    };
    if !is_of_object(schema) {
        return json!({});
    }
    match form {
        SchemaForm::Object => json!({"response_format": {"type": "json_object"}}),
        SchemaForm::OpenAi | SchemaForm::Whole => {
            json!({"response_format": {"type": "json_schema", "json_schema": {
                "name": "answer", "schema": schema, "strict": is_closed(schema),
            }}})
        }
    }
}

fn write_grammar(server: &Endpoint, grammar: &str) -> Value {
    match server.server.map(|known| known.grammar) {
        Some(GrammarForm::Gbnf) => json!({ "grammar": grammar }),
        Some(GrammarForm::Vllm) => json!({"structured_outputs": {"grammar": grammar}}),
        _ => json!({}),
    }
}

/// Writes how much to think, in the server's terms.
fn write_reasoning(form: ReasoningForm, level: Reasoning, model: &str) -> Value {
    let word = level.to_word(model);
    let is_on = level != Reasoning::Off;
    match form {
        ReasoningForm::Effort => json!({ "reasoning_effort": word }),
        ReasoningForm::OpenRouter => json!({ "reasoning": match level {
            Reasoning::Off => json!({ "enabled": false }),
            Reasoning::Tokens(tokens) => json!({ "max_tokens": tokens }),
            _ => json!({ "effort": word }),
        } }),
        ReasoningForm::DeepSeek => json!({
            "thinking": {"type": if is_on { "enabled" } else { "disabled" }},
            "reasoning_effort": is_on.then_some(word),
        }),
        ReasoningForm::Template => json!({
            "chat_template_kwargs": {"enable_thinking": is_on},
            "reasoning_effort": is_on.then_some(word),
        }),
    }
}

/// Source: openai-python and the guide “file inputs”. Strict servers may not know `detail`, and its default is right.
fn write_file(file: &Attachment) -> Value {
    match file.remote() {
        Some(remote) => json!({"type": "file", "file": {"file_id": remote.id}}),
        None if file.format.is_image() => {
            json!({"type": "image_url", "image_url": {"url": file.data_url()}})
        }
        None => {
            json!({"type": "file", "file": {"filename": file.name, "file_data": file.data_url()}})
        }
    }
}

fn read_stop(reason: &str) -> Result<StopReason, ApiError> {
    match reason {
        "length" | "model_length" | "max_tokens" => Ok(StopReason::Length),
        "content_filter" => Err(ApiError::new(
            ErrorKind::Refused,
            "the provider's content filter stopped the reply",
        )),
        "insufficient_system_resource" => {
            Err(ApiError::new(ErrorKind::Busy, "the server ran out of resources"))
        }
        "error" | "abort" | "cancelled" => {
            let message = format!("the server ended the reply with \"{reason}\"");
            Err(ApiError::new(ErrorKind::Broken, &message))
        }
        // `stop`, `eos`, `tool_calls` (no tools are offered), and future names.
        _ => Ok(StopReason::End),
    }
}
