//! Requests to a server, and its lists of models.
//! An endpoint adds the address and the credential to an API. The credential goes into a header, since addresses are
//! logged.

use serde_json::Value;
use url::Url;

use super::api::{Endpoint, ModelInfo, ModelPage, percent_encode};
use super::price::Price;
use super::server::SchemaForm;
use super::{ChatRequest, catalog, error};
use conversation::model::{ApiError, ErrorKind, HttpRequest};

impl Endpoint {
    /// The request for a streamed reply.
    pub fn chat_request(&self, ask: &ChatRequest<'_>) -> HttpRequest {
        let accept = match self.api.is_json_lines() {
            true => "application/x-ndjson",
            false if self.streams(ask) => "text/event-stream",
            false => "application/json",
        };
        let mut headers = vec![("content-type", "application/json"), ("accept", accept)];
        if ask.files.iter().any(|file| file.remote().is_some())
            && let Some(files) = self.api.file_rules(self, ask.model).files_api
        {
            headers.extend(files.headers);
        }
        let url = self.build_url(&self.api.chat_path(ask.model));
        self.request("POST", url, &headers, self.api.chat_body(ask, self))
    }

    /// Whether the reply is requested in pieces.
    pub(super) fn streams(&self, ask: &ChatRequest<'_>) -> bool {
        let form = ask.options.schema.as_ref().and(self.server).map(|server| server.schema);
        form != Some(SchemaForm::Whole) && !ask.options.is_whole
    }

    /// The request for the server's own list of models, if it has one that says more than that of the API.
    pub fn own_models_request(&self) -> Option<HttpRequest> {
        let base = Url::parse(self.base_url.trim()).ok()?;
        let url = base.join(self.server?.models_path?).ok()?.to_string();
        Some(HttpRequest { url, ..self.models_request(None) })
    }

    /// The request for a page of models: the first, or the one that [`ModelPage::next`] named.
    pub fn models_request(&self, page: Option<&str>) -> HttpRequest {
        let mut path = self.api.models_path().to_owned();
        if let Some(page) = page {
            let mark = if path.contains('?') { '&' } else { '?' };
            path += &format!("{mark}{}={}", self.api.page_parameter(), percent_encode(page));
        }
        self.request("GET", self.build_url(&path), &[("accept", "application/json")], Vec::new())
    }

    /// Reads the models in the body of a 2xx response.
    pub fn read_models(&self, body: &[u8]) -> Result<ModelPage, ApiError> {
        let value = self.read_json(body, "a list of models")?;
        let page = read_models(&value);
        let mut page = page.ok_or_else(|| self.clean(error::from_value(&value, None)))?;
        if self.official {
            for model in &mut page.models {
                let Some(known) = catalog::find_model(&model.id) else { continue };
                model.window = model.window.or(known.window);
                model.max_output = model.max_output.or(known.max_output);
                model.ends = model.ends.take().or(known.ends.map(str::to_owned));
            }
        }
        Ok(page)
    }

    /// The error of a response that is not 2xx, if no [`Decoder`] reads it.
    pub fn failure(&self, status: u16, headers: &[(String, String)], body: &[u8]) -> ApiError {
        self.clean(error::from_response(status, headers, body))
    }

    /// The JSON in the body of a 2xx response; `what` describes the expected content for the error.
    pub(super) fn read_json(&self, body: &[u8], what: &str) -> Result<Value, ApiError> {
        let text = String::from_utf8_lossy(body);
        if error::is_page(&text) {
            let message = format!(
                "the server answered with a web page (HTML) instead of {what}: a captive portal, or a wrong base_url ({})",
                self.base_url
            );
            return Err(self.clean(ApiError::new(ErrorKind::Other, &message)));
        }
        serde_json::from_str(text.trim()).map_err(|error| {
            let message =
                format!("the server's answer is not {what}: not JSON ({error}); check base_url");
            self.clean(ApiError::new(ErrorKind::Other, &message))
        })
    }

