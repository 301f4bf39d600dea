//! Every recorded reply under `tests/fixtures/llm/`, against what it must become: whole, cut in two at every byte, a
//! byte at a time, with CRLF and CR, and ended early at every byte.
//!
//! A fixture is a body and a `.http` file with the status line and the headers. The table below is the expectation;
//! a test counts that no fixture is without a row.

#![expect(clippy::disallowed_methods, reason = "fixtures are files")]

mod odd;
mod programs;
mod table;

use std::{collections::BTreeSet, fs, path::PathBuf};

use self::table::Expect::{self, Error, Reply as Good, Uncounted};
use self::table::TABLE;
use super::super::command::{self, Preset};
use super::{APIS, AnyApi, Chat, Gemini, KEY, Messages, Ollama, Responses, api_name, endpoint};
use ErrorKind::{Auth, Busy, Cut, Other, Refused};
use conversation::model::{ApiError, ErrorKind, Reply, Usage};

use conversation::model::StopReason::{End, Length};

struct Case {
    name: &'static str,
    api: AnyApi,
    expect: Expect,
}

fn cases() -> impl Iterator<Item = Case> {
    TABLE.iter().map(|&(name, api, expect)| Case { name, api, expect })
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/llm"))
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
        // Every byte of short bodies; of long ones, whose parts repeat, every byte of their two ends and each 97th between.
        let cuts = (0..=body.len()).filter(|at| *at < 64 || at + 64 > body.len() || at % 97 == 0);
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
fn with_crlf() {
    for case in cases().filter(is_stream) {
        let body = String::from_utf8(read(case.name)).unwrap().replace("\r\n", "\n");
        let body = body.replace('\n', "\r\n");
        compare(&case, "other line ends", decode(&case, [body.as_bytes()]));
        compare(&case, "other line ends, bytewise", decode(&case, body.as_bytes().chunks(1)));
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
        // At every 31st byte of long bodies, and so in every frame too.
        for at in (0..body.len()).step_by(if body.len() > 2000 { 31 } else { 5 }) {
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
    assert_eq!(numbers.len(), 89);
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
