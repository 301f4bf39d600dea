//! Becomes `nagent`, which acts as nagent-file-split.

include!("../stub.rs");
