//! Bytes as hexadecimal digits, the form of all hashes and ids. Pure.

/// The number of digits of a hash or a UUID in the name of a stored file, where these are enough.
pub const SHORT_ID: usize = 12;

/// Encodes bytes as lower-case hexadecimal digits.
pub fn encode_hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_is_two_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let expect: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(super::encode_hex(&bytes), expect);
    }
}
