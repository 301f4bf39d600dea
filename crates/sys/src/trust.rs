//! The instruction files and skills that the user trusts: `trusted.json` in nagent's root, a path and the hash of the text that
//! was shown, or of all files in a skill's folder.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::interrupt::Interrupts;
use super::root::Root;
use super::{clock, entry_file};

const FILE: &str = "trusted.json";

/// A text that the user has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The file or folder, by its true path.
    pub path: String,
    /// The SHA-256 of its text or files.
    pub sha256: String,
    /// The time of the confirmation.
    pub at: String,
}

/// Reads the confirmed texts.
///
/// # Errors
/// The file is damaged. Nothing is trusted then, and nothing is written.
pub fn load_trusted(root: &Root) -> Result<Vec<Trusted>> {
    entry_file::load_entries(root, FILE)
}

/// Records that these texts are trusted, in place of earlier texts of these files; a file without a hash is no longer
/// trusted.
///
/// # Errors
/// The file could not be locked, read or written.
pub fn record_trusted(
    root: &Root,
    texts: &[(&Path, Option<&str>)],
    interrupts: &Interrupts,
) -> Result<()> {
    entry_file::update_entries(root, FILE, interrupts, |entries: &mut Vec<Trusted>| {
        for (path, sha256) in texts {
            let path = path.display().to_string();
            entries.retain(|entry| entry.path != path);
            let (sha256, at) = (sha256.map(str::to_owned), clock::now());
            entries.extend(sha256.map(|sha256| Trusted { path, sha256, at }));
        }
    })
}
