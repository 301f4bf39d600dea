//! An address that speaks one of five wire formats: requests out, replies and lists of models in.
//!
//! What differs between formats is in their files; here is what an endpoint adds: the address, the credential in the
//! header where the format wants it (never in the address, which ends up in logs), and the dialect of the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::attachment::{Attachment, Payload};
use super::{
    ApiError, Ask, ErrorKind, HttpRequest, anthropic, decode::Decoder, error, files, google,
    limits, ollama, openai_chat, openai_responses,
};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's Responses API.
    Responses,
    /// OpenAI's Chat Completions, and the many servers that speak it.
    Chat,
    /// Anthropic's Messages API.
    Messages,
    /// Google's `generateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
}

/// A server and how to speak to it. Not printable: it holds the key.
#[derive(Clone)]
pub struct Endpoint {
    /// What it speaks.
    pub wire: Wire,
    /// Where it is, with or without a trailing slash. A query (`?api-version=…`) is kept.
    pub base_url: String,
    /// The credential; local servers need none.
    pub key: Option<String>,
    /// It is the format's owner, not a compatible server: strict ones refuse what only the owner knows.
    pub official: bool,
}

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// What to ask for.
    pub id: String,
    /// The window in tokens: the server's word, else this program's table, else unknown.
    pub window: Option<u64>,
    /// The longest reply in tokens, likewise.
    pub max_output: Option<u64>,
}

/// A page of models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPage {
    /// In the server's order.
    pub models: Vec<ModelInfo>,
    /// What to pass to [`Endpoint::models`] for the next page; `None`: this was the last.
    pub next: Option<String>,
}

impl Endpoint {
    /// The request for a streamed reply.
    pub fn ask(&self, ask: &Ask<'_>) -> HttpRequest {
        let path = match self.wire {
            Wire::Responses => "/v1/responses".to_owned(),
            Wire::Chat => "/v1/chat/completions".to_owned(),
            Wire::Messages => "/v1/messages".to_owned(),
            Wire::Gemini => google::path(ask.model),
            Wire::Ollama => "/api/chat".to_owned(),
        };
        let body = match self.wire {
            Wire::Responses => openai_responses::body(ask),
            Wire::Chat => openai_chat::body(ask, self.dialect()),
            Wire::Messages => anthropic::body(ask),
            Wire::Gemini => google::body(ask),
            Wire::Ollama => ollama::body(ask),
        };
        let accept =
            if self.wire == Wire::Ollama { "application/x-ndjson" } else { "text/event-stream" };
        let mut headers = self.credential();
        headers.push(("content-type", "application/json".to_owned()));
        headers.push(("accept", accept.to_owned()));
        let mut request = HttpRequest { method: "POST", url: self.url(&path), headers, body };
        if let Some(file) = &ask.file {
            self.add_file(&mut request, file);
        }
        request
    }

    /// Puts a file before the first message's text, which is where providers want it.
    fn add_file(&self, request: &mut HttpRequest, file: &Attachment<'_>) {
        // Stands for the base64, which is written straight into the finished body. No text may hold it.
        let mut mark = "(base64)".to_owned();
        while file.name.contains(&mark)
            || request.body.windows(mark.len()).any(|part| part == mark.as_bytes())
        {
            mark.push('=');
        }
        let mut body: Value =
            serde_json::from_slice(&request.body).expect("the body was serialized a moment ago");
        let list = match self.wire {
            Wire::Responses => "input",
            Wire::Gemini => "contents",
            Wire::Chat | Wire::Messages | Wire::Ollama => "messages",
        };
        let messages = body.get_mut(list).and_then(Value::as_array_mut);
        let first =
            messages.and_then(|list| list.iter_mut().find(|message| message["role"] == "user"));
        if let Some(message) = first {
            self.attach(message, file, &mark);
        }
        request.body = spliced(&body.to_string(), &mark, file);
        if self.wire == Wire::Messages && matches!(file.payload, Payload::Remote(_)) {
            request.headers.push(files::anthropic_beta());
        }
    }

