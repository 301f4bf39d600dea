//! Who can be asked: the providers as a table. Nothing here reads the environment; it says which variables to read.

use super::wire::{Endpoint, Wire};

/// A provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI, or with a base address any server that speaks Chat Completions.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini API.
    Google,
    /// An Ollama server.
    Ollama,
    /// Cursor's command-line agent, its tools off.
    Cursor,
    /// Claude Code, its tools off.
    ClaudeCode,
    /// Any program: prompt on stdin, text or JSON on stdout.
    Command,
    /// A recorded exchange.
    Replay,
}

/// A row of the table.
struct Row {
    provider: Provider,
    name: &'static str,
    aliases: &'static [&'static str],
    credentials: &'static [&'static str],
    model: Option<&'static str>,
    base_url: Option<&'static str>,
    base_url_variable: Option<&'static str>,
}

/// In the order in which a provider is looked for.
const TABLE: [Row; 8] = [
    Row {
        provider: Provider::OpenAi,
        name: "openai",
        aliases: &[],
        credentials: &["OPENAI_API_KEY"],
        model: Some("gpt-5.5"),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variable: Some("OPENAI_BASE_URL"),
    },
    Row {
        provider: Provider::Anthropic,
        name: "anthropic",
        aliases: &[],
        credentials: &["ANTHROPIC_API_KEY"],
        model: Some("claude-sonnet-4-6"),
        base_url: Some("https://api.anthropic.com"),
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
    },
    Row {
        provider: Provider::Google,
        name: "google",
        aliases: &["gemini"],
        credentials: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        model: Some("gemini-2.5-flash"),
        base_url: Some("https://generativelanguage.googleapis.com"),
        base_url_variable: Some("GOOGLE_BASE_URL"),
    },
    Row {
        provider: Provider::Ollama,
        name: "ollama",
        aliases: &[],
        credentials: &[],
        model: None,
        base_url: Some("http://127.0.0.1:11434"),
        base_url_variable: Some("OLLAMA_HOST"),
    },
    Row {
        provider: Provider::Cursor,
        name: "cursor",
        aliases: &[],
        credentials: &["CURSOR_API_KEY"],
        model: Some("composer-2.5"),
        base_url: None,
        base_url_variable: None,
    },
    Row {
        provider: Provider::ClaudeCode,
        name: "claude-code",
        aliases: &[],
        credentials: &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"],
        model: None,
        base_url: None,
        base_url_variable: None,
    },
    Row {
        provider: Provider::Command,
        name: "command",
        aliases: &[],
        credentials: &[],
        model: None,
        base_url: None,
        base_url_variable: None,
    },
    Row {
        provider: Provider::Replay,
        name: "replay",
        aliases: &[],
        credentials: &[],
        model: None,
        base_url: None,
        base_url_variable: None,
    },
];

/// A name that no provider has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no provider is named “{name}”; there are {}{}", names(), .nearest.map(|near| format!(": did you mean {near}?")).unwrap_or_default())]
pub struct UnknownProvider {
    /// What was asked for, at most 60 characters of it.
    pub name: String,
    /// The name that is closest, if one is close.
    pub nearest: Option<&'static str>,
}

fn names() -> String {
    TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

impl Provider {
    /// All of them, in the order in which one is looked for.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.provider)
    }

    /// The provider of a name or an alias, in any case.
    pub fn parse(name: &str) -> Result<Self, UnknownProvider> {
        let wanted = name.trim().to_lowercase();
        let row =
            TABLE.iter().find(|row| row.name == wanted || row.aliases.contains(&wanted.as_str()));
        row.map(|row| row.provider).ok_or_else(|| {
            let known = TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name]));
            UnknownProvider {
                nearest: nearest(&wanted, known),
                name: name.trim().chars().take(60).collect(),
            }
        })
    }

    /// The name, as in the config and on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Other names for it.
    pub fn aliases(self) -> &'static [&'static str] {
        self.row().aliases
    }

    /// The environment variables that may hold its credential, the first that is set counts. For the command-line
    /// agents these are their own: they are left to the program, and nobody else's.
    pub fn credential_variables(self) -> &'static [&'static str] {
        self.row().credentials
    }

    /// The model where nobody names one; `None`: the program's own, or the only one that an Ollama server has.
    pub fn default_model(self) -> Option<&'static str> {
        self.row().model
    }

    /// The address, for those that are servers.
    pub fn default_base_url(self) -> Option<&'static str> {
        self.row().base_url
    }

    /// The environment variable that names another address.
    pub fn base_url_variable(self) -> Option<&'static str> {
        self.row().base_url_variable
    }

    /// The server to speak to, with the format that goes with its address: OpenAI's own speaks Responses, any other in
    /// its place Chat Completions. `None` for those that are no servers.
    pub fn endpoint(self, base_url: Option<&str>, key: Option<String>) -> Option<Endpoint> {
        let default = self.default_base_url()?;
        let given = base_url.map(str::trim).filter(|url| !url.is_empty());
        let base_url = match (self, given) {
            (Self::Ollama, Some(host)) => ollama_address(host),
            (_, given) => given.unwrap_or(default).to_owned(),
        };
        let official = host_of(&base_url) == host_of(default);
        let wire = match self {
            Self::OpenAi if official => Wire::Responses,
            Self::OpenAi => Wire::Chat,
            Self::Anthropic => Wire::Messages,
            Self::Google => Wire::Gemini,
            _ => Wire::Ollama,
        };
        // Every Ollama server is one, wherever it is; but what its models say is up to them.
        Some(Endpoint { wire, base_url, key, official: official && self != Self::Ollama })
    }

    fn row(self) -> &'static Row {
        TABLE
            .iter()
            .find(|row| row.provider == self)
            .expect("every provider has a row; a test goes through them")
    }
}

