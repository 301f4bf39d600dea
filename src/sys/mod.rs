//! The effects: the only place that opens files, starts processes, reads the environment or asks the time.
//!
//! Functions here return values, or errors that name what they were about and say what to do next. None
//! prints, none decides what the loop does, none parses a protocol or a format.
//!
//! - [`names`]: how file names are shown, which names are near a missing one
//! - [`read`], [`read_error`]: one regular file, whole or a range of lines, in bounded memory
//! - [`look`], [`grep`], [`look_error`]: list a folder, find files by pattern, search in them
//! - [`boundary`], [`opening`], [`denied`]: which files a tag may write, opening one of them, and why not
//! - [`replace`]: putting new content in place of the old
//! - [`git`]: what a repository says about the working folder
//! - [`context_files`]: the text that every conversation starts with

#![expect(
    clippy::disallowed_methods,
    reason = "the ban on effects is lifted here and nowhere else"
)]

pub mod boundary;
pub mod context_files;
pub mod denied;
pub mod git;
pub mod grep;
pub mod look;
pub mod look_error;
pub mod names;
pub mod opening;
pub mod read;
pub mod read_error;
pub mod replace;
