//! The arguments of a call: words like `name=value` become JSON by the tool's schema, which is checked before anything is sent.
//!
//! A schema comes from a server: nothing in it is trusted to be sensible.

use conversation::format::harmless::{escape_line, quote_name};
use models::schema::Schema;
use serde_json::{Map, Value, json};

/// Maximum length of a type or a default in a line, in characters.
const LINE: usize = 300;

/// Arguments, and a note if the schema cannot be used.
type Read = (Map<String, Value>, Option<String>);

/// Reads and checks the arguments of a call. The error has the mistakes.
pub fn read_arguments(words: &[String], schema: &Value) -> Result<Read, String> {
    let mut strict = schema.clone();
    // A name that the tool does not have is most likely a slip.
    if let Some(members) = strict.as_object_mut().filter(|it| it.contains_key("properties")) {
        members.entry("additionalProperties").or_insert(json!(false));
    }
    let (checker, note) = match Schema::new(strict) {
        Ok(checker) => (Some(checker), None),
        Err(why) => (None, Some(format!("only the server checks the arguments: {why}"))),
    };
    let mut arguments = Map::new();
    for word in words {
        let Some((name, text)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("{}: give arguments as name=value", quote_name(word)));
        };
        if arguments.insert(name.to_owned(), convert(name, text, checker.as_ref())).is_some() {
            return Err(format!("{} is given twice", quote_name(name)));
        }
    }
    // Some servers require what they have a default for.
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(default) = schema["properties"][name].get("default") {
            arguments.entry(name).or_insert_with(|| default.clone());
        }
    }
    let mistakes = checker.map_or(Vec::new(), |checker| find_mistakes(&checker, &arguments));
    if mistakes.is_empty() { Ok((arguments, note)) } else { Err(mistakes.join("; ")) }
}

fn find_mistakes(checker: &Schema, arguments: &Map<String, Value>) -> Vec<String> {
    checker.check(&json!(arguments).to_string()).err().unwrap_or_default()
}

/// A text as the first value that the schema allows for this argument: as JSON, as text, as a list of it.
fn convert(name: &str, text: &str, checker: Option<&Schema>) -> Value {
    let json: Option<Value> =
        serde_json::from_str(text).ok().filter(|json: &Value| !json.is_string());
    let one = json.iter().cloned().chain([json!(text)]);
    let mut candidates = one.clone().chain(one.map(|one| json!([one])));
    let is_allowed = |value: &Value| {
        let argument = Map::from_iter([(name.to_owned(), value.clone())]);
        let mistakes = checker.map(|checker| find_mistakes(checker, &argument)).unwrap_or_default();
        // Mistakes of the whole, such as a missing argument, have no path.
        !mistakes.iter().any(|mistake| mistake.starts_with('/'))
    };
    candidates.find(is_allowed).unwrap_or_else(|| json.unwrap_or_else(|| text.into()))
}

/// The help of a tool: its description, and a line or two for each argument.
pub fn describe_tool(server: &str, tool: &Value) -> String {
    let (schema, name) = (&tool["inputSchema"], tool["name"].as_str().unwrap_or_default());
    let mut usage = format!("nagent-mcp call {} {}", quote_name(server), quote_name(name));
    let mut lines = String::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required =
            schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        let name = quote_name(name);
        lines.push_str(&format!("\n  {name}=  {}", describe_type(property)));
        if is_required {
            usage.push_str(&format!(" {name}=..."));
            lines.push_str(", required");
        }
        if let Some(default) = property.get("default") {
            lines.push_str(&format!(", else {}", escape_line(&default.to_string(), LINE)));
        }
        if let Some(text) = property["description"].as_str() {
            lines.push_str(&format!("\n      {}", escape_line(text, LINE * 4)));
        }
    }
    let about = tool["description"].as_str().unwrap_or_default().trim();
    let hint = if is_read_only(tool) { "\n\nThe server says that it only reads." } else { "" };
    format!("{about}{hint}\n\nUsage: {usage}\n{lines}\n").trim_start().to_owned()
}

