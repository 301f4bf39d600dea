//! Becomes `nagent`, which acts as nagent-message.

include!("../stub.rs");
