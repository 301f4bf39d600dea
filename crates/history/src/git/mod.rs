//! Git repositories, through libgit2, which starts no program that a repository's configuration names.
//!
//! Everything in a repository is untrusted: nothing in it is run, its claims about its own location are ignored, and
//! damage only gives a note. The resulting values are in [`crate`].

mod cache;
mod co_changes;
mod commit_text;
mod facts;
mod file_history;
mod own_folders;
mod renames;
mod repository;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod walk;
mod worker;

pub use co_changes::{LARGEST_COMMIT, MAX_COUNTED, MAX_LISTED};
pub use commit_text::read_commit_texts;
pub use facts::{GitFacts, find_toplevel, list_ignored, list_submodules, read_config, read_facts};
pub use file_history::{HistoryLookup, REPORT_TIME, START_TIME, read_history};
pub use own_folders::{git_folders, linked_repository, read_head_log};
