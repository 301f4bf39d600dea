//! The loop as a value: what happened goes in as an [`Event`], what to do next comes out as an [`Effect`].
//!
//! ```text
//! append the prompt
//! repeat
//!     reply = model(conversation)
//!     append the reply
//!     run its actions, append each result
//! until the reply held no action, or a limit was reached
//! ```
//! Here are the rules of the loop: what is stored and in which order, what counts as an answer, how often a bad
//! reply is asked for again, when a provider is tried again, when a limit ends the run. It does no I/O, reads no
//! clock and draws no random number: times, jitter and paths arrive in events. [`crate::drive`] performs the effects.

pub mod event;
mod groups;
pub mod unfinished;

use std::collections::VecDeque;

use self::event::{Acted, Effect, Event, Limits, Outcome, Rules, Totals};
use self::groups::ActionGroups;
use self::unfinished::result_of_unrun;
use crate::exit::{Exit, Signal};
use crate::format::conversation::Block;
use crate::llm::retry::Retry;
use crate::llm::{ApiError, Reply, Stop, Usage};
use crate::protocol::{self, Action, Item, ParsedReply};

/// Replies that may be malformed one after the other before the run gives up.
pub const TRIES: u32 = 3;

/// Times that `--check` may fail before the run gives up.
pub const CHECKS: u32 = 5;

/// The state machine.
#[derive(Debug)]
pub struct Turn {
    rules: Rules,
    totals: Totals,
    state: State,
    retry: Retry,
    bad: u32,
    failed_checks: u32,
    seconds: f64,
}

/// What the machine waits for.
#[derive(Debug)]
enum State {
    /// An append, and what comes after it.
    Appending(Then),
    /// The model's reply.
    Asking,
    /// The end of a wait.
    Waiting,
    /// The text of a bad reply being kept.
    Keeping(Kept),
    /// A text being shown, and what comes after it.
    Saying(ActionGroups),
    /// Results: `running` of the group that was started, then the groups that are left.
    Acting { running: VecDeque<Action>, rest: ActionGroups },
    /// The check, with the answer that waits for it.
    Checking(Vec<String>),
    /// Nothing any more.
    Over,
}

/// What to do once an append is durable.
#[derive(Debug)]
enum Then {
    Ask,
    Say { notes: Vec<String>, rest: ActionGroups },
    Results { running: VecDeque<Action>, rest: ActionGroups },
    Answer(Vec<String>),
    Done(Outcome),
}

/// A reply that is being kept, and what is to be said of it.
#[derive(Debug)]
struct Kept {
    status: Block,
    /// The part of a forged reply that stands.
    stands: Option<(String, Vec<Item>)>,
    message: String,
}

