//! Shortens a conversation that outgrows the model's window: some results become pointers to files, a checkpoint
//! replaces old turns, and the rest stays unchanged.
//!
//! Pure: [`plan`] reads the text and decides; `drive::compaction` carries it out. A compacted conversation has, in this
//! order: the first context and its later changes, all prompts (long ones truncated), the children that can be
//! continued, a `system` block with the checkpoint ([`notice`]), and the newest turns unchanged.

pub mod notice;
pub mod plan;
pub mod token_estimate;
