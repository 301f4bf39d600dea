//! A JSON Schema for an answer: checked before any request, validated against every answer, sent to providers that
//! accept one.

use std::collections::{BTreeMap, HashSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use conversation::format::code_block::find_code_block;
use conversation::format::harmless::truncate;
use conversation::format::json_members::find_repeated_members;

/// Maximum number of errors of an answer that are named; usually one of these causes the rest.
const MAX_ERRORS: usize = 20;
/// Maximum length of an error, in characters: it may quote the answer.
const MAX_ERROR: usize = 300;

/// A schema that answers can be validated against.
#[derive(Debug)]
pub struct Schema {
    /// The schema as the user gave it.
    pub value: Value,
    validator: Validator,
}

impl Schema {
    /// Parses a schema. The error describes the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("not valid JSON: {error}"))?;
        Self::new(value)
    }

    /// Checks a schema.
    pub fn new(value: Value) -> Result<Self, String> {
        if !value.is_object() && !value.is_boolean() {
            return Err("not a JSON Schema: it must be an object".to_owned());
        }
        if let Some(why) = find_contradiction(&value, "") {
            return Err(format!("it allows no answer at all: {why}"));
        }
        if let Some(place) = find_endless_reference(&value) {
            return Err(format!("the schema at {place} refers to itself without end"));
        }
        let validator = jsonschema::validator_for(&value).map_err(|error| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
            format!("not a valid JSON Schema{place}: {error}")
        })?;
        Ok(Self { value, validator })
    }

    /// Validates an answer. Returns its JSON, without a code block around it, and its value; or all mistakes.
    pub fn check(&self, answer: &str) -> Result<(String, Value), Vec<String>> {
        let answer = answer.trim();
        let is_block = answer.starts_with("```") || answer.starts_with("~~~");
        let block = if is_block { find_code_block(answer) } else { None };
        let text = block.as_deref().map_or(answer, str::trim);
        let value: Value = serde_json::from_str(text).map_err(|error| {
            vec![format!("it is not valid JSON, or has other text around it: {error}")]
        })?;
        // Readers do not agree on which of the two duplicates counts.
        let repeated = find_repeated_members(text).into_iter();
        let repeated = repeated.map(|place| truncate(&format!("{place} appears twice"), MAX_ERROR));
        let describe = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the whole".to_owned() } else { path };
            truncate(&format!("{place}: {error}"), MAX_ERROR)
        };
        let invalid = self.validator.iter_errors(&value).map(describe);
        let errors: Vec<String> = repeated.chain(invalid).take(MAX_ERRORS).collect();
        if errors.is_empty() { Ok((text.to_owned(), value)) } else { Err(errors) }
    }
}

/// Describes the form of the answer for the model.
pub fn describe_form(schema: &Value) -> String {
    format!("Answer with JSON alone, valid against this JSON Schema:\n{schema}")
}

/// Describes all errors of an invalid answer for the model.
pub fn describe_errors(errors: &[String]) -> String {
    format!(
        "That is not valid against the JSON Schema:\n- {}\nSend the whole JSON again, corrected, and nothing else.",
        errors.join("\n- ")
    )
}

/// Bounds that may contradict each other, with the type that they apply to; values of other types ignore them.
const BOUNDS: [(&str, &str, &str); 5] = [
    ("number", "minimum", "maximum"),
    ("integer", "minimum", "maximum"),
    ("string", "minLength", "maxLength"),
    ("array", "minItems", "maxItems"),
    ("object", "minProperties", "maxProperties"),
];

/// Finds a contradiction between neighbouring members of a schema, with which no answer can be valid. It does not find
/// every one.
fn find_contradiction(schema: &Value, at: &str) -> Option<String> {
    let place = if at.is_empty() { String::new() } else { format!(" at {at}") };
    let not = &schema["not"];
    let is_empty = |key: &str| schema[key].as_array().is_some_and(Vec::is_empty);
    if *schema == json!(false) {
        return Some(format!("it is false{place}"));
    }
    if *not == json!(true) || not.as_object().is_some_and(serde_json::Map::is_empty) {
        return Some(format!("\"not\" excludes everything{place}"));
    }
    if let Some(key) = ["enum", "type", "anyOf", "oneOf"].into_iter().find(|key| is_empty(key)) {
        return Some(format!("\"{key}\" is empty{place}"));
    }
    for (of, least, most) in BOUNDS.into_iter().filter(|(of, ..)| schema["type"] == **of) {
        let is_above =
            schema[least].as_f64().zip(schema[most].as_f64()).is_some_and(|(a, b)| a > b);
        if is_above {
            return Some(format!("\"{least}\" is above \"{most}\" in {of}s{place}"));
        }
    }
    if schema["type"] == "object"
        && let Some(why) = find_impossible_member(schema, at)
    {
        return Some(why);
    }
    let all = (0..).zip(schema["allOf"].as_array().into_iter().flatten());
    all.into_iter().find_map(|(index, part): (usize, _)| {
        find_contradiction(part, &format!("{at}/allOf/{index}"))
    })
}

