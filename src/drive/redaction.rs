//! Masks credentials that this process knows in results before they are stored or sent. [`conversation::redact`] defines
//! what a secret and a mask look like.
//!
//! Masked are results, whole outputs in `outputs/`, and the driver's own texts. Not masked are prompts, the model's replies,
//! and contents of files that are kept for undo.

use std::ops::Deref;
use std::path::Path;

use anyhow::Result;

use super::progress_event::OutputNow;
use super::result_block::add_redacted;
use super::truncate;
use conversation::format::file::Block;
use conversation::format::terminal_text::TerminalText;
use conversation::redact::{Redactor, Stream};
use sys::env::Env;
use sys::process::capture::{Capture, Captured};
use sys::process::kept::LineFilter;

/// Attributes that name files of the toolkit's own.
const OWN_ATTRIBUTES: [&str; 8] =
    ["output", "previous", "shown", "before", "after", "index_path", "patch", "fence"];

/// Blocks that hold the words of users and models, and the first context.
const NOT_MASKED: [&str; 6] = [
    "initial_context",
    "context-update",
    "user-prompt",
    "agent-response",
    "nagent-next-input",
    "nagent-turn-status",
];

/// Masks blocks, outputs and whole files.
#[derive(Debug)]
pub struct ResultRedactor {
    redactor: Redactor,
    /// Length of the head and of the tail of a result that is too long for the model, in bytes.
    pub keep: usize,
}

impl Deref for ResultRedactor {
    type Target = Redactor;

    fn deref(&self) -> &Redactor {
        &self.redactor
    }
}

impl ResultRedactor {
    /// Masks the credentials that commands do not get by `pass_env`.
    pub fn new(env: &Env, pass_env: &[String]) -> Self {
        Self { redactor: Redactor::new(env.secrets(pass_env)), keep: truncate::KEEP }
    }

    /// Masks a block's attributes and body; the number of masks goes into its attribute `redacted`.
    pub fn redact_block(&self, mut block: Block) -> Block {
        if self.is_idle() || NOT_MASKED.contains(&block.name) {
            return block;
        }
        let mut count = 0;
        let mut redact = |text: &mut String| {
            let (new, found) = self.redact_text(std::mem::take(text));
            *text = new;
            count += found;
        };
        for (name, value) in &mut block.attributes {
            if !OWN_ATTRIBUTES.contains(&name.as_str()) {
                redact(value);
            }
        }
        block.body.iter_mut().for_each(redact);
        add_redacted(block, count)
    }

    /// Captures a command's output; one that is too long for a result goes into `outputs`, at most `room` bytes.
    pub(super) fn capture_output(&self, outputs: &Path, room: u64) -> MaskedOutput<'_> {
        let capture = Capture::new(self.keep, outputs.to_owned(), room);
        MaskedOutput { redactor: &self.redactor, stream: Stream::default(), capture }
    }

    /// Masks lines that a command prints while it runs on. `None`: nothing is masked.
    pub(super) fn filter_lines(&self) -> Option<LineFilter> {
        let redactor = (!self.is_idle()).then(|| self.redactor.clone())?;
        Some(Box::new(move |lines: &[u8]| redactor.mask_bytes(lines.to_vec())))
    }

    pub(super) fn with_text(&self, block: Block, text: String, outputs: &Path) -> Result<Block> {
        let (text, count) = self.redact_text(text);
        truncate::with_text(add_redacted(block, count), text, outputs, self.keep)
    }

    /// The block with a masked text whose lines were cut where `…` is, as its body, or with its head and tail.
    pub(super) fn with_cut_lines(
        &self,
        block: Block,
        text: String,
        outputs: &Path,
    ) -> Result<Block> {
        let (text, count) = self.redact_cut_lines(text);
        truncate::with_text(add_redacted(block, count), text, outputs, self.keep)
    }

    /// Removes what may be the first part of a secret from the end of a text that was cut there.
    pub(super) fn trim_cut_end(&self, mut text: String) -> String {
        if !self.is_idle() {
            text.truncate(self.clean_end(&text));
        }
        text
    }

    pub(super) fn refuse_mask(&self, text: &str) -> Option<String> {
        let mask = self.find_mask(text)?;
        Some(format!(
            "nothing was changed: the text contains the placeholder {mask}. Writing it would overwrite the real credential. \
             Use smaller SEARCH blocks that skip its line, or change the file with a command (sed) that does not spell it, \
             or tell the user what should be there"
        ))
    }
}

/// A command's output, which is masked while it comes: nothing of it is stored before.
pub(super) struct MaskedOutput<'a> {
    redactor: &'a Redactor,
    stream: Stream,
    capture: Capture,
}

impl MaskedOutput<'_> {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.redactor.is_idle() {
            self.capture.append(bytes);
        } else {
            self.capture.append(&self.stream.push(self.redactor, bytes));
        }
    }

    /// The end of the output so far as a terminal would show it.
    pub(super) fn look(&self) -> OutputNow {
        let (mut end, mut before) = self.capture.end();
        if !self.redactor.is_idle() {
            let (held, lines) = self.stream.peek(self.redactor);
            end.extend(held);
            before += lines;
            let cut = end.len().saturating_sub(truncate::KEEP);
            before += memchr::memchr_iter(b'\n', &end[..cut]).count() as u64;
            end.drain(..cut);
        }
        if before > 0
            && let Some(at) = memchr::memchr(b'\n', &end)
        {
            // The first line may have lost its beginning.
            end.drain(..=at);
            before += 1;
        }
        let mut text = TerminalText::default();
        text.push(&end);
        let (lines, open) = text.finish();
        OutputNow { before, lines, open }
    }

    /// Ends the output. Returns also the number of masks in it.
    pub(super) fn finish(mut self) -> (Captured, u64) {
        let rest = self.stream.finish(self.redactor);
        self.capture.append(&rest);
        (self.capture.finish(), self.stream.count)
    }
}
