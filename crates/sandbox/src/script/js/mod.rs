//! JavaScript as values: the functions that a script can call, and the protocol between the process with the engine and
//! its parent. Pure; the engine itself is in the executable `nagent-js`, and the functions are implemented in
//! [`crate::script::bridges`].

pub mod api;
pub mod wire;
pub(crate) mod worker_filter;