/// Scheme and host, in one case.
fn host_of(url: &str) -> String {
    let end = url.find("://").map_or(0, |at| at + 3);
    let host = url[end..].find(['/', '?', '#']).map_or(url.len(), |at| end + at);
    url[..host].to_ascii_lowercase()
}

/// The address in `OLLAMA_HOST`, which may lack scheme, host or port, and may be the address to listen on.
///
/// `host` → `http://host:11434`; a scheme without a port means that scheme's own, as Ollama's client has it.
pub fn ollama_address(host: &str) -> String {
    let host = host.trim().trim_matches(['"', '\'']).trim_end_matches('/');
    let (scheme, rest) =
        host.split_once("://").map_or((None, host), |(scheme, rest)| (Some(scheme), rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (name, port) = match authority.rsplit_once(':') {
        // A bare IPv6 address holds colons, but no port.
        _ if authority.ends_with(']')
            || authority.matches(':').count() > 1 && !authority.starts_with('[') =>
        {
            (authority, None)
        }
        Some((name, port)) => (name, Some(port).filter(|port| port.parse::<u16>().is_ok())),
        None => (authority, None),
    };
    let name = match name {
        // What a server listens on is no address to call.
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

/// The nearest of some words, if it is near enough to be meant: a third of its letters may differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long word is near to nothing; this also bounds the work.
    if word.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|known| (distance(word, known), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Insertions, deletions and replacements of letters, a swap of two neighbours counting as two.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        for provider in Provider::all() {
            assert_eq!(Provider::parse(provider.name()), Ok(provider));
            for alias in provider.aliases() {
                assert_eq!(Provider::parse(alias), Ok(provider));
            }
        }
        assert_eq!(Provider::parse(" Gemini\n"), Ok(Provider::Google));
        let check = |name: &str, expect: &str| {
            assert_eq!(Provider::parse(name).unwrap_err().to_string(), expect);
        };
        let all = "openai, anthropic, google, ollama, cursor, claude-code, command, replay";
        check(
            "antropic",
            &format!("no provider is named “antropic”; there are {all}: did you mean anthropic?"),
        );
        check(
            "gemni",
            &format!("no provider is named “gemni”; there are {all}: did you mean gemini?"),
        );
        check("mistral", &format!("no provider is named “mistral”; there are {all}"));
        check("", &format!("no provider is named “”; there are {all}"));
    }

    #[test]
    fn the_address_decides_what_openai_speaks() {
        let check = |provider: Provider, base: Option<&str>, expect: (Wire, bool, &str)| {
            let endpoint = provider.endpoint(base, None).unwrap();
            assert_eq!((endpoint.wire, endpoint.official, endpoint.base_url.as_str()), expect);
        };
        let own = "https://api.openai.com/v1";
        check(Provider::OpenAi, None, (Wire::Responses, true, own));
        check(Provider::OpenAi, Some(" "), (Wire::Responses, true, own));
        check(
            Provider::OpenAi,
            Some("https://API.openai.com/v1/"),
            (Wire::Responses, true, "https://API.openai.com/v1/"),
        );
        check(
            Provider::OpenAi,
            Some("http://localhost:8000/v1"),
            (Wire::Chat, false, "http://localhost:8000/v1"),
        );
        check(
            Provider::OpenAi,
            Some("https://api.openai.com.evil/v1"),
            (Wire::Chat, false, "https://api.openai.com.evil/v1"),
        );
        check(Provider::Anthropic, None, (Wire::Messages, true, "https://api.anthropic.com"));
        check(
            Provider::Google,
            None,
            (Wire::Gemini, true, "https://generativelanguage.googleapis.com"),
        );
        check(Provider::Ollama, Some("box"), (Wire::Ollama, false, "http://box:11434"));
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

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
