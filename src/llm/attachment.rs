//! A file that goes to a model beside a prompt: what kinds there are, what they are called, where its bytes are.
//!
//! What a given file is, [`super::sniff`] finds out; which provider takes what is in [`super::route`].

use crate::code::language::Language;

/// The largest file that is sent, in bytes.
pub const LIMIT: u64 = 50 * 1024 * 1024;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of the formats; TABLE has their endings and media types"
)]
pub enum Kind {
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
    Code,
    Text,
}

/// Every kind that is not text: its family, its media type (IANA's registry), and the endings of names that mean it,
/// its own first.
const TABLE: [(Kind, &str, &str, &[&str]); 18] = [
    (Kind::Png, "image", "image/png", &["png", "apng"]),
    (Kind::Jpeg, "image", "image/jpeg", &["jpg", "jpeg", "jpe", "jfif"]),
    (Kind::Gif, "image", "image/gif", &["gif"]),
    (Kind::Webp, "image", "image/webp", &["webp"]),
    (Kind::Heic, "image", "image/heic", &["heic", "heics"]),
    (Kind::Heif, "image", "image/heif", &["heif", "heifs", "hif"]),
    (Kind::Bmp, "image", "image/bmp", &["bmp", "dib"]),
    (Kind::Tiff, "image", "image/tiff", &["tiff", "tif"]),
    (Kind::Pdf, "pdf", "application/pdf", &["pdf"]),
    (
        Kind::Docx,
        "office",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        &["docx", "docm", "dotx"],
    ),
    (
        Kind::Xlsx,
        "office",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        &["xlsx", "xlsm", "xltx"],
    ),
    (
        Kind::Pptx,
        "office",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        &["pptx", "pptm", "ppsx", "potx"],
    ),
    (Kind::Odt, "office", "application/vnd.oasis.opendocument.text", &["odt"]),
    (Kind::Ods, "office", "application/vnd.oasis.opendocument.spreadsheet", &["ods"]),
    (Kind::Odp, "office", "application/vnd.oasis.opendocument.presentation", &["odp"]),
    (Kind::Doc, "office", "application/msword", &["doc", "dot"]),
    (Kind::Xls, "office", "application/vnd.ms-excel", &["xls", "xlt"]),
    (Kind::Ppt, "office", "application/vnd.ms-powerpoint", &["ppt", "pps", "pot"]),
];

impl Kind {
    /// `image`, `pdf`, `office`, `code` or `text`.
    pub fn family(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Text => "text",
            _ => self.row().map_or("text", |row| row.1),
        }
    }

    /// Whether it is sent as part of the prompt, on any way.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Code | Self::Text)
    }

    /// The media type; for text, the name decides.
    pub fn mime(self, name: &str) -> &'static str {
        if let Some(row) = self.row() {
            return row.2;
        }
        match Language::from_name(ending(name).unwrap_or_default().as_str()) {
            Some(Language::Markdown) => "text/markdown",
            Some(Language::Html) => "text/html",
            Some(Language::Csv) => "text/csv",
            Some(Language::Xml) => "application/xml",
            Some(Language::Json) => "application/json",
            Some(Language::Yaml) => "application/yaml",
            Some(Language::Toml) => "application/toml",
            Some(Language::JavaScript) => "text/javascript",
            _ => "text/plain",
        }
    }

    /// The ending that names of this kind have; `None` for text, which has any.
    fn own_ending(self) -> Option<&'static str> {
        self.row().map(|row| row.3[0])
    }

    fn row(self) -> Option<&'static (Self, &'static str, &'static str, &'static [&'static str])> {
        TABLE.iter().find(|row| row.0 == self)
    }

    /// The kind that an ending of a name means, in lower case; `None` for those of texts and unknown ones.
    pub(super) fn of_ending(ending: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.3.contains(&ending)).map(|row| row.0)
    }
}

/// A file beside the prompt of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment<'a> {
    /// Its name at the provider: [`safe_name`].
    pub name: &'a str,
    /// What it is, never text: text is part of the prompt.
    pub kind: Kind,
    /// Where it is.
    pub payload: Payload<'a>,
}

/// Where the bytes of an attachment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Here: they go into the request.
    Bytes(&'a [u8]),
    /// At the provider already.
    Remote(&'a Remote),
}

/// A file at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// What it is called there: letters, digits, `-`, `_` and `.` only, so that it can stand in an address.
    pub id: String,
    /// Its address, where requests name it by that (Google).
    pub uri: Option<String>,
}

/// The name that a file has at a provider: no folders, none of the characters that a provider refuses, 200 characters
/// at most, and an ending that says what the file is, since some providers believe the ending alone.
///
/// The characters are those that Anthropic's files guide names; it allows 500.
pub fn safe_name(name: &str, kind: Kind) -> String {
    let plain = name
        .chars()
        .map(|c| if c.is_control() || "<>:\"|?*\\/".contains(c) { '_' } else { c })
        .collect::<String>();
    let (stem, old) = match plain.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, Some(ending.to_lowercase())),
        _ => (plain.as_str(), None),
    };
    let agrees = kind.is_text() || old.as_deref().and_then(Kind::of_ending) == Some(kind);
    let (stem, ending) =
        if agrees { (stem, old) } else { (plain.as_str(), kind.own_ending().map(str::to_owned)) };
    let ending = ending.map_or_else(String::new, |ending| {
        format!(".{}", ending.chars().take(20).collect::<String>())
    });
    let stem: String = stem.trim().chars().take(180).collect();
    format!("{}{ending}", if stem.is_empty() { "file" } else { &stem })
}

/// What stands behind the last dot, in lower case.
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
        check("report.pdf", Kind::Pdf, "report.pdf");
        check("Photo.JPG", Kind::Jpeg, "Photo.jpg");
        check("report.txt", Kind::Pdf, "report.txt.pdf");
        check("a\"b\r\n/c.pdf", Kind::Pdf, "a_b___c.pdf");
        check("scan", Kind::Png, "scan.png");
        check(".pdf", Kind::Pdf, ".pdf.pdf");
        check("main.rs", Kind::Code, "main.rs");
        check(&"ä".repeat(900), Kind::Pdf, &format!("{}.pdf", "ä".repeat(180)));
    }

    #[test]
    fn media_types_of_texts() {
        assert_eq!(Kind::Text.mime("a.md"), "text/markdown");
        assert_eq!(Kind::Code.mime("a.rs"), "text/plain");
        assert_eq!(Kind::Pdf.mime("a.md"), "application/pdf");
    }

    proptest! {
        #[test]
        fn no_name_is_dangerous_at_a_provider(name in "(\\PC|[\r\n\t\"]){0,12}(\\.[a-z]{1,4})?") {
            let safe = safe_name(&name, Kind::Pdf);
            let ending = ending(&safe);
            prop_assert_eq!(ending.as_deref(), Some("pdf"));
            prop_assert!(!safe.contains(['/', '"', '\r', '\n']));
        }
    }
}
