//! Decides which parts of a conversation a compaction keeps, and in which order.

use crate::format::numbers::whole;
use std::collections::HashSet;
use std::ops::Range;

use super::notice::{CompactionFacts, Notice};
use super::token_estimate::TokenEstimate;
use crate::context::MEMORY;
use crate::format::file::Piece;
use crate::shown_file::ShownFile;

/// Results over this many bytes become pointers, except in the newest turns.
pub(crate) const LONG_RESULT: usize = 4 << 10;
/// The same limit within a newest turn that alone exceeds the room for the newest turns.
const LONG_IN_NEWEST: usize = 1 << 10;
/// The approximate size of a pointer's body, in bytes.
const POINTER: usize = 130;
/// Prompts over this many bytes are truncated.
const PROMPT: usize = 4 << 10;
/// Minimum length of a truncated prompt, in bytes. The first 100 characters identify the turns of copies
/// (`nagent-conversations usage`).
const LEAST_PROMPT: usize = 128;
/// A compacted conversation has at most this share of the window.
const GOAL: f64 = 0.6;
/// Pointers alone are enough when they lead to this share.
const ENOUGH: f64 = 0.5;
/// Maximum length of a checkpoint, in tokens.
const CHECKPOINT: f64 = 1600.0;
/// Approximate number of words per token.
const WORDS: f64 = 0.6;
/// With less room than this for prompts, checkpoint and turns, in tokens, a compaction gains nothing.
const LEAST_ROOM: f64 = 1000.0;

/// A part of a compacted conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanPart {
    /// Bytes of the old text.
    Keep(Range<usize>),
    /// The result at this index among the pieces, with its body in a file.
    Pointer(usize),
    /// The prompt or note at this index, truncated to so many bytes.
    Head(usize, usize),
    /// The block that reports the compaction.
    Notice,
}

/// The plan of a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The new text, in order.
    pub parts: Vec<PlanPart>,
    /// The input of the checkpoint; empty where pointers are enough.
    pub summarized: Vec<PlanPart>,
    /// The facts for the notice.
    pub condensed: CompactionFacts,
    /// The length of the checkpoint, in words.
    pub words: u64,
    /// The approximate number of tokens of the old text.
    pub before: u64,
    /// The approximate number of tokens of the new text, if the checkpoint has its maximum length.
    pub after: u64,
}

/// Whether the turns may be split before this piece: it is a prompt, a reply, or the status of a reply that was not
/// used.
pub fn begins_turn(pieces: &[Piece], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| pieces[at].name());
    match pieces[at].name() {
        Some("user-prompt" | "agent-response") => true,
        Some("nagent-turn-status") => before != Some("agent-response"),
        _ => false,
    }
}

/// Plans the compaction of a conversation for a window in tokens.
pub struct Planner<'a> {
    text: &'a str,
    pieces: &'a [Piece],
    estimate: &'a TokenEstimate,
    window: u64,
    /// Pictures and documents: where their blocks begin, and the size of a text with as many tokens, in bytes.
    files: Vec<(usize, usize)>,
}

/// The newest turns.
struct Newest {
    /// The index of their first piece.
    start: usize,
    /// Whether their long results become pointers, too.
    is_cut: bool,
}

/// A block of an earlier compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoticeState {
    /// It reports results that became pointers. The next one replaces it.
    Pointers,
    /// It has a checkpoint that the user has edited; it stays.
    Edited,
}

impl<'a> Planner<'a> {
    /// A planner for this text with these pieces.
    pub fn new(
        text: &'a str,
        pieces: &'a [Piece],
        estimate: &'a TokenEstimate,
        window: u64,
    ) -> Self {
        let of_file = |piece| Some((piece, ShownFile::read(piece)?.tokens as f64));
        let files = pieces.iter().filter_map(of_file);
        let files = files.map(|(piece, tokens)| (piece.span.start, estimate.bytes(tokens)));
        Self { text, pieces, estimate, window, files: files.collect() }
    }

