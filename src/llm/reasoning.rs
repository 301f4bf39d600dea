//! Removes reasoning that a server sends as text: `<think>…</think>` at its very start.
//!
//! LM Studio, and others that do not know a model's template, do that. It must not reach the protocol parser: a tag that
//! the model only thought about would run. Other text passes unchanged and at once.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Where the stream is.
#[derive(Debug, Default)]
pub(super) enum ReasoningFilter {
    /// At the start.
    #[default]
    Start,
    /// After blanks or the beginning of the opening tag, which are held back.
    Held(String),
    /// In the reasoning; with the last bytes, which may be the beginning of the closing tag.
    Inside(String),
    /// After the reasoning: blanks before the answer are dropped.
    Closed,
    /// In the answer.
    Out,
}

impl ReasoningFilter {
    /// The part of `piece` that belongs to the answer, with what was held back before it.
    pub(super) fn filter<'a>(&mut self, piece: &'a str) -> std::borrow::Cow<'a, str> {
        match std::mem::take(self) {
            Self::Out => {
                *self = Self::Out;
                piece.into()
            }
            Self::Start => self.filter_start(piece.to_owned()).into(),
            Self::Held(held) => self.filter_start(held + piece).into(),
            Self::Inside(tail) => self.filter_reasoning(tail + piece).into(),
            Self::Closed => self.filter_blanks(piece).into(),
        }
    }

    /// The text that is still held back when the stream ends.
    pub(super) fn finish(&mut self) -> String {
        match std::mem::take(self) {
            Self::Held(held) => held,
            _ => String::new(),
        }
    }

    fn filter_start(&mut self, text: String) -> String {
        let begin = text.trim_start();
        if let Some(after) = begin.strip_prefix(OPEN) {
            let after = after.to_owned();
            return self.filter_reasoning(after);
        }
        // Only a few blanks are held back: a text may consist of them.
        if OPEN.starts_with(begin) && text.len() < 256 {
            *self = Self::Held(text);
            return String::new();
        }
        *self = Self::Out;
        text
    }

    fn filter_reasoning(&mut self, text: String) -> String {
        if let Some(at) = text.find(CLOSE) {
            return self.filter_blanks(&text[at + CLOSE.len()..]);
        }
        let keep = (0..CLOSE.len()).rev().find(|&n| text.ends_with(&CLOSE[..n])).unwrap_or(0);
        *self = Self::Inside(CLOSE[..keep].to_owned());
        String::new()
    }

    fn filter_blanks(&mut self, text: &str) -> String {
        let text = text.trim_start();
        *self = if text.is_empty() { Self::Closed } else { Self::Out };
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        for size in 1..=text.len().max(1) {
            let mut filter = ReasoningFilter::default();
            let mut out = String::new();
            for chunk in text.as_bytes().chunks(size) {
                out.push_str(&filter.filter(std::str::from_utf8(chunk).unwrap()));
            }
            out.push_str(&filter.finish());
            assert_eq!(out, expect, "{text:?} in pieces of {size}");
        }
    }

    #[test]
    fn only_reasoning_at_the_beginning_goes() {
        check("answer", "answer");
        check("", "");
        check("  <thin", "  <thin");
        check("<think>a < b </thi</think>\n\nanswer </think>", "answer </think>");
        check("\n<think></think>x", "x");
        check("<think>never closed", "");
        check("say <think>this</think>", "say <think>this</think>");
        check("<nagent-answer>x", "<nagent-answer>x");
    }
}
