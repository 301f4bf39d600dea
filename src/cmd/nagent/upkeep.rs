//! Putting conversations aside, keeping copies, going on from one. All of it combines with a prompt in one call.
//!
//! Nothing is ever overwritten: what stands where something is to go is put aside under a name of its own first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::progress::Progress;
use super::{Call, file_memory, start};
use crate::cmd::settings::pick;
use crate::context;
use crate::drive;
use crate::format::conversation::{self, Trouble};
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::protocol::tags;
use crate::sys::atomic_file::AtomicFile;
use crate::sys::conversation_file::{self, ConversationFile};
use crate::sys::lock::{self, Lock};
use crate::sys::root::{self, Root};
use crate::sys::{fs, names};
use crate::turn::unfinished::unfinished_results;

/// The name of the index's lock. No conversation's name ends so: none can hold this lock for as long as a run takes.
const SAVED_LOCK: &str = "saved-index.json";

/// The largest index of saved conversations that is read, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

/// The longest summary of a saved conversation, in characters.
const SUMMARY: usize = 120;

/// A saved conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Saved {
    /// Its name.
    pub(super) name: String,
    /// Its file.
    pub(super) path: String,
    /// What it is about.
    pub(super) summary: String,
    /// Where the summary came from.
    pub(super) summary_source: String,
}

/// The index of saved conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SavedIndex {
    /// Its entries, the oldest first.
    pub(super) conversations: Vec<Saved>,
}

/// Runs the upkeep that was asked for, in a fixed order: clear, branch, load, save.
pub(super) fn run(call: &mut Call<'_>) -> Result<Report, Problem> {
    let mut report = Report::done("");
    let args = call.args;
    let changes =
        args.clear || args.branch_conversation.is_some() || args.load_conversation.is_some();
    // What is to be loaded is looked at before anything is put aside.
    let branch =
        args.branch_conversation.as_deref().map(|name| source(call, name, false)).transpose()?;
    let load =
        args.load_conversation.as_deref().map(|name| source(call, name, true)).transpose()?;
    let lock = if changes { Some(take_lock(call, &call.name)?) } else { None };
    if args.clear {
        report = report.then(clear(call)?);
    }
    for (path, text) in branch.into_iter().chain(load) {
        report = report.then(replace(call, &path, &text)?);
    }
    drop(lock);
    if let Some(name) = &args.save_conversation {
        report = report.then(save(call, name)?);
    }
    Ok(report)
}

pub(super) fn take_lock(call: &Call<'_>, name: &str) -> Result<Lock, Problem> {
    let timeout =
        pick(call.args.lock_timeout, None, call.settings.config.lock_timeout, 30.0, "config").value;
    let mut waiting =
        |by: &str| out::line(&format!("nagent: waiting for conversation {name}, in use{by}"));
    let (lock, torn) = ConversationFile::lock_only(
        &call.settings.root.value,
        name,
        Duration::from_secs_f64(timeout),
        call.interrupts,
        &mut waiting,
    )?;
    if let Some(torn) = torn {
        out::line(&format!(
            "nagent: note: the end of conversation {name} was no whole block, as after a crash; what stood there is in {}",
            torn.display()
        ));
    }
    Ok(lock)
}

/// Puts a text in the conversation's place. What stood there is kept under a name of its own first; whatever ends this, and
/// when, the conversation is the old text or the new one, whole. Its lock is held.
pub(super) fn exchange(call: &Call<'_>, text: &str) -> Result<Option<PathBuf>, Problem> {
    put_in_place(&call.settings.root.value, &call.name, text)
}

