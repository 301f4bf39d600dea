//! How much of one content is in another, as git reckons it for renames: both are cut into lines, and lines into pieces
//! of at most 64 bytes; what the two have in common is measured in bytes, against the larger of them.
//!
//! The reckoning is that of git's `diffcore-delta.c` and `diffcore-rename.c`, so that a rename here is one there.

/// Bytes of the longest piece.
const PIECE: usize = 64;

/// Where git looks for a zero byte, which makes content binary.
const BINARY_WITHIN: usize = 8000;

/// A content in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The hashes of the pieces, sorted, and how many bytes those of each hash have.
    bytes: Vec<(u64, usize)>,
    size: usize,
}

impl Pieces {
    /// Cuts a content.
    pub fn of(content: &[u8]) -> Self {
        let is_text = memchr::memchr(0, &content[..content.len().min(BINARY_WITHIN)]).is_none();
        let mut pieces = Self { bytes: Vec::new(), size: content.len() };
        let (mut hash, mut length) = (START, 0);
        for (at, byte) in content.iter().enumerate() {
            // Line ends of both sorts are one.
            if is_text && *byte == b'\r' && content.get(at + 1) == Some(&b'\n') {
                continue;
            }
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
            length += 1;
            if length == PIECE || *byte == b'\n' {
                pieces.bytes.push((hash, length));
                (hash, length) = (START, 0);
            }
        }
        if length > 0 {
            pieces.bytes.push((hash, length));
        }
        pieces.bytes.sort_unstable();
        pieces.bytes.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        pieces.bytes.shrink_to_fit();
        pieces
    }

    /// How many different pieces there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there is none")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How much of `self` is in `other`: the common bytes by 60,000, divided by the size of the larger; 0 where one is
    /// empty.
    pub fn score(&self, other: &Self) -> usize {
        let mut common = 0;
        let mut others = other.bytes.iter().peekable();
        for (piece, bytes) in &self.bytes {
            while others.next_if(|(other, _)| other < piece).is_some() {}
            if let Some((_, theirs)) = others.next_if(|(other, _)| other == piece) {
                common += bytes.min(theirs);
            }
        }
        let larger = self.size.max(other.size);
        if self.size == 0 || other.size == 0 { 0 } else { common * HIGHEST / larger }
    }
}

/// FNV-1a, of 64 bits.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The score of equal contents.
const HIGHEST: usize = 60_000;

/// The least score of a rename: half.
pub const RENAME: usize = HIGHEST / 2;

/// Whether contents of these sizes can be a rename at all.
pub fn may_be_rename(size: usize, other: usize) -> bool {
    let (larger, smaller) = (size.max(other), size.min(other));
    smaller > 0 && larger * (HIGHEST - RENAME) >= (larger - smaller) * HIGHEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score(one: &[u8], other: &[u8]) -> usize {
        Pieces::of(one).score(&Pieces::of(other))
    }

    #[test]
    fn scores() {
        let check = |one: &str, other: &str, expect: usize| {
            assert_eq!(score(one.as_bytes(), other.as_bytes()), expect, "{one:?} {other:?}");
        };
        check("a\nb\n", "a\nb\n", HIGHEST);
        check("a\nb\n", "b\na\n", HIGHEST);
        check("a\nb\n", "a\nc\n", RENAME);
        check("a\nb\n", "a\nb\nc\nd\n", RENAME);
        check("a\r\nb\r\n", "a\nb\n", 40_000);
        check("a", "a", HIGHEST);
        check("", "", 0);
        check("", "a", 0);
    }

    proptest! {
        #[test]
        fn a_score_is_a_share_and_the_same_from_both_sides(
            one in prop::collection::vec(prop::sample::select(b"ab\r\n\0".to_vec()), 0..300),
            other in prop::collection::vec(prop::sample::select(b"ab\r\n\0".to_vec()), 0..300),
        ) {
            prop_assert!(score(&one, &other) <= HIGHEST);
            prop_assert_eq!(score(&one, &other), score(&other, &one));
            if !one.contains(&b'\r') && !one.is_empty() {
                prop_assert_eq!(score(&one, &one), HIGHEST);
            }
            if score(&one, &other) >= RENAME {
                prop_assert!(may_be_rename(one.len(), other.len()));
            }
        }
    }
}
