//! Detects what bytes are, as far as a summary needs it: nothing, blanks, text in an encoding, or binary.

/// The content is detected from this many bytes.
pub const HEAD: u64 = 64 * 1024;

/// What a file or a part of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// No bytes.
    Empty,
    /// Nothing but white space.
    Blank,
    /// Not text; with its description for people.
    Binary(&'static str),
    /// Text.
    Text(Encoding),
}

/// How text is written as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, or something that is mostly UTF-8.
    Utf8,
    /// UTF-16, the lower byte first.
    Utf16Le,
    /// UTF-16, the higher byte first.
    Utf16Be,
}

impl Encoding {
    /// Returns a note for the user, if it is not UTF-8.
    pub fn describe(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::Utf16Le => Some("UTF-16, little-endian: decoded for the model"),
            Self::Utf16Be => Some("UTF-16, big-endian: decoded for the model"),
        }
    }
}

/// Offsets, the bytes there, and what they mean.
const MAGIC: [(usize, &[u8], &str); 33] = [
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF87a", "GIF image"),
    (0, b"GIF89a", "GIF image"),
    (8, b"WEBPVP8", "WebP image"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"\0\0\x01\0", "icon"),
    (0, b"%PDF-", "PDF document"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old office document (OLE)"),
    (0, b"PK\x03\x04", "ZIP archive (docx, xlsx, pptx, jar and others are such)"),
    (0, b"PK\x05\x06", "empty ZIP archive"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\0", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (0, b"Rar!\x1a\x07", "RAR archive"),
    (257, b"ustar", "tar archive"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (0, b"\xca\xfe\xba\xbe", "Java class or universal Mach-O program"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"ID3", "MP3 sound"),
    (0, b"OggS", "Ogg sound or film"),
    (0, b"fLaC", "FLAC sound"),
    (8, b"WAVE", "WAVE sound"),
    (4, b"ftyp", "MP4 film or its kin"),
    (0, b"wOF2", "web font"),
    (0, b"\0\x01\0\0", "TrueType font"),
    (0, b"!<arch>\n", "archive of object files"),
];

/// Detects what a file is from its first [`HEAD`] bytes.
pub fn detect_content(head: &[u8]) -> ContentKind {
    let encoding = match head {
        [0xff, 0xfe, 0, 0, ..] => {
            return ContentKind::Binary("text in UTF-32, which is not decoded");
        }
        [0xff, 0xfe, ..] => Encoding::Utf16Le,
        [0xfe, 0xff, ..] => Encoding::Utf16Be,
        _ => Encoding::Utf8,
    };
    let magic = MAGIC
        .iter()
        .find(|(at, magic, _)| head.get(*at..).is_some_and(|bytes| bytes.starts_with(magic)));
    match magic {
        // A PDF may begin with much text; a text may begin with the letters of the other marks.
        Some((_, magic, name)) if *magic == b"%PDF-" || !is_text(head, encoding) => {
            ContentKind::Binary(name)
        }
        _ => detect_part(head, encoding),
    }
}

/// Detects what a part of a text file is.
pub fn detect_part(bytes: &[u8], encoding: Encoding) -> ContentKind {
    if bytes.is_empty() {
        return ContentKind::Empty;
    }
    if !is_text(bytes, encoding) {
        return ContentKind::Binary("data of an unknown kind");
    }
    let text = ContentKind::Text(encoding);
    let is_blank = match encoding {
        Encoding::Utf8 => bytes.iter().all(u8::is_ascii_whitespace),
        _ => decode_text(bytes, encoding).text.chars().all(char::is_whitespace),
    };
    if is_blank { ContentKind::Blank } else { text }
}

/// Whether bytes have no NUL, and at most a third of them is invalid: Latin-1 passes, compressed data does not.
fn is_text(bytes: &[u8], encoding: Encoding) -> bool {
    if encoding != Encoding::Utf8 {
        return true;
    }
    let wrong: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    !bytes.contains(&0) && wrong <= bytes.len() / 3 + 3
}

/// Decoded text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedText {
    /// The text, without a byte order mark. Invalid bytes became U+FFFD.
    pub text: String,
    /// Whether any bytes were invalid.
    pub lossy: bool,
}

/// Decodes bytes.
pub fn decode_text(bytes: &[u8], encoding: Encoding) -> DecodedText {
    let unit = |pair: &[u8]| {
        let pair = [pair[0], pair[1]];
        if encoding == Encoding::Utf16Le {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        }
    };
    let mut lossy = false;
    let mut text = if encoding == Encoding::Utf8 {
        let text = String::from_utf8_lossy(bytes);
        lossy = matches!(text, std::borrow::Cow::Owned(_));
        text.into_owned()
    } else {
        let mut text = String::with_capacity(bytes.len() / 2);
        for c in char::decode_utf16(bytes.chunks_exact(2).map(unit)) {
            text.push(c.unwrap_or_else(|_| {
                lossy = true;
                char::REPLACEMENT_CHARACTER
            }));
        }
        if bytes.len() % 2 == 1 {
            lossy = true;
            text.push(char::REPLACEMENT_CHARACTER);
        }
        text
    };
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    DecodedText { text, lossy }
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
        check(b"a\0b", ContentKind::Binary("data of an unknown kind"));
        check(&[0x91, 0xb2, 0xc3, 0xf4].repeat(50), ContentKind::Binary("data of an unknown kind"));
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ContentKind::Binary("PNG image"));
        check(b"%PDF-1.7\nplain", ContentKind::Binary("PDF document"));
        check(b"\x7fELF\x02\x01\x01\0", ContentKind::Binary("ELF program or library"));
        check(b"PK\x03\x04\x14\0\0\0", ContentKind::Binary(MAGIC[10].2));
        check(b"\xff\xfe\0\0a\0\0\0", ContentKind::Binary("text in UTF-32, which is not decoded"));
        check(b"\xff\xfea\0", ContentKind::Text(Encoding::Utf16Le));
        check(b"\xfe\xff\0a", ContentKind::Text(Encoding::Utf16Be));
        check(b"\xff\xfe \0\n\0", ContentKind::Blank);
        check(b"\xff\xfe", ContentKind::Blank);
    }

    #[test]
    fn decoding() {
        let check = |bytes: &[u8], encoding, text: &str, lossy| {
            assert_eq!(decode_text(bytes, encoding), DecodedText { text: text.to_owned(), lossy });
        };
        check("\u{feff}ö".as_bytes(), Encoding::Utf8, "ö", false);
        check(b"a\xffb", Encoding::Utf8, "a\u{fffd}b", true);
        let le: Vec<u8> = "\u{feff}a🙂".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&le, Encoding::Utf16Le, "a🙂", false);
        check(&le[2..6], Encoding::Utf16Le, "a\u{fffd}", true);
        let be: Vec<u8> = "a🙂".encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&be, Encoding::Utf16Be, "a🙂", false);
        check(&be[..3], Encoding::Utf16Be, "a\u{fffd}", true);
    }
}
