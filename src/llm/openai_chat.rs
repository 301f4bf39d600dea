//! Chat Completions (`POST …/chat/completions`), OpenAI's and that of the many servers compatible with it.
//!
//! ```text
//! {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}
//! {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
//! {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}
//! [DONE]
//! ```
//!
//! Source: openai-python for the format; for the variants the sources and documentation of vLLM, llama.cpp, groq-python,
//! mistral client-python, OpenRouter, DeepSeek and Azure. A reply is whole once a `finish_reason` came. Reasoning
//! (`reasoning`, `reasoning_content`, thinking parts) is never text. An answer that is not streamed has the same form
//! with `message` for `delta`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ApiError, Ask, ErrorKind, Message, Role, Stop, Usage,
    attachment::{Attachment, Payload},
    decode::{Draft, Fault, OnText, server_error},
    error,
    json::{self, Count, Joined, List, Text},
    wire::{ModelInfo, ModelPage},
};

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's own: `developer`, `max_completion_tokens`, content parts, a cache key.
    OpenAi,
    /// Any other: the oldest form of everything.
    Compatible,
    /// Refuses keys that it does not know, `stream_options` among them, and sends the usage unasked.
    Mistral,
}

/// The body of a request. The messages come last: the bodies of a conversation begin alike.
pub(super) fn body(ask: &Ask<'_>, dialect: Dialect) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a, L> {
        model: &'a str,
        stream: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        stream_options: Option<Options>,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_cache_key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_completion_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u64>,
        messages: L,
    }
    #[derive(Serialize)]
    struct Options {
        include_usage: bool,
    }
    let official = dialect == Dialect::OpenAi;
    let role = if official { "developer" } else { "system" };
    let system = ask.system.map(|text| Input { role, content: Content::Plain(text) });
    let messages = ask.messages.iter().map(|message| Input::of(message, official));
    let body = Body {
        model: ask.model,
        stream: true,
        stream_options: (dialect != Dialect::Mistral).then_some(Options { include_usage: true }),
        prompt_cache_key: ask.cache_key.filter(|_| official),
        max_completion_tokens: ask.max_output.filter(|_| official),
        max_tokens: ask.max_output.filter(|_| !official),
        messages: List(system.into_iter().chain(messages)),
    };
    json::body(ask, &body)
}

#[derive(Serialize, Clone)]
struct Input<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize, Clone)]
#[serde(untagged)]
enum Content<'a> {
    Plain(&'a str),
    #[serde(serialize_with = "joined")]
    Joined(&'a [&'a str]),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize, Clone)]
struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// The part of a message that is a file. Source: openai-python and the guide “file inputs”. `data` stands for the base64
/// of its bytes. `detail` is left out: its default is what is wanted, and strict servers may not know it.
pub(super) fn part(file: &Attachment<'_>, data: &str) -> Value {
    let url = || format!("data:{};base64,{data}", file.kind.mime(file.name));
    match file.payload {
        Payload::Bytes(_) if file.kind.family() == "image" => {
            json!({"type": "image_url", "image_url": {"url": url()}})
        }
        Payload::Bytes(_) => {
            json!({"type": "file", "file": {"filename": file.name, "file_data": url()}})
        }
        Payload::Remote(remote) => json!({"type": "file", "file": {"file_id": remote.id}}),
    }
}

fn joined<S: serde::Serializer>(parts: &&[&str], serializer: S) -> Result<S::Ok, S::Error> {
    Joined(parts).serialize(serializer)
}

