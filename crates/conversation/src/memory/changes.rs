//! The log of changes: which files each run wrote, and which changes were undone. Pure; `sys::change_log` has the file.
//!
//! One JSON object a line, appended before a file is written, so that a run that is killed at any instant can be undone:
//! ```text
//! {"run":R,"at":T,"conversation":C,"of":[…],"prompt":P,"task":P,"path":F, then one of
//!  "what":"write","before":H,"after":H}    a tag or a command writes F; H is a SHA-256, or "none" without a file
//!  "what":"write",…,"by_commands":true}    the commands of a run changed F since its "commands_begun"; H:x is an executable
//!                                          file, H:- one that is not, H:l a link
//!  "what":"commands_begun"}                the first command of a conversation's run in the folder F
//!  "what":"commands_ended","why":W}        the run has recorded what they changed; if not all of it, W says why
//!  "what":"undo","undone":[ID…],"before":H,"after":H}    the user undid these changes
//!  "what":"rename","to":C}                 conversation C has another name from here on; nothing happened to a file
//! ```
//! `of` has the names by which a run is found: the conversation of its shell, the conversations that started it, and
//! its own. If another run started this one, `task` is the prompt of the first of these runs. Contents are stored in
//! `outputs/` under their hash. Unreadable lines (after a power cut, or of an older version) are skipped.

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

/// The hash of a file's state in the log, and its kind where that is known.
pub fn split_state(state: &str) -> (&str, Option<char>) {
    let (hash, kind) = state.split_once(':').unwrap_or((state, ""));
    (hash, kind.chars().next())
}

/// Whether two states of a file are the same, as far as both are known.
pub fn is_same_state(one: Option<&str>, other: Option<&str>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one == other };
    let ((one, kind), (other, other_kind)) = (split_state(one), split_state(other));
    one == other && (kind == other_kind || kind.is_none() || other_kind.is_none())
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeLogEntry {
    /// Identifies the run, with its children.
    pub run: String,
    /// The time at which it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// The names by which it is found.
    pub of: Vec<String>,
    /// The first line of its prompt.
    pub prompt: String,
    /// The first line of the prompt of the first run that led to it, if another run started it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
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
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_commands: bool,
    },
    CommandsBegun,
    CommandsEnded {
        why: String,
    },
    Undo {
        undone: Vec<String>,
        before: String,
        after: String,
    },
    Rename {
        to: String,
    },
}

/// A change of a file by a run, from one content to another. A run has several if something else changed the file in
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileChange {
    /// Identifies the change in the log.
    pub id: String,
    /// The run.
    pub run: String,
    /// The first line of its prompt.
    pub prompt: String,
    /// The first line of the prompt of the run that started it, if there is one.
    pub task: String,
    /// The time at which it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// The names by which it is found.
    pub of: Vec<String>,
    /// The path of the file at that time.
    pub path: String,
    /// The SHA-256 of the content before; `None` if the file did not exist.
    pub before: Option<String>,
    /// The SHA-256 of the content after; `None` if the file no longer exists.
    pub after: Option<String>,
    /// Whether commands made it, and no tag.
    pub by_commands: bool,
}

/// Lists the runs of which it is not known what their commands changed, with the reasons, the oldest first.
pub fn list_unknown(entries: &[ChangeLogEntry]) -> Vec<(&ChangeLogEntry, &str)> {
    let mut all: Vec<(&ChangeLogEntry, &str)> = Vec::new();
    for entry in entries {
        match &entry.event {
            FileEvent::CommandsBegun => all.push((entry, "the run has not ended, or was killed")),
            FileEvent::CommandsEnded { why } => {
                let run = (&entry.run, &entry.conversation);
                all.retain(|(it, _)| {
                    it.event != FileEvent::CommandsBegun || (&it.run, &it.conversation) != run
                });
                all.extend((!why.is_empty()).then_some((entry, why.as_str())));
            }
            _ => {}
        }
    }
    all
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
    changes: Vec<Span>,
}

/// A change, and the lines of the log between which it was made.
struct Span {
    before: String,
    after: String,
    lines: (usize, usize),
    by_commands: bool,
}

impl Span {
    /// Adds a later write, if it goes on from this one.
    fn extend(&mut self, next: &Self) -> bool {
        let is_same = |own: &str| is_same_state(Some(own), Some(&next.before));
        // With the same content before, the previous write did not take place.
        if !is_same(&self.after) && !is_same(&self.before) {
            return false;
        }
        // What a tag wrote has the kind from before.
        if let (Some(kind), (hash, None)) = (split_state(&next.before).1, split_state(&self.before))
            && hash != NO_FILE
        {
            self.before = format!("{hash}:{kind}");
        }
        self.after.clone_from(&next.after);
        self.by_commands &= next.by_commands;
        true
    }

    /// Whether this is not part of a later change by commands; that takes over where a part began earlier.
    fn precedes(&self, next: &mut Self, begun: usize) -> bool {
        let precedes = self.lines.1 < begun;
        if !precedes && self.lines.0 < next.lines.0 {
            (next.before, next.lines.0) = (self.before.clone(), self.lines.0);
        }
        next.by_commands &= precedes || self.by_commands;
        precedes
    }
}

