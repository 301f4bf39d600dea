//! Parsers and writers of text formats. Pure; they know nothing about files, models or the meaning of tags.

pub mod attributes;
pub mod code_block;
pub mod columns;
pub mod edit;
pub mod file;
pub mod file_index;
pub mod harmless;
pub mod hex;
pub mod index;
pub mod nearest;
pub mod numbers;
pub mod terminal_text;
