//! A reply, checked word for word: each item has the answers that are allowed, or all that is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::request::{AnswerType, DecisionItem, Question, Request, read_object};

/// What a reply came to.
#[derive(Debug, Default, PartialEq)]
pub struct Checked {
    /// The answers of items, by their index among those that were asked about.
    pub answers: BTreeMap<usize, Value>,
    /// What was wrong, about which item or the whole.
    pub errors: Vec<String>,
}

/// Checks a reply to a request about some of its items.
pub fn check_reply(request: &Request, items: &[&DecisionItem], text: &str) -> Checked {
    let mut checked = Checked::default();
    let decisions = match read_object(text) {
        // Which of two answers counts, the reply does not say.
        Ok((_, twice)) if !twice.is_empty() => {
            checked.errors.extend(twice);
            return checked;
        }
        Ok((object, _)) => {
            if let Some(decisions) = object.get("decisions").and_then(Value::as_array) {
                decisions.clone()
            } else {
                checked.errors.push("the reply has no list \"decisions\"".to_owned());
                return checked;
            }
        }
        Err(error) => {
            checked.errors.push(format!("the reply: {error}"));
            return checked;
        }
    };
    let mut seen = BTreeSet::new();
    for decision in &decisions {
        let id = match &decision["item"] {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => String::new(),
        };
        // A lone decision is meant for the only item that has no id.
        let is_alone = decisions.len() == 1 && matches!(items, [item] if item.id.is_none());
        let found = items.iter().position(|item| is_alone || item.id.as_deref() == Some(&id));
        let Some(index) = found else {
            checked.errors.push(format!("there is no item {id:?}"));
            continue;
        };
        if !seen.insert(index) {
            checked.errors.push(format!("item {id:?} appears twice"));
            checked.answers.remove(&index);
            continue;
        }
        match check_answers(request, &decision["answers"]) {
            Ok(answers) => drop(checked.answers.insert(index, answers)),
            Err(errors) => checked.errors.extend(
                errors
                    .into_iter()
                    .map(|error| if is_alone { error } else { format!("item {id:?}: {error}") }),
            ),
        }
    }
    let missing = (0..items.len()).filter(|index| !seen.contains(index));
    let missing: Vec<String> = missing
        .map(|index| format!("{:?}", items[index].id.as_deref().unwrap_or_default()))
        .collect();
    if !missing.is_empty() {
        checked.errors.push(format!("no decision about {}", missing.join(", ")));
    }
    checked
}

fn check_answers(request: &Request, answers: &Value) -> Result<Value, Vec<String>> {
    let mut errors = Vec::new();
    let mut all = Map::new();
    let Some(answers) = answers.as_object() else {
        return Err(vec!["it has no object \"answers\"".to_owned()]);
    };
    for id in
        answers.keys().filter(|id| !request.questions.iter().any(|question| question.id == **id))
    {
        errors.push(format!("there is no question {id:?}"));
    }
    for question in &request.questions {
        match answers.get(&question.id) {
            None => errors.push(format!("question {:?} has no answer", question.id)),
            Some(answer) => match check_answer(question, answer) {
                Ok(mut checked) => {
                    let confidence = answer["confidence"].as_f64().filter(|_| request.confidence);
                    checked["confidence"] = confidence.map(|value| value.clamp(0.0, 1.0)).into();
                    let why = answer["why"]
                        .as_str()
                        .filter(|why| request.rationale && !why.trim().is_empty());
                    checked["why"] = why.into();
                    all.insert(question.id.clone(), checked);
                }
                Err(error) => errors.push(format!("question {:?}: {error}", question.id)),
            },
        }
    }
    if errors.is_empty() { Ok(Value::Object(all)) } else { Err(errors) }
}

