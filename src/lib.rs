//! nagent: one executable under many names that lets a language model work on files, with the conversation kept as a text file.
//!
//! `ARCHITECTURE.md` has the drawing, the modules, the rules and the files on disk. Start reading at [`turn`].

pub mod apply;
pub mod approve;
pub mod cli;
pub mod client;
pub mod cmd;
pub mod code;
pub mod compact;
pub mod config;
pub mod context;
pub mod decide;
pub mod diff;
pub mod drive;
pub mod exit;
pub mod format;
pub mod history;
pub mod js;
pub mod legacy;
pub mod limits;
pub mod llm;
pub mod memory;
pub mod model;
pub mod ops;
pub mod out;
pub mod overview;
pub mod policy;
pub mod problem;
pub mod prompt;
pub mod protocol;
pub mod redact;
pub mod sandbox;
pub mod segments;
pub mod sys;
pub mod thought;
pub mod turn;
pub mod view;
