//! The options, the hooks and the report of a patch.

use std::path::{Path, PathBuf};

use conversation::problem::Problem;
use sys::interrupt::Interrupts;
use sys::replace::KeepPrevious;

/// The options of a patch.
#[derive(Debug, Clone, Copy)]
pub struct PatchOptions<'a> {
    /// The index, absolute or relative to the folder of the run.
    pub index: &'a Path,
    /// Write only the patch file.
    pub dry_run: bool,
}

/// The result of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchReport {
    /// Whether the segments differ from the source, as the patch shows.
    pub changed: bool,
    /// Whether the source was replaced.
    pub applied: bool,
    /// The true path of the source.
    pub source_path: PathBuf,
    /// The true path of the index.
    pub index_path: PathBuf,
    /// The patch, if there is a change.
    pub patch_path: Option<PathBuf>,
    /// The hash of the present source.
    pub source_sha256: String,
    /// The numbers of the edited segments, from 1.
    pub edited: Vec<usize>,
    /// The copy of the previous content of the source.
    pub previous_path: Option<PathBuf>,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The functions that a patch needs from its caller.
pub struct PatchHooks<'a> {
    /// Checked between steps.
    pub interrupts: &'a Interrupts,
    /// Stores the previous content of the source.
    pub keep: KeepPrevious<'a>,
}

impl PatchHooks<'_> {
    pub(super) fn check_interrupts(&self) -> Result<(), Problem> {
        self.interrupts.pending().map_or(Ok(()), |signal| Err(Problem::interrupted(signal)))
    }
}
