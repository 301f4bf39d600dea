//! What happens during a run, for a user at a terminal.

use std::time::Duration;

use crate::format::conversation::Block;
use crate::llm::ApiError;
use crate::protocol::Action;

/// Something that a user may want to see.
#[derive(Debug, Clone, Copy)]
pub enum ProgressEvent<'a> {
    /// This many bytes of the reply have arrived.
    ReplyBytes(u64),
    /// The reply is complete, or failed.
    ReplyEnded,
    /// An action starts.
    ActionStarted(&'a Action),
    /// `--check` starts.
    CheckStarted(&'a str),
    /// An action or `--check` ended, with this result.
    ActionEnded(&'a Block),
    /// A response beside actions.
    Response(&'a str),
    /// Why a reply, or a part of it, was not used.
    BadReply(&'a str),
    /// A wait before the next try.
    Waiting(Duration, &'a ApiError),
    /// A note that is shown even where progress is not.
    Note(&'a str),
}
