//! Becomes `nagent`, which acts as nagent-thought.

include!("../stub.rs");
