//! A model's reply: every text has a verdict, a prefix runs nothing else, and what is shown while it arrives is what the
//! parser gives.

use super::input::{Input, cut};
use conversation::protocol::stream::{ResponseStream, Streamed};
use conversation::protocol::{ParsedReply, ReplyItem, parse_reply};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let at = usize::from(input.byte());
    let text = input.text();
    let whole = match parse_reply(&text) {
        ParsedReply::Whole(items) => {
            assert!(!items.is_empty() && items.len() <= conversation::limits::REPLY_TAGS + 2);
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
    let mut shown = vec![String::new()];
    let mut stream = ResponseStream::default();
    for piece in text.split_inclusive(|c: char| u32::from(c) % 7 == u32::try_from(at % 7).unwrap())
    {
        stream.push(piece, &mut |streamed| match streamed {
            Streamed::Text(text) => shown.last_mut().unwrap().push_str(text),
            Streamed::End => shown.push(String::new()),
        });
    }
    let Some(items) = whole else { return };
    let said = |item: &ReplyItem| match item {
        ReplyItem::Response(text) => Some(text.clone()),
        ReplyItem::Action(_) => None,
    };
    let expect: Vec<String> = items.iter().filter_map(said).chain([String::new()]).collect();
    // Words outside of tags are not shown while they arrive, nor is what follows them.
    shown.pop();
    assert_eq!(shown, expect[..shown.len()]);
    match parse_reply(cut(&text, at * text.len() / 255)) {
        ParsedReply::Whole(found) => {
            let (found, whole) = (actions(&found), actions(&items));
            assert_eq!(found, whole[..found.len()]);
        }
        ParsedReply::Forged { .. } => panic!("a prefix of a whole reply holds no forged block"),
        ParsedReply::Malformed(_) => {}
    }
}

fn actions(items: &[ReplyItem]) -> Vec<ReplyItem> {
    items.iter().filter(|item| matches!(item, ReplyItem::Action(_))).cloned().collect()
}
