//! Files: their own conversations and memory, split, patched and summarized.

pub mod file_conversation;
pub mod file_memory;
pub mod patch;
pub mod split;
pub mod summaries;
pub mod summarize_conversation;
pub mod summarize_file;

use std::path::{Path, PathBuf};

use sys::env::{Env, RUN};

/// Where a tool keeps the previous content of a file if it cannot in the outputs: in a command of a run, whose sandbox protects
/// these, the temp folder.
fn spare_outputs(env: &Env) -> Option<PathBuf> {
    env.get_os(RUN)?;
    let temp = env.get_os("TMPDIR").unwrap_or("/tmp".as_ref());
    Some(Path::new(temp).join("nagent-outputs"))
}
