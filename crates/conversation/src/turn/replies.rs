//! Handles a reply: counts and parses it, stores it or saves it separately, and queues its actions.

use serde::de::IgnoredAny;

use std::collections::VecDeque;

use super::event::{Effect, Verdict};
use super::unfinished::group_actions;
use super::{BadReply, NextStep, Turn, TurnState};
use crate::exit::Exit;
use crate::format::file::Block;
use crate::limits::{self, MALFORMED_REPLIES};
use crate::model::{Reply, StopReason};
use crate::protocol::{self, Access, Action, Malformed, ParsedReply, ReplyItem};

impl Turn {
    pub(super) fn after_reply(&mut self, reply: Reply, cost: Option<f64>, at: String) -> Effect {
        let status = self.count_reply(&reply, cost, &at);
        let questioned = self.questioned.take();
        if reply.stop == StopReason::Length {
            self.verdict = Verdict::Cut;
            let message = "your reply was cut off by the length limit, and nothing in it was run. \
                           Send a shorter one: fewer or smaller tags, and write large files in several steps"
                .to_owned();
            let why = "it was cut off by the length limit";
            return self.save_reply(reply.text, status, None, message, why);
        }
        match protocol::parse_reply_with(&reply.text, self.rules.tags) {
            ParsedReply::Whole(items)
                if let Some(tag) = self.find_action_in_answer(&items)
                    && questioned.as_ref() != Some(&reply.text) =>
            {
                self.verdict = Verdict::Malformed;
                let message = format!(
                    "your answer contains <{tag}>: tags in an answer are text and do not run. Send the action outside of it; the \
                     same reply sent again is your answer"
                );
                self.questioned = Some(reply.text.clone());
                let why = format!("its answer contains <{tag}>");
                self.save_reply(reply.text, status, None, message, &why)
            }
            ParsedReply::Whole(items) => {
                (self.bad_in_a_row, self.verdict) = (0, Verdict::Whole);
                let blocks = vec![Block::new("agent-response").body(reply.text), status];
                self.store_reply(blocks, items, false)
            }
            ParsedReply::Forged { items, kept, block, offset } => {
                let message = format!(
                    "at byte {offset} you wrote <{block}>, which only nagent writes. The part of your reply before it \
                     was stored and run, the rest was not. Results follow your reply; never write them yourself"
                );
                let valid = Some((kept.to_owned(), items));
                self.verdict = Verdict::Forged;
                let why = format!("it has a <{block}>, which only nagent writes");
                self.save_reply(reply.text, status, valid, message, &why)
            }
            // Corrected once, the model says it in words again: that is its answer. And so is JSON, where that is asked for.
            ParsedReply::Malformed(_)
                if is_words(&reply.text) && questioned.as_deref().is_some_and(is_words)
                    || self.rules.has_schema
                        && serde_json::from_str::<IgnoredAny>(&reply.text).is_ok() =>
            {
                self.save_words(reply.text, status)
            }
            ParsedReply::Malformed(malformed) => {
                self.questioned = is_words(&reply.text).then(|| reply.text.clone());
                self.verdict = Verdict::Malformed;
                let (bytes, tags) = (reply.text.len(), reply.text.matches("<nagent-").count());
                let message = format!(
                    "your reply is malformed, and nothing in it was run: {malformed}. All of it is lost ({bytes} bytes, \
                     {tags} tags): send it again in full, corrected"
                );
                let Malformed { line, excerpt, .. } = malformed;
                // The user sees only the first line of it.
                let start = excerpt.split("\\n").next().unwrap_or_default();
                let why = if reply.text.trim().is_empty() {
                    "it is empty".to_owned()
                } else {
                    format!("it does not follow nagent's protocol (line {line}: {start})")
                };
                self.save_reply(reply.text, status, None, message, &why)
            }
        }
    }

