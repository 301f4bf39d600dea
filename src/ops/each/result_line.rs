//! A result, as it is stored and printed.

use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::overview::TurnsUsage;

/// The keys of a result.
pub(super) type ResultLine = Map<String, Value>;

/// A result with the keys that every one has.
pub(super) fn result_of(
    exit: Exit,
    error: Option<String>,
    response: &str,
    conversation: &str,
) -> ResultLine {
    let mut result = Map::from_iter([("exit_code".to_owned(), json!(exit.code()))]);
    result.extend(error.map(|error| ("error".to_owned(), error.into())));
    result.insert("response".to_owned(), response.into());
    result.insert("conversation".to_owned(), conversation.into());
    result
}

/// Adds what was used before a kill to the result of the run that went on.
pub(super) fn add_usage(result: &mut ResultLine, before: &TurnsUsage) {
    let counts =
        [("turn_count", before.turns), ("tokens_in", before.input), ("tokens_out", before.output)];
    for (key, more) in counts {
        if let Some(count) = result.get(key).and_then(Value::as_u64) {
            result.insert(key.to_owned(), json!(count.saturating_add(more)));
        }
    }
    if let Some(cost) = result.get("cost").and_then(Value::as_f64) {
        result.insert("cost".to_owned(), json!(cost + before.cost));
    }
}