    /// Plans a compaction. `None`: the conversation cannot become shorter. `is_asked`: someone has requested it now, full
    /// or not.
    ///
    /// # Errors
    /// The window is too small for the first context.
    pub fn plan_compaction(&self, is_asked: bool) -> Result<Option<Plan>, String> {
        // The first context, with which the file begins.
        let first =
            usize::from(self.pieces.first().and_then(Piece::name) == Some("initial_context"));
        let context = self.pieces.iter().take(first).map(|piece| piece.span.len()).sum::<usize>();
        let updates = self.lasting_updates(self.pieces.len());
        // These always stay: the first context, and checkpoints that the user has edited.
        let edited = (0..self.pieces.len()).filter(|at| self.is_users_checkpoint(*at));
        let stays = updates.into_iter().chain(edited);
        let context = context + stays.map(|at| self.pieces[at].span.len()).sum::<usize>();
        let context_tokens = self.estimate.tokens(context);
        let window = self.window as f64;
        let room = window * GOAL - context_tokens as f64;
        if room < LEAST_ROOM {
            let needed = whole((context_tokens as f64 + LEAST_ROOM) / GOAL);
            return Err(format!(
                "its first context has about {context_tokens} tokens, which needs a window of {needed}, and the window has {}",
                self.window
            ));
        }
        let newest = self.find_newest(first, self.estimate.bytes((window / 4.0).min(room / 2.0)));
        if let Some(plan) = self.plan_pointers(&newest, is_asked) {
            return Ok(Some(plan));
        }
        Ok(self.plan_checkpoint(first, &newest, room).or_else(|| self.plan_last_resort()))
    }

    /// Plans a compaction for a full window that needs no checkpoint: long results become pointers, even the newest. It is
    /// also for where there are no older turns, or too few to gain anything.
    pub fn plan_last_resort(&self) -> Option<Plan> {
        if !self.estimate.is_full(self.text.len(), self.window) {
            return None;
        }
        let end = self.pieces.len();
        let newest = Newest { start: end, is_cut: true };
        let plan = self.plan_with_pointers(&newest, LONG_IN_NEWEST);
        plan.filter(|plan| plan.after <= plan.before / 10 * 9)
    }

    /// Finds the newest turns that fit into this many bytes unchanged. If the last one alone is larger, returns it
    /// without its long results.
    fn find_newest(&self, first: usize, most: usize) -> Newest {
        let groups: Vec<usize> =
            (first..self.pieces.len()).filter(|at| begins_turn(self.pieces, *at)).collect();
        let end = self.text.len();
        let bytes_from = |at: usize| self.bytes_of_range(self.pieces[at].span.start..end);
        let fits = groups.iter().copied().find(|at| bytes_from(*at) <= most);
        if let Some(start) = fits {
            return Newest { start, is_cut: false };
        }
        let last = groups.last().copied().filter(|last| {
            let saved: usize = (*last..self.pieces.len())
                .filter_map(|at| self.pointer_savings(at, LONG_IN_NEWEST))
                .sum();
            bytes_from(*last) - saved <= most
        });
        Newest { start: last.unwrap_or(self.pieces.len()), is_cut: true }
    }

    /// The bytes saved if this piece becomes a pointer; `None` if it is not a result with more than `most` bytes.
    fn pointer_savings(&self, at: usize, most: usize) -> Option<usize> {
        let piece = &self.pieces[at];
        let of_file = self.bytes_of_files(&piece.span);
        if of_file > 0 {
            return Some(of_file);
        }
        let is_result = piece.name().is_some_and(|name| name.ends_with("-result"))
            || piece.name() == Some("system")
                && ["check", "after_write"].iter().any(|name| piece.get(name).is_some());
        let bytes = piece.body_text(self.text).len();
        (is_result && bytes > most).then(|| bytes - POINTER)
    }

    /// The size of the pictures and documents in a part of the text, as that of text with as many tokens, in bytes.
    fn bytes_of_files(&self, range: &Range<usize>) -> usize {
        let files = self.files.iter().filter(|(start, _)| range.contains(start));
        files.map(|(_, bytes)| bytes).sum()
    }

    /// The size of a part of the text with its pictures and documents.
    fn bytes_of_range(&self, range: Range<usize>) -> usize {
        range.len() + self.bytes_of_files(&range)
    }

    /// Plans the whole conversation with pointers for long results before the newest turns, if that is enough.
    fn plan_pointers(&self, newest: &Newest, is_asked: bool) -> Option<Plan> {
        let plan = self.plan_with_pointers(newest, LONG_RESULT)?;
        let is_small = plan.after as f64 <= self.window as f64 * ENOUGH;
        (is_small && (!is_asked || plan.after <= plan.before / 2)).then_some(plan)
    }

    /// Plans the whole conversation with pointers for results of more than `most` bytes before the newest turns.
    fn plan_with_pointers(&self, newest: &Newest, most: usize) -> Option<Plan> {
        let saved: Vec<usize> =
            (0..newest.start).filter_map(|at| self.pointer_savings(at, most)).collect();
        if saved.is_empty() {
            return None;
        }
        let before = self.bytes_of_range(0..self.text.len());
        let after = before.saturating_sub(saved.iter().sum());
        let mut parts = Vec::new();
        self.push_span(&mut parts, 0..newest.start, most);
        parts.push(PlanPart::Notice);
        self.push_newest(&mut parts, newest);
        Some(Plan {
            parts,
            summarized: Vec::new(),
            condensed: CompactionFacts {
                kept: self.count_turns(newest.start..self.pieces.len()),
                pointers: saved.len() as u64,
                ..CompactionFacts::default()
            },
            words: 0,
            before: self.estimate.tokens(before),
            after: self.estimate.tokens(after),
        })
    }

