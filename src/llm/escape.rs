//! Long texts in JSON bodies, written once: a body is made of short stand-ins first, and each is then replaced by its
//! text. What the body of the request before had in common with this one is kept and not written again.
//!
//! A conversation of 10 MB would otherwise be escaped anew for every turn, byte by byte. Where it is escaped, sixteen
//! bytes are looked at together and copied when none of them needs it. The bytes that come out are the serializer's own,
//! which properties hold. It knows no wire format: those serialize an [`Ask`] of stand-ins without noticing.

use super::{Ask, Message};

/// Stands before the number of a text; private use, so in no key of any wire format.
const BEFORE: char = '\u{e000}';

/// Stands behind the number.
const BEHIND: char = '\u{e001}';

/// What the next body has in common with the last one. The texts of all requests made with one memo must be slices of
/// one text that only grows, as a conversation does: they are told apart by where they stand in it.
#[derive(Debug, Default)]
pub struct Memo {
    /// The last body, given back after it was sent.
    body: Vec<u8>,
    skeleton: Vec<u8>,
    places: Vec<Place>,
}

/// A text in the last body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Which of the request's texts.
    text: Span,
    /// Behind its stand-in in the skeleton.
    skeleton_end: usize,
    /// Behind the text in the body.
    body_end: usize,
}

/// Where a text stands, from the first text of its request on, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    len: usize,
}

impl Memo {
    /// Gives the body back that was made last. Without it the next one is made from nothing.
    pub fn give_back(&mut self, body: Vec<u8>) {
        self.body = body;
    }
}

/// The body that `body` makes of a request.
pub(super) fn with_stand_ins(
    ask: &Ask<'_>,
    memo: &mut Memo,
    body: impl Fn(&Ask<'_>) -> Vec<u8>,
) -> Vec<u8> {
    if [Some(ask.model), ask.cache_key].into_iter().flatten().any(|text| text.contains(BEFORE)) {
        return body(ask);
    }
    let texts: Vec<&str> = ask.texts().collect();
    // Blank texts stay: a wire format may leave them out.
    let marks: Vec<String> = (0..texts.len()).map(|n| format!("{BEFORE}{n}{BEHIND}")).collect();
    let stand_in = |n: usize| if texts[n].trim().is_empty() { texts[n] } else { marks[n].as_str() };
    let mut n = 0;
    let mut next = || {
        n += 1;
        stand_in(n - 1)
    };
    let system = ask.system.map(|_| next());
    let messages = ask
        .messages
        .iter()
        .map(|message| Message {
            role: message.role,
            parts: message.parts.iter().map(|_| next()).collect(),
        })
        .collect();
    let small = Ask { system, messages, ..*ask };
    fill(memo, body(&small), &texts)
}

/// Puts the texts in the places of their stand-ins, behind what the last body already has of them.
fn fill(memo: &mut Memo, skeleton: Vec<u8>, texts: &[&str]) -> Vec<u8> {
    let origin = texts.first().map_or(0, |text| text.as_ptr().addr());
    let span = |n: usize| Span {
        start: texts[n].as_ptr().addr().wrapping_sub(origin),
        len: texts[n].len(),
    };
    let mut out = std::mem::take(&mut memo.body);
    let shared = skeleton.iter().zip(&memo.skeleton).take_while(|(new, old)| new == old).count();
    let kept = memo
        .places
        .iter()
        .take_while(|place| place.skeleton_end <= shared && place.body_end <= out.len())
        .zip(numbers(&skeleton))
        .take_while(|(place, n)| *n < texts.len() && place.text == span(*n))
        .count();
    memo.places.truncate(kept);
    let (mut at, body_end) =
        memo.places.last().map_or((0, 0), |place| (place.skeleton_end, place.body_end));
    out.truncate(body_end);
    if out.is_empty() {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        // Escapes are some ten percent of source text, and room that is not used costs no memory.
        out.reserve(skeleton.len().saturating_add(bytes).saturating_add(bytes / 5));
    }
    while let Some((start, n, end)) = mark(&skeleton, at) {
        out.extend_from_slice(&skeleton[at..start]);
        at = end;
        if let Some(text) = texts.get(n) {
            escape(&mut out, text);
            memo.places.push(Place { text: span(n), skeleton_end: end, body_end: out.len() });
        }
    }
    out.extend_from_slice(&skeleton[at..]);
    memo.skeleton = skeleton;
    out
}

/// The next stand-in at or after an offset: where it begins, its number, where it ends.
fn mark(skeleton: &[u8], from: usize) -> Option<(usize, usize, usize)> {
    let (mut before, mut behind) = ([0; 4], [0; 4]);
    let before = BEFORE.encode_utf8(&mut before).as_bytes();
    let behind = BEHIND.encode_utf8(&mut behind).as_bytes();
    let start = from + find(&skeleton[from..], before)?;
    let number = start + before.len();
    let length = find(&skeleton[number..], behind)?;
    let n = std::str::from_utf8(&skeleton[number..number + length]).ok()?.parse().ok()?;
    Some((start, n, number + length + behind.len()))
}

/// The numbers of all stand-ins, in order.
fn numbers(skeleton: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (_, n, end) = mark(skeleton, at)?;
        at = end;
        Some(n)
    })
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// The bytes looked at together.
const STEP: usize = 16;

