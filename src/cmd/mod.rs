//! One file or folder a tool: its arguments (whose doc comment is the help), its description, its run.
//!
//! A command wires: it reads settings, opens what it needs, hands it to [`crate::drive`] or [`crate::sys`], and returns
//! a [`crate::out::Report`]. It does not print results itself.

pub mod file_apply;
pub mod file_edit;
pub mod file_memory;
pub mod file_patch;
pub mod file_split;
pub mod file_summarize;
pub mod limit_args;
pub mod llm_text;
pub mod llm_upload;
pub mod model_args;
pub mod nagent;
pub mod progress_line;
pub mod sandbox;
pub mod settings;
pub mod summaries;
pub mod wall_args;

/// The names of all executables of the toolkit.
pub const TOOLS: [&str; 9] = [
    "nagent",
    "nagent-llm-text",
    "nagent-llm-upload",
    "nagent-file-edit",
    "nagent-file-split",
    "nagent-file-patch",
    "nagent-file-apply",
    "nagent-file-summarize",
    "nagent-sandbox",
];

/// Every tool's command line, for documents and tests.
pub fn all() -> Vec<clap::Command> {
    use clap::CommandFactory;
    vec![
        nagent::Args::command(),
        llm_text::Args::command(),
        llm_upload::Args::command(),
        file_edit::Args::command(),
        file_split::Args::command(),
        file_patch::Args::command(),
        file_apply::Args::command(),
        file_summarize::Args::command(),
        sandbox::Args::command(),
    ]
}
