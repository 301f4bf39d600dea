//! Becomes `nagent`, which acts as nagent-think.

include!("../stub.rs");
