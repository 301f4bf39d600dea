//! The events of a run, for a user at a terminal and for programs that follow it.

use std::path::Path;
use std::time::Duration;

use conversation::format::file::Block;
use conversation::model::{ApiError, Usage};
use conversation::protocol::Action;
use conversation::protocol::stream::Streamed;
use conversation::reason::Failure;
use conversation::turn::event::Verdict;

/// The output of a running command, as a terminal would show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputNow {
    /// Number of lines before these.
    pub before: u64,
    /// The last complete lines.
    pub lines: Vec<String>,
    /// The line that has not ended.
    pub open: Option<String>,
}

impl OutputNow {
    /// The last lines, at most so many, and the number of lines before them.
    pub fn last_lines(&self, most: usize) -> (Vec<String>, u64) {
        let all = self.lines.iter().chain(&self.open);
        let skipped = all.clone().count().saturating_sub(most);
        (all.skip(skipped).cloned().collect(), self.before + skipped as u64)
    }
}

/// Something that a user may want to see.
#[derive(Debug, Clone, Copy)]
pub enum ProgressEvent<'a> {
    /// The model is asked, for this reply of the run, counted from 1.
    Asking(u64),
    /// The conversation becomes shorter.
    Compacting,
    /// This many bytes of the reply have arrived.
    ReplyBytes(u64),
    /// Text of a response has arrived. Only where the answer is streamed.
    Streamed(Streamed<'a>),
    /// Reasoning of the model has arrived, where the provider shows it.
    Thought(&'a str),
    /// The reply is complete, or failed.
    ReplyEnded,
    /// The reply was read.
    Replied {
        /// Its number in the run, counted from 1.
        turn: u64,
        /// Its tokens.
        usage: &'a Usage,
        /// Its cost in US dollars, if known.
        cost: Option<f64>,
        /// Its verdict.
        verdict: Verdict,
    },
    /// The user is asked about an action in a folder, which starts next or is refused; and whether commands have a sandbox.
    Deciding(&'a Action, &'a Path, bool),
    /// An action was refused, for this reason.
    Refused(&'a Action, &'a Failure),
    /// An action starts.
    ActionStarted(&'a Action),
    /// A command of the user's starts.
    CommandStarted {
        /// `check` or `after_write`.
        name: &'static str,
        /// Its text.
        command: &'a str,
        /// The number of the answer that it checks, from 1.
        attempt: Option<u32>,
    },
    /// A command has printed something. At most a few times a second.
    Output(&'a OutputNow),
    /// An action ended, with this result; without an action it is a command of the user's.
    ActionEnded(Option<&'a Action>, &'a Block),
    /// A child conversation reports a line of its own events.
    Child {
        /// The child's name.
        name: &'a str,
        /// The event, as JSON.
        line: &'a str,
    },
    /// A response in a reply that also has actions.
    Response(&'a str),
    /// The reason why a reply, or a part of it, was not used.
    BadReply(&'a str),
    /// A wait before the next try.
    Waiting(Duration, &'a ApiError),
    /// A note on how nagent is used, which is shown once in a project.
    Advice(&'a str),
    /// A note that is shown even where progress is not.
    Note(&'a str),
}
