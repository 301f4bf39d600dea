//! Scripts in JavaScript that can do nothing unasked: what a script may call, what its policy allows, and the process that runs
//! it.
//!
//! The engine itself is in the executable `nagent-js`; a model is asked elsewhere.

#![expect(clippy::disallowed_methods, reason = "what a script is allowed to do has effects")]

pub mod bridges;
pub mod fetch;
mod guarded;
pub mod js;
pub mod js_worker;
pub mod permission;
pub mod policy;
pub mod thought;
pub mod thoughts;
