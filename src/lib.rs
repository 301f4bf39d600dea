//! nagent: one executable under many names that lets a language model work on files, with the conversation kept as a text file.
//!
//! `ARCHITECTURE.md` has the drawing, the modules, the rules and the files on disk. Start reading at [`conversation::turn`].

pub mod cli;
pub mod client;
pub mod cmd;
pub mod config;
pub mod drive;
pub mod mcp;
pub mod ops;
pub mod out;
