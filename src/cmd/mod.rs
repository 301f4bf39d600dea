//! One file for each tool: its flags (whose doc comments are the help), its description, and how it calls [`crate::ops`].

use std::process::ExitCode;

use crate::cli;
use crate::sys::env;

pub mod conversations;
pub mod decide;
pub mod each;
pub mod file_apply;
pub mod file_edit;
pub mod file_patch;
pub mod file_split;
pub mod file_summarize;
pub mod js;
pub mod llm_text;
pub mod llm_upload;
pub mod message;
pub mod nagent;
pub mod repl;
pub mod sandbox;
pub mod status;
pub mod think;
pub mod thought;

/// Makes the list of commands and `main` from one table of the tools.
macro_rules! tools {
    ($($name:literal => $args:ty,)*) => {
        /// Every tool's command line, for documents and tests.
        pub fn list_commands() -> Vec<clap::Command> {
            vec![$(cli::command::<$args>()),*]
        }

        /// Runs the tool by whose name this executable was called; under any other name it is `nagent`.
        pub fn main() -> ExitCode {
            match env::invoked_name().as_deref() {
                $(Some($name) => cli::main::<$args>(),)*
                // The names that the public runtime has.
                Some("think") => cli::main::<think::Args>(),
                Some("thought") => cli::main::<thought::Args>(),
                _ => cli::main::<nagent::Args>(),
            }
        }
    };
}

tools! {
    "nagent" => nagent::Args,
    "nagent-llm-text" => llm_text::Args,
    "nagent-llm-upload" => llm_upload::Args,
    "nagent-decide" => decide::Args,
    "nagent-file-edit" => file_edit::Args,
    "nagent-file-split" => file_split::Args,
    "nagent-file-patch" => file_patch::Args,
    "nagent-file-apply" => file_apply::Args,
    "nagent-file-summarize" => file_summarize::Args,
    "nagent-repl" => repl::Args,
    "nagent-sandbox" => sandbox::Args,
    "nagent-conversations" => conversations::Args,
    "nagent-each" => each::Args,
    "nagent-message" => message::Args,
    "nagent-status" => status::Args,
    "nagent-js" => js::Args,
    "nagent-think" => think::Args,
    "nagent-thought" => thought::Args,
}