    fn attach(&self, message: &mut Value, file: &Attachment<'_>, mark: &str) {
        let part = match self.wire {
            Wire::Responses => openai_responses::part(file, mark),
            Wire::Chat => openai_chat::part(file, mark),
            Wire::Messages => anthropic::part(file, mark),
            Wire::Gemini => google::part(file, mark),
            Wire::Ollama => {
                // Source: ollama's API types: base64 without a prefix, beside the text.
                message["images"] = json!([mark]);
                return;
            }
        };
        let content = &mut message[if self.wire == Wire::Gemini { "parts" } else { "content" }];
        if let Value::String(text) = content {
            *content = json!([{"type": "text", "text": text}]);
        }
        if let Some(parts) = content.as_array_mut() {
            // A mark for the cache is paid for, and no later turn would read what it kept.
            for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                part.remove("cache_control");
            }
            parts.insert(0, part);
        }
    }

    /// What turns the reply's bytes into a reply. Header names in any case.
    pub fn decoder(&self, status: u16, headers: &[(String, String)]) -> Decoder {
        Decoder::new(self, status, headers)
    }

    /// The request for a page of models: the first, or the one that [`ModelPage::next`] named.
    pub fn models(&self, page: Option<&str>) -> HttpRequest {
        let page = page.map(encode);
        let path = match (self.wire, page) {
            (Wire::Responses | Wire::Chat, _) => "/v1/models".to_owned(),
            (Wire::Messages, None) => "/v1/models?limit=1000".to_owned(),
            (Wire::Messages, Some(page)) => format!("/v1/models?limit=1000&after_id={page}"),
            (Wire::Gemini, None) => "/v1beta/models?pageSize=1000".to_owned(),
            (Wire::Gemini, Some(page)) => format!("/v1beta/models?pageSize=1000&pageToken={page}"),
            (Wire::Ollama, _) => "/api/tags".to_owned(),
        };
        let mut headers = self.credential();
        headers.push(("accept", "application/json".to_owned()));
        HttpRequest { method: "GET", url: self.url(&path), headers, body: Vec::new() }
    }

    /// The models in a 2xx body.
    pub fn parse_models(&self, body: &[u8]) -> Result<ModelPage, ApiError> {
        let text = String::from_utf8_lossy(body);
        if error::is_page(&text) {
            let message = format!(
                "the server answered with a web page (HTML), not with a list of models: a captive portal, or a wrong base_url ({})",
                self.base_url
            );
            return Err(ApiError::new(ErrorKind::Other, &message).cleaned(self.key.as_deref()));
        }
        let value: Value = serde_json::from_str(text.trim()).map_err(|error| {
            ApiError::new(ErrorKind::Other, &format!("the list of models is not JSON: {error}"))
        })?;
        let page = match self.wire {
            Wire::Responses | Wire::Chat => openai_chat::models(&value),
            Wire::Messages => anthropic::models(&value),
            Wire::Gemini => google::models(&value),
            Wire::Ollama => ollama::models(&value),
        };
        let mut page =
            page.ok_or_else(|| error::from_value(&value, None).cleaned(self.key.as_deref()))?;
        if self.official {
            for model in &mut page.models {
                let known = limits::find(&model.id);
                model.window = model.window.or(known.map(|limits| limits.window));
                model.max_output = model.max_output.or(known.and_then(|limits| limits.max_output));
            }
        }
        Ok(page)
    }

    /// The error of a reply that is not 2xx, where no [`Decoder`] reads it (lists of models).
    pub fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ApiError {
        error::from_response(status, headers, body).cleaned(self.key.as_deref())
    }

    pub(super) fn credential(&self) -> Vec<(&'static str, String)> {
        let key = self.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let bearer = |key: &str| ("authorization", format!("Bearer {key}"));
        let mut headers = Vec::with_capacity(5);
        if self.wire == Wire::Messages {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        headers.extend(key.map(|key| match self.wire {
            // OAuth tokens go as bearers, and never beside an API key.
            Wire::Messages if !key.starts_with("sk-ant-oat") => ("x-api-key", key.to_owned()),
            Wire::Gemini => ("x-goog-api-key", key.to_owned()),
            Wire::Chat | Wire::Responses if self.host().ends_with(".azure.com") => {
                ("api-key", key.to_owned())
            }
            _ => bearer(key),
        }));
        headers
    }

    fn dialect(&self) -> openai_chat::Dialect {
        if self.official {
            openai_chat::Dialect::OpenAi
        } else if self.host().ends_with("mistral.ai") {
            openai_chat::Dialect::Mistral
        } else {
            openai_chat::Dialect::Compatible
        }
    }

    pub(super) fn host(&self) -> &str {
        let rest = self.base_url.split_once("://").map_or(self.base_url.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        host.split(':').next().unwrap_or(host)
    }

    /// Puts the path behind the base. OpenAI's bases hold the version already, others may: `/v1` is not said twice,
    /// and of a base that is a whole address only the front is taken.
    pub(super) fn url(&self, path: &str) -> String {
        let base = self.base_url.trim();
        let (base, base_query) =
            base.split_once('?').map_or((base, None), |(base, query)| (base, Some(query)));
        let base = base.trim_end_matches('/');
        let (path, path_query) =
            path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        // "/v1/chat/completions" → "/v1" and "/chat/completions".
        let cut = path[1..].find('/').map_or(path.len(), |at| at + 1);
        let (version, rest) = path.split_at(cut);
        let openai = matches!(self.wire, Wire::Responses | Wire::Chat);
        let said = base
            .rsplit('/')
            .next()
            .is_some_and(|last| last.starts_with("v1") || last == &version[1..]);
        let mut url = if openai {
            let base = ["/chat/completions", "/responses"]
                .iter()
                .find_map(|whole| base.strip_suffix(whole))
                .unwrap_or(base);
            format!("{base}{rest}")
        } else if said {
            format!("{base}{rest}")
        } else {
            format!("{base}{path}")
        };
        for (index, query) in [path_query, base_query].into_iter().flatten().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(query);
        }
        url
    }
}

