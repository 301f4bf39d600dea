//! What differs between two texts, as a unified diff. Bytes in, bytes out: neither text need be UTF-8.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::format::unified::{Change, Diff};

/// The diff of a file from its old text to its new one, or nothing where they are the same.
pub fn diff(name: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let split =
        |text| -> Vec<&[u8]> { <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect() };
    let (old_lines, new_lines) = (split(old), split(new));
    let starts = |lines: &[&[u8]]| -> Vec<usize> {
        let ends = lines.iter().scan(0, |at, line| {
            *at += line.len();
            Some(*at)
        });
        std::iter::once(0).chain(ends).collect()
    };
    let (old_at, new_at) = (starts(&old_lines), starts(&new_lines));
    let mut diff = Diff::new(name);
    for op in capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (gone, come) = (op.old_range(), op.new_range());
        diff.add(&Change {
            line: gone.start as u64,
            before: &old[..old_at[gone.start]],
            old: &old[old_at[gone.start]..old_at[gone.end]],
            new: &new[new_at[come.start]..new_at[come.end]],
            after: &old[old_at[gone.end]..],
        });
    }
    diff.finish()
}
