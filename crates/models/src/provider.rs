//! The table of providers. Nothing here reads the environment; the table lists the variables to read.

use url::Url;

use super::anthropic::Messages;
use super::api::{Api, Endpoint};
use super::command::Preset;
use super::google::Gemini;
use super::ollama::Ollama;
use super::openai_chat::ChatCompletions;
use super::openai_responses::Responses;
use super::server::{KnownServer, SERVERS};
use conversation::format::nearest::nearest;

/// A source of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI, or any server that speaks Chat Completions.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini API.
    Google,
    /// An Ollama server.
    Ollama,
    /// Cursor's command-line agent, without its tools.
    Cursor,
    /// Claude Code, without its tools.
    ClaudeCode,
    /// Any program: prompt on stdin, text or JSON on stdout.
    Command,
    /// A recorded exchange.
    Replay,
}

struct ProviderRow {
    provider: Provider,
    name: &'static str,
    aliases: &'static [&'static str],
    credentials: &'static [&'static str],
    model: Option<&'static str>,
    backend: ProviderBackend,
}

/// The backend of a provider.
enum ProviderBackend {
    /// A server: its API, its address, and the variables that may hold another address; the first that is set counts.
    Server(&'static dyn Api, &'static str, &'static [&'static str]),
    /// A command-line program.
    Program(Preset),
    /// A recording.
    Recording,
}

use ProviderBackend::{Program, Recording, Server};

/// The variable for gateways to Anthropic's API that take a token instead of a key.
const TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";

