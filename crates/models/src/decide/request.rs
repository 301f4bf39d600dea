//! A request: questions with closed sets of answers, about a single subject or about many items. It is validated by a
//! JSON Schema, so that all mistakes in it are reported at once.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::schema::Schema;

/// A request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The basis of all decisions: a text, an object or a list.
    pub context: Option<Value>,
    /// Constraints on every answer.
    pub constraints: Vec<String>,
    /// The questions, in order.
    pub questions: Vec<Question>,
    /// The items to decide about; without items in the request, there is a single one without an id.
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
    /// The type of its answers.
    pub kind: AnswerType,
    /// The possible answers, each with its meaning.
    pub options: Vec<(String, Option<String>)>,
    /// The levels of a score, the lowest first.
    pub levels: Vec<String>,
    /// Constraints on its answers.
    pub constraints: Vec<String>,
}

/// The type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerType {
    /// One option.
    Choice,
    /// One or more options.
    Multi,
    /// A level for every option.
    Score,
}

/// A thing to decide about.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionItem {
    /// Its id; `None`: it is the only item.
    pub id: Option<String>,
    /// The known facts about it.
    pub context: Value,
}

impl AnswerType {
    /// The name in a request and in a reply.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Choice => "choice",
            Self::Multi => "multi",
            Self::Score => "score",
        }
    }
}

impl Request {
    /// Reads a request, or lists all mistakes in it.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let question = json!({"type": "object", "required": ["question", "type", "options"],
            "properties": {
                "question": name_form(), "type": {"enum": ["choice", "multi", "score"]}, "options": options_form(1),
                "levels": {"type": ["array", "null"], "items": name_form(), "uniqueItems": true},
                "constraints": {"type": ["array", "null"], "items": {"type": "string"}}},
            "additionalProperties": false,
            "allOf": [
                {"if": {"properties": {"type": {"const": "choice"}}}, "then": {"properties": {"options": options_form(2)}}},
                {"if": {"properties": {"type": {"const": "score"}}},
                    "then": {"required": ["levels"], "properties": {"levels": {"type": "array", "minItems": 2}}},
                    "else": {"properties": {"levels": {"maxItems": 0}}}}]});
        let own = json!({
            "questions": {"type": "object", "minProperties": 1, "propertyNames": name_form(), "additionalProperties": question},
            "items": items_form("context")});
        Self::read(&read_object(text, request_form(own, &["questions"]))?)
    }

    /// A question with these options about the context, which is still empty.
    pub fn about_text(question: &str, options: &[String]) -> Result<Self, Vec<String>> {
        let question = json!({"question": question, "type": "choice", "options": options});
        let request =
            json!({"questions": {"answer": question}, "rationale": false, "confidence": false});
        Self::parse(&request.to_string())
    }

    /// Reads a request whose form has been validated.
    pub(super) fn read(request: &Value) -> Result<Self, Vec<String>> {
        let questions = request["questions"].as_object().into_iter().flatten();
        let items: Vec<DecisionItem> = match request["items"].as_array() {
            None => vec![DecisionItem { id: None, context: Value::Null }],
            Some(items) => items.iter().enumerate().map(|(at, item)| read_item(at, item)).collect(),
        };
        let mut seen = HashSet::new();
        let twice = items.iter().filter(|item| !seen.insert(&item.id));
        let twice: Vec<String> =
            twice.map(|item| format!("two items have the id {:?}", item.name())).collect();
        if !twice.is_empty() {
            return Err(twice);
        }
        Ok(Self {
            context: request.get("context").filter(|context| !context.is_null()).cloned(),
            constraints: read_texts(&request["constraints"]),
            questions: questions.map(|(id, question)| read_question(id, question)).collect(),
            items,
            rationale: request["rationale"].as_bool().unwrap_or(true),
            confidence: request["confidence"].as_bool().unwrap_or(true),
        })
    }
}

