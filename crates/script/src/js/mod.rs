//! JavaScript as values: what a script can call, and the lines between the process with the engine and its parent. Pure; the
//! engine itself is in the executable `nagent-js`, and what the calls do in [`crate::bridges`].

pub mod api;
pub mod wire;
pub mod worker_filter;
