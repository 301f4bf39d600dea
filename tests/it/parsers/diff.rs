//! Unified diffs: any text is a diff or is not, hunks apply or change nothing, and a diff that is written here, read back
//! and applied gives the new text.

use super::input::Input;
use conversation::format::edit::EditBlock;
use edits::apply::apply;
use edits::diff::parse::{DiffHunk, is_diff, parse_diff};
use edits::diff::unified::UnifiedDiff;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let lines = usize::from(input.byte());
    let old = String::from_utf8_lossy(input.field()).into_owned();
    let text = input.text();
    is_diff(&text);
    if let Ok(files) = parse_diff(&text) {
        for hunks in &files {
            match apply(&old, &blocks(hunks), false) {
                Ok(applied) => assert_eq!(applied.changes.len(), hunks.len()),
                Err(refusals) => assert!(!refusals.is_empty()),
            }
        }
    }
    round_trip(&old, &text, lines);
}

fn blocks(hunks: &[DiffHunk]) -> Vec<EditBlock> {
    let block = |hunk: &DiffHunk| EditBlock {
        search: hunk.old.clone(),
        replace: hunk.new.clone(),
        line: hunk.line,
    };
    hunks.iter().map(block).collect()
}

/// Some lines of a text are replaced by another text.
fn round_trip(old: &str, came: &str, lines: usize) {
    let starts: Vec<usize> =
        std::iter::once(0).chain(old.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let first = lines % 16 % starts.len();
    let start = starts[first];
    let end = starts.get(first + lines / 16).copied().unwrap_or(old.len());
    let gone = &old[start..end];
    let came = if end < old.len() && !came.is_empty() && !came.ends_with('\n') {
        format!("{came}\n")
    } else {
        came.to_owned()
    };
    if gone == came || (start == old.len() && !old.is_empty() && !old.ends_with('\n')) {
        return;
    }
    // The CR of a last line without LF cannot be told from a diff whose own lines end in CR LF.
    if [old, &came].iter().any(|text| text.ends_with('\r')) {
        return;
    }
    let mut diff = UnifiedDiff::new(b"a name \x01\"\xff");
    diff.add_change(first as u64, old.as_bytes(), start..end, came.as_bytes());
    let Some(bytes) = diff.finish() else { return };
    let text = String::from_utf8_lossy(&bytes);
    let files = parse_diff(&text).unwrap_or_else(|complaint| panic!("{complaint}\n{text}"));
    let [file] = files.as_slice() else { panic!("{} files\n{text}", files.len()) };
    let [hunk] = file.as_slice() else { panic!("{} hunks\n{text}", file.len()) };
    let context = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let before = context(edits::diff::unified::last_lines(&old.as_bytes()[..start], 3));
    let after = context(edits::diff::unified::first_lines(&old.as_bytes()[end..], 3));
    assert_eq!(hunk.old, format!("{before}{gone}{after}"), "{text}");
    assert_eq!(hunk.new, format!("{before}{came}{after}"), "{text}");
    // Where it applies at all (it may stand twice, or change nothing that counts), it gives the new text.
    if let Ok(applied) = apply(old, &blocks(file), false) {
        let expect = format!("{}{came}{}", &old[..start], &old[end..]);
        let twice = old.match_indices(&hunk.old).count() != 1;
        // What comes takes the file's line ends, and a byte order mark stays.
        let is_plain = ![old, &came].iter().any(|text| text.contains(['\r', '\u{feff}']));
        assert!(
            // The last line end of the file stays as it is.
            twice
                || !is_plain
                || applied.text.trim_end_matches('\n') == expect.trim_end_matches('\n'),
            "{:?} is not {expect:?}",
            applied.text
        );
    }
}
