//! Detects the kind of a file's content, as far as a summary needs it: empty, blank, text in an encoding, or binary.

/// Number of bytes from which the content is detected.
pub const HEAD: u64 = 64 * 1024;

/// The kind of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// No bytes.
    Empty,
    /// Only white space.
    Blank,
    /// Not text.
    Binary,
    /// Text.
    Text(Encoding),
}

/// The encoding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, or something that is mostly UTF-8.
    Utf8,
    /// UTF-16, the lower byte first.
    Utf16Le,
    /// UTF-16, the higher byte first.
    Utf16Be,
}

/// Detects the kind of a file from its first [`HEAD`] bytes.
pub fn detect_content(head: &[u8]) -> ContentKind {
    let encoding = match head {
        // The mark of UTF-32, which is not decoded: it has NUL bytes, which make it binary.
        [0xff, 0xfe, 0, 0, ..] => Encoding::Utf8,
        [0xff, 0xfe, ..] => Encoding::Utf16Le,
        [0xfe, 0xff, ..] => Encoding::Utf16Be,
        _ => Encoding::Utf8,
    };
    // A PDF may begin with much text.
    if !is_text(head, encoding) || head.starts_with(b"%PDF-") {
        return ContentKind::Binary;
    }
    match decode_text(head, encoding) {
        _ if head.is_empty() => ContentKind::Empty,
        text if text.chars().all(char::is_whitespace) => ContentKind::Blank,
        _ => ContentKind::Text(encoding),
    }
}

/// Whether bytes have no NUL, and at most a third of them is invalid: Latin-1 passes, compressed data does not.
fn is_text(bytes: &[u8], encoding: Encoding) -> bool {
    if encoding != Encoding::Utf8 {
        return true;
    }
    let wrong: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    !bytes.contains(&0) && wrong <= bytes.len() / 3 + 3
}

/// Decodes bytes, without a byte order mark; invalid bytes become U+FFFD.
pub(crate) fn decode_text(bytes: &[u8], encoding: Encoding) -> String {
    let units = |read: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    let text = match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16Le => units(u16::from_le_bytes),
        Encoding::Utf16Be => units(u16::from_be_bytes),
    };
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let check = |bytes: &[u8], expect: ContentKind| {
            assert_eq!(detect_content(bytes), expect, "{}", bytes.escape_ascii());
        };
        let text = ContentKind::Text(Encoding::Utf8);
        check(b"", ContentKind::Empty);
        check(b" \r\n\t", ContentKind::Blank);
        check(b"fn main() {}\n", text);
        check("\u{feff}größer".as_bytes(), text);
        check(b"gr\xf6\xdfer und so fort", text);
        check(b"MZ is a word, and so is ID3", text);
        check(b"a\0b", ContentKind::Binary);
        check(&[0x91, 0xb2, 0xc3, 0xf4].repeat(50), ContentKind::Binary);
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ContentKind::Binary);
        check(b"%PDF-1.7\nplain", ContentKind::Binary);
        check(b"\x7fELF\x02\x01\x01\0", ContentKind::Binary);
        check(b"PK\x03\x04\x14\0\0\0", ContentKind::Binary);
        check(b"\xff\xfe\0\0a\0\0\0", ContentKind::Binary);
        check(b"\xff\xfea\0", ContentKind::Text(Encoding::Utf16Le));
        check(b"\xfe\xff\0a", ContentKind::Text(Encoding::Utf16Be));
        check(b"\xff\xfe \0\n\0", ContentKind::Blank);
        check(b"\xff\xfe", ContentKind::Blank);
    }

    #[test]
    fn decoding() {
        let check = |bytes: &[u8], encoding, text: &str| {
            assert_eq!(decode_text(bytes, encoding), text);
        };
        check("\u{feff}ö".as_bytes(), Encoding::Utf8, "ö");
        check(b"a\xffb", Encoding::Utf8, "a\u{fffd}b");
        let le: Vec<u8> = "\u{feff}a🙂".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&le, Encoding::Utf16Le, "a🙂");
        check(&le[2..6], Encoding::Utf16Le, "a\u{fffd}");
        let be: Vec<u8> = "a🙂".encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&be, Encoding::Utf16Be, "a🙂");
        check(&be[..3], Encoding::Utf16Be, "a");
    }
}
