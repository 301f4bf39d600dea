//! Performs the effects of the loop, [`conversation::turn::event::Effect`], and hands back events.
//!
//! It prints nothing: what a user may want to see goes out as a [`progress_event::ProgressEvent`].

mod actions;
pub mod approval;
pub mod asker;
mod change_result;
mod check_output;
mod child_names;
pub mod children;
pub mod command_changes;
pub mod commands;
pub mod compaction;
pub mod file_changes;
pub mod file_guard;
mod freshness;
pub mod inbox;
mod large_files;
mod mask_check;
mod messages;
pub mod nagent_child;
pub mod progress_event;
pub mod redaction;
pub mod result_block;
mod run;
pub mod run_context;
mod run_status;
pub mod runner;
pub mod script_host;
mod scripts;
mod shown_files;
pub mod truncate;

pub use child_names::was_started_by;
pub use commands::ShellRules;
pub use progress_event::{OutputNow, ProgressEvent};
pub use result_block::{format_block, random_word};
pub use run::{describe_compaction, fork_block, run};
pub use runner::Runner;
