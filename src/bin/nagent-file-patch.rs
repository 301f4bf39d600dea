//! Becomes `nagent`, which acts as nagent-file-patch.

include!("../stub.rs");
