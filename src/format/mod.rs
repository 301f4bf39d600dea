//! Formats: text ↔ value, in pairs that undo each other. Pure: nothing here reads or writes a file.

pub mod edit;
