//! What a run that ended too soon left unanswered: the results that its actions lack.
//!
//! Nothing here runs an action again; a result says that one may have run, or did not.

use super::Plan;
use crate::format::conversation::Block;
use crate::protocol::{self, Action, Item, Verdict};

/// The result of an action that gave none: `unknown` (it may have run) or `not-run`.
pub fn unrun(action: &Action, status: &str) -> Block {
    let text = match status {
        "unknown" => {
            "nagent ended before this action's result was stored: it may have run, wholly or in part. \
                      Look before you repeat it"
        }
        _ => "nagent ended before this action was started: it did not run",
    };
    Block::new(action.result_block()).with("status", status).body(text)
}

/// The results that are missing after the last reply of a conversation: the first of its actions that has none
/// may have run, those behind it did not. Conversations side by side with the first may have run too.
/// `results` are the names of the blocks that follow the reply.
pub fn missing_results(reply: &str, results: &[&str]) -> Vec<Block> {
    let (Verdict::Whole(items) | Verdict::Forged { items, .. }) = protocol::judge(reply) else {
        return Vec::new();
    };
    let actions = items.into_iter().filter_map(|item| match item {
        Item::Action(action) => Some(action),
        Item::Response(_) => None,
    });
    let mut groups = Plan::new(actions.collect()).groups;
    // A result that is missing between others was deleted by a hand, and stays so.
    for result in results {
        while let Some(group) = groups.front_mut() {
            let is_it = group[0].result_block() == *result;
            if is_it {
                group.remove(0);
            } else if groups.iter().flatten().any(|action| action.result_block() == *result) {
                groups.pop_front();
                continue;
            }
            if groups.front().is_some_and(Vec::is_empty) {
                groups.pop_front();
            }
            break;
        }
    }
    let mut blocks = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let status = if i == 0 { "unknown" } else { "not-run" };
        blocks.extend(group.iter().map(|action| unrun(action, status)));
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
            let blocks = missing_results(reply, &after);
            let shown: Vec<String> = blocks
                .iter()
                .map(|b| {
                    format!("{}:{}", b.name.trim_start_matches("nagent-"), b.get("status").unwrap())
                })
                .collect();
            assert_eq!(shown.join(" "), expect, "{after:?}");
        }
        let children = "<nagent-conversation>a</nagent-conversation><nagent-conversation>b</nagent-conversation>";
        let blocks = missing_results(children, &["nagent-conversation-result"]);
        assert_eq!(blocks.len(), 1);
        assert!(missing_results("no tags", &[]).is_empty());
    }
}
