//! Questions with closed sets of answers: a request is validated by a JSON Schema, and compiled to another one, which the
//! model reads and which validates its reply. Pure.
//!
//! ```text
//! {"context": "…", "rationale": false, "confidence": false,
//!  "questions": {"q": {"question": "Is it spam?", "type": "choice", "options": ["yes", "no"]}},
//!  "items": [{"id": "1", "context": "…"}, "…"]}
//! ```
//!
//! `choice` has one of the options, `multi` one or more, `score` a level of `levels` for every option. Without `items`
//! the context is the only item.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::schema::{Schema, describe_form};

const RULES: &str = "You decide questions whose answers are from closed sets.
- Copy each name exactly, without its description.
- Decide only from the evidence given here.";

/// A compiled request.
#[derive(Debug)]
pub struct Request {
    /// The part of the prompt that all calls share. It comes first, for the provider's cache.
    pub prompt: String,
    /// The JSON Schema of a reply.
    pub schema: Value,
    /// The number of questions.
    pub questions: usize,
    /// The items to decide about.
    pub items: Vec<Item>,
    decision: Schema,
}

/// An item to decide about.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// Its name in the reply.
    pub id: String,
    /// The known facts about it.
    pub context: Value,
}

impl Request {
    /// Validates and compiles a request, or lists all mistakes in it.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let wrong = |error| vec![error];
        let (_, request) = Schema::new(write_request_form()).map_err(wrong)?.check(text)?;
        let items = match request["items"].as_array() {
            None => vec![Item { id: "1".to_owned(), context: request["context"].clone() }],
            Some(items) => items.iter().enumerate().map(|(at, item)| read_item(at, item)).collect(),
        };
        let mut seen = HashSet::new();
        let twice = items.iter().filter(|item| !seen.insert(&item.id));
        let twice: Vec<String> =
            twice.map(|item| format!("two items have the id {:?}", item.id)).collect();
        if !twice.is_empty() {
            return Err(twice);
        }
        let questions: Vec<_> = request["questions"].as_object().into_iter().flatten().collect();
        let answers = questions.iter().map(|(id, it)| (id.as_str(), write_form(&request, it)));
        let decision = object([("item", json!({"type": "string"})), ("answers", object(answers))]);
        let schema = object([("decisions", json!({"type": "array", "items": decision}))]);
        let mut prompt = RULES.to_owned();
        list_constraints(&request, &mut prompt);
        if asks_for(&request, "rationale") {
            prompt.push_str("\n- \"why\" is the reason, in at most 25 words.");
        }
        if asks_for(&request, "confidence") {
            prompt.push_str("\n- \"confidence\" is your own estimate, from 0 to 1.");
        }
        if request["items"].is_array() && !request["context"].is_null() {
            let context = show(&request["context"]);
            prompt.push_str(&format!("\n\n<evidence>\n{context}\n</evidence>"));
        }
        Ok(Self {
            prompt: format!("{prompt}\n\n{}", describe_form(&schema)),
            schema,
            questions: questions.len(),
            items,
            decision: Schema::new(decision).map_err(wrong)?,
        })
    }

    /// Validates a reply about some items: the answers, by the index of their item, and all mistakes. Valid answers count
    /// even if others are wrong.
    pub fn check_reply(
        &self,
        items: &[&Item],
        reply: &str,
    ) -> (BTreeMap<usize, Value>, Vec<String>) {
        let (mut answers, mut errors) = (BTreeMap::new(), Vec::new());
        let list =
            json!({"required": ["decisions"], "properties": {"decisions": {"type": "array"}}});
        let list = Schema::new(list).map_err(|error| vec![error]);
        let list = match list.and_then(|list| list.check(reply)) {
            Ok((_, list)) => list,
            Err(errors) => return (answers, errors),
        };
        let mut seen = HashSet::new();
        for decision in list["decisions"].as_array().into_iter().flatten() {
            let id = &decision["item"];
            let Some(at) = items.iter().position(|item| item.id == *id) else {
                errors.push(format!("there is no item {id}"));
                continue;
            };
            if !seen.insert(at) {
                errors.push(format!("item {id} appears twice"));
                answers.remove(&at);
                continue;
            }
            match self.decision.check(&decision.to_string()) {
                Ok((_, decision)) => drop(answers.insert(at, decision["answers"].clone())),
                Err(wrong) => {
                    errors.extend(wrong.into_iter().map(|error| format!("item {id}: {error}")));
                }
            }
        }
        let missing = (0..items.len()).filter(|at| !seen.contains(at));
        errors.extend(missing.map(|at| format!("no decision about {:?}", items[at].id)));
        (answers, errors)
    }
}

