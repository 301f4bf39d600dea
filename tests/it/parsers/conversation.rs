//! A conversation file: any text loads or says what is wrong, what was read can be written and read again, and a file that
//! was cut anywhere is whole, torn or damaged, never another conversation.

use super::input::{Input, cut};
use conversation::format::file::{Block, Parsed, Trouble, parse};
use conversation::{memory, prompt};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let at = usize::from(input.byte());
    let text = input.text();
    let parsed = parse(&text);
    in_order(&text, &parsed);
    prompt::messages(&text, &parsed.pieces);
    let entries = memory::changes::parse(&text);
    assert!(memory::changes::list_changes(&entries).len() <= entries.len() * text.len());

    // As the driver would write the blocks.
    let mut written = String::new();
    let mut blocks = Vec::new();
    let mut drawn = 0;
    let mut word = || {
        drawn += 1;
        format!("end-{drawn}")
    };
    for piece in &parsed.pieces {
        let Some(name) = piece.name() else { continue };
        let is_empty =
            piece.span.end == piece.body_text(&text).as_ptr().addr() - text.as_ptr().addr();
        let body = (!is_empty).then(|| piece.body_text(&text).to_owned());
        let block = Block { name, attributes: piece.attributes.clone(), body };
        written.push_str(&block.format(&[], &mut word));
        written.push('\n');
        blocks.push((block, written.len()));
    }
    let again = parse(&written);
    assert_eq!(again.trouble, None, "{written}");
    same(&written, &again, &blocks);

    let cut = cut(&written, at * written.len() / 255);
    let torn = parse(cut);
    let whole = blocks.iter().take_while(|(_, end)| end - 2 <= cut.len()).count();
    let left = cut.len() - whole.checked_sub(1).map_or(0, |last| blocks[last].1.min(cut.len()));
    match torn.trouble {
        None => {
            same(cut, &torn, &blocks[..whole]);
            // What is left of a block's first bytes is a note, at most as long as the start of a tag.
            assert!(left <= 64 || torn.pieces.iter().all(|piece| piece.name().is_some()));
        }
        Some(Trouble::Torn { offset, .. }) => {
            let end = whole.checked_sub(1).map_or(0, |last| blocks[last].1);
            assert!(offset >= end.min(cut.len()), "{offset} {end}: {cut}");
        }
        Some(Trouble::Damaged { perhaps_torn, .. }) => {
            assert!(perhaps_torn.is_some(), "{cut}");
        }
    }
}

fn in_order(text: &str, parsed: &Parsed) {
    let mut end = 0;
    for piece in &parsed.pieces {
        assert!(piece.span.start >= end && piece.span.end > piece.span.start);
        assert!(text.get(piece.span.clone()).is_some());
        assert!(piece.body.start >= piece.span.start && piece.body.end <= piece.span.end);
        assert!(text.get(piece.body.clone()).is_some());
        end = piece.span.end;
    }
    if let Some(Trouble::Torn { offset, line }) = parsed.trouble {
        assert!(text.is_char_boundary(offset) && line > 0 && offset >= end);
    }
}

/// The blocks that were read are those that were written.
fn same(text: &str, parsed: &Parsed, blocks: &[(Block, usize)]) {
    let read: Vec<_> = parsed.pieces.iter().filter(|piece| piece.name().is_some()).collect();
    assert_eq!(read.len(), blocks.len(), "{text}");
    for (piece, (block, _)) in read.iter().zip(blocks) {
        assert_eq!(piece.name(), Some(block.name));
        assert_eq!(piece.body_text(text), block.body.as_deref().unwrap_or_default());
        assert_eq!(piece.attributes, block.attributes);
    }
}
