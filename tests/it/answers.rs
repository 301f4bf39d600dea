//! What the scripted model does with a request: answers, errors, and the faults of networks.
//!
//! Answers are values; `send` writes one to a connection. Which one comes when is the script's affair.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::fake_llm::Request;
use crate::wire::{Format, Reply};

/// Something that is waited for and happens once.
#[derive(Clone, Default)]
pub(crate) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(crate) fn release(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_released(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    fn wait(&self, most: Duration) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout_while(open, most, |open| !*open).unwrap());
    }
}

/// What the server does with a request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A whole stream in the format that the path asks for.
    Reply(Reply),
    /// These bytes, with a `content-length`.
    Raw { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// A provider's error in the format that the path asks for.
    Error { status: u16, kind: &'static str, headers: Vec<(String, String)> },
    /// Half of the stream, then a proper end of the body: the end mark never came.
    Half(Reply),
    /// Half of the stream, then the connection is closed within the body.
    Cut(Reply),
    /// Half of the stream, then silence.
    StallBody(Reply),
    /// Silence at once.
    StallHead,
    /// A head that never ends.
    EndlessHeaders,
    /// These bytes as they stand, head and all, then the connection is closed.
    Bytes(Vec<u8>),
    /// The first bytes, then the second ones again and again, until the client has had enough.
    Endless(Vec<u8>, Vec<u8>),
    /// Closed without a word.
    Close,
    /// The inner answer once the latch is released.
    Held(Latch, Box<Answer>),
}

impl Answer {
    pub(crate) fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Raw {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            body: body.into(),
        }
    }

    pub(crate) fn html() -> Self {
        Self::raw(
            200,
            "text/html",
            "<!doctype html><html><body><h1>Sign in to the hotel's network</h1></body></html>",
        )
    }

    pub(crate) fn redirect(port: u16) -> Self {
        let to = format!("http://127.0.0.1:{port}/v1/chat/completions");
        Self::Raw { status: 307, headers: vec![("location".into(), to)], body: Vec::new() }
    }

    /// An error that may be tried again a hundredth of a second later.
    pub(crate) fn busy(status: u16) -> Self {
        Self::Error {
            status,
            kind: "rate_limit_exceeded",
            headers: vec![("retry-after-ms".into(), "10".into())],
        }
    }

    pub(crate) fn error(status: u16, kind: &'static str) -> Self {
        Self::Error { status, kind, headers: Vec::new() }
    }

    pub(crate) fn held(latch: &Latch, answer: impl Into<Self>) -> Self {
        Self::Held(latch.clone(), Box::new(answer.into()))
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self::Reply(Reply::new(text))
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self::Reply(Reply::new(text))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// Requests beside the conversation: lists of models, counts.
pub(crate) fn aside(request: &Request) -> Answer {
    let path = request.path.split('?').next().unwrap_or_default();
    let body = if path.ends_with("/v1/models") && request.header("x-api-key").is_some() {
        json!({"data": [{"id": "test-model", "type": "model", "display_name": "Test", "max_input_tokens": 200_000,
            "max_tokens": 64_000}, {"id": "a-model", "type": "model"}], "has_more": false})
    } else if path.ends_with("/v1/models") {
        json!({"object": "list", "data": [{"id": "test-model", "object": "model"}, {"id": "a-model", "object": "model"}]})
    } else if path.ends_with("/v1beta/models") {
        json!({"models": [
            {"name": "models/test-model", "inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/a-model", "supportedGenerationMethods": ["generateContent"]}]})
    } else if path.contains("/v1beta/models/") && request.method == "GET" {
        json!({"name": "models/test-model", "inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536})
    } else if path.ends_with("/api/tags") {
        json!({"models": [{"name": "test-model", "model": "test-model", "details": {}}]})
    } else if path.ends_with("/api/show") {
        json!({"model_info": {"general.architecture": "test", "test.context_length": 131_072},
            "capabilities": ["completion"]})
    } else if path.ends_with("/api/version") {
        json!({"version": "0.30.0"})
    } else {
        return Answer::raw(
            404,
            "application/json",
            r#"{"error":{"message":"no such path on the test server"}}"#,
        );
    };
    Answer::raw(200, "application/json", body.to_string())
}

/// Sends the answer; false when the connection is to be closed.
pub(crate) fn send(
    closing: &Latch,
    stream: &mut TcpStream,
    request: &Request,
    answer: Answer,
) -> std::io::Result<bool> {
    let format = Format::of(&request.path).unwrap_or(Format::Chat);
    let stream_head = |length: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{length}\r\n\r\n", format.content_type())
    };
    let half = |reply: &Reply| {
        let frames = format.frames(reply);
        frames[..frames.len() / 2].concat()
    };
    match answer {
        Answer::Reply(reply) => {
            // One write for the whole stream: how it arrives is up to the kernel, as in life.
            let mut bytes = stream_head("transfer-encoding: chunked").into_bytes();
            for frame in format.frames(&reply) {
                write!(bytes, "{:x}\r\n{frame}\r\n", frame.len())?;
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            stream.write_all(&bytes)?;
            Ok(true)
        }
        Answer::Raw { status, headers, body } => {
            write!(stream, "HTTP/1.1 {status} Answer\r\ncontent-length: {}\r\n", body.len())?;
            for (name, value) in headers {
                write!(stream, "{name}: {value}\r\n")?;
            }
            stream.write_all(b"\r\n")?;
            stream.write_all(&body)?;
            Ok(true)
        }
        Answer::Error { status, kind, mut headers } => {
            headers.push(("content-type".into(), "application/json".into()));
            let body =
                format.error(status, kind, "the test server says no").to_string().into_bytes();
            send(closing, stream, request, Answer::Raw { status, headers, body })
        }
        Answer::Half(reply) => {
            let text = half(&reply);
            let head = stream_head("transfer-encoding: chunked");
            write!(stream, "{head}{:x}\r\n{text}\r\n0\r\n\r\n", text.len())?;
            Ok(true)
        }
        Answer::Cut(reply) => {
            write!(stream, "{}{}", stream_head("content-length: 10000000"), half(&reply))?;
            Ok(false)
        }
        Answer::StallBody(reply) => {
            write!(stream, "{}{}", stream_head("content-length: 10000000"), half(&reply))?;
            closing.wait(Duration::from_mins(1));
            Ok(false)
        }
        Answer::StallHead => {
            closing.wait(Duration::from_mins(1));
            Ok(false)
        }
        Answer::EndlessHeaders => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            // Ends when the client has had enough; 1 GiB is more than enough for any client.
            for _ in 0..1 << 20 {
                stream.write_all(format!("x-filler: {}\r\n", "a".repeat(1000)).as_bytes())?;
            }
            Ok(false)
        }
        Answer::Bytes(bytes) => {
            stream.write_all(&bytes)?;
            Ok(false)
        }
        Answer::Endless(first, again) => {
            stream.write_all(&first)?;
            // 2 GiB are more than enough for any client.
            for _ in 0..(2_usize << 30) / again.len().max(1) {
                stream.write_all(&again)?;
            }
            Ok(false)
        }
        Answer::Close => Ok(false),
        Answer::Held(latch, answer) => {
            latch.wait(Duration::from_mins(1));
            send(closing, stream, request, *answer)
        }
    }
}