/// The part of the prompt about some items, with the mistakes of the last reply.
pub fn write_items(items: &[&Item], errors: &[String]) -> String {
    let mut out = String::from("<items>\n");
    for Item { id, context } in items {
        out.push_str(&format!("<item id={id:?}>\n{}\n</item>\n", show(context)));
    }
    let ids: Vec<String> = items.iter().map(|item| format!("{:?}", item.id)).collect();
    let ids = ids.join(", ");
    out.push_str(&format!(
        "</items>\n\nOne decision for each of these items, in this order: {ids}\n"
    ));
    if !errors.is_empty() {
        let errors = errors.join("\n- ");
        out.push_str(&format!("\nThe last reply was not accepted:\n- {errors}\n"));
    }
    out
}

/// The JSON Schema of a request.
fn write_request_form() -> Value {
    let name = json!({"type": "string", "pattern": "\\S"});
    let flag = json!({"type": ["boolean", "null"]});
    let constraints = json!({"type": ["array", "null"], "items": name});
    let question = json!({"type": "object", "required": ["question", "type", "options"],
        "properties": {
            "question": name, "type": {"enum": ["choice", "multi", "score"]},
            "options": {"type": ["array", "object"],
                "items": name, "uniqueItems": true, "minItems": 1,
                "propertyNames": name, "additionalProperties": {"type": ["string", "null"]}, "minProperties": 1},
            "levels": {"type": ["array", "null"], "items": name, "uniqueItems": true, "minItems": 2},
            "constraints": constraints},
        "additionalProperties": false,
        "if": {"properties": {"type": {"const": "score"}}},
        "then": {"required": ["levels"], "properties": {"levels": {"type": "array"}}}});
    let item = json!({"type": ["string", "object"], "pattern": "\\S", "required": ["id", "context"],
        "properties": {"id": {"type": ["string", "number"], "pattern": "\\S"},
            "context": {"not": {"enum": [null, {}, []]}, "pattern": "\\S"}},
        "additionalProperties": false});
    json!({"type": "object", "required": ["questions"], "additionalProperties": false,
        "properties": {
            "context": {"type": ["string", "object", "array", "null"]},
            "rationale": flag, "confidence": flag, "constraints": constraints,
            "questions": {"type": "object", "minProperties": 1, "propertyNames": name, "additionalProperties": question},
            "items": {"type": ["array", "null"], "items": item}}})
}

/// The JSON Schema of the answer to a question.
fn write_form(request: &Value, question: &Value) -> Value {
    let options = &question["options"];
    let meanings = options.as_object().into_iter().flatten();
    let names: Vec<&str> = match options.as_array() {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => meanings.clone().map(|(name, _)| name.as_str()).collect(),
    };
    let name = json!({"type": "string", "enum": names});
    let (member, how) = match question["type"].as_str() {
        Some("multi") => {
            let several =
                json!({"type": "array", "items": name, "minItems": 1, "uniqueItems": true});
            (("choices", several), "choose one or more, each once")
        }
        Some("score") => {
            let level = json!({"type": "string", "enum": question["levels"]});
            let levels = object(names.iter().map(|name| (*name, level.clone())));
            (("scores", levels), "give each a level; the lowest is first")
        }
        _ => (("choice", name), "choose one"),
    };
    let why = asks_for(request, "rationale").then(|| ("why", json!({"type": "string"})));
    let confidence =
        asks_for(request, "confidence").then(|| ("confidence", json!({"type": "number"})));
    let mut form = object([member].into_iter().chain(why).chain(confidence));
    let mut description = format!("{} ({how})", show(&question["question"]));
    for (name, meaning) in meanings.filter(|(_, meaning)| meaning.is_string()) {
        description.push_str(&format!("\n{name:?}: {}", show(meaning)));
    }
    list_constraints(question, &mut description);
    form["description"] = description.into();
    form
}

/// Adds the constraints of a request or a question, a line each.
fn list_constraints(of: &Value, out: &mut String) {
    for constraint in of["constraints"].as_array().into_iter().flatten() {
        out.push_str(&format!("\n- {}", show(constraint)));
    }
}

/// Whether each answer has a reason, or an estimate: unless the request says no.
fn asks_for(request: &Value, member: &str) -> bool {
    request[member] != false
}

/// The JSON Schema of an object with exactly these members.
fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let members = members.into_iter().map(|(name, form)| (name.to_owned(), form));
    let properties: Map<String, Value> = members.collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn read_item(at: usize, item: &Value) -> Item {
    let id = item.get("id").map_or_else(|| (at + 1).to_string(), show);
    Item { id, context: item.get("context").unwrap_or(item).clone() }
}

