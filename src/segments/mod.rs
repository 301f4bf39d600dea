//! Large files: cut into segments, put together again, summarized. The commands and the tags share it.
//!
//! Effects go through [`crate::sys`]; where to cut is decided by [`crate::code`]. It prints nothing and knows neither flags
//! nor tags.
//!
//! - [`split`] cuts a file; [`naming`] names its files, `previous_split` examines what is in the folder already,
//!   `read_window` holds the part of the file that is in memory
//! - [`patch`] puts edited segments back
//! - [`file_summary`] and [`conversation_summary`] make the requests for summaries: [`content`] detects what is text,
//!   [`summary_plan`] decides sizes and words, [`summary_queue`] sends the requests and joins the replies, [`summary_cache`]
//!   keeps them

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
