//! The order in which the actions of a reply run: one after the other, but neighbouring child conversations together.

use std::collections::VecDeque;

use crate::protocol::Action;

/// Actions that have not started yet. The actions of one group run at the same time.
#[derive(Debug)]
pub(super) struct ActionGroups(VecDeque<Vec<Action>>);

impl ActionGroups {
    /// Groups the actions of a reply: neighbouring conversations make one group, every other action its own.
    pub(super) fn new(actions: Vec<Action>) -> Self {
        let mut groups: VecDeque<Vec<Action>> = VecDeque::new();
        for action in actions {
            let is_child = matches!(action, Action::Conversation { .. });
            match groups.back_mut() {
                Some(group) if is_child && matches!(group[0], Action::Conversation { .. }) => {
                    group.push(action);
                }
                _ => groups.push_back(vec![action]),
            }
        }
        Self(groups)
    }

    /// Removes the next group.
    pub(super) fn next_group(&mut self) -> Option<Vec<Action>> {
        self.0.pop_front()
    }

    /// Removes the action that a result answers, and every action before its group: the results of those were deleted
    /// by hand, and stay deleted.
    pub(super) fn remove_answered(&mut self, result: &str) {
        let answers = |action: &Action| action.result_block() == result;
        let Some(at) = self.0.iter().position(|group| group.iter().any(answers)) else { return };
        self.0.drain(..at);
        if let Some(group) = self.0.front_mut() {
            group.remove(0);
        }
        if self.0.front().is_some_and(Vec::is_empty) {
            self.0.pop_front();
        }
    }

    /// The groups that are left, in order.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Vec<Action>> {
        self.0.iter()
    }

    /// The actions that are left, in order.
    pub(super) fn into_actions(self) -> impl Iterator<Item = Action> {
        self.0.into_iter().flatten()
    }
}
