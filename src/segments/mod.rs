//! Large files: cut into segments, put together again, summarised. What the commands and the loop share.
//!
//! Effects go through [`crate::sys`], decisions are [`crate::code`]'s and [`crate::format`]'s. It prints nothing and knows
//! neither flags nor tags.
//!
//! [`split`] cuts a file, with [`naming`] for what its files are called, `earlier` for what stands in its folder already,
//! and `tape` for what of the file is in memory; [`failure`] is why nothing was done.
//!
//! [`summarize`] makes requests for summaries out of a file, by the rules of [`summary_plan`] and by what [`content`] says
//! of its bytes; [`asking`] has them answered side by side, and [`kept`] is where summaries stay.

pub mod asking;
pub mod content;
mod earlier;
pub mod failure;
pub mod kept;
pub mod naming;
pub mod split;
pub mod summarize;
pub mod summary_plan;
mod tape;
