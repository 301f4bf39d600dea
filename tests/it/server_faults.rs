//! Faults of servers, for each format: what comes over the wire, and the class that it must get. Run through
//! `nagent-llm-text`; also from `make torture`, which prints how many were right.
//!
//! A class shows in what happens: whether the request is sent again, the exit code, the words. The shapes of errors are
//! those of the providers' references and of live replies. It is longer than other files for its table's sake.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{CANARY, Sandbox};
use crate::wire::{Format, Reply};

/// What a fault must come to.
#[derive(Debug, Clone, Copy)]
enum Class {
    /// Sent again, and the second reply is the answer.
    Again,
    /// The same, and not before so many milliseconds.
    AgainAfter(u64),
    /// Given up after the only request: exit 3, with these words.
    Never(&'static str),
    /// Cut off by the length limit: exit 5, one request.
    Length,
}

use Class::{Again, AgainAfter, Length, Never};

/// A row: its name, what the server does first, what it must come to.
struct Row {
    name: String,
    format: Format,
    first: Answer,
    class: Class,
    /// Seconds of patience; a retry is waited for that long at most.
    patience: &'static str,
}

const FORMATS: [(Format, &str); 5] = [
    (Format::Chat, "openai"),
    (Format::Responses, "openai-responses"),
    (Format::Anthropic, "anthropic"),
    (Format::Gemini, "google"),
    (Format::Ollama, "ollama"),
];

/// Recorded streams whose events were lost, swapped or mixed: no answer, and asked for again.
const BROKEN: [(Format, &str); 6] = [
    (Format::Responses, include_str!("../fixtures/llm/openai-responses/74-stream-lost-delta.sse")),
    (
        Format::Responses,
        include_str!("../fixtures/llm/openai-responses/76-stream-swapped-deltas.sse"),
    ),
    (Format::Anthropic, include_str!("../fixtures/llm/anthropic/79-stream-stop-alone.sse")),
    (Format::Anthropic, include_str!("../fixtures/llm/anthropic/80-stream-no-stop-reason.sse")),
    (Format::Anthropic, include_str!("../fixtures/llm/anthropic/81-stream-two-messages.sse")),
    (
        Format::Anthropic,
        include_str!("../fixtures/llm/anthropic/82-stream-delta-of-closed-block.sse"),
    ),
];

/// The words of each provider for a fault: status and body, and the class where it is not the usual one.
fn said(format: Format, what: &str) -> (u16, String) {
    let openai = |code: &str, kind: &str, message: &str| {
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            .to_string()
    };
    let anthropic = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"})
            .to_string()
    };
    let google = |code: u16, status: &str, message: &str| {
        json!({"error": {"code": code, "message": message, "status": status}}).to_string()
    };
    let ollama = |message: &str| json!({"error": message}).to_string();
    match (what, format) {
        ("billing", Format::Chat) => {
            (429, openai("insufficient_quota", "insufficient_quota", "You exceeded your current quota"))
        }
        ("billing", Format::Responses) => {
            (429, openai("credit_balance_exhausted", "billing", "You have no credits left"))
        }
        ("billing", Format::Anthropic) => (
            429,
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "spend limit",
                "details": {"error_code": "enforced_spend_limit_reached"}}}).to_string(),
        ),
        ("billing", Format::Gemini) => (
            429,
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                    {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}]}}).to_string(),
        ),
        ("billing", Format::Ollama) => (402, ollama("this model needs a subscription")),
        ("context", Format::Chat | Format::Responses) => (
            400,
            openai("context_length_exceeded", "invalid_request_error", "This model's maximum context length is 8192 tokens"),
        ),
        ("context", Format::Anthropic) => {
            (400, anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"))
        }
        // Google's reference lists this one under 500 as well.
        ("context", Format::Gemini) => (
            500,
            google(500, "INTERNAL", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        ),
        ("context", Format::Ollama) => (400, ollama("the input length exceeds the context length")),
        ("auth", Format::Chat | Format::Responses) => {
            (401, openai("invalid_api_key", "invalid_request_error", "Incorrect API key provided: sk-ca***cdef"))
        }
        ("auth", Format::Anthropic) => (401, anthropic("authentication_error", "invalid x-api-key")),
        ("auth", Format::Gemini) => (
            400,
            json!([{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}]).to_string(),
        ),
        ("auth", Format::Ollama) => (401, ollama("unauthorized")),
        ("model", Format::Chat | Format::Responses) => {
            (404, openai("model_not_found", "invalid_request_error", "The model `m` does not exist"))
        }
        ("model", Format::Anthropic) => (404, anthropic("not_found_error", "model: m")),
        ("model", Format::Gemini) => {
            (404, google(404, "NOT_FOUND", "models/m is not found for API version v1beta, or is not supported"))
        }
        ("model", Format::Ollama) => (404, ollama("model 'm' not found, try pulling it first")),
        ("invalid", Format::Chat | Format::Responses) => {
            (400, openai("unsupported_value", "invalid_request_error", "Unsupported value: 'temperature'"))
        }
        ("invalid", Format::Anthropic) => (400, anthropic("invalid_request_error", "temperature: not allowed")),
        ("invalid", Format::Gemini) => (400, google(400, "INVALID_ARGUMENT", "temperature is not allowed")),
        ("invalid", Format::Ollama) => (400, ollama("invalid option: temperature")),
        ("busy", Format::Chat | Format::Responses) => {
            (503, openai("server_is_overloaded", "server_error", "The server is overloaded"))
        }
        ("busy", Format::Anthropic) => (529, anthropic("overloaded_error", "Overloaded")),
        ("busy", Format::Gemini) => (503, google(503, "UNAVAILABLE", "The model is overloaded.")),
        ("busy", Format::Ollama) => (503, ollama("server busy, please try again")),
        ("limit", Format::Chat | Format::Responses) => {
            (429, openai("rate_limit_exceeded", "requests", "Rate limit reached for m"))
        }
        ("limit", Format::Anthropic) => (429, anthropic("rate_limit_error", "too many requests")),
        ("limit", Format::Gemini) => (429, google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted")),
        ("limit", Format::Ollama) => (429, ollama("too many concurrent requests")),
        _ => unreachable!("{what}"),
    }
}

/// An error that comes in the middle of a stream of status 200, after some text.
fn within(format: Format, what: &str) -> Answer {
    let (_, body) = said(format, what);
    let mut frames = format.frames(&Reply::new("half of an answer that is not whole").pieces(9));
    frames.truncate(frames.len() / 2);
    frames.push(match format {
        Format::Anthropic => format!("event: error\ndata: {body}\n\n"),
        Format::Responses => {
            let value: serde_json::Value = serde_json::from_str(&body).unwrap();
            let error = json!({"type": "error", "sequence_number": 9, "error": value["error"]});
            format!("event: error\ndata: {error}\n\n")
        }
        Format::Ollama => format!("{body}\n"),
        Format::Chat | Format::Gemini => format!("data: {body}\n\n"),
    });
    Answer::raw(200, format.content_type(), frames.concat())
}

/// The model declines; Ollama has no words for that.
fn refusal(format: Format) -> Option<Answer> {
    let data = |value: serde_json::Value| format!("data: {value}\n\n");
    let text = match format {
        Format::Chat => {
            data(json!({"choices": [{"delta": {"refusal": "I cannot"}, "finish_reason": "stop"}]}))
        }
        Format::Responses => {
            data(json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "content_filter"}, "output": []}}))
        }
        Format::Anthropic => {
            let stop = json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}});
            data(stop) + &data(json!({"type": "message_stop"}))
        }
        Format::Gemini => data(json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),
        Format::Ollama => return None,
    };
    Some(Answer::raw(200, format.content_type(), text))
}

