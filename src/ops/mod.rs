//! What the commands do. Functions here take the flags of [`crate::cmd`] and settings and return a [`crate::out::Report`];
//! [`crate::drive`], [`crate::segments`] and [`crate::sys`] do the work.

pub mod call;
mod change_report;
mod child_flags;
mod connection;
pub mod conversation_name;
pub mod conversations;
pub mod edit_conversation;
pub mod file_conversation;
pub mod file_memory;
pub mod flags;
pub mod lists;
pub mod manage;
pub mod many_files;
pub mod one_shot;
mod opening;
mod progress;
pub mod progress_line;
pub mod prompt_input;
pub mod run;
mod sandbox;
pub mod settings;
pub mod status;
pub mod summaries;
pub mod summarize_conversation;
pub mod undo;
