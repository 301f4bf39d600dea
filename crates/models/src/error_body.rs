//! Reads error bodies of all providers, and determines the kind of error.

use std::time::Duration;

use serde_json::Value;

use super::retry_after;
use conversation::model::{ErrorKind, RefusedPart};

#[derive(Default)]
pub(super) struct ErrorBody {
    /// Types, codes and reasons, the most specific first.
    pub(super) words: Vec<String>,
    /// The sentence for a person; it may be empty.
    pub(super) message: String,
    pub(super) code: Option<u16>,
    pub(super) delay: Option<Duration>,
    /// The parameter that the server does not accept.
    param: String,
    /// Whether the exhausted quota is a daily one (Google).
    daily: bool,
}

impl ErrorBody {
    pub(super) fn from_message(message: &str) -> Self {
        let delay = retry_after::from_text(message);
        Self { message: message.to_owned(), delay, ..Self::default() }
    }

    pub(super) fn from_json(value: &Value) -> Self {
        let value = match value {
            Value::Array(items) => items.iter().find(|item| item.is_object()).unwrap_or(value),
            _ => value,
        };
        let mut body = Self { message: find_message(value).unwrap_or_default(), ..Self::default() };
        let mut words = Vec::new();
        body.gather(value, 0, &mut words);
        // `code` is more specific than `type`, and inner objects (details) more than outer ones.
        words.sort_by_key(|(rank, _): &(u8, String)| *rank);
        body.words = words.into_iter().map(|(_, word)| word).collect();
        body.words.dedup();
        body.delay = body.delay.or_else(|| retry_after::from_text(&body.message));
        let lower = body.message.to_ascii_lowercase();
        body.daily |= lower.contains("limit: 0")
            && body.words.iter().any(|word| word == "resource_exhausted");
        body
    }

    fn gather(&mut self, value: &Value, depth: usize, words: &mut Vec<(u8, String)>) {
        if depth == 6 {
            return;
        }
        for item in value.as_array().into_iter().flatten().take(32) {
            self.gather(item, depth + 1, words);
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            match (name.as_str(), field) {
                ("code" | "error_code" | "error_type" | "reason", Value::String(word)) => {
                    words.push((0, word.to_ascii_lowercase()));
                }
                ("param", Value::String(name)) => name.clone_into(&mut self.param),
                ("type", Value::String(word)) => words.push((1, word.to_ascii_lowercase())),
                ("status", Value::String(word)) => words.push((2, word.to_ascii_lowercase())),
                ("code" | "status" | "status_code", Value::Number(number)) => {
                    let number = number.as_u64().and_then(|number| u16::try_from(number).ok());
                    self.code = self.code.or(number.filter(|code| (400..600).contains(code)));
                }
                ("quotaId", Value::String(quota)) => {
                    self.daily |= quota.contains("PerDay") || quota.contains("Daily");
                }
                ("retryDelay", Value::String(text)) => {
                    self.delay = retry_after::parse_duration(text);
                }
                _ => self.gather(field, depth + 1, words),
            }
        }
    }

    fn has_word(&self, words: &str) -> bool {
        words.split_whitespace().any(|word| self.words.iter().any(|own| own == word))
    }

    /// The part of the request that a server refused with this status, if it names one that may be left out. OpenAI
    /// wants organizations verified for summaries and for some streams; servers read different parts of JSON Schema.
    pub(super) fn refused_part(&self, status: Option<u16>) -> Option<RefusedPart> {
        let text = self.message.to_ascii_lowercase();
        let names =
            |param: &str, phrase: &str| self.param.starts_with(param) || text.contains(phrase);
        match () {
            () if !matches!(status, Some(400 | 422)) => None,
            () if names("reasoning.summary", "reasoning summar") => {
                Some(RefusedPart::ReasoningSummary)
            }
            () if names("stream", "verified to stream") => Some(RefusedPart::Stream),
            () if names("response_format", "schema") => Some(RefusedPart::Schema),
            () => names("text.format", "grammar").then_some(RefusedPart::Schema),
        }
    }

