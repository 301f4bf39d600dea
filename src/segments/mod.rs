//! Large files: cut into segments, put together again, summarised. What the commands and the loop share.
//!
//! Effects go through [`crate::sys`], decisions are [`crate::code`]'s and [`crate::format`]'s. It prints nothing and knows
//! neither flags nor tags.

pub mod difference;
pub mod merge;
pub mod patch;
