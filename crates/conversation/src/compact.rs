//! How a conversation that outgrows the model's window becomes shorter: which results become pointers to files, what a checkpoint
//! stands for, and what stays as it is.
//!
//! Pure: [`plan`] reads the text and says what to do; `drive::compaction` does it. A compacted conversation has, in this
//! order: the first context and what has changed of it, all prompts (long ones by their beginning), the children that can be
//! continued, a `system` block with the checkpoint ([`notice`]), and the newest turns as they were.

pub mod notice;
pub mod plan;
pub mod token_estimate;
