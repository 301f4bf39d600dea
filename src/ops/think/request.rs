//! What is asked of a run of a script in plain language.

use crate::ops::flags::{LimitArgs, ModelArgs};

/// What is asked of a run.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct ThinkRequest {
    /// The script's path or address.
    pub script: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Do not run memory.js.
    pub fresh: bool,
    /// Run memory.js though the script has changed.
    pub keep_memory: bool,
    /// Show what would be done.
    pub dry_run: bool,
    /// Take a script from the web as it is.
    pub yes: bool,
    /// Print no progress.
    pub quiet: bool,
    /// Print one JSON document.
    pub json: bool,
    /// The time of each script, in seconds.
    pub timeout: Option<f64>,
    /// How long to wait for another run, in seconds.
    pub lock_timeout: f64,
    /// The model.
    pub model: ModelArgs,
    /// The limits of the loop.
    pub limits: LimitArgs,
}
