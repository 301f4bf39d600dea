//! `nagent-conversations rewind`: goes back to before a turn. The conversation is archived whole and cut; with `--files`, what
//! tags wrote since then is undone as `nagent --undo` does it, and what only commands may have changed is listed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::Catalog;
use crate::compact::notice::Notice;
use crate::compact::plan::begins_turn;
use crate::drive::format_block;
use crate::format::conversation::{Block, Piece};
use crate::memory::changes::{
    FileChange, FileEvent, NO_FILE, first_line, is_hash_of, list_changes,
};
use crate::ops::call::Call;
use crate::ops::flags::{ConversationArgs, ModelArgs, RunArgs};
use crate::ops::undo;
use crate::out::Report;
use crate::problem::Problem;
use crate::protocol::{self, Action, Item, ParsedReply};
use crate::sys::change_log::{self, ChangeLog};
use crate::sys::conversation_file::ConversationFile;
use crate::sys::conversation_file::replace::archive_name;
use crate::sys::interrupt::Interrupts;
use crate::sys::modified::find_modified;
use crate::sys::names::shown;
use crate::sys::root::Root;
use crate::sys::{clock, fs};

/// How many files that only commands may have changed are named in the conversation; all are on stdout.
const NAMED: usize = 20;

/// Goes back to before this turn.
pub fn rewind_conversation(
    catalog: &Catalog,
    prefix: Option<&str>,
    turn: u64,
    files: bool,
) -> Result<Report, Problem> {
    let name = catalog.find(prefix)?;
    let interrupts = Interrupts::install()?;
    let mut waiting = |_: &str| ();
    let root = &catalog.root;
    let mut journal =
        ConversationFile::open(root, &name, Duration::ZERO, &interrupts, &mut waiting)?;
    let cut = find_cut(journal.text(), journal.pieces(), turn)
        .ok_or_else(|| no_such_turn(&name, journal.pieces(), turn))?;
    let removed = Removed::new(&journal, cut);
    let mut undone = Map::new();
    let mut text = String::new();
    let mut lines = vec![format!(
        "The user went back to before turn {turn}: what came after this is no longer here."
    )];
    if files {
        let report = undo_files(&name, root, &removed)?;
        if let Some(error) = report.error {
            return Ok(Report {
                error: Some(format!("{error}; the conversation is unchanged")),
                ..report
            });
        }
        lines.push(describe_files(&report.json));
        (text, undone) = (report.text, report.json);
    } else {
        lines.push("Files are as they were left.".to_owned());
    }
    let others = removed.files_of_commands(&undone);
    if files && !others.is_empty() {
        lines.push(format!("Commands, or others, have changed since then: {}", name_some(&others)));
        text.push_str("changed since then by commands or by others, and left as they are:\n");
        text.extend(others.iter().map(|path| format!("  {}\n", shown(path))));
    }
    let archive = archive_name(&name);
    let notice = Block::new("system").with("rewound", &archive).body(lines.join("\n"));
    let kept = journal.text()[..removed.start].trim_end_matches('\n');
    let gap = if kept.is_empty() { "" } else { "\n\n" };
    let new = format!("{kept}{gap}{}", format_block(&notice));
    let link = Block::new("system").with("rewound_into", &name).body(format!(
        "this is what conversation {name} was before it was taken back to before turn {turn}"
    ));
    journal.replace(&new, &archive, &format_block(&link))?;
    let archive = root.conversation(&archive).display().to_string();
    let text = format!(
        "conversation {name} is as it was before turn {turn}; the whole is in {archive}\n{text}"
    );
    let others: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
    Ok(Report { json: undone, ..Report::done(text) }
        .with("name", name)
        .with("path", journal.path().display().to_string())
        .with("archived_path", archive)
        .with("turn", turn)
        .with("left_changed", others))
}

/// The piece that a turn begins with: its reply, or its prompt with what was shown before it, if it is the first after that.
fn find_cut(text: &str, pieces: &[Piece], turn: u64) -> Option<usize> {
    let is_it = |piece: &Piece| {
        piece.name() == Some("nagent-turn-status")
            && piece.get("turn").and_then(|number| number.parse().ok()) == Some(turn)
    };
    let status = pieces.iter().position(is_it)?;
    let mut cut = (0..=status).rev().find(|at| begins_turn(pieces, *at))?;
    if cut > 0 && pieces[cut - 1].name() == Some("user-prompt") {
        while cut > 0 && matches!(pieces[cut - 1].name(), Some("user-prompt" | "context-update")) {
            cut -= 1;
        }
        // Files that were shown with the prompt, where they are not results of the reply before.
        while cut > 0
            && pieces[cut - 1].name() == Some("nagent-read-result")
            && !reply_before_reads(text, pieces, cut)
        {
            cut -= 1;
        }
    }
    Some(cut)
}

/// Whether the last reply before a piece reads a file.
fn reply_before_reads(text: &str, pieces: &[Piece], at: usize) -> bool {
    let reply = pieces[..at].iter().rfind(|piece| piece.name() == Some("agent-response"));
    let parsed = reply.map(|reply| protocol::parse_reply(reply.text(text)));
    let Some(ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) = parsed else {
        return false;
    };
    items.iter().any(|item| matches!(item, Item::Action(Action::Read { .. })))
}