    pub(super) fn clean(&self, error: ApiError) -> ApiError {
        error.with_clean_message(self.key.as_deref())
    }

    /// A request with the API's own headers, the credential, and more headers.
    pub(super) fn request(
        &self,
        method: &'static str,
        url: String,
        more: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> HttpRequest {
        let own = self.api.headers().iter().map(|(name, value)| (*name, (*value).to_owned()));
        let key = self.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let credential = key.map(|key| {
            if self.has_token {
                ("authorization", format!("Bearer {key}"))
            } else {
                self.api.key_header(key, &self.host_name())
            }
        });
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let headers = own.chain(credential).chain(more).collect();
        HttpRequest { method, url, headers, own_headers: self.headers.clone(), body }
    }

    /// Appends a path to the base address. If the base already has a version, that of the path is left out; if the base
    /// already ends in the path of chat requests, that is removed first.
    pub(super) fn build_url(&self, path: &str) -> String {
        let (base, base_query) = split_query(self.base_url.trim());
        let (path, path_query) = split_query(path);
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix(&self.api.chat_path("")).unwrap_or(base);
        // "/v1/messages" → "/v1" and "/messages".
        let (version, rest) = path.split_at(path[1..].find('/').map_or(path.len(), |at| at + 1));
        let last = base.rsplit('/').next().unwrap_or(base);
        let is_version = version.starts_with("/v1") || version == "/api";
        let has_version = is_version && (last.starts_with("v1") || last == &version[1..])
            // Vertex AI has its version before the project.
            || base.ends_with("/publishers/google");
        let mut url = format!("{base}{}", if has_version { rest } else { path });
        for (index, query) in [path_query, base_query].into_iter().flatten().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(query);
        }
        url
    }
}

/// Reads a list of models: `data` (OpenAI, Anthropic, most others), `models` (Google, Ollama), or an array (Together).
/// Models that cannot generate text are left out if the list marks them (Google).
fn read_models(list: &Value) -> Option<ModelPage> {
    const WINDOW: [&str; 10] = [
        "/loaded_context_length",
        "/max_input_tokens",
        "/inputTokenLimit",
        "/details/context_length",
        "/max_context_length",
        "/context_length",
        "/max_model_len",
        "/context_window",
        // llama.cpp: of the server, and of the model.
        "/meta/n_ctx",
        "/meta/n_ctx_train",
    ];
    const OUTPUT: [&str; 5] = [
        "/max_output_tokens",
        "/outputTokenLimit",
        "/top_provider/max_completion_tokens",
        "/max_completion_tokens",
        "/max_tokens",
    ];
    // This is Ollama without models.
    if list.get("models").is_some_and(Value::is_null) {
        return Some(ModelPage::default());
    }
    let models = [list, &list["data"], &list["models"]].into_iter().find_map(Value::as_array)?;
    let models = models.iter().filter_map(|model| {
        let methods = model["supportedGenerationMethods"].as_array();
        if methods.is_some_and(|methods| methods.iter().all(|method| method != "generateContent")) {
            return None;
        }
        let id = ["id", "name", "model"].iter().find_map(|name| model[name].as_str())?;
        Some(ModelInfo {
            id: id.strip_prefix("models/").unwrap_or(id).to_owned(),
            window: read_size(model, &WINDOW),
            max_output: read_size(model, &OUTPUT),
            price: read_price(&model["pricing"]),
            ends: read_day(model),
        })
    });
    let token = list["nextPageToken"].as_str().filter(|token| !token.is_empty());
    let next = token.or_else(|| list["last_id"].as_str().filter(|_| list["has_more"] == true));
    Some(ModelPage { models: models.collect(), next: next.map(str::to_owned) })
}

/// Reads the shutdown day of a model: from OpenAI's field, Mistral's (a time) or OpenRouter's.
fn read_day(model: &Value) -> Option<String> {
    let names = ["shutdown_date", "deprecation", "expiration_date"];
    let text = names.iter().find_map(|name| model[name].as_str())?;
    text.get(..10).map(str::to_owned)
}

