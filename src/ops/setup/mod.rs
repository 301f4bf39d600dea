//! Flags and config become settings.

pub mod completion;
pub mod connection;
pub mod find_root;
pub mod flags;
pub mod settings;
