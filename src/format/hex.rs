//! Bytes as hexadecimal digits: how hashes and ids are written everywhere. Pure.

use std::fmt::Write as _;

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
