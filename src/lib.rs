//! nagent: placeholder map.

pub mod exit;
pub mod llm;
pub mod sys;
