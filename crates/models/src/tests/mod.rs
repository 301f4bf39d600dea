//! Tests of the APIs through [`Endpoint`], the way in which the rest of the program uses them.

mod decode;
mod files;
mod options;
mod replies;
mod requests;

use super::anthropic::Messages;
use super::api::{Api, Endpoint};
use super::google::Gemini;
use super::ollama::Ollama;
use super::openai_chat::ChatCompletions as Chat;
use super::openai_responses::Responses;

type AnyApi = &'static dyn Api;

const APIS: [AnyApi; 5] = [&Responses, &Chat, &Messages, &Gemini, &Ollama];

/// Its pieces are in some fixtures, and must be in no message.
const KEY: &str = "sk-canary-7f3a9b2c4d5e6f70";

fn endpoint(api: AnyApi, official: bool) -> Endpoint {
    Endpoint::new(api, "https://host", Some(KEY.to_owned()), official)
}

fn api_name(api: AnyApi) -> &'static str {
    match &*api.chat_path("") {
        "/responses" => "responses",
        "/chat/completions" => "chat",
        "/v1/messages" => "messages",
        "/api/chat" => "ollama",
        path if path.contains(":streamGenerateContent") => "gemini",
        path => panic!("{path}: the folder of its fixtures is not known"),
    }
}