/// A piece of a reply that says neither what came before nor what follows.
fn piece(format: Format, text: &str) -> Vec<u8> {
    let event = match format {
        Format::Chat => json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        Format::Responses => json!({"type": "response.output_text.delta", "delta": text}),
        Format::Anthropic => {
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}})
        }
        Format::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}),
        Format::Ollama => {
            return format!("{}\n", json!({"message": {"content": text}})).into_bytes();
        }
    };
    format!("data: {event}\n\n").into_bytes()
}

fn of(format: Format, provider: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, first: Answer, class: Class, patience: &'static str| {
        rows.push(Row { name: format!("{provider}: {name}"), format, first, class, patience });
    };
    let error = |what: &str, headers: &[(&str, &str)]| {
        let (status, body) = said(format, what);
        let mut all = vec![("content-type".to_owned(), "application/json".to_owned())];
        all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Answer::Raw { status, headers: all, body: body.into_bytes() }
    };
    let stream = format.frames(&Reply::new("a whole answer").pieces(9));
    let half: String = stream[..stream.len() / 2].concat();
    let kind = format.content_type();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n");
    let bytes = |text: String| Answer::Bytes(text.into_bytes());
    // 60 ms: the wait before the one retry there is time for.
    let soon = "0.06";

    row("no credit", error("billing", &[]), Never(""), "5");
    row(
        "no credit, and the server says to try again",
        error("billing", &[("x-should-retry", "true")]),
        Never(""),
        "5",
    );
    row("longer than the window", error("context", &[]), Never(""), "5");
    row(
        "key refused",
        error("auth", &[]),
        Never(if format == Format::Ollama {
            "no credential was sent"
        } else {
            "the credential came from"
        }),
        "5",
    );
    row("no such model", error("model", &[]), Never("--list-models"), "5");
    row("wrong request", error("invalid", &[]), Never("temperature"), "5");
    row("busy", error("busy", &[("retry-after-ms", "10")]), Again, soon);
    row(
        "busy, and the server says not to try again",
        error("busy", &[("x-should-retry", "false")]),
        Never(""),
        "5",
    );
    row("rate limit", error("limit", &[]), Again, soon);
    row(
        "rate limit, Retry-After in seconds",
        error("limit", &[("retry-after", "0.3")]),
        AgainAfter(300),
        "0.5",
    );
    row(
        "rate limit, Retry-After as a date",
        error(
            "limit",
            &[
                ("date", "Sat, 21 Nov 2026 10:00:00 GMT"),
                ("retry-after", "Sat, 21 Nov 2026 10:00:01 GMT"),
            ],
        ),
        AgainAfter(1000),
        "1.2",
    );
    row(
        "rate limit, Retry-After that is nonsense",
        error("limit", &[("retry-after", "NaN")]),
        Again,
        soon,
    );
    row(
        "rate limit, Retry-After of eleven days",
        error("limit", &[("retry-after", "999999")]),
        Never("the server asks to wait"),
        "5",
    );
    row(
        "rate limit, Retry-After beyond numbers",
        error("limit", &[("retry-after", "1e309")]),
        Never("the server asks to wait"),
        "5",
    );
    row("408", Answer::raw(408, "text/plain", "timeout"), Again, soon);
    row("409", Answer::raw(409, "text/plain", "conflict"), Again, soon);
    row("500 with a page", Answer::raw(500, "text/html", "<html><title>Oops</title>"), Again, soon);
    row("502 with nothing", Answer::raw(502, "text/html", ""), Again, soon);
    row("504", Answer::raw(504, "application/json", "{\"error\":"), Again, soon);
    row(
        "413 with a page",
        Answer::raw(413, "text/html", "<html><title>Too large</title>"),
        Never("413"),
        "5",
    );
    row(
        "403 with a page",
        Answer::raw(403, "text/html", "<html><title>Blocked</title>"),
        Never("Blocked"),
        "5",
    );
    row("200 with nothing", Answer::raw(200, kind, ""), Again, soon);
    row("200 with a page", Answer::html(), Never("captive portal"), "5");
    row(
        "200 with other words",
        Answer::raw(200, "text/plain", "OK\n"),
        Never("without a stream of events"),
        soon,
    );
    row(
        "half of a stream until the connection closes",
        bytes(format!("{head}\r\n{half}")),
        Again,
        soon,
    );
    row(
        "half of a JSON reply until the connection closes",
        bytes(format!("{head}\r\n{{\"id\":\"1\",\"choices\":[{{\"message\":{{\"con")),
        Again,
        soon,
    );
    row(
        "a stream without its end mark",
        Answer::Half(Reply::new("a whole answer").pieces(9)),
        Again,
        soon,
    );
    row("a stream that breaks", Answer::Cut(Reply::new("a whole answer").pieces(9)), Again, soon);
    for (index, (_, text)) in BROKEN.iter().enumerate().filter(|(_, (of, _))| *of == format) {
        row(&format!("broken stream {index}"), Answer::raw(200, kind, *text), Again, soon);
    }
    row("busy in the middle of a stream", within(format, "busy"), Again, soon);
    row(
        "no credit in the middle of a stream",
        within(format, if format == Format::Ollama { "model" } else { "billing" }),
        Never(""),
        "5",
    );
    row(
        "JSON 100,000 deep",
        Answer::raw(200, kind, format!("data: {}\n\n", "[".repeat(100_000))),
        Again,
        soon,
    );
    row(
        "an error 100,000 deep",
        Answer::raw(400, "application/json", "{\"error\":".repeat(100_000)),
        Never("HTTP 400"),
        "5",
    );
    row("cut off by the length limit", Answer::Reply(Reply::new("half").cut_off()), Length, "5");
    if let Some(refusal) = refusal(format) {
        row("declined", refusal, Never(""), "5");
    }
    // What is below all formats is tried with one of them.
    if format == Format::Chat {
        of_http(&mut row, format, &head, &half, &stream.concat());
    }
    rows
}

