//! `mcp.json`: the servers that a user or a repository names, in the form that Claude Code, Cursor and VS Code share.
//!
//! ```text
//! {"mcpServers": {NAME: {"command": WORD, "args": [WORD], "env": {NAME: VALUE}, "cwd": DIR}
//!                     | {"url": URL, "headers": {NAME: VALUE}, "key_command": [WORD]}}}
//! ```
//! VS Code's key is `servers`. `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${workspaceFolder}` are replaced in all values.
//! Members that other programs have are ignored.

use std::collections::BTreeMap;

use conversation::format::harmless::quote_name;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How a server is started or reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// `stdio` or `http`, where it is not plain.
    #[serde(rename = "type")]
    pub kind: Option<String>,
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
    /// Whether it is turned off.
    pub disabled: bool,
}

/// The servers by name; or why one cannot be used.
pub type Servers = BTreeMap<String, Result<Definition, String>>;

/// Reads a file's servers. The error says what is wrong with the file as a whole.
pub fn parse_servers(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Servers, String> {
    let file = parse_file(text)?;
    let Some(named) = named_servers(&file) else { return Ok(Servers::new()) };
    let named = named.as_object().ok_or("its servers are not an object")?;
    let read = |value: &Value| {
        let mut value = value.clone();
        expand(&mut value, lookup)?;
        let definition: Definition =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        definition.check().map(|()| definition)
    };
    let is_on = |(_, value): &(&String, &Value)| value["disabled"] != json!(true);
    Ok(named.iter().filter(is_on).map(|(name, value)| (name.clone(), read(value))).collect())
}

/// The file with a server added, replaced, or removed; `None` if there is none of this name to remove.
pub fn change_server(
    text: &str,
    name: &str,
    definition: Option<Value>,
) -> Result<Option<String>, String> {
    let mut file = parse_file(if text.trim().is_empty() { "{}" } else { text })?;
    let key = if file.contains_key("mcpServers") || !file.contains_key("servers") {
        "mcpServers"
    } else {
        "servers"
    };
    let named = file.entry(key).or_insert_with(|| json!({}));
    let named = named.as_object_mut().ok_or("its servers are not an object")?;
    let had = named.contains_key(name);
    match definition {
        Some(definition) => _ = named.insert(name.to_owned(), definition),
        None if had => _ = named.shift_remove(name),
        None => return Ok(None),
    }
    serde_json::to_string_pretty(&file)
        .map(|text| Some(text + "\n"))
        .map_err(|error| error.to_string())
}

fn parse_file(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("not a JSON object: {error}"))
}

fn named_servers(file: &Map<String, Value>) -> Option<&Value> {
    file.get("mcpServers").or_else(|| file.get("servers"))
}

impl Definition {
    fn check(&self) -> Result<(), String> {
        let kind = self.kind.as_deref().unwrap_or_default();
        match (&self.command, &self.url, kind) {
            (.., "sse") => {
                Err("the transport sse is not supported; most servers also have \"http\""
                    .to_owned())
            }
            (Some(_), Some(_), _) => Err("it has both \"command\" and \"url\"".to_owned()),
            (None, None, _) => Err("it has neither \"command\" nor \"url\"".to_owned()),
            (Some(_), None, "" | "stdio") if self.key_command.is_some() => {
                Err("\"key_command\" goes with \"url\"; give the key in \"env\"".to_owned())
            }
            (Some(_), None, "" | "stdio")
            | (None, Some(_), "" | "http" | "streamable-http" | "streamableHttp") => Ok(()),
            _ => Err(format!(
                "its type is {}, but stdio goes with \"command\" and http with \"url\"",
                quote_name(kind)
            )),
        }
    }
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
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else { break };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = lookup(name).or(default);
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
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${KEY}", "${NO:-d}${env:KEY}", "${"], "env": {"A": "$KEY"}, "autoApprove": []},
            "b": {"url": "http://h", "type": "http", "headers": {"H": "Bearer ${NO}"}}, "off": {"disabled": true}}}"#;
        let servers = read(text).unwrap();
        let a = servers["a"].clone().unwrap();
        assert_eq!(a.args, ["k}", "dk}", "${"]);
        assert_eq!(a.env["A"], "$KEY");
        assert_eq!(servers["b"], Err("the variable NO is not set".to_owned()));
        assert_eq!(servers.len(), 2);
        assert_eq!(
            read(r#"{"servers": {"v": {"type": "stdio", "command": "x"}}}"#).unwrap().len(),
            1
        );
        assert!(
            read("{}").unwrap().is_empty()
                && read("[]").is_err()
                && read(r#"{"servers": 1}"#).is_err()
        );
        for (wrong, why) in [
            (r#"{}"#, "neither"),
            (r#"{"command": "a", "url": "b"}"#, "both"),
            (r#"{"url": "b", "type": "sse"}"#, "sse"),
            (r#"{"command": "b", "type": "http"}"#, "stdio goes with"),
            (r#"{"command": 1}"#, "invalid type"),
            (r#"{"command": "a", "key_command": ["b"]}"#, "goes with \"url\""),
        ] {
            let servers = read(&format!("{{\"mcpServers\": {{\"x\": {wrong}}}}}")).unwrap();
            let error = servers["x"].clone().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_change_leaves_the_rest() {
        let text = r#"{"x": 1, "servers": {"b": {}, "a": {"command": "c", "y": 2}}}"#;
        let added = change_server(text, "n", Some(json!({"command": "d"}))).unwrap().unwrap();
        let removed = change_server(&added, "b", None).unwrap().unwrap();
        let value: Value = serde_json::from_str(&removed).unwrap();
        assert_eq!(
            value,
            json!({"x": 1, "servers": {"a": {"command": "c", "y": 2}, "n": {"command": "d"}}})
        );
        assert_eq!(change_server(text, "no", None), Ok(None));
        assert!(change_server("", "n", Some(json!({}))).unwrap().unwrap().contains("mcpServers"));
    }
}
