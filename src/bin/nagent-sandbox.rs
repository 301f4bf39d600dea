//! Becomes `nagent`, which acts as nagent-sandbox.

include!("../stub.rs");