/// The same for a conversation of any name.
fn put_in_place(root: &Root, name: &str, text: &str) -> Result<Option<PathBuf>, Problem> {
    let path = root.conversation(name);
    let archived = if fs::is_there(&path)? {
        let stem: String = name.chars().take(60).collect();
        Some(root.conversation(&format!("{stem}-{}", uuid::Uuid::new_v4())))
    } else {
        None
    };
    let before = fs::file_id(&path);
    let copied = archived.as_ref().map_or(Ok(()), |archived| fs::copy_file(&path, archived));
    if let Err(error) = copied.and_then(|()| AtomicFile::new(&path).write(text.as_bytes())) {
        // Where it stands as it stood, the copy says nothing more. Where the new one has its name already, and only that
        // could not be made durable, the copy is all that is left of the old one.
        if let Some(archived) = archived.filter(|_| before.is_some()) {
            if fs::file_id(&path) == before {
                let _ = fs::remove_file(&archived);
            } else {
                let kept = archived.display();
                return Err(error.context(format!("what the conversation held is {kept}")).into());
            }
        }
        return Err(error.into());
    }
    Ok(archived)
}

fn clear(call: &Call<'_>) -> Result<Report, Problem> {
    let path = call.settings.root.value.conversation(&call.name);
    let body = fresh_context(call)?;
    let archived = exchange(call, &body)?;
    Ok(moved(archived.as_deref(), None, &path))
}

/// The first block of a new conversation.
pub(super) fn fresh_context(call: &Call<'_>) -> Result<String, Problem> {
    let folder = call.env.folder.clone().map_err(Problem::usage)?;
    let mut progress = Progress::new(call.quiet);
    let (mut facts, ..) = start::gather(call, &folder, &mut progress)?;
    facts.memory = file_memory::gather(call, None, &mut progress).text;
    let block = conversation::Block::new("initial_context")
        .body(context::format(&context::sections(&facts)));
    let own: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    Ok(drive::format_block(&block, &own))
}

/// The text of a conversation that is to be gone on from.
fn source(call: &Call<'_>, name: &str, paths: bool) -> Result<(PathBuf, String), Problem> {
    let root = &call.settings.root.value;
    let is_path = paths && (name.contains('/') || name.starts_with('~'));
    let path = if is_path {
        let expanded = names::expand_home(Path::new(name), call.env.home().as_deref());
        call.env.folder.clone().map_err(Problem::usage)?.join(expanded)
    } else {
        root::check_name(name).map_err(Problem::usage)?;
        root.conversation(name)
    };
    let failed = |message: String| Problem::failed(message);
    // An older tool kept conversations in the root itself.
    let old = root.path().join(name);
    let path =
        if !is_path && !fs::exists(&path) && fs::file_size(&old).is_some() { old } else { path };
    let text = fs::read_text(&path, conversation_file::LIMIT)?.ok_or_else(|| {
        let near: Vec<String> = fs::list_names(&root.conversations()).unwrap_or_default();
        let near: Vec<&str> =
            near.iter().filter(|n| root::check_name(n).is_ok()).map(String::as_str).collect();
        let hint = crate::llm::provider::nearest(name, near).map_or_else(
            || "--list-conversations lists the saved ones".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        failed(format!("conversation not found: {}; {hint}", path.display()))
    })?;
    if let Some(Trouble::Damaged { line, message, .. }) = conversation::parse(&text).trouble {
        return Err(failed(format!("{} is damaged at line {line}: {message}", path.display())));
    }
    let is_at_work = call.parents.iter().any(|parent| parent == name);
    Ok((path, if is_at_work { settled(text) } else { text }))
}

/// The text up to a last reply whose actions are still being run: a copy of a conversation that is at work and waits
/// for this run.
fn settled(mut text: String) -> String {
    let pieces = conversation::parse(&text).pieces;
    if !unfinished_results(&text, &pieces).is_empty()
        && let Some(reply) = pieces.iter().rfind(|piece| piece.name() == Some("agent-response"))
    {
        text.truncate(reply.span.start);
    }
    text
}

/// Puts the conversation aside and begins a new one with another's text.
fn replace(call: &Call<'_>, from: &Path, text: &str) -> Result<Report, Problem> {
    let path = call.settings.root.value.conversation(&call.name);
    let has_context = conversation::parse(text)
        .pieces
        .first()
        .is_some_and(|piece| piece.name() == Some("initial_context"));
    let text =
        if has_context { text.to_owned() } else { format!("{}\n{text}", fresh_context(call)?) };
    let archived = exchange(call, &text)?;
    Ok(moved(archived.as_deref(), Some(from), &path))
}

pub(super) fn moved(archived: Option<&Path>, loaded: Option<&Path>, path: &Path) -> Report {
    let mut text = String::new();
    let mut json = serde_json::Map::new();
    for (key, label, value) in [
        ("archived_path", "archived", archived),
        ("loaded_path", "loaded", loaded),
        ("conversation_path", "conversation", Some(path)),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("{label}:{}\n", value.display()));
            json.insert(key.to_owned(), value.display().to_string().into());
        }
    }
    Report { json, ..Report::done(text) }
}

