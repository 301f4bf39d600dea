//! Files: their own conversations and memory, split, patched and summarized.

pub mod file_conversation;
pub mod file_memory;
pub mod patch;
pub mod split;
pub mod summaries;
pub mod summarize_conversation;
pub mod summarize_file;

use std::path::{Path, PathBuf};

use crate::ops::setup::find_root::find_root;
use ::sandbox::enforce::hidden_paths;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use sys::env::{Env, RUN};
use sys::fs;

/// Refuses a file, which is to be sent to a model or copied, that is a credential behind a link: a command may have made
/// the link. One that the user names by its own path is not refused.
pub(crate) fn refuse_hidden_link(path: &Path, env: &Env) -> Result<(), Problem> {
    let given = env.absolute_path(path)?;
    let Some(real) = fs::real_path(&given).filter(|real| *real != given) else { return Ok(()) };
    let (root, _) = find_root(None, env)?;
    let hidden = hidden_paths(root.path(), env.home_folder().as_deref(), env, &[]);
    if hidden.iter().any(|it| real.starts_with(&it.path) && !given.starts_with(&it.path)) {
        return Err(Problem::failed(format!(
            "{} leads through a link to {}, which is hidden from commands; name that if you mean it",
            quote_name(path),
            quote_name(&real)
        )));
    }
    Ok(())
}

/// Where a tool keeps the previous content of a file if it cannot in the outputs: in a command of a run, whose sandbox protects
/// these, the temp folder.
fn spare_outputs(env: &Env) -> Option<PathBuf> {
    env.get_os(RUN)?;
    let temp = env.get_os("TMPDIR").unwrap_or("/tmp".as_ref());
    Some(Path::new(temp).join("nagent-outputs"))
}
