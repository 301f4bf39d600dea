//! The log of changes: which files each run wrote, and which changes were undone. Pure; `sys::change_log` has the file.
//!
//! One JSON object a line, appended before a file is written, so that a run that is killed at any instant can be undone:
//! ```text
//! {"run":R,"at":T,"conversation":C,"of":[…],"folder":D,"prompt":P,"task":P,"path":F, then one of
//!  "what":"write","before":H,"after":H}    a tag or a command writes F; H is a SHA-256, or "none" without a file
//!  "what":"commands","before":H,"after":H,"executable":B}    commands changed F; this takes the place of what the run
//!                                          recorded of F before; B: it could be executed before
//!  "what":"commands_ran","why":W,"since":N,"free":B}    why not all that the run's commands changed below F is recorded,
//!                                          or ""; the first began N nanoseconds after 1970; B: one ran without a sandbox
//!  "what":"undo","undone":[ID…],"before":H,"after":H}    the user undid these changes
//! ```
//! `of` has the names by which a run is found: the conversation of its shell, the conversations that started it, and
//! its own. `folder` is where it was started. If another run started this one, `task` is the prompt of the first of these
//! runs. Contents are stored in `outputs/` under their hash. Unreadable lines (after a power cut, or of an older version) are skipped.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::format::harmless::truncate;

/// The hash of a file that does not exist.
pub const NO_FILE: &str = "none";

/// The number of digits of a content's hash in a block of the conversation.
const HASH_DIGITS: usize = 12;

/// The first digits of a hash, for a block that the model reads; [`NO_FILE`] stays as it is.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..HASH_DIGITS).unwrap_or(hash)
}

/// Whether an attribute is this hash, or its first digits.
pub fn is_hash_of(attribute: &str, hash: &str) -> bool {
    attribute == hash || attribute.len() >= HASH_DIGITS && hash.starts_with(attribute)
}

/// A run, as all of its lines in the log name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Identifies the run, with its children.
    pub run: String,
    /// The time at which it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// The names by which it is found.
    pub of: Vec<String>,
    /// The folder that it was started in; empty in lines of an older version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// The first line of its prompt.
    pub prompt: String,
    /// The first line of the prompt of the first run that led to it, if another run started it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeLogEntry {
    /// The run.
    #[serde(flatten)]
    pub facts: RunFacts,
    /// The real path of the file.
    pub path: String,
    /// The event.
    #[serde(flatten)]
    pub event: FileEvent,
}

/// An event of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the head of this file describes them")]
pub enum FileEvent {
    Write {
        before: String,
        after: String,
    },
    Commands {
        before: String,
        after: String,
        executable: bool,
    },
    CommandsRan {
        why: String,
        #[serde(default)]
        since: u64,
        #[serde(default)]
        free: bool,
    },
    Undo {
        undone: Vec<String>,
        before: String,
        after: String,
    },
}

/// A change of a file by a run, from one content to another. A run has several if something else changed the file in
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileChange {
    /// Identifies the change in the log.
    pub id: String,
    /// The run.
    pub facts: RunFacts,
    /// The path of the file at that time.
    pub path: String,
    /// The SHA-256 of the content before; `None` if the file did not exist.
    pub before: Option<String>,
    /// The SHA-256 of the content after; `None` if the file no longer exists.
    pub after: Option<String>,
    /// Whether the file could be executed before, if commands changed it.
    pub executable: Option<bool>,
}

/// Maximum number of characters of a prompt that are recorded.
const PROMPT: usize = 100;

/// Returns the first line of a prompt, truncated as in the log.
pub fn first_line(prompt: &[u8]) -> String {
    let mut lines = prompt.split(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    truncate(String::from_utf8_lossy(line).trim(), PROMPT)
}

/// Parses the log.
pub fn parse(text: &str) -> Vec<ChangeLogEntry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The changes that one run recorded of one file.
struct FileOfRun<'a> {
    first: &'a ChangeLogEntry,
    /// The index of its last write.
    last: usize,
    /// The contents before and after each change.
    changes: Vec<(&'a str, &'a str)>,
    executable: Option<bool>,
}

/// Groups the changes by run and file, in the order of their last writes.
fn collect(entries: &[ChangeLogEntry]) -> Vec<FileOfRun<'_>> {
    let mut all: Vec<FileOfRun<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let (before, after, executable) = match &entry.event {
            FileEvent::Write { before, after } => (before, after, None),
            FileEvent::Commands { before, after, executable } => (before, after, Some(*executable)),
            _ => continue,
        };
        let place = *places.entry((&entry.facts.run, &entry.path)).or_insert(all.len());
        if place == all.len() {
            all.push(FileOfRun { first: entry, last: at, changes: Vec::new(), executable: None });
        }
        let Some(file) = all.get_mut(place) else { continue };
        file.last = at;
        if executable.is_some() {
            (file.changes, file.executable) = (Vec::new(), executable);
        }
        match file.changes.last_mut() {
            Some(last) if last.1 == before => last.1 = after,
            // The previous write did not take place.
            Some(last) if last.0 == before => last.1 = after,
            _ => file.changes.push((before, after)),
        }
    }
    all.sort_by_key(|file| file.last);
    all
}