    /// Takes words without a tag for the answer.
    fn save_words(&mut self, text: String, status: Block) -> Effect {
        (self.bad_in_a_row, self.verdict) = (0, Verdict::Whole);
        let answer = text.trim().to_owned();
        let stored = format!("<nagent-response>\n{answer}\n</nagent-response>");
        let message =
            "your words were taken as the answer: next time, write it in <nagent-response>";
        self.state = TurnState::SavingReply(BadReply {
            status,
            valid: Some((stored, vec![ReplyItem::Response(answer)])),
            message: message.to_owned(),
            is_answer: true,
            is_empty: false,
            exit: None,
        });
        let note = "the model answered without a tag; its words were taken as the answer";
        Effect::SaveReply { text, note: note.to_owned() }
    }

    /// The tag of an action that a reply without actions has in its answer.
    fn find_action_in_answer(&self, items: &[ReplyItem]) -> Option<&'static str> {
        let texts = items.iter().map(|item| match item {
            ReplyItem::Action(_) => None,
            ReplyItem::Response(text) => Some(text),
        });
        let texts: Vec<&String> = texts.collect::<Option<_>>()?;
        texts.into_iter().find_map(|text| protocol::find_action_in(text, self.rules.tags))
    }

    /// Counts a reply and its cost; returns the block that reports them.
    fn count_reply(&mut self, reply: &Reply, cost: Option<f64>, at: &str) -> Block {
        (self.was_refused, self.answer) = (false, None);
        self.totals.turns += 1;
        self.totals.all_turns += 1;
        self.totals.own.add(&reply.usage);
        self.add_spending(&reply.usage, cost);
        self.status_block(reply, cost, at)
    }

    /// Ends the run with the part of a reply that arrived before a signal, or before the time was over. It is billed, and the
    /// user may have read it.
    pub(super) fn after_cut_off(
        &mut self,
        exit: Exit,
        reply: Reply,
        cost: Option<f64>,
        at: &str,
    ) -> Effect {
        let status = self.count_reply(&reply, cost, at);
        self.verdict = Verdict::Cut;
        let (valid, message, exit) = (None, String::new(), Some(exit));
        let bad = BadReply { status, valid, message, is_answer: false, is_empty: false, exit };
        self.state = TurnState::SavingReply(bad);
        let note = format!("kept the {} bytes of the reply that had arrived", reply.text.len());
        Effect::SaveReply { text: reply.text, note }
    }

    /// Saves a reply that cannot be used as it is. The message is for the model, the note for the user.
    fn save_reply(
        &mut self,
        text: String,
        status: Block,
        valid: Option<(String, Vec<ReplyItem>)>,
        message: String,
        why: &str,
    ) -> Effect {
        let number = self.bad_in_a_row + 1;
        let note = match valid {
            Some(_) => format!("a part of the reply was not used: {why}"),
            None => format!("reply {number} of {MALFORMED_REPLIES} was not used: {why}"),
        };
        let is_empty = text.trim().is_empty();
        let bad = BadReply { status, valid, message, is_answer: false, is_empty, exit: None };
        self.state = TurnState::SavingReply(bad);
        Effect::SaveReply { text, note }
    }

    pub(super) fn after_saving(&mut self, bad: BadReply, path: String) -> Effect {
        let BadReply { status, valid, message, is_answer, is_empty, exit } = bad;
        let status = status.with("invalid", &path);
        if let Some(exit) = exit {
            let error = if let Exit::Signal(signal) = exit {
                format!("the run was interrupted by {}", signal.name())
            } else {
                self.seconds = self.rules.limits.max_seconds.unwrap_or(self.seconds);
                format!("the run ended: {}", self.reached_limit().unwrap_or_default())
            };
            let message = format!(
                "{error} in the middle of your reply, and nothing of it was run; what had arrived of it is in {path}"
            );
            return self.end_without_answer(exit, vec![status], message, error);
        }
        let has_action = valid
            .iter()
            .flat_map(|(_, items)| items)
            .any(|item| matches!(item, ReplyItem::Action(_)));
        if !has_action && !is_answer {
            self.bad_in_a_row += 1;
        }
        let note = Block::new("system").body(message.clone());
        if self.bad_in_a_row >= limits::MALFORMED_REPLIES {
            if self.verdict == Verdict::Cut {
                let error = format!(
                    "the model gave no whole reply in {MALFORMED_REPLIES} tries: the last one, in {path}, was cut off by the length \
                     limit. \"max_output_tokens\" in the config sets that limit, up to the maximum of the model; reasoning counts too, \
                     and --reasoning low needs less. Or ask for less at once"
                );
                return self.end_without_answer(Exit::Malformed, vec![status], message, error);
            }
            // This text is for the user; the model got the details in the conversation.
            let last = if is_empty { ", which is empty," } else { "" };
            // Scripts have no such flag.
            let is_script = self.rules.tags == protocol::TagSet::SCRIPTS;
            let grammar = "; --grammar makes a small one, with llama.cpp or vLLM";
            let error = format!(
                "the model did not follow nagent's protocol in {MALFORMED_REPLIES} tries; its last reply{last} is in {path}. A \
                 larger model usually does{}",
                if is_script { "" } else { grammar }
            );
            return self.end_without_answer(Exit::Malformed, vec![status], message, error);
        }
        match valid {
            None => self.append(vec![status, note], NextStep::Ask),
            Some((text, items)) => {
                let blocks = vec![Block::new("agent-response").body(text), status, note];
                self.store_reply(blocks, items, !is_answer)
            }
        }
    }

    /// Appends a valid reply. A forged one never ends the run.
    fn store_reply(&mut self, blocks: Vec<Block>, items: Vec<ReplyItem>, forged: bool) -> Effect {
        let mut responses = Vec::new();
        let mut actions = Vec::new();
        for item in items {
            match item {
                ReplyItem::Response(text) => responses.push(text),
                ReplyItem::Action(action) => actions.push(action),
            }
        }
        let (rest, running) = (group_actions(&actions), VecDeque::new());
        let then = match (actions.is_empty(), forged) {
            (true, false) => NextStep::Answer(responses),
            (true, true) => NextStep::Ask,
            (false, false) if self.rules.ends_with_writes && ends_in_answer(&blocks, &actions) => {
                self.answer = Some(responses);
                NextStep::Results { running, rest }
            }
            (false, _) if responses.is_empty() => NextStep::Results { running, rest },
            (false, _) => NextStep::Say { notes: responses, rest },
        };
        self.append(blocks, then)
    }

    fn status_block(&mut self, reply: &Reply, cost: Option<f64>, at: &str) -> Block {
        let usage = &reply.usage;
        let mut block = Block::new("nagent-turn-status")
            .with("at", at)
            .with("turn", self.rules.first_turn + self.totals.turns)
            .with("tokens_in", usage.input)
            .with("tokens_out", usage.output)
            .with("tokens_cached", usage.cached);
        if self.totals.turns == 1 {
            block = block
                .with_some("model", Some(&self.rules.model).filter(|it| !it.is_empty()))
                .with_some("run", Some(&self.rules.run).filter(|it| !it.is_empty()));
        }
        if let Some(cost) = cost {
            block = block.with("cost", format!("{cost:.6}"));
        }
        if usage.estimated {
            block = block.with("estimated", "true");
        }
        if let Some((count, error)) = self.failures.take() {
            block = block.with("retries", count).with("last_error", error);
        }
        block
    }
}

/// Whether a reply only writes, and ends in an answer: words behind a write are a note.
fn ends_in_answer(blocks: &[Block], actions: &[Action]) -> bool {
    let reply = blocks.first().and_then(|reply| reply.body.as_deref()).unwrap_or_default();
    reply.trim_end().ends_with("</nagent-response>")
        && actions.iter().all(|action| action.access() == Access::Write)
}

/// Whether a reply is words alone: no tag was begun, and no call in JSON.
fn is_words(reply: &str) -> bool {
    let text = reply.trim();
    let begins_call =
        text.starts_with(['{', '[', '<']) || text.to_ascii_lowercase().contains("<nagent");
    text.contains(char::is_alphanumeric) && !begins_call
}
