//! Edits of texts: search/replace blocks and diffs, applied where they certainly belong, and differences between texts.
//!
//! Bytes in, bytes or values out. It reads and writes no file, and it does not decide who may.

pub mod apply;
pub mod diff;
