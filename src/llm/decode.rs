//! Bytes of a reply, in whatever pieces they come, to a [`Reply`] or an [`ApiError`].
//!
//! A status of 200 is not success. The first byte that is not blank decides what the body is: events or lines, a JSON
//! object where a stream was asked for (proxies do that), or a web page. A reply is whole only when the provider's own
//! end mark came; all else is an error of kind `Cut`, however much text there was. The formats themselves are in their
//! files; this one holds what they share: framing, limits, text, the end.

use serde_json::error::Category;

use super::{
    ApiError, ErrorKind, Reply, Stop, Usage, anthropic, error, google, ollama, openai_chat,
    openai_responses,
    sse::{Events, Lines, MAX_LINE, TooLong},
    think::Think,
    wire::{Endpoint, Wire},
};

/// The longest text of one reply, in bytes. Also the longest body that is one JSON value.
pub const MAX_TEXT: usize = 64 << 20;

/// The most that is read of one reply in all, in bytes: keep-alives and blanks may go on for ever, and models that think
/// aloud send much that is no text.
pub const MAX_BYTES: u64 = 256 << 20;

/// One reply in the making. After an error it is spent: it only repeats that error.
pub struct Decoder {
    status: u16,
    headers: Vec<(String, String)>,
    key: Option<String>,
    base_url: String,
    body: Body,
    format: Format,
    draft: Draft,
    /// Bytes taken in so far.
    bytes: u64,
    failed: Option<ApiError>,
}

/// What the body turned out to be.
enum Body {
    /// Nothing but blanks so far.
    Start,
    /// The reply to a failed request.
    Failure(Vec<u8>),
    /// Server-sent events.
    Events(Events),
    /// A JSON value a line.
    Lines(Lines),
    /// JSON where a stream was asked for.
    Whole(Vec<u8>),
    /// A web page.
    Page(Vec<u8>),
}

/// What a wire format remembers between two frames.
enum Format {
    Responses(openai_responses::Stream),
    Chat(openai_chat::Stream),
    Messages(anthropic::Stream),
    Gemini(google::Stream),
    Ollama(ollama::Stream),
}

/// Takes the text as it comes.
pub(super) type OnText<'a> = &'a mut dyn FnMut(&str);

/// What a stream has given so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) usage: Option<Usage>,
    pub(super) model: Option<String>,
    /// The end mark came, and said this.
    pub(super) stop: Option<Stop>,
    /// The words with which the model refused.
    pub(super) refusal: String,
    /// Nothing that follows matters.
    pub(super) done: bool,
    /// Reasoning may stand in the text.
    think: Option<Think>,
}

/// Why a frame could not be taken in.
pub(super) enum Fault {
    /// The server said so, or it said something that is an error.
    Api(ApiError),
    /// It is not the JSON that it should be.
    Json(serde_json::Error),
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl Draft {
    /// Takes in a piece of the answer.
    pub(super) fn text(&mut self, piece: &str, on_text: OnText<'_>) -> Result<(), ApiError> {
        if piece.is_empty() {
            return Ok(());
        }
        match &mut self.think {
            None => Self::append(&mut self.text, piece, on_text),
            Some(think) => {
                let piece = think.filter(piece);
                Self::append(&mut self.text, &piece, on_text)
            }
        }
    }

    /// Takes in a piece of a refusal. Only the beginning is ever shown.
    pub(super) fn refuse(&mut self, piece: &str) {
        if self.refusal.len() < 8 << 10 {
            self.refusal.push_str(piece);
        }
    }

    fn append(text: &mut String, piece: &str, on_text: OnText<'_>) -> Result<(), ApiError> {
        if text.len() + piece.len() > MAX_TEXT {
            let message = format!("the reply is longer than {} MiB", MAX_TEXT >> 20);
            return Err(ApiError::new(ErrorKind::Other, &message));
        }
        if !piece.is_empty() {
            text.push_str(piece);
            on_text(piece);
        }
        Ok(())
    }

    fn end_of_text(&mut self, on_text: OnText<'_>) -> Result<(), ApiError> {
        match &mut self.think {
            None => Ok(()),
            Some(think) => {
                let rest = think.rest();
                Self::append(&mut self.text, &rest, on_text)
            }
        }
    }
}

impl Format {
    fn frame(&mut self, data: &[u8], draft: &mut Draft, on_text: OnText<'_>) -> Result<(), Fault> {
        match self {
            Self::Responses(stream) => stream.frame(data, draft, on_text),
            Self::Chat(stream) => stream.frame(data, draft, on_text),
            Self::Messages(stream) => stream.frame(data, draft, on_text),
            Self::Gemini(stream) => stream.frame(data, draft, on_text),
            Self::Ollama(stream) => stream.frame(data, draft, on_text),
        }
    }

