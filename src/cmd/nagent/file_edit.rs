//! `--file-edit`: which conversation belongs to a file, and which files are refused before a model is asked.
//! `--list-file-edits`: what the index of files holds. How a file is found there is [`crate::sys::file_index`]'s.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Call, rework, start};
use crate::cmd::settings::Settings;
use crate::format::file_index::Entry;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::boundary::{Boundary, Places};
use crate::sys::env::Env;
use crate::sys::names::shown;
use crate::sys::{file_index, fs, names, read, root};

/// The file's conversation, or a new name for one. Writes nothing.
pub(crate) fn conversation(settings: &Settings, env: &Env, path: &Path) -> Result<String, Problem> {
    let path = absolute(env, path)?;
    let entry = file_index::find_entry(&settings.root.value, &path)?;
    Ok(entry.map_or_else(|| new_name(&path), |entry| entry.conversation))
}

/// Notes that the file has this call's conversation, unless it got one meanwhile; the name that counts. A file that no tag
/// could write is refused.
pub(super) fn register(call: &Call<'_>, path: &Path) -> Result<String, Problem> {
    let root = &call.settings.root.value;
    let path = absolute(call.env, path)?;
    let folder = call.env.folder.clone().map_err(Problem::usage)?;
    let home = call.env.home();
    let places = Places {
        cwd: &folder,
        toplevel: None,
        home: home.as_deref(),
        root: root.path(),
        tmpdir: None,
    };
    let boundary =
        Boundary::for_file(places, &path).map_err(|denied| refused(&denied.to_string()))?;
    may_be_named(call, &boundary)?;
    let wait = start::wait(call.interrupts);
    let (entry, notes) = file_index::register(root, &path, || call.name.clone(), wait)?;
    for note in notes {
        out::line(&format!("nagent: note: {note}"));
    }
    if call.parents.contains(&entry.conversation) {
        return Err(Problem::usage(format!(
            "conversation {} of {} started this command and waits for it",
            entry.conversation,
            shown(&path)
        )));
    }
    Ok(entry.conversation)
}

/// A file of nagent's own is a target only where the user names it; what another run started was named by a model, but for
/// the working copy of a conversation that is being edited.
pub(super) fn may_be_named(call: &Call<'_>, boundary: &Boundary) -> Result<(), Problem> {
    if call.parents.is_empty() || boundary.target().is_some_and(|path| rework::is_copy(call, path))
    {
        return Ok(());
    }
    boundary.target_is_no_own_file().map_err(|denied| refused(&denied.to_string()))
}

/// Notes which file it is now, at the end of a run: it may have been written, or made.
pub(super) fn settle(call: &Call<'_>) {
    let wait = start::wait(call.interrupts);
    if let Err(error) = file_index::update_identity(&call.settings.root.value, &call.name, wait) {
        out::line(&format!("nagent: note: {}", Problem::from(error).message));
    }
}

/// The files that have conversations.
pub(super) fn list(call: &Call<'_>) -> Result<Report, Problem> {
    let root = &call.settings.root.value;
    let loaded = file_index::load_index(root)?;
    for note in &loaded.notes {
        out::line(&format!("nagent: note: {note}"));
    }
    let path = root.file_index().display().to_string();
    let mut text = format!("file_index:{path}\n");
    let mut files = Vec::new();
    for entry in loaded.index.by_file_id.values() {
        let fields = [shown(&entry.file_id), shown(&entry.path), shown(&entry.conversation)];
        text.push_str(&format!("{}\n", fields.join("\t")));
        files.push(described(call, entry));
    }
    Ok(Report::done(text).with("file_index_path", path).with("files", files))
}

fn described(call: &Call<'_>, entry: &Entry) -> Value {
    // Nobody makes a path of a name that is none.
    let conversation = root::check_name(&entry.conversation)
        .ok()
        .map(|()| call.settings.root.value.conversation(&entry.conversation).display().to_string());
    let repository = entry.repository.as_ref().map(
        |spot| json!({"first_commit": spot.first_commit, "path": spot.path.to_string_lossy()}),
    );
    let mut value = json!({
        "file_id": entry.file_id,
        "path": entry.path.to_string_lossy(),
        "conversation": entry.conversation,
        "conversation_path": conversation,
        "exists": fs::file_size(&entry.path).is_some(),
        "repository": repository,
    });
    if let Some(bytes) = entry.path_bytes() {
        value["path_bytes"] = bytes.into();
    }
    value
}

fn refused(why: &str) -> Problem {
    Problem::failed(format!("--file-edit: {why}"))
}

/// The path without links, as far as it exists.
pub(crate) fn absolute(env: &Env, path: &Path) -> Result<PathBuf, Problem> {
    let folder = env.folder.clone().map_err(Problem::usage)?;
    let path = folder.join(names::expand_home(path, env.home().as_deref()));
    if let Some(real) = fs::real_path(&path) {
        return match read::open_regular(&real) {
            Ok(_) => Ok(real),
            Err(error) => Err(refused(error.problem())),
        };
    }
    let parent = path.parent().and_then(fs::real_path).filter(|parent| parent.is_dir());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) if !fs::exists(&parent.join(name)) => Ok(parent.join(name)),
        (Some(_), Some(_)) => Err(refused(&format!(
            "{} is a symbolic link to a file that is not there; name the file itself",
            shown(&path)
        ))),
        _ => Err(refused(&format!(
            "{}: there is no such file, and no such folder to create it in{}",
            shown(&path),
            names::suggest_paths(&path)
        ))),
    }
}

fn new_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    // Other letters become hyphens, and no name begins with one.
    let stem = root::name_part(&stem);
    let stem = stem.trim_start_matches(['.', '-']);
    let stem = if stem.is_empty() { "file" } else { stem };
    format!("{stem}-{}", uuid::Uuid::new_v4().simple())
}