fn check_answer(question: &Question, answer: &Value) -> Result<Value, String> {
    let known = |name: &Value| {
        let is_one = |text: &&str| question.options.iter().any(|(option, _)| option == *text);
        let shown: String = name.to_string().chars().take(100).collect();
        name.as_str()
            .filter(is_one)
            .map(str::to_owned)
            .ok_or_else(|| format!("{shown} is not an option"))
    };
    let kind = question.kind.as_str();
    match question.kind {
        AnswerType::Choice => Ok(json!({"type": kind, "choice": known(&answer["choice"])?})),
        AnswerType::Multi => {
            let names = answer["choices"].as_array().filter(|names| !names.is_empty());
            let names =
                names.ok_or_else(|| "\"choices\" is not a list of one or more".to_owned())?;
            let mut chosen: Vec<String> = Vec::new();
            for name in names {
                let name = known(name)?;
                if chosen.contains(&name) {
                    return Err(format!("{name:?} appears twice"));
                }
                chosen.push(name);
            }
            Ok(json!({"type": kind, "choices": chosen}))
        }
        AnswerType::Score => {
            let scores = answer["scores"]
                .as_object()
                .ok_or_else(|| "\"scores\" is not an object".to_owned())?;
            let mut indexes = Map::new();
            let mut levels = Map::new();
            for (name, _) in &question.options {
                let level = scores.get(name).ok_or_else(|| format!("{name:?} has no level"))?;
                let index = question.levels.iter().position(|known| level.as_str() == Some(known));
                let index = index.ok_or_else(|| format!("{level} of {name:?} is not a level"))?;
                levels.insert(name.clone(), level.clone());
                indexes.insert(name.clone(), index.into());
            }
            if let Some(name) = scores.keys().find(|name| !levels.contains_key(*name)) {
                return Err(format!("{name:?} is not an option"));
            }
            Ok(json!({"type": kind, "scores": levels, "level_index": indexes}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let text = r#"{"questions": {"q": {"question": "?", "type": "choice", "options": {"a": "first", "b": null}},
            "m": {"question": "?", "type": "multi", "options": ["x", "y"]},
            "s": {"question": "?", "type": "score", "options": ["p"], "levels": ["low", "high"]}}, "items": ["one", "two", "three"]}"#;
        Request::parse(text).unwrap()
    }

    #[test]
    fn every_error_is_said_and_good_items_are_kept() {
        let request = request();
        let items: Vec<&DecisionItem> = request.items.iter().collect();
        let good = json!({"q": {"choice": "a", "confidence": 7, "why": " "}, "m": {"choices": ["y", "x"]}, "s": {"scores": {"p": "high"}}});
        let bad = json!({"q": {"choice": "a: first"}, "m": {"choices": []}, "s": {"scores": {"p": "High"}}, "z": {}});
        let reply = json!({"decisions": [{"item": 2, "answers": good}, {"item": "1", "answers": bad}, {"item": "9", "answers": {}}]});
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
            "there is no question \"z\"",
            "\"a: first\" is not an option",
            "one or more",
            "\"High\" of \"p\"",
            "no item \"9\"",
            "no decision about \"3\"",
        ] {
            assert!(errors.contains(part), "{part} is not in\n{errors}");
        }
        let twice =
            json!({"decisions": [{"item": "2", "answers": good}, {"item": "2", "answers": good}]});
        assert!(check_reply(&request, &items, &twice.to_string()).answers.is_empty());
        assert!(check_reply(&request, &items, "no").errors[0].contains("invalid JSON"));
        let twice =
            format!(r#"{{"decisions": [{{"item": "2", "answers": {good}, "answers": {good}}}]}}"#);
        assert_eq!(
            check_reply(&request, &items, &twice).errors,
            ["/decisions/0/answers appears twice"]
        );
    }

    #[test]
    fn a_lone_decision_needs_no_id() {
        let request = Request::about_text("?", &["yes".to_owned(), "no".to_owned()]).unwrap();
        let items: Vec<&DecisionItem> = request.items.iter().collect();
        let reply =
            json!({"decisions": [{"item": "whatever", "answers": {"answer": {"choice": "no"}}}]});
        let checked = check_reply(&request, &items, &reply.to_string());
        assert_eq!((checked.answers.len(), checked.errors.len()), (1, 0));
    }
}
