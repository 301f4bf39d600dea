//! A request: questions with closed sets of answers, about one matter or about many items. All that is wrong with one is found at
//! once.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use conversation::format::json_members::find_repeated_members;

/// A request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// What all decisions are made from: a text, an object or a list.
    pub context: Option<Value>,
    /// What holds for every answer.
    pub constraints: Vec<String>,
    /// The questions, in order.
    pub questions: Vec<Question>,
    /// What is decided about; an item without an id is the only one.
    pub items: Vec<DecisionItem>,
    /// Whether each answer has a reason.
    pub rationale: bool,
    /// Whether each answer has the model's own estimate.
    pub confidence: bool,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its name in the reply.
    pub id: String,
    /// The question itself.
    pub text: String,
    /// What an answer is.
    pub kind: AnswerType,
    /// The answers, each with what it means.
    pub options: Vec<(String, Option<String>)>,
    /// The levels of a score, the lowest first.
    pub levels: Vec<String>,
    /// What holds for its answers.
    pub constraints: Vec<String>,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerType {
    /// One option.
    Choice,
    /// One or more options.
    Multi,
    /// A level for every option.
    Score,
}

/// What is decided about.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionItem {
    /// Its name; `None`: there is only one.
    pub id: Option<String>,
    /// What is known of it.
    pub context: Value,
}

impl AnswerType {
    /// The word in a request and in a reply.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Choice => "choice",
            Self::Multi => "multi",
            Self::Score => "score",
        }
    }
}

/// The JSON object in a text, which may stand in a code block or between sentences, and what is there twice in it.
pub(super) fn read_object(text: &str) -> Result<(Map<String, Value>, Vec<String>), String> {
    let whole = text.trim_start_matches('\u{feff}').trim();
    let read = |text| Some((serde_json::from_str::<Value>(text).ok()?, text));
    let within = || {
        let (from, to) = text.find('{').zip(text.rfind('}')).filter(|(from, to)| from < to)?;
        read(&text[from..=to])
    };
    match read(whole).or_else(within) {
        Some((Value::Object(object), text)) => {
            let twice = find_repeated_members(text).into_iter();
            Ok((object, twice.map(|place| format!("{place} appears twice")).collect()))
        }
        Some(_) => Err("it is not a JSON object".to_owned()),
        None => {
            let error = serde_json::from_str::<Value>(whole).err();
            let error = error.map(|error| error.to_string()).unwrap_or_default();
            Err(format!("invalid JSON: {error}"))
        }
    }
}

/// Collects what is wrong with a request.
#[derive(Default)]
pub(super) struct RequestReader {
    pub(super) errors: Vec<String>,
}

impl RequestReader {
    pub(super) fn complain(&mut self, error: impl Into<String>) {
        self.errors.push(error.into());
    }

    pub(super) fn check_keys(&mut self, object: &Map<String, Value>, known: &[&str], place: &str) {
        let unknown = object.keys().filter(|key| !known.contains(&key.as_str()));
        let unknown: Vec<String> = unknown.map(|key| format!("\"{key}\"")).collect();
        if !unknown.is_empty() {
            let (plural, known) = (if unknown.len() == 1 { "" } else { "s" }, known.join(", "));
            self.complain(format!(
                "unknown key{plural} {} in {place}; there are {known}",
                unknown.join(", ")
            ));
        }
    }

    pub(super) fn read_flag(
        &mut self,
        object: &Map<String, Value>,
        key: &str,
        default: bool,
    ) -> bool {
        match object.get(key) {
            None | Some(Value::Null) => default,
            Some(Value::Bool(value)) => *value,
            Some(_) => {
                self.complain(format!("\"{key}\" is true or false"));
                default
            }
        }
    }