/// The providers, in the order of the automatic search.
const TABLE: &[ProviderRow] = &[
    ProviderRow {
        name: "openai",
        credentials: &["OPENAI_API_KEY"],
        model: Some("gpt-5.5"),
        backend: Server(&Responses, "https://api.openai.com/v1", &["OPENAI_BASE_URL"]),
        ..default_row(Provider::OpenAi)
    },
    ProviderRow {
        name: "anthropic",
        credentials: &["ANTHROPIC_API_KEY", TOKEN],
        model: Some("claude-sonnet-4-6"),
        backend: Server(&Messages, "https://api.anthropic.com", &["ANTHROPIC_BASE_URL"]),
        ..default_row(Provider::Anthropic)
    },
    ProviderRow {
        name: "google",
        aliases: &["gemini"],
        credentials: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        model: Some("gemini-3.8-flash"),
        backend: Server(
            &Gemini,
            "https://generativelanguage.googleapis.com",
            // The second variable is that of Google's own SDK.
            &["GOOGLE_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        ),
        ..default_row(Provider::Google)
    },
    ProviderRow {
        name: "ollama",
        credentials: &["OLLAMA_API_KEY"],
        backend: Server(&Ollama, "http://127.0.0.1:11434", &["OLLAMA_HOST"]),
        ..default_row(Provider::Ollama)
    },
    ProviderRow {
        name: "cursor",
        credentials: &["CURSOR_API_KEY"],
        model: Some("composer-2.5"),
        backend: Program(Preset::Cursor),
        ..default_row(Provider::Cursor)
    },
    ProviderRow {
        name: "claude-code",
        credentials: &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"],
        backend: Program(Preset::ClaudeCode),
        ..default_row(Provider::ClaudeCode)
    },
    ProviderRow {
        name: "command",
        backend: Program(Preset::Command),
        ..default_row(Provider::Command)
    },
    default_row(Provider::Replay),
];

/// The common values of most rows; the whole row of `replay`.
const fn default_row(provider: Provider) -> ProviderRow {
    let backend = Recording;
    ProviderRow { provider, name: "replay", aliases: &[], credentials: &[], model: None, backend }
}

impl Provider {
    /// All providers, in the order of the automatic search.
    pub fn iter() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.provider)
    }

    /// Finds the provider with this name or alias, in any case.
    pub fn parse(name: &str) -> Result<Self, String> {
        let wanted = name.trim().to_lowercase();
        if KnownServer::find_server(&wanted).is_some() {
            return Ok(Self::OpenAi);
        }
        let row =
            TABLE.iter().find(|row| row.name == wanted || row.aliases.contains(&wanted.as_str()));
        row.map(|row| row.provider).ok_or_else(|| {
            let known = TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name]));
            let servers = || SERVERS.iter().map(|server| server.name);
            let near = nearest(&wanted, known.chain(servers()));
            let near = near.map_or_else(String::new, |near| format!(": did you mean {near}?"));
            let names = TABLE.iter().map(|row| row.name).chain(servers()).collect::<Vec<_>>();
            let name: String = name.trim().chars().take(60).collect();
            format!("no provider is named \"{name}\"; there are {}{near}", names.join(", "))
        })
    }

    /// The name, as in the config and on the command line.
    pub fn name(self) -> &'static str {
        self.table_row().name
    }

    /// Other names for it.
    pub fn aliases(self) -> &'static [&'static str] {
        self.table_row().aliases
    }

    /// The environment variables that may hold its credential; the first that is set counts.
    pub fn credential_variables(self) -> &'static [&'static str] {
        self.table_row().credentials
    }

    /// Whether it requires a credential.
    pub fn needs_credential(self) -> bool {
        !self.table_row().credentials.is_empty() && !matches!(self, Self::Ollama)
    }

    /// Whether this variable holds a token instead of a key.
    pub fn is_token(variable: &str) -> bool {
        variable == TOKEN
    }

    /// The default model; `None`: the program's own, or the only one that an Ollama server has.
    pub fn default_model(self) -> Option<&'static str> {
        self.table_row().model
    }

    /// The environment variables that may hold another address, for servers; the first that is set counts.
    pub fn base_url_variables(self) -> &'static [&'static str] {
        let Server(_, _, variables) = self.table_row().backend else { return &[] };
        variables
    }

    /// Whether it is reached over HTTP.
    pub fn is_server(self) -> bool {
        matches!(self.table_row().backend, Server(..))
    }

    /// The command-line program, if it is one.
    pub fn preset(self) -> Option<Preset> {
        let Program(preset) = self.table_row().backend else { return None };
        Some(preset)
    }

    /// The server, with the API for its address: OpenAI's own server speaks Responses, any other server Chat
    /// Completions. `None` if the provider is not a server.
    pub fn endpoint(self, base_url: Option<&str>, key: Option<String>) -> Option<Endpoint> {
        let Server(own_api, default, _) = self.table_row().backend else { return None };
        let given = base_url.map(str::trim).filter(|url| !url.is_empty());
        let base_url = match (self, given) {
            (Self::Ollama, Some(host)) => ollama_address(host),
            (_, given) => given.unwrap_or(default).to_owned(),
        };
        let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
        let official = origin(&base_url) == origin(default);
        let api: &dyn Api =
            if self == Self::OpenAi && !official { &ChatCompletions } else { own_api };
        // No Ollama server is official: the abilities of its models depend on the server.
        Some(Endpoint::new(api, base_url, key, official && self != Self::Ollama))
    }

    fn table_row(self) -> &'static ProviderRow {
        TABLE
            .iter()
            .find(|row| row.provider == self)
            .expect("every provider has a row; a test goes through them")
    }
}

