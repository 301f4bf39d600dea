//! The loop as a state machine: it takes an [`Event`] and returns the next [`Effect`].
//!
//! Each reply of the model is appended and its actions are run, until a reply holds no action or a limit is reached.
//!
//! It decides what is stored and in which order, what counts as an answer, how often a malformed reply is requested
//! again, when to retry a request, and when a limit ends the run. It does no I/O, reads no clock and draws no random
//! number: times, jitter and paths come with events. `drive` performs the effects.

pub mod event;
mod replies;
pub mod run_limits;
pub mod unfinished;

use std::collections::VecDeque;

use self::event::{Acted, Effect, Event, RunOutcome, RunRules, Totals, Verdict};
use self::run_limits::{Limits, Spent};
use self::unfinished::{ActionGroups, result_of_unrun};
use crate::approve::Decision;
use crate::exit::{Exit, Signal};
use crate::format::file::Block;
use crate::limits::{self, FAILED_CHECKS};
use crate::model::{ApiError, ErrorKind, Retry, Usage};
use crate::protocol::{Access, Action, ReplyItem};

/// The loop's state between two events.
#[derive(Debug)]
pub struct Turn {
    rules: RunRules,
    totals: Totals,
    state: TurnState,
    retry: Retry,
    /// The provider's errors since the last reply: their number, and the last one.
    failures: Option<(u32, String)>,
    verdict: Verdict,
    /// The number of unusable replies since the last valid one.
    bad_in_a_row: u32,
    /// The last reply if it was sent back: words without a tag, or an answer with tags of actions.
    questioned: Option<String>,
    failed_checks: u32,
    /// Whether an action of the last reply has written a file.
    has_written: bool,
    /// The answer that counts if all actions of its reply succeed.
    answer: Option<Vec<String>>,
    /// The duration of the run at the last append, in seconds.
    seconds: f64,
    /// Whether the conversation should be compacted before the next request.
    is_full: bool,
    /// Whether the provider has refused the conversation as too long since its last reply.
    was_refused: bool,
}

#[derive(Debug)]
enum TurnState {
    /// The end of an append, and what follows it.
    Appending(NextStep),
    /// The end of a compaction; without a shorter conversation this error ends the run.
    Compacting(Option<ApiError>),
    Asking,
    Waiting,
    /// The path of a bad reply that is being saved.
    SavingReply(BadReply),
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
    /// The report of the command after the writes of a reply.
    AfterWrite,
    /// The result of the check of this answer.
    Checking(Vec<String>),
    /// Messages that came before the end with this answer.
    Ending(Vec<String>),
    /// Nothing: the run is over.
    Over,
}

#[derive(Debug)]
enum NextStep {
    Ask,
    Say { notes: Vec<String>, rest: ActionGroups },
    Results { running: VecDeque<Action>, rest: ActionGroups },
    Answer(Vec<String>),
    End(Vec<String>),
    Done(RunOutcome),
}

/// A bad reply that is being saved, and the correction for the model.
#[derive(Debug)]
struct BadReply {
    status: Block,
    /// The part of a forged reply before the forged block.
    valid: Option<(String, Vec<ReplyItem>)>,
    message: String,
    /// Whether the valid part is an answer.
    is_answer: bool,
    is_empty: bool,
    /// The exit of the run, if it ended in the middle of the reply.
    exit: Option<Exit>,
}

impl Turn {
    /// Starts a run. The first effect appends the opening blocks: repairs, files to read, the prompt.
    pub fn start(rules: RunRules, opening: Vec<Block>) -> (Self, Effect) {
        let retry = Retry::new(rules.patience);
        let turn = Self {
            rules,
            totals: Totals::default(),
            state: TurnState::Appending(NextStep::Ask),
            retry,
            failures: None,
            verdict: Verdict::Whole,
            bad_in_a_row: 0,
            questioned: None,
            failed_checks: 0,
            has_written: false,
            answer: None,
            seconds: 0.0,
            is_full: false,
            was_refused: false,
        };
        (turn, Effect::Append(opening))
    }

