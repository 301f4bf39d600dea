//! The events that the loop takes, the effects that it returns, and the values that they carry.

use std::time::Duration;

use crate::approve::{Approve, Decision};
use crate::exit::{Exit, Signal};
use crate::format::file::Block;
use crate::model::{ApiError, Reply, Usage};
use crate::protocol::{Action, TagSet};
use crate::turn::run_limits::Limits;

/// An input of the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The last [`Effect::Append`] is durable.
    Appended {
        /// Seconds since the run began.
        seconds: f64,
        /// Whether the conversation fills so much of the window that it should be compacted.
        is_full: bool,
    },
    /// The compaction ended, whether it worked or not.
    Compacted {
        /// Whether it is shorter now.
        is_shorter: bool,
        /// The tokens of the request for the checkpoint.
        usage: Usage,
        /// Its cost in US dollars, if known.
        cost: Option<f64>,
    },
    /// The model replied.
    Replied {
        /// The reply.
        reply: Reply,
        /// Its cost in US dollars, if known.
        cost: Option<f64>,
        /// The current time, as it is written to the file.
        at: String,
    },
    /// The request failed.
    Failed {
        /// The error.
        error: ApiError,
        /// The cost in US dollars of the failed request, if known.
        cost: Option<f64>,
        /// A random number from 0 to 1.
        jitter: f64,
    },
    /// The wait is over.
    Waited,
    /// The text of the last [`Effect::SaveReply`] was saved to this file.
    ReplySaved(String),
    /// The message was shown.
    Said,
    /// The decision about the action of the last [`Effect::Decide`].
    Decided(Decision),
    /// An action ended.
    Acted(Acted),
    /// `--check` ended.
    Checked {
        /// Whether it exited with 0.
        passed: bool,
        /// The block that reports it.
        block: Block,
        /// The errors of an answer that does not fit the schema, or the last line that a failed check printed.
        errors: Vec<String>,
    },
    /// New messages for the conversation, as blocks. They arrive instead of a reply, which is then requested again with
    /// them, or in answer to [`Effect::Receive`], when there may be none.
    Received(Vec<Block>),
    /// The command after writes ended, with this block as its report.
    AfterWriteEnded(Block),
    /// A signal arrived in the middle of a reply, or the time of the run was over.
    CutOff {
        /// The exit of the run: that of the signal, or of the limit.
        exit: Exit,
        /// The part of the reply that had arrived, its tokens estimated.
        reply: Reply,
        /// Its cost in US dollars, if known.
        cost: Option<f64>,
        /// The current time, as it is written to the file.
        at: String,
    },
    /// A signal arrived while actions were running.
    Interrupted {
        /// The signal.
        signal: Signal,
        /// Results of the actions that were running, in order.
        results: Vec<Block>,
    },
}

/// The parser's verdict on a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It follows the protocol.
    Whole,
    /// It has a block that only nagent writes; the part before that counts.
    Forged,
    /// It does not follow the protocol; nothing of it counts.
    Malformed,
    /// It ended too early, at the length limit or by a signal; nothing of it counts.
    Cut,
}

/// The result of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    /// The block to append.
    pub block: Block,
    /// Tokens that a child conversation used.
    pub usage: Usage,
    /// Their cost; `None` if that is unknown.
    pub cost: Option<f64>,
    /// The number of turns of a child conversation.
    pub turns: u64,
}

impl Acted {
    /// The result of an action that used no model.
    pub fn without_model(block: Block) -> Self {
        Self { block, usage: Usage::default(), cost: Some(0.0), turns: 0 }
    }
}

/// An output of the loop. Exactly one [`Event`] answers each, except [`Effect::Done`].
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append these blocks in one write, and make them durable.
    Append(Vec<Block>),
    /// Compact the conversation, if possible.
    Compact {
        /// The provider has refused the conversation as too long: compact it whatever its estimated size is.
        was_refused: bool,
    },
    /// Send the conversation to the model.
    Ask,
    /// Wait before the next try, and show the user a note.
    Wait {
        /// The time to wait.
        time: Duration,
        /// The error.
        error: ApiError,
    },
    /// Save a malformed reply.
    SaveReply {
        /// The reply.
        text: String,
        /// The mistake in it, for the user's terminal.
        note: String,
    },
    /// Show the user a message that is not the answer.
    Say(String),
    /// Decide whether an action runs.
    Decide(Action),
    /// Run an action, or several child conversations at once. The first result answers it.
    Act(Vec<Action>),
    /// Wait for the next result of several child conversations.
    NextChild,
    /// Run `--after-write`.
    AfterWrite,
    /// Check this answer: validate it against the schema, run `--check`.
    Check(Vec<String>),
    /// Look for messages once more, before the run ends with an answer.
    Receive,
    /// The run is over.
    Done(RunOutcome),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The exit code.
    pub exit: Exit,
    /// The responses of the reply that ended the run.
    pub responses: Vec<String>,
    /// The error, if the run failed.
    pub error: Option<String>,
}

/// Totals of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Replies of the model.
    pub turns: u64,
    /// Replies of the model, including those of children.
    pub all_turns: u64,
    /// Tokens of this conversation.
    pub own: Usage,
    /// Tokens, including those of children.
    pub all: Usage,
    /// US dollars, including the cost of children, as far as prices are known.
    pub cost: f64,
    /// Whether the price of some reply is unknown.
    pub unpriced: bool,
    /// Responses next to actions, and answers that the check rejected.
    pub notes: Vec<String>,
}

/// The settings of a run.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "rules are what they are")]
pub struct RunRules {
    /// Its limits.
    pub limits: Limits,
    /// The tags that the model may write.
    pub tags: TagSet,
    /// The kinds of actions that need the user's approval.
    pub approve: Approve,
    /// Whether commands that are hardly ever intended are refused.
    pub has_stop_list: bool,
    /// Whether the answer is asked for as JSON.
    pub has_schema: bool,
    /// Whether a command runs after the writes of a reply.
    pub after_write: bool,
    /// Whether an answer at the end of a reply that only writes ends the run, if all its writes succeed.
    pub ends_with_writes: bool,
    /// The command of `--check`, for messages.
    pub check: Option<String>,
    /// The total time to wait for a busy provider.
    pub patience: Duration,
    /// The model's id, for the first status in the file.
    pub model: String,
    /// The run as the log of changes names it, for the same status.
    pub run: String,
    /// The number of turns that the conversation already has, for the numbers in its file.
    pub first_turn: u64,
}