    fn plan_checkpoint(&self, first: usize, newest: &Newest, room: f64) -> Option<Plan> {
        let middle = first..newest.start;
        if self.count_turns(middle.clone()) == 0 {
            return None;
        }
        let mut parts = Vec::new();
        self.push_span(&mut parts, 0..first, LONG_RESULT);
        let updates = self.lasting_updates(newest.start);
        parts.extend(updates.iter().map(|at| PlanPart::Keep(self.pieces[*at].span.clone())));
        let (prompts, left_out) = self.prompts(middle.clone(), self.estimate.bytes(room / 4.0));
        parts.extend(prompts);
        parts.extend(self.children(middle.clone()));
        parts.push(PlanPart::Notice);
        self.push_newest(&mut parts, newest);
        let is_left_out = |at: usize| {
            self.pieces[at].name() == Some("context-update")
                || matches!(self.state(at), Some(NoticeState::Pointers | NoticeState::Edited))
        };
        let summarized = middle.clone().filter(|at| !is_left_out(*at));
        let summarized: Vec<PlanPart> = summarized.map(|at| self.part(at, LONG_RESULT)).collect();
        let checkpoint = (room / 4.0).min(CHECKPOINT);
        let rest: usize = parts.iter().map(|part| self.bytes_of(part)).sum();
        let before = self.bytes_of_range(0..self.text.len());
        let after = rest + self.estimate.bytes(checkpoint);
        // It would save less than a tenth: not worth a request, and the next compaction would be due at once.
        if after > before / 10 * 9 {
            return None;
        }
        let words = whole(checkpoint * WORDS);
        let pointers =
            summarized.iter().filter(|part| matches!(part, PlanPart::Pointer(_))).count();
        Some(Plan {
            parts,
            summarized,
            condensed: CompactionFacts {
                turns: self.turn_numbers(middle.clone()),
                kept: self.count_turns(newest.start..self.pieces.len()),
                pointers: pointers as u64,
                left_out,
                known: self.known_content(middle),
            },
            words,
            before: self.estimate.tokens(before),
            after: self.estimate.tokens(after),
        })
    }

    /// Adds the pieces of a range unchanged, with pointers for results of more than `most` bytes.
    fn push_span(&self, parts: &mut Vec<PlanPart>, range: Range<usize>, most: usize) {
        let is_replaced = |at: usize, part: &PlanPart| {
            matches!(part, PlanPart::Keep(_)) && self.state(at) == Some(NoticeState::Pointers)
        };
        let all = range.map(|at| (at, self.part(at, most)));
        parts.extend(all.filter(|(at, part)| !is_replaced(*at, part)).map(|(_, part)| part));
    }

    fn push_newest(&self, parts: &mut Vec<PlanPart>, newest: &Newest) {
        let range = newest.start..self.pieces.len();
        if newest.is_cut {
            self.push_span(parts, range, LONG_IN_NEWEST);
        } else if let Some(piece) = self.pieces.get(newest.start) {
            parts.push(PlanPart::Keep(piece.span.start..self.text.len()));
        }
    }

    /// The last version of each section of the first context that a `context-update` has changed; for the file's
    /// history, all versions, since each holds only what is new.
    fn lasting_updates(&self, end: usize) -> Vec<usize> {
        let mut seen = HashSet::new();
        let updates = (0..end).rev().filter(|at| {
            let piece = &self.pieces[*at];
            let section = piece.get("section").unwrap_or_default();
            piece.name() == Some("context-update") && (section == MEMORY || seen.insert(section))
        });
        let mut updates: Vec<usize> = updates.collect();
        updates.reverse();
        updates
    }