impl DecisionItem {
    /// Its name in the reply.
    pub fn name(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

/// Reads the JSON object in a text, in a code block or between sentences, and validates it against a JSON Schema.
pub(super) fn read_object(text: &str, form: Value) -> Result<Value, Vec<String>> {
    let within = text.find('{').zip(text.rfind('}')).filter(|(from, to)| from < to);
    let text = within.map_or(text, |(from, to)| &text[from..=to]);
    Ok(Schema::new(form).map_err(|error| vec![error])?.check(text)?.1)
}

/// The schema of a request with these members in addition to those that all requests have.
pub(super) fn request_form(own: Value, required: &[&str]) -> Value {
    let flag = json!({"type": ["boolean", "null"]});
    let mut form = json!({"type": "object", "required": required, "additionalProperties": false,
        "properties": {
            "context": {"type": ["string", "object", "array", "null"]},
            "constraints": {"type": ["array", "null"], "items": {"type": "string"}},
            "rationale": flag, "confidence": flag}});
    if let (Some(all), Value::Object(own)) = (form["properties"].as_object_mut(), own) {
        all.extend(own);
    }
    form
}

/// The schema of a text that is not blank.
pub(super) fn name_form() -> Value {
    json!({"type": "string", "pattern": "\\S"})
}

/// The schema of names: a list, or an object of names and their meanings.
pub(super) fn options_form(least: u64) -> Value {
    json!({"type": ["array", "object"],
        "items": name_form(), "uniqueItems": true, "minItems": least,
        "propertyNames": name_form(), "additionalProperties": {"type": ["string", "null"]}, "minProperties": least})
}

/// The schema of items: texts, or objects with an `id` and the known facts under `key`.
pub(super) fn items_form(key: &str) -> Value {
    let known = json!({"not": {"enum": [null, {}, []]}, "pattern": "\\S"});
    let id = json!({"type": ["string", "number"], "pattern": "\\S"});
    json!({"type": ["array", "null"], "items": {"type": ["string", "object"], "pattern": "\\S",
        "required": ["id", key], "properties": {"id": id, key: known}, "additionalProperties": false}})
}

fn read_question(id: &str, question: &Value) -> Question {
    let options = match &question["options"] {
        Value::Object(meanings) => meanings
            .iter()
            .map(|(name, meaning)| (name.clone(), meaning.as_str().map(str::to_owned)))
            .collect(),
        names => read_texts(names).into_iter().map(|name| (name, None)).collect(),
    };
    Question {
        id: id.to_owned(),
        text: question["question"].as_str().unwrap_or_default().to_owned(),
        kind: match question["type"].as_str() {
            Some("multi") => AnswerType::Multi,
            Some("score") => AnswerType::Score,
            _ => AnswerType::Choice,
        },
        options,
        levels: read_texts(&question["levels"]),
        constraints: read_texts(&question["constraints"]),
    }
}

fn read_item(at: usize, item: &Value) -> DecisionItem {
    let (id, context) = match item {
        Value::Object(members) => (&members["id"], item["context"].clone()),
        text => (&Value::from(at + 1), text.clone()),
    };
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    DecisionItem { id: Some(id), context }
}

fn read_texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = r#"{"questions": {"a": {"question": "?", "type": "choice", "options": ["x", "x"], "levels": ["l", "h"]},
            "b": {"question": "", "type": "score", "options": {"y": 1}}, "c": {"type": "guess"}, "d": {"question": "?", "type": "choice", "options": ["x"]}},
            "items": ["", {"id": "1", "contex": "z"}], "extra": 1, "rationale": true, "rationale": true}"#;
        let errors = Request::parse(text).unwrap_err().join("\n");
        for part in [
            "/rationale appears twice",
            "'extra'",
            "/questions/a/options: ",
            "/questions/a/levels: ",
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
    }

    #[test]
    fn requests_stand_in_prose_too() {
        let text = "Here:\n```json\n{\"questions\": {\"q\": {\"question\": \"?\", \"type\": \"multi\", \"options\": {\"a\": \"first\", \"b\": null}}}}\n```";
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
}
