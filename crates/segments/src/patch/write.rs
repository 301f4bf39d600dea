//! The steps of a patch on disk; their order is in [`super`].

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::edits::{Edits, read_part};
use super::open::{OpenSource, OpenSplit};
use super::request::{PatchHooks, PatchOptions, PatchReport};
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index};
use conversation::problem::Problem;
use edits::diff::unified::UnifiedDiff;
use sys::boundary::Boundary;
use sys::file_stamp::FileStamp;
use sys::fs;
use sys::replace::{self, Content};
use sys::temp_files::TempFile;

/// The first line of a patch is within this many bytes, its path quoted.
const PATCH_HEAD: u64 = 32 << 10;

/// Writes the patch file, over an older patch of the same source only.
pub(super) fn write_patch_file(
    options: &PatchOptions<'_>,
    boundary: &Boundary,
    split: &OpenSplit,
    source: &Path,
    text: &[u8],
) -> Result<PathBuf, Problem> {
    let beside = || {
        let stem = Path::new(&split.index.source_path).file_stem().unwrap_or_default();
        let mut name = stem.to_owned();
        name.push(".patch");
        split.folder.path().join(name)
    };
    let named = options.patch.and_then(|named| Some((named, named.target()?)));
    let opened = match named {
        Some((named, path)) => named.open_for_write(path)?,
        None => boundary.open_for_write(&beside())?,
    };
    let path = opened.path().to_owned();
    let is_ours = path.parent() == Some(split.folder.path())
        && path.file_name().is_some_and(|name| split.has_file(name));
    let is_patch = opened.file().is_none_or(|file| is_patch_of(file, source));
    if path == source || is_ours || opened.is_linked() || !is_patch {
        let why = if is_patch { "" } else { ", which is not a patch of this source" };
        return Err(Problem::failed(format!(
            "the patch would overwrite {}{why}; name another file with nagent-file-patch --patch",
            quote_name(&path)
        )));
    }
    replace::write_content(
        opened,
        &mut Content {
            write: &mut |file| file.write_all(text),
            keep_previous: &mut |_| Ok(PathBuf::new()),
            keeps_always: false,
        },
    )?;
    Ok(path)
}

/// Whether a file is empty or a patch of a source. The name in it may be any end of the path.
fn is_patch_of(file: &File, source: &Path) -> bool {
    let Ok(start) = read_part(file, 0, PATCH_HEAD) else { return false };
    let is_named =
        |name: &Path| start.starts_with(&UnifiedDiff::first_line(name.as_os_str().as_bytes()));
    let mut names = source.ancestors().filter_map(|top| source.strip_prefix(top).ok());
    start.is_empty() || names.any(|name| !name.as_os_str().is_empty() && is_named(name))
}

/// Writes the source if it changes, the segments, the kept original and the index.
pub(super) fn write_all(
    options: &PatchOptions<'_>,
    split: &OpenSplit,
    source: OpenSource,
    edits: &Edits,
    boundary: &mut Boundary,
    hooks: &mut PatchHooks<'_>,
    report: &mut PatchReport,
) -> Result<(), Problem> {
    let index = index::format(&refresh_index(split, edits));
    let mut original =
        split.folder.create(&split.original, &mut |to| write_joined(split, edits, hooks, to))?;
    hooks.check_interrupts()?;
    let path = quote_name(&source.path);
    if let Some(opened) = source.opened.filter(|_| report.changed) {
        if opened.count_other_links() > 0 {
            report.notes.push(
                "other names of the source (hard links) keep its previous content".to_owned(),
            );
        }
        let new = original.file_mut();
        let mut content = Content {
            // Not from the source: one with hard links is written in place.
            write: &mut |to| new.rewind().and_then(|()| fs::copy_rest(new, to)),
            keep_previous: hooks.keep,
            keeps_always: options.keeps_always,
        };
        report.previous_path = replace::write_content(opened, &mut content)?;
    }
    boundary.renew_target();
    write_split(split, edits, original, &index).map_err(|Problem { exit, message, .. }| {
        Problem::new(
            exit,
            format!("{path} has the edits now, but {message}; run the same command again"),
        )
    })
}

/// Writes the text of all segments. Those that were not edited are read again.
fn write_joined(
    split: &OpenSplit,
    edits: &Edits,
    hooks: &PatchHooks<'_>,
    to: &mut File,
) -> io::Result<()> {
    for (at, segment) in edits.segments.iter().enumerate() {
        hooks.check_interrupts().map_err(|problem| io::Error::other(problem.to_string()))?;
        if let Some(text) = &segment.edited {
            to.write_all(text)?;
            continue;
        }
        let failed = |problem: Problem| io::Error::other(problem.to_string());
        let mut text = Vec::new();
        split.open_segment(at).map_err(failed)?.read_to_end(&mut text)?;
        if fs::sha256(&text) != segment.extent.sha256 {
            let segment = split.describe_segment(at);
            return Err(io::Error::other(format!("{segment} was changed while it was put back")));
        }
        to.write_all(&text)?;
    }
    Ok(())
}

/// Steps 3 to 5.
fn write_split(
    split: &OpenSplit,
    edits: &Edits,
    original: TempFile,
    index: &str,
) -> Result<(), Problem> {
    for (at, segment) in
        edits.segments.iter().enumerate().filter(|(_, segment)| segment.gets_ending)
    {
        // An editor may have saved it meanwhile; the next run puts that back.
        if let Some(text) = segment.edited.as_ref().filter(|_| is_unchanged(split, edits, at)) {
            let name = &split.segments[at];
            let new = split.folder.create(name, &mut |file| file.write_all(text))?;
            split.folder.persist(new, name)?;
        }
    }
    split.folder.sync_names()?;
    split.folder.persist(original, &split.original)?;
    split.folder.sync_names()?;
    let name = &split.index_name;
    let new = split.folder.create(name, &mut |file| file.write_all(index.as_bytes()))?;
    split.folder.persist(new, name)?;
    Ok(split.folder.sync_names()?)
}

/// Whether a segment file still is what was read. What is saved between this check and the rename that follows is lost.
fn is_unchanged(split: &OpenSplit, edits: &Edits, at: usize) -> bool {
    let now = split.open_segment(at).ok().and_then(FileStamp::of_open);
    now.zip(edits.segments[at].stamp).is_some_and(|(now, read)| now.is_unchanged(&read))
}

/// Returns the index of the segments as they are now.
fn refresh_index(split: &OpenSplit, edits: &Edits) -> Index {
    let mut index = split.index.clone();
    let (mut byte, mut feeds) = (0, 0);
    for (at, (segment, state)) in index.segments.iter_mut().zip(&edits.segments).enumerate() {
        let extent = &state.extent;
        if state.edited.is_some() {
            segment.summary = None;
        }
        if let Some(path) = split.segment_path(at).to_str() {
            path.clone_into(&mut segment.path);
        }
        segment.start_byte = byte;
        segment.start_line_num = feeds + 1;
        byte += extent.bytes;
        feeds += extent.line_feeds;
        segment.end_byte = byte;
        segment.end_line_num = match extent.bytes {
            0 => segment.start_line_num - 1,
            _ => feeds + u64::from(!extent.ends_line),
        };
        segment.sha256.clone_from(&extent.sha256);
    }
    index.source_sha256.clone_from(&edits.joined_sha256);
    index.source_size_bytes = byte;
    let ends = index.segments.iter().map(|segment| segment.end_line_num);
    index.source_line_count = ends.max().unwrap_or(0);
    index.summary = None;
    if let Some(path) = split.original_path().to_str() {
        path.clone_into(&mut index.original_path);
    }
    index
}
