//! Forms of files from older tools that are still read, and keys and blocks without a meaning, as texts and values.
//! `sys::legacy` knows where such files are and how they are converted.
//!
//! Each can be deleted once nobody has such files any more. Three cases are a line each where they occur: the parser of
//! conversations knows the blocks of hooks, and accepts a result whose body is on the line of its opening tag; results
//! of children may have no name.

use serde_json::{Map, Value};

pub mod file_index; // forms of the index of files

/// Config keys that no longer have an effect. They are reported, not refused.
const CONFIG_KEYS: [&str; 6] = [
    "checkpoint_interval_minutes",
    "checkpoint_max_new_kb",
    "rebuild_at_kb",
    "hook_per_run",
    "hook_per_file_edit",
    "hook_per_response",
];

/// Removes settings without effect from an object of the config. Returns notes for the user.
pub fn remove_old_settings(object: &mut Map<String, Value>) -> Vec<String> {
    let was_set = |key: &&str| object.remove(*key).is_some_and(|value| value != "");
    let note = |key| format!("\"{key}\" is a key of an older tool and has no effect");
    CONFIG_KEYS.into_iter().filter(was_set).map(note).collect()
}
