//! Scripts in plain language: what their file says, what the model reads at the start of a run, and what became of
//! `memory.js`. Pure.

pub mod context;
pub mod script;
