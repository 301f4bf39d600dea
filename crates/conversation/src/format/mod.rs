//! Text formats as pairs: text to value and back. Pure; knows no file, no model, no tag's meaning.

pub mod attributes;
pub mod code_block;
pub mod columns;
pub mod edit;
pub mod file;
pub mod file_index;
pub mod harmless;
pub mod hex;
pub mod index;
pub mod json_members;
pub mod nearest;
pub mod numbers;
