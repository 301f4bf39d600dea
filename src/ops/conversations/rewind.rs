//! `nagent-conversations rewind`: goes back to before a turn. The conversation is archived whole and cut. With
//! `--files`, writes of tags since then are undone as by `nagent --undo`, and files that only commands may have changed
//! are listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::Catalog;
use crate::drive::format_block;
use crate::ops::conversations::undo;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{ConversationArgs, ModelArgs, RunArgs};
use crate::out::Report;
use conversation::compact::notice::Notice;
use conversation::compact::plan::begins_turn;
use conversation::format::file::{Block, Piece};
use conversation::format::harmless::quote_name;
use conversation::memory::changes::{
    ChangeLogEntry, FileEvent, NO_FILE, RunFileChange, is_hash_of, list_changes,
};
use conversation::problem::Problem;
use conversation::protocol::{self, Action, ParsedReply, ReplyItem};
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::archive_name;
use sys::interrupt::Interrupts;
use sys::list_dir::find_modified;
use sys::names::name_some;
use sys::root::Root;
use sys::{change_log, clock, fs};

/// Maximum number of files that a list in the conversation names; stdout has all that commands may have changed.
const NAMED: usize = 20;

/// Goes back to before this turn.
pub fn rewind_conversation(
    catalog: &Catalog,
    prefix: Option<&str>,
    turn: u64,
    files: bool,
) -> Result<Report, Problem> {
    let name = catalog.resolve_name(prefix)?;
    let interrupts = Interrupts::install()?;
    let mut waiting = |_: &str| ();
    let root = &catalog.root;
    let mut journal =
        ConversationFile::open(root, &name, Duration::ZERO, &interrupts, &mut waiting)?;
    let cut = find_cut(journal.text(), journal.pieces(), turn)
        .ok_or_else(|| no_such_turn(&name, journal.pieces(), turn))?;
    let removed = Removed::new(&journal, cut, turn);
    let mut lines = vec![format!(
        "The user rewound the conversation to before turn {turn}; everything after this point was removed."
    )];
    // First, so that a full disk is found before a file is touched.
    let archive = archive_name(&name);
    journal.archive(&archive)?;
    let undone = match files.then(|| undo_files(root, &removed)) {
        None => RewoundFiles { report: Report::done(String::new()), before: Vec::new() },
        Some(Ok(RewoundFiles { report, .. })) if report.error.is_some() => {
            let _ = fs::remove_file(&root.conversation(&archive));
            let error = report.error.map(|error| format!("{error}; the conversation is unchanged"));
            return Ok(Report { error, ..report });
        }
        Some(Ok(undone)) => undone,
        Some(Err(problem)) => {
            let _ = fs::remove_file(&root.conversation(&archive));
            return Err(problem);
        }
    };
    lines.push(if files { undone.describe() } else { "Files were not changed.".to_owned() });
    if !removed.children.is_empty() {
        let names = removed.children.join(", ");
        lines.push(format!("Child conversations were not rewound: {names}"));
    }
    let Report { mut text, json, .. } = undone.report;
    let others = removed.files_of_commands(&json);
    if files && !others.is_empty() {
        lines.push(format!(
            "Changed since then by commands or by others, and left as they are: {}",
            name_paths(&others)
        ));
        text.push_str("changed since then by commands or by others, and left as they are:\n");
        text.extend(others.iter().map(|path| format!("  {}\n", quote_name(path))));
    }
    let notice = Block::new("system").with("rewound", &archive).body(lines.join("\n"));
    let kept = journal.text()[..removed.start].trim_end_matches('\n');
    let gap = if kept.is_empty() { "" } else { "\n\n" };
    let new = format!("{kept}{gap}{}", format_block(&notice));
    let link = Block::new("system")
        .with("rewound_into", &name)
        .body(format!("this is conversation {name} before it was rewound to before turn {turn}"));
    let replaced = journal.replace_archived(&new, &archive, &format_block(&link));
    replaced.map_err(|error| conversation_failure(error, &paths_of(&json)))?;
    let archive = root.conversation(&archive).display().to_string();
    let text = format!(
        "conversation {name} is back to before turn {turn}; the full text is archived in {archive}\n{text}"
    );
    let others: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
    Ok(Report { json, ..Report::done(text) }
        .with("name", name)
        .with("path", journal.path().display().to_string())
        .with("archived_path", archive)
        .with("turn", turn)
        .with("left_changed", others))
}

/// The error when the conversation cannot be written after files were undone.
fn conversation_failure(error: anyhow::Error, files: &[PathBuf]) -> Problem {
    if files.is_empty() {
        return error.into();
    }
    Problem::failed(format!(
        "files were restored ({}), but the conversation could not be written: {error:#}. Run the same command again to \
         complete it",
        name_paths(files)
    ))
}

