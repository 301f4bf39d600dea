//! Removes what is no longer needed: old conversations in the trash, those of `--new`, children whose parent is gone,
//! archives of empty ones, and stored files that neither a conversation nor the log of changes names, so that undo
//! still works.
//!
//! A plan is made first, from all conversations that stay; then each item is removed on its own, after another check.
//! So a run at the same time loses nothing, and after a kill the next call removes the rest.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::lock_unused;
use super::{Catalog, Conversation};
use crate::out::Report;
use crate::overview::{ConversationKind, find_ids, is_id};
use conversation::format::hex::SHORT_ID;
use conversation::format::numbers;
use conversation::limits::{self, MIN_UNUSED};
use conversation::memory::changes::{self, FileEvent};
use conversation::problem::Problem;
use sys::removal::{self, Stored};
use sys::{clock, fs, root};

/// A category of things that are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PruneCategory {
    Trash,
    New,
    Children,
    Empty,
    Outputs,
    Snapshots,
    Splits,
    Summaries,
    History,
}

impl PruneCategory {
    const ALL: [Self; 9] = [
        Self::Trash,
        Self::New,
        Self::Children,
        Self::Empty,
        Self::Outputs,
        Self::Snapshots,
        Self::Splits,
        Self::Summaries,
        Self::History,
    ];

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Trash => ("trash", "conversations that were removed"),
            Self::New => ("new", "conversations of runs with --new"),
            Self::Children => ("children", "child conversations whose parent is gone"),
            Self::Empty => ("empty", "empty archives, leftovers of removed conversations"),
            Self::Outputs => ("outputs", "stored contents that are no longer referenced"),
            Self::Snapshots => ("snapshots", "working trees before and after commands"),
            Self::Splits => ("splits", "segments that are no longer referenced"),
            Self::Summaries => ("summaries", "cached summaries"),
            Self::History => ("history", "cached histories"),
        }
    }
}

/// Something to remove.
struct Removable {
    part: PruneCategory,
    stored: Stored,
    /// The conversation, where it is one that has a lock.
    name: Option<String>,
}

/// Removes what is older than `older` and not needed, or with `dry_run` reports what would be removed.
pub fn prune(catalog: &Catalog, older: Duration, dry_run: bool) -> Result<Report, Problem> {
    let now = clock::since_epoch();
    let cutoff = now.saturating_sub(older);
    let items = make_plan(catalog, now, cutoff)?;
    let (mut text, mut parts, mut total, mut errors) = (String::new(), Vec::new(), 0, Vec::new());
    for part in PruneCategory::ALL {
        let (mut count, mut bytes, mut kept) = (0_u64, 0_u64, 0_u64);
        for item in items.iter().filter(|item| item.part == part) {
            match if dry_run { Ok(true) } else { remove(catalog, item, now, cutoff) } {
                Ok(true) => (count, bytes) = (count + 1, bytes + item.stored.bytes),
                Ok(false) => kept += 1,
                Err(error) => errors.push(format!("{}: {error:#}", item.stored.path.display())),
            }
        }
        let (name, what) = part.words();
        let in_use = if kept > 0 { format!(" ({kept} in use)") } else { String::new() };
        text.push_str(&format!(
            "{name:<10} {count:>7} {:>9}  {what}{in_use}\n",
            numbers::format_bytes(bytes)
        ));
        parts.push(json!({ "part": name, "count": count, "bytes": bytes, "in_use": kept }));
        total += bytes;
    }
    let verb = if dry_run { "would be removed" } else { "removed" };
    let newer = match older {
        _ if older >= MIN_UNUSED => format!("newer than {}", numbers::format_age(older)),
        Duration::ZERO => "stored within the last hour".to_owned(),
        _ => format!("newer than {}, or stored within the last hour", numbers::format_age(older)),
    };
    let total_bytes = numbers::format_bytes(total);
    text.push_str(&format!("{total_bytes} {verb}; kept: {newer}\n"));
    let mut report = Report::done(text)
        .with("dry_run", dry_run)
        .with("older_seconds", older.as_secs())
        .with("parts", parts.into_iter().collect::<Value>())
        .with("bytes", total);
    if let Some(first) = errors.first() {
        report.exit = conversation::exit::Exit::Failed;
        report.error = Some(format!("{} could not be removed, the first: {first}", errors.len()));
    }
    Ok(report)
}

