//! Effects: files, locks, processes, the terminal, the network, the environment, the clock.
//!
//! Functions here return values, or errors that say what to do next. They print nothing and parse no protocol.
//!
//! ```
//! assert_eq!(sys::names::shell_word("two words"), "'two words'");
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "the ban on effects is lifted here and nowhere else"
)]

pub mod atomic_file;
pub mod boundary;
pub mod change_log;
pub mod clock;
pub mod context_files;
pub mod conversation_file;
pub mod courier;
pub mod durable;
pub mod entry_file;
pub mod env;
pub mod file_error;
pub mod file_stamp;
pub mod folder;
pub mod foreground;
pub mod fs;
pub mod grep;
pub mod http;
pub mod input;
pub mod interrupt;
pub mod journal;
pub mod key_command;
pub mod legacy;
pub mod line;
pub mod list_dir;
pub mod lock;
pub mod messages;
pub mod names;
pub mod opening;
pub mod output_file;
pub mod pager;
pub mod process;
pub mod read;
pub mod ready;
pub mod removal;
pub mod replace;
pub mod root;
pub mod run_note;
pub mod skills;
pub mod staged_folder;
pub mod stdin;
pub mod temp_files;
pub mod terminal;
pub mod tools;
pub mod trust;
pub mod tty;
pub mod walk;