impl FileOfRun<'_> {
    fn change(&self, number: usize, before: &str, after: &str) -> RunFileChange {
        let content = |hash: &str| (hash != NO_FILE).then(|| hash.to_owned());
        let ChangeLogEntry { facts, path, .. } = self.first;
        RunFileChange {
            id: format!("{}:{number}:{path}", facts.run),
            facts: facts.clone(),
            path: path.clone(),
            before: content(before),
            after: content(after),
            executable: self.executable,
        }
    }
}

/// Lists the changes that were not undone, the oldest first.
pub fn list_changes(entries: &[ChangeLogEntry]) -> Vec<RunFileChange> {
    let undone: HashSet<&String> = undone_ids(entries).collect();
    let files = collect(entries);
    let changes = files.iter().flat_map(|file| {
        let numbered = file.changes.iter().enumerate();
        numbered.map(|(at, (before, after))| file.change(at, before, after))
    });
    changes.filter(|it| it.before != it.after && !undone.contains(&it.id)).collect()
}

/// Lists the runs of which it is not known what their commands changed, with the reasons, the oldest first.
pub fn list_unknown(entries: &[ChangeLogEntry]) -> Vec<(&ChangeLogEntry, &str)> {
    let mut all: Vec<(&ChangeLogEntry, &str)> = Vec::new();
    for entry in entries {
        if let FileEvent::CommandsRan { why, .. } = &entry.event {
            let RunFacts { run, conversation, .. } = &entry.facts;
            all.retain(|(it, _)| it.facts.run != *run || it.facts.conversation != *conversation);
            all.extend((!why.is_empty()).then_some((entry, why.as_str())));
        }
    }
    all
}

/// The changes that were undone, by their ids, which begin with the run.
pub fn undone_ids(entries: &[ChangeLogEntry]) -> impl Iterator<Item = &String> {
    entries.iter().flat_map(|entry| match &entry.event {
        FileEvent::Undo { undone, .. } => undone.as_slice(),
        _ => &[],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries from lines like `1 a write none x`: run, file, event, and its contents.
    fn entries(lines: &[&str]) -> Vec<ChangeLogEntry> {
        let read = |line: &&str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let word = |at: usize| words[at].clone();
            let event = match words[2].as_str() {
                "write" => FileEvent::Write { before: word(3), after: word(4) },
                "commands" => {
                    let (before, after) = (word(3), word(4));
                    FileEvent::Commands { before, after, executable: false }
                }
                _ => {
                    FileEvent::Undo { undone: words[3..].to_vec(), before: word(3), after: word(3) }
                }
            };
            let (run, path) = (word(0), word(1));
            let (at, conversation, prompt) = ("t".into(), "c".into(), "p".into());
            let facts = RunFacts { run, at, conversation, prompt, ..RunFacts::default() };
            ChangeLogEntry { facts, path, event }
        };
        lines.iter().map(read).collect()
    }

    #[track_caller]
    fn check(lines: &[&str], expect: &[&str]) {
        let entries = entries(lines);
        let text: String =
            entries.iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
        assert_eq!(parse(&format!("\n{text}{{\"run\":")), entries, "as it was written");
        let show = |content: &Option<String>| content.clone().unwrap_or_else(|| NO_FILE.into());
        let found: Vec<String> = list_changes(&entries)
            .iter()
            .map(|change| format!("{} {} {}", change.id, show(&change.before), show(&change.after)))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn each_run_is_one_change_of_each_file() {
        check(&[], &[]);
        check(
            &["1 a write none x", "1 a write x y", "1 b write n m"],
            &["1:0:a none y", "1:0:b n m"],
        );
        // Something else changed it in between.
        check(&["1 a write x y", "1 a write z w"], &["1:0:a x y", "1:1:a z w"]);
        // A write that was refused after it was recorded.
        check(&["1 a write x y", "1 a write x z"], &["1:0:a x z"]);
        check(&["1 a write x y", "1 a write y x"], &[]);
        check(&["1 a write x y", "2 a write y z"], &["1:0:a x y", "2:0:a y z"]);
    }

    #[test]
    fn commands_take_the_place_of_what_their_run_wrote() {
        check(&["1 a commands x y"], &["1:0:a x y"]);
        check(&["1 a write w x", "1 a commands w y"], &["1:0:a w y"]);
        check(&["1 a write y z", "1 a write q r", "1 a commands x r"], &["1:0:a x r"]);
        check(&["1 a write none x", "1 a commands none none"], &[]);
        check(&["1 a write w x", "2 a commands x y"], &["1:0:a w x", "2:0:a x y"]);
        check(&["1 a commands x y", "1 a write y z"], &["1:0:a x z"]);
    }

    #[test]
    fn what_was_undone_is_gone() {
        let lines = ["1 a write x y", "2 a write y z", "2 b write x y"];
        check(&[&lines[..], &["3 a undo 2:0:a"]].concat(), &["1:0:a x y", "2:0:b x y"]);
        check(&[&lines[..], &["3 a undo 2:0:a 1:0:a 2:0:b"]].concat(), &[]);
    }
}
