//! The flags of a run of a script in plain language.

use clap::Args;

use crate::ops::setup::flags::{LimitArgs, ModelArgs, parse_amount, parse_seconds};

/// The flags of a script's run
#[derive(Debug, Clone, Default, Args)]
pub struct ThinkRequest {
    /// The script's path.
    #[arg(skip)]
    pub script: String,
    /// Its arguments.
    #[arg(skip)]
    pub args: Vec<String>,
    /// Do not run memory.js; let the model do the task
    #[arg(long)]
    pub fresh: bool,
    /// End each script after S seconds; questions do not count [default: 30 without a terminal, none with one]
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Wait up to S seconds for another run of this script
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = parse_amount)]
    pub lock_timeout: f64,
    /// Print one JSON document instead of the script's output
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no answer on stderr
    #[arg(long, short)]
    pub quiet: bool,
    /// Flags about the model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The limits of the loop.
    #[command(flatten)]
    pub limits: LimitArgs,
}