/// Reads OpenRouter's prices, which are texts and for a single token.
fn read_price(pricing: &Value) -> Option<Price> {
    let read = |name: &str| {
        let price = pricing[name].as_str()?.parse::<f64>().ok()? * 1e6;
        (price >= 0.0).then_some(price)
    };
    Some(Price {
        input: read("prompt")?,
        cached: read("input_cache_read"),
        cache_write: read("input_cache_write"),
        output: read("completion")?,
        long: None,
    })
}

/// Reads the first of some fields, given as JSON pointers, that is a number above zero.
fn read_size(value: &Value, paths: &[&str]) -> Option<u64> {
    let read = |path: &&str| value.pointer(path)?.as_u64().filter(|&size| size > 0);
    paths.iter().find_map(read)
}

fn split_query(address: &str) -> (&str, Option<&str>) {
    address.split_once('?').map_or((address, None), |(address, query)| (address, Some(query)))
}

#[cfg(test)]
mod tests {
    use super::super::anthropic::Messages;
    use super::super::api::Api;
    use super::super::google::Gemini;
    use super::super::ollama::Ollama;
    use super::super::openai_chat::ChatCompletions;
    use super::super::openai_responses::Responses;
    use super::*;

    fn endpoint(api: &'static dyn Api, base_url: &str, key: Option<&str>) -> Endpoint {
        Endpoint::new(api, base_url, key.map(str::to_owned), false)
    }

