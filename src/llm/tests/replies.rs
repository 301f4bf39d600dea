//! Every recorded reply under `tests/fixtures/llm/`, against what it must become: whole, cut in two at every byte, a
//! byte at a time, with CRLF and CR, and ended early at every byte.
//!
//! A fixture is a body and a `.http` file with the status line and the headers. The table below is the expectation;
//! a test counts that no fixture is without a row.

#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

mod odd;
mod programs;

use std::{collections::BTreeSet, fs, path::PathBuf};

use super::super::{
    ApiError, ErrorKind, Reply, StopReason, Usage,
    command::{self, Preset},
};
use super::{APIS, AnyApi, Chat, Gemini, KEY, Messages, Ollama, Responses, api_name, endpoint};

struct Case {
    name: &'static str,
    api: AnyApi,
    expect: Expect,
}

#[derive(Clone, Copy)]
enum Expect {
    /// Text, input, cached, cache written, output, stop.
    Reply(&'static str, u64, u64, u64, u64, StopReason),
    /// A whole reply without counts.
    Uncounted(&'static str),
    /// Kind, part of the message, milliseconds to wait.
    Error(ErrorKind, &'static str, Option<u128>),
}

use ErrorKind::{Auth, Busy, Cut, NoCredit, NoModel, Other, Refused, TooLong};
use Expect::{Error, Reply as Good, Uncounted};
use StopReason::{End, Length};

const TABLE: &[(&str, AnyApi, Expect)] = &[
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
    (
        "ollama/56-midstream-error-line.ndjson",
        &Ollama,
        Error(ErrorKind::Broken, "unexpected EOF", None),
    ),
    ("ollama/57-eof-without-done.ndjson", &Ollama, Error(Cut, "after 11 characters", None)),
];

fn cases() -> impl Iterator<Item = Case> {
    TABLE.iter().map(|&(name, api, expect)| Case { name, api, expect })
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/llm"))
}

/// The bytes of a fixture, by its path in the folder.
pub(super) fn read(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Status and headers of a fixture.
fn head(name: &str) -> (u16, Vec<(String, String)>) {
    let stem = name.rsplit_once('.').unwrap().0;
    let text = String::from_utf8(read(&format!("{stem}.http"))).unwrap();
    let mut lines = text.lines();
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap().parse().unwrap();
    let header = |line: &str| {
        line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap()
    };
    (status, lines.map(header).collect())
}

/// The reply to chunks of bytes, and the text as it was reported.
fn decode<'a>(
    case: &Case,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, ApiError>, String) {
    let (status, headers) = head(case.name);
    decode_with(case.api, status, &headers, chunks)
}

fn decode_with<'a>(
    api: AnyApi,
    status: u16,
    headers: &[(String, String)],
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, ApiError>, String) {
    let mut decoder = endpoint(api, false).decoder(status, headers);
    let mut told = String::new();
    for chunk in chunks {
        if let Err(error) = decoder.push_bytes(chunk, &mut |text| told.push_str(text)) {
            assert_eq!(decoder.finish(), Err(error.clone()), "an error stays");
            return (Err(error), told);
        }
    }
    (decoder.finish(), told)
}

fn compare(case: &Case, how: &str, (got, told): (Result<Reply, ApiError>, String)) {
    let name = case.name;
    match (got, case.expect) {
        (Ok(reply), Good(text, input, cached, cache_written, output, stop)) => {
            let reasoning = reply.usage.reasoning;
            let usage = Usage { input, cached, cache_written, output, reasoning, estimated: false };
            assert_eq!(
                (reply.text.as_str(), reply.usage, reply.stop),
                (text, usage, stop),
                "{name} {how}"
            );
            assert!(reply.model.is_some(), "{name} {how} names no model");
        }
        (Ok(reply), Uncounted(text)) => {
            assert_eq!((reply.text.as_str(), reply.stop), (text, End), "{name} {how}");
            assert!(reply.usage.estimated && reply.usage.output > 0, "{name} {how}");
        }
        (Err(error), Error(kind, part, wait)) => {
            assert_eq!(error.kind, kind, "{name} {how}: {error}");
            assert!(error.message.contains(part), "{name} {how}: {error}");
            assert_eq!(error.retry_after.map(|wait| wait.as_millis()), wait, "{name} {how}");
        }
        (got, _) => panic!("{name} {how}: {got:?}"),
    }
    if case.name.ends_with("stream.sse") || told.len() > 1 {
        assert!(!told.contains("secret"), "{name} {how}: reasoning was told: {told}");
    }
}

fn no_canary(name: &str, message: &str) {
    let leaks = (0..KEY.len() - 6).any(|at| message.contains(&KEY[at..at + 6]));
    assert!(!leaks, "{name}: {message}");
}

fn is_stream(case: &Case) -> bool {
    case.name.contains(".sse") || case.name.contains(".ndjson")
}

#[test]
fn whole() {
    for case in cases() {
        let body = read(case.name);
        compare(&case, "whole", decode(&case, [body.as_slice()]));
    }
}

#[test]
fn cut_in_two_at_every_byte() {
    for case in cases() {
        let body = read(case.name);
        let (status, headers) = head(case.name);
        // Every byte of short bodies; of long ones, whose parts repeat, every byte of their two ends and each seventh between.
        let cuts = (0..=body.len()).filter(|at| *at < 500 || at + 500 > body.len() || at % 7 == 0);
        for at in cuts {
            let (a, b) = body.split_at(at);
            compare(&case, "in two", decode_with(case.api, status, &headers, [a, b]));
        }
    }
}

#[test]
fn a_byte_at_a_time() {
    for case in cases() {
        let body = read(case.name);
        compare(&case, "bytewise", decode(&case, body.chunks(1)));
    }
}

#[test]
fn with_crlf_and_with_cr() {
    for case in cases().filter(is_stream) {
        let body = String::from_utf8(read(case.name)).unwrap().replace("\r\n", "\n");
        for end in ["\r\n", "\r"] {
            let body = body.replace('\n', end);
            compare(&case, "other line ends", decode(&case, [body.as_bytes()]));
            compare(&case, "other line ends, bytewise", decode(&case, body.as_bytes().chunks(1)));
        }
    }
}

#[test]
fn the_text_is_told_as_it_comes() {
    for case in cases().filter(is_stream) {
        if let (Ok(reply), told) = decode(&case, [read(case.name).as_slice()]) {
            assert_eq!(reply.text, told, "{}", case.name);
        }
    }
}

/// Where the end mark is whole: the shortest beginning of the body that counts.
#[test]
fn nothing_short_of_the_end_mark_is_an_answer() {
    let marks = |api: AnyApi| match api_name(api) {
        "responses" => "\"type\":\"response.completed\"",
        "chat" => "\"finish_reason\":\"stop\"",
        "messages" => "\"type\":\"message_stop\"",
        "gemini" => "\"finishReason\":\"STOP\"",
        _ => "\"done\":true",
    };
    for case in cases().filter(is_stream) {
        let body = read(case.name);
        let text = String::from_utf8(body.clone()).unwrap();
        let mark = text.find(marks(case.api)).unwrap_or(body.len());
        let (status, headers) = head(case.name);
        // At every other byte of long bodies, and so in every frame too.
        for at in (0..body.len()).step_by(if body.len() > 2000 { 2 } else { 1 }) {
            match decode_with(case.api, status, &headers, [&body[..at]]).0 {
                Err(error) => no_canary(case.name, &error.message),
                Ok(reply) => {
                    assert!(
                        at >= mark || reply.stop == Length,
                        "{} cut at {at}: {reply:?}",
                        case.name
                    );
                    assert!(
                        matches!(case.expect, Good(text, ..) | Uncounted(text) if text == reply.text)
                    );
                }
            }
        }
    }
}

#[test]
fn no_message_holds_the_key() {
    for case in cases() {
        if let (Err(error), _) = decode(&case, [read(case.name).as_slice()]) {
            no_canary(case.name, &error.message);
            assert!(
                error.message.chars().count() <= 2000 && !error.message.contains(char::is_control)
            );
        }
    }
}

#[test]
fn no_fixture_is_forgotten() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let provider = entry.unwrap();
        for file in fs::read_dir(provider.path()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if name.rsplit_once('.').unwrap().1 != "http" {
                found.insert(format!("{}/{name}", provider.file_name().into_string().unwrap()));
            }
        }
    }
    let mut known: BTreeSet<_> = cases().map(|case| case.name.to_owned()).collect();
    for other in [
        "anthropic/49-models-two-pages-1.json",
        "anthropic/49-models-two-pages-2.json",
        "cli/58-claude-success-but-is-error.json",
        "cli/60-cursor-nonzero-no-json.txt",
        "cli/73-claude-output-maximum.json",
    ] {
        known.insert(other.to_owned());
    }
    assert_eq!(found, known);
    let numbers: BTreeSet<_> =
        found.iter().map(|name| name.split_once('/').unwrap().1[..2].to_owned()).collect();
    assert_eq!(numbers.len(), 72);
}