    /// Counts tokens and dollars that were spent outside the turns of this run. They count against its limits.
    pub fn add_spending(&mut self, usage: &Usage, cost: Option<f64>) {
        self.totals.all.add(usage);
        match cost {
            Some(cost) => self.totals.cost += cost,
            None => self.totals.unpriced = true,
        }
    }

    /// Totals so far, child conversations included.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The verdict on the last reply.
    pub fn last_verdict(&self) -> Verdict {
        self.verdict
    }

    /// The number of the answer that is checked next, from 1.
    pub fn next_check(&self) -> u32 {
        self.failed_checks + 1
    }

    /// The rest of the limits, which child conversations get.
    pub fn remaining_limits(&self) -> Limits {
        self.rules.limits.subtract(self.spent())
    }

    /// The turns, seconds, tokens and dollars that count against the limits so far.
    fn spent(&self) -> Spent {
        let Totals { all, all_turns, cost, .. } = self.totals;
        let tokens = all.input.saturating_add(all.output);
        Spent { turns: all_turns, seconds: self.seconds, tokens, cost }
    }

    /// Processes an event and returns the next effect. An unexpected event, a bug in the caller, ends the run with an error.
    pub fn step(&mut self, event: Event) -> Effect {
        let state = std::mem::replace(&mut self.state, TurnState::Over);
        match (state, event) {
            (TurnState::Over, _) => self.end_with_error(Exit::Failed, "the run is already over"),
            (state, Event::Interrupted { signal, results }) => {
                self.end_by_signal(state, signal, results)
            }
            (TurnState::Appending(then), Event::Appended { seconds, is_full }) => {
                (self.seconds, self.is_full) = (seconds, is_full);
                self.continue_with(then)
            }
            (TurnState::Compacting(refused), Event::Compacted { is_shorter, usage, cost }) => {
                self.add_spending(&usage, cost);
                match refused.filter(|_| !is_shorter) {
                    Some(error) => self.end_without_reply(&error),
                    None => self.ask_within_limits(),
                }
            }
            (TurnState::Asking, Event::Replied { reply, cost, at }) => {
                self.after_reply(reply, cost, at)
            }
            (TurnState::Asking, Event::CutOff { exit, reply, cost, at }) => {
                self.after_cut_off(exit, reply, cost, &at)
            }
            (TurnState::Asking, Event::Failed { error, cost, jitter }) => {
                // A refused reply is billed.
                if let Some(usage) = &error.usage {
                    self.totals.own.add(usage);
                    self.add_spending(usage, cost);
                }
                self.after_failure(error, jitter)
            }
            (TurnState::Waiting, Event::Waited) => self.ask_model(),
            (TurnState::SavingReply(reply), Event::ReplySaved(path)) => {
                self.after_saving(reply, path)
            }
            (TurnState::Saying(rest), Event::Said) => self.run_next_group(rest),
            (TurnState::Deciding { action, rest }, Event::Decided(decision)) => {
                self.after_decision(action, rest, decision)
            }
            (TurnState::Acting { running, rest }, Event::Acted(acted)) => {
                self.after_action(running, rest, acted)
            }
            (TurnState::AfterWrite, Event::AfterWriteEnded(block)) => {
                self.append(vec![block], NextStep::Ask)
            }
            (TurnState::Asking, Event::Received(blocks)) => self.append(blocks, NextStep::Ask),
            (TurnState::Ending(answer), Event::Received(blocks)) => {
                self.after_receiving(answer, blocks)
            }
            (TurnState::Checking(answer), Event::Checked { passed, block, errors }) => {
                self.after_check(answer, passed, block, &errors)
            }
            (state, event) => {
                let message = format!("bug in nagent: {event:?} is not an answer to {state:?}");
                self.end_with_error(Exit::Failed, &message)
            }
        }
    }

