//! The events of a run, as `--lines` prints them, one JSON object a line, and as a parent reads them from its children.
//!
//! ```text
//! begin   conversation conversation_path provider model cwd prompts tokens window
//! ask     turn                                   text    text
//! heard   turn tokens_in tokens_out tokens_cached cost verdict
//! decide  n tag attributes first_line bytes bytes_out bytes_in body folder
//! start   n tag attributes first_line bytes bytes_out bytes_in body
//! finish  n tag status reason first_line more_lines path shown lines_before output previous diff diff_cut, and numbers of the result
//! output  n shown lines_before
//! say     text          check   n command try of             after_write   n command
//! wait    seconds error                note    text          compact
//! ```
//! An event of a child has the key `child`: the names that lead to it. docs/editors.md describes the keys.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use conversation::approve::{self, body_mut};
use conversation::format::columns::truncate;
use conversation::format::edit;
use conversation::format::file::Block;
use conversation::format::harmless::quote_name;
use conversation::format::numbers::format_count;
use conversation::format::terminal_text::TerminalText;
use conversation::protocol::tags::TAGS;
use conversation::protocol::{Access, Action, Change};
use conversation::reason::Reason;
use conversation::turn::event::Verdict;

/// Number of lines at the end of an output that are shown.
pub const LAST_LINES: usize = 10;

/// The columns of a command of which only a line is shown.
const SHORT: usize = 60;

/// The name of the command after writes in events and blocks.
pub const AFTER_WRITE: &str = "after_write";

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/editors.md describes each event and its keys")]
pub enum RunEvent {
    Begin(Begin),
    Ask {
        turn: u64,
    },
    Text {
        text: String,
    },
    Heard {
        turn: u64,
        tokens_in: u64,
        tokens_out: u64,
        tokens_cached: u64,
        cost: Option<f64>,
        verdict: Verdict,
    },
    /// A question: somebody has to decide about the action.
    Decide(Start),
    Start(Start),
    Finish(Box<Finish>),
    /// The end of what a running command has printed.
    Output {
        n: u64,
        shown: Vec<String>,
        lines_before: u64,
    },
    Say {
        text: String,
    },
    Check {
        n: u64,
        command: String,
        #[serde(rename = "try", default)]
        attempt: u32,
        #[serde(rename = "of", default)]
        attempts: u32,
    },
    /// The conversation becomes shorter.
    Compact,
    AfterWrite {
        n: u64,
        command: String,
    },
    Wait {
        seconds: f64,
        error: String,
    },
    Note {
        text: String,
    },
}

/// The conversation of a run, before its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/editors.md describes the keys")]
pub struct Begin {
    pub conversation: String,
    pub conversation_path: String,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub cwd: String,
    pub prompts: u64,
    pub tokens: u64,
    pub window: Option<u64>,
}

/// An action that starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/editors.md describes the keys")]
pub struct Start {
    pub n: u64,
    pub tag: String,
    pub attributes: BTreeMap<String, String>,
    pub first_line: String,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_two: Option<String>,
}

/// The result of an action or of `--check`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/editors.md describes the keys")]
pub struct Finish {
    pub n: u64,
    pub tag: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub first_line: String,
    pub more_lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    #[serde(default)]
    pub lines_before: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    #[serde(default)]
    pub diff_cut: bool,
    /// Whether the user was just shown the diff.
    #[serde(skip)]
    pub is_known: bool,
    #[serde(flatten)]
    pub figures: Map<String, Value>,
}

impl Start {
    /// An action that starts, the `n`th of the run.
    pub fn new(n: u64, action: &Action) -> Self {
        let (attributes, body) = action.attributes_and_body();
        let sums = match action {
            Action::Change(Change::Edit { blocks, .. }) => edit::parse(blocks).ok().map(|edits| {
                let sum = |lengths: &dyn Fn(&edit::EditBlock) -> usize| {
                    edits.iter().map(|edit| lengths(edit) as u64).sum::<u64>()
                };
                (sum(&|edit| edit.search.len()), sum(&|edit| edit.replace.len()))
            }),
            _ => None,
        };
        // Of a change the diff is shown.
        let is_shown = !matches!(action.access(), Access::Read | Access::Write);
        Self {
            n,
            tag: action.tag_name().to_owned(),
            attributes,
            first_line: body.lines().next().unwrap_or_default().to_owned(),
            bytes: body.len() as u64,
            bytes_out: sums.map(|(out, _)| out),
            bytes_in: sums.map(|(_, into)| into),
            body: Some(body.to_owned()).filter(|text| is_shown && !text.is_empty()),
            folder: None,
            first_two: None,
        }
    }

    /// The question about an action in a folder, the `n`th of the run: the event of its start, with its whole text, and where
    /// commands run in a sandbox the words that one answer can cover.
    pub fn to_decide(n: u64, action: &Action, folder: &Path, has_sandbox: bool) -> Self {
        let body = body_mut(&mut action.clone()).map(std::mem::take);
        let first_two = match action {
            Action::Shell { commands, keep: None, outside: None, .. } if has_sandbox => {
                approve::first_two(commands)
            }
            _ => None,
        };
        let folder = Some(folder.display().to_string());
        Self { body, folder, first_two, ..Self::new(n, action) }
    }
}