impl Turn {
    /// The machine, and its first effect: the opening blocks (what the start found, files read, the prompt).
    pub fn start(rules: Rules, opening: Vec<Block>) -> (Self, Effect) {
        let retry = Retry::new(rules.patience);
        let turn = Self {
            rules,
            totals: Totals::default(),
            state: State::Appending(Then::Ask),
            retry,
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

    /// The sums so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What is left of the limits, for a child to draw on.
    pub fn left(&self) -> Limits {
        let used = self.totals.all.input.saturating_add(self.totals.all.output);
        let limits = self.rules.limits;
        Limits {
            turns: limits.turns.saturating_sub(self.totals.all_turns),
            seconds: limits.seconds.map(|seconds| (seconds - self.seconds).max(0.0)),
            tokens: limits.tokens.map(|tokens| tokens.saturating_sub(used)),
            cost: limits.cost.map(|cost| (cost - self.totals.cost).max(0.0)),
        }
    }

    /// Takes what happened, and says what to do next. An event that the state does not wait for ends the run
    /// with an error; it is a fault of the driver.
    pub fn step(&mut self, event: Event) -> Effect {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, event) {
            (State::Over, _) => self.over(Exit::Failed, "the run is already over"),
            (state, Event::Interrupted { signal, results }) => {
                self.interrupted(state, signal, results)
            }
            (State::Appending(then), Event::Appended { seconds }) => {
                self.seconds = seconds;
                self.then(then)
            }
            (State::Asking, Event::Replied { reply, cost, at }) => self.replied(reply, cost, at),
            (State::Asking, Event::Failed { error, jitter }) => self.failed(error, jitter),
            (State::Waiting, Event::Waited) => self.ask(),
            (State::Keeping(kept), Event::Kept { path }) => self.kept(kept, path),
            (State::Saying(rest), Event::Said) => self.act(rest),
            (State::Acting { running, rest }, Event::Acted(acted)) => {
                self.acted(running, rest, acted)
            }
            (State::Checking(answer), Event::Checked { passed, block }) => {
                self.checked(answer, passed, block)
            }
            (state, event) => {
                let message = format!("the driver answered {} with {}", state.name(), event.name());
                self.over(Exit::Failed, &message)
            }
        }
    }

    fn append(&mut self, blocks: Vec<Block>, then: Then) -> Effect {
        self.state = State::Appending(then);
        Effect::Append(blocks)
    }

    fn over(&mut self, exit: Exit, message: &str) -> Effect {
        self.state = State::Over;
        Effect::Done(Outcome { exit, responses: Vec::new(), error: Some(message.to_owned()) })
    }

    fn then(&mut self, then: Then) -> Effect {
        match then {
            Then::Ask => self.ask_within_limits(),
            Then::Say { notes, rest } => {
                self.totals.notes.extend(notes.iter().cloned());
                self.state = State::Saying(rest);
                Effect::Say(notes.join("\n"))
            }
            Then::Results { running, rest } if running.is_empty() => self.act(rest),
            Then::Results { running, rest } => {
                self.state = State::Acting { running, rest };
                Effect::Next
            }
            Then::Answer(responses) => self.answer(responses),
            Then::Done(outcome) => {
                self.state = State::Over;
                Effect::Done(outcome)
            }
        }
    }

    fn answer(&mut self, responses: Vec<String>) -> Effect {
        if self.rules.check.is_some() {
            self.state = State::Checking(responses);
            return Effect::Check;
        }
        self.state = State::Over;
        Effect::Done(Outcome { exit: Exit::Done, responses, error: None })
    }

    fn ask(&mut self) -> Effect {
        self.state = State::Asking;
        Effect::Ask
    }

    fn ask_within_limits(&mut self) -> Effect {
        let Some(limit) = self.limit() else {
            self.retry = Retry::new(self.rules.patience);
            return self.ask();
        };
        let message = format!("the run ended: {limit}");
        let outcome = Outcome { exit: Exit::Limit, responses: Vec::new(), error: Some(limit) };
        self.append(vec![ending(Exit::Limit, message)], Then::Done(outcome))
    }

    /// The limit that has been reached, and the flag that raises it.
    fn limit(&self) -> Option<String> {
        let Limits { turns, seconds, tokens, cost } = self.rules.limits;
        let used = self.totals.all.input.saturating_add(self.totals.all.output);
        if self.totals.all_turns >= turns {
            return Some(format!("the limit of {turns} turns was reached (--max-turns)"));
        }
        if let Some(limit) = seconds.filter(|limit| self.seconds >= *limit) {
            return Some(format!("the limit of {limit} seconds was reached (--max-seconds)"));
        }
        if let Some(limit) = tokens.filter(|limit| used >= *limit) {
            return Some(format!(
                "the limit of {limit} tokens was reached with {used} (--max-tokens)"
            ));
        }
        if let Some(limit) = cost.filter(|limit| self.totals.cost >= *limit) {
            let cost = self.totals.cost;
            return Some(format!(
                "the limit of {limit} dollars was reached with {cost:.4} (--max-cost)"
            ));
        }
        None
    }

    fn failed(&mut self, error: ApiError, jitter: f64) -> Effect {
        if let Some(time) = self.retry.next(&error, jitter) {
            self.state = State::Waiting;
            return Effect::Wait { time, error };
        }
        let message = self.retry.last_word(&error);
        let outcome =
            Outcome { exit: Exit::Provider, responses: Vec::new(), error: Some(message.clone()) };
        self.append(
            vec![ending(Exit::Provider, format!("the model gave no reply: {message}"))],
            Then::Done(outcome),
        )
    }

    fn replied(&mut self, reply: Reply, cost: Option<f64>, at: String) -> Effect {
        self.totals.turns += 1;
        self.totals.all_turns += 1;
        self.totals.own.add(&reply.usage);
        self.totals.all.add(&reply.usage);
        match cost {
            Some(cost) => self.totals.cost += cost,
            None => self.totals.unpriced = true,
        }
        let status = self.status(&reply, cost, &at);
        if reply.stop == Stop::Length {
            let message = "your reply was cut off by the length limit; nothing of it was run. \
                           Send a shorter one: fewer or smaller tags, large files in several steps"
                .to_owned();
            return self.keep(reply.text, Kept { status, stands: None, message });
        }
        match protocol::parse_reply(&reply.text) {
            ParsedReply::Whole(items) => {
                self.bad = 0;
                let blocks = vec![Block::new("agent-response").body(reply.text), status];
                self.store(blocks, items, false)
            }
            ParsedReply::Forged { items, kept, block, offset } => {
                let message = format!(
                    "at byte {offset} you wrote <{block}>, which only the driver writes. What stands before it \
                     was kept and run, the rest was not. Results come after your reply, never inside it"
                );
                let stands = Some((kept.to_owned(), items));
                self.keep(reply.text, Kept { status, stands, message })
            }
            ParsedReply::Malformed(malformed) => {
                let message =
                    format!("your reply did not parse, and nothing of it was run: {malformed}");
                self.keep(reply.text, Kept { status, stands: None, message })
            }
        }
    }

    fn keep(&mut self, text: String, kept: Kept) -> Effect {
        self.state = State::Keeping(kept);
        Effect::Keep(text)
    }

    fn kept(&mut self, kept: Kept, path: String) -> Effect {
        let Kept { status, stands, message } = kept;
        let status = status.with("invalid", path);
        let has_action =
            stands.iter().flat_map(|(_, items)| items).any(|item| matches!(item, Item::Action(_)));
        if !has_action {
            self.bad += 1;
        }
        let note = Block::new("system").body(message.clone());
        if self.bad >= TRIES {
            let error =
                format!("the model's replies stayed malformed after {TRIES} tries: {message}");
            let outcome =
                Outcome { exit: Exit::Malformed, responses: Vec::new(), error: Some(error) };
            return self
                .append(vec![status, ending(Exit::Malformed, message)], Then::Done(outcome));
        }
        match stands {
            None => self.append(vec![status, note], Then::Ask),
            Some((text, items)) => {
                let blocks = vec![Block::new("agent-response").body(text), status, note];
                self.store(blocks, items, true)
            }
        }
    }

    /// Appends a reply that stands. A forged one never ends the run.
    fn store(&mut self, blocks: Vec<Block>, items: Vec<Item>, forged: bool) -> Effect {
        let mut responses = Vec::new();
        let mut actions = Vec::new();
        for item in items {
            match item {
                Item::Response(text) => responses.push(text),
                Item::Action(action) => actions.push(action),
            }
        }
        let then = match (actions.is_empty(), forged) {
            (true, false) => Then::Answer(responses),
            (true, true) => Then::Ask,
            (false, _) if responses.is_empty() => {
                Then::Results { running: VecDeque::new(), rest: ActionGroups::new(actions) }
            }
            (false, _) => Then::Say { notes: responses, rest: ActionGroups::new(actions) },
        };
        self.append(blocks, then)
    }

    fn act(&mut self, mut rest: ActionGroups) -> Effect {
        let Some(group) = rest.next_group() else { return self.ask_within_limits() };
        self.state = State::Acting { running: group.iter().cloned().collect(), rest };
        Effect::Act(group)
    }

    fn acted(&mut self, mut running: VecDeque<Action>, rest: ActionGroups, acted: Acted) -> Effect {
        running.pop_front();
        self.spend(&acted.usage, acted.cost);
        self.totals.all_turns = self.totals.all_turns.saturating_add(acted.turns);
        self.append(vec![acted.block], Then::Results { running, rest })
    }

    fn checked(&mut self, answer: Vec<String>, passed: bool, block: Block) -> Effect {
        if passed {
            let outcome = Outcome { exit: Exit::Done, responses: answer, error: None };
            return self.append(vec![block], Then::Done(outcome));
        }
        self.failed_checks += 1;
        // Not accepted, and not lost either.
        self.totals.notes.extend(answer);
        if self.failed_checks < CHECKS {
            return self.append(vec![block], Then::Ask);
        }
        let check = self.rules.check.as_deref().unwrap_or_default();
        let error = format!("the check never passed in {CHECKS} tries: {check}");
        let note = ending(Exit::Unchecked, format!("the run ended: {error}"));
        let outcome = Outcome { exit: Exit::Unchecked, responses: Vec::new(), error: Some(error) };
        self.append(vec![block, note], Then::Done(outcome))
    }

    fn interrupted(&mut self, state: State, signal: Signal, results: Vec<Block>) -> Effect {
        let (running, rest) = match state {
            State::Acting { running, rest } | State::Appending(Then::Results { running, rest }) => {
                (running, Some(rest))
            }
            State::Saying(rest) | State::Appending(Then::Say { rest, .. }) => {
                (VecDeque::new(), Some(rest))
            }
            _ => (VecDeque::new(), None),
        };
        let unanswered = running
            .into_iter()
            .skip(results.len())
            .map(|action| result_of_unrun(&action, "unknown"));
        let never = rest.into_iter().flat_map(ActionGroups::into_actions);
        let mut blocks = results;
        blocks.extend(unanswered);
        blocks.extend(never.map(|action| result_of_unrun(&action, "not-run")));
        let message = format!("the run was interrupted by {}", signal.name());
        blocks.push(ending(Exit::Signal(signal), message.clone()));
        let outcome =
            Outcome { exit: Exit::Signal(signal), responses: Vec::new(), error: Some(message) };
        self.append(blocks, Then::Done(outcome))
    }

    fn status(&self, reply: &Reply, cost: Option<f64>, at: &str) -> Block {
        let usage = &reply.usage;
        let mut block = Block::new("nagent-turn-status")
            .with("at", at)
            .with("turn", self.rules.first_turn + self.totals.turns)
            .with("tokens_in", usage.input)
            .with("tokens_out", usage.output)
            .with("tokens_cached", usage.cached);
        if let Some(cost) = cost {
            block = block.with("cost", format!("{cost:.6}"));
        }
        if usage.estimated {
            block = block.with("estimated", "true");
        }
        block
    }
}

/// The block that tells how a run ended without an answer. All results of the run stand before it.
fn ending(exit: Exit, message: String) -> Block {
    Block::new("system").with("exit", exit.code()).body(message)
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Appending(_) => "an append",
            Self::Asking => "a request",
            Self::Waiting => "a wait",
            Self::Keeping(_) => "a reply to keep",
            Self::Saying(_) => "a text to show",
            Self::Acting { .. } => "an action",
            Self::Checking(_) => "a check",
            Self::Over => "the end",
        }
    }
}

#[cfg(test)]
mod tests;
