//! Large files: cut into segments, joined again, summarized. The commands and the tags share this crate.
//!
//! Effects go through [`sys`]; [`code`] decides where to cut. Nothing here knows flags or tags, and nothing prints.
//!
//! ```
//! let naming = segments::naming::Naming::new("big.py");
//! assert_eq!(naming.segment_name(1), "big-0001.py");
//! ```

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
