//! The loop as a state machine: it takes an [`Event`] and returns the next [`Effect`].
//!
//! Each reply of the model is appended and its actions are run, until a reply holds no action or a limit is reached.
//!
//! It decides what is stored and in which order, what counts as an answer, how often a malformed reply is requested again,
//! when a provider is tried again, and when a limit ends the run. It does no I/O, reads no clock and draws no random
//! number: times, jitter and paths come with events. [`crate::drive`] performs the effects.

pub mod event;
pub mod unfinished;

use std::collections::VecDeque;

use self::event::{Acted, Effect, Event, Limits, Outcome, Rules, Totals, Verdict};
use self::unfinished::{ActionGroups, group_actions, result_of_unrun};
use crate::approve::Decision;
use crate::exit::{Exit, Signal};
use crate::format::conversation::Block;
use crate::limits::{self, FAILED_CHECKS, MALFORMED_REPLIES};
use crate::llm::retry::Retry;
use crate::llm::{ApiError, Reply, StopReason, Usage};
use crate::protocol::{self, Action, Item, Malformed, ParsedReply};

/// The state machine.
#[derive(Debug)]
pub struct Turn {
    rules: Rules,
    totals: Totals,
    state: State,
    retry: Retry,
    /// The errors of the provider since the last reply: how many, and the last one.
    failures: Option<(u32, String)>,
    verdict: Verdict,
    bad: u32,
    failed_checks: u32,
    seconds: f64,
}

#[derive(Debug)]
enum State {
    /// The end of an append, and what follows it.
    Appending(NextStep),
    Asking,
    Waiting,
    /// The path of a bad reply that is being saved.
    Keeping(BadReply),
    /// A message was shown; the actions follow.
    Saying(ActionGroups),
    /// The decision about the only action of the group before the others.
    Deciding {
        action: Action,
        rest: ActionGroups,
    },
    /// The results of `running`, the actions that were started, before the other groups.
    Acting {
        running: VecDeque<Action>,
        rest: ActionGroups,
    },
    /// The result of the check of this answer.
    Checking(Vec<String>),
    /// Nothing: the run is over.
    Over,
}

#[derive(Debug)]
enum NextStep {
    Ask,
    Say { notes: Vec<String>, rest: ActionGroups },
    Results { running: VecDeque<Action>, rest: ActionGroups },
    Answer(Vec<String>),
    Done(Outcome),
}

/// A bad reply that is being saved, and the correction for the model.
#[derive(Debug)]
struct BadReply {
    status: Block,
    /// The part of a forged reply before the forged block.
    valid: Option<(String, Vec<Item>)>,
    message: String,
    /// The signal that ended the run in the middle of the reply.
    signal: Option<Signal>,
}

impl Turn {
    /// Starts a run. The first effect appends the opening blocks: repairs, files to read, the prompt.
    pub fn start(rules: Rules, opening: Vec<Block>) -> (Self, Effect) {
        let retry = Retry::new(rules.patience);
        let turn = Self {
            rules,
            totals: Totals::default(),
            state: State::Appending(NextStep::Ask),
            retry,
            failures: None,
            verdict: Verdict::Whole,
            bad: 0,
            failed_checks: 0,
            seconds: 0.0,
        };
        (turn, Effect::Append(opening))
    }

    /// Counts tokens and dollars that were spent outside the turns of this run. They count against its limits.
    pub fn spend(&mut self, usage: &Usage, cost: Option<f64>) {
        self.totals.all.add(usage);
        match cost {
            Some(cost) => self.totals.cost += cost,
            None => self.totals.unpriced = true,
        }
    }

    /// The totals so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What the last reply turned out to be.
    pub fn last_verdict(&self) -> Verdict {
        self.verdict
    }

