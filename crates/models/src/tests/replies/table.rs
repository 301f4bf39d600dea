//! The recorded replies, and what each must become.

use super::super::{AnyApi, Chat, Gemini, Messages, Ollama, Responses};
use conversation::model::{ErrorKind, StopReason};

/// What a reply must become.
#[derive(Clone, Copy)]
pub(super) enum Expect {
    /// Text, input, cached, cache written, output, stop.
    Reply(&'static str, u64, u64, u64, u64, StopReason),
    /// A whole reply without counts.
    Uncounted(&'static str),
    /// Kind, part of the message, milliseconds to wait.
    Error(ErrorKind, &'static str, Option<u128>),
}

use ErrorKind::{Auth, Broken, Busy, Cut, NoCredit, NoModel, Other, Refused, TooLong};
use Expect::{Error, Reply as Good, Uncounted};
use StopReason::{End, Length};

/// A fixture, the API that it is of, and what it must become.
pub(super) const TABLE: &[(&str, AnyApi, Expect)] = &[
    ("openai-responses/01-ok-nonstream.json", &Responses, Good("Grüße, Welt\n", 12, 4, 0, 7, End)),
    (
        "openai-responses/02-ok-stream.sse",
        &Responses,
        Good("Grüße, “Welt” 🌍\nsecond line", 20, 16, 2, 9, End),
    ),
    (
        "openai-responses/03-stream-reasoning-items-skipped.sse",
        &Responses,
        Good("I will look.\n\nThe answer.", 9, 0, 0, 40, End),
    ),
    (
        "openai-responses/04-stream-incomplete-max-output-tokens.sse",
        &Responses,
        Good("cut off he", 9, 0, 0, 16, Length),
    ),
    (
        "openai-responses/05-incomplete-content-filter.json",
        &Responses,
        Error(Refused, "content filter", None),
    ),
    (
        "openai-responses/06-refusal-part.json",
        &Responses,
        Error(Refused, "I cannot help with that", None),
    ),
    (
        "openai-responses/07-stream-custom-tool-grammar.sse",
        &Responses,
        Good("Patching.", 9, 0, 0, 12, End),
    ),
    (
        "openai-responses/08-stream-error-nested-quota-then-failed.sse",
        &Responses,
        Error(NoCredit, "current quota", None),
    ),
    (
        "openai-responses/09-stream-error-flat-rate-limit.sse",
        &Responses,
        Error(Busy, "Rate limit reached", Some(1500)),
    ),
    (
        "openai-responses/10-stream-failed-context-length.sse",
        &Responses,
        Error(TooLong, "exceeds the context window", None),
    ),
    (
        "openai-responses/11-stream-truncated-before-completed.sse",
        &Responses,
        Error(Cut, "after 21 characters", None),
    ),
    (
        "openai-responses/12-401-invalid-key-echo-text-plain.json",
        &Responses,
        Error(Auth, "Incorrect API key provided: [key]", None),
    ),
    ("openai-responses/13-404-model-not-found.json", &Responses, Error(NoModel, "gpt-9", None)),
    (
        "openai-responses/14-400-temperature-param-code-null.json",
        &Responses,
        Error(Other, "'temperature'", None),
    ),
    (
        "openai-responses/15-429-credit-balance-exhausted.json",
        &Responses,
        Error(NoCredit, "no credits left", None),
    ),
    (
        "openai-responses/16-429-rate-limit-retry-after-ms.json",
        &Responses,
        Error(Busy, "(HTTP 429, rate_limit_exceeded)", Some(1250)),
    ),
    (
        "openai-responses/17-503-overloaded-should-retry-false.json",
        &Responses,
        Error(Busy, "overloaded", None),
    ),
    ("openai-chat/18-ok-stream-include-usage.sse", &Chat, Good("Grüße 🌍\n", 9, 3, 0, 4, End)),
    ("openai-chat/19-stream-finish-length.sse", &Chat, Good("cut off he", 9, 0, 0, 4, Length)),
    (
        "openai-chat/20-stream-eof-no-finish-reason.sse",
        &Chat,
        Error(Cut, "after 6 characters", None),
    ),
    ("openai-chat/21-stream-finish-without-done.sse", &Chat, Uncounted("whole answer")),
    ("openai-chat/22-stream-data-error-frame.sse", &Chat, Error(Busy, "had an error", None)),
    (
        "openai-chat/23-400-max-tokens-unsupported.json",
        &Chat,
        Error(Other, "unsupported_parameter", None),
    ),
    ("compat/24-vllm-reasoning-delta.sse", &Chat, Good("answer", 9, 0, 0, 30, End)),
    (
        "compat/25-vllm-401-error-is-string.json",
        &Chat,
        Error(Auth, "Unauthorized (HTTP 401)", None),
    ),
    ("compat/26-llamacpp-reasoning-content-pings.sse", &Chat, Good("answer", 9, 0, 0, 8, End)),
    (
        "compat/27-llamacpp-400-exceed-context.json",
        &Chat,
        Error(TooLong, "available context size", None),
    ),
    ("compat/28-openrouter-comments-usage-last.sse", &Chat, Good("answer", 9, 2, 0, 5, End)),
    ("compat/29-openrouter-midstream-error.sse", &Chat, Error(Busy, "disconnected", None)),
    ("compat/30-openrouter-200-choice-error.json", &Chat, Error(Busy, "Upstream", None)),
    (
        "compat/31-openrouter-402-int-code.json",
        &Chat,
        Error(NoCredit, "Insufficient credits", None),
    ),
    ("compat/32-groq-x-groq-usage.sse", &Chat, Good("answer", 9, 0, 0, 5, End)),
    ("compat/33-groq-429-go-duration.json", &Chat, Error(Busy, "tokens per minute", Some(179_560))),
    (
        "compat/34-mistral-thinking-array-model-length.sse",
        &Chat,
        Good("cut off", 9, 0, 0, 6, Length),
    ),
    ("compat/35-mistral-401-detail.json", &Chat, Error(Auth, "Unauthorized", None)),
    ("compat/36-deepseek-blank-lines-nonstream.json", &Chat, Good("answer", 9, 4, 0, 5, End)),
    ("compat/37-deepseek-401-plain-text.txt", &Chat, Error(Auth, "governor", None)),
    ("compat/38-together-524-html.txt", &Chat, Error(Busy, "524: A timeout occurred", None)),
    ("compat/39-azure-first-chunk-empty-choices.sse", &Chat, Good("answer", 9, 0, 0, 5, End)),
    (
        "compat/40-azure-400-content-filter.json",
        &Chat,
        Error(Refused, "content management policy", None),
    ),
    (
        "anthropic/41-ok-stream-thinking-omitted-ping.sse",
        &Messages,
        Good("Grüße 🌍\n", 9, 0, 0, 14, End),
    ),
    ("anthropic/42-stream-max-tokens.sse", &Messages, Good("cut off he", 9, 0, 0, 16, Length)),
    (
        "anthropic/43-refusal-empty-content.json",
        &Messages,
        Error(Refused, "This request was declined", None),
    ),
    ("anthropic/44-stream-overloaded-after-text.sse", &Messages, Error(Busy, "Overloaded", None)),
    ("anthropic/45-stream-no-message-stop.sse", &Messages, Error(Cut, "after 11 characters", None)),
    ("anthropic/46-cache-usage-5m-1h.sse", &Messages, Good("answer", 1305, 1000, 300, 7, End)),
    (
        "anthropic/47-429-enforced-spend-limit-no-retry-after.json",
        &Messages,
        Error(NoCredit, "spend limit", None),
    ),
    (
        "anthropic/48-529-overloaded.json",
        &Messages,
        Error(Busy, "(HTTP 529, overloaded_error)", Some(3000)),
    ),
    ("gemini/50-ok-stream-thought-parts-crlf.sse", &Gemini, Good("Grüße 🌍\n", 9, 5, 0, 35, End)),
    ("gemini/51-max-tokens-empty-parts.sse", &Gemini, Good("", 9, 0, 0, 64, Length)),
    ("gemini/52-prompt-blocked.sse", &Gemini, Error(Refused, "PROHIBITED_CONTENT", None)),
    (
        "gemini/53-400-api-key-invalid-array-wrapped.json",
        &Gemini,
        Error(Auth, "api_key_invalid", None),
    ),
    (
        "gemini/54-429-per-day-beats-retryinfo.json",
        &Gemini,
        Error(NoCredit, "exceeded your current quota", Some(27_000)),
    ),
    (
        "openai-responses/61-stream-commentary-before-answer.sse",
        &Responses,
        Good("Grüße 🌍\n", 9, 0, 0, 30, End),
    ),
    ("openai-responses/62-commentary-alone.json", &Responses, Good("answer", 9, 0, 0, 30, End)),
    (
        "openai-responses/63-stream-incomplete-without-reason.sse",
        &Responses,
        Good("cut off he", 9, 0, 0, 30, Length),
    ),
    (
        "openai-responses/64-stream-failed-misalignment.sse",
        &Responses,
        Error(Refused, "misalignment_policy_violation", None),
    ),
    (
        "openai-responses/65-stream-failed-image-too-large.sse",
        &Responses,
        Error(Other, "image_too_large", None),
    ),
    (
        "gemini/86-unexpected-tool-call.sse",
        &Gemini,
        Error(Cut, "did not end its reply (UNEXPECTED_TOOL_CALL)", None),
    ),
    (
        "gemini/87-too-many-tool-calls.sse",
        &Gemini,
        Error(Other, "Google ended the reply (TOO_MANY_TOOL_CALLS)", None),
    ),
    ("gemini/88-no-image.sse", &Gemini, Error(Other, "Google ended the reply (NO_IMAGE)", None)),
    ("gemini/89-other.sse", &Gemini, Error(Cut, "did not end its reply (OTHER)", None)),
    ("gemini/66-continuation.sse", &Gemini, Good("cut off he", 9, 0, 0, 4, Length)),
    ("gemini/67-escalation.sse", &Gemini, Error(Refused, "ESCALATION", None)),
    ("gemini/68-malformed-response.sse", &Gemini, Error(Other, "MALFORMED_RESPONSE", None)),
    (
        "compat/69-litellm-500-event-as-body.txt",
        &Chat,
        Error(Busy, "Error processing stream start (HTTP 500, internal_server_error)", None),
    ),
    (
        "compat/70-litellm-400-window-event-as-body.txt",
        &Chat,
        Error(TooLong, "this model takes 4096 (HTTP 400)", None),
    ),
    (
        "compat/71-llamacpp-500-image.json",
        &Chat,
        Error(Other, "image input is not supported", None),
    ),
    ("anthropic/72-stream-refusal-is-billed.sse", &Messages, Error(Refused, "cyber", None)),
    ("ollama/55-ok-ndjson-thinking.ndjson", &Ollama, Good("Grüße 🌍\n", 9, 0, 0, 6, End)),
    ("ollama/56-midstream-error-line.ndjson", &Ollama, Error(Broken, "unexpected EOF", None)),
    ("ollama/57-eof-without-done.ndjson", &Ollama, Error(Cut, "after 11 characters", None)),
    (
        "openai-responses/74-stream-lost-delta.sse",
        &Responses,
        Error(Broken, "4 of the reply came after event 2", None),
    ),
    ("openai-responses/75-stream-doubled-delta.sse", &Responses, Good("one two", 9, 0, 0, 4, End)),
    (
        "openai-responses/76-stream-swapped-deltas.sse",
        &Responses,
        Error(Broken, "4 of the reply came after event 2", None),
    ),
    (
        "openai-responses/77-stream-text-done-alone.sse",
        &Responses,
        Good("one two", 9, 0, 0, 4, End),
    ),
    (
        "openai-responses/78-stream-item-done-alone.sse",
        &Responses,
        Good("one\n\ntwo", 9, 0, 0, 4, End),
    ),
    ("openai-responses/90-litellm-numbers.sse", &Responses, Good("one two", 9, 0, 0, 4, End)),
    (
        "anthropic/79-stream-stop-alone.sse",
        &Messages,
        Error(Broken, "its end came without its start", None),
    ),
    (
        "anthropic/80-stream-no-stop-reason.sse",
        &Messages,
        Error(Broken, "without a stop_reason", None),
    ),
    (
        "anthropic/81-stream-two-messages.sse",
        &Messages,
        Error(Broken, "a second message began", None),
    ),
    (
        "anthropic/82-stream-delta-of-closed-block.sse",
        &Messages,
        Error(Broken, "a block that is not open", None),
    ),
    ("anthropic/83-stream-paused.sse", &Messages, Error(Other, "pause_turn", None)),
    ("compat/84-chunks-without-choices.sse", &Chat, Good("one two", 9, 0, 0, 4, End)),
    ("compat/85-length-then-stop.sse", &Chat, Good("one two", 9, 0, 0, 4, Length)),
];
