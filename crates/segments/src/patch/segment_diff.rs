//! The patch of an unchanged source: compares the segments with their part of it, in whole lines.

use super::edits::Edits;
use conversation::format::index::Segment;
use edits::diff::file_diff::add_part;
use edits::diff::lines::count_line_feeds;
use edits::diff::unified::UnifiedDiff;

/// Returns the patch; `None` if nothing differs. Comparing one segment after the other is faster than all at once, and
/// needs less memory.
pub(super) fn diff_segments(
    name: &[u8],
    old: &[u8],
    entries: &[Segment],
    edits: &Edits,
) -> Option<Vec<u8>> {
    let mut diff = UnifiedDiff::new(name);
    let ends_line = |text: &[u8]| text.last().is_none_or(|last| *last == b'\n');
    let (mut start, mut new_start, mut line) = (0, 0, 0);
    for (at, (entry, segment)) in entries.iter().zip(&edits.segments).enumerate() {
        let end = usize::try_from(entry.end_byte).unwrap_or(old.len());
        let (part, new) = (&old[start..end], &edits.joined[new_start..segment.range.end]);
        // Segments that share a line are compared together.
        if at + 1 == entries.len() || (ends_line(part) && ends_line(new)) {
            add_part(&mut diff, old, start..end, new, line);
            line += count_line_feeds(part);
            (start, new_start) = (end, segment.range.end);
        }
    }
    diff.finish()
}
