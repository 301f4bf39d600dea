//! Becomes `nagent`, which acts as nagent-llm-text.

include!("../stub.rs");
