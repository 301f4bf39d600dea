//! Many inputs and one set of categories: a request of one question, and its answers with the inputs of each category.

use serde_json::{Map, Value, json};

use super::request::{AnswerType, DecisionItem, Question, Request, RequestReader, read_object};

/// The name of the only question.
const QUESTION: &str = "category";

/// Reads a request to classify as one to decide, or says all that is wrong with it.
pub fn parse(text: &str) -> Result<Request, Vec<String>> {
    let (object, errors) = read_object(text).map_err(|error| vec![error])?;
    let mut reader = RequestReader { errors };
    let known = [
        "question",
        "categories",
        "inputs",
        "context",
        "constraints",
        "multi_label",
        "rationale",
        "confidence",
    ];
    reader.check_keys(&object, &known, "the request");
    let text = reader.read_text(&object, "question", "the request");
    let options = reader.read_options(object.get("categories"), 2, "\"categories\"");
    let constraints = reader.read_texts(object.get("constraints"), "\"constraints\"");
    let items = if let Some(Value::Array(values)) = object.get("inputs") {
        reader.read_items(values, "text")
    } else {
        reader.complain("\"inputs\" is a list");
        Vec::new()
    };
    let kind = if reader.read_flag(&object, "multi_label", false) {
        AnswerType::Multi
    } else {
        AnswerType::Choice
    };
    let rationale = reader.read_flag(&object, "rationale", true);
    let confidence = reader.read_flag(&object, "confidence", true);
    if !reader.errors.is_empty() {
        return Err(reader.errors);
    }
    let question = Question {
        id: QUESTION.to_owned(),
        text,
        kind,
        options,
        levels: Vec::new(),
        constraints: Vec::new(),
    };
    let context = object.get("context").filter(|context| !context.is_null()).cloned();
    Ok(Request { context, constraints, questions: vec![question], items, rationale, confidence })
}

/// The rows of inputs, and the inputs of each category.
pub fn write_rows(request: &Request, answers: &[Value]) -> (Value, Value) {
    let question = request.questions.first();
    let names = question.into_iter().flat_map(|question| &question.options);
    let mut buckets: Map<String, Value> =
        names.map(|(name, _)| (name.clone(), json!([]))).collect();
    let mut rows = Vec::new();
    for (DecisionItem { id, .. }, answer) in request.items.iter().zip(answers) {
        let answer = &answer[QUESTION];
        let categories: Vec<&Value> = match answer["choices"].as_array() {
            Some(several) => several.iter().collect(),
            None => vec![&answer["choice"]],
        };
        for name in categories.iter().filter_map(|name| name.as_str()) {
            if let Some(Value::Array(bucket)) = buckets.get_mut(name) {
                bucket.push(json!(id));
            }
        }
        rows.push(json!({
            "input": id,
            "category": answer["choice"],
            "categories": categories,
            "confidence": answer["confidence"],
            "why": answer["why"],
        }));
    }
    (rows.into(), Value::Object(buckets))
}
