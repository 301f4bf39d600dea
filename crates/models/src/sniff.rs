//! Detects the format of a file, by its first bytes, then by its name.
//!
//! The content takes precedence over the name, and a note says so. Binary files of other formats are refused here, before
//! anything is sent. Nothing is read from disk.
//!
//! The marks are those of `file(1)`. Modern office files are zip archives: the names of their members tell which kind
//! they are, and if these are not found, the file's name does. The crate `infer` neither detects text nor gives advice.

use super::attachment::{FileFormat, ending};

/// The mark of Microsoft's compound files: doc, xls and ppt, and much else.
const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// The detected format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedFormat {
    /// The format.
    pub format: FileFormat,
    /// A note if its name disagrees.
    pub note: Option<String>,
}

/// Detects the format of a file, or returns the reason why it is not sent, with advice. `name` is without folders.
pub fn detect_format(name: &str, bytes: &[u8]) -> Result<DetectedFormat, String> {
    if bytes.is_empty() {
        return Err(format!("{name} is empty, there is nothing to send"));
    }
    let ending = ending(name);
    let named = FileFormat::from_name(name);
    let is_old =
        |kind: &FileFormat| matches!(kind, FileFormat::Doc | FileFormat::Xls | FileFormat::Ppt);
    let has_pdf_mark = || bytes[..bytes.len().min(1024)].windows(5).any(|five| five == b"%PDF-");
    let kind = match detect_by_mark(bytes) {
        Some(kind) => Some(kind),
        // Readers look for the mark in the first kilobyte: some programs write their own lines before it.
        None if named == Some(FileFormat::Pdf) && has_pdf_mark() => named,
        None if bytes.starts_with(b"PK\x03\x04") => {
            let of_name = named.filter(|kind| kind.family() == "office" && !is_old(kind));
            detect_zip_format(bytes).filter(|_| ending.as_deref() != Some("zip")).or(of_name)
        }
        None if bytes.starts_with(OLE) => named.filter(is_old),
        None => std::str::from_utf8(bytes)
            .is_ok_and(|text| !text.contains('\0'))
            .then_some(FileFormat::Text),
    };
    let kind = kind.ok_or_else(|| {
        format!(
            "{name} is an archive, a program, audio, video or another binary file, and is not sent; send an image, a PDF, an \
             office file without a password, or UTF-8 text (iconv -t UTF-8 converts other text)"
        )
    })?;
    // A text may have any name that does not belong to another format.
    let agrees = named == Some(kind) || (named.is_none() && (kind.is_text() || ending.is_none()));
    let note = ending.filter(|_| !agrees).map(|ending| {
        let media_type = kind.media_type();
        format!("{name} is named .{ending} but is {media_type}; it is sent as {media_type}")
    });
    Ok(DetectedFormat { format: kind, note })
}

/// The format that the first bytes of a picture or a PDF name; sixteen are enough.
pub fn detect_by_mark(bytes: &[u8]) -> Option<FileFormat> {
    let at =
        |from: usize, mark: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(mark));
    let brand = bytes.get(8..12).filter(|_| at(4, b"ftyp"));
    Some(match () {
        () if at(0, b"\x89PNG\r\n\x1a\n") => FileFormat::Png,
        () if at(0, b"\xff\xd8\xff") => FileFormat::Jpeg,
        () if at(0, b"GIF87a") || at(0, b"GIF89a") => FileFormat::Gif,
        () if at(0, b"RIFF") && at(8, b"WEBP") => FileFormat::Webp,
        () if at(0, b"II*\0") || at(0, b"MM\0*") => FileFormat::Tiff,
        // A text could also begin with the two letters, but not with the four reserved zeros after them.
        () if at(0, b"BM") && at(6, &[0; 4]) => FileFormat::Bmp,
        () if at(0, b"%PDF-") || at(0, b"\xef\xbb\xbf%PDF-") => FileFormat::Pdf,
        () if matches!(brand, Some(b"heic" | b"heix" | b"hevc" | b"hevx" | b"heim" | b"heis")) => {
            FileFormat::Heic
        }
        () if matches!(brand, Some(b"mif1" | b"msf1")) => FileFormat::Heif,
        () => return None,
    })
}

