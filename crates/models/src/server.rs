//! Servers that speak one of our APIs, as data: address, key, and peculiarities. To add one, add a row here.
//!
//! Sources, November 2026: the servers' documentation and SDKs (groq-python, mistral client-python, vLLM's protocol.py,
//! llama.cpp's tools/server/README.md, OpenRouter's and DeepSeek's API references). No live server was used while
//! writing this.

use serde_json::{Map, Value, json};

/// A server that nagent knows by name.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownServer {
    /// The name, as in `--profile` and `--provider`.
    pub name: &'static str,
    /// Its address; empty: its variable must be set.
    pub base_url: &'static str,
    /// The environment variable that may hold another address.
    pub address_variable: &'static str,
    /// The environment variable that holds its key.
    pub key_variable: &'static str,
    /// Whether it requires a key.
    pub needs_key: bool,
    /// Its host, or the domain of its hosts; empty: it may be anywhere.
    pub host: &'static str,
    /// The request's form for the amount of reasoning.
    pub reasoning: ReasoningForm,
    /// The request's form for a grammar.
    pub grammar: GrammarForm,
    /// The request's form for a JSON Schema.
    pub schema: SchemaForm,
    /// The path of its list of models with their windows, if the API's list has none.
    pub models_path: Option<&'static str>,
    /// Whether the limit of the reply is called `max_completion_tokens`, and not `max_tokens`.
    pub has_new_limit: bool,
    /// Whether it refuses unknown keys.
    pub is_strict: bool,
}

/// The form for the amount of reasoning in a request to a server that speaks Chat Completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningForm {
    /// `reasoning_effort`.
    Effort,
    /// `reasoning: {effort | max_tokens | enabled}`.
    OpenRouter,
    /// `thinking: {type}`, and `reasoning_effort`.
    DeepSeek,
    /// `chat_template_kwargs`, and `reasoning_effort`: the model's template decides.
    Template,
}

/// The form for a grammar in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrammarForm {
    /// The server accepts none.
    None,
    /// `grammar`, in llama.cpp's GBNF.
    Gbnf,
    /// `structured_outputs: {grammar}`, which reads GBNF too.
    Vllm,
    /// A custom tool that the model must call, whose input must match a grammar in Lark: OpenAI's Responses.
    CustomTool,
}

/// The form for a JSON Schema in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaForm {
    /// OpenAI's `response_format: {type: json_schema}`.
    OpenAi,
    /// The same, of a server that sends such a reply whole only.
    Whole,
    /// `response_format: {type: json_object}`: JSON of any form.
    Object,
}

const fn known_server(
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
) -> KnownServer {
    KnownServer {
        name,
        base_url,
        address_variable: "",
        key_variable,
        needs_key: true,
        host: "",
        reasoning: ReasoningForm::Effort,
        grammar: GrammarForm::None,
        schema: SchemaForm::OpenAi,
        models_path: None,
        has_new_limit: false,
        is_strict: false,
    }
}

/// All known servers, in the order of docs/config.md.
pub const SERVERS: &[KnownServer] = &[
    KnownServer {
        address_variable: "AZURE_OPENAI_ENDPOINT",
        host: "azure.com",
        has_new_limit: true,
        ..known_server("azure", "", "AZURE_OPENAI_API_KEY")
    },
    KnownServer {
        host: "openrouter.ai",
        reasoning: ReasoningForm::OpenRouter,
        ..known_server("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
    },
    KnownServer {
        host: "api.groq.com",
        schema: SchemaForm::Whole,
        has_new_limit: true,
        is_strict: true,
        ..known_server("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    },
    KnownServer {
        host: "mistral.ai",
        is_strict: true,
        ..known_server("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
    },
    KnownServer {
        host: "api.deepseek.com",
        reasoning: ReasoningForm::DeepSeek,
        schema: SchemaForm::Object,
        ..known_server("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
    },
    KnownServer {
        host: "api.x.ai",
        has_new_limit: true,
        ..known_server("xai", "https://api.x.ai/v1", "XAI_API_KEY")
    },
    KnownServer {
        host: "together.xyz",
        ..known_server("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY")
    },
    KnownServer {
        address_variable: "VLLM_BASE_URL",
        needs_key: false,
        reasoning: ReasoningForm::Template,
        grammar: GrammarForm::Vllm,
        ..known_server("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY")
    },
    KnownServer {
        address_variable: "LLAMA_BASE_URL",
        needs_key: false,
        reasoning: ReasoningForm::Template,
        grammar: GrammarForm::Gbnf,
        ..known_server("llama.cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY")
    },
    KnownServer {
        address_variable: "LMSTUDIO_BASE_URL",
        models_path: Some("/api/v0/models"),
        needs_key: false,
        ..known_server("lmstudio", "http://127.0.0.1:1234/v1", "LM_API_TOKEN")
    },
];

impl KnownServer {
    /// The server of this name.
    pub fn find_server(name: &str) -> Option<&'static Self> {
        SERVERS.iter().find(|server| server.name == name.trim().to_lowercase())
    }

    /// The server at a host. Its key goes there, so `notmistral.ai` must not count as `mistral.ai`.
    pub(crate) fn find_server_at_host(host: &str) -> Option<&'static Self> {
        let is_of = |domain: &str| {
            let rest = host.strip_suffix(domain).filter(|_| !domain.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        SERVERS.iter().find(|server| is_of(server.host))
    }

    /// The address of its API, from the value of its variable. Azure's variable holds only the name of the resource.
    pub fn address(&self, given: &str) -> String {
        let given = given.trim().trim_end_matches('/');
        let is_bare = given.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
        if self.name == "azure" && is_bare {
            format!("{given}/openai/v1")
        } else {
            given.to_owned()
        }
    }

    /// The settings of its built-in profile.
    pub fn settings(&self) -> Map<String, Value> {
        let mut settings = json!({ "provider": "openai", "server": self.name });
        if !self.base_url.is_empty() {
            settings["base_url"] = self.base_url.into();
        }
        let Value::Object(settings) = settings else { return Map::new() };
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_domain() {
        let check = |host: &str, expect: Option<&str>| {
            let found = KnownServer::find_server_at_host(host).map(|server| server.name);
            assert_eq!(found, expect, "{host}");
        };
        check("api.mistral.ai", Some("mistral"));
        check("mistral.ai", Some("mistral"));
        check("x.openai.azure.com", Some("azure"));
        check("notmistral.ai", None);
        check("mistral.ai.example.com", None);
        check("", None);
    }
}
