//! Recordings of exchanges, which replace a model in tests and demonstrations. Only the replies are recorded.
//!
//! JSON lines, in any order; blank lines are ignored:
//!
//! ```text
//! {"conversation":"0","turn":1,"after":[],"reply":"<nagent-shell>…","usage":{"input":9,"cached":0,"output":4}}
//! {"conversation":"0.1","turn":1,"after":["nagent-shell-result ok exit_code=0"],"reply":"…"}
//! ```
//!
//! `conversation` is a lineage: `0` is the main conversation, `0.1`, `0.2` are its children in the order in which they
//! were started, `0.1.1` is a child of a child. `turn` counts the model's replies in it, from 1. `after` are the heads
//! of the results before this reply, so that a replay can report where the results differ.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use conversation::model::Usage;

/// One line of a recording: a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedReply {
    /// The conversation's lineage.
    pub conversation: String,
    /// The number of the reply, from 1.
    pub turn: u64,
    /// The heads of the results before it.
    #[serde(default)]
    pub after: Vec<String>,
    /// The model's text.
    pub reply: String,
    /// The tokens that it cost; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The replies of a recording, at most one for each lineage and turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording(HashMap<(String, u64), RecordedReply>);

impl Recording {
    /// Reads a recording. The error is the number of the line, from 1, and a description.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut recording = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            recording.add_line(line).map_err(|message| (index + 1, message))?;
        }
        Ok(recording)
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let entry: RecordedReply =
            serde_json::from_str(line.trim()).map_err(|error| error.to_string())?;
        let RecordedReply { conversation, turn, .. } = &entry;
        if !is_lineage(conversation) {
            let shown = conversation.escape_debug();
            return Err(format!("“{shown}” is not a place in a recording, such as 0 or 0.1"));
        }
        if *turn == 0 {
            return Err("turns count from 1".to_owned());
        }
        let place = (conversation.clone(), *turn);
        if self.0.contains_key(&place) {
            return Err(format!("conversation {conversation} already has turn {turn}"));
        }
        self.0.insert(place, entry);
        Ok(())
    }

    /// Finds the reply recorded for a turn of a lineage.
    pub fn find_reply(&self, lineage: &str, turn: u64) -> Option<&RecordedReply> {
        self.0.get(&(lineage.to_owned(), turn))
    }
}

impl RecordedReply {
    /// One line with its line end, for appending to a recording.
    pub fn format(&self) -> String {
        let mut line =
            serde_json::to_string(self).expect("strings and numbers written to memory cannot fail");
        line.push('\n');
        line
    }
}

/// Whether a text is a lineage: `0`, and numbers of children after dots, from 1.
fn is_lineage(text: &str) -> bool {
    let mut steps = text.split('.');
    steps.next() == Some("0")
        && steps.all(|step| {
            !step.is_empty()
                && !step.starts_with('0')
                && step.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// Describes the first difference between the recorded results and the actual ones, in one line.
pub fn describe_difference(recorded: &[String], happened: &[String]) -> Option<String> {
    let at =
        (0..recorded.len().max(happened.len())).find(|&at| recorded.get(at) != happened.get(at))?;
    let show = |heads: &[String]| match heads.get(at) {
        Some(head) => format!("“{}”", head.chars().take(120).collect::<String>().escape_debug()),
        None => "nothing".to_owned(),
    };
    let counts = match (recorded.len(), happened.len()) {
        (old, new) if old == new => String::new(),
        (old, new) => format!(" ({old} recorded, {new} now)"),
    };
    Some(format!("result {}: recorded {}, now {}{counts}", at + 1, show(recorded), show(happened)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines() {
        let text = concat!(
            r#"{"conversation":"0","turn":1,"after":["nagent-shell-result ok exit_code=0"],"reply":"a\nb","usage":{"input":9,"cached":4,"output":2}}"#,
            "\n\n",
            r#"{"conversation":"0.1","turn":1,"reply":"c"}"#,
        );
        let recording = Recording::parse(text).unwrap();
        let first = recording.find_reply("0", 1).unwrap();
        assert_eq!((first.reply.as_str(), first.usage.unwrap().cached), ("a\nb", 4));
        assert_eq!(recording.find_reply("0.1", 1).unwrap().after, Vec::<String>::new());
        assert_eq!(recording.find_reply("0", 2), None);
    }

    #[test]
    fn bad_lines_are_named() {
        let check = |text: &str, line: usize, part: &str| {
            let (at, message) = Recording::parse(text).unwrap_err();
            assert!(at == line && message.contains(part), "{at}: {message}");
        };
        check("\n{", 2, "EOF");
        check(
            r#"{"conversation":"0","turn":1,"reply":"a","replay":1}"#,
            1,
            "unknown field `replay`",
        );
        check(r#"{"conversation":"1","turn":1,"reply":"a"}"#, 1, "not a place in a recording");
        check(r#"{"conversation":"0.01","turn":1,"reply":"a"}"#, 1, "not a place in a recording");
        check(r#"{"conversation":"0","turn":0,"reply":"a"}"#, 1, "count from 1");
        check(
            "{\"conversation\":\"0\",\"turn\":1,\"reply\":\"a\"}\n{\"conversation\":\"0\",\"turn\":1,\"reply\":\"b\"}",
            2,
            "already",
        );
    }

    #[test]
    fn one_line_says_the_difference() {
        let check = |recorded: &[&str], happened: &[&str], expect: Option<&str>| {
            let own =
                |heads: &[&str]| heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>();
            assert_eq!(describe_difference(&own(recorded), &own(happened)).as_deref(), expect);
        };
        check(&["a", "b"], &["a", "b"], None);
        check(&["a", "b"], &["a", "c\n"], Some("result 2: recorded “b”, now “c\\n”"));
        check(&["a"], &[], Some("result 1: recorded “a”, now nothing (1 recorded, 0 now)"));
        check(&[], &["a", "b"], Some("result 1: recorded nothing, now “a” (0 recorded, 2 now)"));
    }

    fn entry() -> impl Strategy<Value = RecordedReply> {
        let usage = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(input, cached, cache_written, output, estimated)| Usage {
                input,
                cached,
                cache_written,
                output,
                reasoning: output / 2,
                estimated,
            });
        (
            "0(\\.[1-9][0-9]?){0,3}",
            1u64..9,
            prop::collection::vec(any::<String>(), 0..3),
            any::<String>(),
            prop::option::of(usage),
        )
            .prop_map(|(conversation, turn, after, reply, usage)| RecordedReply {
                conversation,
                turn,
                after,
                reply,
                usage,
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in prop::collection::vec(entry(), 0..12)) {
            for entry in entries {
                let recording = Recording::parse(&entry.format()).unwrap();
                prop_assert_eq!(recording.find_reply(&entry.conversation, entry.turn), Some(&entry));
            }
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = Recording::parse(&text);
        }
    }
}
