//! Becomes `nagent`, which acts as nagent-conversations.

include!("../stub.rs");