/// The piece that a turn begins with: its reply, or its prompt with what was shown before it, if it is the first after that.
fn find_cut(text: &str, pieces: &[Piece], turn: u64) -> Option<usize> {
    let is_it = |piece: &Piece| {
        piece.name() == Some("nagent-turn-status") && piece.number("turn") == Some(turn)
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
    let parsed = reply.map(|reply| protocol::parse_reply(reply.body_text(text)));
    let Some(ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) = parsed else {
        return false;
    };
    items.iter().any(|item| matches!(item, ReplyItem::Action(Action::Read { .. })))
}

/// The error for a turn that a conversation does not have: it names those that it has, or where the turn is.
pub(super) fn no_such_turn(name: &str, pieces: &[Piece], turn: u64) -> Problem {
    let turns = pieces.iter().filter(|piece| piece.name() == Some("nagent-turn-status"));
    let mut turns = turns.filter_map(|piece| piece.number("turn"));
    let Some(first) = turns.next() else {
        return Problem::failed(format!("conversation {name} has no turns"));
    };
    let last = turns.next_back().unwrap_or(first);
    let holds = |notice: &Notice<'_>| {
        let (start, end) = notice.turns.unwrap_or((1, first.saturating_sub(1)));
        (start..=end).contains(&turn)
    };
    match pieces.iter().rev().filter_map(Notice::read).find(holds) {
        Some(notice) => Problem::failed(format!(
            "turn {turn} of conversation {name} is in {}, where a compaction put it; nagent-conversations expand {name} puts it back",
            notice.archive
        )),
        None => Problem::failed(format!(
            "conversation {name} has no turn {turn}; it has the turns {first} to {last}"
        )),
    }
}

/// The removed part of a conversation.
struct Removed {
    name: String,
    /// The offset at which it begins.
    start: usize,
    /// Its first turn.
    turn: u64,
    /// Its times, the earliest first.
    times: Vec<String>,
    /// The children that it started or continued.
    children: Vec<String>,
    /// Its writes by tags: the file, and the first digits of the hash of what was there.
    writes: Vec<(PathBuf, String)>,
    /// Whether it ran commands, or children, which may have.
    has_commands: bool,
    /// The folder of its last prompt.
    folder: PathBuf,
}

impl Removed {
    fn new(journal: &ConversationFile, cut: usize, turn: u64) -> Self {
        let (kept, gone) = journal.pieces().split_at(cut);
        let is_command = |piece: &Piece| {
            matches!(piece.name(), Some("nagent-shell-result" | "nagent-conversation-result"))
                || piece.get("check").is_some()
                || piece.get("after_write").is_some()
        };
        let mut folder = kept.iter().rev().find_map(|piece| piece.get("cwd")).unwrap_or("/");
        let (mut children, mut writes): (Vec<String>, Vec<_>) = Default::default();
        for piece in gone {
            folder = piece.get("cwd").unwrap_or(folder);
            let child = piece.get("conversation").map(str::to_owned);
            children.extend(child.filter(|child| !children.contains(child)));
            writes.extend(
                written_file(piece)
                    .map(|(path, found)| (Path::new(folder).join(path), found.to_owned())),
            );
        }
        Self {
            name: journal.name().to_owned(),
            start: gone.first().map_or(journal.text().len(), |piece| piece.span.start),
            turn,
            times: gone.iter().filter_map(|piece| piece.get("at")).map(str::to_owned).collect(),
            children,
            writes,
            has_commands: gone.iter().any(is_command),
            folder: PathBuf::from(folder),
        }
    }

    /// Whether a line of the log of changes is of this part, or of what this part has started.
    fn contains(&self, entry: &ChangeLogEntry) -> bool {
        entry.turns.iter().any(|it| {
            it.conversation == self.name && it.turn >= self.turn && self.times.contains(&it.at)
        })
    }

    /// The files that it wrote and whose change is not in the log with its turn.
    fn find_unlogged(&self, root: &Root, log: &[ChangeLogEntry]) -> Vec<PathBuf> {
        // nagent's own files are never in it.
        let own = fs::real_path(root.path());
        let is_logged = |path: &Path, found: &str| {
            own.as_ref().is_some_and(|own| path.starts_with(own))
                || log.iter().any(|entry| {
                    let FileEvent::Write { before, .. } = &entry.event else { return false };
                    Path::new(&entry.path) == path
                        && is_hash_of(found, before)
                        && self.contains(entry)
                })
        };
        let unlogged = self.writes.iter().filter(|(path, found)| !is_logged(path, found));
        let files: BTreeSet<_> = unlogged.map(|(path, _)| path.clone()).collect();
        files.into_iter().collect()
    }

