//! The arguments of a call: words like `name=value` become JSON by the tool's schema, which is checked before anything is sent.
//!
//! ```text
//! word  = NAME '=' ( text | '@' FILE )          '@-' is stdin
//! ```
//! A schema comes from a server: nothing in it is trusted to be sensible, and references are followed a few times only.

use conversation::format::harmless::{escape_line, quote_name};
use models::schema::Schema;
use serde_json::{Map, Value, json};

/// Maximum number of references that are followed from a property.
const REFERENCES: usize = 8;
/// Maximum length of a description in a line, in characters.
const DESCRIPTION: usize = 300;
/// Maximum number of choices that are named.
const CHOICES: usize = 30;

/// Reads the arguments of a call. `read_file` reads what a word names after `@`.
pub fn read_arguments(
    words: &[String],
    json: Option<&str>,
    schema: &Value,
    read_file: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Map<String, Value>, String> {
    let mut arguments: Map<String, Value> = match json {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("--arguments is not a JSON object: {error}"))?,
        None => Map::new(),
    };
    let mut given = Vec::new();
    for word in words {
        let Some((name, text)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("{}: give arguments as name=value", quote_name(word)));
        };
        let property = find_property(schema, name)?;
        let text = match text.strip_prefix('@') {
            Some(path) => read_file(path).map_err(|why| format!("{name}: {why}"))?,
            None => text.to_owned(),
        };
        let value = convert(&text, schema, property).map_err(|why| {
            format!("{name} must be {why}, but is {}", escape_line(&text, DESCRIPTION))
        })?;
        let is_again = given.contains(&name);
        given.push(name);
        match (arguments.get_mut(name).filter(|_| is_again), value) {
            (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
            (Some(_), _) => return Err(format!("{name} is given twice")),
            (None, value) => _ = arguments.insert(name.to_owned(), value),
        }
    }
    // Some servers require what they have a default for.
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(default) = schema["properties"][name].get("default") {
            arguments.entry(name).or_insert_with(|| default.clone());
        }
    }
    Ok(arguments)
}

/// Checks arguments against the tool's schema: the mistakes, or a note that the schema cannot be used.
pub fn check_arguments(
    arguments: &Map<String, Value>,
    schema: &Value,
) -> Result<Option<String>, Vec<String>> {
    match Schema::new(schema.clone()) {
        Ok(schema) => schema.check(&Value::Object(arguments.clone()).to_string()).map(|_| None),
        Err(why) => Ok(Some(format!(
            "the tool's schema cannot be used, so only the server checks the arguments: {why}"
        ))),
    }
}

/// The schema of an argument. One that the tool does not have is most likely a slip.
fn find_property<'a>(schema: &'a Value, name: &str) -> Result<&'a Value, String> {
    let names = schema["properties"].as_object();
    let is_open = schema.get("patternProperties").is_some()
        || schema.get("additionalProperties").is_some_and(|more| *more != json!(false))
        || names.is_none();
    match names.and_then(|names| names.get(name)) {
        Some(property) => Ok(property),
        None if is_open => Ok(&Value::Null),
        None => {
            let names = names.into_iter().flat_map(Map::keys).take(CHOICES).map(quote_name);
            let names: Vec<String> = names.collect();
            Err(format!(
                "there is no argument {}; it takes: {}",
                quote_name(name),
                names.join(", ")
            ))
        }
    }
}

/// A schema without references, and the schemas that it offers as alternatives.
fn alternatives<'a>(root: &'a Value, schema: &'a Value, left: usize) -> Vec<&'a Value> {
    let target = schema["$ref"].as_str().and_then(|name| root.pointer(name.strip_prefix('#')?));
    let unions = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema[*key].as_array());
    let parts = unions.flatten().take(CHOICES).chain(target);
    let below = parts.filter(|_| left > 0).flat_map(|part| alternatives(root, part, left - 1));
    std::iter::once(schema).chain(below).take(1000).collect()
}

