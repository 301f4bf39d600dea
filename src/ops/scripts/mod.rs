//! Scripts in plain language: `nagent-think` runs one, `nagent-thought` looks after them.

pub mod think;
pub mod thoughts;
