//! Removes what is no longer needed: old conversations in the trash, those of `--new`, those that others started, archives
//! of empty ones, and stored files that neither a conversation nor the log of changes names, so that undo still works.
//!
//! A plan is made first, from all conversations that stay; then each item is removed on its own, after another check.
//! So a run at the same time loses nothing, and after a kill the next call removes the rest.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Catalog, Conversation};
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::hex::SHORT_ID;
use conversation::format::numbers;
use conversation::limits::{self, MIN_UNUSED};
use conversation::problem::Problem;
use sys::removal::{self, Stored};
use sys::{clock, fs, lock, root};
use view::overview::{ConversationKind, find_ids, is_id};

/// The categories of things that are removed.
const PARTS: [(&str, &str); 6] = [
    ("trash", "conversations that were removed"),
    ("new", "conversations of runs with --new"),
    ("children", "conversations that others started"),
    ("empty", "empty archives, leftovers of removed conversations"),
    ("stored", "outputs, working trees and segments that nothing needs"),
    ("caches", "summaries and histories"),
];

/// Something to remove.
struct Removable {
    /// Its category.
    part: &'static str,
    stored: Stored,
    /// The conversation, where it is one that has a lock.
    name: Option<String>,
}

/// Removes what is older than `older` and not needed, or with `dry_run` reports what would be removed.
pub fn prune(catalog: &Catalog, older: Duration, dry_run: bool) -> Result<Report, Problem> {
    let now = clock::since_epoch();
    let cutoff = now.saturating_sub(older);
    let unused = cutoff.min(now.saturating_sub(MIN_UNUSED));
    let items = make_plan(catalog, cutoff, unused)?;
    let (mut text, mut parts, mut total, mut errors) = (String::new(), Vec::new(), 0, Vec::new());
    for (part, what) in PARTS {
        let (mut count, mut bytes, mut kept) = (0_u64, 0_u64, 0_u64);
        for item in items.iter().filter(|item| item.part == part) {
            match if dry_run { Ok(true) } else { remove(catalog, item, unused) } {
                Ok(true) => (count, bytes) = (count + 1, bytes + item.stored.bytes),
                Ok(false) => kept += 1,
                Err(error) => errors.push(format!("{}: {error:#}", item.stored.path.display())),
            }
        }
        let in_use = if kept > 0 { format!(" ({kept} in use)") } else { String::new() };
        let size = numbers::format_bytes(bytes);
        text.push_str(&format!("{part:<10} {count:>7} {size:>9}  {what}{in_use}\n"));
        parts.push(json!({ "part": part, "count": count, "bytes": bytes, "in_use": kept }));
        total += bytes;
    }
    let verb = if dry_run { "would be removed" } else { "removed" };
    text.push_str(&format!(
        "{} {verb}; kept: newer than {}, or stored within the last hour\n",
        numbers::format_bytes(total),
        numbers::format_age(older)
    ));
    let mut report = Report::wrapped(&text)
        .with("dry_run", dry_run)
        .with("older_seconds", older.as_secs())
        .with("parts", parts.into_iter().collect::<Value>())
        .with("bytes", total);
    if let Some(first) = errors.first() {
        report.exit = Exit::Failed;
        report.error = Some(format!("{} could not be removed, the first: {first}", errors.len()));
    }
    Ok(report)
}

