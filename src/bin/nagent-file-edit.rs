//! Becomes `nagent`, which acts as nagent-file-edit.

include!("../stub.rs");