/// The type of an argument: its choices, its name, or its schema.
fn describe_type(property: &Value) -> String {
    let plain = property["type"].as_str().filter(|name| !matches!(*name, "array" | "object"));
    let text = match (property["enum"].as_array(), plain) {
        (Some(choices), _) => choices.iter().map(Value::to_string).collect::<Vec<_>>().join("|"),
        (None, Some(name)) => name.to_owned(),
        (None, None) => {
            let mut schema = property.as_object().cloned().unwrap_or_default();
            schema.retain(|key, _| key != "description" && key != "default");
            Value::Object(schema).to_string()
        }
    };
    escape_line(&text, LINE)
}

/// A tool on a line.
pub fn list_line(tool: &Value) -> String {
    let name = quote_name(tool["name"].as_str().unwrap_or_default());
    let about = tool["description"].as_str().unwrap_or_default();
    let hint = if is_read_only(tool) { " (says it only reads)" } else { "" };
    format!("{name}{hint}  {}", escape_line(about, 160)).trim_end().to_owned()
}

/// Whether the server says that the tool only reads. It is shown, and nothing is decided by it.
fn is_read_only(tool: &Value) -> bool {
    tool["annotations"]["readOnlyHint"] == json!(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_what_the_schema_wants() {
        let schema = json!({"type": "object", "required": ["s"], "$defs": {"num": {"anyOf": [{"$ref": "#/$defs/int"}, {"type": "null"}]}, "int": {"type": "integer"}},
            "properties": {"s": {"type": "string"}, "n": {"type": "number"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
            "e": {"enum": ["x", 2]}, "o": {"type": "object"}, "l": {"type": "array", "items": {"type": "integer"}}, "r": {"$ref": "#/$defs/num"},
            "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "w": {"type": "array", "items": {"type": "string"}}, "any": {}}});
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            read_arguments(&words, &schema).map(|(read, note)| (Value::Object(read), note))
        };
        let check = |words: &[&str], expect: Value| {
            assert_eq!(read(words), Ok((expect, None)), "{words:?}");
        };
        check(&["s=5", "n=1.5", "i=-2", "b=true"], json!({"s": "5", "n": 1.5, "i": -2, "b": true}));
        check(&["s=", "e=x"], json!({"s": "", "e": "x"}));
        check(&["s={\"a\":1}", "e=2", "r=7"], json!({"s": "{\"a\":1}", "e": 2, "r": 7}));
        check(
            &["s=a", "r=null", "u=null", "any=[1]"],
            json!({"s": "a", "r": null, "u": null, "any": [1]}),
        );
        check(
            &["s=a", "l=[3,4]", "w=5", "o={\"a\":1}"],
            json!({"s": "a", "l": [3, 4], "w": ["5"], "o": {"a": 1}}),
        );
        check(&["s=a", "l=3", "u=a=b"], json!({"s": "a", "l": [3], "u": "a=b"}));
        for (words, why) in [
            (&["s"][..], "name=value"),
            (&["s=a", "i=1.5"], "/i: 1.5 is not of type \"integer\""),
            (&["s=a", "b=yes"], "/b: \"yes\" is not of type \"boolean\""),
            (&["s=a", "l=x"], "/l: "),
            (&["s=a", "zz=1"], "'zz' was unexpected"),
            (&["s=1", "s=2"], "twice"),
            (&[], "\"s\" is a required property"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
        let defaults =
            json!({"required": ["d"], "properties": {"d": {"type": "integer", "default": 3}}});
        let with_default = read_arguments(&[], &defaults).map(|(read, _)| Value::Object(read));
        assert_eq!(with_default, Ok(json!({"d": 3})));
        let (read, note) = read_arguments(&["x=1".to_owned()], &json!({"type": 3})).unwrap();
        assert!(read["x"] == 1 && note.is_some());
        let tool = json!({"name": "t\u{1b}", "description": "Does it.", "inputSchema": schema});
        let help = describe_tool("a b", &tool);
        assert!(
            help.contains("nagent-mcp call a b $'t\\033' s=...") && help.contains("e=  \"x\"|2"),
            "{help}"
        );
    }
}