fn no_such_turn(name: &str, pieces: &[Piece], turn: u64) -> Problem {
    let turns = pieces.iter().filter(|piece| piece.name() == Some("nagent-turn-status"));
    let mut turns = turns.filter_map(|piece| piece.get("turn")?.parse::<u64>().ok());
    let Some(first) = turns.next() else {
        return Problem::failed(format!("conversation {name} has no turns"));
    };
    let last = turns.next_back().unwrap_or(first);
    let notice = pieces.iter().rev().find_map(Notice::read);
    match notice.filter(|_| turn < first) {
        Some(notice) => Problem::failed(format!(
            "turn {turn} of conversation {name} is in {}, where a compaction put it; nagent-conversations expand {name} puts it back",
            notice.archive
        )),
        None => Problem::failed(format!(
            "conversation {name} has no turn {turn}; it has the turns {first} to {last}"
        )),
    }
}

/// The part of a conversation that goes.
struct Removed {
    /// Where it begins.
    start: usize,
    /// The prompts in it.
    prompts: Vec<Prompt>,
    /// Its first time.
    since: Option<String>,
    /// The children that it started or went on with.
    children: Vec<String>,
    /// The run of which the beginning stays, where there is one.
    partial: Option<Partial>,
    /// Whether it ran commands, or children, which may have.
    has_commands: bool,
    /// The folder of its last prompt.
    folder: PathBuf,
}

/// A run of which the beginning stays.
struct Partial {
    prompt: Prompt,
    /// What the part that goes wrote first of each file: the path, and the first digits of the hash of the content before.
    found: Vec<(PathBuf, String)>,
}

/// A prompt as the log of changes names it: its time, to the second, and its first line.
#[derive(PartialEq)]
struct Prompt(String, String);

impl Prompt {
    fn read(text: &str, piece: &Piece) -> Option<Self> {
        let line = first_line(piece.text(text).as_bytes());
        Some(Self(piece.get("at")?.to_owned(), line))
    }

    fn is_of(&self, change: &FileChange) -> bool {
        self.0 == change.at && self.1 == change.prompt
    }
}

/// A message to a run in progress is no prompt of a run of its own.
fn is_prompt(piece: &Piece) -> bool {
    piece.name() == Some("user-prompt") && piece.get("message").is_none()
}

impl Removed {
    fn new(journal: &ConversationFile, cut: usize) -> Self {
        let (text, (kept, gone)) = (journal.text(), journal.pieces().split_at(cut));
        let get = |name: &'static str| gone.iter().filter_map(move |piece| piece.get(name));
        let last_of = |pieces: &[Piece], name: &str| {
            pieces.iter().rev().find_map(|piece| piece.get(name)).map(str::to_owned)
        };
        let prompts = gone.iter().filter(|piece| is_prompt(piece));
        let is_command = |piece: &Piece| {
            matches!(piece.name(), Some("nagent-shell-result" | "nagent-conversation-result"))
                || piece.get("check").is_some()
                || piece.get("after_write").is_some()
        };
        let folder = last_of(gone, "cwd").or_else(|| last_of(kept, "cwd"));
        Self {
            start: gone.first().map_or(journal.text().len(), |piece| piece.span.start),
            prompts: prompts.filter_map(|piece| Prompt::read(text, piece)).collect(),
            since: get("at").next().map(str::to_owned),
            children: get("conversation").map(str::to_owned).collect(),
            partial: Partial::new(text, kept, gone),
            has_commands: gone.iter().any(is_command),
            folder: PathBuf::from(folder.unwrap_or_else(|| "/".to_owned())),
        }
    }

    /// The changes of files that go with it, the newest first.
    fn changes(&self, name: &str, root: &Root) -> Result<Vec<FileChange>, Problem> {
        let stored = fs::list_names(&root.outputs()).unwrap_or_default();
        let since = self.since.as_deref().unwrap_or_default();
        let mut changes: Vec<FileChange> = Vec::new();
        for change in list_changes(&change_log::read_log(root)?).into_iter().rev() {
            let is_own = change.conversation == name;
            let is_childs = change.of.iter().any(|of| of == name)
                && self.children.contains(&change.conversation)
                && change.at.as_str() >= since;
            if is_own && self.prompts.iter().any(|prompt| prompt.is_of(&change))
                || !is_own && is_childs
            {
                changes.push(change);
            } else if let Some(partial) =
                self.partial.as_ref().filter(|it| is_own && it.prompt.is_of(&change))
                && !changes.iter().any(|it| it.path == change.path && it.run == change.run)
                && let Some(before) = partial.content_before(&change.path, &stored)
            {
                let before = Some(before).filter(|hash| hash != NO_FILE);
                changes.push(FileChange { before, ..change });
            }
        }
        Ok(changes)
    }

