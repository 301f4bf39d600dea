//! Google's Gemini API (`POST /v1beta/models/M:streamGenerateContent?alt=sse`).
//!
//! Each event is a whole response object with the next piece of the text:
//!
//! ```text
//! {"candidates":[{"content":{"parts":[{"text":"He"}]}}],"usageMetadata":{…}}
//! {"candidates":[{"content":{"parts":[{"text":"llo"}]},"finishReason":"STOP"}],"usageMetadata":{…}}
//! ```
//!
//! Source: python-genai and ai.google.dev. There is no end event: a reply is whole when the stream ends after a
//! `finishReason`. Counts are cumulative, and thoughts stand beside the candidates' tokens. Parts with `thought` are
//! never text. Without `alt=sse` (a proxy) the same objects come as one JSON array.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ApiError, Ask, ErrorKind, Message, Role, Stop, Usage,
    attachment::{Attachment, Payload},
    decode::{Draft, Fault, OnText, server_error},
    json::{self, Count, List, Text},
    wire::{ModelInfo, ModelPage, encode},
};

/// The path of a streamed request, the model being part of it.
pub(super) fn path(model: &str) -> String {
    let model = encode(model.strip_prefix("models/").unwrap_or(model));
    format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
}

/// The body of a request.
pub(super) fn body(ask: &Ask<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a, L> {
        #[serde(skip_serializing_if = "Option::is_none")]
        system_instruction: Option<System<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        generation_config: Option<Config>,
        contents: L,
    }
    #[derive(Serialize)]
    struct System<'a> {
        parts: [Part<'a>; 1],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Config {
        max_output_tokens: u64,
    }
    let body = Body {
        system_instruction: ask.system.map(|text| System { parts: [Part { text }] }),
        generation_config: ask.max_output.map(|max_output_tokens| Config { max_output_tokens }),
        contents: List(ask.messages.iter().map(Content::of)),
    };
    json::body(ask, &body)
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
}

impl<'a> Content<'a> {
    fn of(message: &'a Message<'_>) -> Self {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "model",
        };
        Self { role, parts: message.parts.iter().map(|text| Part { text }).collect() }
    }
}

/// The part of a message that is a file. Source: python-genai. `data` stands for the base64 of its bytes.
pub(super) fn part(file: &Attachment<'_>, data: &str) -> Value {
    let mime = file.kind.mime(file.name);
    match file.payload {
        Payload::Bytes(_) => json!({"inlineData": {"mimeType": mime, "data": data}}),
        Payload::Remote(remote) => {
            json!({"fileData": {"mimeType": mime, "fileUri": remote.uri.as_deref().unwrap_or(&remote.id)}})
        }
    }
}

/// What is remembered between events: nothing, since each is a response of its own.
pub(super) struct Stream;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(default)]
    usage_metadata: Option<Counts>,
    #[serde(borrow, default)]
    model_version: Text<'a>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    content: Option<Parts<'a>>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    #[serde(borrow, default)]
    finish_message: Text<'a>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Piece<'a>>>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(default)]
    thought: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Text<'a>,
    #[serde(borrow, default)]
    block_reason_message: Text<'a>,
}

#[expect(clippy::struct_field_names, reason = "the names on the wire")]
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    #[serde(default)]
    prompt_token_count: Count,
    #[serde(default)]
    cached_content_token_count: Count,
    #[serde(default)]
    candidates_token_count: Count,
    #[serde(default)]
    thoughts_token_count: Count,
}

impl Stream {
    /// Takes in one event.
    pub(super) fn frame(
        &mut self,
        data: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let frame: Frame<'_> = serde_json::from_slice(data)?;
        if frame.error.is_some() {
            return Err(server_error(data));
        }
        self.take(frame, draft, on_text)
    }

    /// Takes in what was not sent as events: an object, or an array of objects.
    pub(super) fn whole(
        &mut self,
        body: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let is_array = body.trim_ascii().starts_with(b"[");
        let frames: Vec<Frame<'_>> = if is_array {
            serde_json::from_slice(body)?
        } else {
            vec![serde_json::from_slice(body)?]
        };
        let known = frames
            .iter()
            .any(|frame| frame.candidates.is_some() || frame.prompt_feedback.is_some());
        if frames.iter().any(|frame| frame.error.is_some()) || !known {
            return Err(server_error(body));
        }
        frames.into_iter().try_for_each(|frame| self.take(frame, draft, on_text))
    }

    #[expect(clippy::unused_self, reason = "all formats are called alike")]
    fn take(
        &mut self,
        frame: Frame<'_>,
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        if draft.model.is_none() {
            draft.model = frame.model_version.some();
        }
        if let Some(counts) = frame.usage_metadata {
            draft.usage = Some(Usage {
                input: counts.prompt_token_count.or_zero(),
                cached: counts.cached_content_token_count.or_zero(),
                cache_written: 0,
                output: counts
                    .candidates_token_count
                    .or_zero()
                    .saturating_add(counts.thoughts_token_count.or_zero()),
                estimated: false,
            });
        }
        if let Some(feedback) =
            frame.prompt_feedback.filter(|feedback| !feedback.block_reason.is_empty())
        {
            let message = said(
                "the prompt was blocked",
                &feedback.block_reason,
                &feedback.block_reason_message,
            );
            return Err(ApiError::new(ErrorKind::Refused, &message).into());
        }
        for candidate in frame
            .candidates
            .into_iter()
            .flatten()
            .filter(|candidate| candidate.index.or_zero() == 0)
        {
            for piece in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                if piece.thought != Some(true) {
                    draft.text(&piece.text, on_text)?;
                }
            }
            if !candidate.finish_reason.is_empty() {
                draft.stop = Some(stop(&candidate.finish_reason, &candidate.finish_message)?);
            }
        }
        Ok(())
    }
}

fn stop(reason: &str, message: &str) -> Result<Stop, ApiError> {
    match reason {
        "STOP" => Ok(Stop::End),
        "MAX_TOKENS" => Ok(Stop::Length),
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
            Err(ApiError::new(ErrorKind::Refused, &said("the reply was filtered", reason, message)))
        }
        image if image.starts_with("IMAGE_") => {
            Err(ApiError::new(ErrorKind::Refused, &said("the reply was filtered", reason, message)))
        }
        // OTHER, MALFORMED_FUNCTION_CALL, …: the reply failed, and the next may not.
        _ => Err(ApiError::new(
            ErrorKind::Cut,
            &said("the model did not end its reply", reason, message),
        )),
    }
}

fn said(what: &str, reason: &str, message: &str) -> String {
    if message.is_empty() {
        format!("{what} ({reason})")
    } else {
        format!("{what} ({reason}): {message}")
    }
}

/// A page of models, those that cannot generate text left out.
pub(super) fn models(value: &Value) -> Option<ModelPage> {
    let list = value.get("models")?.as_array()?;
    let models = list
        .iter()
        .filter(|model| {
            let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
            methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
        })
        .filter_map(|model| {
            let number =
                |name: &str| model.get(name).and_then(Value::as_u64).filter(|&number| number > 0);
            let name = model.get("name")?.as_str()?;
            Some(ModelInfo {
                id: name.strip_prefix("models/").unwrap_or(name).to_owned(),
                window: number("inputTokenLimit"),
                max_output: number("outputTokenLimit"),
            })
        })
        .collect();
    let next = value.get("nextPageToken").and_then(Value::as_str).filter(|token| !token.is_empty());
    Some(ModelPage { models, next: next.map(str::to_owned) })
}
