//! Becomes `nagent`, which acts as nagent-file-summarize.

include!("../stub.rs");