    fn whole(&mut self, body: &[u8], draft: &mut Draft, on_text: OnText<'_>) -> Result<(), Fault> {
        match self {
            Self::Responses(stream) => stream.whole(body, draft, on_text),
            Self::Chat(stream) => stream.frame(body, draft, on_text),
            Self::Messages(stream) => stream.whole(body, draft, on_text),
            Self::Gemini(stream) => stream.whole(body, draft, on_text),
            Self::Ollama(stream) => stream.whole(body, draft, on_text),
        }
    }
}

impl Decoder {
    pub(super) fn new(endpoint: &Endpoint, status: u16, headers: &[(String, String)]) -> Self {
        let format = match endpoint.wire {
            Wire::Responses => Format::Responses(openai_responses::Stream::default()),
            Wire::Chat => Format::Chat(openai_chat::Stream),
            Wire::Messages => Format::Messages(anthropic::Stream::default()),
            Wire::Gemini => Format::Gemini(google::Stream),
            Wire::Ollama => Format::Ollama(ollama::Stream),
        };
        let think = (!endpoint.official && matches!(endpoint.wire, Wire::Chat | Wire::Ollama))
            .then(Think::default);
        Self {
            status,
            headers: headers.to_vec(),
            key: endpoint.key.clone(),
            base_url: endpoint.base_url.clone(),
            body: if (200..300).contains(&status) {
                Body::Start
            } else {
                Body::Failure(Vec::new())
            },
            format,
            draft: Draft { think, ..Draft::default() },
            bytes: 0,
            failed: None,
        }
    }

    /// Takes in the next bytes; text goes to `on_text` as soon as it is known to be text.
    pub fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), ApiError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > MAX_BYTES {
            return Err(self.fail(endless()));
        }
        self.take_in(bytes, on_text).map_err(|fault| self.fail(fault))
    }

    /// Whether the provider's last word came, or as much of an error as is read: what follows can be left unread.
    pub fn is_done(&self) -> bool {
        let is_enough = match &self.body {
            Body::Failure(kept) | Body::Page(kept) => kept.len() >= error::MAX_BODY,
            _ => false,
        };
        self.draft.done || is_enough
    }

    /// The end of the body. Where the provider gave no counts the usage is estimated, its input not yet
    /// (see [`Reply::assume_input`]).
    pub fn finish(mut self) -> Result<Reply, ApiError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.conclude().map_err(|fault| self.fail(fault))
    }

    fn take_in(&mut self, mut bytes: &[u8], on_text: OnText<'_>) -> Result<(), Fault> {
        if matches!(self.body, Body::Start) {
            let Some(at) = bytes
                .iter()
                .position(|byte| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte))
            else {
                return Ok(());
            };
            bytes = &bytes[at..];
            // A Responses stream repeats its whole text in single events.
            let max = if matches!(self.format, Format::Responses(_)) {
                MAX_TEXT + MAX_LINE
            } else {
                MAX_LINE
            };
            self.body = match (bytes[0], &self.format) {
                (b'<', _) => Body::Page(Vec::new()),
                (b'{', Format::Ollama(_)) => Body::Lines(Lines::new(max)),
                (b'{' | b'[', _) => Body::Whole(Vec::new()),
                _ => Body::Events(Events::new(max)),
            };
        }
        let Self { body, format, draft, .. } = self;
        match body {
            Body::Start => Ok(()),
            Body::Failure(kept) | Body::Page(kept) => {
                kept.extend_from_slice(&bytes[..bytes.len().min(error::MAX_BODY - kept.len())]);
                Ok(())
            }
            Body::Whole(kept) => {
                if kept.len() + bytes.len() > MAX_TEXT {
                    return Err(too_long(TooLong(MAX_TEXT)));
                }
                kept.extend_from_slice(bytes);
                Ok(())
            }
            Body::Events(events) => {
                while let Some(event) = events.next(&mut bytes).map_err(too_long)? {
                    take_event(event.error, event.data, format, draft, on_text)?;
                }
                Ok(())
            }
            Body::Lines(lines) => {
                let mut broken = None;
                while let Some(line) = lines.next(&mut bytes).map_err(too_long)? {
                    if line.trim_ascii().is_empty() || draft.done {
                        continue;
                    }
                    match format.frame(&repaired(line), draft, on_text) {
                        // An object over several lines: no stream, but a reply.
                        Err(Fault::Json(error)) if error.is_eof() && draft.text.is_empty() => {
                            broken = Some([line, b"\n", bytes].concat());
                            break;
                        }
                        other => other?,
                    }
                }
                if let Some(whole) = broken {
                    *body = Body::Whole(whole);
                }
                Ok(())
            }
        }
    }

    fn conclude(&mut self) -> Result<Reply, Fault> {
        let silent: OnText<'_> = &mut |_| {};
        let Self { body, format, draft, .. } = self;
        match body {
            Body::Failure(kept) => {
                return Err(error::from_response(self.status, &self.headers, kept).into());
            }
            Body::Page(kept) => {
                return Err(
                    page(&String::from_utf8_lossy(kept), self.status, &self.base_url).into()
                );
            }
            Body::Start => {
                let message =
                    format!("the server answered HTTP {} with an empty body", self.status);
                return Err(ApiError {
                    status: Some(self.status),
                    ..ApiError::new(ErrorKind::Cut, &message)
                }
                .into());
            }
            Body::Whole(kept) => format.whole(&repaired(kept), draft, silent)?,
            Body::Events(events) => {
                if let Some(event) = events.rest() {
                    whole_or_nothing(take_event(event.error, event.data, format, draft, silent))?;
                }
                if draft.stop.is_none() {
                    stray(events.stray(), self.status)?;
                }
            }
            Body::Lines(lines) => {
                let rest = lines.rest();
                if !rest.trim_ascii().is_empty() && !draft.done {
                    whole_or_nothing(format.frame(&repaired(rest), draft, silent))?;
                }
            }
        }
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, Fault> {
        let draft = &mut self.draft;
        draft.end_of_text(&mut |_| {})?;
        if !draft.refusal.trim().is_empty() {
            let message = format!("the model refused: {}", draft.refusal.trim());
            return Err(ApiError::new(ErrorKind::Refused, &message).into());
        }
        let Some(stop) = draft.stop else {
            let message = format!(
                "the reply ended before its end mark, after {} characters",
                draft.text.chars().count()
            );
            return Err(ApiError::new(ErrorKind::Cut, &message).into());
        };
        let text = std::mem::take(&mut draft.text);
        let usage = draft.usage.unwrap_or_else(|| Usage::estimate(&text));
        Ok(Reply { usage, stop, model: draft.model.take(), text })
    }

    fn fail(&mut self, fault: Fault) -> ApiError {
        let error = match fault {
            Fault::Api(error) => error,
            Fault::Json(json) => {
                let (kind, what) = match json.classify() {
                    Category::Eof => (ErrorKind::Cut, "the reply ended in the middle of its JSON"),
                    Category::Data => {
                        (ErrorKind::Other, "the reply's JSON is not what this provider sends")
                    }
                    Category::Syntax | Category::Io => {
                        (ErrorKind::Broken, "the reply holds broken JSON")
                    }
                };
                ApiError::new(kind, &format!("{what}: {json}"))
            }
        };
        let error = error.cleaned(self.key.as_deref());
        self.failed = Some(error.clone());
        error
    }
}

