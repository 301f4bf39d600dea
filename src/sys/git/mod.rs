//! Git repositories, through libgit2, which starts no program that a repository's configuration names.
//!
//! A repository is data that anybody may have written: nothing in it is run, what it says of its own place is not
//! believed, and no damage in it is more than a note. What its history means is [`crate::history`]'s.
//!
//! - `facts`: the top of a working tree and its remotes
//! - [`place`]: where in which repository a file is, whatever folder the clone is in
//! - `gate`: what its own folder must be before libgit2 opens it
//! - `history`: a file's history, kept from look to look
//! - `patch`: what one commit did to a file, and what it says of itself

mod changes;
mod facts;
mod gate;
mod history;
mod mailmap;
mod objects;
mod patch;
pub mod place;
mod renames;
mod store;
#[cfg(test)]
mod tests;
mod today;
mod walk;

pub use facts::{GitFacts, facts, settings, toplevel};
pub use gate::folders;
pub use history::{Look, history};
pub use patch::{message, patch};
