//! Validates each decision of a reply against its JSON Schema. Valid ones count even if others are wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::prompt::write_decision_schema;
use super::request::{AnswerType, DecisionItem, Question, Request, read_object};
use crate::schema::Schema;

/// The result of checking a reply.
#[derive(Debug, Default, PartialEq)]
pub struct Checked {
    /// The answers of items, by their index among the requested items.
    pub answers: BTreeMap<usize, Value>,
    /// The mistakes, each with the item it is in, unless it concerns the whole.
    pub errors: Vec<String>,
}

/// Checks a reply to a request about some of its items.
pub fn check_reply(request: &Request, items: &[&DecisionItem], text: &str) -> Checked {
    let mut checked = Checked::default();
    let list = json!({"type": "object", "required": ["decisions"], "properties": {"decisions": {"type": "array"}}});
    let form = Schema::new(write_decision_schema(request)).map_err(|error| vec![error]);
    let (list, form) = match (read_object(text, list), form) {
        (Ok(list), Ok(form)) => (list, form),
        (Err(errors), _) | (_, Err(errors)) => return Checked { errors, ..checked },
    };
    let mut seen = BTreeSet::new();
    for decision in list["decisions"].as_array().into_iter().flatten() {
        let id = decision["item"].as_str().unwrap_or_default();
        let Some(index) = items.iter().position(|item| item.name() == id) else {
            checked.errors.push(format!("there is no item {}", decision["item"]));
            continue;
        };
        if !seen.insert(index) {
            checked.errors.push(format!("item {id:?} appears twice"));
            checked.answers.remove(&index);
            continue;
        }
        let answers = form.check(&decision.to_string());
        match answers.and_then(|(_, decision)| read_answers(request, &decision["answers"])) {
            Ok(answers) => drop(checked.answers.insert(index, answers)),
            Err(errors) => {
                let errors = errors.into_iter().map(|error| format!("item {id:?}: {error}"));
                checked.errors.extend(errors);
            }
        }
    }
    let missing = (0..items.len()).filter(|index| !seen.contains(index));
    let missing: Vec<String> = missing.map(|index| format!("{:?}", items[index].name())).collect();
    if !missing.is_empty() {
        checked.errors.push(format!("no decision about {}", missing.join(", ")));
    }
    checked
}

/// The answers of a valid decision, completed with all keys.
fn read_answers(request: &Request, answers: &Value) -> Result<Value, Vec<String>> {
    let questions = request.questions.iter();
    let all = questions.map(|it| Ok((it.id.clone(), read_answer(it, &answers[&it.id])?)));
    Ok(Value::Object(all.collect::<Result<Map<String, Value>, Vec<String>>>()?))
}

fn read_answer(question: &Question, answer: &Value) -> Result<Value, Vec<String>> {
    let mut read = json!({"type": question.kind.as_str(), "confidence": null, "why": null});
    for (key, value) in answer.as_object().into_iter().flatten() {
        read[key] = value.clone();
    }
    if let Some(confidence) = answer["confidence"].as_f64() {
        read["confidence"] = confidence.clamp(0.0, 1.0).into();
    }
    match question.kind {
        AnswerType::Choice => {}
        AnswerType::Multi => {
            // Strict modes of providers do not support the keywords for this.
            let names = answer["choices"].as_array().map_or(&[][..], Vec::as_slice);
            if names.is_empty() || (1..names.len()).any(|at| names[..at].contains(&names[at])) {
                let place = format!("/answers/{}/choices", question.id);
                return Err(vec![format!("{place}: choose one or more, each once")]);
            }
        }
        AnswerType::Score => {
            let index = |level: &Value| question.levels.iter().position(|it| level == it.as_str());
            let scores = answer["scores"].as_object().into_iter().flatten();
            let indexes: Map<String, Value> =
                scores.map(|(name, level)| (name.clone(), index(level).into())).collect();
            read["level_index"] = indexes.into();
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let text = r#"{"questions": {"q": {"question": "?", "type": "choice", "options": {"a": "first", "b": null}},
            "m": {"question": "?", "type": "multi", "options": ["x", "y"]},
            "s": {"question": "?", "type": "score", "options": ["p"], "levels": ["low", "high"]}},
            "items": ["one", "two", "three", "four"], "rationale": false}"#;
        Request::parse(text).unwrap()
    }

    #[test]
    fn every_error_is_said_and_good_items_are_kept() {
        let request = request();
        let items: Vec<&DecisionItem> = request.items.iter().collect();
        let good = json!({"q": {"choice": "a", "confidence": 7}, "m": {"choices": ["y", "x"], "confidence": 0.5},
            "s": {"scores": {"p": "high"}, "confidence": 1}});
        let mut empty = good.clone();
        empty["m"]["choices"] = json!([]);
        let bad = json!({"q": {"choice": "a: first"}, "m": {"choices": ["x"]}, "s": {"scores": {"p": "High"}}, "z": {}});
        let reply = json!({"decisions": [{"item": "2", "answers": good}, {"item": "1", "answers": bad},
            {"item": "4", "answers": empty}, {"item": "9", "answers": {}}]});
        let checked = check_reply(&request, &items, &format!("Sure:\n{reply}"));
        assert_eq!(checked.answers.len(), 1);
        let answers = &checked.answers[&1];
        assert_eq!(
            answers["q"],
            json!({"type": "choice", "choice": "a", "confidence": 1.0, "why": null})
        );
        assert_eq!(answers["s"]["level_index"], json!({"p": 1}));
        let errors = checked.errors.join("\n");
        for part in [
            "item \"1\": /answers: Additional properties are not allowed ('z'",
            "item \"1\": /answers/q/choice: \"a: first\" is not one of",
            "item \"1\": /answers/q: \"confidence\" is a required property",
            "item \"1\": /answers/s/scores/p: \"High\" is not one of",
            "item \"4\": /answers/m/choices: choose one or more",
            "no item \"9\"",
            "no decision about \"3\"",
        ] {
            assert!(errors.contains(part), "{part} is not in\n{errors}");
        }
        let twice =
            json!({"decisions": [{"item": "2", "answers": good}, {"item": "2", "answers": good}]});
        assert!(check_reply(&request, &items, &twice.to_string()).answers.is_empty());
        assert!(check_reply(&request, &items, "no").errors[0].contains("not valid JSON"));
        let twice =
            format!(r#"{{"decisions": [{{"item": "2", "answers": {good}, "answers": {good}}}]}}"#);
        assert_eq!(
            check_reply(&request, &items, &twice).errors,
            ["/decisions/0/answers appears twice"]
        );
    }

    #[test]
    fn the_only_item_has_an_empty_name() {
        let request = Request::about_text("?", &["yes".to_owned(), "no".to_owned()]).unwrap();
        let items: Vec<&DecisionItem> = request.items.iter().collect();
        let reply = json!({"decisions": [{"item": "", "answers": {"answer": {"choice": "no"}}}]});
        let checked = check_reply(&request, &items, &reply.to_string());
        assert_eq!((checked.answers.len(), checked.errors.len()), (1, 0));
    }
}
