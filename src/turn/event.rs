//! What can happen to the loop, and what it can ask for: two closed lists, and the values that they carry.
//!
//! Values only. Which effect follows which event is [`super::Turn`]'s matter.

use std::time::Duration;

use crate::exit::{Exit, Signal};
use crate::format::conversation::Block;
use crate::llm::{ApiError, Reply, Usage};
use crate::protocol::Action;

/// What bounds a run. All are checked between turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Replies of the model, malformed ones and children's included.
    pub turns: u64,
    /// Seconds since the run began.
    pub seconds: Option<f64>,
    /// Tokens, input and output together, children's included.
    pub tokens: Option<u64>,
    /// US dollars, children's included.
    pub cost: Option<f64>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The last [`Effect::Append`] is durable.
    Appended {
        /// Seconds since the run began.
        seconds: f64,
    },
    /// The model's whole reply came.
    Replied {
        /// The reply.
        reply: Reply,
        /// What it cost in US dollars, when that is known.
        cost: Option<f64>,
        /// The time of day, as it goes into the file.
        at: String,
    },
    /// The request gave no reply.
    Failed {
        /// Why.
        error: ApiError,
        /// A random number from 0 to 1.
        jitter: f64,
    },
    /// The wait is over.
    Waited,
    /// The last [`Effect::Keep`] is done; the path of the file.
    Kept {
        /// Where the text is.
        path: String,
    },
    /// A text was shown.
    Said,
    /// An action ended; its result, with what a child used.
    Acted(Acted),
    /// `--check` ended.
    Checked {
        /// Whether it exited with 0.
        passed: bool,
        /// The block that tells of it.
        block: Block,
    },
    /// A signal came. `results` are those of the actions that it ended.
    Interrupted {
        /// The signal.
        signal: Signal,
        /// Results of the actions that were running, in order.
        results: Vec<Block>,
    },
}

/// The result of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    /// The block to append.
    pub block: Block,
    /// Tokens that a child conversation used.
    pub usage: Usage,
    /// What they cost; `None` where that is unknown.
    pub cost: Option<f64>,
    /// Turns that it took.
    pub turns: u64,
}

impl Acted {
    /// The result of an action that asked no model.
    pub fn plain(block: Block) -> Self {
        Self { block, usage: Usage::default(), cost: Some(0.0), turns: 0 }
    }
}

/// Something to do. Exactly one [`Event`] answers each, but for [`Effect::Done`].
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append these blocks in one write, and make them durable.
    Append(Vec<Block>),
    /// Send the conversation to the model.
    Ask,
    /// Wait before the next try, and say so.
    Wait {
        /// How long.
        time: Duration,
        /// What failed.
        error: ApiError,
    },
    /// Keep a reply that did not parse, whole.
    Keep(String),
    /// Show the user a text that is not the answer.
    Say(String),
    /// Run an action, or several conversations side by side. Answered by the first result.
    Act(Vec<Action>),
    /// Wait for the next result of those side by side.
    Next,
    /// Run `--check`.
    Check,
    /// The run is over.
    Done(Outcome),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The exit code.
    pub exit: Exit,
    /// The answer: the responses of the reply that ended the run.
    pub responses: Vec<String>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// Sums over a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Replies of the model.
    pub turns: u64,
    /// The same with those of children.
    pub all_turns: u64,
    /// Tokens of this conversation alone.
    pub own: Usage,
    /// Tokens with those of children.
    pub all: Usage,
    /// US dollars with those of children, as far as prices are known.
    pub cost: f64,
    /// Whether a reply came whose price is not known.
    pub unpriced: bool,
    /// Responses that stood beside actions, and answers that the check did not accept.
    pub notes: Vec<String>,
}

/// What a run needs to know at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Its limits.
    pub limits: Limits,
    /// The command that an answer must satisfy, for the texts that name it.
    pub check: Option<String>,
    /// How long to wait for a provider in all.
    pub patience: Duration,
    /// Turns that the conversation has already had, for the numbers in its file.
    pub first_turn: u64,
}

impl Event {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Appended { .. } => "appended",
            Self::Replied { .. } => "replied",
            Self::Failed { .. } => "failed",
            Self::Waited => "waited",
            Self::Kept { .. } => "kept",
            Self::Said => "said",
            Self::Acted(_) => "acted",
            Self::Checked { .. } => "checked",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}