/// The office format of a zip archive, by its members: OpenDocument has its media type first, uncompressed; Office Open
/// XML has `[Content_Types].xml` first in nearly all files, and a folder for each format.
fn detect_zip_format(bytes: &[u8]) -> Option<FileFormat> {
    let has = |range: &[u8], mark: &[u8]| range.windows(mark.len()).any(|window| window == mark);
    let start = &bytes[..bytes.len().min(200)];
    if has(start, b"mimetypeapplication/vnd.oasis.opendocument.") {
        let types = [FileFormat::Odt, FileFormat::Ods, FileFormat::Odp];
        return types.into_iter().find(|format| has(start, format.media_type().as_bytes()));
    }
    // The list of members is at the end.
    let end = &bytes[bytes.len().saturating_sub(64 << 10)..];
    if !has(&bytes[..bytes.len().min(64 << 10)], b"[Content_Types].xml")
        && !has(end, b"[Content_Types].xml")
    {
        return None;
    }
    let kinds =
        [(FileFormat::Docx, "word/"), (FileFormat::Xlsx, "xl/"), (FileFormat::Pptx, "ppt/")];
    kinds.into_iter().find(|(_, folder)| has(end, folder.as_bytes())).map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(name: &str, bytes: &[u8], expect: FileFormat, noted: bool) {
        let found = detect_format(name, bytes).unwrap();
        assert_eq!(
            (found.format, found.note.is_some()),
            (expect, noted),
            "{name}: {:?}",
            found.note
        );
    }

    fn fails(name: &str, bytes: &[u8], expect: &str) {
        let error = detect_format(name, bytes).unwrap_err();
        assert!(error.contains(expect) && error.contains(name), "{error}");
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";
    const DOCX: &[u8] = b"PK\x03\x04....[Content_Types].xml....PK\x01\x02 word/document.xml";

    #[test]
    fn kinds_by_content_and_name() {
        check("a.png", PNG, FileFormat::Png, false);
        check("a", PNG, FileFormat::Png, false);
        check("a.JPEG", b"\xff\xd8\xff\xe0\0", FileFormat::Jpeg, false);
        check("a.gif", b"GIF89a..", FileFormat::Gif, false);
        check("a.webp", b"RIFF\0\0\0\0WEBPVP8 ", FileFormat::Webp, false);
        check("a.heic", b"\0\0\0\x18ftypheic\0", FileFormat::Heic, false);
        check("a.heif", b"\0\0\0\x18ftypmif1\0", FileFormat::Heif, false);
        check("a.bmp", b"BM\x10\0\0\0\0\0\0\0", FileFormat::Bmp, false);
        check("a.tif", b"II*\0\x08", FileFormat::Tiff, false);
        check("a.pdf", b"%PDF-1.7\n%\xe2\xe3", FileFormat::Pdf, false);
        check("a.pdf", b"\0junk\n%PDF-1.4", FileFormat::Pdf, false);
        check("a.docx", DOCX, FileFormat::Docx, false);
        check("a.xlsx", b"PK\x03\x04 too short to tell", FileFormat::Xlsx, false);
        check(
            "a.odt",
            b"PK\x03\x04mimetypeapplication/vnd.oasis.opendocument.textPK",
            FileFormat::Odt,
            false,
        );
        check("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1..", FileFormat::Doc, false);
        check("a.rs", b"fn main() {}", FileFormat::Text, false);
        check("run", b"#!/bin/sh\n", FileFormat::Text, false);
        check("a.txt", "grüße".as_bytes(), FileFormat::Text, false);
        check("notes", b"MZ is a text that begins so", FileFormat::Text, false);
        check(".gitignore", b"*.o\n", FileFormat::Text, false);
    }

    #[test]
    fn content_wins_and_the_disagreement_is_said() {
        check("a.png", b"\xff\xd8\xff\xe0\0", FileFormat::Jpeg, true);
        check("a.txt", PNG, FileFormat::Png, true);
        check("a.pdf", DOCX, FileFormat::Docx, true);
        check("a.xlsx", DOCX, FileFormat::Docx, true);
        check("a.png", b"<html>not found</html>", FileFormat::Text, true);
        check("a.docx", b"plain", FileFormat::Text, true);
        let note = detect_format("a.png", b"\xff\xd8\xff\xe0").unwrap().note.unwrap();
        assert_eq!(note, "a.png is named .png but is image/jpeg; it is sent as image/jpeg");
    }

    #[test]
    fn refused_with_what_to_do_instead() {
        fails("a.txt", b"", "is empty");
        for (name, bytes) in [
            ("a.zip", &b"PK\x03\x04.."[..]),
            ("a.zip", DOCX),
            ("a.pdf", b"PK\x03\x04.."),
            ("empty.zip", b"PK\x05\x06\0\0"),
            ("a.tar.gz", b"\x1f\x8b\x08\0"),
            ("a.out", b"\x7fELF\x02\x01\xff"),
            ("a.exe", b"MZ\x90\0\x03"),
            ("a.mp3", b"ID3\x03\0\0"),
            ("a.mp4", b"\0\0\0\x18ftypisom"),
            ("a.avif", b"\0\0\0\x18ftypavif"),
            ("a.msi", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1.."),
            ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1.."),
            ("a.txt", b"\xff\xfeh\0i\0"),
            ("a.txt", b"caf\xe9"),
            ("a.png", b"\x89PNX\0"),
        ] {
            fails(name, bytes, "and is not sent; send an image");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_and_names_are_taken_or_refused(name in "\\PC{0,12}(\\.[a-z]{1,4})?", bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(found) = detect_format(&name, &bytes) {
                prop_assert!(!found.format.is_text() || std::str::from_utf8(&bytes).is_ok());
            }
        }
    }
}