/// Finds a member that an object must have and cannot have.
fn find_impossible_member(schema: &Value, at: &str) -> Option<String> {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let has_patterns = schema.get("patternProperties").is_some();
    names.into_iter().find_map(|name| match schema["properties"].get(name) {
        Some(member) => find_contradiction(member, &format!("{at}/properties/{name}")),
        None if schema["additionalProperties"] == false && !has_patterns => {
            Some(format!("{at}/required has {name:?}, and \"additionalProperties\" forbids it"))
        }
        None => None,
    })
}

/// Whether the schema describes an object, as OpenAI and similar servers require. Any other form is requested in words
/// alone, and checked as well.
pub(super) fn is_of_object(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none()
}

/// Whether a strict mode accepts the schema: all its keywords are known to every provider, each part has a type, every
/// array its items, and every object lists all its members.
pub(super) fn is_closed(schema: &Value) -> bool {
    let has_type = schema.get("type").or(schema.get("anyOf")).is_some();
    let is_array = schema["type"] == "array";
    has_type && (!is_array || schema.get("items").is_some()) && is_plain(schema) && {
        let is_object = schema["type"] == "object" || schema.get("properties").is_some();
        let names = schema["properties"].as_object();
        let required = schema["required"].as_array();
        let lists_all = names.is_some_and(|names| {
            names.keys().all(|name| {
                required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
            })
        });
        (!is_object || lists_all && schema["additionalProperties"] == false)
            && parts(schema).into_iter().all(is_closed)
    }
}

/// Whether the schema has only keywords that every provider knows.
pub(super) fn is_plain(schema: &Value) -> bool {
    const KNOWN: &str =
        "type properties required additionalProperties items enum const description title anyOf";
    let known = |name: &String| KNOWN.split(' ').any(|known| known == name);
    schema.as_object().is_some_and(|members| members.keys().all(known))
        && parts(schema).into_iter().all(is_plain)
}

/// The schemas within a schema of known keywords.
fn parts(schema: &Value) -> Vec<&Value> {
    let properties = schema["properties"].as_object().into_iter().flat_map(|all| all.values());
    let any = schema["anyOf"].as_array().into_iter().flatten();
    properties.chain(any).chain(schema.get("items")).collect()
}

/// Finds a schema that refers back to itself without a step into the answer: validation would never end.
fn find_endless_reference(root: &Value) -> Option<String> {
    let mut names = BTreeMap::new();
    let mut places = Vec::new();
    collect(root, "", &mut names, &mut places);
    let mut done = HashSet::new();
    places.iter().find_map(|place| visit(root, place, &names, &mut Vec::new(), &mut done))
}

/// The places of all objects, as JSON pointers, and those of names that references can use.
fn collect(
    value: &Value,
    at: &str,
    names: &mut BTreeMap<String, String>,
    places: &mut Vec<String>,
) {
    match value {
        Value::Object(members) => {
            places.push(at.to_owned());
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = members.get(key).and_then(Value::as_str) {
                    names.insert(format!("#{name}"), at.to_owned());
                }
            }
            if let Some(id) = members.get("$id").and_then(Value::as_str) {
                names.insert(id.to_owned(), at.to_owned());
            }
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(member, &format!("{at}/{name}"), names, places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{at}/{index}"), names, places);
            }
        }
        _ => {}
    }
}

