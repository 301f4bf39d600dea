//! Cuts between characters: the last resort, inside a line or a token that does not fit.

use super::view::View;

/// The units that the characters of a file consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// UTF-8, or anything else that is read as single bytes.
    Byte,
    /// UTF-16: units of two bytes, and pairs of them.
    Two {
        /// The low byte comes first.
        little: bool,
    },
    /// UTF-32, or unknown data: four bytes.
    Four,
}

/// The last place at or before `furthest` where a cut splits neither CR LF nor a UTF-8 character.
pub(crate) fn find_start(view: View<'_>, unit: Unit, furthest: u64) -> u64 {
    let at = |back: u64| furthest.checked_sub(back).and_then(|offset| view.byte_at(offset));
    match unit {
        Unit::Four => furthest - furthest % 4,
        Unit::Two { little } => {
            let even = furthest - furthest % 2;
            let high = view.byte_at(if little { even + 1 } else { even });
            // This is the second unit of a surrogate pair.
            let is_second = high.is_some_and(|byte| (0xdc..=0xdf).contains(&byte));
            if is_second { even.saturating_sub(2) } else { even }
        }
        Unit::Byte => match at(0) {
            Some(b'\n') if at(1) == Some(b'\r') => furthest - 1,
            Some(0x80..=0xbf) => (1..=3)
                .map(|back| furthest.saturating_sub(back))
                .find(|start| is_one_character(view.range(*start, furthest + 1)))
                .unwrap_or(furthest),
            _ => furthest,
        },
    }
}

/// Whether bytes are a UTF-8 character or the beginning of one.
fn is_one_character(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().count() == 1,
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], unit: Unit, expect: &[u64]) {
        let view = View { base: 0, bytes };
        let got: Vec<u64> = (0..bytes.len() as u64).map(|at| find_start(view, unit, at)).collect();
        assert_eq!(got, expect, "{bytes:?}");
    }

    #[test]
    fn no_character_is_parted() {
        check("aé€😀b".as_bytes(), Unit::Byte, &[0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10]);
        check(b"a\r\nb\n", Unit::Byte, &[0, 1, 1, 3, 4]);
        // No UTF-8: anywhere.
        check(b"\x80\x80\x80\x80\x80", Unit::Byte, &[0, 1, 2, 3, 4]);
        check(b"\xe2a\xac", Unit::Byte, &[0, 1, 2]);
        check(b"\xe0\x80\x80", Unit::Byte, &[0, 1, 2]);
        // The pair of U+1F600.
        check(b"a\0=\xd8\0\xdeb\0", Unit::Two { little: true }, &[0, 0, 2, 2, 2, 2, 6, 6]);
        check(b"\0a\xd8=\xde\0\0b", Unit::Two { little: false }, &[0, 0, 2, 2, 2, 2, 6, 6]);
        check(b"\0\0\0a\0\0", Unit::Four, &[0, 0, 0, 0, 4, 4]);
    }
}
