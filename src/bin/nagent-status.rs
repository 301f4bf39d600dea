//! Becomes `nagent`, which acts as nagent-status.

include!("../stub.rs");
