//! One file or folder a tool: its arguments (whose doc comment is the help), its description, its run.
//!
//! A command wires: it reads settings, opens what it needs, hands it to [`crate::drive`] or [`crate::sys`], and returns
//! a [`crate::out::Report`]. It does not print results itself.

pub mod file_patch;
pub mod llm_text;
pub mod nagent;
pub mod settings;

/// The names of all executables of the toolkit.
pub const TOOLS: [&str; 3] = ["nagent", "nagent-file-patch", "nagent-llm-text"];

/// Every tool's command line, for documents and tests.
pub fn all() -> Vec<clap::Command> {
    use clap::CommandFactory;
    vec![nagent::Args::command(), file_patch::Args::command(), llm_text::Args::command()]
}