/// Faults of HTTP itself, and what never ends.
fn of_http(
    row: &mut impl FnMut(&str, Answer, Class, &'static str),
    format: Format,
    head: &str,
    half: &str,
    whole: &str,
) {
    let kind = format.content_type();
    let bytes = |text: String| Answer::Bytes(text.into_bytes());
    let soon = "0.06";
    row(
        "302",
        Answer::Raw {
            status: 302,
            headers: vec![("location".into(), "https://elsewhere.example/".into())],
            body: Vec::new(),
        },
        Never("redirects are not followed"),
        "5",
    );
    row("204", bytes("HTTP/1.1 204 No Content\r\n\r\n".into()), Again, soon);
    row(
        "a body shorter than its length",
        bytes(format!("{head}content-length: 100000\r\n\r\n{half}")),
        Again,
        soon,
    );
    row(
        "a chunk that is cut",
        bytes(format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{half}", half.len() + 100)),
        Again,
        soon,
    );
    row(
        "a chunk of no length",
        bytes(format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n{half}")),
        Again,
        soon,
    );
    row("closed without a word", Answer::Close, Again, soon);
    row("no HTTP at all", bytes("SSH-2.0-OpenSSH_9.2\r\n".into()), Never("not valid HTTP"), "5");
    row(
        "a status line that is none",
        bytes("HTTP/1.1 abc\r\n\r\n".into()),
        Never("not valid HTTP"),
        "5",
    );
    row("headers without end", Answer::EndlessHeaders, Never("not valid HTTP"), "5");
    row(
        "200 headers",
        bytes(format!("{head}{}\r\n{}", "x-a: b\r\n".repeat(200), whole)),
        Never("not valid HTTP"),
        "5",
    );
    row(
        "an error without end",
        Answer::Endless(
            b"HTTP/1.1 400 No\r\ncontent-type: text/plain\r\n\r\nwrong ".to_vec(),
            vec![b'a'; 1 << 16],
        ),
        Never("wrong aaa"),
        "5",
    );
    row(
        "a page without end",
        Answer::Endless(
            b"HTTP/1.1 200 OK\r\n\r\n<html><title>Hotel</title>".to_vec(),
            vec![b'a'; 1 << 16],
        ),
        Never("Hotel"),
        "5",
    );
    row(
        "one line without end",
        Answer::Endless(format!("{head}\r\ndata: ").into_bytes(), vec![b'a'; 1 << 16]),
        Never("more than"),
        "5",
    );
    row(
        "a text without end",
        Answer::Endless(format!("{head}\r\n").into_bytes(), piece(format, &"a".repeat(1 << 20))),
        Never("longer than 64 MiB"),
        "5",
    );
    row(
        "packed although nobody asked for that",
        Answer::Raw {
            status: 200,
            headers: vec![
                ("content-type".into(), kind.into()),
                ("content-encoding".into(), "gzip".into()),
            ],
            body: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec(),
        },
        Never("without a stream of events"),
        soon,
    );
}

/// Runs a row: nothing, or what was not as it should be.
fn run(row: Row) -> Result<(), String> {
    let base = Sandbox::new().file("q.txt", "What is it?");
    let origin = base.llm.origin();
    let (provider, url, more) = match row.format {
        Format::Chat => ("openai", format!("{origin}/v1"), json!("chat")),
        Format::Responses => ("openai", format!("{origin}/v1"), json!("responses")),
        Format::Anthropic => ("anthropic", origin, json!(null)),
        Format::Gemini => ("google", origin, json!(null)),
        Format::Ollama => ("ollama", origin, json!(null)),
    };
    let sandbox = base
        .config(json!({"provider": provider, "model": "m", "base_url": url, "api": more, "read_timeout": 20}))
        .env("ANTHROPIC_API_KEY", CANARY)
        .env("GOOGLE_API_KEY", CANARY);
    sandbox.llm.push(row.first);
    sandbox.llm.choose(|_| "the answer".into());
    let run = sandbox.llm_text(&["--file", "q.txt", "--patience", row.patience]).run();
    let requests = sandbox.requests();
    let (exit, count) = match row.class {
        Again | AgainAfter(_) => (0, 2),
        Never(_) => (3, 1),
        Length => (5, 1),
    };
    let wrong = |what: &str| {
        Err(format!(
            "{}: {what}: {:?}, {} requests, {}{}",
            row.name,
            run.code,
            requests.len(),
            run.stdout,
            run.stderr
        ))
    };
    if requests.len() != count {
        return wrong("requests");
    }
    if run.code != exit {
        return wrong("exit code");
    }
    if run.stderr.contains("canary") || run.stderr.len() > 5000 || run.stderr.contains("panicked") {
        return wrong("stderr");
    }
    match row.class {
        Again if run.stdout != "the answer\n" => wrong("answer"),
        AgainAfter(asked) => {
            let waited = requests[1].at.duration_since(requests[0].at);
            if waited < Duration::from_millis(asked) { wrong("it did not wait") } else { Ok(()) }
        }
        Never(words) if !run.stderr.contains(words) || !run.stdout.is_empty() => wrong("words"),
        _ => Ok(()),
    }
}

/// Runs the rows of the formats, some at once: how many there are, and what was wrong.
fn run_rows(formats: &[(Format, &str)]) -> (usize, Vec<String>) {
    let rows = formats.iter().flat_map(|(format, name)| of(*format, name));
    let rows: Vec<_> = rows.map(|row| Mutex::new(Some(row))).collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = row.lock().unwrap().take().unwrap();
                    if let Err(why) = run(row) {
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    (rows.len(), wrong.into_inner().unwrap())
}

/// The same for all formats.
#[allow(dead_code, reason = "make torture runs it")]
pub(crate) fn run_all() -> (usize, Vec<String>) {
    run_rows(&FORMATS)
}

fn check(at: usize) {
    let (count, wrong) = run_rows(&FORMATS[at..=at]);
    assert!(count >= if at == 0 { 40 } else { 24 }, "{count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

// One a format, so that they run side by side.

#[test]
fn chat_completions() {
    check(0);
}

#[test]
fn responses() {
    check(1);
}

#[test]
fn messages() {
    check(2);
}

#[test]
fn gemini() {
    check(3);
}

#[test]
fn ollama() {
    check(4);
}

#[test]
fn interim_answers_without_end_are_given_up_on() {
    let hint = format!("HTTP/1.1 103 Early Hints\r\nx: {}\r\n\r\n", "y".repeat(1000));
    let sandbox =
        Sandbox::new().file("q.txt", "What is it?").config_also(json!({"read_timeout": 0.3}));
    sandbox.llm.push(Answer::Endless(Vec::new(), hint.into_bytes()));
    sandbox.llm.choose(|_| "the answer".into());
    let run = sandbox.llm_text(&["--file", "q.txt", "--patience", "0.06"]).run();
    run.assert_exit(0).stdout_is("the answer\n").within(25.0);
}
