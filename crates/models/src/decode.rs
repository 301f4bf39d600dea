//! Converts the bytes of a response, in whatever pieces they arrive, into a [`Reply`] or an [`ApiError`].
//!
//! A status of 200 does not mean success. The first byte that is not blank determines the kind of body: events or
//! lines, a JSON object instead of the requested stream (proxies do that), or a web page. A reply is whole only if the
//! API's own end mark has arrived; otherwise it is an error of kind `Cut`, however much text there is. The APIs read
//! single events; this file has the parts that they share: framing, limits, the end.

use conversation::limits;
use serde_json::Value;
use serde_json::error::Category;

use super::api::{Api, Endpoint};
use super::error;
use super::partial_reply::PartialReply;
use super::sse::{EventReader, LineReader, TooLong};
use conversation::model::{ApiError, ErrorKind, Reply, Usage};

/// Decodes one response. After an error it only returns that error again.
pub struct Decoder {
    status: u16,
    headers: Vec<(String, String)>,
    endpoint: Endpoint,
    body: BodyReader,
    reply: PartialReply,
    /// The length of the text that was passed to `on_text`.
    reported: usize,
    bytes: u64,
    failed: Option<ApiError>,
}

enum BodyReader {
    /// Only blanks have arrived.
    Start,
    /// The body of an error response, or a web page.
    Failure(Vec<u8>),
    Events(EventReader),
    Lines(LineReader),
    /// A JSON body instead of the requested stream.
    Json(Vec<u8>),
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum DecodeError {
    /// The server reported an error, or the event means one.
    Api(#[from] ApiError),
    /// The event is not valid JSON.
    Json(#[from] serde_json::Error),
}

impl From<TooLong> for DecodeError {
    fn from(TooLong(max): TooLong) -> Self {
        let message = format!("the server sent a line or a body of more than {} MiB", max >> 20);
        Self::Api(ApiError::new(ErrorKind::Other, &message))
    }
}

impl Endpoint {
    /// The decoder for the bytes of the response. Header names may be in any case.
    pub fn decoder(&self, status: u16, headers: &[(String, String)]) -> Decoder {
        let filter_reasoning = !self.official && self.api.may_inline_reasoning();
        Decoder {
            status,
            headers: headers.to_vec(),
            endpoint: self.clone(),
            body: if is_success(status) {
                BodyReader::Start
            } else {
                BodyReader::Failure(Vec::new())
            },
            reply: PartialReply::new(filter_reasoning),
            reported: 0,
            bytes: 0,
            failed: None,
        }
    }
}

impl Decoder {
    /// Reads the next bytes, and passes the new text to `on_text`.
    pub fn push_bytes(
        &mut self,
        bytes: &[u8],
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), ApiError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let result = if self.bytes > limits::REPLY_BYTES {
            let limit = limits::REPLY_BYTES >> 20;
            let message =
                format!("the server sent more than {limit} MiB for one reply, without an end");
            Err(ApiError::new(ErrorKind::Other, &message).into())
        } else {
            self.read_bytes(bytes)
        };
        let new = &self.reply.text()[self.reported..];
        if !new.is_empty() {
            on_text(new);
            self.reported += new.len();
        }
        result.map_err(|error| self.record_failure(error))
    }

    /// Takes the model's reasoning since the last call, if the provider sends it.
    pub fn take_thoughts(&mut self) -> String {
        std::mem::take(&mut self.reply.thoughts)
    }

    /// Whether the end mark, or enough of an error's body, has arrived, so that the rest need not be read.
    pub fn is_done(&self) -> bool {
        let is_enough =
            matches!(&self.body, BodyReader::Failure(kept) if kept.len() >= limits::ERROR_BODY);
        self.reply.is_done || is_enough
    }

    /// Ends the body. If the provider sent no counts, the usage is an estimate without input ([`Reply::assume_input`]).
    pub fn finish(mut self) -> Result<Reply, ApiError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.read_end().and_then(|()| self.take_reply()).map_err(|error| self.record_failure(error))
    }

    fn read_bytes(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        if matches!(self.body, BodyReader::Start) {
            let is_blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
            let Some(start) = bytes.iter().position(|byte| !is_blank(byte)) else {
                return Ok(());
            };
            bytes = &bytes[start..];
            self.body = detect_body(self.endpoint.api, bytes[0]);
        }
        let Self { body, endpoint: Endpoint { api, .. }, reply, .. } = self;
        match body {
            BodyReader::Start => {}
            BodyReader::Failure(kept) => {
                kept.extend_from_slice(&bytes[..bytes.len().min(limits::ERROR_BODY - kept.len())]);
            }
            BodyReader::Json(kept) => {
                if kept.len() + bytes.len() > limits::REPLY_TEXT {
                    return Err(TooLong(limits::REPLY_TEXT).into());
                }
                kept.extend_from_slice(bytes);
            }
            BodyReader::Events(events) => {
                while let Some(event) = events.next_event(&mut bytes)? {
                    read_event(event.error, &event.data, *api, reply)?;
                }
            }
            BodyReader::Lines(lines) => {
                while let Some(line) = lines.next_line(&mut bytes)? {
                    match read_event(false, &line, *api, reply) {
                        // A JSON object over several lines: a whole reply instead of a stream.
                        Err(DecodeError::Json(error)) if error.is_eof() && reply.is_empty() => {
                            self.body = BodyReader::Json([&line[..], b"\n", bytes].concat());
                            break;
                        }
                        result => result?,
                    }
                }
            }
        }
        Ok(())
    }

    fn read_end(&mut self) -> Result<(), DecodeError> {
        let Self { body, endpoint: Endpoint { api, base_url, .. }, reply, status, .. } = self;
        match body {
            BodyReader::Failure(kept) if is_success(*status) => {
                let page = String::from_utf8_lossy(kept);
                return Err(error::from_page(&page, *status, base_url).into());
            }
            BodyReader::Failure(kept) => {
                return Err(error::from_response(*status, &self.headers, kept).into());
            }
            BodyReader::Start => {
                let message = format!("the server answered HTTP {status} with an empty body");
                return Err(error::with_status(ErrorKind::Cut, &message, *status).into());
            }
            BodyReader::Json(kept) => {
                let text = String::from_utf8_lossy(kept);
                for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
                    api.on_body(&value?, reply)?;
                }
            }
            BodyReader::Events(events) => {
                if let Some(event) = events.finish() {
                    allow_cut(read_event(event.error, &event.data, *api, reply))?;
                }
                if reply.stop.is_none() {
                    explain_stray(events.stray_lines(), *status)?;
                }
            }
            BodyReader::Lines(lines) => allow_cut(read_event(false, &lines.finish(), *api, reply))?,
        }
        Ok(())
    }

