//! A file that is sent to a model with a prompt: the formats, their names, and the place of its bytes.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of the formats; TABLE has their endings and media types"
)]
pub enum FileFormat {
    Png,
    Jpeg,
    Gif,
    Webp,
    Heic,
    Heif,
    Bmp,
    Tiff,
    Pdf,
    Docx,
    Xlsx,
    Pptx,
    Odt,
    Ods,
    Odp,
    Doc,
    Xls,
    Ppt,
    Text,
}

/// Every format that is not text: its family, its media type (IANA), and its file name extensions, the usual one first.
const TABLE: &[(FileFormat, &str, &str, &[&str])] = &[
    (FileFormat::Png, "image", "image/png", &["png", "apng"]),
    (FileFormat::Jpeg, "image", "image/jpeg", &["jpg", "jpeg", "jpe", "jfif"]),
    (FileFormat::Gif, "image", "image/gif", &["gif"]),
    (FileFormat::Webp, "image", "image/webp", &["webp"]),
    (FileFormat::Heic, "image", "image/heic", &["heic", "heics"]),
    (FileFormat::Heif, "image", "image/heif", &["heif", "heifs", "hif"]),
    (FileFormat::Bmp, "image", "image/bmp", &["bmp", "dib"]),
    (FileFormat::Tiff, "image", "image/tiff", &["tiff", "tif"]),
    (FileFormat::Pdf, "pdf", "application/pdf", &["pdf"]),
    (
        FileFormat::Docx,
        "office",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        &["docx", "docm", "dotx"],
    ),
    (
        FileFormat::Xlsx,
        "office",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        &["xlsx", "xlsm", "xltx"],
    ),
    (
        FileFormat::Pptx,
        "office",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        &["pptx", "pptm", "ppsx", "potx"],
    ),
    (FileFormat::Odt, "office", "application/vnd.oasis.opendocument.text", &["odt"]),
    (FileFormat::Ods, "office", "application/vnd.oasis.opendocument.spreadsheet", &["ods"]),
    (FileFormat::Odp, "office", "application/vnd.oasis.opendocument.presentation", &["odp"]),
    (FileFormat::Doc, "office", "application/msword", &["doc", "dot"]),
    (FileFormat::Xls, "office", "application/vnd.ms-excel", &["xls", "xlt"]),
    (FileFormat::Ppt, "office", "application/vnd.ms-powerpoint", &["ppt", "pps", "pot"]),
];

impl FileFormat {
    /// `image`, `pdf`, `office` or `text`.
    pub fn family(self) -> &'static str {
        self.table_row().map_or("text", |row| row.1)
    }

    /// Whether it is an image.
    pub(crate) fn is_image(self) -> bool {
        self.family() == "image"
    }

    /// Whether it is sent as part of the prompt.
    pub fn is_text(self) -> bool {
        self == Self::Text
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        self.table_row().map_or("text/plain", |row| row.2)
    }

    fn usual_ending(self) -> Option<&'static str> {
        self.table_row().map(|row| row.3[0])
    }

    fn table_row(
        self,
    ) -> Option<&'static (Self, &'static str, &'static str, &'static [&'static str])> {
        TABLE.iter().find(|row| row.0 == self)
    }

    /// The format that a file name claims; `None` for texts and unknown extensions.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_ending(&ending(name)?)
    }

    /// The format for a file name extension, in lower case; `None` for extensions of texts and for unknown ones.
    pub(super) fn from_ending(ending: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.3.contains(&ending)).map(|row| row.0)
    }
}

/// A file that a request shows, directly behind the text that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The message, and the part of it behind which the file belongs; both from 0.
    pub place: (usize, usize),
    /// Its name at the provider: [`safe_name`].
    pub name: String,
    /// Its format, never text: text becomes part of the prompt.
    pub format: FileFormat,
    /// The estimated number of its tokens.
    pub tokens: u64,
    /// The place of its bytes.
    pub payload: Payload,
}

impl Attachment {
    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        self.format.media_type()
    }

    pub(super) fn base64(&self) -> String {
        match &self.payload {
            Payload::Bytes(bytes) => STANDARD.encode(&**bytes),
            _ => String::new(),
        }
    }

    pub(super) fn base64_len(&self) -> usize {
        match &self.payload {
            Payload::Bytes(bytes) => bytes.len().div_ceil(3) * 4,
            _ => 0,
        }
    }

    pub(super) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type(), self.base64())
    }

    /// The file at the provider, if it is there.
    pub(super) fn remote(&self) -> Option<&RemoteFile> {
        match &self.payload {
            Payload::Remote(remote) => Some(remote),
            _ => None,
        }
    }
}

/// The place of an attachment's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// In memory: they are sent within the request.
    Bytes(Arc<Vec<u8>>),
    /// Already at the provider.
    Remote(RemoteFile),
    /// In this file, which a program is told.
    Path(PathBuf),
    /// Nowhere: the model reads why.
    Missing(String),
}

/// A file at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its id there: letters, digits, `-`, `_` and `.` only, so that it can be part of an address.
    pub id: String,
    /// Its address, if requests refer to it by that (Google).
    pub uri: Option<String>,
}

/// The name of a file at a provider: without folders and without characters that a provider refuses, at most 200
/// characters long, and with an extension that matches the format, since some providers look only at the extension.
pub fn safe_name(name: &str, format: FileFormat) -> String {
    let plain = name
        .chars()
        .map(|c| if c.is_control() || "<>:\"|?*\\/".contains(c) { '_' } else { c })
        .collect::<String>();
    let (stem, old) = match plain.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, Some(ending.to_lowercase())),
        _ => (plain.as_str(), None),
    };
    let agrees =
        format.is_text() || old.as_deref().and_then(FileFormat::from_ending) == Some(format);
    let (stem, ending) = if agrees {
        (stem, old)
    } else {
        (plain.as_str(), format.usual_ending().map(str::to_owned))
    };
    let ending = ending.map_or_else(String::new, |ending| {
        format!(".{}", ending.chars().take(20).collect::<String>())
    });
    let stem: String = stem.trim().chars().take(180).collect();
    format!("{}{ending}", if stem.is_empty() { "file" } else { &stem })
}

pub(super) fn ending(name: &str) -> Option<String> {
    let (stem, ending) = name.rsplit_once('.')?;
    (!stem.is_empty() && !ending.is_empty()).then(|| ending.to_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_at_a_provider() {
        let check = |name: &str, kind, expect: &str| assert_eq!(safe_name(name, kind), expect);
        check("report.pdf", FileFormat::Pdf, "report.pdf");
        check("Photo.JPG", FileFormat::Jpeg, "Photo.jpg");
        check("report.txt", FileFormat::Pdf, "report.txt.pdf");
        check("a\"b\r\n/c.pdf", FileFormat::Pdf, "a_b___c.pdf");
        check("scan", FileFormat::Png, "scan.png");
        check(".pdf", FileFormat::Pdf, ".pdf.pdf");
        check("main.rs", FileFormat::Text, "main.rs");
        check(&"ä".repeat(900), FileFormat::Pdf, &format!("{}.pdf", "ä".repeat(180)));
    }

    proptest! {
        #[test]
        fn no_name_is_dangerous_at_a_provider(name in "(\\PC|[\r\n\t\"]){0,12}(\\.[a-z]{1,4})?") {
            let safe = safe_name(&name, FileFormat::Pdf);
            let ending = ending(&safe);
            prop_assert_eq!(ending.as_deref(), Some("pdf"));
            prop_assert!(!safe.contains(['/', '"', '\r', '\n']));
        }
    }
}