    fn append(&mut self, blocks: Vec<Block>, then: NextStep) -> Effect {
        self.state = TurnState::Appending(then);
        Effect::Append(blocks)
    }

    fn end_with_error(&mut self, exit: Exit, message: &str) -> Effect {
        self.state = TurnState::Over;
        Effect::Done(RunOutcome { exit, responses: Vec::new(), error: Some(message.to_owned()) })
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
        let outcome = RunOutcome { exit, responses: Vec::new(), error: Some(error) };
        self.append(blocks, NextStep::Done(outcome))
    }

    fn continue_with(&mut self, then: NextStep) -> Effect {
        match then {
            NextStep::Ask => self.ask_within_limits(),
            NextStep::Say { notes, rest } => {
                self.totals.notes.extend(notes.iter().cloned());
                self.state = TurnState::Saying(rest);
                Effect::Say(notes.join("\n"))
            }
            NextStep::Results { running, rest } if running.is_empty() => self.run_next_group(rest),
            NextStep::Results { running, rest } => {
                self.state = TurnState::Acting { running, rest };
                Effect::NextChild
            }
            NextStep::Answer(responses) => self.accept_answer(responses),
            NextStep::End(responses) => self.end_with_answer(responses),
            NextStep::Done(outcome) => {
                self.state = TurnState::Over;
                Effect::Done(outcome)
            }
        }
    }

    fn accept_answer(&mut self, responses: Vec<String>) -> Effect {
        if self.rules.check.is_some() {
            self.state = TurnState::Checking(responses.clone());
            return Effect::Check(responses);
        }
        self.end_with_answer(responses)
    }

    /// Ends the run unless a message has arrived in the meantime. If a limit has been reached, a message waits for the
    /// next prompt.
    fn end_with_answer(&mut self, responses: Vec<String>) -> Effect {
        if self.reached_limit().is_some() {
            return self.after_receiving(responses, Vec::new());
        }
        self.state = TurnState::Ending(responses);
        Effect::Receive
    }

    fn after_receiving(&mut self, responses: Vec<String>, messages: Vec<Block>) -> Effect {
        if messages.is_empty() {
            self.state = TurnState::Over;
            return Effect::Done(RunOutcome { exit: Exit::Done, responses, error: None });
        }
        // An answer that is not the last one is kept as a note.
        self.append(messages, NextStep::Say { notes: responses, rest: ActionGroups::new() })
    }

    fn ask_model(&mut self) -> Effect {
        self.state = TurnState::Asking;
        Effect::Ask
    }

    fn ask_within_limits(&mut self) -> Effect {
        let Some(limit) = self.reached_limit() else {
            if std::mem::take(&mut self.is_full) {
                self.state = TurnState::Compacting(None);
                return Effect::Compact { was_refused: false };
            }
            self.retry = Retry::new(self.rules.patience);
            return self.ask_model();
        };
        let message = format!("the run ended: {limit}");
        self.end_without_answer(Exit::Limit, Vec::new(), message, limit)
    }

    /// Describes the limit that has been reached.
    fn reached_limit(&self) -> Option<String> {
        self.rules.limits.find_reached(self.spent())
    }

    fn after_failure(&mut self, error: ApiError, jitter: f64) -> Effect {
        if let (ErrorKind::TimeOver, Some(most)) = (error.kind, self.rules.limits.max_seconds) {
            self.seconds = most;
            return self.ask_within_limits();
        }
        if let Some(time) = self.retry.next_wait(&error, jitter) {
            let before = self.failures.take().map_or(0, |(count, _)| count);
            let line = error.message.split_whitespace().collect::<Vec<_>>().join(" ");
            self.failures = Some((before + 1, line));
            self.state = TurnState::Waiting;
            return Effect::Wait { time, error };
        }
        if error.kind == ErrorKind::TooLong && !std::mem::replace(&mut self.was_refused, true) {
            self.state = TurnState::Compacting(Some(error));
            return Effect::Compact { was_refused: true };
        }
        self.end_without_reply(&error)
    }