fn take_event(
    error: bool,
    data: &[u8],
    format: &mut Format,
    draft: &mut Draft,
    on_text: OnText<'_>,
) -> Result<(), Fault> {
    let trimmed = data.trim_ascii();
    if draft.done || trimmed.is_empty() {
        return Ok(());
    }
    if trimmed == b"[DONE]" {
        draft.done = draft.stop.is_some();
        return Ok(());
    }
    if error {
        let value = serde_json::from_slice::<serde_json::Value>(trimmed);
        return Err(match value {
            Ok(value) => error::from_value(&value, None),
            Err(_) => error::from_text(&String::from_utf8_lossy(trimmed)),
        }
        .into());
    }
    format.frame(&repaired(data), draft, on_text)
}

/// Bytes that are no UTF-8 become replacement characters: they are no reason to lose a reply.
fn repaired(data: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match String::from_utf8_lossy(data) {
        std::borrow::Cow::Borrowed(_) => data.into(),
        std::borrow::Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// At the end of a stream, a frame that is no JSON is one that was cut: the missing end mark says the rest.
fn whole_or_nothing(taken: Result<(), Fault>) -> Result<(), Fault> {
    match taken {
        Err(Fault::Json(_)) => Ok(()),
        taken => taken,
    }
}

/// Lines that were no events may say why there is no end.
fn stray(lines: &[u8], status: u16) -> Result<(), ApiError> {
    let text = String::from_utf8_lossy(lines);
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => Err(error::from_value(&value, None)),
        Err(_) if text.starts_with(['{', '[']) => Ok(()),
        Err(_) => {
            let start: String = text.chars().take(200).collect();
            let message = format!(
                "the server answered HTTP {status} with no stream of events but with: {start}"
            );
            Err(ApiError { status: Some(status), ..ApiError::new(ErrorKind::Other, &message) })
        }
    }
}

fn page(page: &str, status: u16, base_url: &str) -> ApiError {
    let title = error::page_title(page).unwrap_or("no title");
    let message = format!(
        "the server answered HTTP {status} with a web page (HTML), “{title}”, not with a model's reply: \
         a captive portal, or a wrong base_url ({base_url})"
    );
    ApiError { status: Some(status), ..ApiError::new(ErrorKind::Other, &message) }
}

fn too_long(TooLong(max): TooLong) -> Fault {
    let message = format!("the server sent a line or a body of more than {} MiB", max >> 20);
    ApiError::new(ErrorKind::Other, &message).into()
}

/// The error in a frame that holds one, or that is nothing known.
fn endless() -> Fault {
    ApiError::new(
        ErrorKind::Other,
        &format!(
            "the server sent more than {} MiB for one reply, and no end of it",
            MAX_BYTES >> 20
        ),
    )
    .into()
}

pub(super) fn server_error(data: &[u8]) -> Fault {
    match serde_json::from_slice(data) {
        Ok(value) => error::from_value(&value, None).into(),
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests;
