//! A part of a file that is in memory, addressed by offsets in the whole file.

/// A part of a file.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Its offset in the file.
    pub base: u64,
    /// Its content.
    pub bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// The offset of its end in the file.
    pub fn end_offset(self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The byte at an offset in the file, if it is in the view.
    pub(crate) fn byte_at(self, offset: u64) -> Option<u8> {
        self.bytes.get(usize::try_from(offset.checked_sub(self.base)?).ok()?).copied()
    }

    /// The bytes between two offsets in the file, as far as they are in the view.
    pub fn range(self, from: u64, to: u64) -> &'a [u8] {
        let index = |offset: u64| {
            let within = offset.saturating_sub(self.base);
            usize::try_from(within).unwrap_or(usize::MAX).min(self.bytes.len())
        };
        let to = index(to);
        &self.bytes[index(from).min(to)..to]
    }
}