    pub(super) fn read_texts(&mut self, value: Option<&Value>, place: &str) -> Vec<String> {
        match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
                values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => {
                self.complain(format!("{place} is a list of texts"));
                Vec::new()
            }
        }
    }

    pub(super) fn read_text(
        &mut self,
        object: &Map<String, Value>,
        key: &str,
        place: &str,
    ) -> String {
        let text = object.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        if text.is_empty() {
            self.complain(format!("{place} needs a text as \"{key}\""));
        }
        text
    }

    /// Names, each with what it means: a list of names, or an object.
    pub(super) fn read_options(
        &mut self,
        value: Option<&Value>,
        least: usize,
        place: &str,
    ) -> Vec<(String, Option<String>)> {
        let mut options = Vec::new();
        match value {
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                options.extend(
                    names
                        .iter()
                        .filter_map(Value::as_str)
                        .map(|name| (name.trim().to_owned(), None)),
                );
            }
            Some(Value::Object(named))
                if named.values().all(|it| it.is_string() || it.is_null()) =>
            {
                let describe = |value: &Value| {
                    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
                };
                options.extend(
                    named.iter().map(|(name, value)| (name.trim().to_owned(), describe(value))),
                );
            }
            _ => {
                self.complain(format!(
                    "{place} is a list of names, or an object of names and what they mean"
                ));
                return options;
            }
        }
        self.check_names(options.iter().map(|(name, _)| name.as_str()), place);
        if options.len() < least {
            self.complain(format!("{place}: give {least} or more answers, not {}", options.len()));
        }
        options
    }

    fn check_names<'a>(&mut self, names: impl Iterator<Item = &'a str>, place: &str) {
        let mut seen = BTreeSet::new();
        for name in names {
            if name.is_empty() {
                self.complain(format!("{place} has an empty name"));
            } else if !seen.insert(name) {
                self.complain(format!("{place} has \"{name}\" twice"));
            }
        }
    }

    fn read_question(&mut self, id: &str, value: &Value) -> Option<Question> {
        let place = format!("question \"{id}\"");
        let Some(object) = value.as_object() else {
            self.complain(format!("{place} is not an object"));
            return None;
        };
        self.check_keys(object, &["question", "type", "options", "levels", "constraints"], &place);
        let kind = match object.get("type").and_then(Value::as_str) {
            Some("choice") => Some(AnswerType::Choice),
            Some("multi") => Some(AnswerType::Multi),
            Some("score") => Some(AnswerType::Score),
            _ => {
                self.complain(format!("the \"type\" of {place} is choice, multi or score"));
                None
            }
        };
        let least = if kind == Some(AnswerType::Choice) { 2 } else { 1 };
        let options =
            self.read_options(object.get("options"), least, &format!("\"options\" of {place}"));
        let levels = self.read_texts(object.get("levels"), &format!("\"levels\" of {place}"));
        match kind {
            Some(AnswerType::Score) if levels.len() < 2 => {
                self.complain(format!("{place} needs two \"levels\" or more, the lowest first"));
            }
            Some(AnswerType::Score) => self
                .check_names(levels.iter().map(String::as_str), &format!("\"levels\" of {place}")),
            Some(_) if !levels.is_empty() => {
                self.complain(format!("{place} has \"levels\", which only a score has"));
            }
            _ => {}
        }
        let constraints =
            self.read_texts(object.get("constraints"), &format!("\"constraints\" of {place}"));
        let text = self.read_text(object, "question", &place);
        let id = id.to_owned();
        kind.map(|kind| Question { id, text, kind, options, levels, constraints })
    }

    /// Items: texts, which get numbers, or objects with an `id` and what is known, under `key`.
    pub(super) fn read_items(&mut self, values: &[Value], key: &str) -> Vec<DecisionItem> {
        let mut items = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let place = format!("item {}", index + 1);
            let (id, context) = match value {
                Value::String(_) => ((index + 1).to_string(), value.clone()),
                Value::Object(object) => {
                    self.check_keys(object, &["id", key], &place);
                    let id = match object.get("id") {
                        Some(Value::String(id)) => id.trim().to_owned(),
                        Some(Value::Number(id)) => id.to_string(),
                        _ => String::new(),
                    };
                    (id, object.get(key).cloned().unwrap_or(Value::Null))
                }
                _ => {
                    self.complain(format!(
                        "{place} is a text, or an object with \"id\" and \"{key}\""
                    ));
                    continue;
                }
            };
            if render(&context).trim().is_empty() {
                self.complain(format!("{place} is empty"));
            }
            items.push(DecisionItem { id: Some(id), context });
        }
        self.check_names(items.iter().filter_map(|item| item.id.as_deref()), "the ids of items");
        items
    }
}

