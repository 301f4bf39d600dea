//! The log of changes: what runs wrote to which files, and what was undone. Pure; `sys::change_log` has the file.
//!
//! One JSON object a line, appended before a file is written, so that a run that is killed at any instant can be undone:
//! ```text
//! {"run":R,"at":T,"conversation":C,"of":[…],"turns":[{"conversation":C,"turn":N,"at":T}…],"prompt":P,"task":P,"path":F, then one of
//!  "what":"begin","before":H}              a run on F's own conversation began; H is a SHA-256, or "none" without a file
//!  "what":"write","before":H,"after":H}    a tag writes F
//!  "what":"end","changes":[[H,H]…],"file_id":ID}    what the run came to, commands included; without `changes`, the writes count
//!  "what":"undo","undone":[ID…],"before":H,"after":H}    the user undid these changes
//!  "what":"rename","to":C}                 conversation C has another name from here on; nothing happened to a file
//! ```
//! `of` has the names by which a run is found: its shell's conversation, the conversations that it was started from, its
//! own. `turns` has the turn that did it, last, and before it the turns that it was started from; logs of older versions
//! have none. `task` is the prompt of the first of these runs, where another run started this one. Contents are stored in
//! `outputs/` under their hash. A line that cannot be read, as after a power cut, is left out.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::format::harmless::truncate;

/// The hash where there is no file.
pub const NO_FILE: &str = "none";

/// How many digits of a content's hash a block of the conversation has.
const HASH_DIGITS: usize = 12;

/// The first digits of a hash, for a block that the model reads; [`NO_FILE`] stays as it is.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..HASH_DIGITS).unwrap_or(hash)
}

/// Whether an attribute has this hash, or its first digits.
pub fn is_hash_of(attribute: &str, hash: &str) -> bool {
    attribute == hash || attribute.len() >= HASH_DIGITS && hash.starts_with(attribute)
}

/// A turn of a conversation, with the time of its `nagent-turn-status`. Before the first reply of a run: the turn that comes
/// next, with the time of the prompt. After a rewind the number comes again, with another time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMark {
    /// Its conversation.
    pub conversation: String,
    /// Its number there.
    pub turn: u64,
    /// The time, as the conversation has it.
    pub at: String,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeLogEntry {
    /// Identifies the run, with its children.
    pub run: String,
    /// When it got its prompt.
    pub at: String,
    /// Its conversation.
    pub conversation: String,
    /// The names by which it is found.
    pub of: Vec<String>,
    /// The turns that led to it, the one that did it last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnMark>,
    /// The first line of its prompt.
    pub prompt: String,
    /// That of the run that started it, where one did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The file, by its true path.
    pub path: String,
    /// What happened to it.
    #[serde(flatten)]
    pub event: FileEvent,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the head of this file describes them")]
pub enum FileEvent {
    Begin { before: String },
    Write { before: String, after: String },
    End { changes: Option<Vec<(String, String)>>, file_id: Option<String> },
    Undo { undone: Vec<String>, before: String, after: String },
    Rename { to: String },
}

impl FileEvent {
    /// Whether a run did it.
    fn is_of_run(&self) -> bool {
        !matches!(self, Self::Undo { .. } | Self::Rename { .. })
    }
}

/// What a run did to a file, from one content to another. A run has several if something else changed the file in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileChange {
    /// Identifies the change in the log.
    pub id: String,
    /// The run, its prompt, when that was given, its conversation, and the names by which it is found.
    pub run: String,
    #[expect(missing_docs, reason = "as above")]
    pub prompt: String,
    /// The prompt of the run that it was started by, if any.
    pub task: String,
    #[expect(missing_docs, reason = "as above")]
    pub at: String,
    #[expect(missing_docs, reason = "as above")]
    pub conversation: String,
    #[expect(missing_docs, reason = "as above")]
    pub of: Vec<String>,
    /// The file, by its path then, and its identity when the run had ended.
    pub path: String,
    #[expect(missing_docs, reason = "as above")]
    pub file_id: Option<String>,
    /// The SHA-256 of the content before; `None` where there was no file.
    pub before: Option<String>,
    /// The SHA-256 of the content after; `None` where the file is gone.
    pub after: Option<String>,
}

/// The most characters of a prompt that are recorded.
const PROMPT: usize = 100;