/// The body with the file's base64 in the place of the mark.
fn spliced(body: &str, mark: &str, file: &Attachment<'_>) -> Vec<u8> {
    let Payload::Bytes(bytes) = file.payload else { return body.as_bytes().to_vec() };
    let Some((before, behind)) = body.split_once(mark) else { return body.as_bytes().to_vec() };
    let encoded = bytes.len().div_ceil(3).saturating_mul(4);
    let mut out = Vec::with_capacity(body.len().saturating_add(encoded));
    out.extend_from_slice(before.as_bytes());
    let from = out.len();
    out.resize(from + encoded, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[from..]);
    out.truncate(from + written.expect("the room was measured"));
    out.extend_from_slice(behind.as_bytes());
    out
}

/// Percent-encodes what may not stand in a path segment or a query value.
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(wire: Wire, base_url: &str, key: Option<&str>) -> Endpoint {
        Endpoint {
            wire,
            base_url: base_url.to_owned(),
            key: key.map(str::to_owned),
            official: false,
        }
    }

    #[test]
    fn addresses() {
        let check = |wire, base: &str, path: &str, expect: &str| {
            assert_eq!(endpoint(wire, base, None).url(path), expect, "{base}");
        };
        let chat = "/v1/chat/completions";
        check(
            Wire::Chat,
            "https://api.openai.com/v1",
            chat,
            "https://api.openai.com/v1/chat/completions",
        );
        check(
            Wire::Chat,
            "https://api.deepseek.com/",
            chat,
            "https://api.deepseek.com/chat/completions",
        );
        check(Wire::Chat, "http://h:1/v1/chat/completions", chat, "http://h:1/v1/chat/completions");
        check(
            Wire::Chat,
            "https://r/openai/deployments/d?api-version=1",
            chat,
            "https://r/openai/deployments/d/chat/completions?api-version=1",
        );
        check(Wire::Chat, "http://h:1/v1/chat/completions", "/v1/models", "http://h:1/v1/models");
        check(
            Wire::Messages,
            "https://api.anthropic.com",
            "/v1/messages",
            "https://api.anthropic.com/v1/messages",
        );
        check(
            Wire::Messages,
            "https://h/anthropic/v1/",
            "/v1/messages",
            "https://h/anthropic/v1/messages",
        );
        check(
            Wire::Messages,
            "https://h",
            "/v1/models?limit=1&after_id=a",
            "https://h/v1/models?limit=1&after_id=a",
        );
        check(
            Wire::Gemini,
            "https://h/v1beta",
            "/v1beta/models/m:x?alt=sse",
            "https://h/v1beta/models/m:x?alt=sse",
        );
        check(Wire::Ollama, "http://h:11434/api", "/api/chat", "http://h:11434/api/chat");
        check(Wire::Ollama, "http://h:11434", "/api/tags", "http://h:11434/api/tags");
    }

    #[test]
    fn the_credential_is_in_the_header_that_the_format_wants() {
        let check = |wire, base: &str, key: &str, expect: &str| {
            let headers = endpoint(wire, base, Some(key)).credential();
            let names: Vec<_> =
                headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(names.join(", "), expect);
        };
        check(Wire::Responses, "https://h", " k\n", "authorization: Bearer k");
        check(Wire::Chat, "https://r.openai.azure.com/openai/v1", "k", "api-key: k");
        check(Wire::Chat, "https://user@evil.com/x.azure.com", "k", "authorization: Bearer k");
        check(Wire::Messages, "https://h", "k", "anthropic-version: 2023-06-01, x-api-key: k");
        check(
            Wire::Messages,
            "https://h",
            "sk-ant-oat01-x",
            "anthropic-version: 2023-06-01, authorization: Bearer sk-ant-oat01-x",
        );
        check(Wire::Gemini, "https://h", "k", "x-goog-api-key: k");
        check(Wire::Ollama, "https://h", "k", "authorization: Bearer k");
        check(Wire::Chat, "https://h", " ", "");
    }

    #[test]
    fn models_of_every_format() {
        let check =
            |wire, body: &str, expect: &[(&str, Option<u64>, Option<u64>)], next: Option<&str>| {
                let page = endpoint(wire, "https://h", None).parse_models(body.as_bytes()).unwrap();
                let models: Vec<_> =
                    page.models.iter().map(|m| (m.id.as_str(), m.window, m.max_output)).collect();
                assert_eq!(models, expect, "{body}");
                assert_eq!(page.next.as_deref(), next);
            };
        check(
            Wire::Responses,
            r#"{"object":"list","data":[{"id":"a"},{"id":"b","context_length":7,"top_provider":{"max_completion_tokens":3}}]}"#,
            &[("a", None, None), ("b", Some(7), Some(3))],
            None,
        );
        check(Wire::Chat, r#"[{"id":"a","max_model_len":9}]"#, &[("a", Some(9), None)], None);
        check(
            Wire::Gemini,
            r#"{"models":[{"name":"models/g","inputTokenLimit":5,"outputTokenLimit":2,"supportedGenerationMethods":["generateContent"]},{"name":"models/e","supportedGenerationMethods":["embedContent"]}],"nextPageToken":"t"}"#,
            &[("g", Some(5), Some(2))],
            Some("t"),
        );
        check(
            Wire::Ollama,
            r#"{"models":[{"name":"l:latest","details":{"context_length":8}},{"name":"m"}]}"#,
            &[("l:latest", Some(8), None), ("m", None, None)],
            None,
        );
        check(Wire::Ollama, r#"{"models":null}"#, &[], None);
    }

    #[test]
    fn a_list_that_is_none() {
        let check = |body: &str, part: &str| {
            let error =
                endpoint(Wire::Chat, "https://h", None).parse_models(body.as_bytes()).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        };
        check("<html>", "wrong base_url (https://h)");
        check("nope", "not JSON");
        check(r#"{"error":"no"}"#, "no");
        check("{}", "gave no reason");
    }

    #[test]
    fn a_known_model_of_an_official_server_gets_the_tables_limits() {
        let endpoint = Endpoint { official: true, ..endpoint(Wire::Responses, "https://h", None) };
        let page = endpoint.parse_models(br#"{"data":[{"id":"gpt-5"}]}"#).unwrap();
        assert_eq!(page.models[0].window, Some(400_000));
    }
}
