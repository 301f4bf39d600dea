//! The prompt of a request: first the part that stays the same from call to call, for the provider's cache, then the
//! items.

use serde_json::{Map, Value, json};

use super::request::{AnswerType, DecisionItem, Question, Request};
use crate::schema::describe_form;

const RULES: &str = "You decide questions whose answers are from closed sets.
- Copy each name exactly, without its description.
- Decide only from the evidence given here.";

/// The part that all calls of a request share.
pub fn write_questions(request: &Request) -> String {
    let mut out = RULES.to_owned();
    if request.rationale {
        out.push_str("\n- \"why\" is the reason, in at most 25 words.");
    }
    if request.confidence {
        out.push_str("\n- \"confidence\" is your own estimate, from 0 to 1.");
    }
    if !request.constraints.is_empty() {
        let constraints = request.constraints.join("\n- ");
        out.push_str(&format!("\n\n<constraints>\n- {constraints}\n</constraints>"));
    }
    if let Some(context) = &request.context {
        out.push_str(&format!("\n\n<evidence>\n{}\n</evidence>", show(context)));
    }
    format!("{out}\n\n{}", describe_form(&write_schema(request)))
}

/// The part about some items, with the mistakes of earlier replies.
pub fn write_items(items: &[&DecisionItem], corrections: &[String]) -> String {
    let mut out = String::new();
    if items.iter().any(|item| item.id.is_some()) {
        out.push_str("<items>\n");
        for item in items {
            let (id, context) = (item.name(), show(&item.context));
            out.push_str(&format!("<item id={id:?}>\n{context}\n</item>\n"));
        }
        let ids: Vec<String> = items.iter().map(|item| format!("{:?}", item.name())).collect();
        let ids = ids.join(", ");
        out.push_str(&format!(
            "</items>\n\nOne decision for each of these items, in this order: {ids}\n"
        ));
    }
    if !corrections.is_empty() {
        let corrections = corrections.join("\n- ");
        out.push_str(&format!(
            "\n<correction>\nEarlier replies were not accepted:\n- {corrections}\n</correction>\n"
        ));
    }
    out
}

/// The JSON Schema of a reply: closed, and with only those keywords that every provider knows.
pub fn write_schema(request: &Request) -> Value {
    object([("decisions", json!({"type": "array", "items": write_decision_schema(request)}))])
}

/// The JSON Schema of a decision about one item.
pub(super) fn write_decision_schema(request: &Request) -> Value {
    let is_alone = request.items.iter().any(|item| item.id.is_none());
    let item =
        if is_alone { json!({"type": "string", "enum": [""]}) } else { json!({"type": "string"}) };
    let questions = request.questions.iter();
    let answers = object(questions.map(|it| (it.id.as_str(), write_answer_schema(request, it))));
    object([("item", item), ("answers", answers)])
}

fn write_answer_schema(request: &Request, question: &Question) -> Value {
    let names: Vec<&str> = question.options.iter().map(|(name, _)| name.as_str()).collect();
    let name = json!({"type": "string", "enum": names});
    let mut members = vec![match question.kind {
        AnswerType::Choice => ("choice", name),
        AnswerType::Multi => ("choices", json!({"type": "array", "items": name})),
        AnswerType::Score => {
            let level = json!({"type": "string", "enum": question.levels});
            ("scores", object(names.iter().map(|name| (*name, level.clone()))))
        }
    }];
    members.extend(request.rationale.then(|| ("why", json!({"type": "string"}))));
    members.extend(request.confidence.then(|| ("confidence", json!({"type": "number"}))));
    let mut schema = object(members);
    schema["description"] = describe_question(question).into();
    schema
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let members = members.into_iter().map(|(name, form)| (name.to_owned(), form));
    let properties: Map<String, Value> = members.collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn describe_question(question: &Question) -> String {
    let how = match question.kind {
        AnswerType::Choice => "choose one",
        AnswerType::Multi => "choose one or more, each once",
        AnswerType::Score => "give each a level; the lowest is first",
    };
    let mut out = format!("{} ({how})", question.text);
    for (name, meaning) in &question.options {
        out.extend(meaning.as_ref().map(|meaning| format!("\n{name:?}: {meaning}")));
    }
    for constraint in &question.constraints {
        out.push_str(&format!("\nconstraint: {constraint}"));
    }
    out
}

/// A text unchanged, any other value as JSON.
fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_modes_take_the_schema() {
        let text = r#"{"questions": {"q": {"question": "Which?", "type": "choice", "options": {"a": "first", "b": null}, "constraints": ["be sure"]},
            "s": {"question": "?", "type": "score", "options": ["p"], "levels": ["low", "high"]}}}"#;
        let schema = write_schema(&Request::parse(text).unwrap());
        assert!(crate::schema::is_closed(&schema), "{schema}");
        let question =
            &schema["properties"]["decisions"]["items"]["properties"]["answers"]["properties"]["q"];
        let description = "Which? (choose one)\n\"a\": first\nconstraint: be sure";
        assert_eq!(question["description"], description);
    }
}
