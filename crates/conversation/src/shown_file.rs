//! A picture or document that the model is shown: the result of a read that names the bytes by their hash.
//!
//! ```text
//! <nagent-read-result path="a.png" status="ok" media="image/png" bytes="8123" width="640" height="480" tokens="410" sha256="…">
//! ```
//! The conversation stays text: the bytes are kept with the outputs, and a request has them directly behind the text of
//! this block. Only attributes count, which nagent alone writes: no body, whatever it looks like, makes a file be sent.

use crate::format::file::Piece;

/// A file whose bytes belong to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownFile<'a> {
    /// The message, and the part of it behind which the file belongs; both from 0.
    pub place: (usize, usize),
    /// Its path, as the model or the user wrote it.
    pub path: &'a str,
    /// Its media type.
    pub media_type: &'a str,
    /// The hash of its bytes.
    pub sha256: &'a str,
    /// The estimated number of its tokens, by the rule of the provider that was asked when it was read.
    pub tokens: u64,
}

impl<'a> ShownFile<'a> {
    /// Reads the block of such a file; `None` for any other piece.
    pub fn read(piece: &'a Piece) -> Option<Self> {
        let is_read =
            piece.name() == Some("nagent-read-result") && piece.get("status") == Some("ok");
        let sha256 = is_read.then(|| piece.get("sha256"))??;
        Some(Self {
            place: (0, 0),
            path: piece.get("path").unwrap_or_default(),
            media_type: piece.get("media")?,
            sha256,
            tokens: piece.number("tokens").unwrap_or(0),
        })
    }
}
