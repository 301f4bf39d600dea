//! `mcp.json`: the servers that a user or a repository names, in the form that Claude Code, Cursor and VS Code share.
//!
//! ```text
//! {"mcpServers": {NAME: {"command": WORD, "args": [WORD], "env": {NAME: VALUE}}
//!                     | {"url": URL, "headers": {NAME: VALUE}, "key_command": [WORD]}}}
//! ```
//! `${VAR}` and `${VAR:-default}` are replaced in all values. Members that other programs have are ignored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(\w+)(?::-([^}]*))?\}").expect("a constant pattern"));

/// How a server is started or reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment, in addition to those of commands.
    pub env: BTreeMap<String, String>,
    /// Its address.
    pub url: Option<String>,
    /// Headers for each request.
    pub headers: BTreeMap<String, String>,
    /// A command that prints a bearer token.
    pub key_command: Option<Vec<String>>,
}

/// The servers by name; or why one cannot be used.
pub type Servers = BTreeMap<String, Result<Definition, String>>;

/// Reads a file's servers. The error says what is wrong with the file as a whole.
pub fn parse_servers(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Servers, String> {
    let mut file = parse_file(text)?;
    let read = |value: Value| {
        if value["type"] == "sse" {
            return Err("the transport sse is not supported, only \"http\"".to_owned());
        }
        let server: Definition =
            serde_json::from_str(&expand(&value, lookup)?).map_err(|error| error.to_string())?;
        if server.command.is_some() == server.url.is_some() {
            return Err("it needs either \"command\" or \"url\"".to_owned());
        }
        Ok(server)
    };
    let servers = std::mem::take(named_servers(&mut file)?);
    Ok(servers.into_iter().map(|(name, value)| (name, read(value))).collect())
}

/// The file with a server added or replaced, or without it.
pub fn set_server(text: &str, name: &str, definition: Option<Value>) -> Result<String, String> {
    let mut file = parse_file(text)?;
    let servers = named_servers(&mut file)?;
    match definition {
        Some(definition) => servers.insert(name.to_owned(), definition),
        None => Some(servers.remove(name).ok_or("it has no server of this name")?),
    };
    Ok(format!("{:#}\n", Value::Object(file)))
}

fn parse_file(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    serde_json::from_str(if text.is_empty() { "{}" } else { text })
        .map_err(|error| format!("not a JSON object: {error}"))
}

fn named_servers(file: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, String> {
    let servers = file.entry("mcpServers").or_insert_with(|| json!({}));
    servers.as_object_mut().ok_or_else(|| "\"mcpServers\" is not an object".to_owned())
}

/// The JSON of a value with its variables replaced.
fn expand(value: &Value, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut missing = None;
    let text = value.to_string();
    let text = VARIABLE.replace_all(&text, |found: &Captures<'_>| {
        // The default is a part of the JSON already.
        let default = found.get(2).map(|text| text.as_str().to_owned());
        let value = lookup(&found[1]).map(|value| json!(value).to_string());
        let quoted =
            value.and_then(|json| Some(json.strip_prefix('"')?.strip_suffix('"')?.to_owned()));
        quoted.or(default).unwrap_or_else(|| {
            missing = Some(format!("the variable {} is not set", &found[1]));
            String::new()
        })
    });
    missing.map_or_else(|| Ok(text.into_owned()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_form_is_read() {
        let lookup = |name: &str| (name == "KEY").then(|| "k}\"".to_owned());
        let read = |text: &str| parse_servers(text, &lookup);
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${KEY}", "${NO:-d}${KEY}", "${"], "env": {"A": "$KEY"}, "autoApprove": []},
            "b": {"url": "http://h", "type": "http", "headers": {"H": "Bearer ${NO}"}}}}"#;
        let servers = read(text).unwrap();
        let a = servers["a"].clone().unwrap();
        assert_eq!(a.args, ["k}\"", "dk}\"", "${"]);
        assert_eq!(a.env["A"], "$KEY");
        assert_eq!(servers["b"], Err("the variable NO is not set".to_owned()));
        assert_eq!(servers.len(), 2);
        assert!(
            read("{}").unwrap().is_empty()
                && read("[]").is_err()
                && read(r#"{"mcpServers": 1}"#).is_err()
        );
        for (wrong, why) in [
            (r#"{}"#, "either"),
            (r#"{"command": "a", "url": "b"}"#, "either"),
            (r#"{"url": "b", "type": "sse"}"#, "sse"),
            (r#"{"command": 1}"#, "invalid type"),
        ] {
            let servers = read(&format!("{{\"mcpServers\": {{\"x\": {wrong}}}}}")).unwrap();
            let error = servers["x"].clone().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_addition_leaves_the_rest() {
        let text = r#"{"x": 1, "mcpServers": {"b": {}, "a": {"command": "c", "y": 2}}}"#;
        let added = set_server(text, "n", Some(json!({"command": "d"}))).unwrap();
        let value: Value = serde_json::from_str(&added).unwrap();
        let expect = json!({"b": {}, "a": {"command": "c", "y": 2}, "n": {"command": "d"}});
        assert_eq!(value, json!({"x": 1, "mcpServers": expect}));
        let removed = set_server(&added, "n", None).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&removed).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert!(set_server(&removed, "n", None).is_err());
        assert!(set_server("", "n", Some(json!({}))).unwrap().contains("mcpServers"));
        assert!(set_server("[]", "n", Some(json!({}))).is_err());
    }
}
