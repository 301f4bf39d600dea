//! What the model reads of a request: first what stays the same from call to call, for the provider's cache, then the items.

use serde_json::{Map, Value, json};

use super::request::{AnswerType, DecisionItem, Question, Request, render};

const RULES: &str = "You decide questions whose answers are from closed sets.
- Copy each name exactly as it is between the quotes, without its description.
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
        out.push_str(&format!(
            "\n\n<constraints>\n- {}\n</constraints>",
            request.constraints.join("\n- ")
        ));
    }
    if let Some(context) = &request.context {
        out.push_str(&format!("\n\n<evidence>\n{}\n</evidence>", render(context)));
    }
    out.push_str("\n\n<questions>");
    for question in &request.questions {
        out.push_str(&write_question(question));
    }
    out.push_str("\n</questions>");
    out
}

fn write_question(question: &Question) -> String {
    let what = match question.kind {
        AnswerType::Choice => "choose one",
        AnswerType::Multi => "choose one or more",
        AnswerType::Score => "give each a level",
    };
    let mut out = format!("\n{:?}: {} ({what})", question.id, question.text);
    for (name, meaning) in &question.options {
        let meaning = meaning.as_ref().map(|meaning| format!(": {meaning}")).unwrap_or_default();
        out.push_str(&format!("\n  {name:?}{meaning}"));
    }
    if !question.levels.is_empty() {
        let levels: Vec<String> =
            question.levels.iter().map(|level| format!("{level:?}")).collect();
        out.push_str(&format!("\n  levels, the lowest first: {}", levels.join(", ")));
    }
    for constraint in &question.constraints {
        out.push_str(&format!("\n  constraint: {constraint}"));
    }
    out
}

/// The part about some items, with what was wrong with earlier replies.
pub fn write_items(request: &Request, items: &[&DecisionItem], corrections: &[String]) -> String {
    let mut out = String::new();
    let is_batch = items.iter().any(|item| item.id.is_some());
    if is_batch {
        out.push_str("<items>\n");
        for item in items {
            let id = item.id.as_deref().unwrap_or_default();
            out.push_str(&format!("<item id={id:?}>\n{}\n</item>\n", render(&item.context)));
        }
        out.push_str("</items>\n\n");
    }
    let mut answers = Map::new();
    for question in &request.questions {
        answers.insert(question.id.clone(), write_shape(request, question));
    }
    let shape = json!({"decisions": [{"item": if is_batch { "the id of the item" } else { "" }, "answers": answers}]});
    out.push_str(&format!("Reply with JSON alone, in this form:\n{shape}\n"));
    let ids: Vec<String> =
        items.iter().filter_map(|item| item.id.as_ref()).map(|id| format!("{id:?}")).collect();
    if is_batch {
        out.push_str(&format!(
            "One decision for each of these items, in this order: {}\n",
            ids.join(", ")
        ));
    }
    if !corrections.is_empty() {
        out.push_str(&format!(
            "\n<correction>\nEarlier replies were not accepted:\n- {}\n</correction>\n",
            corrections.join("\n- ")
        ));
    }
    out
}

fn write_shape(request: &Request, question: &Question) -> Value {
    let mut shape = match question.kind {
        AnswerType::Choice => json!({"choice": "a name"}),
        AnswerType::Multi => json!({"choices": ["names"]}),
        AnswerType::Score => json!({"scores": {"each name": "a level"}}),
    };
    if request.rationale {
        shape["why"] = "…".into();
    }
    if request.confidence {
        shape["confidence"] = 0.5.into();
    }
    shape
}

/// The JSON Schema of a reply, closed, for providers that hold a model to one.
pub fn write_schema(request: &Request) -> Value {
    let object = |properties: Map<String, Value>| {
        let required: Vec<&String> = properties.keys().collect();
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
    };
    let mut answers = Map::new();
    for question in &request.questions {
        let names: Vec<&String> = question.options.iter().map(|(name, _)| name).collect();
        let name = json!({"type": "string", "enum": names});
        let mut members = Map::new();
        match question.kind {
            AnswerType::Choice => members.insert("choice".to_owned(), name),
            AnswerType::Multi => {
                members.insert("choices".to_owned(), json!({"type": "array", "items": name}))
            }
            AnswerType::Score => {
                let level = json!({"type": "string", "enum": question.levels});
                let scores = names.iter().map(|name| ((*name).clone(), level.clone())).collect();
                members.insert("scores".to_owned(), object(scores))
            }
        };
        if request.rationale {
            members.insert("why".to_owned(), json!({"type": "string"}));
        }
        if request.confidence {
            members.insert("confidence".to_owned(), json!({"type": "number"}));
        }
        answers.insert(question.id.clone(), object(members));
    }
    let decision =
        [("item".to_owned(), json!({"type": "string"})), ("answers".to_owned(), object(answers))];
    let decision = object(decision.into_iter().collect());
    let all = ("decisions".to_owned(), json!({"type": "array", "items": decision}));
    object(std::iter::once(all).collect())
}
