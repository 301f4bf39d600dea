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
    Pdf,
    Docx,
    Xlsx,
    Pptx,
    Odt,
    Doc,
    Xls,
    Ppt,
    Text,
}

/// Every format that is not text: its family, its media type (IANA), and its file name extension.
const TABLE: &[(FileFormat, &str, &str, &str)] = &[
    (FileFormat::Png, "image", "image/png", "png"),
    (FileFormat::Jpeg, "image", "image/jpeg", "jpg"),
    (FileFormat::Gif, "image", "image/gif", "gif"),
    (FileFormat::Webp, "image", "image/webp", "webp"),
    (FileFormat::Pdf, "pdf", "application/pdf", "pdf"),
    (
        FileFormat::Docx,
        "office",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "docx",
    ),
    (
        FileFormat::Xlsx,
        "office",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "xlsx",
    ),
    (
        FileFormat::Pptx,
        "office",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "pptx",
    ),
    (FileFormat::Odt, "office", "application/vnd.oasis.opendocument.text", "odt"),
    (FileFormat::Doc, "office", "application/msword", "doc"),
    (FileFormat::Xls, "office", "application/vnd.ms-excel", "xls"),
    (FileFormat::Ppt, "office", "application/vnd.ms-powerpoint", "ppt"),
];

impl FileFormat {
    /// `image`, `pdf`, `office` or `text`.
    pub fn family(self) -> &'static str {
        self.table_row().1
    }

    /// Whether it is an image.
    pub fn is_image(self) -> bool {
        self.family() == "image"
    }

    /// Whether it is sent as part of the prompt.
    pub fn is_text(self) -> bool {
        self == Self::Text
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        self.table_row().2
    }

    fn table_row(self) -> (Self, &'static str, &'static str, &'static str) {
        let text = (Self::Text, "text", "text/plain", "txt");
        TABLE.iter().find(|row| row.0 == self).copied().unwrap_or(text)
    }

    /// The format that a file name claims; `None` for texts and unknown extensions.
    pub fn from_name(name: &str) -> Option<Self> {
        let ending = name.rsplit_once('.')?.1.to_lowercase();
        let ending = if ending == "jpeg" { "jpg" } else { &ending };
        TABLE.iter().find(|row| row.3 == ending).map(|row| row.0)
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
    /// Its bytes, if they are sent within the request.
    pub fn bytes(&self) -> &[u8] {
        match &self.payload {
            Payload::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    pub(super) fn base64(&self) -> String {
        STANDARD.encode(self.bytes())
    }

    pub(super) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.format.media_type(), self.base64())
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

/// The name of a file at a provider: without folders and without characters that a provider refuses, of bounded length, and
/// with an extension that matches the format, since some providers look only at the extension.
pub fn safe_name(name: &str, format: FileFormat) -> String {
    let plain = |c: char| if c.is_control() || "<>:\"|?*\\/".contains(c) { '_' } else { c };
    let plain: String = name.chars().map(plain).collect();
    let agrees = FileFormat::from_name(&plain) == Some(format);
    let stem = plain.rsplit_once('.').filter(|_| agrees).map_or(&*plain, |(stem, _)| stem).trim();
    let stem = if stem.is_empty() { "file" } else { stem };
    format!("{stem:.180}.{}", format.table_row().3)
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
        check(".pdf", FileFormat::Pdf, "file.pdf");
        check(&"ä".repeat(900), FileFormat::Pdf, &format!("{}.pdf", "ä".repeat(180)));
    }

    proptest! {
        #[test]
        fn no_name_is_dangerous_at_a_provider(name in "(\\PC|[\r\n\t\"]){0,12}(\\.[a-z]{1,4})?") {
            let safe = safe_name(&name, FileFormat::Pdf);
            prop_assert!(safe.strip_suffix(".pdf").is_some_and(|stem| !stem.is_empty()));
            prop_assert!(!safe.contains(['/', '"', '\r', '\n']));
        }
    }
}