fn save(call: &Call<'_>, name: &str) -> Result<Report, Problem> {
    let root = &call.settings.root.value;
    let journal = ConversationFile::read_only(root, &call.name)?;
    if journal.text().is_empty() {
        return Err(Problem::failed(format!(
            "conversation {} is empty, there is nothing to save",
            call.name
        )));
    }
    root::check_name(name).map_err(Problem::usage)?;
    let path = root.conversation(name);
    if path == root.conversation(&call.name) {
        return Err(Problem::usage(format!(
            "{name} is the conversation itself; save it under another name"
        )));
    }
    if call.parents.iter().any(|parent| parent == name) {
        return Err(Problem::usage(format!(
            "conversation {name} is at work and started this command; save under another name"
        )));
    }
    let index_path = root.saved_index();
    let wait = start::wait(call.interrupts);
    let _index_lock = lock::lock_index(root, SAVED_LOCK, wait)?;
    // Read before anything is written: a damaged index stops all of it.
    let mut index = read_index(&index_path)?;
    let _target_lock = take_lock(call, name)?;
    // An older copy of that name is put aside, not lost.
    put_in_place(root, name, journal.text())?;
    let saved = Saved {
        name: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        path: path.display().to_string(),
        summary: summary(&journal),
        summary_source: "extracted".to_owned(),
    };
    index.conversations.retain(|entry| entry.name != saved.name && entry.path != saved.path);
    index.conversations.push(saved.clone());
    let text =
        serde_json::to_string_pretty(&index).map_err(|error| Problem::usage(error.to_string()))?;
    AtomicFile::new(&index_path).write(format!("{text}\n").as_bytes())?;
    let conversation = root.conversation(&call.name).display().to_string();
    let text = format!(
        "saved:{}\nsaved_conversations_index:{}\nconversation:{conversation}\n",
        saved.path,
        index_path.display()
    );
    Ok(Report::done(text)
        .with("conversation_path", conversation)
        .with("saved_path", saved.path)
        .with("summary", saved.summary)
        .with("index_path", index_path.display().to_string()))
}

/// The first prompt, on one line, cut.
fn summary(journal: &ConversationFile) -> String {
    let prompt = journal.pieces().iter().find(|piece| piece.name() == Some("user-prompt"));
    let words: Vec<&str> =
        prompt.map_or("", |piece| piece.text(journal.text())).split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= SUMMARY {
        return line;
    }
    line.chars().take(SUMMARY).chain("...".chars()).collect()
}

/// The index of saved conversations; empty when it is not there.
pub(super) fn read_index(path: &Path) -> Result<SavedIndex, Problem> {
    let Some(text) = fs::read_text(path, INDEX_LIMIT)? else { return Ok(SavedIndex::default()) };
    serde_json::from_str(&text).map_err(|error| {
        Problem::failed(format!(
            "{} is no index of conversations: {error}; mend it or move it away",
            path.display()
        ))
    })
}
