//! The flags of `nagent-each`.

use std::path::PathBuf;

use clap::ValueHint;

use super::inputs::Shard;
use crate::ops::setup::flags::parse_count;

/// The flags of `nagent-each` in addition to those of every run
#[derive(Debug, Clone, clap::Args)]
pub struct EachArgs {
    /// The inputs: files, or folders if the prompt has {}
    #[arg(index = 2, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["input_lines", "jsonl"])]
    pub files: Vec<PathBuf>,
    /// Take each line of stdin, or of this file, as an input
    #[arg(id = "input_lines", long = "lines", value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", conflicts_with = "jsonl", help_heading = "Inputs")]
    pub lines: Option<PathBuf>,
    /// Take each line of stdin, or of this file, as an input that is JSON
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Inputs")]
    pub jsonl: Option<PathBuf>,
    /// Work on each file in the file's own conversation, which may write it
    #[arg(long, help_heading = "Inputs")]
    pub own: bool,
    /// Take only the inputs of worker I of N, by their hashes; continues what this worker has done before
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = "Inputs")]
    pub shard: Option<Shard>,
    /// Continue the last call of this command: inputs that have an answer are not asked about again
    #[arg(long, help_heading = "Results")]
    pub resume: bool,
    /// Start no more inputs after N failures
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Limits")]
    pub max_failures: Option<u64>,
}