/// The names of the types that a schema allows, each once.
fn types<'a>(all: &[&'a Value]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for schema in all {
        let several = schema["type"].as_array().into_iter().flatten();
        let found = several.chain(schema.get("type")).filter_map(Value::as_str);
        found.for_each(|name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
    }
    names
}

fn choices<'a>(all: &[&'a Value]) -> Vec<&'a Value> {
    let several = all.iter().filter_map(|schema| schema["enum"].as_array()).flatten();
    several.chain(all.iter().filter_map(|schema| schema.get("const"))).collect()
}

/// A text as the value that a schema wants; or what it wants.
fn convert(text: &str, root: &Value, schema: &Value) -> Result<Value, String> {
    let all = alternatives(root, schema, REFERENCES);
    let (types, choices) = (types(&all), choices(&all));
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let is_wanted = |value: &Value| match value {
        Value::Null => types.contains(&"null"),
        Value::Bool(_) => types.contains(&"boolean"),
        Value::Number(number) => {
            types.contains(&"number") || types.contains(&"integer") && !number.is_f64()
        }
        Value::Array(_) => types.contains(&"array"),
        Value::Object(_) => types.contains(&"object"),
        Value::String(_) => false,
    };
    if types.is_empty() {
        let is_choice = |value: &Value| choices.is_empty() || choices.contains(&value);
        return Ok(parsed.filter(is_choice).unwrap_or_else(|| text.into()));
    }
    if let Some(value) = parsed.filter(is_wanted) {
        return Ok(value);
    }
    if types.contains(&"string") {
        return Ok(text.into());
    }
    if types.contains(&"array") {
        let items = all.iter().find_map(|schema| schema.get("items")).unwrap_or(&Value::Null);
        return convert(text, root, items).map(|item| json!([item]));
    }
    Err(describe_type(root, schema))
}

/// The type of an argument in a word or two.
fn describe_type(root: &Value, schema: &Value) -> String {
    let all = alternatives(root, schema, REFERENCES);
    let choices = choices(&all);
    if !choices.is_empty() {
        let text = |value: &&Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let words: Vec<String> = choices.iter().take(CHOICES).map(text).collect();
        return escape_line(&words.join("|"), DESCRIPTION);
    }
    let names = types(&all).into_iter().filter(|name| *name != "null");
    let names = names.map(|name| match name {
        "array" => "list (repeat it, or JSON)",
        "object" => "JSON object",
        "boolean" => "true|false",
        name => name,
    });
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "any value".to_owned()
    } else {
        escape_line(&names.join(" or "), DESCRIPTION)
    }
}

/// The help of a tool: its description, and a line or two for each argument.
pub fn describe_tool(server: &str, tool: &Value) -> String {
    let (schema, name) = (&tool["inputSchema"], tool["name"].as_str().unwrap_or_default());
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let no_names = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_names);
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| !required.contains(&name.as_str()));
    let (server, name) = (quote_name(server), quote_name(name));
    let mut usage = format!("nagent-mcp call {server} {name}");
    let mut lines = String::new();
    for (name, property) in properties {
        let is_required = required.contains(&name.as_str());
        let (name, kind) = (quote_name(name), describe_type(schema, property));
        usage.push_str(&if is_required { format!(" {name}=...") } else { String::new() });
        let mark = if is_required { ", required" } else { "" };
        lines.push_str(&format!("\n  {name}=  {kind}{mark}"));
        if let Some(default) = property.get("default") {
            lines.push_str(&format!(", else {}", escape_line(&default.to_string(), DESCRIPTION)));
        }
        if let Some(text) = property["description"].as_str() {
            lines.push_str(&format!("\n      {}", escape_line(text, DESCRIPTION * 4)));
        }
    }
    let about = tool["description"].as_str().unwrap_or_default().trim();
    let hint = if is_read_only(tool) { "\n\nThe server says that it only reads." } else { "" };
    let head = if lines.is_empty() { "\n\nIt takes no arguments." } else { "\n\nArguments:" };
    format!("{about}{hint}\n\nUsage: {usage}{head}{lines}\n").trim_start().to_owned()
}

