//! Manages conversations: archives them, saves copies, continues from a copy. All of it combines with a prompt in one call.
//!
//! Nothing is ever overwritten: a conversation that would be is archived first, under a name of its own.

use std::path::{Path, PathBuf};

use crate::ops::run::call::Call;
use crate::ops::run::compact;
use crate::ops::run::opening::fresh_context;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::out::Report;
use conversation::format::file::{self, Trouble};
use conversation::format::nearest::nearest;
use conversation::problem::Problem;
use sys::atomic_file::AtomicFile;
use sys::conversation_file::ConversationFile;
use sys::conversation_file::replace::replace_conversation;
use sys::lock::Lock;
use sys::{fs, legacy, root};
use view::overview::Overview;

/// Whether a conversation is to be archived, copied or replaced.
pub fn is_asked(args: &RunArgs, which: &ConversationArgs) -> bool {
    args.clear
        || which.compact
        || which.save_conversation.is_some()
        || which.load_conversation.is_some()
        || which.branch_conversation.is_some()
}

/// Does what was asked for in a fixed order: clear, branch, load, compact, save.
pub(crate) fn manage(call: &Call<'_>) -> Result<Report, Problem> {
    let mut report = Report::done("");
    let which = call.which;
    // Read the source before anything is archived.
    let branch = which.branch_conversation.as_deref();
    let branch = branch.map(|name| read_source(call, name, false)).transpose()?;
    let load = which.load_conversation.as_deref();
    let load = load.map(|name| read_source(call, name, true)).transpose()?;
    let changes = call.args.clear || branch.is_some() || load.is_some();
    let lock = if changes { Some(lock_conversation(call, &call.name)?) } else { None };
    if call.args.clear {
        report = report.then(clear_conversation(call)?);
    }
    for (path, text) in branch.into_iter().chain(load) {
        report = report.then(load_copy(call, &path, &text)?);
    }
    drop(lock);
    if which.compact {
        report = report.then(compact::compact_now(call)?);
    }
    if let Some(name) = &which.save_conversation {
        report = report.then(save_copy(call, name)?);
    }
    Ok(report)
}

/// Locks a conversation that is to be replaced. A block that was torn off at its end by a crash is moved aside first.
pub(crate) fn lock_conversation(call: &Call<'_>, name: &str) -> Result<Lock, Problem> {
    let mut waiting = |by: &str| call.print_waiting(name, by);
    let timeout = call.lock_timeout();
    let (lock, torn) =
        ConversationFile::lock_only(call.root(), name, timeout, &call.interrupts, &mut waiting)?;
    if let Some(torn) = torn {
        call.print_note(&format!(
            "the last block of conversation {name} was incomplete (after a crash?); moved to {}",
            torn.display()
        ));
    }
    Ok(lock)
}

/// Begins a conversation again. One in which nobody has said anything yet is replaced, and not archived.
fn clear_conversation(call: &Call<'_>) -> Result<Report, Problem> {
    let context = fresh_context(call)?;
    let path = call.root().conversation(&call.name);
    let journal = ConversationFile::read_only(call.root(), &call.name).ok();
    let is_empty =
        journal.is_some_and(|journal| Overview::read(journal.text(), journal.pieces()).is_empty);
    if is_empty && fs::exists(&path) {
        AtomicFile::new(&path).write(context.as_bytes())?;
        return Ok(report_paths(None, None, &path));
    }
    let archived = replace_conversation(call.root(), &call.name, &context)?;
    Ok(report_paths(archived.as_deref(), None, &path))
}

/// Reads the conversation to continue from: by name, or by path where `paths` allows it.
fn read_source(call: &Call<'_>, name: &str, paths: bool) -> Result<(PathBuf, String), Problem> {
    let root = call.root();
    let path = if paths && (name.contains('/') || name.starts_with('~')) {
        call.env.absolute_path(Path::new(name))?
    } else {
        root::check_name(name).map_err(Problem::usage)?;
        legacy::old_conversation(root, name).unwrap_or_else(|| root.conversation(name))
    };
    let text = fs::read_text(&path, conversation::limits::CONVERSATION)?.ok_or_else(|| {
        let near: Vec<String> = fs::list_names(&root.conversations()).unwrap_or_default();
        let near: Vec<&str> =
            near.iter().filter(|n| root::check_name(n).is_ok()).map(String::as_str).collect();
        let hint = nearest(name, near).map_or_else(
            || "nagent-conversations list shows all".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        Problem::failed(format!("conversation not found: {}; {hint}", path.display()))
    })?;
    if let Some(Trouble::Damaged { line, message, .. }) = file::parse(&text).trouble {
        return Err(Problem::failed(format!(
            "{} is damaged at line {line}: {message}",
            path.display()
        )));
    }
    Ok((path, text))
}

/// Archives the conversation and starts a new one with the text of another.
fn load_copy(call: &Call<'_>, from: &Path, text: &str) -> Result<Report, Problem> {
    let path = call.root().conversation(&call.name);
    let has_context = file::parse(text)
        .pieces
        .first()
        .is_some_and(|piece| piece.name() == Some("initial_context"));
    let text =
        if has_context { text.to_owned() } else { format!("{}\n{text}", fresh_context(call)?) };
    let archived = replace_conversation(call.root(), &call.name, &text)?;
    Ok(report_paths(archived.as_deref(), Some(from), &path))
}

/// Reports the path of a conversation, and that of the archive with its old text.
pub(crate) fn report_paths(archived: Option<&Path>, loaded: Option<&Path>, path: &Path) -> Report {
    let paths = [("archived", archived), ("loaded", loaded), ("conversation", Some(path))];
    let given = paths.into_iter().filter_map(|(label, path)| Some((label, path?.display())));
    given.fold(Report::done(""), |report, (label, path)| {
        let text = format!("{}{label}:{path}\n", report.text);
        Report { text, ..report }.with(&format!("{label}_path"), path.to_string())
    })
}

/// Saves a copy of the conversation under a name. An older copy of that name is archived.
fn save_copy(call: &Call<'_>, name: &str) -> Result<Report, Problem> {
    let root = call.root();
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
            "{name} is the conversation itself; save the copy under another name"
        )));
    }
    if call.parents.iter().any(|parent| parent == name) {
        return Err(Problem::usage(format!(
            "conversation {name} is waiting for this command; save under another name"
        )));
    }
    let _lock = lock_conversation(call, name)?;
    let archived = replace_conversation(root, name, journal.text())?;
    let archived = archived.map(|path| format!("archived:{}\n", path.display()));
    let (saved, conversation) =
        (path.display().to_string(), root.conversation(&call.name).display().to_string());
    let text =
        format!("{}saved:{saved}\nconversation:{conversation}\n", archived.unwrap_or_default());
    Ok(Report::done(text)
        .with("conversation_path", conversation)
        .with("saved_path", saved)
        .with("summary", Overview::read(journal.text(), journal.pieces()).first_words))
}
