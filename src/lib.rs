//! nagent: placeholder map.

pub mod apply;
pub mod cli;
pub mod cmd;
pub mod config;
pub mod context;
pub mod drive;
pub mod exit;
pub mod format;
pub mod llm;
pub mod out;
pub mod prompt;
pub mod protocol;
pub mod sys;
pub mod turn;
