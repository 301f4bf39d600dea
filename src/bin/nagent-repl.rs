//! Becomes `nagent`, which acts as nagent-repl.

include!("../stub.rs");