impl<'a> Input<'a> {
    fn of(message: &'a Message<'_>, official: bool) -> Self {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        // Templates of open models often take strings only.
        let content = if official && message.role == Role::User {
            Content::Parts(message.parts.iter().map(|text| Part { r#type: "text", text }).collect())
        } else {
            Content::Joined(&message.parts)
        };
        Self { role, content }
    }
}

/// What is remembered between chunks: nothing, since each says all that it changes.
pub(super) struct Stream;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    x_groq: Option<Groq>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
}

#[derive(Deserialize)]
struct Groq {
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

/// Counts of tokens; the cached ones are among the input.
#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
    /// DeepSeek's name for it.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

impl Stream {
    /// Takes in one chunk, or a whole answer.
    #[expect(clippy::unused_self, reason = "all formats are called alike")]
    pub(super) fn frame(
        &mut self,
        data: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let chunk: Chunk<'_> = match serde_json::from_slice(data) {
            Ok(chunk) => chunk,
            // An error in a form that only the reader of errors knows (an array, a text).
            Err(error) if error.is_data() => return Err(server_error(data)),
            Err(error) => return Err(error.into()),
        };
        let groq_error = chunk.x_groq.as_ref().is_some_and(|groq| groq.error.is_some());
        let choice_error = chunk.choices.iter().flatten().find_map(|choice| choice.error.as_ref());
        if let (None, Some(error)) = (&chunk.error, choice_error) {
            let wrapped = serde_json::json!({ "error": error });
            return Err(error::from_value(&wrapped, None).into());
        }
        if let (None, true) = (&chunk.error, groq_error) {
            let error = chunk.x_groq.and_then(|groq| groq.error);
            return Err(error::from_value(&serde_json::json!({ "error": error }), None).into());
        }
        let known = chunk.choices.is_some()
            || chunk.usage.is_some()
            || &*chunk.object == "chat.completion.chunk";
        if chunk.error.is_some() || &*chunk.object == "error" || !known {
            return Err(server_error(data));
        }
        if draft.model.is_none() {
            draft.model = chunk.model.some();
        }
        if let Some(counts) = chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage)) {
            draft.usage = usage(&counts).or(draft.usage);
        }
        for choice in
            chunk.choices.into_iter().flatten().filter(|choice| choice.index.or_zero() == 0)
        {
            if let Some(delta) = choice.delta.or(choice.message) {
                draft.text(&delta.content, on_text)?;
                draft.refuse(&delta.refusal);
            }
            if !choice.finish_reason.is_empty() {
                draft.stop = Some(stop(&choice.finish_reason)?);
            }
        }
        Ok(())
    }
}

fn usage(counts: &Counts) -> Option<Usage> {
    let (input, output) = (counts.prompt_tokens.0, counts.completion_tokens.0);
    let details = counts.prompt_tokens_details.as_ref();
    let cached = details.map_or(Count(None), |details| details.cached_tokens);
    // Some send an empty object, or zeroes until the last chunk.
    (input.or(output)? > 0 || output.is_some_and(|output| output > 0)).then(|| Usage {
        input: input.unwrap_or(0),
        cached: cached.0.or(counts.prompt_cache_hit_tokens.0).unwrap_or(0),
        cache_written: details.map_or(0, |details| details.cache_write_tokens.or_zero()),
        output: output.unwrap_or(0),
        estimated: false,
    })
}

fn stop(reason: &str) -> Result<Stop, ApiError> {
    match reason {
        "length" | "model_length" | "max_tokens" => Ok(Stop::Length),
        "content_filter" => Err(ApiError::new(
            ErrorKind::Refused,
            "the provider's content filter stopped the reply",
        )),
        "insufficient_system_resource" => {
            Err(ApiError::new(ErrorKind::Busy, "the server ran out of resources"))
        }
        "error" | "abort" | "cancelled" => Err(ApiError::new(
            ErrorKind::Broken,
            &format!("the server ended the reply with “{reason}”"),
        )),
        // `stop`, `eos`, `tool_calls` (no tools are offered), and names yet to come.
        _ => Ok(Stop::End),
    }
}

/// A list of models, in the forms of OpenAI, OpenRouter, Mistral, vLLM, Groq, llama.cpp and Together (a bare array).
pub(super) fn models(value: &Value) -> Option<ModelPage> {
    let list = value.as_array().or_else(|| value.get("data")?.as_array())?;
    let models = list
        .iter()
        .filter_map(|model| {
            let number = |path: &str| {
                model.pointer(path).and_then(Value::as_u64).filter(|&number| number > 0)
            };
            let window = [
                "/max_context_length",
                "/context_length",
                "/max_model_len",
                "/context_window",
                "/meta/n_ctx_train",
            ];
            let output = ["/top_provider/max_completion_tokens", "/max_completion_tokens"];
            Some(ModelInfo {
                id: model.get("id")?.as_str()?.to_owned(),
                window: window.into_iter().find_map(number),
                max_output: output.into_iter().find_map(number),
            })
        })
        .collect();
    Some(ModelPage { models, next: None })
}
