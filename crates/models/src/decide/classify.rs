//! Sorts many inputs into one set of categories: a request of one question, and its answers with the inputs of each
//! category.

use serde_json::{Map, Value, json};

use super::request::{
    DecisionItem, Request, items_form, name_form, options_form, read_object, request_form,
};

/// The id of the only question.
const QUESTION: &str = "category";

/// Reads a request to classify as a request to decide, or lists all mistakes in it.
pub fn parse(text: &str) -> Result<Request, Vec<String>> {
    let own = json!({"question": name_form(), "categories": options_form(2), "inputs": items_form("text"),
        "multi_label": {"type": ["boolean", "null"]}});
    let form = request_form(own, &["question", "categories", "inputs"]);
    let mut request = read_object(text, form)?;
    let kind = if request["multi_label"] == true { "multi" } else { "choice" };
    let (text, options) = (request["question"].take(), request["categories"].take());
    request["questions"] = json!({QUESTION: {"question": text, "type": kind, "options": options}});
    request["items"] = request["inputs"].take();
    for item in request["items"].as_array_mut().into_iter().flatten() {
        if item.is_object() {
            item["context"] = item["text"].take();
        }
    }
    Request::read(&request)
}

/// Returns a row for each input, and the inputs of each category.
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
