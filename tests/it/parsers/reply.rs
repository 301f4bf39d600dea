//! A model's reply: every text has a verdict, and a prefix runs nothing else.

use super::input::{Input, cut};
use nagent::protocol::{Item, ParsedReply, parse_reply};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let at = usize::from(input.byte());
    let text = input.text();
    let whole = match parse_reply(&text) {
        ParsedReply::Whole(items) => {
            assert!(!items.is_empty() && items.len() <= nagent::limits::REPLY_TAGS + 2);
            Some(items)
        }
        ParsedReply::Forged { items, kept, offset, .. } => {
            assert_eq!(kept, &text[..offset]);
            assert_eq!(parse_reply(kept), ParsedReply::Whole(items));
            None
        }
        ParsedReply::Malformed(malformed) => {
            assert!(text.is_char_boundary(malformed.offset));
            assert!(!malformed.to_string().contains(char::is_control));
            None
        }
    };
    let Some(items) = whole else { return };
    match parse_reply(cut(&text, at * text.len() / 255)) {
        ParsedReply::Whole(found) => {
            let (found, whole) = (actions(&found), actions(&items));
            assert_eq!(found, whole[..found.len()]);
        }
        ParsedReply::Forged { .. } => panic!("a prefix of a whole reply holds no forged block"),
        ParsedReply::Malformed(_) => {}
    }
}

fn actions(items: &[Item]) -> Vec<Item> {
    items.iter().filter(|item| matches!(item, Item::Action(_))).cloned().collect()
}
