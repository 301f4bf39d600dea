//! Lists the changes that the runs of a file's conversation made to the file, from the attributes of its blocks ([`super`]
//! has the form). Changes that were undone are left out.

use crate::format::conversation::Piece;
use crate::protocol::{self, Item, ParsedReply};

/// The attribute's value where there was no file.
pub const NO_FILE: &str = "none";

/// What one run did to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The run's prompt.
    pub prompt: String,
    /// When it was given, as the conversation has it.
    pub at: String,
    /// The SHA-256 of the content before; `None` where there was no file.
    pub before: Option<String>,
    /// The SHA-256 of the content after; `None` where the file is gone.
    pub after: Option<String>,
}

impl RunChange {
    fn new(prompt: &str, at: &str, before: &str, after: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            at: at.to_owned(),
            before: parse_content(before),
            after: parse_content(after),
        }
    }
}

/// Reads the text and the blocks of another conversation, by its name.
pub type ReadFork<'a> = &'a dyn Fn(&str) -> Option<(String, Vec<Piece>)>;

/// Runs that went on in a fork are followed through at most this many forks.
const MAX_FORKS: usize = 16;

/// Lists the changes that were not undone, oldest first. A run that was killed has no block at its end; then its results count.
/// A run that went on in a fork has its changes there.
pub fn list_changes(text: &str, pieces: &[Piece], read_fork: ReadFork<'_>) -> Vec<RunChange> {
    list_with_forks(text, pieces, read_fork, MAX_FORKS)
}

fn list_with_forks(
    text: &str,
    pieces: &[Piece],
    read_fork: ReadFork<'_>,
    left: usize,
) -> Vec<RunChange> {
    let mut changes: Vec<RunChange> = Vec::new();
    // The last run, while no block says what it changed.
    let mut open: Option<RunChange> = None;
    let (mut prompt, mut at) = ("", "");
    let is_change = |change: &RunChange| change.before != change.after;
    for piece in pieces {
        match (piece.name(), piece.get("change")) {
            (Some("user-prompt"), _) => {
                changes.extend(open.take().filter(is_change));
                (prompt, at) = (piece.text(text), piece.get("at").unwrap_or_default());
                let before = piece.get("before");
                open = before.map(|before| RunChange::new(prompt, at, before, before));
            }
            (Some("system"), Some("run")) => {
                if let (Some(before), Some(after)) = (piece.get("before"), piece.get("after")) {
                    changes.push(RunChange::new(prompt, at, before, after));
                    open = None;
                }
            }
            (Some("system"), None) if piece.get("fork").is_some() && left > 0 => {
                let fork = piece.get("fork").and_then(read_fork);
                if let Some((text, pieces)) = fork {
                    // The fork has the run whole, and what was there before it too.
                    open = None;
                    let others = list_with_forks(&text, &pieces, read_fork, left - 1);
                    let is_known = |change: &RunChange| changes.contains(change);
                    let new = others.iter().rposition(is_known).map_or(0, |at| at + 1);
                    changes.extend_from_slice(&others[new..]);
                }
            }
            (Some("system"), Some("undo")) => {
                changes.extend(open.take().filter(is_change));
                let count = piece.get("count").and_then(|count| count.parse().ok()).unwrap_or(1);
                changes.truncate(changes.len().saturating_sub(count));
            }
            (Some(name), _) if name.ends_with("-result") => {
                if let (Some(open), Some(after)) = (open.as_mut(), piece.get("after")) {
                    open.after = parse_content(after);
                }
            }
            _ => {}
        }
    }
    changes.extend(open.filter(is_change));
    changes
}

/// Returns the last run if it was killed and no result says that it changed the file; a command may have done so unnoticed.
pub fn find_killed_run(text: &str, pieces: &[Piece]) -> Option<RunChange> {
    let at = pieces.iter().rposition(|piece| piece.name() == Some("user-prompt"))?;
    let (prompt, run) = (&pieces[at], &pieces[at + 1..]);
    let has_end =
        |piece: &Piece| ["change", "exit", "fork"].iter().any(|key| piece.get(key).is_some());
    if run.iter().any(has_end) {
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
    let before = prompt.get("before")?;
    let last_after = run.iter().rev().find_map(|piece| piece.get("after"));
    let at = prompt.get("at").unwrap_or_default();
    last_after
        .is_none_or(|after| after == before)
        .then(|| RunChange::new(prompt.text(text), at, before, before))
}

/// Reads an attribute that names a content.
fn parse_content(value: &str) -> Option<String> {
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
        let found: Vec<_> = list_changes(text, &parsed.pieces, &|_| None)
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
            assert_eq!(find_killed_run(text, &parsed.pieces).is_some(), expect, "{text}");
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
    fn a_run_that_went_on_in_a_fork_is_found_there() {
        let fork = format!(
            "{FIRST}{SECOND}<system change=\"run\" before=\"b\" after=\"c\">\nx\n</system>\n\n"
        );
        let block = "<system fork=\"f\">\nx\n</system>\n\n";
        let started = "<user-prompt at=\"t\" before=\"b\">\ntwo\n</user-prompt>\n\n";
        let read_fork = |name: &str| (name == "f").then(|| (fork.clone(), parse(&fork).pieces));
        let check = |text: &str, expect: &[&str]| {
            let parsed = parse(text);
            assert_eq!(parsed.trouble, None);
            let found = list_changes(text, &parsed.pieces, &read_fork);
            let found: Vec<&str> = found.iter().map(|change| change.prompt.as_str()).collect();
            assert_eq!(found, expect, "{text}");
        };
        check(&format!("{FIRST}{started}{block}"), &["one", "two"]);
        let undo =
            "<system change=\"undo\" before=\"c\" after=\"b\" count=\"1\">\nx\n</system>\n\n";
        check(&format!("{FIRST}{started}{block}{undo}"), &["one"]);
        // What was removed from the edited conversation, and a fork that is not there.
        check(block, &["one", "two"]);
        check(&format!("{FIRST}{}", block.replace("\"f\"", "\"g\"")), &["one"]);
        // One that names itself.
        let own = format!("{FIRST}{block}");
        let parsed = parse(&own);
        let read_own = |_: &str| Some((own.clone(), parsed.pieces.clone()));
        assert_eq!(list_changes(&own, &parsed.pieces, &read_own).len(), 1);
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
