//! Git repositories, through libgit2, which starts no program that a repository's configuration names.
//!
//! Everything in a repository is untrusted: nothing in it is run, what it says of its own location is ignored, and damage is
//! only a note. [`crate::history`] has the values that come out.
//!
//! - `facts`: the top of a working tree, its remotes and its configuration
//! - [`location`]: where in which repository a file is, whatever folder the clone is in
//! - `file_history`: the history of a file, with `walk`, `tree_diff`, `current_path` and `cache`
//! - `commit_text`: what a commit says, and what it did to a file
//! - `safety_check` and `worker`: what keeps a hostile repository from blocking nagent

mod cache;
mod commit_text;
mod current_path;
mod facts;
mod file_history;
pub mod location;
mod repository;
mod safety_check;
#[cfg(test)]
mod tests;
mod tree_diff;
mod walk;
mod worker;

pub use commit_text::read_commit_texts;
pub use facts::{GitFacts, find_toplevel, read_config, read_facts};
pub use file_history::{HistoryLookup, ReadingTime, read_history};
pub use safety_check::git_folders;