/// Everything that is old enough and that nothing needs.
fn make_plan(
    catalog: &Catalog,
    cutoff: Duration,
    unused: Duration,
) -> Result<Vec<Removable>, Problem> {
    let root = &catalog.root;
    let log = fs::read_text(&root.change_log_path(), limits::CHANGE_LOG)?.unwrap_or_default();
    let mut ids: HashSet<Vec<u8>> = find_ids(log.as_bytes());
    let mut items = Vec::new();
    let read = |one: Conversation| {
        let part = match one.kind {
            ConversationKind::New => Some("new"),
            ConversationKind::Archive if one.overview.is_empty && one.trouble.is_none() => {
                Some("empty")
            }
            _ => one.started_by().map(|_| "children"),
        };
        let part = part.filter(|_| one.modified <= cutoff);
        let ids = if part.is_some() { HashSet::new() } else { find_ids(one.text.as_bytes()) };
        Some((part, one.name, one.path, ids))
    };
    for (part, name, path, found) in catalog.read_all(&read)? {
        ids.extend(found);
        if let (Some(part), Some(stored)) = (part, Stored::read_metadata(&path)) {
            items.push(Removable { part, stored, name: Some(name) });
        }
    }
    let mut trash = removal::list_stored(&root.trash_folder());
    trash.retain(|stored| stored.changed <= cutoff);
    for (path, found) in
        catalog.read_trash(&|one| Some((one.path.clone(), find_ids(one.text.as_bytes()))))?
    {
        if !trash.iter().any(|stored| stored.path == path) {
            ids.extend(found);
        }
    }
    items.extend(trash.into_iter().map(|stored| Removable { part: "trash", stored, name: None }));
    for stored in removal::list_stored(&root.conversations()) {
        // The note of a killed run may have no conversation either; only the lock says whether the run is over.
        let note = stored.file_name().strip_suffix(".run").map(str::to_owned);
        let of = note.as_deref().or(stored.file_name().strip_suffix(".invalid"));
        let is_orphan = of.is_some_and(|name| {
            root::check_name(name).is_ok() && !fs::exists(&root.conversation(name))
        });
        if is_orphan && stored.modified <= cutoff {
            items.push(Removable { part: "empty", stored, name: note });
        }
    }
    let is_unnamed = |stored: &Stored| {
        stored.is_leftover()
            || id_of(stored.file_name()).is_some_and(|id| {
                !ids.contains(id.as_bytes()) && !ids.contains(&id.as_bytes()[..SHORT_ID])
            })
    };
    let splits = removal::list_stored(&root.all_splits());
    let splits = splits.iter().flat_map(|folder| removal::list_stored(&folder.path));
    let named = removal::list_stored(&root.outputs_folder()).into_iter().chain(splits);
    let mut stored: Vec<Stored> = named.filter(is_unnamed).collect();
    stored.extend(removal::list_stored(&root.snapshots_folder()));
    let mut caches = removal::list_files_below(&root.summaries_folder());
    caches.extend(removal::list_files_below(&root.history_folder()));
    for (part, all) in [("stored", stored), ("caches", caches)] {
        let old = all.into_iter().filter(|stored| stored.modified <= unused);
        items.extend(old.map(|stored| Removable { part, stored, name: None }));
    }
    Ok(items)
}

/// Removes an item, unless it is in use now. Returns whether it is gone.
fn remove(catalog: &Catalog, item: &Removable, unused: Duration) -> anyhow::Result<bool> {
    let path = &item.stored.path;
    let Some(name) = &item.name else {
        if ["stored", "caches"].contains(&item.part) {
            return Ok(removal::remove_unused(&item.stored, unused)?);
        }
        removal::remove(path)?;
        return Ok(true);
    };
    let Ok(_lock) = lock::try_lock_conversation(&catalog.root, name) else { return Ok(false) };
    // Taking the lock has written the note again.
    let is_as_planned = if *path == catalog.root.run_note(name) {
        !fs::exists(&catalog.root.conversation(name))
    } else {
        Stored::read_metadata(path).is_some_and(|stored| stored.modified == item.stored.modified)
    };
    if !is_as_planned {
        return Ok(false);
    }
    removal::remove(path)?;
    for beside in catalog.root.companion_folders(name) {
        removal::remove(&beside)?;
    }
    Ok(true)
}

/// The id that a conversation names a stored file by: its hash, or the UUID or the digits at the end of its name.
fn id_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".txt").unwrap_or(name);
    let mut ends = [64, 36, 32, SHORT_ID]
        .into_iter()
        .filter_map(|digits| name.get(name.len().checked_sub(digits)?..));
    ends.find(|id| is_id(id))
}