    /// The user's words: prompts and notes, truncated so that they fit into so many bytes, and checkpoints that the
    /// user has edited, which stay unchanged. If even short beginnings do not fit: the first and the newest, and the
    /// number left out.
    fn prompts(&self, range: Range<usize>, most: usize) -> (Vec<PlanPart>, u64) {
        let is_prompt = |at: &usize| matches!(self.pieces[*at].name(), None | Some("user-prompt"));
        let all: Vec<usize> = range.clone().filter(is_prompt).collect();
        let length = |at: usize, head: usize| {
            let piece = &self.pieces[at];
            let tags = piece.span.len() - piece.body_text(self.text).len();
            tags + piece.body_text(self.text).len().min(head + POINTER) + 2
        };
        let sum = |head: usize| all.iter().map(|at| length(*at, head)).sum::<usize>();
        let mut head = PROMPT;
        while head > LEAST_PROMPT && sum(head) > most {
            head /= 2;
        }
        let mut left = most.saturating_sub(all.first().map_or(0, |at| length(*at, head)));
        let newest = all.iter().skip(1).rev().take_while(|at| {
            let rest = left.checked_sub(length(**at, head));
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let chosen: HashSet<usize> = all.first().into_iter().chain(newest).copied().collect();
        let part = |at: usize| {
            let piece = &self.pieces[at];
            if is_prompt(&at) && piece.body_text(self.text).len() > head + POINTER {
                PlanPart::Head(at, head)
            } else {
                PlanPart::Keep(piece.span.clone())
            }
        };
        let stays = range.filter(|at| chosen.contains(at) || self.is_users_checkpoint(*at));
        (stays.map(part).collect(), (all.len() - chosen.len()) as u64)
    }

    /// Whether this is a checkpoint that the user has edited but not emptied.
    fn is_users_checkpoint(&self, at: usize) -> bool {
        self.state(at) == Some(NoticeState::Edited)
            && !self.pieces[at].body_text(self.text).trim().is_empty()
    }

    /// The last result of each child that can be continued by its name, the newest 16.
    fn children(&self, range: Range<usize>) -> Vec<PlanPart> {
        let mut seen = HashSet::new();
        let mut last: Vec<usize> = range
            .rev()
            .filter(|at| {
                let piece = &self.pieces[*at];
                let is_named = piece.get("conversation").is_some() && piece.get("file").is_none();
                let name = piece.get("name").or_else(|| piece.get("conversation"));
                piece.name() == Some("nagent-conversation-result") && is_named && seen.insert(name)
            })
            .take(16)
            .collect();
        last.reverse();
        last.into_iter().map(|at| self.part(at, LONG_IN_NEWEST)).collect()
    }

    /// A piece as it is, or a pointer to it if it is longer than `most`.
    fn part(&self, at: usize, most: usize) -> PlanPart {
        match self.pointer_savings(at, most) {
            Some(_) => PlanPart::Pointer(at),
            None => PlanPart::Keep(self.pieces[at].span.clone()),
        }
    }

    /// The state of a block of an earlier compaction; `None` for any other piece, and for an unedited checkpoint, which is
    /// summarized into the next one.
    fn state(&self, at: usize) -> Option<NoticeState> {
        let piece = &self.pieces[at];
        let notice = Notice::read(piece).filter(|_| piece.name() == Some("system"))?;
        if notice.is_edited(piece.body_text(self.text)) {
            return Some(NoticeState::Edited);
        }
        notice.turns.is_none().then_some(NoticeState::Pointers)
    }

    fn count_turns(&self, range: Range<usize>) -> u64 {
        let turns = self.pieces[range].iter();
        turns.filter(|piece| piece.name() == Some("nagent-turn-status")).count() as u64
    }

    fn turn_numbers(&self, range: Range<usize>) -> Option<(u64, u64)> {
        let statuses = self.pieces[range].iter();
        let statuses = statuses.filter(|piece| piece.name() == Some("nagent-turn-status"));
        let numbers = statuses.filter_map(|piece| piece.number("turn"));
        let numbers: Vec<u64> = numbers.collect();
        Some((*numbers.iter().min()?, *numbers.iter().max()?))
    }

    /// In a file's own conversation: the last content of the file that it knew, if the range records it.
    fn known_content(&self, range: Range<usize>) -> Option<String> {
        let is_files = self
            .pieces
            .iter()
            .any(|piece| piece.name() == Some("user-prompt") && piece.get("before").is_some());
        let mut last = self.pieces[range].iter().rev();
        let known = last.find_map(|piece| piece.get("after").or_else(|| piece.get("before")))?;
        is_files.then(|| known.to_owned())
    }

    /// The approximate size of a part in the new text, in bytes.
    fn bytes_of(&self, part: &PlanPart) -> usize {
        match part {
            PlanPart::Keep(range) => self.bytes_of_range(range.clone()) + 2,
            PlanPart::Pointer(at) => {
                let piece = &self.pieces[*at];
                piece.span.len() - piece.body_text(self.text).len() + POINTER + 2
            }
            PlanPart::Head(_, bytes) => bytes + POINTER,
            PlanPart::Notice => 400,
        }
    }
}

#[cfg(test)]
mod tests;
