//! OpenAI's Responses API (`POST /v1/responses`), streamed as server-sent events.
//!
//! ```text
//! {"type":"response.created","response":{…}}
//! {"type":"response.output_text.delta","output_index":1,"delta":"Hi"}
//! {"type":"response.completed","response":{"status":"completed","usage":{…},…}}      or .incomplete, .failed, error
//! ```
//!
//! Source: openai-python and openai-openapi (events, fields); the nested form of `error` and errors after a 200 were
//! seen live and are what Codex reads. Unknown events and items are passed over; reasoning is never text.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ApiError, Ask, ErrorKind, Message, Role, Stop, Usage,
    attachment::{Attachment, Payload},
    decode::{Draft, Fault, OnText, server_error},
    error,
    json::{self, Count, Joined, List, Text},
};

/// The body of a request. The messages come last: the bodies of a conversation begin alike.
pub(super) fn body(ask: &Ask<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a, L> {
        model: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<&'a str>,
        store: bool,
        stream: bool,
        stream_options: Options,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_cache_key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output_tokens: Option<u64>,
        input: L,
    }
    #[derive(Serialize)]
    struct Options {
        include_obfuscation: bool,
    }
    let body = Body {
        model: ask.model,
        instructions: ask.system,
        store: false,
        stream: true,
        stream_options: Options { include_obfuscation: false },
        prompt_cache_key: ask.cache_key,
        max_output_tokens: ask.max_output,
        input: List(ask.messages.iter().map(Input::of)),
    };
    json::body(ask, &body)
}

#[derive(Serialize)]
struct Input<'a> {
    role: &'static str,
    content: Content<'a>,
}

/// The user's parts stay apart; for the model's own words a plain string is the documented form.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Parts(Vec<Part<'a>>),
    Text(Joined<'a>),
}

#[derive(Serialize)]
struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Input<'a> {
    fn of(message: &'a Message<'_>) -> Self {
        match message.role {
            Role::User => {
                let parts =
                    message.parts.iter().map(|text| Part { r#type: "input_text", text }).collect();
                Self { role: "user", content: Content::Parts(parts) }
            }
            Role::Assistant => {
                Self { role: "assistant", content: Content::Text(Joined(&message.parts)) }
            }
        }
    }
}

/// The part of a message that is a file. Source: the guides “file inputs” and “images and vision”. `data` stands for the
/// base64 of its bytes.
pub(super) fn part(file: &Attachment<'_>, data: &str) -> Value {
    let is_image = file.kind.family() == "image";
    let url = || format!("data:{};base64,{data}", file.kind.mime(file.name));
    match file.payload {
        Payload::Bytes(_) if is_image => {
            json!({"type": "input_image", "detail": "auto", "image_url": url()})
        }
        Payload::Bytes(_) => {
            json!({"type": "input_file", "filename": file.name, "file_data": url()})
        }
        Payload::Remote(remote) if is_image => {
            json!({"type": "input_image", "detail": "auto", "file_id": remote.id})
        }
        Payload::Remote(remote) => json!({"type": "input_file", "file_id": remote.id}),
    }
}

/// What is remembered between events.
#[derive(Default)]
pub(super) struct Stream {
    /// The item that the last text belonged to.
    item: Option<u64>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    delta: Text<'a>,
    #[serde(default)]
    output_index: Count,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
}

/// The output of a whole response; in a stream it is read only when no text came before it.
#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow, default)]
    output: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    response: Output<'a>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    content: Option<Vec<Piece<'a>>>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
}

/// Counts of tokens; the cached ones are among the input.
#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
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
        match &*event.r#type {
            "response.output_text.delta" => {
                self.text(event.output_index.0, &event.delta, draft, on_text)?;
            }
            "response.refusal.delta" => draft.refuse(&event.delta),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let Some(response) = event.response else { return Err(server_error(data)) };
                if draft.text.is_empty() && draft.refusal.is_empty() {
                    let whole: Whole<'_> = serde_json::from_slice(data)?;
                    self.output(whole.response, draft, on_text)?;
                }
                end(response, data, draft)?;
            }
            "error" => return Err(server_error(data)),
            _ => {}
        }
        Ok(())
    }

    /// Takes in a response that was not streamed.
    pub(super) fn whole(
        &mut self,
        body: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let response: Response<'_> = serde_json::from_slice(body)?;
        if response.status.is_empty() {
            return Err(server_error(body));
        }
        self.output(serde_json::from_slice(body)?, draft, on_text)?;
        end(response, body, draft)
    }

    fn output(
        &mut self,
        output: Output<'_>,
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), ApiError> {
        for (index, item) in
            output.output.iter().enumerate().filter(|(_, item)| &*item.r#type == "message")
        {
            for piece in item.content.iter().flatten() {
                match &*piece.r#type {
                    "output_text" => {
                        self.text(u64::try_from(index).ok(), &piece.text, draft, on_text)?;
                    }
                    "refusal" => draft.refuse(&piece.refusal),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Messages of their own (a comment, then the answer) are apart: a tag must not end up in the middle of a line.
    fn text(
        &mut self,
        item: Option<u64>,
        piece: &str,
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), ApiError> {
        if piece.is_empty() {
            return Ok(());
        }
        let is_new = self.item != item && !draft.text.is_empty() && !draft.text.ends_with('\n');
        self.item = item;
        if is_new {
            draft.text("\n\n", on_text)?;
        }
        draft.text(piece, on_text)
    }
}

fn end(response: Response<'_>, data: &[u8], draft: &mut Draft) -> Result<(), Fault> {
    draft.model = response.model.some();
    draft.usage = response.usage.map(|counts| {
        let details = counts.input_tokens_details.as_ref();
        Usage {
            input: counts.input_tokens.or_zero(),
            cached: details.map_or(0, |details| details.cached_tokens.or_zero()),
            cache_written: details.map_or(0, |details| details.cache_write_tokens.or_zero()),
            output: counts.output_tokens.or_zero(),
            estimated: false,
        }
    });
    if response.error.is_some() {
        return Err(server_error(data));
    }
    let reason = response.incomplete_details.map(|details| details.reason).unwrap_or_default();
    draft.stop = Some(match (&*response.status, &*reason) {
        ("completed", _) => Stop::End,
        ("incomplete", "max_output_tokens" | "max_tokens") => Stop::Length,
        ("incomplete", "content_filter") => {
            return Err(ApiError::new(
                ErrorKind::Refused,
                "the provider's content filter stopped the reply",
            )
            .into());
        }
        ("failed", _) => return Err(error::from_value(&Value::Null, None).into()),
        (status, reason) => {
            let message = format!("the response ended as “{status}” {reason}");
            return Err(ApiError::new(ErrorKind::Cut, message.trim_end()).into());
        }
    });
    draft.done = true;
    Ok(())
}
