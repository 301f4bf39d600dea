//! The order in which the actions of a reply run, and the missing results of a run that ended too soon.
//!
//! No action runs twice: a missing result is replaced by one that says that the action may have run, or did not.

use std::collections::VecDeque;

use crate::format::file::{Block, Piece};
use crate::protocol::{self, Action, ParsedReply, ReplyItem};

/// Actions that have not started yet. The actions of one group run at the same time.
pub(super) type ActionGroups = VecDeque<Vec<Action>>;

/// Groups the actions of a reply: consecutive child conversations form one group, every other action a group of its
/// own.
pub(super) fn group_actions(actions: &[Action]) -> ActionGroups {
    let is_child = |action: &Action| matches!(action, Action::Conversation { .. });
    let groups = actions.chunk_by(|one, next| is_child(one) && is_child(next));
    groups.map(<[Action]>::to_vec).collect()
}

/// Removes the action that a result answers, and all groups before its own, whose results the user has deleted. Returns
/// whether its group has all results now.
fn remove_answered(groups: &mut ActionGroups, result: &str) -> bool {
    let answers = |action: &Action| action.result_block() == result;
    let Some(at) = groups.iter().position(|group| group.iter().any(answers)) else { return false };
    groups.drain(..at);
    groups[0].remove(0);
    let is_whole = groups[0].is_empty();
    groups.retain(|group| !group.is_empty());
    is_whole
}

/// The result of an action without one: `unknown` (it may have run) or `not-run`.
pub fn result_of_unrun(action: &Action, status: &str) -> Block {
    let text = match status {
        "unknown" => {
            "nagent ended before it stored the result of this action: it may have run, completely or in part. \
             Check before you repeat it"
        }
        _ => "nagent ended before it started this action: it did not run",
    };
    Block::new(action.result_block()).with("status", status).body(text)
}

/// The results that a conversation lacks after its last reply; none after a later prompt, or the end of the run.
pub fn unfinished_results(text: &str, pieces: &[Piece]) -> Vec<Block> {
    let Some(at) = pieces.iter().rposition(|piece| piece.name() == Some("agent-response")) else {
        return Vec::new();
    };
    let after = &pieces[at + 1..];
    let is_settled =
        |piece: &Piece| piece.name() == Some("user-prompt") || piece.get("exit").is_some();
    if after.iter().any(is_settled) {
        return Vec::new();
    }
    let is_unknown = |piece: &Piece| piece.get("status") == Some("unknown");
    let after: Vec<(&str, bool)> =
        after.iter().filter_map(|piece| Some((piece.name()?, is_unknown(piece)))).collect();
    results_after(pieces[at].body_text(text), &after)
}

/// The results that a reply lacks, given the names of the blocks after it, and whether they are results of this function. The
/// actions of the first group without all results may have run, those of later groups did not, and none behind an unknown
/// result, which a kill may have separated from the others.
fn results_after(reply: &str, results: &[(&str, bool)]) -> Vec<Block> {
    let (ParsedReply::Whole(items) | ParsedReply::Forged { items, .. }) =
        protocol::parse_reply(reply)
    else {
        return Vec::new();
    };
    let actions = items.into_iter().filter_map(|item| match item {
        ReplyItem::Action(action) => Some(action),
        ReplyItem::Response(_) => None,
    });
    let mut groups = group_actions(&actions.collect::<Vec<_>>());
    let mut first = "unknown";
    for (result, is_unknown) in results {
        if remove_answered(&mut groups, result) {
            first = if *is_unknown { "not-run" } else { "unknown" };
        }
    }
    let mut blocks = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let status = if index == 0 { first } else { "not-run" };
        blocks.extend(group.iter().map(|action| result_of_unrun(action, status)));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_unanswered() {
        let reply =
            "<nagent-shell>a</nagent-shell><nagent-list path=\".\"/><nagent-shell>b</nagent-shell>";
        for (after, expect) in [
            (vec![], "shell-result:unknown list-result:not-run shell-result:not-run"),
            (
                vec!["nagent-turn-status", "nagent-shell-result"],
                "list-result:unknown shell-result:not-run",
            ),
            (vec!["nagent-shell-result", "nagent-list-result"], "shell-result:unknown"),
            (vec!["nagent-shell-result", "nagent-list-result", "nagent-shell-result"], ""),
            // The first result was deleted by a hand, and stays so.
            (vec!["nagent-list-result"], "shell-result:unknown"),
        ] {
            let after: Vec<_> = after.into_iter().map(|name| (name, false)).collect();
            let blocks = results_after(reply, &after);
            let shown: Vec<String> = blocks
                .iter()
                .map(|b| {
                    format!("{}:{}", b.name.trim_start_matches("nagent-"), b.get("status").unwrap())
                })
                .collect();
            assert_eq!(shown.join(" "), expect, "{after:?}");
        }
        let children = "<nagent-conversation>a</nagent-conversation><nagent-conversation>b</nagent-conversation>";
        let blocks = results_after(children, &[("nagent-conversation-result", true)]);
        assert_eq!((blocks.len(), blocks[0].get("status")), (1, Some("unknown")));
        // A kill while these results were written: what had not begun has not run.
        let blocks = results_after(reply, &[("nagent-shell-result", true)]);
        assert!(blocks.len() == 2 && blocks.iter().all(|it| it.get("status") == Some("not-run")));
        assert!(results_after("no tags", &[]).is_empty());
    }
}
