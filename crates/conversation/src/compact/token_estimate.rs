//! Estimates the tokens of a conversation, corrected by the true count of each reply.

use super::notice::Notice;
use crate::format::file::Piece;
use crate::format::numbers::whole;
use crate::shown_file::ShownFile;

/// The default number of tokens per byte, before a model has counted.
const USUAL: f64 = 0.25;
/// The bounds of tokens per byte. Outside them, the file was edited since the count.
const RANGE: (f64, f64) = (0.12, 0.6);
/// A conversation with more than this share of the window is compacted.
const FULL: f64 = 0.8;

/// The estimated size of a token, from the blocks read so far.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenEstimate {
    /// The number of pieces read.
    seen: usize,
    /// Tokens per byte of this conversation.
    tokens_per_byte: f64,
    /// Turns that are still skipped: they were counted before a compaction, with another text.
    stale: u64,
    /// The offset of the last reply, which is the length of its request.
    reply: Option<usize>,
    /// The tokens of pictures and documents.
    files: u64,
}

impl Default for TokenEstimate {
    fn default() -> Self {
        Self { seen: 0, tokens_per_byte: USUAL, stale: 0, reply: None, files: 0 }
    }
}

impl TokenEstimate {
    /// Estimates from the counts in pieces.
    pub fn from_pieces(pieces: &[Piece]) -> Self {
        let mut estimate = Self::default();
        estimate.count_pieces(pieces);
        estimate
    }

    /// Reads the new pieces. Fewer pieces than before mean that the text is another one.
    pub fn count_pieces(&mut self, pieces: &[Piece]) {
        if pieces.len() < self.seen {
            *self = Self::default();
        }
        for piece in &pieces[self.seen..] {
            self.files += ShownFile::read(piece).map_or(0, |file| file.tokens);
            match piece.name() {
                Some("agent-response") => self.reply = Some(piece.span.start),
                Some("nagent-turn-status") => self.read_status(piece),
                Some("system") => {
                    if let Some(notice) = Notice::read(piece) {
                        self.tokens_per_byte = notice.tokens_per_byte.clamp(RANGE.0, RANGE.1);
                        self.stale = notice.kept;
                    }
                }
                _ => {}
            }
        }
        self.seen = pieces.len();
    }

    fn read_status(&mut self, status: &Piece) {
        let request = self.reply.take().unwrap_or(status.span.start);
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let counted = status.get("tokens_in").filter(|_| status.get("estimated").is_none());
        let counted =
            counted.and_then(|count| count.parse::<u32>().ok()).filter(|count| *count > 0);
        if let (Some(tokens), true) = (counted, request > 0) {
            let of_text = (f64::from(tokens) - self.files as f64).max(0.0);
            self.tokens_per_byte = (of_text / request as f64).clamp(RANGE.0, RANGE.1);
        }
    }

    /// Estimated tokens per byte, corrected by the count of each reply.
    pub fn tokens_per_byte(&self) -> f64 {
        self.tokens_per_byte
    }

    /// Converts bytes to estimated tokens.
    pub fn tokens(&self, bytes: usize) -> u64 {
        whole(bytes as f64 * self.tokens_per_byte)
    }

    /// Converts tokens to estimated bytes.
    pub(super) fn bytes(&self, tokens: f64) -> usize {
        usize::try_from(whole(tokens / self.tokens_per_byte)).unwrap_or(usize::MAX)
    }

    /// The estimated tokens of the whole text of this many bytes, with its pictures and documents.
    pub fn tokens_of_all(&self, bytes: usize) -> u64 {
        self.tokens(bytes) + self.files
    }

    /// Whether the whole text of this many bytes fills more than four fifths of a window.
    pub fn is_full(&self, bytes: usize, window: u64) -> bool {
        self.tokens_of_all(bytes) as f64 > window as f64 * FULL
    }
}