fn visit(
    root: &Value,
    at: &str,
    names: &BTreeMap<String, String>,
    open: &mut Vec<String>,
    done: &mut HashSet<String>,
) -> Option<String> {
    if open.iter().any(|other| other == at) {
        return Some(if at.is_empty() { "#".to_owned() } else { format!("#{at}") });
    }
    if !done.insert(at.to_owned()) {
        return None;
    }
    let schema = root.pointer(at)?;
    let mut next: Vec<String> = Vec::new();
    for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
        let Some(reference) = schema[key].as_str() else { continue };
        let plain =
            percent_encoding::percent_decode_str(reference).decode_utf8_lossy().into_owned();
        let to = names.get(&plain).cloned().or_else(|| Some(plain.strip_prefix('#')?.to_owned()));
        next.extend(to.filter(|to| to.is_empty() || to.starts_with('/')));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let count = schema[key].as_array().map_or(0, Vec::len);
        next.extend((0..count).map(|index| format!("{at}/{key}/{index}")));
    }
    for key in ["not", "if", "then", "else"] {
        next.extend(schema.get(key).map(|_| format!("{at}/{key}")));
    }
    open.push(at.to_owned());
    let found = next.iter().find_map(|to| visit(root, to, names, open, done));
    open.pop();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_that_cannot_be_used_are_refused() {
        let check = |schema: &str, part: &str| {
            let error = Schema::parse(schema).unwrap_err();
            assert!(error.contains(part), "{schema}: {error}");
        };
        check("{", "not valid JSON");
        check("[]", "an object");
        check("false", "no answer");
        check(r#"{"not": {}}"#, "no answer");
        check(r#"{"enum": []}"#, "no answer at all: \"enum\" is empty");
        check(r#"{"type": []}"#, "\"type\" is empty");
        check(r#"{"anyOf": []}"#, "\"anyOf\" is empty");
        check(r#"{"type": "integer", "minimum": 3, "maximum": 2}"#, "\"minimum\" is above");
        check(r#"{"type": "string", "minLength": 3, "maxLength": 2}"#, "\"minLength\" is above");
        check(r#"{"type": "array", "minItems": 1, "maxItems": 0}"#, "\"minItems\" is above");
        check(
            r#"{"type": "object", "required": ["a"], "properties": {"a": {"allOf": [{}, false]}}}"#,
            "it is false at /properties/a/allOf/1",
        );
        check(
            r#"{"type": "object", "required": ["a"], "properties": {"b": {}}, "additionalProperties": false}"#,
            "/required has \"a\"",
        );
        // Of other types these say nothing, and a member that need not be there may be impossible.
        for possible in [
            r#"{"minimum": 3, "maximum": 2}"#,
            r#"{"type": ["string", "null"], "minLength": 3, "maxLength": 2}"#,
            r#"{"type": "object", "properties": {"a": false}}"#,
            r#"{"type": "object", "required": ["a"], "patternProperties": {"a": {}}, "additionalProperties": false}"#,
            r#"{"type": "integer", "minimum": 2, "maximum": 2}"#,
        ] {
            assert!(Schema::parse(possible).is_ok(), "{possible}");
        }
        check(r#"{"type": "objct"}"#, "not a valid JSON Schema");
        check(r##"{"$ref": "#"}"##, "without end");
        check(
            r##"{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}"##,
            "#/$defs/a",
        );
        check(r##"{"$ref": "#x", "$defs": {"a": {"$anchor": "x", "$ref": "#x"}}}"##, "without end");
        check(r#"{"$ref": "https://example.org/schema.json"}"#, "not a valid JSON Schema");
    }

    #[test]
    fn answers_are_checked_whole() {
        let tree = r##"{"type": "object", "properties": {"name": {"type": "string"}, "size": {"minimum": 1},
            "children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name"]}"##;
        let schema = Schema::parse(tree).unwrap();
        let good = "{\"name\": \"a\", \"children\": [{\"name\": \"b\"}]}";
        assert_eq!(schema.check(good).unwrap().0, good);
        assert_eq!(schema.check(&format!("\n```json\n{good}\n```\n")).unwrap().0, good);
        let errors = schema.check(r#"{"size": 0, "children": [{"name": 7}]}"#).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors.iter().any(|error| error.starts_with("/children/0/name: ")), "{errors:?}");
        let errors = schema.check(r#"{"name": "a", "name": "b"}"#).unwrap_err();
        assert_eq!(errors, ["/name appears twice"]);
        assert!(schema.check("Here it is: {}").unwrap_err()[0].starts_with("it is not valid JSON"));
        assert!(schema.check(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn strict_modes_take_closed_schemas_only() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        assert!(is_closed(&closed) && is_plain(&closed));
        let mut open = closed.clone();
        open["additionalProperties"] = json!(true);
        assert!(!is_closed(&open) && is_plain(&open));
        let has_type = |schema: &str| is_closed(&serde_json::from_str(schema).unwrap());
        assert!(!has_type(r#"{"enum": ["a"]}"#) && !has_type(r#"{"type": "array"}"#));
        assert!(has_type(r#"{"type": "array", "items": {"type": "string", "enum": ["a"]}}"#));
        let mut odd = closed;
        odd["properties"]["a"]["pattern"] = json!("x");
        assert!(!is_closed(&odd) && !is_plain(&odd));
    }
}
