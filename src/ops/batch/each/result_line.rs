//! A result, as it is stored and printed.

use serde_json::{Map, Value, json};

use super::inputs::EachInput;
use crate::ops::setup::flags::RunArgs;
use crate::overview::TurnsUsage;
use conversation::exit::Exit;
use conversation::format::code_block::find_code_block;

/// The keys of a result.
pub(super) type ResultLine = Map<String, Value>;

impl EachInput {
    /// The result of this input as one document has it.
    pub(super) fn with_result(&self, result: ResultLine) -> ResultLine {
        let mut line = Map::from_iter([
            ("index".to_owned(), json!(self.index)),
            ("input".to_owned(), self.input.to_value()),
        ]);
        line.extend(
            self.input.invalid_utf8_hex().map(|bytes| ("input_bytes".to_owned(), bytes.into())),
        );
        line.extend(self.same_as.map(|index| ("same_as".to_owned(), json!(index))));
        line.extend(result);
        line
    }

    /// The result of this input as a line, with the text of a JSON input as it is.
    pub(super) fn to_line(&self, result: ResultLine) -> String {
        let mut line = self.with_result(result);
        line.shift_remove("index");
        line.shift_remove("input");
        let (input, rest) = (self.input.to_json(), Value::Object(line).to_string());
        format!("{{\"index\":{},\"input\":{input},{}", self.index, &rest[1..])
    }
}

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

/// The result of an answer that a conversation had already.
pub(super) fn recovered_result(
    args: &RunArgs,
    conversation: &str,
    text: &str,
    usage: TurnsUsage,
) -> ResultLine {
    let data = args.answer.schema.as_ref().and_then(|_| serde_json::from_str(text).ok());
    let code = args.code.then(|| find_code_block(text).into());
    let mut result = result_of(Exit::Done, None, text, conversation);
    result.extend(data.map(|data: Value| ("data".to_owned(), data)));
    result.extend(code.map(|code| ("code".to_owned(), code)));
    result.extend([
        ("turn_count".to_owned(), json!(usage.turns)),
        ("tokens_in".to_owned(), json!(usage.input)),
        ("tokens_out".to_owned(), json!(usage.output)),
        ("cost".to_owned(), json!(usage.known_cost())),
    ]);
    result
}