/// A tool on a line.
pub fn list_line(tool: &Value) -> String {
    let name = quote_name(tool["name"].as_str().unwrap_or_default());
    let about = tool["description"].as_str().or(tool["title"].as_str()).unwrap_or_default();
    let hint = if is_read_only(tool) { " (says it only reads)" } else { "" };
    format!("{name}{hint}  {}", escape_line(about, 160)).trim_end().to_owned()
}

/// What the server says of the tool. It is shown, and nothing is decided by it.
fn is_read_only(tool: &Value) -> bool {
    tool["annotations"]["readOnlyHint"] == json!(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_what_the_schema_wants() {
        let schema = json!({"type": "object", "required": ["s"], "$defs": {"loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "integer"}]}},
            "properties": {"s": {"type": "string"}, "n": {"type": "number"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
            "e": {"enum": ["x", 2]}, "o": {"type": "object"}, "l": {"type": "array", "items": {"type": "integer"}}, "r": {"$ref": "#/$defs/loop"},
            "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "any": {}}});
        let read = |words: &[&str], json: Option<&str>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut file = |path: &str| {
                if path == "f" { Ok("text".to_owned()) } else { Err("no such file".to_owned()) }
            };
            read_arguments(&words, json, &schema, &mut file).map(Value::Object)
        };
        let check =
            |words: &[&str], expect: Value| assert_eq!(read(words, None), Ok(expect), "{words:?}");
        check(&["s=5", "n=1.5", "i=-2", "b=true"], json!({"s": "5", "n": 1.5, "i": -2, "b": true}));
        check(&["e=x"], json!({"e": "x"}));
        check(&["e=2", "r=7", "u=null", "any=[1]"], json!({"e": 2, "r": 7, "u": null, "any": [1]}));
        check(
            &["l=1", "l=2", "l=[3,4]", "o={\"a\":1}", "any=b c"],
            json!({"l": [1, 2, 3, 4], "o": {"a": 1}, "any": "b c"}),
        );
        check(&["s=@f", "u=a=b"], json!({"s": "text", "u": "a=b"}));
        assert_eq!(read(&["n=2"], Some(r#"{"s": "a", "n": 1}"#)), Ok(json!({"s": "a", "n": 2})));
        for (words, why) in [
            (&["s"][..], "name=value"),
            (&["i=1.5"], "i must be integer"),
            (&["b=yes"], "true|false"),
            (&["l=x"], "must be integer"),
            (&["zz=1"], "no argument zz"),
            (&["s=1", "s=2"], "twice"),
            (&["s=@no"], "no such file"),
        ] {
            let error = read(words, None).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
        let defaults =
            json!({"required": ["d"], "properties": {"d": {"type": "integer", "default": 3}}});
        let with_default = read_arguments(&[], None, &defaults, &mut |_| Err(String::new()));
        assert_eq!(with_default.map(Value::Object), Ok(json!({"d": 3})));
        let object = |value: Value| value.as_object().unwrap().clone();
        assert_eq!(check_arguments(&object(json!({"d": 1})), &defaults), Ok(None));
        assert!(
            check_arguments(&object(json!({})), &defaults).unwrap_err()[0].contains("required")
        );
        assert!(
            check_arguments(&object(json!({})), &schema).unwrap().unwrap().contains("#/$defs/loop")
        );
        assert!(check_arguments(&object(json!({})), &json!({"type": 3})).unwrap().is_some());
        let help = describe_tool(
            "a b",
            &json!({"name": "t\u{1b}", "description": "Does it.", "inputSchema": schema}),
        );
        assert!(
            help.contains("nagent-mcp call a b $'t\\033' s=...") && help.contains("e=  x|2"),
            "{help}"
        );
    }
}