    /// Files that were changed since, and that are not among those that were undone.
    fn files_of_commands(&self, undone: &Map<String, Value>) -> Vec<PathBuf> {
        if !self.has_commands {
            return Vec::new();
        }
        let Some(since) = self.since.as_deref().and_then(clock::parse_time) else {
            return Vec::new();
        };
        let files = undone.get("files").and_then(Value::as_array).into_iter().flatten();
        let done: Vec<&str> = files.filter_map(|file| file["source_path"].as_str()).collect();
        let (mut found, _) = find_modified(&self.folder, since);
        found.retain(|path| !done.iter().any(|done| Path::new(done) == path));
        found
    }
}

impl Partial {
    fn new(text: &str, kept: &[Piece], gone: &[Piece]) -> Option<Self> {
        let prompt = kept.iter().rfind(|piece| is_prompt(piece))?;
        let of_run: Vec<&Piece> = gone.iter().take_while(|piece| !is_prompt(piece)).collect();
        let folder = Path::new(prompt.get("cwd").unwrap_or("/"));
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        for piece in &of_run {
            let is_write = matches!(
                piece.name(),
                Some("nagent-write-result" | "nagent-edit-result" | "nagent-file-patch-result")
            ) && piece.get("status") == Some("ok");
            let Some(path) = piece.get("resolved").or_else(|| piece.get("path")) else { continue };
            let path = folder.join(path);
            if is_write && !found.iter().any(|(known, _)| *known == path) {
                found.push((path, piece.get("previous").unwrap_or(NO_FILE).to_owned()));
            }
        }
        Some(Self { prompt: Prompt::read(text, prompt)?, found })
    }

    /// The hash of the content that a file had before the part that goes, or [`NO_FILE`]; `None` if that did not write it, or the
    /// content is not stored any more.
    fn content_before(&self, path: &str, stored: &[String]) -> Option<String> {
        let (_, digits) = self.found.iter().find(|(known, _)| known == Path::new(path))?;
        let mut hashes = stored.iter().filter_map(|name| name.strip_suffix(".txt"));
        match digits.as_str() {
            NO_FILE => Some(NO_FILE.to_owned()),
            digits => hashes.find(|hash| is_hash_of(digits, hash)).map(str::to_owned),
        }
    }
}

/// What has become of the files, for the model.
fn describe_files(report: &Map<String, Value>) -> String {
    let files = report.get("files").and_then(Value::as_array).into_iter().flatten();
    let is_gone = |file: &&Value| file["restored_sha256"] == NO_FILE;
    let (gone, back): (Vec<&Value>, Vec<&Value>) = files.partition(is_gone);
    let name = |files: &[&Value]| {
        let paths =
            files.iter().filter_map(|file| Some(PathBuf::from(file["source_path"].as_str()?)));
        name_some(&paths.collect::<Vec<_>>())
    };
    match (back.is_empty(), gone.is_empty()) {
        (true, true) => "No file was written by a tag since then.".to_owned(),
        (false, true) => format!("These files have their content of then again: {}", name(&back)),
        (true, false) => format!("These files are gone again, as then: {}", name(&gone)),
        (false, false) => format!(
            "These files have their content of then again: {}; these are gone again: {}",
            name(&back),
            name(&gone)
        ),
    }
}

fn name_some(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().take(NAMED).map(shown).collect();
    let more = paths.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// Gives files the content back that they had before this part, all or none.
fn undo_files(name: &str, root: &Root, removed: &Removed) -> Result<Report, Problem> {
    let args =
        RunArgs::for_model(ModelArgs { root: Some(root.folder.clone()), ..ModelArgs::default() });
    let which =
        ConversationArgs { conversation: Some(name.to_owned()), ..ConversationArgs::default() };
    let mut call = Call::new("nagent-conversations", &args, &which)?;
    name.clone_into(&mut call.name);
    let all = list_changes(&change_log::read_log(root)?);
    let changes = removed.changes(name, root)?;
    let report = undo::undo_changes(&call, changes.clone())?;
    if report.error.is_none() {
        record_rest(root, &all, &changes)?;
    }
    Ok(report)
}

/// Records anew what stays of a run whose changes were taken back with those of its end: they can be undone as before.
fn record_rest(root: &Root, before: &[FileChange], now: &[FileChange]) -> anyhow::Result<()> {
    for change in now {
        let Some(whole) = before.iter().find(|it| it.id == change.id) else { continue };
        if whole.before == change.before {
            continue;
        }
        let hash = |hash: &Option<String>| hash.clone().unwrap_or_else(|| NO_FILE.to_owned());
        let run = uuid::Uuid::new_v4().simple().to_string();
        let (conversation, of) = (whole.conversation.clone(), whole.of.clone());
        let mut log = ChangeLog::new(root.clone(), run, conversation, of);
        log.at.clone_from(&whole.at);
        log.prompt.clone_from(&whole.prompt);
        log.task.clone_from(&whole.task);
        let event = FileEvent::Write { before: hash(&whole.before), after: hash(&change.before) };
        log.append(Path::new(&whole.path), event)?;
    }
    Ok(())
}
