//! What older tools left behind: names of files that are still read or taken over, flags and config keys without a meaning.
//!
//! Each can be deleted once nobody has such files any more.

use anyhow::Result;

use crate::sys::fs;
use crate::sys::root::Root;
use std::path::PathBuf;

/// Keys of the config that nothing acts on any more. They are reported, not refused.
pub const CONFIG_KEYS: [&str; 6] = [
    "checkpoint_interval_minutes",
    "checkpoint_max_new_kb",
    "rebuild_at_kb",
    "hook_per_run",
    "hook_per_file_edit",
    "hook_per_response",
];

/// Where a conversation of this name lay: in the root itself. `None` where there is none, or one at the present place.
pub fn old_conversation(root: &Root, name: &str) -> Option<PathBuf> {
    let old = root.path().join(name);
    (fs::file_size(&old).is_some() && !fs::exists(&root.conversation(name))).then_some(old)
}

/// Moves a conversation to the present place, and returns where it was.
pub fn move_old_conversation(root: &Root, name: &str) -> Result<Option<PathBuf>> {
    let Some(old) = old_conversation(root, name) else { return Ok(None) };
    root.prepare()?;
    fs::rename_file(&old, &root.conversation(name))?;
    Ok(Some(old))
}

/// Indexes of saved conversations, one of each process that had saved some.
pub fn saved_indexes(root: &Root) -> Result<Vec<PathBuf>> {
    let folder = root.conversations();
    let names = fs::list_names(&folder)?.into_iter();
    let names = names.filter(|name| name.starts_with("index-saved-conversations-"));
    Ok(names.map(|name| folder.join(name)).collect())
}
