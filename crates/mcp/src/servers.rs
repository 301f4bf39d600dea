//! `mcp.json`: the servers that a user or a repository names, in the form that Claude Code, Cursor and VS Code share.
//!
//! ```text
//! {"mcpServers": {NAME: {"command": WORD, "args": [WORD], "env": {NAME: VALUE}, "cwd": DIR}
//!                     | {"url": URL, "headers": {NAME: VALUE}, "key_command": [WORD]}}}
//! ```
//! `${VAR}` and `${VAR:-default}` are replaced in all values. Members that other programs have are ignored.

use std::collections::BTreeMap;

use conversation::format::harmless::quote_name;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
    /// Its working folder, that of the run otherwise.
    pub cwd: Option<String>,
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
    let read = |mut value: Value| {
        expand(&mut value, lookup)?;
        if value["type"] == "sse" {
            return Err("the transport sse is not supported, only \"http\"".to_owned());
        }
        let server: Definition =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        if server.command.is_some() == server.url.is_some() {
            return Err("it needs either \"command\" or \"url\"".to_owned());
        }
        Ok(server)
    };
    let servers = std::mem::take(named_servers(&mut file)?);
    Ok(servers.into_iter().map(|(name, value)| (name, read(value))).collect())
}

/// The file with a server added or replaced.
pub fn add_server(text: &str, name: &str, definition: Value) -> Result<String, String> {
    let mut file = parse_file(if text.trim().is_empty() { "{}" } else { text })?;
    named_servers(&mut file)?.insert(name.to_owned(), definition);
    Ok(format!("{:#}\n", Value::Object(file)))
}

fn parse_file(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("not a JSON object: {error}"))
}

fn named_servers(file: &mut Map<String, Value>) -> Result<&mut Map<String, Value>, String> {
    let servers = file.entry("mcpServers").or_insert_with(|| json!({}));
    servers.as_object_mut().ok_or_else(|| "\"mcpServers\" is not an object".to_owned())
}

/// Replaces variables in all texts of a value.
fn expand(value: &mut Value, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match value {
        Value::String(text) => *text = expand_text(text, lookup)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| expand(item, lookup))?,
        Value::Object(members) => {
            members.values_mut().try_for_each(|member| expand(member, lookup))?;
        }
        _ => {}
    }
    Ok(())
}

fn expand_text(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, (inner, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        let (name, default) =
            inner.split_once(":-").map_or((inner, None), |(name, text)| (name, Some(text)));
        let value = lookup(name).or_else(|| default.map(str::to_owned));
        out.push_str(before);
        out.push_str(
            &value.ok_or_else(|| format!("the variable {} is not set", quote_name(name)))?,
        );
        rest = after;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_form_is_read() {
        let lookup = |name: &str| (name == "KEY").then(|| "k}".to_owned());
        let read = |text: &str| parse_servers(text, &lookup);
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${KEY}", "${NO:-d}${KEY}", "${"], "env": {"A": "$KEY"}, "autoApprove": []},
            "b": {"url": "http://h", "type": "http", "headers": {"H": "Bearer ${NO}"}}}}"#;
        let servers = read(text).unwrap();
        let a = servers["a"].clone().unwrap();
        assert_eq!(a.args, ["k}", "dk}", "${"]);
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
        let added = add_server(text, "n", json!({"command": "d"})).unwrap();
        let value: Value = serde_json::from_str(&added).unwrap();
        let expect = json!({"b": {}, "a": {"command": "c", "y": 2}, "n": {"command": "d"}});
        assert_eq!(value, json!({"x": 1, "mcpServers": expect}));
        assert!(add_server("", "n", json!({})).unwrap().contains("mcpServers"));
        assert!(add_server("[]", "n", json!({})).is_err());
    }
}
