//! Renames conversations, and removes them into the trash.

use serde_json::json;

use super::Catalog;
use crate::ops::manage;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::sys::interrupt::Interrupts;
use crate::sys::lock::{self, IndexWait, Lock};
use crate::sys::root;
use crate::sys::{change_log, file_index, fs, removal};

/// Takes the lock of a conversation, without waiting.
pub(super) fn lock_unused(catalog: &Catalog, name: &str) -> Result<Lock, Problem> {
    Ok(lock::try_lock_conversation(&catalog.root, name)?)
}

/// Gives a conversation another name, in the indexes too.
pub fn rename_conversation(catalog: &Catalog, from: &str, to: &str) -> Result<Report, Problem> {
    let from = catalog.find(Some(from))?;
    root::check_name(to).map_err(Problem::usage)?;
    let root = &catalog.root;
    let (old, new) = (root.conversation(&from), root.conversation(to));
    let taken = || {
        Problem::failed(format!(
            "conversation {to} exists already; choose another name, or remove it first"
        ))
    };
    if fs::is_there(&new)? {
        return Err(taken());
    }
    let _locks = (lock_unused(catalog, &from)?, lock_unused(catalog, to)?);
    let interrupts = Interrupts::install()?;
    let tell = |what: &str| out::line(&format!("nagent-conversations: {what}"));
    let wait = IndexWait { interrupts: &interrupts, tell: &tell };
    // The indexes first: where this is killed in between, the same command completes it.
    file_index::rename_conversation(root, &from, to, wait)?;
    manage::rename_saved(root, &from, to, wait)?;
    fs::rename_file(&old, &new)?;
    change_log::record_rename(root, &from, to)?;
    let (invalid, moved) = (root.invalid(&from), root.invalid(to));
    if fs::exists(&invalid) {
        fs::rename_file(&invalid, &moved)?;
    }
    let path = new.display().to_string();
    Ok(Report::done(format!("{from} is now {to}\n"))
        .with("name", to)
        .with("previous_name", from)
        .with("path", path))
}

/// Moves conversations into the trash. All names are looked up before anything is moved.
pub fn remove_conversations(catalog: &Catalog, names: &[String]) -> Result<Report, Problem> {
    let mut found = Vec::new();
    for name in names {
        let name = catalog.find(Some(name))?;
        if !found.contains(&name) {
            found.push(name);
        }
    }
    let (mut text, mut removed) = (String::new(), Vec::new());
    for name in found {
        let moved = lock_unused(catalog, &name).and_then(|_lock| {
            removal::move_to_trash(&catalog.root, &name).map_err(|error| {
                Problem::failed(format!(
                    "{error:#}; where the disk is full, nagent-conversations prune makes room, and rm removes it for good"
                ))
            })
        });
        match moved {
            Ok(path) => {
                let path = path.display().to_string();
                text.push_str(&format!("{name} removed; it is {path} until it is pruned\n"));
                removed.push(json!({ "name": name, "trash_path": path }));
            }
            Err(problem) => {
                return Ok(Report { text, ..Report::from(problem) }.with("removed", removed));
            }
        }
    }
    Ok(Report::done(text).with("removed", removed))
}