impl Request {
    /// Reads a request, or says all that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let (object, errors) = read_object(text).map_err(|error| vec![error])?;
        let mut reader = RequestReader { errors };
        let known = ["context", "constraints", "questions", "items", "rationale", "confidence"];
        reader.check_keys(&object, &known, "the request");
        if object.get("context").is_some_and(|context| context.is_number() || context.is_boolean())
        {
            reader.complain("\"context\" is a text, an object or a list");
        }
        let constraints = reader.read_texts(object.get("constraints"), "\"constraints\"");
        let questions = match object.get("questions").and_then(Value::as_object) {
            Some(questions) if !questions.is_empty() => {
                reader.check_names(questions.keys().map(|id| id.trim()), "\"questions\"");
                questions.iter().filter_map(|(id, value)| reader.read_question(id, value)).collect()
            }
            _ => {
                reader.complain(
                    "\"questions\" is an object of names and questions, and has one or more",
                );
                Vec::new()
            }
        };
        let items = match object.get("items") {
            None | Some(Value::Null) => vec![DecisionItem { id: None, context: Value::Null }],
            Some(Value::Array(values)) => reader.read_items(values, "context"),
            Some(_) => {
                reader.complain("\"items\" is a list");
                Vec::new()
            }
        };
        let rationale = reader.read_flag(&object, "rationale", true);
        let confidence = reader.read_flag(&object, "confidence", true);
        if !reader.errors.is_empty() {
            return Err(reader.errors);
        }
        let context = object.get("context").filter(|context| !context.is_null()).cloned();
        Ok(Self { context, constraints, questions, items, rationale, confidence })
    }

    /// A question with these options about the context, which is still empty.
    pub fn about_text(question: &str, options: &[String]) -> Result<Self, Vec<String>> {
        let mut reader = RequestReader::default();
        if question.trim().is_empty() {
            reader.complain("the question is empty");
        }
        let options = Value::from(options.to_vec());
        let options = reader.read_options(Some(&options), 2, "the answers");
        if !reader.errors.is_empty() {
            return Err(reader.errors);
        }
        let question = Question {
            id: "answer".to_owned(),
            text: question.to_owned(),
            kind: AnswerType::Choice,
            options,
            levels: Vec::new(),
            constraints: Vec::new(),
        };
        let items = vec![DecisionItem { id: None, context: Value::Null }];
        Ok(Self { questions: vec![question], items, ..Self::default() })
    }
}

/// Writes JSON as text that reads well: `key: value`, `- value`.
pub(super) fn render(value: &Value) -> String {
    fn write(value: &Value, indent: usize, out: &mut String) {
        let pad = "  ".repeat(indent);
        let mut line = |name: &str, value: &Value| match value {
            Value::Object(_) | Value::Array(_) => {
                out.push_str(&format!("{pad}{name}\n"));
                write(value, indent + 1, out);
            }
            value => out.push_str(&format!("{pad}{name} {}\n", value_text(value))),
        };
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(key, value)| line(&format!("{key}:"), value));
            }
            Value::Array(values) => values.iter().for_each(|value| line("-", value)),
            value => out.push_str(&format!("{pad}{}\n", value_text(value))),
        }
    }
    fn value_text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }
    let mut out = String::new();
    write(value, 0, &mut out);
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = r#"{"questions": {"a": {"question": "?", "type": "choice", "options": ["x", "x"], "levels": ["l", "h"]},
            "b": {"question": "", "type": "score", "options": {"y": 1}}, "c": {"type": "guess"}}, "items": ["", {"id": "1", "contex": "z"}], "extra": 1}"#;
        let errors = Request::parse(text).unwrap_err().join("\n");
        for part in [
            "unknown key \"extra\"",
            "\"x\" twice",
            "only a score has",
            "needs a text as \"question\"",
            "an object of names",
            "two \"levels\"",
            "choice, multi or score",
            "item 1 is empty",
            "unknown key \"contex\"",
            "has \"1\" twice",
        ] {
            assert!(errors.contains(part), "{part} is not in\n{errors}");
        }
    }

    #[test]
    fn requests_stand_in_prose_too() {
        let text = "Here:\n```json\n{\"questions\": {\"q\": {\"question\": \"?\", \"type\": \"multi\", \"options\": {\" a \": \" first \", \"b\": null}}}}\n```";
        let request = Request::parse(text).unwrap();
        assert_eq!(
            request.questions[0].options,
            [("a".to_owned(), Some("first".to_owned())), ("b".to_owned(), None)]
        );
        assert_eq!(request.items, [DecisionItem { id: None, context: Value::Null }]);
        assert!(request.rationale && request.confidence);
        let empty = Request::parse(
            r#"{"questions": {"q": {"question": "?", "type": "choice", "options": ["a", "b"]}}, "items": []}"#,
        );
        assert!(empty.unwrap().items.is_empty());
    }

    #[test]
    fn evidence_is_rendered_as_text() {
        let value = serde_json::json!({"title": "a", "tags": ["x", {"deep": 1}], "none": null});
        assert_eq!(render(&value), "title: a\ntags:\n  - x\n  -\n    deep: 1\nnone:");
    }
}