    /// The kind of the error. The status is that of the response, or one in the body.
    pub(super) fn classify(&self, status: Option<u16>) -> ErrorKind {
        let text = self.message.to_ascii_lowercase();
        let says = |phrases: &str| phrases.split('|').any(|phrase| text.contains(phrase));
        let status = status.unwrap_or(0);
        let google_waits_too_long = self.has_word("resource_exhausted")
            && self.delay.is_some_and(|delay| delay.as_secs() > 300);
        let names_model = text.starts_with("model:")
            || text.contains("model") && says("not found|not exist|not supported");
        if self.daily || google_waits_too_long || self.has_word(NO_CREDIT) {
            return ErrorKind::NoCredit;
        }
        match status {
            402 => ErrorKind::NoCredit,
            _ if says(NO_CREDIT_TEXT) => ErrorKind::NoCredit,
            413 => ErrorKind::TooLong,
            _ if self.has_word(TOO_LONG) => ErrorKind::TooLong,
            _ if !matches!(status, 401 | 403) && says(TOO_LONG_TEXT) => ErrorKind::TooLong,
            _ if self.has_word(REFUSED) => ErrorKind::Refused,
            403 if says("flagged|moderation|guardrail") => ErrorKind::Refused,
            _ if self.has_word("unsupported_country_region_territory") => ErrorKind::Other,
            401 => ErrorKind::Auth,
            403 if !text.is_empty() => ErrorKind::Auth,
            _ if self.has_word(AUTH) => ErrorKind::Auth,
            0 | 400 if says(AUTH_TEXT) => ErrorKind::Auth,
            _ if self.has_word("model_not_found model_not_exist") => ErrorKind::NoModel,
            0 | 404 if names_model => ErrorKind::NoModel,
            400 if says(NO_MODEL_TEXT) => ErrorKind::NoModel,
            500 if says(UNSUPPORTED_TEXT) => ErrorKind::Other,
            408 | 409 | 425 | 429 | 500.. => ErrorKind::Busy,
            _ if self.has_word(BUSY) => ErrorKind::Busy,
            0 if !self.has_word(PERMANENT)
                && !self.words.iter().any(|word| word.starts_with("invalid_image")) =>
            {
                // A stream or a program failed without a reason: a retry may help.
                if says(BUSY_TEXT) { ErrorKind::Busy } else { ErrorKind::Broken }
            }
            _ => ErrorKind::Other,
        }
    }
}

/// The sentence for a person, wherever it is in the body.
fn find_message(value: &Value) -> Option<String> {
    let text = |path: &str| {
        value.pointer(path)?.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    // OpenRouter quotes the provider that it called.
    if let (Some(message), Some(raw)) = (text("/error/message"), text("/error/metadata/raw")) {
        return Some(format!("{message}: {raw}"));
    }
    let own = ["", "/error", "/error/message", "/error/metadata/raw", "/error/error"];
    let own = own.into_iter().find_map(text);
    own.or_else(|| value.get("response").and_then(find_message)).or_else(|| {
        ["/message", "/detail", "/msg", "/error_description", "/title"].iter().find_map(|name| {
            ["", "/0", "/0/msg", "/message"].iter().find_map(|end| text(&format!("{name}{end}")))
        })
    })
}

const NO_CREDIT: &str = "insufficient_quota credit_balance_exhausted organization_spend_limit_exceeded \
    project_spend_limit_exceeded organization_usage_limit_exceeded \
    enforced_spend_limit_reached billing_error billing_not_active billing_hard_limit_reached \
    payment_required usage_not_included";
const NO_CREDIT_TEXT: &str = "credit balance is too low|reached your specified api usage limits|insufficient balance|\
    exceeded your current quota, please check your plan and billing";
const TOO_LONG: &str = "context_length_exceeded exceed_context_size_error request_too_large \
    context_window_exceeded string_above_max_length";
const TOO_LONG_TEXT: &str = "prompt is too long|exceeds the context window|context length exceeded|\
    context_length_exceeded|exceeds the maximum number of tokens|maximum context length is|\
    exceeds the available context size|greater than the context length|\
    reduce the length of the messages|too large for model with|maximum prompt length is|\
    exceed context limit|input length exceeds|exceeds maximum context length|\
    request too large for|contextwindowexceedederror";
const REFUSED: &str = "content_filter content_policy_violation invalid_prompt bio_policy cyber_policy refusal \
    responsibleaipolicyviolation misalignment_policy_violation";
/// Words for errors that a retry of the same request would get again.
const PERMANENT: &str = "invalid_request_error invalid_argument not_found_error data_residency_mismatch image_too_large \
    image_too_small image_parse_error image_file_too_large image_file_not_found image_content_policy_violation \
    unsupported_image_media_type empty_image_file failed_to_download_image";
/// The message of a server without the part that could read the file. llama.cpp sends it with a 500.
const UNSUPPORTED_TEXT: &str = "input is not supported";
const AUTH: &str = "invalid_api_key authentication_error api_key_invalid unauthenticated authentication \
    authentication_failed permission_error permission_denied unauthorized";
const AUTH_TEXT: &str = "api key not valid|invalid api key|invalid x-api-key|incorrect api key|not logged in|\
    please run /login|authentication required|not authenticated|unauthorized";
const BUSY: &str = "rate_limit_exceeded rate_limit_error slow_down server_error internal_server_error \
    server_is_overloaded overloaded_error engine_overloaded api_error timeout_error \
    unavailable unavailable_error internal deadline_exceeded resource_exhausted \
    provider_overloaded provider_unavailable server timeout vector_store_timeout \
    insufficient_system_resource conflict_error";
const BUSY_TEXT: &str =
    "overloaded|rate limit|too many requests|server busy|temporarily unavailable";
const NO_MODEL_TEXT: &str = "invalid model|not a valid model|model not exist|unknown model";
