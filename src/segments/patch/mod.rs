//! Puts edited segments back into their source.
//!
//! The steps on disk, each atomic and durable before the next one begins:
//!
//! ```text
//! 1. write the patch file
//! 2. replace the source (the caller's write boundary decides whether it may be written)
//! 3. rewrite segments that lost their line ending, or that a merge has changed
//! 4. replace {source}.orig
//! 5. replace index.json
//! ```
//! No record of the progress is needed. A run that finds a source equal to the joined segments does steps 3 to 5 again,
//! and a merge that is repeated gives the same text. So after a kill, the same command is the remedy.

mod edits;
mod open;
mod outcome;
mod request;
mod run;
mod segment_diff;
mod write;

pub use self::request::{KeepPrevious, PatchHooks, PatchOptions, PatchReport};
pub use self::run::{find_source, patch};
