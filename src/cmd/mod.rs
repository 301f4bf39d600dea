//! One file for each tool: its flags (whose doc comments are the help), or the name of the struct in [`crate::ops`] that has
//! them, its description, and how it calls [`crate::ops`].

use std::process::ExitCode;

use crate::cli::{self, Tool};
use sys::env;

pub mod conversations;
pub mod decide;
pub mod each;
pub mod file_edit;
pub mod file_patch;
pub mod file_split;
pub mod file_summarize;
pub mod js;
pub mod llm_text;
pub mod llm_upload;
pub mod mcp;
pub mod message;
pub mod nagent;
pub mod repl;
pub mod sandbox;
pub mod status;
pub mod think;
pub mod thought;

/// Makes the list of commands and `main` from the modules of the tools.
macro_rules! tools {
    ($($module:ident,)*) => {
        /// Every tool's command line, for documents and tests.
        pub fn list_commands() -> Vec<clap::Command> {
            vec![$(cli::command::<$module::Args>()),*]
        }

        /// Runs the tool by whose name this executable was called; under any other name it is `nagent`.
        pub fn main() -> ExitCode {
            match env::invoked_name().as_deref() {
                $(Some($module::Args::NAME) => cli::main::<$module::Args>(),)*
                // The names that the public runtime has.
                Some("think") => cli::main::<think::Args>(),
                Some("thought") => cli::main::<thought::Args>(),
                _ => cli::main::<crate::cmd::nagent::Args>(),
            }
        }
    };
}

tools! {
    nagent,
    llm_text,
    llm_upload,
    decide,
    file_edit,
    file_split,
    file_patch,
    file_summarize,
    repl,
    sandbox,
    conversations,
    each,
    message,
    status,
    js,
    mcp,
    think,
    thought,
}
