//! nagent: placeholder map.

pub mod apply;
pub mod exit;
pub mod format;
pub mod llm;
pub mod protocol;
pub mod sys;