    #[test]
    fn addresses() {
        let check = |api: &'static dyn Api, base: &str, path: &str, expect: &str| {
            assert_eq!(endpoint(api, base, None).build_url(path), expect, "{base}");
        };
        let chat = "/chat/completions";
        check(
            &ChatCompletions,
            "https://api.openai.com/v1",
            chat,
            "https://api.openai.com/v1/chat/completions",
        );
        check(
            &ChatCompletions,
            "https://api.deepseek.com/",
            chat,
            "https://api.deepseek.com/chat/completions",
        );
        check(
            &ChatCompletions,
            "http://h:1/v1/chat/completions",
            chat,
            "http://h:1/v1/chat/completions",
        );
        check(
            &ChatCompletions,
            "https://r/openai/deployments/d?api-version=1",
            chat,
            "https://r/openai/deployments/d/chat/completions?api-version=1",
        );
        check(
            &ChatCompletions,
            "http://h:1/v1/chat/completions",
            "/models",
            "http://h:1/v1/models",
        );
        check(
            &Messages,
            "https://api.anthropic.com",
            "/v1/messages",
            "https://api.anthropic.com/v1/messages",
        );
        check(
            &Messages,
            "https://h/anthropic/v1/",
            "/v1/messages",
            "https://h/anthropic/v1/messages",
        );
        check(
            &Messages,
            "https://h",
            "/v1/models?limit=1&after_id=a",
            "https://h/v1/models?limit=1&after_id=a",
        );
        check(
            &Gemini,
            "https://h/v1beta",
            "/v1beta/models/m:x?alt=sse",
            "https://h/v1beta/models/m:x?alt=sse",
        );
        let vertex = "https://h/v1/projects/p/locations/global/publishers/google";
        check(&Gemini, vertex, "/v1beta/models/m:x", &format!("{vertex}/models/m:x"));
        check(&Ollama, "http://h:11434/api", "/api/chat", "http://h:11434/api/chat");
        check(&Ollama, "http://h:11434", "/api/tags", "http://h:11434/api/tags");
    }

    #[test]
    fn the_credential_is_in_the_header_that_the_format_wants() {
        let check = |api: &'static dyn Api, base: &str, key: &str, expect: &str| {
            let headers = endpoint(api, base, Some(key))
                .request("GET", String::new(), &[], Vec::new())
                .headers;
            let names: Vec<_> =
                headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(names.join(", "), expect);
        };
        check(&Responses, "https://h", " k\n", "authorization: Bearer k");
        check(&ChatCompletions, "https://r.openai.azure.com/openai/v1", "k", "api-key: k");
        check(
            &ChatCompletions,
            "https://user@evil.com/x.azure.com",
            "k",
            "authorization: Bearer k",
        );
        check(&Messages, "https://h", "k", "anthropic-version: 2023-06-01, x-api-key: k");
        check(
            &Messages,
            "https://h",
            "sk-ant-oat01-x",
            "anthropic-version: 2023-06-01, authorization: Bearer sk-ant-oat01-x",
        );
        check(&Gemini, "https://h", "k", "x-goog-api-key: k");
        check(&Ollama, "https://h", "k", "authorization: Bearer k");
        check(&ChatCompletions, "https://h", " ", "");
    }

    #[test]
    fn models_of_every_format() {
        let check = |api: &'static dyn Api,
                     body: &str,
                     expect: &[(&str, Option<u64>, Option<u64>)],
                     next: Option<&str>| {
            let page = endpoint(api, "https://h", None).read_models(body.as_bytes()).unwrap();
            let models: Vec<_> =
                page.models.iter().map(|m| (m.id.as_str(), m.window, m.max_output)).collect();
            assert_eq!(models, expect, "{body}");
            assert_eq!(page.next.as_deref(), next);
        };
        check(
            &Responses,
            r#"{"object":"list","data":[{"id":"a"},{"id":"b","context_length":7,"top_provider":{"max_completion_tokens":3}}]}"#,
            &[("a", None, None), ("b", Some(7), Some(3))],
            None,
        );
        let llama = r#"{"data":[{"id":"a","meta":{"n_ctx":9,"n_ctx_train":99}}]}"#;
        check(&ChatCompletions, llama, &[("a", Some(9), None)], None);
        check(&ChatCompletions, r#"[{"id":"a","max_model_len":9}]"#, &[("a", Some(9), None)], None);
        check(
            &Gemini,
            r#"{"models":[{"name":"models/g","inputTokenLimit":5,"outputTokenLimit":2,"supportedGenerationMethods":["generateContent"]},{"name":"models/e","supportedGenerationMethods":["embedContent"]}],"nextPageToken":"t"}"#,
            &[("g", Some(5), Some(2))],
            Some("t"),
        );
        check(
            &Ollama,
            r#"{"models":[{"name":"l:latest","details":{"context_length":8}},{"name":"m"}]}"#,
            &[("l:latest", Some(8), None), ("m", None, None)],
            None,
        );
        check(&Ollama, r#"{"models":null}"#, &[], None);
    }

    #[test]
    fn the_day_on_which_a_model_ends_has_three_names() {
        let body = br#"{"data":[{"id":"a","shutdown_date":"2026-12-01"},{"id":"b","deprecation":"2026-12-31T12:00:00Z"},
            {"id":"c","expiration_date":"2027-01-14"},{"id":"d","deprecation":null,"expiration_date":null,"shutdown_date":""}]}"#;
        let page = endpoint(&ChatCompletions, "https://h", None).read_models(body).unwrap();
        let ends: Vec<_> = page.models.iter().map(|model| model.ends.as_deref()).collect();
        assert_eq!(ends, [Some("2026-12-01"), Some("2026-12-31"), Some("2027-01-14"), None]);
    }

    #[test]
    fn a_list_that_is_none() {
        let check = |body: &str, part: &str| {
            let error = endpoint(&ChatCompletions, "https://h", None)
                .read_models(body.as_bytes())
                .unwrap_err();
            assert!(error.message.contains(part), "{error}");
        };
        check("<html>", "wrong base_url (https://h)");
        check("nope", "not JSON");
        check(r#"{"error":"no"}"#, "no");
        check("{}", "gave no reason");
    }

    #[test]
    fn a_known_model_of_an_official_server_gets_the_tables_limits() {
        let endpoint = Endpoint { official: true, ..endpoint(&Responses, "https://h", None) };
        let page = endpoint.read_models(br#"{"data":[{"id":"gpt-5"}]}"#).unwrap();
        assert_eq!(page.models[0].window, Some(272_000));
    }
}
