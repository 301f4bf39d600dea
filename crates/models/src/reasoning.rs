//! Removes reasoning that a server sends as text: `<think>…</think>` at its very start.
//!
//! LM Studio, and other servers that do not know a model's template, send it so. It must not reach the protocol parser:
//! a tag that occurs only in the reasoning would run. Other text passes unchanged and at once.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Holds back text while it may be reasoning.
#[derive(Debug, Default)]
pub(super) struct ReasoningFilter {
    held: String,
    /// Whether the reasoning has ended, and its text was passed on.
    is_closed: bool,
    /// Whether the answer has begun.
    is_done: bool,
}

impl ReasoningFilter {
    /// The part of `piece` that belongs to the answer, after any text that was held back. Complete reasoning goes to
    /// `thoughts`.
    pub(super) fn filter<'a>(
        &mut self,
        piece: &'a str,
        thoughts: &mut String,
    ) -> std::borrow::Cow<'a, str> {
        if self.is_done {
            return piece.into();
        }
        let searched = self.held.len().saturating_sub(CLOSE.len());
        let from = self.held.floor_char_boundary(searched);
        self.held.push_str(piece);
        let start = self.held.trim_start();
        if start.starts_with(OPEN) {
            let Some(at) = self.held[from..].find(CLOSE) else { return "".into() };
            let after = self.held.split_off(from + at + CLOSE.len());
            if !std::mem::replace(&mut self.is_closed, true) {
                let thought = self.held.trim_start().trim_start_matches(OPEN);
                thoughts.push_str(thought.trim_end_matches(CLOSE).trim());
            }
            // Blanks before the answer are dropped.
            let answer = after.trim_start();
            self.is_done = !answer.is_empty();
            return answer.to_owned().into();
        }
        // Only a few blanks are held back: a text may consist of blanks.
        if OPEN.starts_with(start) && self.held.len() < 256 {
            return "".into();
        }
        self.is_done = true;
        std::mem::take(&mut self.held).into()
    }

    /// The text that is still held back when the stream ends.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.is_done || held.trim_start().starts_with(OPEN) { String::new() } else { held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        for size in 1..=text.len().max(1) {
            let mut filter = ReasoningFilter::default();
            let (mut out, mut thoughts) = (String::new(), String::new());
            for chunk in text.as_bytes().chunks(size) {
                out.push_str(&filter.filter(std::str::from_utf8(chunk).unwrap(), &mut thoughts));
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