/// Everything that is old enough and that nothing needs.
fn make_plan(
    catalog: &Catalog,
    now: Duration,
    cutoff: Duration,
) -> Result<Vec<Removable>, Problem> {
    let root = &catalog.root;
    let log = fs::read_text(&root.change_log_path(), limits::CHANGE_LOG)?.unwrap_or_default();
    let mut ids: HashSet<Vec<u8>> = find_ids(log.as_bytes());
    let mut items = plan_conversations(catalog, cutoff, &log, &mut ids)?;
    let is_old = |stored: &Stored| stored.changed <= cutoff;
    let trash = removal::list_stored(&root.trash_folder()).into_iter().filter(is_old);
    items.extend(trash.map(|stored| Removable { part: PruneCategory::Trash, stored, name: None }));
    let removed: HashSet<PathBuf> = items.iter().map(|item| item.stored.path.clone()).collect();
    for (path, found) in
        catalog.read_trash(&|one| Some((one.path.clone(), find_ids(one.text.as_bytes()))))?
    {
        if !removed.contains(&path) {
            ids.extend(found);
        }
    }
    for stored in removal::list_stored(&root.conversations()) {
        // The note of a killed run may have no conversation either; only the lock says whether the run is over.
        let note = stored.file_name().strip_suffix(".run").map(str::to_owned);
        let of = note.as_deref().or(stored.file_name().strip_suffix(".invalid"));
        let is_orphan = of.is_some_and(|name| {
            root::check_name(name).is_ok() && !fs::exists(&root.conversation(name))
        });
        if is_orphan && stored.modified <= cutoff {
            items.push(Removable { part: PruneCategory::Empty, stored, name: note });
        }
    }
    let unused = cutoff.min(now.saturating_sub(MIN_UNUSED));
    let is_unused = |stored: &Stored| {
        stored.modified <= unused
            && (stored.is_leftover()
                || id_of(stored.file_name()).is_some_and(|id| {
                    !ids.contains(id.as_bytes()) && !ids.contains(&id.as_bytes()[..SHORT_ID])
                }))
    };
    let splits = removal::list_stored(&root.all_splits());
    let splits = splits.iter().flat_map(|folder| removal::list_stored(&folder.path));
    let outputs = removal::list_stored(&root.outputs_folder()).into_iter();
    for (part, all) in [
        (PruneCategory::Outputs, outputs.filter(is_unused).collect::<Vec<_>>()),
        (PruneCategory::Snapshots, removal::list_stored(&root.snapshots_folder())),
        (PruneCategory::Splits, splits.filter(is_unused).collect()),
        (PruneCategory::Summaries, removal::list_files_below(&root.summaries_folder())),
        (PruneCategory::History, removal::list_files_below(&root.history_folder())),
    ] {
        let old = all.into_iter().filter(|stored| stored.modified <= unused);
        items.extend(old.map(|stored| Removable { part, stored, name: None }));
    }
    Ok(items)
}

/// A conversation, as far as the plan needs it.
struct Planned {
    /// The category in which it is removed, if it is.
    part: Option<PruneCategory>,
    name: String,
    path: PathBuf,
    /// Where it is removed only with the conversation that started it: that one's name.
    parent: Option<String>,
    /// The ids of the stored files that it uses.
    ids: HashSet<Vec<u8>>,
}

/// The conversations that are removed. The ids that all others name are added to `ids`.
fn plan_conversations(
    catalog: &Catalog,
    cutoff: Duration,
    log: &str,
    ids: &mut HashSet<Vec<u8>>,
) -> Result<Vec<Removable>, Problem> {
    let read = |one: Conversation| {
        let parent = one.started_by().map(str::to_owned);
        let part = match one.kind {
            ConversationKind::New => Some(PruneCategory::New),
            ConversationKind::Archive if one.overview.is_empty && one.trouble.is_none() => {
                Some(PruneCategory::Empty)
            }
            _ => parent.as_ref().map(|_| PruneCategory::Children),
        };
        let part = part.filter(|_| one.modified <= cutoff);
        let is_certain = part.is_some_and(|part| part != PruneCategory::Children);
        let ids = if is_certain { HashSet::new() } else { find_ids(one.text.as_bytes()) };
        Some(Planned { part, name: one.name, path: one.path, parent, ids })
    };
    let (mut gone, mut stays): (Vec<Planned>, Vec<Planned>) = catalog
        .read_all(&read)?
        .into_iter()
        .partition(|one| one.part.is_some_and(|part| part != PruneCategory::Children));
    // Children of children too.
    loop {
        let names = find_kept_names(&stays, log);
        let is_orphan = |one: &mut Planned| {
            one.part.is_some() && one.parent.as_ref().is_some_and(|name| !names.contains(name))
        };
        let orphans: Vec<Planned> = stays.extract_if(.., is_orphan).collect();
        if orphans.is_empty() {
            break;
        }
        gone.extend(orphans);
    }
    ids.extend(stays.into_iter().flat_map(|one| one.ids));
    let item = |one: Planned| {
        let (part, stored) = (one.part?, Stored::read_metadata(&one.path)?);
        Some(Removable { part, stored, name: Some(one.name) })
    };
    Ok(gone.into_iter().filter_map(item).collect())
}

/// The names of conversations, former ones too: one that was archived or renamed is still there.
fn find_kept_names(stays: &[Planned], log: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    for Planned { name, .. } in stays {
        let digits = match ConversationKind::from_name(name) {
            ConversationKind::Archive => 36,
            ConversationKind::Fork => 32,
            _ => 0,
        };
        if digits > 0 {
            names.insert(name[..name.len() - digits - 1].to_owned());
        }
        names.insert(name.clone());
    }
    for entry in changes::parse(log).into_iter().rev() {
        if let FileEvent::Rename { to } = &entry.event
            && names.contains(to)
        {
            names.insert(entry.conversation);
        }
    }
    names
}

/// Removes an item, unless it is in use now. Returns whether it is gone.
fn remove(
    catalog: &Catalog,
    item: &Removable,
    now: Duration,
    cutoff: Duration,
) -> anyhow::Result<bool> {
    let path = &item.stored.path;
    match (item.part, &item.name) {
        (PruneCategory::New | PruneCategory::Children | PruneCategory::Empty, Some(name)) => {
            let Ok(_lock) = lock_unused(catalog, name) else { return Ok(false) };
            // Taking the lock has written the note again.
            let is_note = *path == catalog.root.run_note(name);
            let is_as_planned = if is_note {
                !fs::exists(&catalog.root.conversation(name))
            } else {
                Stored::read_metadata(path)
                    .is_some_and(|stored| stored.modified == item.stored.modified)
            };
            if !is_as_planned {
                return Ok(false);
            }
            removal::remove(path)?;
            for beside in catalog.root.companion_folders(name) {
                removal::remove(&beside)?;
            }
        }
        (PruneCategory::Outputs | PruneCategory::Snapshots | PruneCategory::Splits, _) => {
            return Ok(removal::remove_unused(
                &item.stored,
                cutoff.min(now.saturating_sub(MIN_UNUSED)),
            )?);
        }
        _ => removal::remove(path)?,
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
