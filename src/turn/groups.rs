//! The order in which the actions of a reply run: one after the other, but neighbouring child conversations together.

use std::collections::VecDeque;

use crate::protocol::Action;

/// Actions that have not started yet. The actions of one group run at the same time.
pub(super) type ActionGroups = VecDeque<Vec<Action>>;

/// Groups the actions of a reply: neighbouring conversations make one group, every other action its own.
pub(super) fn group_actions(actions: Vec<Action>) -> ActionGroups {
    let mut groups = ActionGroups::new();
    for action in actions {
        let is_child = matches!(action, Action::Conversation { .. });
        match groups.back_mut() {
            Some(group) if is_child && matches!(group[0], Action::Conversation { .. }) => {
                group.push(action);
            }
            _ => groups.push_back(vec![action]),
        }
    }
    groups
}

/// Removes the action that a result answers, and every action before its group: the results of those were deleted
/// by hand, and stay deleted.
pub(super) fn remove_answered(groups: &mut ActionGroups, result: &str) {
    let answers = |action: &Action| action.result_block() == result;
    let Some(at) = groups.iter().position(|group| group.iter().any(answers)) else { return };
    groups.drain(..at);
    if let Some(group) = groups.front_mut() {
        group.remove(0);
    }
    groups.retain(|group| !group.is_empty());
}
