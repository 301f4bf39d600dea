//! A corpus of replies as models write them, each with what it comes to, and what that costs.

use super::super::TagSet;
use std::io::Write;

use super::super::{Action, ParsedReply, ReplyItem, find_action_in, parse_reply};

/// After `=== `: the items, by the short names of their tags; `!` is an action that ends with an error; `~` costs one more
/// request. Then the reply.
const REPLIES: &str = include_str!("replies.txt");

/// The most that a reply may cost on average, in requests.
const MOST: f64 = 0.15;

fn describe(reply: &str) -> String {
    let items = match parse_reply(reply) {
        ParsedReply::Malformed(_) => return "~".to_owned(),
        ParsedReply::Whole(items) | ParsedReply::Forged { items, .. } => items,
    };
    let is_answer = items.iter().all(|item| matches!(item, ReplyItem::Response(_)));
    let is_asked = |item: &ReplyItem| match item {
        ReplyItem::Response(text) => find_action_in(text, TagSet::ALL).is_some(),
        ReplyItem::Action(_) => false,
    };
    if is_answer && items.iter().any(is_asked) {
        return "~".to_owned();
    }
    let name = |item: &ReplyItem| match item {
        ReplyItem::Response(_) => "say".to_owned(),
        ReplyItem::Action(Action::Wrong { kind, .. }) => {
            format!("!{}", kind.table_row().short_name())
        }
        ReplyItem::Action(action) => action.tag_kind().table_row().short_name().to_owned(),
    };
    let mut names: Vec<String> = items.iter().map(name).collect();
    if names.iter().any(|name| name.starts_with('!')) {
        names.push("~".to_owned());
    }
    names.join(" ")
}

#[test]
fn harmless_words_cost_no_reply() {
    let (mut replies, mut extra) = (0, 0);
    for part in REPLIES.split("=== ").skip(1) {
        let (expect, reply) = part.split_once('\n').unwrap();
        assert_eq!(describe(reply.strip_suffix('\n').unwrap_or(reply)), expect, "{reply}");
        replies += 1;
        extra += usize::from(expect.ends_with('~'));
    }
    let cost = extra as f64 / f64::from(replies);
    assert!(replies >= 200 && cost <= MOST, "{replies} replies cost {cost:.3} requests each");
    let line = format!("{replies} replies, {extra} more requests: {cost:.3} a reply\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}