/// Groups the changes by run and file, in the order of their last writes.
fn collect(entries: &[ChangeLogEntry]) -> Vec<FileOfRun<'_>> {
    let mut all: Vec<FileOfRun<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    let mut begun: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let run = (entry.run.as_str(), entry.conversation.as_str());
        if entry.event == FileEvent::CommandsBegun {
            begun.insert(run, at);
        }
        let FileEvent::Write { before, after, by_commands } = &entry.event else { continue };
        let place = *places.entry((&entry.run, &entry.path)).or_insert(all.len());
        if place == all.len() {
            all.push(FileOfRun { first: entry, last: at, changes: Vec::new() });
        }
        let Some(file) = all.get_mut(place) else { continue };
        file.last = at;
        let from = begun.get(&run).filter(|_| *by_commands).map_or(at, |from| *from);
        let (before, after, by_commands) = (before.clone(), after.clone(), *by_commands);
        let mut next = Span { before, after, lines: (from, at), by_commands };
        file.changes.retain(|it| it.precedes(&mut next, from));
        file.changes.push(next);
    }
    for file in &mut all {
        file.changes.dedup_by(|next, last| last.extend(next));
    }
    all.sort_by_key(|file| file.last);
    all
}

impl FileOfRun<'_> {
    fn change(&self, number: usize, span: &Span) -> RunFileChange {
        let content = |hash: &str| (hash != NO_FILE).then(|| hash.to_owned());
        let ChangeLogEntry { run, at, conversation, of, prompt, task, path, .. } = self.first;
        RunFileChange {
            id: format!("{run}:{number}:{path}"),
            run: run.clone(),
            prompt: prompt.clone(),
            task: task.clone(),
            at: at.clone(),
            conversation: conversation.clone(),
            of: of.clone(),
            path: path.clone(),
            before: content(&span.before),
            after: content(&span.after),
            by_commands: span.by_commands,
        }
    }
}

/// Lists the changes that were not undone, the oldest first.
pub fn list_changes(entries: &[ChangeLogEntry]) -> Vec<RunFileChange> {
    let undone: HashSet<&String> = undone_ids(entries).collect();
    let files = collect(entries);
    let changes = files.iter().flat_map(|file| {
        let numbered = file.changes.iter().enumerate();
        numbered.map(|(at, span)| file.change(at, span))
    });
    changes
        .filter(|it| !is_same_state(it.before.as_deref(), it.after.as_deref()))
        .filter(|it| !undone.contains(&it.id))
        .collect()
}

/// Gives each entry the current names of its conversations.
pub fn rename_all(entries: &mut [ChangeLogEntry]) {
    let mut now: HashMap<String, String> = HashMap::new();
    for entry in entries.iter_mut().rev() {
        if let FileEvent::Rename { to } = &entry.event {
            let to = now.get(to).unwrap_or(to).clone();
            now.insert(entry.conversation.clone(), to);
            continue;
        }
        if now.is_empty() {
            continue;
        }
        for name in entry.of.iter_mut().chain([&mut entry.conversation]) {
            if let Some(to) = now.get(name) {
                name.clone_from(to);
            }
        }
    }
}

/// Returns the names that a conversation had earlier.
pub fn former_names(entries: &[ChangeLogEntry], name: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    for entry in entries.iter().rev() {
        if let FileEvent::Rename { to } = &entry.event
            && (to == name || names.contains(to))
        {
            names.insert(entry.conversation.clone());
        }
    }
    names
}

fn undone_ids(entries: &[ChangeLogEntry]) -> impl Iterator<Item = &String> {
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
                "write" | "commands" => {
                    let by_commands = words[2] == "commands";
                    FileEvent::Write { before: word(3), after: word(4), by_commands }
                }
                "begun" => FileEvent::CommandsBegun,
                "rename" => FileEvent::Rename { to: word(3) },
                _ => {
                    FileEvent::Undo { undone: words[3..].to_vec(), before: word(3), after: word(3) }
                }
            };
            let (run, path) = (word(0), word(1));
            let (at, conversation, prompt) = ("t".into(), "c".into(), "p".into());
            let (of, task) = Default::default();
            ChangeLogEntry { run, at, conversation, of, prompt, task, path, event }
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
    fn commands_span_what_their_run_wrote_meanwhile() {
        check(&["1 - begun", "1 a commands x y"], &["1:0:a x y"]);
        check(&["1 a write w x", "1 - begun", "1 a commands x y"], &["1:0:a w y"]);
        check(&["1 - begun", "1 a write y z", "1 a commands x z"], &["1:0:a x z"]);
        check(&["1 - begun", "1 a write y z", "1 a commands x none"], &["1:0:a x none"]);
        // The mode: what a tag wrote has that from before.
        check(&["1 a write w x", "1 - begun", "1 a commands x:- x:x"], &["1:0:a w:- x:x"]);
        check(
            &["1 a write w x", "2 - begun", "2 a commands x:- x:x"],
            &["1:0:a w x", "2:0:a x:- x:x"],
        );
    }

    #[test]
    fn what_was_undone_is_gone() {
        let lines = ["1 a write x y", "2 a write y z", "2 b write x y"];
        check(&[&lines[..], &["3 a undo 2:0:a"]].concat(), &["1:0:a x y", "2:0:b x y"]);
        check(&[&lines[..], &["3 a undo 2:0:a 1:0:a 2:0:b"]].concat(), &[]);
    }

    #[test]
    fn a_renamed_conversation_keeps_its_changes() {
        let lines = ["1 a write x y", "2 - rename d", "3 a write y z"];
        let mut entries = entries(&lines);
        rename_all(&mut entries);
        let found = list_changes(&entries);
        let names: Vec<&str> = found.iter().map(|it| it.conversation.as_str()).collect();
        // A conversation that has the old name later is another one.
        assert_eq!(names, ["d", "c"]);
    }
}
