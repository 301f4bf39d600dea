//! The effects: the only place that opens files, starts processes, connects, reads the environment or asks the time.
//!
//! Functions here return values, or errors that say what to do next. They do not print, do not decide what the loop does, and
//! do not parse protocols. Processes are Linux's:
//! descendants are found through procfs, pidfds and the child subreaper.
//!
//! - [`clock`], [`mod@env`], [`interrupt`], [`terminal`], [`stdin`]: time, environment, signals, the user's side
//! - [`fs`], [`root`], [`lock`], [`conversation_file`]: the toolkit's own files, and the conversation among them
//! - [`atomic_file`], [`file_stamp`]: replacing a file in one step; whether a file is still the same
//! - [`file_index`]: which conversation belongs to a file of the user's
//! - [`names`], [`read`]: one regular file, whole or a range of lines, in bounded memory
//! - [`read_range`]: a range of a file's bytes
//! - [`list_dir`], [`grep`]: list a folder, find files by pattern, search in them
//! - [`boundary`], [`opening`], [`file_error`], [`replace`]: which files a tag may write, and writing one
//! - [`staged_folder`]: a folder that is built beside its place and put there in one step
//! - [`folder`]: files in one open folder, by plain names: a split
//! - [`process`], [`sandbox`], [`http`]: programs, the sandbox around them, servers
//! - [`git`], [`tools`], [`context_files`]: what the first context tells

#![expect(
    clippy::disallowed_methods,
    reason = "the ban on effects is lifted here and nowhere else"
)]

pub mod atomic_file;
pub mod boundary;
pub mod clock;
pub mod context_files;
pub mod conversation_file;
mod durable;
pub mod env;
pub mod file_error;
pub mod file_index;
pub mod file_stamp;
pub mod folder;
pub mod fs;
pub mod git;
pub mod grep;
pub mod http;
mod ignore_rules;
pub mod interrupt;
pub mod list_dir;
pub mod lock;
pub mod names;
pub mod opening;
pub mod process;
pub mod read;
pub mod read_range;
pub mod replace;
pub mod root;
pub mod sandbox;
pub mod staged_folder;
pub mod stdin;
pub mod temp_files;
pub mod terminal;
pub mod tools;
