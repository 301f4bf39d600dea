//! The JSON output of programs: one object with `result`, or lines of which the last is such an object.
//!
//! ```text
//! {"type":"result","result":"text","stop_reason":"…","usage":{…}}      the end
//! {"type":"error","error":{"message":"…","code":429,"retry_after":2}}  the end: no reply
//! ```
//!
//! The names are those of Claude Code (`claude --help`, claude-agent-sdk-python), whose stream has `system` and `assistant`
//! objects before its result.

use std::time::Duration;

use serde_json::Value;

use super::super::error;
use conversation::model::{ApiError, ErrorKind, Reply, StopReason, Usage};

/// Reads the reply from JSON or JSON lines; `None`: the output is neither or has no known form, and so is plain text.
pub(super) fn read_json(text: &str) -> Option<Result<Reply, ApiError>> {
    if !text.starts_with('{') {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let values = values.collect::<Result<Vec<_>, _>>().ok()?;
    let mut output = ProgramOutput::default();
    for value in values {
        match output.read_event(&value) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
    }
    output.is_known.then(|| output.finish())
}

/// The content of a program's events so far.
#[derive(Debug, Default)]
struct ProgramOutput {
    text: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    is_known: bool,
    /// Whether the program is an agent, whose errors before its result do not matter.
    is_agent: bool,
    /// The stop reason; it is set by the last line.
    stop: Option<StopReason>,
}

impl ProgramOutput {
    /// Reads an event; returns false if the object is not one, so that the output is plain text.
    fn read_event(&mut self, event: &Value) -> Result<bool, ApiError> {
        let get = |path: &str| event.pointer(path).and_then(Value::as_str);
        let kind = get("/type").unwrap_or("result");
        self.is_agent |= matches!(kind, "system" | "assistant");
        self.is_known |= self.is_agent || event.get("type").is_some() && kind == "result";
        match kind {
            "result" => return self.read_result(event),
            "assistant" => {
                self.model = get("/message/model").map(str::to_owned);
                let blocks = event["message"]["content"].as_array().into_iter().flatten();
                let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
                if !text.is_empty() {
                    self.text = Some(text);
                }
            }
            "error" if !self.is_agent => {
                let seconds = event["error"]["retry_after"].as_f64();
                return Err(ApiError {
                    retry_after: seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()),
                    ..error::from_value(event, None)
                });
            }
            _ => {}
        }
        Ok(true)
    }

    fn read_result(&mut self, event: &Value) -> Result<bool, ApiError> {
        let subtype = event["subtype"].as_str();
        let is_too_long = |text: &str| text.contains("output token maximum");
        if event["is_error"] == true && event["result"].as_str().is_some_and(is_too_long) {
            // The text so far is not part of the error.
            self.usage = read_usage(&event["usage"]);
            self.text = Some(String::new());
            (self.is_known, self.stop) = (true, Some(StopReason::Length));
            return Ok(true);
        }
        let is_bare = ["is_error", "result", "subtype"].iter().all(|key| event.get(key).is_none());
        if is_bare {
            return Ok(false);
        }
        if event["is_error"] == true || subtype.is_some_and(|it| it.starts_with("error")) {
            return Err(result_error(event));
        }
        let stop = match event["stop_reason"].as_str() {
            Some("refusal") => return Err(ApiError::new(ErrorKind::Refused, "the model refused")),
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            _ => StopReason::End,
        };
        self.text = event["result"].as_str().map(str::to_owned).or(self.text.take());
        self.model = event["model"].as_str().map(str::to_owned).or(self.model.take());
        self.usage = read_usage(&event["usage"]);
        (self.is_known, self.stop) = (true, Some(stop));
        Ok(true)
    }

    /// Returns the reply, after its last line.
    ///
    /// # Errors
    /// There was no last line, or no text.
    fn finish(self) -> Result<Reply, ApiError> {
        let Some((text, stop)) = self.text.zip(self.stop) else {
            return Err(ApiError::new(ErrorKind::Cut, "the program ended before its last event"));
        };
        let usage = self.usage.unwrap_or_else(|| Usage::estimate(&text));
        Ok(Reply { usage, stop, model: self.model, text })
    }
}

fn result_error(value: &Value) -> ApiError {
    let get =
        |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let listed = value.pointer("/errors/0").and_then(Value::as_str);
    let message =
        get("result").or(listed).or_else(|| get("subtype")).unwrap_or("the program gave no reason");
    let status = value["api_error_status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let body = serde_json::json!({ "error": { "message": message } });
    let mut error = error::from_value(&body, status);
    // The program has already retried before it gave up.
    if error.kind == ErrorKind::Broken {
        error.kind = ErrorKind::Other;
    }
    error
}

/// Reads token counts; input tokens are those that were not cached.
fn read_usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let (input, output) = (count("input_tokens")?, count("output_tokens")?);
    let cached = count("cache_read_input_tokens").unwrap_or(0);
    let cache_written = count("cache_creation_input_tokens").unwrap_or(0);
    Some(Usage {
        input: input.saturating_add(cached).saturating_add(cache_written),
        cached,
        cache_written,
        output,
        ..Usage::default()
    })
}
