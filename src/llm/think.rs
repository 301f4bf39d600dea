//! Leaves out reasoning that a server sends inside the text, as `<think>…</think>` at its very beginning.
//!
//! LM Studio, and others that do not know a model's template, pass it on so. It must not reach the protocol parser:
//! a tag that the model only thought about would be acted on. Text that begins otherwise passes untouched, at once.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Where in the text the stream is.
#[derive(Debug, Default)]
pub(super) enum Think {
    /// Nothing yet, blanks, or the beginning of the opening tag, which are held back.
    #[default]
    Start,
    /// A piece of `Start` that is held back.
    Held(String),
    /// In the reasoning; the last bytes are kept, since the closing tag may be cut.
    Inside(String),
    /// After the reasoning: blanks before the answer are dropped.
    Closed,
    /// In the answer.
    Out,
}

impl Think {
    /// What of `piece` is answer, with what was held back before it.
    pub(super) fn filter<'a>(&mut self, piece: &'a str) -> std::borrow::Cow<'a, str> {
        match std::mem::take(self) {
            Self::Out => {
                *self = Self::Out;
                piece.into()
            }
            Self::Start => self.start(piece.to_owned()).into(),
            Self::Held(held) => self.start(held + piece).into(),
            Self::Inside(tail) => self.inside(tail + piece).into(),
            Self::Closed => self.closed(piece).into(),
        }
    }

    /// What was held back when the stream ended.
    pub(super) fn rest(&mut self) -> String {
        match std::mem::take(self) {
            Self::Held(held) => held,
            _ => String::new(),
        }
    }

    fn start(&mut self, text: String) -> String {
        let begin = text.trim_start();
        if let Some(after) = begin.strip_prefix(OPEN) {
            let after = after.to_owned();
            return self.inside(after);
        }
        // Blanks are held back for a little while only: a text may be made of them.
        if OPEN.starts_with(begin) && text.len() < 256 {
            *self = Self::Held(text);
            return String::new();
        }
        *self = Self::Out;
        text
    }

    fn inside(&mut self, text: String) -> String {
        if let Some(at) = text.find(CLOSE) {
            return self.closed(&text[at + CLOSE.len()..]);
        }
        let keep = (0..CLOSE.len()).rev().find(|&n| text.ends_with(&CLOSE[..n])).unwrap_or(0);
        *self = Self::Inside(CLOSE[..keep].to_owned());
        String::new()
    }

    fn closed(&mut self, text: &str) -> String {
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
            let mut think = Think::default();
            let mut out = String::new();
            for chunk in text.as_bytes().chunks(size) {
                out.push_str(&think.filter(std::str::from_utf8(chunk).unwrap()));
            }
            out.push_str(&think.rest());
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
