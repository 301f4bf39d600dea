//! Files: their own conversations and memory, split, patched, edited and summarized.

pub mod apply_edits;
pub mod file_conversation;
pub mod file_memory;
pub mod patch;
pub mod split;
pub mod summaries;
pub mod summarize_conversation;
pub mod summarize_file;
