//! Decides whether an action runs: by the block list of commands, by standing approvals, or by asking.

use std::path::Path;

use super::run_context::RunContext;
use conversation::approve::{self, Approve, Decision};
use conversation::format::harmless;
use conversation::limits;
use conversation::protocol::Action;
use conversation::reason::{Failure, Reason};

/// Who is asked.
pub trait Approver {
    /// Whether there is somebody to ask.
    fn has_person(&self) -> bool;

    /// Asks about an action in a folder.
    fn ask_user(&mut self, action: &Action, context: &RunContext<'_>) -> Decision;

    /// Stores a permanent approval, and returns it.
    fn store(
        &mut self,
        action: &Action,
        folder: &str,
        first_two: bool,
    ) -> approve::StandingApproval;
}

/// The rules of a run, and who is asked where they do not decide.
pub struct ApprovalRules<'a> {
    /// The actions that need approval.
    pub approve: Approve,
    /// Whether commands on the stop list are refused.
    pub has_stop_list: bool,
    /// The patterns of commands that need no question.
    pub patterns: Vec<String>,
    /// The permanent approvals.
    pub approvals: Vec<approve::StandingApproval>,
    /// Who is asked.
    pub approver: Box<dyn Approver + 'a>,
}

impl ApprovalRules<'_> {
    /// The decision that needs no question. `has_sandbox`: whether commands run in a sandbox, which one may ask to leave.
    pub(super) fn decide_without_asking(
        &self,
        action: &Action,
        folder: &Path,
        has_sandbox: bool,
    ) -> Option<Decision> {
        if let Some((_, why)) = self.find_stop(action) {
            let text = format!(
                "{why}\nnagent refuses such commands; if this one is needed, ask the user to run it"
            );
            return Some(Decision::Refuse(Failure::new(Reason::Stopped, text)));
        }
        let folder = folder.to_string_lossy();
        let leaves = has_sandbox && matches!(action, Action::Shell { outside: Some(_), .. });
        // Most commands need not be parsed.
        let is_plain = || matches!(action, Action::Shell { commands, .. } if approve::is_allowed(&self.patterns, commands));
        let is_allowed = !leaves && (!self.approve.covers(action) || is_plain())
            || self.approvals.iter().any(|approval| approval.covers(action, &folder, has_sandbox));
        is_allowed.then_some(Decision::Allow)
    }

    /// Asks, and stores an approval that is permanent.
    pub(super) fn ask_and_store(&mut self, action: &Action, context: &RunContext<'_>) -> Decision {
        let decision = self.approver.ask_user(action, context);
        if let Decision::Always { first_two } = decision {
            let folder = context.folder.to_string_lossy();
            self.approvals.push(self.approver.store(action, &folder, first_two));
        }
        // The user's replacement is not asked about again, but the stop list still applies to it.
        if let Decision::Replace(other) = &decision
            && let Some((commands, why)) = self.find_stop(other)
        {
            let text = format!(
                "{why}\nThe user edited the command to {}, which nagent refuses",
                harmless::truncate(commands.trim(), limits::EDIT_SHOWN)
            );
            return Decision::Refuse(Failure::new(Reason::Stopped, text));
        }
        decision
    }

    /// The commands of an action that are never run, and why.
    fn find_stop<'c>(&self, action: &'c Action) -> Option<(&'c str, String)> {
        let Action::Shell { commands, .. } = action else { return None };
        approve::find_stop(commands).filter(|_| self.has_stop_list).map(|why| (&**commands, why))
    }
}