/// The first line of a prompt, as it is recorded.
pub fn first_line(prompt: &[u8]) -> String {
    let mut lines = prompt.split(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    truncate(String::from_utf8_lossy(line).trim(), PROMPT)
}

/// Reads the log.
pub fn parse(text: &str) -> Vec<ChangeLogEntry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What one run recorded of one file.
struct Stretch<'a> {
    first: &'a ChangeLogEntry,
    /// The place of its last line.
    last: usize,
    writes: Vec<(&'a str, &'a str)>,
    /// Its lines, and the number of the change that each is of.
    lines: Vec<(&'a ChangeLogEntry, usize)>,
    end: Option<&'a Option<Vec<(String, String)>>>,
    file_id: Option<&'a String>,
}

/// What each run recorded of each file, in the order of their last lines.
fn collect(entries: &[ChangeLogEntry]) -> Vec<Stretch<'_>> {
    let mut all: Vec<Stretch<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if !entry.event.is_of_run() {
            continue;
        }
        let place = *places.entry((&entry.run, &entry.path)).or_insert(all.len());
        if place == all.len() {
            all.push(Stretch::new(entry, at));
        }
        let Some(stretch) = all.get_mut(place) else { continue };
        match &entry.event {
            FileEvent::Write { before, after } => {
                stretch.last = at;
                match stretch.writes.last_mut() {
                    Some(last) if last.1 == before => last.1 = after,
                    // The write before this one was not made.
                    Some(last) if last.0 == before => last.1 = after,
                    _ => stretch.writes.push((before, after)),
                }
                stretch.lines.push((entry, stretch.writes.len() - 1));
                continue;
            }
            FileEvent::End { changes, file_id } => {
                stretch.end = Some(changes);
                stretch.file_id = file_id.as_ref();
            }
            FileEvent::Begin { .. } | FileEvent::Undo { .. } | FileEvent::Rename { .. } => {}
        }
        stretch.lines.push((entry, stretch.writes.len()));
    }
    all.sort_by_key(|stretch| stretch.last);
    all
}

impl<'a> Stretch<'a> {
    fn new(first: &'a ChangeLogEntry, last: usize) -> Self {
        let (writes, lines) = (Vec::new(), Vec::new());
        Self { first, last, writes, lines, end: None, file_id: None }
    }

    /// The contents before and after each change, by what the run came to, or else by its writes.
    fn contents(&self) -> Vec<(&'a str, &'a str)> {
        match self.end {
            Some(Some(ends)) => {
                ends.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect()
            }
            _ => self.writes.clone(),
        }
    }

    /// What of each change belongs to a part: all from its first line on. The line about its end does not say when a command
    /// changed the file, so it does not count.
    fn change_ends(&self, belongs: &dyn Fn(&ChangeLogEntry) -> bool) -> Vec<ChangeEnd> {
        let is_first = |(entry, _): &(&ChangeLogEntry, usize)| {
            !matches!(entry.event, FileEvent::End { .. }) && belongs(entry)
        };
        let Some(place) = self.lines.iter().position(is_first) else { return Vec::new() };
        let contents = self.contents();
        let has_ended = matches!(self.end, Some(Some(_)));
        let (entry, number) = self.lines[place];
        let number = if has_ended { contents.len().saturating_sub(1) } else { number };
        // What the part found, where it is not the beginning.
        let found = match &entry.event {
            FileEvent::Write { before, .. } | FileEvent::Begin { before } if place > 0 => {
                Some(before.as_str())
            }
            _ => None,
        };
        let first = if found.is_some() { number } else { 0 };
        let is_only = contents.len() == 1;
        let end = |(at, (start, after)): (usize, (&str, &str))| {
            let found = found.filter(|_| at == first).unwrap_or(start);
            let is_of = |number: usize| is_only || number == at;
            let rest = if found == start {
                Vec::new()
            } else {
                self.writes_before(place, &is_of, [start, found])
            };
            ChangeEnd { change: self.change(at, found, after), rest }
        };
        contents.into_iter().enumerate().skip(first).map(end).collect()
    }

    /// The writes of a change before the line at `place`, each with its turn, as one chain between these contents: commands may
    /// have changed the file before, between and after them.
    fn writes_before(
        &self,
        place: usize,
        is_of: &dyn Fn(usize) -> bool,
        [start, found]: [&str; 2],
    ) -> Vec<ChangeLogEntry> {
        let is_write = |(entry, number): &&(&ChangeLogEntry, usize)| {
            is_of(*number) && matches!(entry.event, FileEvent::Write { .. })
        };
        let mut lines: Vec<&ChangeLogEntry> =
            self.lines[..place].iter().filter(is_write).map(|(entry, _)| *entry).collect();
        if lines.is_empty() {
            lines.push(self.first);
        }
        let founds = lines.iter().skip(1).map(|entry| match &entry.event {
            FileEvent::Write { before, .. } => before.as_str(),
            _ => start,
        });
        let contents: Vec<&str> = [start].into_iter().chain(founds).chain([found]).collect();
        let link = |(entry, pair): (&ChangeLogEntry, &[&str])| {
            let event = FileEvent::Write { before: pair[0].into(), after: pair[1].into() };
            ChangeLogEntry { event, ..entry.clone() }
        };
        lines.into_iter().zip(contents.windows(2)).map(link).collect()
    }

