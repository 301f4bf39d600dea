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
//! `finishReason`. Counts are cumulative, and thoughts are not included in the candidates' tokens. Parts with `thought`
//! are never text. Without `alt=sse` (a proxy) the same objects come as one JSON array.

use serde_json::{Value, json};

use super::api::{Api, Endpoint, FileRules, FilesApi, UploadForm, percent_encode};
use super::attachment::{Attachment, FileFormat};
use super::catalog::ReasoningWords;
use super::json::{
    ChatMessage, MessageContent, read_count, read_some_text, read_text, write_body, write_parts,
};
use super::partial_reply::PartialReply;
use super::schema::is_plain;
use super::{ChatRequest, catalog, error};
use conversation::limits;
use conversation::model::{ApiError, ErrorKind, Role, StopReason, Usage};

/// Implements [`Api`] for the Gemini API.
pub struct Gemini;

impl Api for Gemini {
    fn chat_path(&self, model: &str) -> String {
        let model = percent_encode(model.strip_prefix("models/").unwrap_or(model));
        format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
    }

    fn chat_body(&self, ask: &ChatRequest<'_>, server: &Endpoint) -> Vec<u8> {
        let schema = ask.options.schema.as_ref().filter(|schema| is_plain(schema));
        let head = json!({
            "systemInstruction": ask.system.map(|text| json!({"parts": [{"text": text}]})),
            "generationConfig": {
                "maxOutputTokens": ask.max_output,
                "thinkingConfig": write_thinking(ask),
                "temperature": ask.options.temperature,
                "seed": ask.options.seed,
                "responseMimeType": schema.map(|_| "application/json"),
                "responseJsonSchema": schema,
            },
            "serviceTier": ask.options.service_tier,
        });
        let messages = ask.contents().map(|(role, contents)| {
            let role = match role {
                Role::User => "user",
                Role::Assistant => "model",
            };
            let parts = write_parts(&contents, None, write_file);
            ChatMessage::new(role, MessageContent::GeminiParts(parts))
        });
        write_body(ask, server, head, "contents", messages)
    }

    fn key_header(&self, key: &str, _: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }

    fn on_event(&self, event: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        if !event["error"].is_null() {
            return Err(error::from_value(event, None));
        }
        reply.model = reply.model.take().or_else(|| read_some_text(&event["modelVersion"]));
        let count = |name: &str| read_count(&event["usageMetadata"][name]).unwrap_or_default();
        // An empty object does not count.
        if count("promptTokenCount") > 0 || count("candidatesTokenCount") > 0 {
            reply.usage = Some(Usage {
                input: count("promptTokenCount"),
                cached: count("cachedContentTokenCount"),
                output: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
                reasoning: count("thoughtsTokenCount"),
                ..Usage::default()
            });
        }
        let feedback = &event["promptFeedback"];
        if let Some(reason) = read_some_text(&feedback["blockReason"]) {
            let message = &read_text(&feedback["blockReasonMessage"]);
            return Err(failure(ErrorKind::Refused, "the prompt was blocked", &reason, message));
        }
        for candidate in event["candidates"].as_array().into_iter().flatten() {
            if read_count(&candidate["index"]).unwrap_or(0) != 0 {
                continue;
            }
            for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                let text = read_text(&part["text"]);
                if part["thought"] == true {
                    reply.push_thought(&text);
                } else {
                    reply.push_text(&text)?;
                }
            }
            if let Some(reason) = read_some_text(&candidate["finishReason"]) {
                reply.stop = Some(read_stop(&reason, &read_text(&candidate["finishMessage"]))?);
            }
        }
        Ok(())
    }

    fn on_body(&self, body: &Value, reply: &mut PartialReply) -> Result<(), ApiError> {
        let events = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
        let is_known =
            |event: &Value| !event["candidates"].is_null() || !event["promptFeedback"].is_null();
        if events.iter().any(|event| !event["error"].is_null()) || !events.iter().any(is_known) {
            return Err(error::from_value(body, None));
        }
        events.iter().try_for_each(|event| self.on_event(event, reply))
    }

    fn models_path(&self) -> &'static str {
        "/v1beta/models?pageSize=1000"
    }

    fn page_parameter(&self) -> &'static str {
        "pageToken"
    }

    /// A PDF within a request may have up to 50 MB, other data 20 MB; newer pages say 100, and the smaller limit is
    /// safe.
    ///
    /// From version 3 on, an image has a fixed number of tokens unless a media resolution is set.
    fn file_rules(&self, _: &Endpoint, model: &str) -> FileRules {
        let page_tokens = if is_older(model) { 258 } else { 560 };
        let pdf = FileRules::max_file_size(limits::GOOGLE_PDF);
        FileRules {
            server: "Google",
            pictures: true,
            documents: &[FileFormat::Pdf],
            image_limit: FileRules::max_file_size(limits::GOOGLE_REQUEST),
            document_limit: pdf,
            pages: limits::GOOGLE_PAGES,
            request: (pdf, limits::GOOGLE_PAGES),
            image_tokens: |model, width, height| match width.max(height) {
                _ if !is_older(model) => 1_120,
                ..=384 => 258,
                _ => width.div_ceil(768) * height.div_ceil(768) * 258,
            },
            page_tokens,
            files_api: Some(FilesApi {
                path: "/v1beta/files",
                form: UploadForm::Related,
                headers: &[],
            }),
            ..FileRules::TEXT_ONLY
        }
    }
}

