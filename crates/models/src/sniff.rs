//! Detects the format of a file, by its first bytes, office files by their names.
//!
//! Binary files of other formats are refused here, before anything is sent. Nothing is read from disk. The marks are those of
//! `file(1)`. Office files are archives like others, so that there the name counts.

use super::attachment::FileFormat;

/// The marks of archives that office files are: zip, and Microsoft's compound files.
const ARCHIVES: [&[u8]; 2] = [b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"];

/// Detects the format of a file, or returns the reason why it is not sent, with advice. `name` is without folders.
pub fn detect_format(name: &str, bytes: &[u8]) -> Result<FileFormat, String> {
    if bytes.is_empty() {
        return Err(format!("{name} is empty, there is nothing to send"));
    }
    let named = FileFormat::from_name(name);
    let found = if ARCHIVES.iter().any(|mark| bytes.starts_with(mark)) {
        named.filter(|format| format.family() == "office")
    } else {
        let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
        detect_by_mark(bytes).or(is_text.then_some(FileFormat::Text))
    };
    found.ok_or_else(|| {
        format!(
            "{name} is an archive, a program, audio, video or another binary file, and is not sent; send a PNG, JPEG, GIF or \
             WebP picture, a PDF, an office file without a password, or UTF-8 text (iconv -t UTF-8 converts other text)"
        )
    })
}

/// The format that the first bytes of a picture or a PDF name; sixteen are enough.
pub fn detect_by_mark(bytes: &[u8]) -> Option<FileFormat> {
    let at =
        |from: usize, mark: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(mark));
    Some(match () {
        () if at(0, b"\x89PNG\r\n\x1a\n") => FileFormat::Png,
        () if at(0, b"\xff\xd8\xff") => FileFormat::Jpeg,
        () if at(0, b"GIF87a") || at(0, b"GIF89a") => FileFormat::Gif,
        () if at(0, b"RIFF") && at(8, b"WEBP") => FileFormat::Webp,
        () if at(0, b"%PDF-") || at(0, b"\xef\xbb\xbf%PDF-") => FileFormat::Pdf,
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(name: &str, bytes: &[u8], expect: FileFormat) {
        assert_eq!(detect_format(name, bytes), Ok(expect), "{name}");
    }

    fn fails(name: &str, bytes: &[u8], expect: &str) {
        let error = detect_format(name, bytes).unwrap_err();
        assert!(error.contains(expect) && error.contains(name), "{error}");
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";
    const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1..";

    #[test]
    fn formats_by_content_and_of_archives_by_name() {
        check("a.png", PNG, FileFormat::Png);
        check("a", PNG, FileFormat::Png);
        check("a.txt", PNG, FileFormat::Png);
        check("a.png", b"\xff\xd8\xff\xe0\0", FileFormat::Jpeg);
        check("a.gif", b"GIF89a..", FileFormat::Gif);
        check("a.webp", b"RIFF\0\0\0\0WEBPVP8 ", FileFormat::Webp);
        check("a.pdf", b"%PDF-1.7\n%\xe2\xe3", FileFormat::Pdf);
        check("a.xlsx", b"PK\x03\x04..", FileFormat::Xlsx);
        check("a.ODT", b"PK\x03\x04..", FileFormat::Odt);
        check("a.doc", OLE, FileFormat::Doc);
        check("a.rs", b"fn main() {}", FileFormat::Text);
        check("run", b"#!/bin/sh\n", FileFormat::Text);
        check("a.txt", "grüße".as_bytes(), FileFormat::Text);
        check("a.png", b"<html>not found</html>", FileFormat::Text);
        check("a.docx", b"plain", FileFormat::Text);
    }

    #[test]
    fn refused_with_what_to_do_instead() {
        fails("a.txt", b"", "is empty");
        for (name, bytes) in [
            ("a.zip", &b"PK\x03\x04.."[..]),
            ("a.pdf", b"PK\x03\x04.."),
            ("empty.zip", b"PK\x05\x06\0\0"),
            ("a.tar.gz", b"\x1f\x8b\x08\0"),
            ("a.out", b"\x7fELF\x02\x01\xff"),
            ("a.mp4", b"\0\0\0\x18ftypisom"),
            ("a.bmp", b"BM\x10\0\0\0\0\0\0\0"),
            ("a.msi", OLE),
            ("a.txt", b"\xff\xfeh\0i\0"),
            ("a.txt", b"caf\xe9"),
            ("a.png", b"\x89PNX\0"),
        ] {
            fails(name, bytes, "and is not sent; send a PNG");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_and_names_are_taken_or_refused(name in "\\PC{0,12}(\\.[a-z]{1,4})?", bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(found) = detect_format(&name, &bytes) {
                prop_assert!(!found.is_text() || std::str::from_utf8(&bytes).is_ok());
            }
        }
    }
}
