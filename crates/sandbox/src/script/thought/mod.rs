//! Scripts in plain language: the format of their file, the first context of a run, and the outcome of `memory.js`.
//! Pure.

pub mod context;
pub mod script;
