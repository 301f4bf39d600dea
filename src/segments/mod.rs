//! Large files: cut into segments, put together again, summarised. What the commands and the loop share.
//!
//! Effects go through [`crate::sys`], decisions are [`crate::code`]'s and [`crate::format`]'s. It prints nothing and knows
//! neither flags nor tags.
//!
//! [`split`] cuts a file, with [`naming`] for what its files are called, `earlier` for what stands in its folder already,
//! `tape` for what of the file is in memory, and `swap` for giving the new files their places; [`failure`] is why nothing was done.
//!
//! [`patch`] puts edited segments back.
//!
//! [`summarize`] asks for summaries of what [`content`] knows to be text, by the plan of [`summary_plan`], with [`asking`]
//! for who asks, `levels` for one summary out of many, and [`kept`] for what was paid for already. [`dialogue`] does the
//! same for a conversation.

pub mod asking;
pub mod content;
pub mod dialogue;
mod earlier;
pub mod failure;
pub mod kept;
mod levels;
pub mod naming;
pub mod patch;
pub mod split;
pub mod summarize;
pub mod summary_plan;
mod swap;
mod tape;
