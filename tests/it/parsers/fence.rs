//! A block whose body and attributes somebody else wrote: it reads back as that block and no other, whatever they hold.

use super::input::Input;
use conversation::format::attributes::{decode, encode};
use conversation::format::file::{BLOCKS, Block, parse};
use conversation::protocol::tags;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let name = input.one_of(BLOCKS);
    let value = String::from_utf8_lossy(input.field()).into_owned();
    let body = input.text().into_owned();
    assert_eq!(decode(&encode(&value)), value);
    assert!(!encode(&value).contains(['"', '<', '>']));

    let own: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    let own = if name == "agent-response" { own.as_slice() } else { &[] };
    let mut drawn = 0;
    let mut word = || {
        drawn += 1;
        format!("end-{drawn}")
    };
    let block = Block::new(name).with("path", &value).body(body.clone());
    let next = Block::new("user-prompt").body("next");
    let text = format!("{}\n{}", block.format(own, &mut word), next.format(&[], &mut word));
    let parsed = parse(&text);
    assert_eq!(parsed.trouble, None, "{text}");
    assert_eq!(parsed.pieces.len(), 2, "{text}");
    assert_eq!(parsed.pieces[0].body_text(&text), body);
    assert_eq!(parsed.pieces[0].get("path"), Some(value.as_str()));
    assert_eq!(parsed.pieces[0].attributes.len(), 1);
    assert_eq!(parsed.pieces[1].body_text(&text), "next");
}
