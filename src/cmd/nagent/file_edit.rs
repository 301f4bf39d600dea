//! `--file-edit`: which conversation belongs to a file. One file, one conversation, whatever shell asks.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Call;
use crate::cmd::settings::{Problem, Settings};
use crate::format::file_index::{Entry, FileIndex};
use crate::sys::env::Env;
use crate::sys::{fs, lock, names, read, root};

/// The largest index that is read, in bytes.
pub(crate) const LIMIT: u64 = 64 << 20;

/// The file's conversation, or a new name for one. Writes nothing.
pub(crate) fn conversation(settings: &Settings, env: &Env, path: &Path) -> Result<String, Problem> {
    let path = absolute(env, path)?;
    let index = read(&settings.root.value.file_index())?;
    Ok(find(&index, &path).unwrap_or_else(|| new_name(&path)))
}

/// Notes that the file has this call's conversation, unless it got one meanwhile; the name that counts.
pub(super) fn register(call: &Call<'_>, path: &Path) -> Result<String, Problem> {
    let root = &call.settings.root.value;
    let path = absolute(call.env, path)?;
    let _lock = lock::take_soon(root, "file-index")?;
    let mut index = read(&root.file_index())?;
    let name = find(&index, &path).unwrap_or_else(|| call.name.clone());
    let shown = path.display().to_string();
    let file_id = fs::identity(&path).unwrap_or_else(|| format!("path:{shown}"));
    let old = index.find(Some(&file_id), &shown).cloned();
    let entry = Entry {
        file_id,
        path: shown,
        conversation: name.clone(),
        other: old.as_ref().map(|entry| entry.other.clone()).unwrap_or_default(),
    };
    if old.as_ref() != Some(&entry) {
        index.put(entry);
        fs::replace(&root.file_index(), index.format().as_bytes())?;
    }
    Ok(name)
}

fn find(index: &FileIndex, path: &Path) -> Option<String> {
    let id = fs::identity(path);
    let entry = index.find(id.as_deref(), &path.display().to_string())?;
    root::check_name(&entry.conversation).ok()?;
    Some(entry.conversation.clone())
}

fn read(path: &Path) -> Result<FileIndex, Problem> {
    let Some(text) = fs::read_text(path, LIMIT)? else { return Ok(FileIndex::default()) };
    FileIndex::parse(&text)
        .with_context(|| {
            format!("{} is no index of files; mend it or move it away", path.display())
        })
        .map_err(|error| Problem::failed(&error))
}

/// The path without links, as far as it exists.
pub(crate) fn absolute(env: &Env, path: &Path) -> Result<PathBuf, Problem> {
    let folder = env.folder.clone().map_err(Problem::usage)?;
    let path = folder.join(names::expand_home(path, env.home().as_deref()));
    if let Some(real) = fs::real_path(&path) {
        // What no tag could write is refused before a model is asked.
        read::open_regular(&real)
            .map_err(|error| Problem::usage(format!("--file-edit: {error}")))?;
        return Ok(real);
    }
    let parent = path.parent().and_then(fs::real_path).filter(|parent| parent.is_dir());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.join(name)),
        _ => Err(Problem::usage(format!(
            "--file-edit {}: there is no such file, and no such folder to create it in",
            path.display()
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
