//! The lines between `nagent-js --worker`, which has the engine and no rights, and its parent, which has the rights.
//!
//! ```text
//! parent → worker   Start, then one answer for each call: {"Ok": VALUE} | {"Err": TEXT}
//! worker → parent   {"ready": LANDLOCK} or {"failed": WHY}, then calls: {"call": {"name": NAME, "args": [...]}}, then one end:
//!                   {"end": {"value": TEXT | null}}, or threw, resumed, exit in place of value; or "memory"
//! ```
//!
//! Each is one line of JSON. The worker waits for the answer of a call before it writes again; its messages are data
//! and untrusted: code that a model wrote may have taken over the process.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The job of the worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    /// The script.
    pub code: String,
    /// The name of the script's file in messages.
    pub file: String,
    /// The folder that `require` begins in.
    pub base: String,
    /// `process.args`.
    pub args: Vec<String>,
    /// `process.cwd()`.
    pub cwd: String,
    /// The limit of the heap in bytes.
    pub memory: u64,
}

/// A message of the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerMessage {
    /// The process has given up its rights; the flag says whether Landlock is enforced, too.
    Ready(bool),
    /// It could not give them up.
    Failed(String),
    /// A call of a function of the API.
    Call {
        /// Its name, as `fs.readFile`.
        name: String,
        /// Its arguments.
        args: Vec<Value>,
    },
    /// The script used more memory than it may.
    Memory,
    /// The end of the script.
    End(End),
}

/// The way in which a script ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// On its own, with a value. `None`: undefined or null.
    Value(Option<String>),
    /// It threw, or is not valid JavaScript.
    Threw {
        /// The message.
        message: String,
        /// The line in the script, counted from 1, if it is known.
        line: Option<u64>,
    },
    /// It called `agent.resume`, with this context.
    Resumed(Option<String>),
    /// It called `process.exit`.
    Exit(i32),
}

impl WorkerMessage {
    /// Parses a line; `None`: it is not one of the messages.
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The line, without its line feed.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The line that answers a call, without its line feed.
pub(crate) fn answer_line(answer: &Result<Value, String>) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// Replaces each half of a surrogate pair in the JSON of the engine by U+FFFD: JavaScript accepts them as text, other
/// parsers do not.
pub fn replace_lone_surrogates(json: String) -> String {
    if !json.contains("\\ud") {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        // The engine escapes no whole pairs.
        let is_half = matches!(escape.as_bytes(), [_, b'u', b'd', b'8' | b'9' | b'a'..=b'f', ..]);
        let (replacement, length) = if is_half { ("\u{fffd}", 6) } else { (&escape[..2], 2) };
        out.push_str(before);
        out.push_str(replacement);
        rest = &escape[length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_nothing_else_is_one() {
        for end in [
            End::Value(None),
            End::Value(Some("a\n".into())),
            End::Threw { message: "x".into(), line: Some(3) },
            End::Threw { message: String::new(), line: None },
            End::Resumed(None),
            End::Exit(-1),
        ] {
            let message = WorkerMessage::End(end);
            assert_eq!(WorkerMessage::parse(message.to_line().as_bytes()), Some(message));
        }
        assert_eq!(WorkerMessage::parse(b"\"memory\""), Some(WorkerMessage::Memory));
        let call = br#"{"call":{"name":"fs.stat","args":["a"]}}"#;
        let expect = WorkerMessage::Call { name: "fs.stat".into(), args: vec!["a".into()] };
        assert_eq!(WorkerMessage::parse(call), Some(expect));
        for line in [
            "",
            "{",
            "[]",
            "{}",
            "1",
            r#"{"call":{"name":"x"}}"#,
            r#"{"end":{"exit":1e99}}"#,
            r#"{"end":{"exit":1}} {"end":{"exit":1}}"#,
            r#"{"ready":1}"#,
            "\u{fffd}",
        ] {
            assert!(WorkerMessage::parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}