#[test]
fn pages_of_models_follow_each_other() {
    let endpoint = endpoint(&Messages, true);
    let mut next = None;
    let mut ids = Vec::new();
    for page in ["anthropic/49-models-two-pages-1.json", "anthropic/49-models-two-pages-2.json"] {
        let request = endpoint.models_request(next.as_deref());
        assert_eq!(
            (request.method, request.url.contains("after_id=claude-b")),
            ("GET", next.is_some())
        );
        let page = endpoint.read_models(&read(page)).unwrap();
        ids.extend(page.models.into_iter().map(|model| (model.id, model.window)));
        next = page.next;
    }
    assert_eq!(next, None);
    let own = |id: &str, window| (id.to_owned(), window);
    assert_eq!(
        ids,
        [own("claude-a", Some(1_000_000)), own("claude-b", Some(200_000)), own("claude-c", None)]
    );
}

/// What is billed of a reply that failed, and what a model thought, which is never text.
#[test]
fn failures_and_thoughts_are_counted() {
    let check = |name: &str, thoughts: &str, output: u64, reasoning: u64| {
        let case = cases().find(|case| case.name == name).unwrap();
        let (status, headers) = head(name);
        let mut decoder = endpoint(case.api, false).decoder(status, &headers);
        let _ = decoder.push_bytes(&read(name), &mut |_| ());
        assert_eq!(decoder.take_thoughts(), thoughts, "{name}");
        let usage = decoder.finish().map_or_else(|error| error.usage, |reply| Some(reply.usage));
        assert_eq!(usage.map(|usage| (usage.output, usage.reasoning)), Some((output, reasoning)));
    };
    let commentary = "**Looking** at it\nI'll quickly look at the folder.";
    check("openai-responses/61-stream-commentary-before-answer.sse", commentary, 30, 12);
    check("openai-responses/64-stream-failed-misalignment.sse", "", 30, 12);
    check("anthropic/72-stream-refusal-is-billed.sse", "Is this allowed?", 106, 90);
}
