//! Long texts in JSON bodies, fast: a body is made of short stand-ins first, and each is then replaced by its text.
//!
//! A conversation of 10 MB is escaped anew for every turn, and a serializer looks at it byte by byte. Here sixteen
//! bytes are looked at together and copied when none of them needs an escape. The bytes that come out are the
//! serializer's own, which a property holds. It knows no wire format: those serialize an [`Ask`] of stand-ins
//! without noticing.

use super::{Ask, Message};

/// Stands before the number of a text; private use, so in no key of any wire format.
const BEFORE: char = '\u{e000}';

/// Stands behind the number.
const BEHIND: char = '\u{e001}';

/// The body that `body` makes of a request.
pub(super) fn with_stand_ins(ask: &Ask<'_>, body: impl Fn(&Ask<'_>) -> Vec<u8>) -> Vec<u8> {
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
    fill(&body(&small), &texts)
}

/// Puts the texts in the places of their stand-ins.
fn fill(body: &[u8], texts: &[&str]) -> Vec<u8> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    // Escapes are some ten percent of source text, and room that is not used costs no memory.
    let mut out = Vec::with_capacity(body.len().saturating_add(bytes).saturating_add(bytes / 5));
    let (mut before, mut behind) = ([0; 4], [0; 4]);
    let before = BEFORE.encode_utf8(&mut before).as_bytes();
    let behind = BEHIND.encode_utf8(&mut behind).as_bytes();
    let mut rest = body;
    while let Some(at) = find(rest, before) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + before.len()..];
        let end = find(rest, behind).unwrap_or(rest.len());
        let number =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse::<usize>().ok());
        if let Some(text) = number.and_then(|n| texts.get(n)) {
            escape(&mut out, text);
        }
        rest = &rest[(end + behind.len()).min(rest.len())..];
    }
    out.extend_from_slice(rest);
    out
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
        // No early exit: the compiler makes a few vector instructions of this.
        let special = step.iter().fold(false, |any, byte| any | is_special(*byte));
        if special {
            for byte in step {
                escape_byte(out, *byte);
            }
        } else {
            out.extend_from_slice(step);
        }
        at += STEP;
    }
    for byte in &bytes[at..] {
        escape_byte(out, *byte);
    }
}

#[expect(clippy::needless_bitwise_bool, reason = "branches would keep it from being vectorized")]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        byte if byte < 0x20 => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
        byte => {
            out.push(byte);
            return;
        }
    };
    out.extend([b'\\', short]);
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

    proptest! {
        #[test]
        fn as_the_serializer_writes_it(text in "(\\PC|[\u{0}-\u{7f}]|[a-z ]{16,40}|\n|\")*") {
            check(&text);
        }
    }
}
