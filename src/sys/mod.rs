//! The effects: the only place that opens files, starts processes, reads the environment or asks the time.
//!
//! Functions here return values, or errors that name what they were about and say what to do next. None
//! prints, none decides what the loop does, none parses a protocol or a format.
//!
//! - [`names`]: how file names are shown, which names are near a missing one
//! - [`read`]: one regular file, whole or a range of lines, in bounded memory
//! - [`look`]: list a folder, find files by pattern, search in them
//! - [`boundary`]: which files a tag may write, and opening one of them
//! - [`replace`]: putting new content in place of the old
//! - [`git`]: what a repository says about the working folder
//! - [`context_files`]: the text that every conversation starts with

#![expect(
    clippy::disallowed_methods,
    reason = "the ban on effects is lifted here and nowhere else"
)]

pub mod boundary;
pub mod context_files;
pub mod git;
pub mod look;
pub mod names;
pub mod read;
pub mod replace;
