//! Detects the format of a file, by its first bytes, then by its name.
//!
//! The content takes precedence over the name, and a note says so. Archives, programs, audio, video, empty files and
//! unknown formats are refused here, before anything is sent. Nothing is read from disk.
//!
//! The marks are those of `file(1)`. Modern office files are zip archives: the names of their members tell which kind
//! they are, and if these are not found, the file's name does. The crate `infer` neither detects text nor gives advice.

use super::attachment::{FileFormat, ending};
use code::language::Language;
use conversation::format::hex::encode_hex;

/// File name extensions of archives: a file with such a name is refused even if its bytes could be text.
const ARCHIVES: &str =
    "zip tar gz tgz bz2 tbz2 xz txz zst lz lz4 lzma 7z rar jar war apk cab iso dmg deb";

/// Marks at the start of files that are refused, in hexadecimal digits. Marks that consist of letters (`MZ`, `BZh`,
/// `Rar!`, `MSCF`, `!<arch>`, `ID3`, `fLaC`, `OggS`, `MThd`) do not count if the file is text.
const REFUSED: [(&str, &str); 4] = [
    ("a program", "7f454c46 4d5a feedface feedfacf cefaedfe cffaedfe cafebabe 0061736d"),
    (
        "an archive",
        "1f8b 1f9d 425a68 fd377a585a00 377abcaf271c 526172211a07 28b52ffd 04224d18 4d534346 213c617263683e0a",
    ),
    ("audio", "494433 664c6143 4f676753 4d546864 fffb fff3 fff2 fff1"),
    ("video", "1a45dfa3 000001ba"),
];

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
    let named = ending.as_deref().and_then(FileFormat::from_ending);
    let is_archive_by_name =
        ending.as_deref().is_some_and(|ending| ARCHIVES.split(' ').any(|one| one == ending));
    let archive = || {
        format!(
            "{name} is an archive, which no provider accepts; unpack it and send the file that matters"
        )
    };
    let kind = if let Some(kind) = detect_by_mark(bytes) {
        kind
    } else if named == Some(FileFormat::Pdf)
        && bytes[..bytes.len().min(1024)].windows(5).any(|five| five == b"%PDF-")
    {
        // Readers look for the mark in the first kilobyte: some programs write their own lines before it.
        FileFormat::Pdf
    } else if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        let named = named.filter(|kind| is_zip_format(*kind));
        if is_archive_by_name {
            return Err(archive());
        }
        detect_zip_format(bytes).or(named).ok_or_else(archive)?
    } else if bytes.starts_with(OLE) {
        match named {
            Some(kind @ (FileFormat::Doc | FileFormat::Xls | FileFormat::Ppt)) => kind,
            Some(kind) if kind.family() == "office" => {
                return Err(format!(
                    "{name} is locked with a password, or an older office file with a newer name; open it and save it \
                     without a password"
                ));
            }
            _ => return Err(explain_unknown(name)),
        }
    } else if let Some(what) = describe_refused(bytes) {
        return Err(match what {
            "an archive" => archive(),
            "a program" => {
                format!("{name} is a program in machine code and cannot be sent; send its source")
            }
            _ => format!(
                "{name} is {what} and cannot be sent; send its text, a transcript for example"
            ),
        });
    } else {
        match std::str::from_utf8(bytes) {
            Ok(_) if is_archive_by_name => {
                return Err(format!("{name} is named like an archive but is not one; rename it"));
            }
            Ok(text) if !text.contains('\0') => text_or_code(ending.as_deref(), text),
            _ => return Err(explain_binary(name, named, bytes)),
        }
    };
    // A text may have any name that does not belong to another format.
    let agrees = named == Some(kind) || (named.is_none() && (kind.is_text() || ending.is_none()));
    let note = ending.filter(|_| !agrees).map(|ending| {
        let media_type = kind.media_type(if kind.is_text() { "" } else { name });
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

fn is_zip_format(kind: FileFormat) -> bool {
    kind.family() == "office"
        && !matches!(kind, FileFormat::Doc | FileFormat::Xls | FileFormat::Ppt)
}

/// The office format of a zip archive, by its members: OpenDocument has its media type first, uncompressed; Office Open
/// XML has `[Content_Types].xml` first in nearly all files, and a folder for each format.
fn detect_zip_format(bytes: &[u8]) -> Option<FileFormat> {
    let has = |range: &[u8], mark: &[u8]| range.windows(mark.len()).any(|window| window == mark);
    let start = &bytes[..bytes.len().min(200)];
    if has(start, b"mimetypeapplication/vnd.oasis.opendocument.") {
        let types = [FileFormat::Odt, FileFormat::Ods, FileFormat::Odp];
        return types.into_iter().find(|format| has(start, format.media_type("").as_bytes()));
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

fn describe_refused(bytes: &[u8]) -> Option<&'static str> {
    let at =
        |from: usize, mark: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(mark));
    if at(257, b"ustar") {
        return Some("an archive");
    }
    if at(0, b"RIFF") && (at(8, b"WAVE") || at(8, b"AVI ")) {
        return Some(if at(8, b"WAVE") { "audio" } else { "video" });
    }
    // All other files of this family are video or audio, except for AVIF, which is an image.
    if at(4, b"ftyp") && !at(8, b"avi") {
        return Some(if at(8, b"M4A") { "audio" } else { "video" });
    }
    let start = encode_hex(&bytes[..bytes.len().min(8)]);
    let is_marked = |marks: &str| marks.split(' ').any(|mark| start.starts_with(mark));
    let what = REFUSED.iter().find(|(_, marks)| is_marked(marks)).map(|(what, _)| *what)?;
    // A text may begin with any letters; a file without a NUL is a text.
    let is_text = bytes[0].is_ascii_graphic()
        && bytes[0] != b'!'
        && std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    (!is_text).then_some(what)
}

fn text_or_code(ending: Option<&str>, text: &str) -> FileFormat {
    /// Extensions of languages that are missing in [`Language`].
    const OTHERS: &str = "rb php pl pm lua swift kt kts scala cs fs vb r jl hs ml ex exs erl clj dart zig nim sql \
    ps1 fish zsh m vue css";
    use Language::{C, Cpp, Go, Java, JavaScript, Python, Rust, Shell, Tsx, TypeScript};
    let language = ending.and_then(Language::from_name);
    let is_code = matches!(
        language,
        Some(C | Cpp | Go | Java | JavaScript | Python | Rust | Shell | Tsx | TypeScript)
    ) || ending.is_some_and(|ending| OTHERS.split(' ').any(|one| one == ending))
        || (ending.is_none() && text.starts_with("#!"));
    if is_code { FileFormat::Code } else { FileFormat::Text }
}

fn explain_binary(name: &str, named: Option<FileFormat>, bytes: &[u8]) -> String {
    if let Some(kind) = named {
        return format!(
            "{name} is named like {} but is something else; it may be damaged, so it is not sent",
            kind.media_type(name)
        );
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return format!(
            "{name} is UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8 and send that"
        );
    }
    if bytes.contains(&0) {
        return explain_unknown(name);
    }
    format!(
        "{name} is neither UTF-8 text nor a known format; if it is text, convert it with iconv -t UTF-8 and send that"
    )
}

fn explain_unknown(name: &str) -> String {
    format!(
        "{name} is a binary file of an unknown format; send an image, a PDF, an office file or UTF-8 text"
    )
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
        check("a.rs", b"fn main() {}", FileFormat::Code, false);
        check("run", b"#!/bin/sh\n", FileFormat::Code, false);
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
        fails("a.zip", b"PK\x03\x04..", "unpack it");
        fails("a.zip", DOCX, "unpack it");
        fails("a.zip", b"only text", "named like an archive");
        fails("a.pdf", b"PK\x03\x04..", "unpack it");
        fails("empty.zip", b"PK\x05\x06\0\0", "unpack it");
        fails("a.tar.gz", b"\x1f\x8b\x08\0", "unpack it");
        fails("a.a", b"!<arch>\nx", "unpack it");
        fails("a.tar", &[&[b'x'; 257][..], b"ustar\0"].concat(), "unpack it");
        fails("a.out", b"\x7fELF\x02\x01", "send its source");
        fails("a.exe", b"MZ\x90\0\x03", "send its source");
        fails("a.mp3", b"ID3\x03\0\0", "is audio");
        fails("a.mp4", b"\0\0\0\x18ftypisom", "is video");
        fails("a.wav", b"RIFF\0\0\0\0WAVEfmt ", "is audio");
        fails("a.avif", b"\0\0\0\x18ftypavif", "unknown format");
        fails("a.bin", b"\x01\x02\0\x03", "unknown format");
        fails("a.msi", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1..", "unknown format");
        fails("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1..", "password");
        fails("a.txt", b"\xff\xfeh\0i\0", "UTF-16");
        fails("a.txt", b"caf\xe9", "iconv");
        fails("a.png", b"\x89PNX\0", "may be damaged");
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
