//! Becomes `nagent`, which acts as nagent-decide.

include!("../stub.rs");
