//! A JSON Schema for an answer: checked before any request, validated against every answer, sent to providers that
//! accept one.

use jsonschema::Validator;
use serde_json::Value;

use conversation::format::code_block::find_code_block;
use conversation::format::harmless::truncate;

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
        if !value.is_object() {
            return Err("not a JSON Schema: it must be an object".to_owned());
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
        let describe = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the top level".to_owned() } else { path };
            truncate(&format!("{place}: {error}"), MAX_ERROR)
        };
        let errors: Vec<String> =
            self.validator.iter_errors(&value).map(describe).take(MAX_ERRORS).collect();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_that_cannot_be_used_are_refused() {
        let check = |schema: &str, part: &str| {
            let error = Schema::parse(schema).unwrap_err();
            assert!(error.contains(part), "{schema}: {error}");
        };
        check("{", "not valid JSON");
        check("[]", "an object");
        check("false", "an object");
        check(r#"{"type": "objct"}"#, "not a valid JSON Schema");
        check(r#"{"$ref": "https://example.org/schema.json"}"#, "not a valid JSON Schema");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        for endless in [
            r##"{"$ref": "#"}"##,
            r##"{"$dynamicRef": "#"}"##,
            r##"{"anyOf": [{"$ref": "#"}]}"##,
            r##"{"oneOf": [{"$ref": "#"}, false]}"##,
            r##"{"not": {"$ref": "#"}}"##,
            r##"{"if": {"$ref": "#"}, "then": {"$ref": "#"}, "else": {"$ref": "#"}}"##,
            r##"{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}"##,
            r##"{"$ref": "#x", "$defs": {"a": {"$anchor": "x", "$ref": "#x"}}}"##,
        ] {
            let schema = Schema::parse(endless).unwrap();
            for answer in ["1", r#"{"a": [{}]}"#] {
                _ = schema.check(answer);
            }
        }
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
