//! Becomes `nagent`, which acts as nagent-llm-upload.

include!("../stub.rs");
