//! Ollama's own API (`POST /api/chat`): a JSON object a line.
//!
//! ```text
//! {"model":"gemma4","message":{"role":"assistant","content":"Hi"},"done":false}
//! {"model":"gemma4","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2,…}
//! ```
//!
//! Source: the API types of ollama. By default the server drops the oldest messages in silence when they do not fit;
//! `truncate: false` makes that an error. Errors are `{"error":"text"}`, also in the middle of a reply, after a 200.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ApiError, Ask, ErrorKind, Role, Stop, Usage,
    decode::{Draft, Fault, OnText, server_error},
    estimate,
    json::{self, Count, Joined, List, Text},
    wire::{ModelInfo, ModelPage},
};

/// The body of a request.
pub(super) fn body(ask: &Ask<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a, L> {
        model: &'a str,
        stream: bool,
        truncate: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        options: Option<Options>,
        messages: L,
    }
    #[derive(Serialize)]
    struct Options {
        #[serde(skip_serializing_if = "Option::is_none")]
        num_ctx: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        num_predict: Option<u64>,
    }
    #[derive(Serialize)]
    struct Input<'a> {
        role: &'static str,
        content: Content<'a>,
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Content<'a> {
        Plain(&'a str),
        Parts(Joined<'a>),
    }
    let options = Options { num_ctx: ask.window, num_predict: ask.max_output };
    let messages = ask.messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        Input { role, content: Content::Parts(Joined(&message.parts)) }
    });
    let system =
        ask.system.iter().map(|text| Input { role: "system", content: Content::Plain(text) });
    let body = Body {
        model: ask.model,
        stream: true,
        truncate: false,
        options: (options.num_ctx.is_some() || options.num_predict.is_some()).then_some(options),
        messages: List(system.chain(messages)),
    };
    json::body(ask, &body)
}

/// What is remembered between lines: nothing.
pub(super) struct Stream;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    message: Option<Said<'a>>,
    #[serde(default)]
    done: Option<bool>,
    #[serde(borrow, default)]
    done_reason: Text<'a>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
}

impl Stream {
    /// Takes in one line.
    pub(super) fn frame(
        &mut self,
        data: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        let line: Line<'_> = serde_json::from_slice(data)?;
        if line.error.is_some() || (line.message.is_none() && line.done.is_none()) {
            return Err(server_error(data));
        }
        self.take(line, draft, on_text)
    }

    /// Takes in objects that stand over several lines each.
    pub(super) fn whole(
        &mut self,
        body: &[u8],
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        for value in serde_json::Deserializer::from_slice(body).into_iter::<Line<'_>>() {
            let line = value?;
            if line.error.is_some() || (line.message.is_none() && line.done.is_none()) {
                return Err(server_error(body));
            }
            self.take(line, draft, on_text)?;
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "all formats are called alike")]
    fn take(
        &mut self,
        line: Line<'_>,
        draft: &mut Draft,
        on_text: OnText<'_>,
    ) -> Result<(), Fault> {
        if let Some(message) = &line.message {
            draft.text(&message.content, on_text)?;
        }
        if line.done != Some(true) {
            return Ok(());
        }
        draft.model = line.model.some();
        let (input, output) = (line.prompt_eval_count.0, line.eval_count.0);
        draft.usage = input.or(output).map(|_| Usage {
            input: input.unwrap_or(0),
            output: output.unwrap_or_else(|| estimate(&draft.text)),
            // A prompt that was wholly in the server's cache is not counted.
            estimated: input.is_none() || output.is_none(),
            ..Usage::default()
        });
        draft.stop = Some(match &*line.done_reason {
            "length" => Stop::Length,
            "load" | "unload" => {
                return Err(ApiError::new(
                    ErrorKind::Broken,
                    "the server only loaded or unloaded the model",
                )
                .into());
            }
            // `stop`, and names yet to come; older servers gave none.
            _ => Stop::End,
        });
        draft.done = true;
        Ok(())
    }
}

/// The models that are installed.
pub(super) fn models(value: &Value) -> Option<ModelPage> {
    let list = match value.get("models")? {
        Value::Null => &[][..],
        list => list.as_array()?,
    };
    let models = list
        .iter()
        .filter_map(|model| {
            let name = model.get("name").or_else(|| model.get("model"))?.as_str()?;
            let window = model
                .pointer("/details/context_length")
                .and_then(Value::as_u64)
                .filter(|&size| size > 0);
            Some(ModelInfo { id: name.to_owned(), window, max_output: None })
        })
        .collect();
    Some(ModelPage { models, next: None })
}
