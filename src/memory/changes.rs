//! The changes that the runs of a file's conversation made to the file, from its blocks ([`super`] has the form). What
//! was undone is left out. It reads no content and undoes nothing.

use crate::format::conversation::Piece;
use crate::protocol::{self, Item, ParsedReply};

/// The word that stands for "there was no file".
pub const NO_FILE: &str = "none";

/// What one run did to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The run's prompt.
    pub prompt: String,
    /// When it was given, as it stands in the conversation.
    pub at: String,
    /// The content before: its SHA-256 in hexadecimal digits; `None`: there was no file.
    pub before: Option<String>,
    /// The content after.
    pub after: Option<String>,
}

/// A run that is being read.
struct Run {
    change: Change,
    is_settled: bool,
}

impl Run {
    /// What it changed, if it did. A run that was killed has no block at its end: its results tell.
    fn end(self) -> Option<Change> {
        (!self.is_settled && self.change.before != self.change.after).then_some(self.change)
    }
}

/// The changes that stand, the oldest first.
pub fn changes(text: &str, pieces: &[Piece]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut run: Option<Run> = None;
    for piece in pieces {
        match (piece.name(), piece.get("change")) {
            (Some("user-prompt"), _) => {
                changes.extend(run.take().and_then(Run::end));
                run = piece.get("before").map(|before| {
                    let change = Change {
                        prompt: piece.text(text).to_owned(),
                        at: piece.get("at").unwrap_or_default().to_owned(),
                        before: content(before),
                        after: content(before),
                    };
                    Run { change, is_settled: false }
                });
            }
            (Some("system"), Some("run")) => {
                let (Some(before), Some(after)) = (piece.get("before"), piece.get("after")) else {
                    continue;
                };
                let (prompt, at) = match run.as_mut() {
                    Some(run) => {
                        run.is_settled = true;
                        (run.change.prompt.clone(), run.change.at.clone())
                    }
                    None => (String::new(), String::new()),
                };
                changes.push(Change { prompt, at, before: content(before), after: content(after) });
            }
            (Some("system"), Some("undo")) => {
                changes.extend(run.take().and_then(Run::end));
                let count = piece.get("count").and_then(|count| count.parse().ok()).unwrap_or(1);
                changes.truncate(changes.len().saturating_sub(count));
            }
            (Some(name), _) if name.ends_with("-result") => {
                if let (Some(run), Some(after)) = (run.as_mut(), piece.get("after")) {
                    run.change.after = content(after);
                }
            }
            _ => {}
        }
    }
    changes.extend(run.and_then(Run::end));
    changes
}

/// The last run, where it was killed between two actions or within one, and no result tells of a change: what it may have
/// done to the file by a command nobody wrote down. Its `after` is its `before`.
pub fn killed(text: &str, pieces: &[Piece]) -> Option<Change> {
    let at = pieces.iter().rposition(|piece| piece.name() == Some("user-prompt"))?;
    let (prompt, run) = (&pieces[at], &pieces[at + 1..]);
    if run.iter().any(|piece| piece.get("change").is_some() || piece.get("exit").is_some()) {
        return None;
    }
    let reply = run.iter().rfind(|piece| piece.name() == Some("agent-response"))?;
    let (ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) =
        protocol::parse_reply(reply.text(text))
    else {
        return None;
    };
    // A reply without actions ends a run.
    if !items.iter().any(|item| matches!(item, Item::Action(_))) {
        return None;
    }
    let before = content(prompt.get("before")?);
    let is_told = run.iter().rev().find_map(|piece| piece.get("after"));
    is_told.is_none_or(|after| content(after) == before).then(|| Change {
        prompt: prompt.text(text).to_owned(),
        at: prompt.get("at").unwrap_or_default().to_owned(),
        before: before.clone(),
        after: before,
    })
}

/// A content as an attribute names it.
fn content(value: &str) -> Option<String> {
    (value != NO_FILE).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::conversation::parse;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str, &str)]) {
        let parsed = parse(text);
        assert_eq!(parsed.trouble, None);
        let show = |content: &Option<String>| content.clone().unwrap_or_else(|| "-".into());
        let found: Vec<_> = changes(text, &parsed.pieces)
            .iter()
            .map(|change| (change.prompt.clone(), show(&change.before), show(&change.after)))
            .collect();
        let expect: Vec<_> = expect
            .iter()
            .map(|(prompt, before, after)| {
                ((*prompt).to_owned(), (*before).to_owned(), (*after).to_owned())
            })
            .collect();
        assert_eq!(found, expect);
    }

    const FIRST: &str = "<user-prompt at=\"t\" before=\"none\">\none\n</user-prompt>\n\n\
        <nagent-write-result status=\"ok\" after=\"a\">\n</nagent-write-result>\n\n\
        <system change=\"run\" before=\"none\" after=\"b\">\nx\n</system>\n\n";
    const SECOND: &str = "<user-prompt at=\"t\" before=\"b\">\ntwo\n</user-prompt>\n\n\
        <nagent-edit-result status=\"ok\" after=\"c\">\n</nagent-edit-result>\n\n";
    const IDLE: &str = "<user-prompt at=\"t\" before=\"c\">\nask\n</user-prompt>\n\n";

    #[test]
    fn each_run_that_changed_the_file_is_one_change() {
        check("", &[]);
        check(FIRST, &[("one", "-", "b")]);
        check(&format!("{FIRST}{SECOND}"), &[("one", "-", "b"), ("two", "b", "c")]);
        check(&format!("{FIRST}{SECOND}{IDLE}"), &[("one", "-", "b"), ("two", "b", "c")]);
        check("<user-prompt at=\"t\">\nold\n</user-prompt>\n", &[]);
    }

    #[test]
    fn a_run_that_was_killed_before_it_told_of_a_change() {
        let check = |text: &str, expect: bool| {
            let parsed = parse(text);
            assert_eq!(parsed.trouble, None);
            assert_eq!(killed(text, &parsed.pieces).is_some(), expect, "{text}");
        };
        let shell = "<agent-response>\n<nagent-shell>x</nagent-shell>\n</agent-response>\n\n";
        let last = "<agent-response>\n<nagent-response>x</nagent-response>\n</agent-response>\n\n";
        check(&format!("{IDLE}{shell}"), true);
        check(&format!("{FIRST}{IDLE}{shell}"), true);
        check(&format!("{IDLE}{shell}{last}"), false);
        check(&format!("{IDLE}{shell}<system exit=\"130\">\nx\n</system>\n"), false);
        check(&format!("{IDLE}{shell}<system change=\"undo\" count=\"0\">\nx\n</system>\n"), false);
        check(&format!("{SECOND}{shell}"), false);
        check(&format!("{IDLE}{shell}<user-prompt>\nnext\n</user-prompt>\n"), false);
        check(IDLE, false);
        check("", false);
    }

    #[test]
    fn what_was_undone_is_gone() {
        let undo = |n: u32| {
            format!(
                "<system change=\"undo\" before=\"c\" after=\"b\" count=\"{n}\">\nx\n</system>\n\n"
            )
        };
        check(&format!("{FIRST}{SECOND}{}", undo(1)), &[("one", "-", "b")]);
        check(&format!("{FIRST}{SECOND}{}", undo(2)), &[]);
        check(&format!("{FIRST}{SECOND}{}{SECOND}", undo(9)), &[("two", "b", "c")]);
    }
}