    /// The changes of this part that were not undone, the newest first. Refuses one that began before.
    fn list_changes(&self, log: &[ChangeLogEntry]) -> Result<Vec<RunFileChange>, Problem> {
        let mut found = Vec::new();
        for change in list_changes(log).into_iter().rev() {
            let lines = || {
                let is_of = |line: &&ChangeLogEntry| {
                    line.run == change.run
                        && line.path == change.path
                        && matches!(line.event, FileEvent::Write { .. } | FileEvent::End { .. })
                };
                log.iter().filter(is_of)
            };
            if !lines().any(|line| self.contains(line)) {
                continue;
            }
            if !lines().all(|line| self.contains(line)) {
                let turns = lines().flat_map(|line| &line.turns);
                let own = turns.filter(|mark| mark.conversation == self.name);
                let first = own.map(|mark| mark.turn).min().unwrap_or(1);
                return Err(Problem::failed(format!(
                    "nothing was undone: the run that wrote {} in turn {} wrote it before, too; --turn {first} takes all of that back",
                    quote_name(Path::new(&change.path)),
                    self.turn
                )));
            }
            found.push(change);
        }
        Ok(found)
    }

    /// Files that were changed since, and that are not among those that were undone.
    fn files_of_commands(&self, undone: &Map<String, Value>) -> Vec<PathBuf> {
        if !self.has_commands {
            return Vec::new();
        }
        let Some(since) = self.times.first().and_then(|at| clock::parse_time(at)) else {
            return Vec::new();
        };
        let (done, mut found) = (paths_of(undone), find_modified(&self.folder, since));
        found.retain(|path| !done.contains(path));
        found
    }
}

/// The file that a result says was written, and the first digits of the hash of what was there.
fn written_file(piece: &Piece) -> Option<(&str, &str)> {
    let found = match piece.name()? {
        "nagent-write-result" | "nagent-edit-result" => piece.get("previous").unwrap_or(NO_FILE),
        // Without it the patch has changed nothing.
        "nagent-file-patch-result" => piece.get("previous")?,
        _ => return None,
    };
    let path = piece.get("resolved").or_else(|| piece.get("path"))?;
    (piece.get("status") == Some("ok")).then_some((path, found))
}

/// The files that a report names.
fn paths_of(report: &Map<String, Value>) -> Vec<PathBuf> {
    let files = report.get("files").and_then(Value::as_array).into_iter().flatten();
    files.filter_map(|file| Some(PathBuf::from(file["source_path"].as_str()?))).collect()
}

/// The files that were undone.
struct RewoundFiles {
    report: Report,
    /// Files that were written, and that an earlier undo had taken back.
    before: Vec<PathBuf>,
}

impl RewoundFiles {
    /// The text for the model.
    fn describe(&self) -> String {
        let files = self.report.json.get("files").and_then(Value::as_array).into_iter().flatten();
        let is_gone = |file: &&Value| file["restored_sha256"] == NO_FILE;
        let (gone, back): (Vec<&Value>, Vec<&Value>) = files.partition(is_gone);
        let paths = |files: &[&Value]| {
            let paths = files.iter().filter_map(|file| file["source_path"].as_str());
            paths.map(PathBuf::from).collect::<Vec<_>>()
        };
        let parts: Vec<String> = [
            ("Restored", paths(&back)),
            ("Removed again", paths(&gone)),
            ("Already undone", self.before.clone()),
        ]
        .iter()
        .filter(|(_, files)| !files.is_empty())
        .map(|(what, files)| format!("{what}: {}", name_paths(files)))
        .collect();
        if parts.is_empty() {
            return "No tag has written a file since then.".to_owned();
        }
        parts.join("\n")
    }
}

fn name_paths(paths: &[PathBuf]) -> String {
    name_some(&paths.iter().map(quote_name).collect::<Vec<_>>(), NAMED, ", ")
}

/// Restores the content that files had before this part, all or none.
fn undo_files(root: &Root, removed: &Removed) -> Result<RewoundFiles, Problem> {
    let args =
        RunArgs::for_model(ModelArgs { root: Some(root.folder.clone()), ..ModelArgs::default() });
    let which = ConversationArgs {
        conversation: Some(removed.name.clone()),
        ..ConversationArgs::default()
    };
    let mut call = Call::new("nagent-conversations", &args, &which)?;
    removed.name.clone_into(&mut call.name);
    let log = change_log::read_log(root)?;
    let unlogged = removed.find_unlogged(root, &log);
    if !unlogged.is_empty() {
        return Err(Problem::failed(format!(
            "nothing was undone: {} does not say in which turn these files were written, as in a copy of a conversation: {}; \
             without --files only the conversation is rewound",
            quote_name(root.change_log_path()),
            name_paths(&unlogged)
        )));
    }
    let changes = removed.list_changes(&log)?;
    let is_write = |entry: &&ChangeLogEntry| {
        matches!(entry.event, FileEvent::Write { .. }) && removed.contains(entry)
    };
    let written: BTreeSet<&String> = log.iter().filter(is_write).map(|entry| &entry.path).collect();
    let is_undone = |path: &&String| changes.iter().any(|change| change.path == **path);
    let before = written.into_iter().filter(|path| !is_undone(path)).map(PathBuf::from).collect();
    let report = undo::undo_changes(&call, changes)?;
    Ok(RewoundFiles { report, before })
}