/// A text unchanged, any other value as JSON, null as nothing.
fn show(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_in_a_request_are_named_at_once() {
        let text = r#"{"questions": {"a": {"question": "?", "type": "choice", "options": ["x", "x"]},
            "b": {"question": "", "type": "score", "options": {"y": 1}}, "c": {"type": "guess"}, "d": {"question": "?", "type": "choice", "options": []}},
            "items": ["", {"id": "1", "contex": "z"}], "extra": 1, "rationale": true}"#;
        let errors = Request::parse(text).unwrap_err().join("\n");
        for part in [
            "'extra'",
            "/questions/a/options: ",
            "/questions/b: \"levels\" is a required",
            "/questions/b/question: ",
            "/questions/b/options/y: 1 is not of type",
            "/questions/c: \"question\" is a required",
            "/questions/c/type: \"guess\" is not one of",
            "/questions/d/options: ",
            "/items/0: ",
            "'contex'",
        ] {
            assert!(errors.contains(part), "{part} is not in\n{errors}");
        }
        let question =
            r#""questions": {"q": {"question": "?", "type": "multi", "options": ["a"]}}"#;
        let errors = Request::parse(&format!(
            r#"{{{question}, "items": ["x", {{"id": 1, "context": "y"}}]}}"#
        ));
        assert_eq!(errors.unwrap_err(), ["two items have the id \"1\""]);
        assert!(Request::parse("no").unwrap_err()[0].contains("not valid JSON"));
        let empty = Request::parse(&format!(r#"{{{question}, "items": []}}"#));
        assert!(empty.unwrap().items.is_empty());
    }

    #[test]
    fn strict_modes_take_the_schema() {
        let text = r#"{"context": "It rains.", "constraints": ["Be kind."], "questions": {
            "q": {"question": "Which?", "type": "choice", "options": {"a": "first", "b": null}, "constraints": ["Not b."]},
            "s": {"question": "?", "type": "score", "options": ["p"], "levels": ["low", "high"]}}}"#;
        let request = Request::parse(text).unwrap();
        assert!(crate::schema::is_closed(&request.schema), "{}", request.schema);
        let question = &request.schema["properties"]["decisions"]["items"]["properties"]["answers"]
            ["properties"]["q"];
        assert_eq!(question["description"], "Which? (choose one)\n\"a\": first\n- Not b.");
        assert!(request.prompt.contains("\n- Be kind."));
        // The context is the only item.
        assert_eq!(request.items, [Item { id: "1".to_owned(), context: json!("It rains.") }]);
        assert!(!request.prompt.contains("It rains."));
    }

    #[test]
    fn every_error_is_named_and_good_items_are_kept() {
        let request = Request::parse(
            r#"{"questions": {"q": {"question": "?", "type": "choice", "options": {"a": "first", "b": null}},
            "m": {"question": "?", "type": "multi", "options": ["x", "y"]},
            "s": {"question": "?", "type": "score", "options": ["p"], "levels": ["low", "high"]}},
            "items": ["one", "two", "three", "four"], "rationale": false}"#,
        )
        .unwrap();
        let items: Vec<&Item> = request.items.iter().collect();
        let good = json!({"q": {"choice": "a", "confidence": 1}, "m": {"choices": ["y", "x"], "confidence": 0.5},
            "s": {"scores": {"p": "high"}, "confidence": 1}});
        let mut empty = good.clone();
        empty["m"]["choices"] = json!([]);
        let bad = json!({"q": {"choice": "a: first"}, "m": {"choices": ["x"]}, "s": {"scores": {"p": "High"}}, "z": {}});
        let reply = json!({"decisions": [{"item": "2", "answers": good}, {"item": "1", "answers": bad},
            {"item": "4", "answers": empty}, {"item": "9", "answers": {}}]});
        let (answers, errors) = request.check_reply(&items, &format!("```json\n{reply}\n```"));
        assert_eq!(answers, BTreeMap::from([(1, good.clone())]));
        let errors = errors.join("\n");
        for part in [
            "item \"1\": /answers: Additional properties are not allowed ('z'",
            "item \"1\": /answers/q/choice: \"a: first\" is not one of",
            "item \"1\": /answers/q: \"confidence\" is a required property",
            "item \"1\": /answers/s/scores/p: \"High\" is not one of",
            "item \"4\": /answers/m/choices: ",
            "there is no item \"9\"",
            "no decision about \"3\"",
        ] {
            assert!(errors.contains(part), "{part} is not in\n{errors}");
        }
        let errors = |reply: String| request.check_reply(&items, &reply).1;
        assert!(errors("no".to_owned())[0].contains("not valid JSON"));
        let one = json!({"item": "2", "answers": good});
        let (answers, errors) =
            request.check_reply(&items[..2], &json!({"decisions": [one, one]}).to_string());
        assert!(answers.is_empty() && errors[0] == "item \"2\" appears twice", "{errors:?}");
    }
}
