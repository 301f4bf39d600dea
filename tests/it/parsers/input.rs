//! What the targets share: bytes taken apart. Each target is a file of this folder: what it is given, what must hold.
//!
//! A target takes what it decides by (a language, where a stream is cut) from the first bytes and leaves the rest as it is,
//! so that a file of the corpus is a file of the kind that is parsed, with a few bytes before it. Targets start nothing
//! and write no file; the one that reads files says so.

use std::borrow::Cow;

/// Bytes that are taken from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// What is not taken yet.
    pub(crate) rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of what a target is given.
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// The next byte; 0 where there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// One of some values, by the next byte.
    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// The rest as text; what is no UTF-8 becomes U+FFFD.
    pub(crate) fn text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.rest)
    }

    /// What stands before the next zero byte, which is passed over; all that is left where there is none.
    pub(crate) fn field(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let (field, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.get(1..).unwrap_or_default();
        field
    }
}

/// The bytes in pieces whose lengths follow from a seed: short ones, single bytes among them.
pub(crate) fn pieces(bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(seed).wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut rest = bytes;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let most = if seed.is_multiple_of(2) { 40 } else { 3 };
        let length = ((state >> 16) as usize % most + 1).min(rest.len());
        let (piece, after) = rest.split_at(length);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The largest place at or before `at` where a text can be cut.
pub(crate) fn cut(text: &str, at: usize) -> &str {
    &text[..text.floor_char_boundary(at)]
}

/// All APIs of providers.
pub(crate) const APIS: [&dyn models::api::Api; 5] = [
    &models::openai_responses::Responses,
    &models::openai_chat::ChatCompletions,
    &models::anthropic::Messages,
    &models::google::Gemini,
    &models::ollama::Ollama,
];
