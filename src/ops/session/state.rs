//! The state of a session in words: the last exchange of its conversation, and what it costs.

use super::start::Session;
use crate::ops::conversations::{Catalog, Conversation};
use crate::out;
use conversation::format::harmless::truncate;
use conversation::format::numbers::format_count;
use view::figures::figures_words;
use view::overview::transcript::{self, EntryKind, TranscriptEntry};
use view::render::shown_name;

/// Maximum number of lines of the last exchange.
const EXCHANGE_LINES: usize = 16;
/// Maximum length of such a line, in characters.
const EXCHANGE_LINE: usize = 400;

impl Session {
    fn read_conversation(&self) -> Option<Conversation> {
        let catalog = Catalog::read_indexes(self.settings.root.clone(), self.env.clone());
        catalog.read_conversation(&self.name)
    }

    /// Shows which conversation is continued: its last prompt, and the answer to it.
    pub(super) fn show_last_exchange(&self) {
        let one = self.read_conversation().filter(|_| self.shows_lines());
        let Some(one) = one.filter(|one| one.overview.prompts > 0) else { return };
        let mut entries = transcript::entries(&one.text, &one.parsed.pieces);
        let last = entries.iter().rposition(|entry| entry.kind == EntryKind::Prompt);
        let mut last = entries.split_off(last.unwrap_or(entries.len()));
        // A note beside actions is no answer.
        let is_of_model =
            |entry: &&TranscriptEntry| !matches!(entry.kind, EntryKind::System | EntryKind::Note);
        let end = last.iter().rfind(is_of_model);
        let is_answered = end.is_some_and(|entry| entry.kind == EntryKind::Answer);
        let is_shown = |kind| kind == EntryKind::Prompt || is_answered && kind == EntryKind::Answer;
        last.retain(|entry| is_shown(entry.kind));
        last.drain(1.min(last.len())..last.len().max(2) - 1);
        let text = transcript::to_text(&last, 0);
        out::print_line(&format!("continues {}", shown_name(&one.name)));
        let lines = text.lines().take(EXCHANGE_LINES).map(|line| truncate(line, EXCHANGE_LINE));
        let shown = lines.map(|line| line + "\n").collect::<String>();
        if !(self.settings.config.markdown && out::print_markdown(&shown)) {
            shown.lines().for_each(out::print_line);
        }
        let more = text.lines().count().saturating_sub(EXCHANGE_LINES);
        if more > 0 {
            out::print_line(&format!("… {} (/show)", format_count(more as u64, "more line")));
        }
        if !is_answered {
            out::print_line("no answer yet");
        }
        out::print_line("");
    }

    /// Prints what the session and its conversation cost.
    pub(super) fn print_cost(&self) {
        let usage = self.read_conversation().map(|one| one.overview.usage).unwrap_or_default();
        let of_conversation = usage.billed(self.settings.is_billed());
        self.print_text(&format!(
            "prompts of this session: {}\nthis conversation, without its children: {}\n",
            figures_words(&self.figures),
            figures_words(&of_conversation)
        ));
    }

    /// Prints what a command is asked for: for a person wrapped at words. With `--json`, stdout is for one document.
    pub(super) fn print_text(&self, text: &str) {
        if self.args.json || self.is_interactive {
            text.lines().for_each(out::print_line);
        } else {
            self.is_over.set(self.is_over.get() || !out::print_part(text));
        }
    }
}