/// Appends a text as it stands between the quotes of a JSON string.
fn escape(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(step) = bytes[at..].first_chunk::<STEP>() {
        // No early exits: the compiler makes a few vector instructions of each.
        let any = |test: fn(u8) -> bool| step.iter().fold(false, |any, byte| any | test(*byte));
        if !any(is_special) {
            out.extend_from_slice(step);
        } else if any(is_rare) {
            for byte in step {
                escape_byte(out, *byte);
            }
        } else {
            // Text with a quote here and there is dear to branch on: the backslash is always written, and stays when
            // the next byte goes behind it and not over it.
            let mut escaped = [0; 2 * STEP];
            let mut length = 0;
            for byte in step {
                escaped[length % (2 * STEP)] = b'\\';
                length += usize::from(is_special(*byte));
                escaped[length % (2 * STEP)] = SHORT[usize::from(*byte)];
                length += 1;
            }
            out.extend_from_slice(&escaped[..length.min(2 * STEP)]);
        }
        at += STEP;
    }
    for byte in &bytes[at..] {
        escape_byte(out, *byte);
    }
}

/// What stands for a byte: itself, or the letter behind the backslash.
const SHORT: [u8; 256] = {
    let mut short = [0; 256];
    let mut byte = 0u8;
    loop {
        short[byte as usize] = match byte {
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            byte => byte,
        };
        if byte == u8::MAX {
            break short;
        }
        byte += 1;
    }
};

/// Whether a byte needs an escape.
#[expect(clippy::needless_bitwise_bool, reason = "branches would keep it from being vectorized")]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// Whether a byte needs an escape of more than two bytes.
#[expect(clippy::needless_bitwise_bool, reason = "branches would keep it from being vectorized")]
fn is_rare(byte: u8) -> bool {
    (byte < 0x20)
        & (byte != b'\n')
        & (byte != b'\t')
        & (byte != b'\r')
        & (byte != 0x08)
        & (byte != 0x0c)
}

fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if is_rare(byte) {
        out.extend_from_slice(b"\\u00");
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        return;
    }
    if is_special(byte) {
        out.push(b'\\');
    }
    out.push(SHORT[usize::from(byte)]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        let mut out = Vec::new();
        escape(&mut out, text);
        let expect = serde_json::to_string(text).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expect[1..expect.len() - 1]);
    }

    #[test]
    fn every_character_below_300() {
        check(&(0..300u32).filter_map(char::from_u32).collect::<String>());
    }

    /// A body of a form of its own: every text, and a mark behind the last one, as Anthropic's.
    fn body(ask: &Ask<'_>) -> Vec<u8> {
        let texts: Vec<&str> = ask.texts().collect();
        let parts: Vec<&[&str]> = ask.messages.iter().map(|message| &message.parts[..]).collect();
        serde_json::to_vec(&serde_json::json!({ "system": ask.system, "last": texts.last(), "messages": parts, "end": 1 }))
            .unwrap()
    }

    proptest! {
        /// Whatever a growing conversation asks in turn, each body is the one that is made from nothing.
        #[test]
        fn a_kept_body_is_the_same_body(
            pieces in prop::collection::vec(("[a-z\"\n ]{0,40}", any::<bool>()), 1..12),
            steps in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let mut steps: Vec<usize> = steps.iter().map(|step| 1 + step.index(pieces.len())).collect();
            steps.sort_unstable();
            let mut memo = Memo::default();
            let mut text = String::new();
            let mut ends = Vec::new();
            for step in steps {
                // Grows in place or moves, as strings do.
                for (piece, _) in &pieces[ends.len()..step.max(ends.len())] {
                    text.push_str(piece);
                    ends.push(text.len());
                }
                let mut messages: Vec<Message<'_>> = Vec::new();
                let mut from = 0;
                for (end, (_, new)) in ends.iter().zip(&pieces) {
                    let part = &text[from..*end];
                    from = *end;
                    match messages.last_mut() {
                        Some(last) if !*new => last.parts.push(part),
                        _ => messages.push(Message { role: crate::llm::Role::User, parts: vec![part] }),
                    }
                }
                let ask = Ask { model: "m", system: None, messages, cache_key: None, max_output: None, window: None };
                let made = with_stand_ins(&ask, &mut memo, body);
                prop_assert_eq!(String::from_utf8(made.clone()).unwrap(), String::from_utf8(body(&ask)).unwrap());
                memo.give_back(made);
            }
        }

        #[test]
        fn as_the_serializer_writes_it(text in "(\\PC|[\u{0}-\u{7f}]|[a-z ]{16,40}|\n|\")*") {
            check(&text);
        }
    }
}