    /// What is left of the limits; a child conversation gets these.
    pub fn remaining_limits(&self) -> Limits {
        let used = self.totals.all.input.saturating_add(self.totals.all.output);
        let limits = self.rules.limits;
        Limits {
            turns: limits.turns.saturating_sub(self.totals.all_turns),
            seconds: limits.seconds.map(|seconds| (seconds - self.seconds).max(0.0)),
            tokens: limits.tokens.map(|tokens| tokens.saturating_sub(used)),
            cost: limits.cost.map(|cost| (cost - self.totals.cost).max(0.0)),
        }
    }

    /// Processes an event and returns the next effect. An unexpected event, a bug in the caller, ends the run with an error.
    pub fn step(&mut self, event: Event) -> Effect {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, event) {
            (State::Over, _) => self.end_with_error(Exit::Failed, "the run is already over"),
            (state, Event::Interrupted { signal, results }) => {
                self.interrupted(state, signal, results)
            }
            (State::Appending(then), Event::Appended(seconds)) => {
                self.seconds = seconds;
                self.continue_with(then)
            }
            (State::Asking, Event::Replied { reply, cost, at }) => {
                self.after_reply(reply, cost, at)
            }
            (State::Asking, Event::CutOff { signal, reply, cost, at }) => {
                self.after_cut_off(signal, reply, cost, &at)
            }
            (State::Asking, Event::Failed { error, cost, jitter }) => {
                // A refused reply is billed.
                if let Some(usage) = &error.usage {
                    self.totals.own.add(usage);
                    self.spend(usage, cost);
                }
                self.after_failure(error, jitter)
            }
            (State::Waiting, Event::Waited) => self.ask_model(),
            (State::Keeping(reply), Event::Kept(path)) => self.after_saving(reply, path),
            (State::Saying(rest), Event::Said) => self.run_next_group(rest),
            (State::Deciding { action, rest }, Event::Decided(decision)) => {
                self.after_decision(action, rest, decision)
            }
            (State::Acting { running, rest }, Event::Acted(acted)) => {
                self.after_action(running, rest, acted)
            }
            (State::Checking(answer), Event::Checked { passed, block }) => {
                self.after_check(answer, passed, block)
            }
            (state, event) => {
                let message = format!("bug in nagent: {event:?} is not an answer to {state:?}");
                self.end_with_error(Exit::Failed, &message)
            }
        }
    }

    fn append(&mut self, blocks: Vec<Block>, then: NextStep) -> Effect {
        self.state = State::Appending(then);
        Effect::Append(blocks)
    }

    fn end_with_error(&mut self, exit: Exit, message: &str) -> Effect {
        self.state = State::Over;
        Effect::Done(Outcome { exit, responses: Vec::new(), error: Some(message.to_owned()) })
    }

    /// Appends the last blocks of a run without an answer, and after them the block that records how it ended.
    fn end_without_answer(
        &mut self,
        exit: Exit,
        mut blocks: Vec<Block>,
        message: String,
        error: String,
    ) -> Effect {
        blocks.push(Block::new("system").with("exit", exit.code()).body(message));
        let outcome = Outcome { exit, responses: Vec::new(), error: Some(error) };
        self.append(blocks, NextStep::Done(outcome))
    }

    fn continue_with(&mut self, then: NextStep) -> Effect {
        match then {
            NextStep::Ask => self.ask_within_limits(),
            NextStep::Say { notes, rest } => {
                self.totals.notes.extend(notes.iter().cloned());
                self.state = State::Saying(rest);
                Effect::Say(notes.join("\n"))
            }
            NextStep::Results { running, rest } if running.is_empty() => self.run_next_group(rest),
            NextStep::Results { running, rest } => {
                self.state = State::Acting { running, rest };
                Effect::Next
            }
            NextStep::Answer(responses) => self.accept_answer(responses),
            NextStep::Done(outcome) => {
                self.state = State::Over;
                Effect::Done(outcome)
            }
        }
    }

    fn accept_answer(&mut self, responses: Vec<String>) -> Effect {
        if self.rules.check.is_some() {
            self.state = State::Checking(responses);
            return Effect::Check;
        }
        self.state = State::Over;
        Effect::Done(Outcome { exit: Exit::Done, responses, error: None })
    }

    fn ask_model(&mut self) -> Effect {
        self.state = State::Asking;
        Effect::Ask
    }

    fn ask_within_limits(&mut self) -> Effect {
        let Some(limit) = self.reached_limit() else {
            self.retry = Retry::new(self.rules.patience);
            return self.ask_model();
        };
        let message = format!("the run ended: {limit}");
        self.end_without_answer(Exit::Limit, Vec::new(), message, limit)
    }

    /// Describes the limit that has been reached, with the flag that raises it.
    fn reached_limit(&self) -> Option<String> {
        let Limits { turns, seconds, tokens, cost } = self.rules.limits;
        let used = self.totals.all.input.saturating_add(self.totals.all.output);
        let spent = self.totals.cost;
        let limit = if self.totals.all_turns >= turns {
            format!("{turns} turns was reached (--max-turns)")
        } else if let Some(limit) = seconds.filter(|limit| self.seconds >= *limit) {
            format!("{limit} seconds was reached (--max-seconds)")
        } else if let Some(limit) = tokens.filter(|limit| used >= *limit) {
            format!("{limit} tokens was reached with {used} (--max-tokens)")
        } else {
            let limit = cost.filter(|limit| spent >= *limit)?;
            format!("{limit} dollars was reached with {spent:.4} (--max-cost)")
        };
        Some(format!("the limit of {limit}"))
    }

    fn after_failure(&mut self, error: ApiError, jitter: f64) -> Effect {
        if let Some(time) = self.retry.next_wait(&error, jitter) {
            let before = self.failures.take().map_or(0, |(count, _)| count);
            let line = error.message.split_whitespace().collect::<Vec<_>>().join(" ");
            self.failures = Some((before + 1, line));
            self.state = State::Waiting;
            return Effect::Wait { time, error };
        }
        let error = self.retry.final_message(&error);
        let message = format!("the model gave no reply: {error}");
        self.end_without_answer(Exit::Provider, Vec::new(), message, error)
    }

    fn after_reply(&mut self, reply: Reply, cost: Option<f64>, at: String) -> Effect {
        let status = self.count_reply(&reply, cost, &at);
        if reply.stop == StopReason::Length {
            self.verdict = Verdict::Cut;
            let message = "your reply was cut off by the length limit, and nothing in it was run. \
                           Send a shorter one: fewer or smaller tags, and large files in several steps"
                .to_owned();
            let why = "it was cut off by the length limit";
            return self.keep_reply(reply.text, status, None, message, why);
        }
        match protocol::parse_reply_with(&reply.text, self.rules.tags) {
            ParsedReply::Whole(items) => {
                (self.bad, self.verdict) = (0, Verdict::Whole);
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
                self.keep_reply(reply.text, status, valid, message, &why)
            }
            ParsedReply::Malformed(malformed) => {
                self.verdict = Verdict::Malformed;
                let (bytes, tags) = (reply.text.len(), reply.text.matches("<nagent-").count());
                let message = format!(
                    "your reply is malformed, and nothing in it was run: {malformed}. All of it is lost ({bytes} bytes, \
                     {tags} tags): send it again in full, corrected"
                );
                let Malformed { line, excerpt, .. } = malformed;
                let why = format!("it does not follow nagent's protocol (line {line}: {excerpt})");
                self.keep_reply(reply.text, status, None, message, &why)
            }
        }
    }

    /// Counts a reply and what it cost; returns the block that reports them.
    fn count_reply(&mut self, reply: &Reply, cost: Option<f64>, at: &str) -> Block {
        self.totals.turns += 1;
        self.totals.all_turns += 1;
        self.totals.own.add(&reply.usage);
        self.spend(&reply.usage, cost);
        self.status_block(reply, cost, at)
    }

    /// Ends the run with the part of a reply that came before a signal. It is paid for, and the user may have read it.
    fn after_cut_off(
        &mut self,
        signal: Signal,
        reply: Reply,
        cost: Option<f64>,
        at: &str,
    ) -> Effect {
        let status = self.count_reply(&reply, cost, at);
        self.verdict = Verdict::Cut;
        let (valid, message) = (None, String::new());
        self.state = State::Keeping(BadReply { status, valid, message, signal: Some(signal) });
        let note = format!("what had arrived of the reply is kept: {} bytes", reply.text.len());
        Effect::Keep { text: reply.text, note }
    }

    /// Keeps a reply that cannot be used as it is: the model reads the message, a person why.
    fn keep_reply(
        &mut self,
        text: String,
        status: Block,
        valid: Option<(String, Vec<Item>)>,
        message: String,
        why: &str,
    ) -> Effect {
        let number = self.bad + 1;
        let note = match valid {
            Some(_) => format!("a part of the reply was not used: {why}"),
            None => format!("reply {number} of {MALFORMED_REPLIES} was not used: {why}"),
        };
        self.state = State::Keeping(BadReply { status, valid, message, signal: None });
        Effect::Keep { text, note }
    }

    fn after_saving(&mut self, kept: BadReply, path: String) -> Effect {
        let BadReply { status, valid, message, signal } = kept;
        let status = status.with("invalid", &path);
        if let Some(signal) = signal {
            let error = format!("the run was interrupted by {}", signal.name());
            let message = format!(
                "{error} in the middle of your reply, and nothing of it was run; what had arrived of it is in {path}"
            );
            return self.end_without_answer(Exit::Signal(signal), vec![status], message, error);
        }
        let has_action =
            valid.iter().flat_map(|(_, items)| items).any(|item| matches!(item, Item::Action(_)));
        if !has_action {
            self.bad += 1;
        }
        let note = Block::new("system").body(message.clone());
        if self.bad >= limits::MALFORMED_REPLIES {
            // For a person, who cannot write tags; what was wrong with them is in the conversation.
            let error = format!(
                "the model did not follow nagent's protocol in {MALFORMED_REPLIES} tries; its last reply is in {path}. A larger \
                 model usually does, and nagent --print-protocol gbnf constrains a local one"
            );
            return self.end_without_answer(Exit::Malformed, vec![status], message, error);
        }
        match valid {
            None => self.append(vec![status, note], NextStep::Ask),
            Some((text, items)) => {
                let blocks = vec![Block::new("agent-response").body(text), status, note];
                self.store_reply(blocks, items, true)
            }
        }
    }

    /// Appends a valid reply. A forged one never ends the run.
    fn store_reply(&mut self, blocks: Vec<Block>, items: Vec<Item>, forged: bool) -> Effect {
        let mut responses = Vec::new();
        let mut actions = Vec::new();
        for item in items {
            match item {
                Item::Response(text) => responses.push(text),
                Item::Action(action) => actions.push(action),
            }
        }
        let then = match (actions.is_empty(), forged) {
            (true, false) => NextStep::Answer(responses),
            (true, true) => NextStep::Ask,
            (false, _) if responses.is_empty() => {
                NextStep::Results { running: VecDeque::new(), rest: group_actions(&actions) }
            }
            (false, _) => NextStep::Say { notes: responses, rest: group_actions(&actions) },
        };
        self.append(blocks, then)
    }

    fn run_next_group(&mut self, mut rest: ActionGroups) -> Effect {
        let Some(mut group) = rest.pop_front() else { return self.ask_within_limits() };
        if group.iter().any(|action| self.needs_decision(action)) {
            // Children that are asked about are started one by one.
            let action = group.remove(0);
            if !group.is_empty() {
                rest.push_front(group);
            }
            self.state = State::Deciding { action: action.clone(), rest };
            return Effect::Decide(action);
        }
        self.run_group(group, rest)
    }

    fn run_group(&mut self, group: Vec<Action>, rest: ActionGroups) -> Effect {
        self.state = State::Acting { running: group.iter().cloned().collect(), rest };
        Effect::Act(group)
    }

    fn needs_decision(&self, action: &Action) -> bool {
        let is_command = matches!(action, Action::Shell { .. });
        self.rules.approve.covers(action) || self.rules.has_stop_list && is_command
    }

    fn after_decision(&mut self, action: Action, rest: ActionGroups, decision: Decision) -> Effect {
        match decision {
            Decision::Allow => self.run_group(vec![action], rest),
            Decision::Replace(other) => self.run_group(vec![other], rest),
            Decision::Refuse(why) => {
                let block = Block::new(action.result_block()).with("status", "error");
                let block = block.body(format!("not run: {why}"));
                self.append(vec![block], NextStep::Results { running: VecDeque::new(), rest })
            }
            Decision::Fail(error) => {
                let actions = std::iter::once(action).chain(rest.into_iter().flatten());
                let blocks = actions.map(|action| result_of_unrun(&action, "not-run")).collect();
                let message = format!("the run ended: {error}");
                self.end_without_answer(Exit::Usage, blocks, message, error)
            }
        }
    }

    fn after_action(
        &mut self,
        mut running: VecDeque<Action>,
        rest: ActionGroups,
        acted: Acted,
    ) -> Effect {
        running.pop_front();
        self.spend(&acted.usage, acted.cost);
        self.totals.all_turns = self.totals.all_turns.saturating_add(acted.turns);
        self.append(vec![acted.block], NextStep::Results { running, rest })
    }

    fn after_check(&mut self, answer: Vec<String>, passed: bool, block: Block) -> Effect {
        if passed {
            let outcome = Outcome { exit: Exit::Done, responses: answer, error: None };
            return self.append(vec![block], NextStep::Done(outcome));
        }
        self.failed_checks += 1;
        // A rejected answer is not lost.
        self.totals.notes.extend(answer);
        if self.failed_checks < limits::FAILED_CHECKS {
            return self.append(vec![block], NextStep::Ask);
        }
        let check = self.rules.check.as_deref().unwrap_or_default();
        let error = format!("the check failed {FAILED_CHECKS} times: {check}");
        let message = format!("the run ended: {error}");
        self.end_without_answer(Exit::Unchecked, vec![block], message, error)
    }

    fn interrupted(&mut self, state: State, signal: Signal, results: Vec<Block>) -> Effect {
        let (running, rest) = match state {
            State::Acting { running, rest }
            | State::Appending(NextStep::Results { running, rest }) => (running, Some(rest)),
            State::Saying(rest) | State::Appending(NextStep::Say { rest, .. }) => {
                (VecDeque::new(), Some(rest))
            }
            State::Deciding { action, mut rest } => {
                rest.push_front(vec![action]);
                (VecDeque::new(), Some(rest))
            }
            _ => (VecDeque::new(), None),
        };
        let unanswered = running
            .into_iter()
            .skip(results.len())
            .map(|action| result_of_unrun(&action, "unknown"));
        let never = rest.into_iter().flatten().flatten();
        let mut blocks = results;
        blocks.extend(unanswered);
        blocks.extend(never.map(|action| result_of_unrun(&action, "not-run")));
        let message = format!("the run was interrupted by {}", signal.name());
        let error = format!("interrupted by {}", signal.name());
        self.end_without_answer(Exit::Signal(signal), blocks, message, error)
    }

    fn status_block(&mut self, reply: &Reply, cost: Option<f64>, at: &str) -> Block {
        let usage = &reply.usage;
        let mut block = Block::new("nagent-turn-status")
            .with("at", at)
            .with("turn", self.rules.first_turn + self.totals.turns)
            .with("tokens_in", usage.input)
            .with("tokens_out", usage.output)
            .with("tokens_cached", usage.cached);
        if self.totals.turns == 1 && !self.rules.model.is_empty() {
            block = block.with("model", &self.rules.model);
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

#[cfg(test)]
mod tests;
