//! The steps of a patch on disk; their order is in [`super`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::edits::{Edits, read_metadata, read_part};
use super::open::{OpenSource, OpenSplit};
use super::outcome::{NewSource, PatchOutcome, refresh_index};
use super::request::{PatchHooks, PatchOptions};
use conversation::format::harmless::quote_name;
use conversation::format::index;
use conversation::problem::Problem;
use edits::diff::unified::UnifiedDiff;
use sys::boundary::Boundary;
use sys::file_stamp::FileStamp;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::replace::{self, Content};
use sys::temp_files::TempFile;

const COPY: u64 = 32 << 20;
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
            "the patch would overwrite {}{why}; name another file with --patch",
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

/// Writes the source, the segments, the kept original and the index. Returns where the source's old content was kept.
pub(super) fn write_all(
    split: &OpenSplit,
    source: OpenSource,
    edits: &Edits,
    outcome: &PatchOutcome,
    boundary: &mut Boundary,
    hooks: &mut PatchHooks<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<PathBuf>, Problem> {
    let interrupts = hooks.interrupts;
    let index = index::format(&refresh_index(split, edits, outcome));
    let mut original = split.folder.create(&split.original, &mut |to| {
        write_new_source(split, &source.file, edits, outcome, to, interrupts)
    })?;
    hooks.check_interrupts()?;
    let path = source.path.clone();
    let previous = match &outcome.patch {
        Some(_) => replace_source(split, source, outcome, &mut original, hooks, notes)?,
        None => None,
    };
    boundary.renew_target();
    write_split(split, edits, outcome, original, &index).map_err(|problem| {
        let path = quote_name(path);
        let Problem { exit, message } = problem;
        Problem::new(
            exit,
            format!("{path} has the edits now, but {message}; run the same command again"),
        )
    })?;
    Ok(previous)
}

/// Steps 3 to 5.
fn write_split(
    split: &OpenSplit,
    edits: &Edits,
    outcome: &PatchOutcome,
    original: TempFile,
    index: &str,
) -> Result<(), Problem> {
    for (at, text) in &outcome.rewrites {
        // An editor may have saved it meanwhile. What only lacks a line ending keeps that edit for the next run; a merged
        // segment must not be listed as written when it is not.
        if is_unchanged(split, edits, *at) {
            let name = &split.segments[*at];
            let new = split.folder.create(name, &mut |file| file.write_all(text))?;
            split.folder.persist(new, name)?;
        } else if outcome.merged {
            let segment = split.describe_segment(*at);
            return Err(Problem::failed(format!("{segment} was changed while it was put back")));
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

fn write_new_source(
    split: &OpenSplit,
    source: &File,
    edits: &Edits,
    outcome: &PatchOutcome,
    to: &mut File,
    interrupts: &Interrupts,
) -> io::Result<()> {
    let mut source = source.try_clone()?;
    match &outcome.new_source {
        NewSource::Text(text) => return to.write_all(text),
        NewSource::Same => {
            let size = source.metadata()?.len();
            return copy_range(&mut source, to, 0, size, interrupts);
        }
        NewSource::WithEdits => {}
    }
    let mut done = 0;
    for (state, entry) in edits.segments.iter().zip(&split.index.segments) {
        if let Some(text) = &state.edited {
            copy_range(&mut source, to, done, entry.start_byte, interrupts)?;
            to.write_all(text)?;
            done = entry.end_byte;
        }
    }
    copy_range(&mut source, to, done, split.index.source_size_bytes, interrupts)
}

fn copy_range(
    from: &mut File,
    to: &mut File,
    start: u64,
    end: u64,
    interrupts: &Interrupts,
) -> io::Result<()> {
    from.seek(SeekFrom::Start(start))?;
    let mut left = end.saturating_sub(start);
    while left > 0 {
        if let Some(signal) = interrupts.pending() {
            return Err(io::Error::other(format!("interrupted by {}", signal.name())));
        }
        match io::copy(&mut Read::by_ref(from).take(left.min(COPY)), to) {
            Ok(0) => return Err(io::Error::other("a file that is copied has become shorter")),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            // What was copied before the signal counts.
            _ => left = end.saturating_sub(from.stream_position()?),
        }
    }
    Ok(())
}

/// Replaces the source by a copy of the new original. Returns where the previous content was kept.
fn replace_source(
    split: &OpenSplit,
    source: OpenSource,
    outcome: &PatchOutcome,
    original: &mut TempFile,
    hooks: &mut PatchHooks<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<PathBuf>, Problem> {
    let Some(opened) = source.opened else { return Ok(None) };
    if opened.count_other_links() > 0 {
        notes.push("other names of the source (hard links) keep its previous content".to_owned());
    }
    let interrupts = hooks.interrupts;
    let new = original.file_mut();
    let bytes = read_metadata(new)?.len();
    let keeps_always = hooks.keep.is_some() || outcome.keeps_previous;
    let mut keep_previous = |file: &mut File| match &mut hooks.keep {
        Some(keep) => keep(file),
        None => copy_to_before(split, file),
    };
    let mut content = Content {
        // Not from the source: one with hard links is written in place.
        write: &mut |to| copy_range(new, to, 0, bytes, interrupts),
        keep_previous: &mut keep_previous,
        keeps_always,
    };
    Ok(replace::write_content(opened, &mut content)?)
}

/// Copies a source to `{name}.before`, or to `{name}.before-2` and so on if that exists.
fn copy_to_before(split: &OpenSplit, file: &mut File) -> anyhow::Result<PathBuf> {
    let (folder, name) = (&split.folder, Path::new(&split.original));
    let mut copy = folder.create(&split.original, &mut |to| fs::copy_rest(file, to))?;
    for n in 1..=u32::MAX {
        let ending = if n == 1 { "before".to_owned() } else { format!("before-{n}") };
        let kept = name.with_extension(ending);
        match copy.persist(kept.as_os_str(), true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => {
                result?;
                folder.sync_names()?;
                return Ok(folder.path().join(kept));
            }
        }
    }
    anyhow::bail!("no name is free for a copy of {}", quote_name(name))
}
