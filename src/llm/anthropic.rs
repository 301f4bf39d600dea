//! Anthropic's Messages API (`POST /v1/messages`), streamed as server-sent events.
//!
//! ```text
//! {"type":"message_start","message":{"model":"…","usage":{"input_tokens":9,…}}}
//! {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}
//! {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}
//! {"type":"message_stop"}
//! ```
//!
//! Source: anthropic-sdk-python and the platform's API reference. Counts in `message_delta` are cumulative; cached
//! tokens stand beside `input_tokens`, not in it. Thinking is never text. An `error` may come at any time after a 200.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ApiError, Ask, ErrorKind, Message, Role, Stop, Usage,
    attachment::{Attachment, Payload},
    decode::{Draft, Fault, OnText, server_error},
    json::{self, Count, List, Text},
    limits,
    wire::{ModelInfo, ModelPage},
};

/// `max_tokens` is a must. Where nobody chose one: what the model can, but no more than this, which is some 100 KB of
/// text; older models count the room for the reply as used from the window, and a runaway reply has an end.
const LONGEST_REPLY: u64 = 32_000;
/// For models that are not known: every model in use takes as much.
const UNKNOWN_LIMIT: u64 = 8_192;

/// The body of a request. Cache marks: the system prompt, which all turns share, and the ends of the last two user
/// messages: what this turn reads (written by the one before), and what the next will.
pub(super) fn body(ask: &Ask<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a, L> {
        model: &'a str,
        max_tokens: u64,
        stream: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        system: Option<[Block<'a>; 1]>,
        messages: L,
    }
    let users = ask.messages.iter().enumerate().filter(|(_, message)| message.role == Role::User);
    let marked_from = users.rev().nth(1).map_or(0, |(index, _)| index);
    let known = || limits::find(ask.model).and_then(|limits| limits.max_output);
    let body = Body {
        model: ask.model,
        max_tokens: ask
            .max_output
            .unwrap_or_else(|| known().map_or(UNKNOWN_LIMIT, |most| most.min(LONGEST_REPLY))),
        stream: true,
        system: ask
            .system
            .filter(|text| !text.trim().is_empty())
            .map(|text| [Block::new(text, true)]),
        messages: List(
            ask.messages
                .iter()
                .enumerate()
                .map(|(index, message)| Turn::of(message, index >= marked_from)),
        ),
    };
    json::body(ask, &body)
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

#[derive(Serialize)]
struct Cache {
    r#type: &'static str,
}

impl<'a> Block<'a> {
    fn new(text: &'a str, marked: bool) -> Self {
        Self {
            r#type: "text",
            text,
            cache_control: marked.then_some(Cache { r#type: "ephemeral" }),
        }
    }
}

impl<'a> Turn<'a> {
    fn of(message: &'a Message<'_>, is_recent: bool) -> Self {
        // Blocks of blanks alone are refused, and one such block would end a conversation for good.
        let mut content: Vec<_> = message
            .parts
            .iter()
            .filter(|part| !part.trim().is_empty())
            .map(|part| Block::new(part, false))
            .collect();
        if content.is_empty() {
            content.push(Block::new("(blank)", false));
        }
        if let (Role::User, true, Some(last)) = (message.role, is_recent, content.last_mut()) {
            *last = Block::new(last.text, true);
        }
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        Self { role, content }
    }
}

/// The block of a message that is a file. Source: the guides on vision, PDF and files. `data` stands for the base64 of
/// its bytes, without line feeds.
pub(super) fn part(file: &Attachment<'_>, data: &str) -> Value {
    let source = match file.payload {
        Payload::Bytes(_) => {
            json!({"type": "base64", "media_type": file.kind.mime(file.name), "data": data})
        }
        Payload::Remote(remote) => json!({"type": "file", "file_id": remote.id}),
    };
    if file.kind.family() == "image" {
        json!({"type": "image", "source": source})
    } else {
        json!({"type": "document", "title": file.name, "source": source})
    }
}

/// What is remembered between events.
#[derive(Default)]
pub(super) struct Stream {
    counts: Counts,
    /// Said by `message_delta`; it counts when `message_stop` comes.
    stop: Option<Stop>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<Content<'a>>,
    #[serde(borrow, default)]
    message: Option<Start<'a>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    #[serde(borrow, default)]
    stop_details: Option<Details<'a>>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    category: Text<'a>,
    #[serde(borrow, default)]
    explanation: Text<'a>,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
}

/// A message that was not streamed.
#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    content: Vec<Content<'a>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    #[serde(borrow, default)]
    stop_details: Option<Details<'a>>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[expect(clippy::struct_field_names, reason = "the names on the wire")]
#[derive(Default, Clone, Copy, Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
}

impl Counts {
    fn update(&mut self, new: Self) {
        let newer = |new: Count, old: Count| Count(new.0.or(old.0));
        *self = Self {
            input_tokens: newer(new.input_tokens, self.input_tokens),
            cache_read_input_tokens: newer(
                new.cache_read_input_tokens,
                self.cache_read_input_tokens,
            ),
            cache_creation_input_tokens: newer(
                new.cache_creation_input_tokens,
                self.cache_creation_input_tokens,
            ),
            output_tokens: newer(new.output_tokens, self.output_tokens),
        };
    }

    /// The counts in nagent's terms; nothing where there are none.
    pub(super) fn usage(self) -> Option<Usage> {
        self.input_tokens.0.or(self.output_tokens.0)?;
        let (cached, written) =
            (self.cache_read_input_tokens.or_zero(), self.cache_creation_input_tokens.or_zero());
        Some(Usage {
            input: self.input_tokens.or_zero().saturating_add(cached).saturating_add(written),
            cached,
            cache_written: written,
            output: self.output_tokens.or_zero(),
            estimated: false,
        })
    }
}

impl Stream {
    /// Takes in one event.
    pub(super) fn frame(
        &mut self,
        data: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let event: Event<'_> = serde_json::from_slice(data)?;
        if event.error.is_some() {
            return Err(server_error(data));
        }
        if let Some(counts) = event.usage {
            self.counts.update(counts);
        }
        match &*event.r#type {
            "content_block_delta" => {
                if let Some(delta) = event.delta.filter(|delta| &*delta.r#type == "text_delta") {
                    draft.text(&delta.text, on_text)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block.filter(|block| &*block.r#type == "text") {
                    draft.text(&block.text, on_text)?;
                }
            }
            "message_start" => {
                if let Some(message) = event.message {
                    draft.model = message.model.some();
                    self.counts.update(message.usage.unwrap_or_default());
                }
            }
            "message_delta" => {
                if let Some(delta) = event.delta.filter(|delta| !delta.stop_reason.is_empty()) {
                    self.stop = Some(stop(&delta.stop_reason, delta.stop_details.as_ref())?);
                }
            }
            "message_stop" => {
                draft.stop = Some(self.stop.unwrap_or(Stop::End));
                draft.usage = self.counts.usage();
                draft.done = true;
            }
            "error" => return Err(server_error(data)),
            _ => {}
        }
        Ok(())
    }

    /// Takes in a message that was not streamed.
    #[expect(clippy::unused_self, reason = "all formats are called alike")]
    pub(super) fn whole(
        &mut self,
        body: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let message: Whole<'_> = match serde_json::from_slice(body) {
            Ok(message) => message,
            Err(error) if error.is_data() => return Err(server_error(body)),
            Err(error) => return Err(error.into()),
        };
        for block in message.content.iter().filter(|block| &*block.r#type == "text") {
            draft.text(&block.text, on_text)?;
        }
        draft.model = message.model.some();
        draft.usage = message.usage.and_then(Counts::usage);
        draft.stop = Some(stop(&message.stop_reason, message.stop_details.as_ref())?);
        Ok(())
    }
}

fn stop(reason: &str, details: Option<&Details<'_>>) -> Result<Stop, ApiError> {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(Stop::Length),
        "refusal" => {
            let why = details.map(|details| {
                if details.explanation.is_empty() {
                    &details.category
                } else {
                    &details.explanation
                }
            });
            let why = why
                .filter(|why| !why.is_empty())
                .map(|why| format!(": {}", &**why))
                .unwrap_or_default();
            Err(ApiError::new(ErrorKind::Refused, &format!("the model refused{why}")))
        }
        "pause_turn" => Err(ApiError::new(
            ErrorKind::Cut,
            "the provider paused the turn, which it does only for its own tools",
        )),
        // `end_turn`, `stop_sequence`, `tool_use` (no tools are offered), and names yet to come.
        _ => Ok(Stop::End),
    }
}

/// A page of models.
pub(super) fn models(value: &Value) -> Option<ModelPage> {
    let list = value.get("data")?.as_array()?;
    let models = list
        .iter()
        .filter_map(|model| {
            let number =
                |name: &str| model.get(name).and_then(Value::as_u64).filter(|&number| number > 0);
            Some(ModelInfo {
                id: model.get("id")?.as_str()?.to_owned(),
                window: number("max_input_tokens"),
                max_output: number("max_tokens"),
            })
        })
        .collect();
    let has_more = value.get("has_more").and_then(Value::as_bool).unwrap_or(false);
    let after = value.get("last_id").and_then(Value::as_str);
    Some(ModelPage { models, next: after.filter(|_| has_more).map(str::to_owned) })
}
