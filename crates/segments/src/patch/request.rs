//! What a patch is asked for, what it needs, and what it reports.

use std::path::{Path, PathBuf};

use conversation::problem::Problem;
use sys::boundary::Boundary;
use sys::interrupt::Interrupts;
use sys::replace::KeepPrevious;

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct PatchOptions<'a> {
    /// The index, absolute or relative to the folder of the run.
    pub index: &'a Path,
    /// The boundary of the file that the patch goes to, instead of beside the index.
    pub patch: Option<&'a Boundary>,
    /// Write the patch file and nothing else.
    pub dry_run: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchReport {
    /// The segments differ from the source, and the patch says how.
    pub changed: bool,
    /// The source was replaced.
    pub applied: bool,
    /// The true path of the source.
    pub source_path: PathBuf,
    /// The true path of the index.
    pub index_path: PathBuf,
    /// The patch, if there is a change.
    pub patch_path: Option<PathBuf>,
    /// The hash of the source as it is now.
    pub source_sha256: String,
    /// The numbers of the edited segments, from 1.
    pub edited: Vec<usize>,
    /// Where the previous content of the source was kept.
    pub previous_path: Option<PathBuf>,
    /// What else the user should know.
    pub notes: Vec<String>,
}

/// What a patch needs from its caller.
pub struct PatchHooks<'a> {
    /// Asked between steps.
    pub interrupts: &'a Interrupts,
    /// Keeps the previous content of the source.
    pub keep: KeepPrevious<'a>,
}

impl PatchHooks<'_> {
    pub(super) fn check_interrupts(&self) -> Result<(), Problem> {
        self.interrupts.pending().map_or(Ok(()), |signal| Err(Problem::interrupted(signal)))
    }
}