    fn change(&self, number: usize, before: &str, after: &str) -> RunFileChange {
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
            file_id: self.file_id.cloned(),
            before: content(before),
            after: content(after),
        }
    }
}

/// The end of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEnd {
    /// The change, from the content on that its end found.
    pub change: RunFileChange,
    /// The writes before that.
    pub rest: Vec<ChangeLogEntry>,
}

/// Lists the changes that were not undone, the oldest first.
pub fn list_changes(entries: &[ChangeLogEntry]) -> Vec<RunFileChange> {
    list_ends(entries, &|_| true).into_iter().map(|end| end.change).collect()
}

/// Lists what was not undone of changes, from the first line of each on that `belongs` to a part; the oldest first.
pub fn list_ends(
    entries: &[ChangeLogEntry],
    belongs: &dyn Fn(&ChangeLogEntry) -> bool,
) -> Vec<ChangeEnd> {
    let undone: HashSet<&String> = undone_ids(entries).collect();
    let stretches = collect(entries);
    let ends = stretches.iter().flat_map(|stretch| stretch.change_ends(belongs));
    let is_left =
        |end: &ChangeEnd| end.change.before != end.change.after && !undone.contains(&end.change.id);
    ends.filter(is_left).collect()
}

/// Gives each line the names that its conversations have now.
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
        let turns = entry.turns.iter_mut().map(|turn| &mut turn.conversation);
        for name in entry.of.iter_mut().chain([&mut entry.conversation]).chain(turns) {
            if let Some(to) = now.get(name) {
                name.clone_from(to);
            }
        }
    }
}

/// The names that a conversation had before its own.
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

/// Returns the last run on a file's own conversation if it was killed before it recorded a change. One of its commands may
/// have changed the file unnoticed; `after` is the same as `before`. `is_of_file` says which files are meant.
pub fn find_killed_run(
    entries: &[ChangeLogEntry],
    is_of_file: &dyn Fn(&ChangeLogEntry) -> bool,
) -> Option<RunFileChange> {
    let last = entries.iter().rposition(is_of_file)?;
    let entry = entries.get(last)?;
    let FileEvent::Begin { before } = &entry.event else { return None };
    Some(Stretch::new(entry, last).change(0, before, before))
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
                "begin" => FileEvent::Begin { before: word(3) },
                "write" => FileEvent::Write { before: word(3), after: word(4) },
                "end" => FileEvent::End {
                    changes: (words.len() > 3).then(|| {
                        words[3..]
                            .chunks_exact(2)
                            .map(|two| (two[0].clone(), two[1].clone()))
                            .collect()
                    }),
                    file_id: None,
                },
                "rename" => FileEvent::Rename { to: word(3) },
                _ => {
                    FileEvent::Undo { undone: words[3..].to_vec(), before: word(3), after: word(3) }
                }
            };
            let (run, path) = (word(0), word(1));
            let (at, conversation, prompt) = ("t".into(), "c".into(), "p".into());
            let (of, turns, task) = Default::default();
            ChangeLogEntry { run, at, conversation, of, turns, prompt, task, path, event }
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
        // What a run came to counts more than its writes: a command has changed the file.
        check(&["1 a begin x", "1 a write x y", "1 a end x z"], &["1:0:a x z"]);
        check(&["1 a begin x", "1 a end"], &[]);
        check(&["1 a write x y", "2 a write y z", "1 a end"], &["1:0:a x y", "2:0:a y z"]);
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

    #[test]
    fn a_run_that_was_killed_before_it_recorded_a_change() {
        let check = |lines: &[&str], expect: bool| {
            let found = find_killed_run(&entries(lines), &|entry| entry.path == "a");
            assert_eq!(found.is_some(), expect, "{lines:?}");
        };
        check(&["1 a begin x"], true);
        check(&["1 a begin x", "1 b write x y"], true);
        check(&["1 a begin x", "1 a write x y"], false);
        check(&["1 a begin x", "1 a end"], false);
        check(&["1 a begin x", "2 a undo 1:0:a"], false);
        check(&["1 a begin x", "2 - rename d"], true);
        check(&["1 a end", "2 a begin x"], true);
        check(&[], false);
    }
}
