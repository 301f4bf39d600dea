//! Files with credentials: `NAME=VALUE` lines, as shells and other tools read them. Nothing but credentials is taken from one.
//!
//! ```text
//! line = ["export "] NAME "=" value       value = text | "text" | 'text'       # begins a comment line
//! ```

use models::provider::Provider;
use models::server::SERVERS;

/// A name that other tools use for `ANTHROPIC_API_KEY`.
pub(super) const OTHER_NAME: &str = "TS_AGENT_API_KEY";

/// The credentials in the text of a file: variables that a provider reads, their names in the file, and values.
pub(super) fn parse_credentials(text: &str) -> Vec<(&'static str, &str, &str)> {
    let of_servers = SERVERS.iter().map(|server| server.key_variable);
    let of_providers = Provider::iter().flat_map(Provider::credential_variables).copied();
    let known: Vec<&'static str> = of_providers.chain(of_servers).collect();
    let lines = text.trim_start_matches('\u{feff}').lines();
    let found = lines.filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        let given = name.trim();
        let name = if given == OTHER_NAME { "ANTHROPIC_API_KEY" } else { given };
        let name = known.iter().find(|known| **known == name)?;
        let value = value.trim();
        let quoted = ['"', '\'']
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        let value = quoted.unwrap_or(value);
        (!value.is_empty()).then_some((*name, given, value))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_credentials_are_taken() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found = parse_credentials(text);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(name, _, value)| (*name, *value)).collect();
            assert_eq!(found, expect);
        };
        check("OPENAI_API_KEY=a", &[("OPENAI_API_KEY", "a")]);
        check("# x\r\n\r\nexport OPENAI_API_KEY = \"a b\" \r\n", &[("OPENAI_API_KEY", "a b")]);
        check("TS_AGENT_API_KEY='k'\n", &[("ANTHROPIC_API_KEY", "k")]);
        check("\u{feff}GEMINI_API_KEY=a=b\n", &[("GEMINI_API_KEY", "a=b")]);
        check("GROQ_API_KEY=g\n", &[("GROQ_API_KEY", "g")]);
        check("PATH=/x\nOPENAI_BASE_URL=http://x\nLD_PRELOAD=x\nOPENAI_API_KEY=\n", &[]);
        check("#OPENAI_API_KEY=a\nOPENAI_API_KEY\n\"", &[]);
    }
}
