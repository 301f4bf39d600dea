//! Decides whether an action is done: by the list of stopped commands, by what is approved for good, or by asking.

use std::path::Path;

use super::run_context::RunContext;
use crate::approve::{self, Approvals, Approve, Decision};
use crate::format::harmless;
use crate::limits;
use crate::protocol::Action;

/// What somebody said to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What is done.
    pub decision: Decision,
    /// Whether the same action is done from now on without a question, in this folder.
    pub is_for_good: bool,
}

impl Answer {
    /// A no, and why.
    pub fn no(why: impl Into<String>) -> Self {
        Decision::Refuse(why.into()).into()
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self { decision, is_for_good: false }
    }
}

/// Who is asked.
pub trait Approver {
    /// Asks about an action in a folder.
    fn ask(&mut self, action: &Action, context: &RunContext<'_>) -> Answer;

    /// Stores an approval for good.
    fn store(&mut self, approval: approve::Approval);
}

/// The rules of a run, and who is asked where they leave it open.
pub struct Approval<'a> {
    /// What is asked about.
    pub approve: Approve,
    /// Whether stopped commands are refused.
    pub has_stop_list: bool,
    /// The patterns of commands that need no question.
    pub patterns: Vec<String>,
    /// What was approved for good.
    pub approvals: Approvals,
    /// Who is asked.
    pub approver: Box<dyn Approver + 'a>,
}

impl Approval<'_> {
    /// The decision that needs no question.
    pub(super) fn decide_alone(&self, action: &Action, folder: &Path) -> Option<Decision> {
        if let (Action::Shell { commands, .. }, true) = (action, self.has_stop_list)
            && let Some(why) = approve::find_stop(commands)
        {
            return Some(Decision::Refuse(format!(
                "nagent never runs this command: {why}. If the user wants it, they run it themselves"
            )));
        }
        let is_plain = |commands: &str| approve::is_allowed(&self.patterns, commands);
        let is_allowed = !self.approve.covers(action)
            || matches!(action, Action::Shell { commands, .. } if is_plain(commands))
            || self.approvals.cover(action, &folder.to_string_lossy());
        is_allowed.then_some(Decision::Allow)
    }

    /// Asks, and stores an approval for good.
    pub(super) fn ask(&mut self, action: &Action, context: &RunContext<'_>) -> Decision {
        let Answer { decision, is_for_good } = self.approver.ask(action, context);
        if is_for_good {
            let approved = match &decision {
                Decision::Replace(other) => other,
                _ => action,
            };
            // It is dated where it is stored.
            let approval = approve::Approval {
                tag: approved.tag().to_owned(),
                text: approve::action_text(approved),
                folder: context.folder.to_string_lossy().into_owned(),
                at: String::new(),
            };
            self.approver.store(approval.clone());
            self.approvals.entries.push(approval);
        }
        // What the user made of it is not asked about again, and not everything may be made of it.
        match decision {
            Decision::Replace(Action::Shell { commands, timeout, keep }) if self.has_stop_list => {
                match approve::find_stop(&commands) {
                    Some(why) => Decision::Refuse(format!(
                        "the user changed the command to {}, which nagent never runs: {why}",
                        harmless::truncate(commands.trim(), limits::EDIT_SHOWN)
                    )),
                    None => Decision::Replace(Action::Shell { commands, timeout, keep }),
                }
            }
            decision => decision,
        }
    }
}
