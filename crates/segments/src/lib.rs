//! Large files: cut into segments, put together again, summarized. The commands and the tags share it.
//!
//! Effects go through [`sys`]; [`code`] decides where to cut. Nothing here knows flags or tags.

pub mod content;
pub mod conversation_summary;
pub mod file_summary;
pub mod naming;
pub mod patch;
pub mod previous_split;
mod problems;
mod read_window;
pub mod split;
pub mod summary_cache;
pub mod summary_plan;
pub mod summary_queue;