/// The address in `OLLAMA_HOST`, which may lack scheme, host or port, and may be a listen address.
///
/// `host` → `http://host:11434`; a scheme without a port means the scheme's default port, as in Ollama's client.
pub fn ollama_address(host: &str) -> String {
    let host = host.trim().trim_matches(['"', '\'']).trim_end_matches('/');
    let (scheme, rest) =
        host.split_once("://").map_or((None, host), |(scheme, rest)| (Some(scheme), rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (name, port) = match authority.rsplit_once(':') {
        // A bare IPv6 address contains colons, but has no port.
        _ if authority.ends_with(']')
            || authority.matches(':').count() > 1 && !authority.starts_with('[') =>
        {
            (authority, None)
        }
        Some((name, port)) => (name, Some(port).filter(|port| port.parse::<u16>().is_ok())),
        None => (authority, None),
    };
    let name = match name {
        // A listen address cannot be connected to.
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "[::]" | "::" => "[::1]".to_owned(),
        ipv6 if ipv6.contains(':') && !ipv6.starts_with('[') => format!("[{ipv6}]"),
        name => name.to_owned(),
    };
    let port = match (scheme, port) {
        (_, Some(port)) => format!(":{port}"),
        (None, None) => ":11434".to_owned(),
        (Some(_), None) => String::new(),
    };
    format!("{}://{name}{port}{path}", scheme.unwrap_or("http"))
}

/// Checks that a word is a known one.
///
/// # Errors
/// It is unknown: the text names the `kind` of word, and the nearest known word or all of them.
pub fn check_word<'a>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    if known.clone().into_iter().any(|known| known == word) {
        return Ok(());
    }
    let near = nearest(word, known.clone()).map_or_else(
        || format!("known {kind}s: {}", Vec::from_iter(known).join(", ")),
        |near| format!("did you mean \"{near}\"?"),
    );
    Err(format!("unknown {kind} \"{}\"; {near}", word.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        for provider in Provider::iter() {
            assert_eq!(Provider::parse(provider.name()), Ok(provider));
            for alias in provider.aliases() {
                assert_eq!(Provider::parse(alias), Ok(provider));
            }
        }
        assert_eq!(Provider::parse(" Gemini\n"), Ok(Provider::Google));
        let check = |name: &str, expect: &str| {
            assert_eq!(Provider::parse(name).unwrap_err(), expect);
        };
        let all = "openai, anthropic, google, ollama, cursor, claude-code, command, replay, azure, openrouter, groq, mistral, \
            deepseek, xai, together, vllm, llama.cpp, lmstudio";
        check(
            "antropic",
            &format!("no provider is named \"antropic\"; there are {all}: did you mean anthropic?"),
        );
        check(
            "gemni",
            &format!("no provider is named \"gemni\"; there are {all}: did you mean gemini?"),
        );
        check("perplexity", &format!("no provider is named \"perplexity\"; there are {all}"));
        assert_eq!(Provider::parse("Mistral"), Ok(Provider::OpenAi));
        check("", &format!("no provider is named \"\"; there are {all}"));
    }

    #[test]
    fn the_address_decides_what_openai_speaks() {
        let check = |provider: Provider, base: Option<&str>, expect: (&str, bool, &str)| {
            let endpoint = provider.endpoint(base, None).unwrap();
            assert_eq!(
                (&*endpoint.api.chat_path(""), endpoint.official, endpoint.base_url.as_str()),
                expect
            );
        };
        let own = "https://api.openai.com/v1";
        check(Provider::OpenAi, None, ("/responses", true, own));
        check(Provider::OpenAi, Some(" "), ("/responses", true, own));
        check(
            Provider::OpenAi,
            Some("https://API.openai.com/v1/"),
            ("/responses", true, "https://API.openai.com/v1/"),
        );
        check(
            Provider::OpenAi,
            Some("http://localhost:8000/v1"),
            ("/chat/completions", false, "http://localhost:8000/v1"),
        );
        check(
            Provider::OpenAi,
            Some("https://api.openai.com.evil/v1"),
            ("/chat/completions", false, "https://api.openai.com.evil/v1"),
        );
        check(Provider::Anthropic, None, ("/v1/messages", true, "https://api.anthropic.com"));
        check(
            Provider::Google,
            None,
            (
                "/v1beta/models/:streamGenerateContent?alt=sse",
                true,
                "https://generativelanguage.googleapis.com",
            ),
        );
        check(Provider::Ollama, Some("box"), ("/api/chat", false, "http://box:11434"));
        assert!(Provider::Replay.endpoint(None, None).is_none());
        assert!(Provider::Cursor.endpoint(Some("http://x"), None).is_none());
    }

    #[test]
    fn ollama_hosts() {
        let check = |host: &str, expect: &str| assert_eq!(ollama_address(host), expect, "{host}");
        check("", "http://127.0.0.1:11434");
        check("box", "http://box:11434");
        check("box:80", "http://box:80");
        check(":5000", "http://127.0.0.1:5000");
        check("0.0.0.0", "http://127.0.0.1:11434");
        check("0.0.0.0:1", "http://127.0.0.1:1");
        check("http://box", "http://box");
        check("https://box/", "https://box");
        check("https://box:1/sub/", "https://box:1/sub");
        check("::1", "http://[::1]:11434");
        check("[::1]:2", "http://[::1]:2");
        check("[::]", "http://[::1]:11434");
        check("box:nonsense", "http://box:11434");
        check("\"box\"", "http://box:11434");
    }
}