/// Whether a model is of version 1 or 2.
fn is_older(model: &str) -> bool {
    let id = model.rsplit('/').next().unwrap_or(model);
    ["gemini-1", "gemini-2"].iter().any(|old| id.starts_with(old))
}

/// Writes how much to think: models of version 2.5 take a budget, later ones a level.
fn write_thinking(ask: &ChatRequest<'_>) -> Value {
    let words = catalog::find_model(ask.model).map(|model| model.reasoning);
    let (level, budget) = match (ask.options.reasoning, words) {
        (Some(reasoning), Some(ReasoningWords::Budget(least, most))) => {
            (None, Some(reasoning.to_tokens(least, most)))
        }
        (reasoning, _) => (reasoning.map(|level| level.to_word(ask.model).to_uppercase()), None),
    };
    // There is no level that turns thinking off.
    let level = level.map(|level| if level == "NONE" { "MINIMAL".to_owned() } else { level });
    let shows = ask.shows_reasoning().then_some(true);
    json!({"thinkingLevel": level, "thinkingBudget": budget, "includeThoughts": shows})
}

fn write_file(file: &Attachment) -> Value {
    let media_type = file.format.media_type();
    match file.remote() {
        None => json!({"inlineData": {"mimeType": media_type, "data": file.base64()}}),
        Some(remote) => {
            let uri = remote.uri.as_deref().unwrap_or(&remote.id);
            json!({"fileData": {"mimeType": media_type, "fileUri": uri}})
        }
    }
}

const FILTERS: &str =
    "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII ESCALATION MODEL_ARMOR";

fn read_stop(reason: &str, message: &str) -> Result<StopReason, ApiError> {
    match reason {
        "STOP" => Ok(StopReason::End),
        // CONTINUATION: "reached the per-request token limit".
        "MAX_TOKENS" | "CONTINUATION" => Ok(StopReason::Length),
        word if FILTERS.split(' ').any(|filter| filter == word) || word.starts_with("IMAGE_") => {
            Err(failure(ErrorKind::Refused, "the reply was filtered", reason, message))
        }
        // A retry would end in the same way.
        "PUP_LIMITED_DISABLED"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "NO_IMAGE"
        | "TOO_MANY_TOOL_CALLS" => {
            Err(failure(ErrorKind::Other, "Google ended the reply", reason, message))
        }
        // OTHER and future reasons: the reply failed, but the next one may not.
        _ => Err(failure(ErrorKind::Cut, "the model did not end its reply", reason, message)),
    }
}

fn failure(kind: ErrorKind, what: &str, reason: &str, message: &str) -> ApiError {
    let colon = if message.is_empty() { "" } else { ": " };
    ApiError::new(kind, &format!("{what} ({reason}){colon}{message}"))
}
