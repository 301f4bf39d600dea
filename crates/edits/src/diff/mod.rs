//! Differences between texts: which lines changed ([`lines`]), and unified diffs, written
//! ([`unified`], [`file_diff`]) and read ([`parse`]). All of it is pure: bytes in, values or bytes out.

pub mod file_diff;
pub mod lines;
pub mod parse;
pub mod unified;
