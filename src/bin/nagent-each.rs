//! Becomes `nagent`, which acts as nagent-each.

include!("../stub.rs");
