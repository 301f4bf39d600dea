//! The flags of a session.

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use crate::ops::setup::completion;
use crate::ops::setup::flags::RunArgs;

/// Flags of a run that a session has no use for: it follows runs with --lines, and each prompt is a run of its own.
pub const WITHOUT: [&str; 6] = ["code", "lines", "progress", "show_request", "record", "clear"];

/// Type prompts in a terminal, one after another, in one conversation
///
/// Each prompt is a run of nagent in this shell's conversation, so nagent and an editor can be used alongside. Without a terminal each line of stdin is a prompt, and a \ at its end joins the next line.
#[derive(Debug, Clone, Parser)]
#[command(
    mut_args(|arg| if WITHOUT.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }),
    mut_arg("prompt", |arg| arg.help("The first prompt")),
    mut_arg("look", |arg| arg.hide(false)),
    mut_arg("read", |arg| arg.help("Show the model this file before the first prompt (can be repeated)")),
    mut_arg("json", |arg| arg.help("Print one JSON document of all prompts on stdin")),
    mut_arg("quiet", |arg| arg.help("Print only the answers: no banner, no progress")),
)]
pub struct SessionArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Use the conversation of this name instead of this shell's own [env: NAGENT_CONVERSATION]
    #[arg(long, short, value_name = "NAME", help_heading = "Conversation", add = ArgValueCompleter::new(completion::conversations))]
    pub conversation: Option<String>,
    /// Start a new, temporary conversation (removed by nagent-conversations prune)
    #[arg(long, short, conflicts_with_all = ["conversation", "continue_"], help_heading = "Conversation")]
    pub new: bool,
    /// Continue the conversation whose name starts with NAME; without NAME, the one last used in this folder
    #[arg(long = "continue", value_name = "NAME", num_args = 0..=1, conflicts_with = "conversation",
        help_heading = "Conversation", add = ArgValueCompleter::new(completion::conversations))]
    pub continue_: Option<Option<String>>,
    /// Read credentials from the NAME=VALUE lines of this file (can be repeated)
    #[arg(long, value_name = "FILE", help_heading = "Configuration", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Show an answer when it is complete
    #[arg(long)]
    pub no_stream: bool,
    /// Neither read nor write the history of prompts
    #[arg(long)]
    pub no_history: bool,
}
