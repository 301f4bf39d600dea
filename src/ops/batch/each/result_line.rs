//! A result, as it is stored and printed.

use serde_json::{Map, Value, json};

use super::inputs::EachInput;
use conversation::exit::Exit;

/// The keys of a result.
pub(super) type ResultLine = Map<String, Value>;

impl EachInput {
    /// The result of this input in the document of `--json`.
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
