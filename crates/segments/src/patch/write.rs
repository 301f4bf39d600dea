//! The steps of a patch on disk; their order is in [`super`].

use std::path::{Path, PathBuf};

use super::edits::Edits;
use super::open::{OpenSource, OpenSplit};
use super::request::{PatchHooks, PatchReport};
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index};
use conversation::problem::Problem;
use edits::diff::lines::count_line_feeds;
use edits::diff::unified::first_lines;
use sys::boundary::Boundary;
use sys::file_error::FileError;
use sys::opening::Opened;
use sys::replace;

/// Writes the patch file; it may only replace an older patch of the same source.
pub(super) fn write_patch_file(
    boundary: &Boundary,
    split: &OpenSplit,
    source: &Path,
    text: &[u8],
) -> Result<PathBuf, Problem> {
    let stem = Path::new(&split.index.source_path).file_stem().unwrap_or_default();
    let mut name = stem.to_owned();
    name.push(".patch");
    let beside = split.file_path(name);
    let opened = boundary.open_for_write(&beside)?;
    let path = opened.path().to_owned();
    // A patch begins with the name of its source.
    let head = first_lines(text, 1);
    let old = replace::read_bytes(&opened, head.len() as u64)?.unwrap_or_default();
    if path == source || opened.is_linked() || !(old.is_empty() || old == head) {
        return Err(Problem::failed(format!(
            "the patch would overwrite {}, which is not a patch of this source; move the folder of the split, or that file",
            quote_name(&path)
        )));
    }
    write_file(opened, text)?;
    Ok(path)
}

/// Writes a file of the split, whose previous content need not be stored.
fn write_file(opened: Opened, bytes: &[u8]) -> Result<(), FileError> {
    replace::replace_file(opened, bytes, &mut |_| Ok(PathBuf::new())).map(drop)
}

/// Writes segments that lost their line ending, the source if it changes, and the index.
pub(super) fn write_all(
    split: &OpenSplit,
    source: OpenSource,
    edits: &Edits,
    boundary: &mut Boundary,
    hooks: &mut PatchHooks<'_>,
    report: &mut PatchReport,
) -> Result<(), Problem> {
    write_line_endings(split, edits, boundary)?;
    hooks.check_interrupts()?;
    let path = quote_name(&source.path);
    if let Some(opened) = source.opened.filter(|_| report.changed) {
        let written = replace::replace_file(opened, &edits.joined, hooks.keep)?;
        if written.parted > 0 {
            let note = "other names of the source (hard links) keep its previous content";
            report.notes.push(note.to_owned());
        }
        report.previous_path = written.previous;
    }
    boundary.renew_target();
    let index = index::format(&refresh_index(split, edits));
    let opened = boundary.open_for_write(&split.index_path);
    opened.and_then(|opened| write_file(opened, index.as_bytes())).map_err(|error| {
        Problem::failed(format!(
            "{path} has the edits now, but {error}; run the same command again"
        ))
    })
}

fn write_line_endings(
    split: &OpenSplit,
    edits: &Edits,
    boundary: &Boundary,
) -> Result<(), Problem> {
    for (at, segment) in edits.segments.iter().enumerate() {
        let text = &edits.joined[segment.range.clone()];
        let old = text.strip_suffix(segment.lost_ending).unwrap_or_default();
        // An editor may have saved the segment meanwhile; the next run adds the ending.
        if !segment.lost_ending.is_empty() && split.read_segment(at)? == old {
            let opened = boundary.open_for_write(&split.file_path(&split.segments[at]))?;
            write_file(opened, text)?;
        }
    }
    Ok(())
}

/// Returns the index of the present segments.
fn refresh_index(split: &OpenSplit, edits: &Edits) -> Index {
    let mut index = split.index.clone();
    let (mut byte, mut feeds) = (0, 0);
    for (at, (entry, segment)) in index.segments.iter_mut().zip(&edits.segments).enumerate() {
        if segment.is_edited {
            entry.summary = None;
        }
        if let Some(path) = split.file_path(&split.segments[at]).to_str() {
            path.clone_into(&mut entry.path);
        }
        let text = &edits.joined[segment.range.clone()];
        entry.start_byte = byte;
        entry.start_line_num = feeds + 1;
        byte += text.len() as u64;
        feeds += count_line_feeds(text);
        entry.end_byte = byte;
        entry.end_line_num = match text.last() {
            None => entry.start_line_num - 1,
            Some(last) => feeds + u64::from(*last != b'\n'),
        };
        entry.sha256.clone_from(&segment.sha256);
    }
    index.source_sha256.clone_from(&edits.joined_sha256);
    index.source_size_bytes = byte;
    let ends = index.segments.iter().map(|segment| segment.end_line_num);
    index.source_line_count = ends.max().unwrap_or(0);
    index.summary = None;
    index
}