    fn take_reply(&mut self) -> Result<Reply, DecodeError> {
        let text = self.reply.finish_text()?;
        let Some(stop) = self.reply.stop else {
            let characters = text.chars().count();
            let message =
                format!("the reply ended before its end mark, after {characters} characters");
            return Err(ApiError::new(ErrorKind::Cut, &message).into());
        };
        let usage = self.reply.usage.unwrap_or_else(|| Usage::estimate(&text));
        Ok(Reply { usage, stop, model: self.reply.model.take(), text })
    }

    fn record_failure(&mut self, error: DecodeError) -> ApiError {
        let error = match error {
            DecodeError::Api(error) => error,
            DecodeError::Json(json) => {
                let (kind, what) = match json.classify() {
                    Category::Eof => (ErrorKind::Cut, "the reply ended in the middle of its JSON"),
                    _ => (ErrorKind::Broken, "the reply holds broken JSON"),
                };
                ApiError::new(kind, &format!("{what}: {json}"))
            }
        };
        let usage = error.usage.or(self.reply.usage);
        let error = ApiError { usage, ..self.endpoint.clean(error) };
        self.failed = Some(error.clone());
        error
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn detect_body(api: &dyn Api, first: u8) -> BodyReader {
    match first {
        b'<' => BodyReader::Failure(Vec::new()),
        b'{' if api.is_json_lines() => BodyReader::Lines(LineReader::new(api.longest_event())),
        b'{' | b'[' => BodyReader::Json(Vec::new()),
        _ => BodyReader::Events(EventReader::new(api.longest_event())),
    }
}

fn read_event(
    is_error: bool,
    data: &[u8],
    api: &dyn Api,
    reply: &mut PartialReply,
) -> Result<(), DecodeError> {
    let data = data.trim_ascii();
    if reply.is_done || data.is_empty() {
        return Ok(());
    }
    if data == b"[DONE]" {
        reply.is_done = reply.stop.is_some();
        return Ok(());
    }
    // Invalid UTF-8 becomes replacement characters, so that the reply is not lost.
    let text = String::from_utf8_lossy(data);
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if is_error => Err(error::from_value(&value, None).into()),
        Err(_) if is_error => Err(error::from_text(&text).into()),
        Ok(value) => Ok(api.on_event(&value, reply)?),
        Err(error) => Err(error.into()),
    }
}

/// Ignores an event with broken JSON at the end of a stream, which was cut off: the missing end mark makes that an
/// error.
fn allow_cut(result: Result<(), DecodeError>) -> Result<(), DecodeError> {
    match result {
        Err(DecodeError::Json(_)) => Ok(()),
        result => result,
    }
}

/// Looks for the reason of a missing end mark in lines that are not events.
fn explain_stray(lines: &[u8], status: u16) -> Result<(), ApiError> {
    let text = String::from_utf8_lossy(lines);
    let text = text.trim();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => Err(error::from_value(&value, None)),
        Err(_) if text.is_empty() || text.starts_with(['{', '[']) => Ok(()),
        Err(_) => {
            let start: String = text.chars().take(200).collect();
            let message = format!(
                "the server answered HTTP {status} without a stream of events, but with: {start}"
            );
            Err(error::with_status(ErrorKind::Other, &message, status))
        }
    }
}