impl RunEvent {
    /// The event of a result; `tag` is that of its action, `check` or [`AFTER_WRITE`]. With `all` it has the whole output, where the result
    /// has it. The diff is added by the caller.
    pub fn finish(n: u64, tag: &str, block: &Block, all: bool) -> Finish {
        let body = block.body.as_deref().unwrap_or_default();
        let get = |name: &str| block.get(name).map(str::to_owned);
        let has_output = shows_output(tag);
        // A command that fails without a word has a hint for the model in place of its output.
        let is_hint = get("bytes").is_some_and(|bytes| bytes == "0")
            && get("exit_code").is_some_and(|code| code == "1")
            && !all
            && has_output;
        let body = if is_hint { body.split_once('\n').map_or("", |(_, rest)| rest) } else { body };
        // The last line explains the sandbox to the model.
        let is_denied = block.get("reason") == Some(Reason::Sandbox.name()) && !all;
        let body =
            if is_denied { body.rsplit_once('\n').map_or("", |(rest, _)| rest) } else { body };
        let figures = block.attributes.iter().filter_map(|(name, value)| {
            // These names are used for the lines of the text.
            let name = match name.as_str() {
                "first_line" => "from_line",
                "last_line" => "to_line",
                "n" | "more_lines" | "lines_before" => return None,
                name => name,
            };
            let number: serde_json::Number = value.parse().ok()?;
            Some((name.to_owned(), Value::Number(number)))
        });
        let figures: Map<String, Value> = figures.collect();
        let count = body.lines().count();
        let lines = figures.get("lines").and_then(Value::as_u64).unwrap_or(0).max(count as u64);
        let first = match (all, has_output) {
            (true, _) => 0,
            (false, true) => count.saturating_sub(LAST_LINES),
            (false, false) => count,
        };
        let show = |line: &str| {
            if has_output { TerminalText::show_line(line) } else { line.to_owned() }
        };
        let shown: Vec<String> = body.lines().skip(first).map(show).collect();
        Finish {
            n,
            tag: tag.to_owned(),
            status: get("status").unwrap_or_else(|| "ok".to_owned()),
            reason: get("reason"),
            first_line: body.lines().next().map(show).unwrap_or_default(),
            more_lines: (count as u64).saturating_sub(1),
            path: get("resolved").or_else(|| get("path")),
            lines_before: if has_output { lines.saturating_sub(shown.len() as u64) } else { 0 },
            shown,
            output: get("output"),
            previous: get("previous"),
            figures,
            ..Finish::default()
        }
    }

    /// Shortens the action `asked` to what fits into a line, since the user was just shown all of it.
    pub fn shorten(&mut self, asked: u64) {
        match self {
            Self::Start(Start { n, body: Some(body), .. }) if *n == asked => {
                let lines = body.trim().lines().count();
                let first = truncate(body.trim().lines().next().unwrap_or_default(), SHORT);
                *body = first;
                if lines > 1 {
                    body.push_str(&format!(" … +{}", format_count(lines as u64 - 1, "line")));
                }
            }
            Self::Finish(finish) if finish.n == asked => finish.is_known = true,
            _ => {}
        }
    }

    /// The line of `--lines`, of the run itself or of a child.
    pub fn to_line(&self, children: &[String]) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let (Value::Object(object), false) = (&mut value, children.is_empty()) {
            object.insert("child".to_owned(), children.into());
        }
        value
    }

    /// Reads such a line: the names of the children that lead to it, and the event. `None`: it is not one.
    pub fn from_line(line: &str) -> Option<(Vec<String>, Self)> {
        let mut object: Map<String, Value> = serde_json::from_str(line).ok()?;
        let children = match object.remove("child") {
            Some(names) => serde_json::from_value(names).ok()?,
            None => Vec::new(),
        };
        Some((children, serde_json::from_value(Value::Object(object)).ok()?))
    }
}

/// Whether the end of the output is shown, of an action or of a command of the user's.
pub fn shows_output(tag: &str) -> bool {
    matches!(tag, "nagent-shell" | "nagent-conversation" | "check" | AFTER_WRITE)
}

/// Describes what an action is about, as its row in the table of tags says: `src/main.rs from line 10`.
pub fn describe_target(tag: &str, attributes: &BTreeMap<String, String>) -> String {
    let row = TAGS.iter().find(|row| row.name == tag);
    let mut what = String::new();
    for name in row.map_or(&[][..], |row| row.target) {
        let Some(value) = attributes.get(*name) else { continue };
        let value = quote_name(value);
        what.push_str(&match *name {
            "offset" => format!(" from line {value}"),
            "limit" if attributes.contains_key("offset") => String::new(),
            "limit" => " from line 1".to_owned(),
            "glob" => format!(" ({value})"),
            _ if what.is_empty() => value,
            "path" => format!(" in {value}"),
            _ => format!(" {value}"),
        });
    }
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        let block = Block::new("nagent-shell-result")
            .with("status", "error")
            .with("exit_code", 7)
            .with("seconds", "1.250")
            .with("lines", 30)
            .body((0..12).map(|n| format!("line {n}\n")).collect::<String>());
        let finish = RunEvent::finish(3, "nagent-shell", &block, false);
        assert_eq!((finish.shown.len(), finish.lines_before, finish.more_lines), (10, 20, 11));
        assert_eq!(finish.shown[9], "line 11");
        let shell =
            Action::Shell { commands: "a\nb".into(), timeout: Some(5), keep: None, outside: None };
        let usage = RunEvent::Heard {
            turn: 1,
            tokens_in: 2,
            tokens_out: 3,
            tokens_cached: 0,
            cost: None,
            verdict: Verdict::Cut,
        };
        for event in [
            RunEvent::Finish(Box::new(finish)),
            RunEvent::Start(Start::new(3, &shell)),
            usage,
            RunEvent::Wait { seconds: 0.5, error: "busy".into() },
        ] {
            for children in [vec![], vec!["a".to_owned(), "b".to_owned()]] {
                let line = event.to_line(&children).to_string();
                assert_eq!(RunEvent::from_line(&line), Some((children, event.clone())), "{line}");
            }
        }
        assert_eq!(RunEvent::from_line("{\"event\":\"new\"}"), None);
        assert_eq!(RunEvent::from_line("word"), None);
    }
}