    fn end_without_reply(&mut self, error: &ApiError) -> Effect {
        let (exit, error) = (error.kind.exit(), self.retry.final_message(error));
        let message = format!("the model gave no reply: {error}");
        self.end_without_answer(exit, Vec::new(), message, error)
    }

    fn run_next_group(&mut self, mut rest: ActionGroups) -> Effect {
        let Some(mut group) = rest.pop_front() else {
            if std::mem::take(&mut self.has_written) && self.rules.after_write {
                self.state = TurnState::AfterWrite;
                return Effect::AfterWrite;
            }
            return match self.answer.take() {
                Some(answer) => self.accept_answer(answer),
                None => self.ask_within_limits(),
            };
        };
        if group.iter().any(|action| self.needs_decision(action)) {
            // Children that need approval are started one by one.
            let action = group.remove(0);
            if !group.is_empty() {
                rest.push_front(group);
            }
            self.state = TurnState::Deciding { action: action.clone(), rest };
            return Effect::Decide(action);
        }
        self.run_group(group, rest)
    }

    fn run_group(&mut self, group: Vec<Action>, rest: ActionGroups) -> Effect {
        self.state = TurnState::Acting { running: group.iter().cloned().collect(), rest };
        Effect::Act(group)
    }

    fn needs_decision(&self, action: &Action) -> bool {
        let is_command = action.access() == Access::Run;
        let leaves = matches!(action, Action::Shell { outside: Some(_), .. });
        leaves || self.rules.approve.covers(action) || self.rules.has_stop_list && is_command
    }

    fn after_decision(&mut self, action: Action, rest: ActionGroups, decision: Decision) -> Effect {
        match decision {
            Decision::Allow | Decision::Always { .. } => self.run_group(vec![action], rest),
            Decision::Replace(other) => self.run_group(vec![other], rest),
            Decision::Refuse(why) => {
                self.answer = None;
                let block = why.of_unrun().add_to(Block::new(action.result_block()));
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
        let action = running.pop_front();
        let is_done = acted.block.get("status") == Some("ok");
        self.answer = self.answer.take().filter(|_| is_done);
        self.has_written |=
            is_done && action.is_some_and(|action| action.access() == Access::Write);
        self.add_spending(&acted.usage, acted.cost);
        self.totals.all_turns = self.totals.all_turns.saturating_add(acted.turns);
        self.append(vec![acted.block], NextStep::Results { running, rest })
    }

    fn after_check(
        &mut self,
        answer: Vec<String>,
        passed: bool,
        block: Block,
        errors: &[String],
    ) -> Effect {
        if passed {
            return self.append(vec![block], NextStep::End(answer));
        }
        self.failed_checks += 1;
        // A rejected answer is kept as a note.
        let last = answer.join("\n");
        self.totals.notes.extend(answer);
        if self.failed_checks < limits::FAILED_CHECKS {
            return self.append(vec![block], NextStep::Ask);
        }
        let check = self.rules.check.as_deref().unwrap_or_default();
        let why =
            if errors.is_empty() { String::new() } else { format!(" ({})", errors.join("; ")) };
        let failed = format!("the check failed {FAILED_CHECKS} times: {check}{why}");
        let message = format!("the run ended: {failed}");
        let error = format!("{failed}\nthe last answer (not accepted):\n{}", last.trim_end());
        self.end_without_answer(Exit::Unchecked, vec![block], message, error)
    }

    fn end_by_signal(&mut self, state: TurnState, signal: Signal, results: Vec<Block>) -> Effect {
        let (running, rest) = match state {
            TurnState::Acting { running, rest }
            | TurnState::Appending(NextStep::Results { running, rest }) => (running, Some(rest)),
            TurnState::Saying(rest) | TurnState::Appending(NextStep::Say { rest, .. }) => {
                (VecDeque::new(), Some(rest))
            }
            TurnState::Deciding { action, mut rest } => {
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
}

#[cfg(test)]
mod tests;
