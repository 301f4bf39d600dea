//! Possible cuts of a piece that tree-sitter parses. A stand-in that parses nothing, until the real one is merged.

use super::language::Language;
use super::pack::Boundary;

/// Whether tree-sitter parses the language.
pub fn parses(language: Language) -> bool {
    !matches!(language, Language::Text | Language::Markdown | Language::JsonLines | Language::Csv)
}

/// What carries over from one piece to the next.
#[derive(Debug, Default)]
pub struct Context {}

/// What was found in a piece.
#[derive(Debug)]
pub struct Window {
    /// Offsets relative to the piece, rising.
    pub boundaries: Vec<Boundary>,
    /// Where the next piece begins, relative; the piece's length when it was the last.
    pub end: usize,
}

/// The possible cuts of a piece of a file.
pub fn boundaries(
    _language: Language,
    _piece: &[u8],
    _target: u64,
    _last: bool,
    _context: &mut Context,
    _stop: &mut dyn FnMut() -> bool,
) -> Option<Window> {
    None
}
