//! The approvals that a user gave for good, `approvals.json` in nagent's root.

use anyhow::{Context, Result, ensure};

use super::atomic_file::AtomicFile;
use super::clock;
use super::fs;
use super::lock::{IndexWait, lock_index};
use super::root::Root;
use crate::approve::{Approval, Approvals};
use crate::limits;

/// Reads all approvals.
///
/// # Errors
/// The file is damaged. Nothing is approved then, and nothing is written.
pub fn load(root: &Root) -> Result<Approvals> {
    let path = root.approvals();
    let Some(text) = fs::read_text(&path, limits::FILE_INDEX)? else {
        return Ok(Approvals::default());
    };
    let damaged =
        || format!("{} cannot be read; fix it, or move it away to be asked again", path.display());
    let approvals: Approvals = serde_json::from_str(&text).with_context(damaged)?;
    ensure!(approvals.version == 1, "{} is of a newer nagent", path.display());
    Ok(approvals)
}

/// Adds an approval, dated now.
///
/// # Errors
/// The file could not be locked, read or written.
pub fn add(root: &Root, mut approval: Approval, wait: IndexWait<'_>) -> Result<()> {
    let _lock = lock_index(root, "approvals.json", wait)?;
    let mut approvals = load(root)?;
    approval.at = clock::now();
    approvals.entries.push(approval);
    let text = serde_json::to_string_pretty(&approvals).context("cannot format approvals")?;
    AtomicFile::new(&root.approvals()).write(format!("{text}\n").as_bytes())
}
