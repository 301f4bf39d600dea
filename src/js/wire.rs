//! The lines between `nagent-js --worker`, which has the engine and no rights, and its parent, which has the rights.
//!
//! ```text
//! parent → worker   Start, then one answer for each call: {"ok": VALUE} | {"error": TEXT}
//! worker → parent   {"ready": BOOL} or {"failed": TEXT}, then calls: {"call": NAME, "args": [...]}, then one end:
//!                   {"value": TEXT | null} | {"threw": TEXT, "line": N} | {"resumed": TEXT | null} | {"exit": N} | {"memory": TEXT}
//! ```
//!
//! Each is one line of JSON. The worker waits for the answer of a call before it writes again; what comes from it is data and
//! untrusted: code that a model wrote may have taken the process over.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the worker is to run.
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

/// What the worker says. Exactly one of the fields that are no `args` and no `line` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The process has given up its rights; whether Landlock is among the ways.
    Ready {
        /// Whether Landlock holds.
        landlock: bool,
    },
    /// It could not give them up.
    Failed(String),
    /// A call of a function of the API.
    Call {
        /// Its name, as `fs.readFile`.
        name: String,
        /// Its arguments.
        args: Vec<Value>,
    },
    /// The end.
    End(End),
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, with a value. `None`: undefined or null.
    Value(Option<String>),
    /// It threw, or is not JavaScript.
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
    /// It used more memory than it may.
    Memory(String),
}

impl Message {
    /// Reads a line.
    ///
    /// # Errors
    /// It is none of the messages.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let broken = || "the engine broke its protocol".to_owned();
        let mut value: Value = serde_json::from_slice(line).map_err(|_| broken())?;
        let object = value.as_object_mut().ok_or_else(broken)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (name, first) = object.iter().next().ok_or_else(broken)?;
        let message = match (name.as_str(), first) {
            ("ready", Value::Bool(landlock)) => Self::Ready { landlock: *landlock },
            ("failed", Value::String(why)) => Self::Failed(why.clone()),
            ("value", value) => Self::End(End::Value(text(value))),
            ("resumed", value) => Self::End(End::Resumed(text(value))),
            ("memory", Value::String(why)) => Self::End(End::Memory(why.clone())),
            ("exit", value) => {
                let code = value.as_i64().and_then(|code| i32::try_from(code).ok());
                Self::End(End::Exit(code.ok_or_else(broken)?))
            }
            ("threw", Value::String(message)) => {
                let line = object.get("line").and_then(Value::as_u64);
                Self::End(End::Threw { message: message.clone(), line })
            }
            ("call", Value::String(name)) => {
                let name = name.clone();
                let Some(Value::Array(args)) = object.get_mut("args").map(Value::take) else {
                    return Err(broken());
                };
                Self::Call { name, args }
            }
            _ => return Err(broken()),
        };
        Ok(message)
    }

    /// The line of an end, without its line feed.
    pub fn end_line(end: &End) -> String {
        let value = match end {
            End::Value(value) => serde_json::json!({ "value": value }),
            End::Threw { message, line } => serde_json::json!({ "threw": message, "line": line }),
            End::Resumed(context) => serde_json::json!({ "resumed": context }),
            End::Exit(code) => serde_json::json!({ "exit": code }),
            End::Memory(why) => serde_json::json!({ "memory": why }),
        };
        value.to_string()
    }
}

/// The line that answers a call, without its line feed.
pub fn answer_line(answer: &Result<Value, String>) -> String {
    match answer {
        // The value may be 50 MiB, and is not copied.
        Ok(value) => format!("{{\"ok\":{value}}}"),
        Err(why) => serde_json::json!({ "error": why }).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_round_trip_and_nothing_else_is_a_message() {
        for end in [
            End::Value(None),
            End::Value(Some("a\n".into())),
            End::Threw { message: "x".into(), line: Some(3) },
            End::Threw { message: String::new(), line: None },
            End::Resumed(None),
            End::Exit(-1),
            End::Memory("m".into()),
        ] {
            let line = Message::end_line(&end);
            assert_eq!(Message::parse(line.as_bytes()), Ok(Message::End(end)));
        }
        let call = br#"{"call":"fs.stat","args":["a"]}"#;
        let expect = Message::Call { name: "fs.stat".into(), args: vec!["a".into()] };
        assert_eq!(Message::parse(call), Ok(expect));
        for line in [
            "",
            "{",
            "[]",
            "{}",
            "1",
            r#"{"call":"x"}"#,
            r#"{"exit":1e99}"#,
            r#"{"ready":1}"#,
            "\u{fffd}",
        ] {
            assert!(Message::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
