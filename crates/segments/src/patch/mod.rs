//! Applies edited segments to their source, if the source is still the one that was split.
//!
//! The steps on disk, each atomic and durable before the next one begins:
//!
//! ```text
//! 1. write the patch file
//! 2. rewrite segments that lost their line ending
//! 3. replace the source
//! 4. replace index.json
//! ```
//! The caller's write boundary decides about each file. No record of the progress is needed: a run that finds a source
//! equal to the joined segments repeats step 4. So after a kill, run the same command again.

mod edits;
mod open;
mod request;
mod segment_diff;
mod write;

use std::path::{Path, PathBuf};

use self::edits::{Edits, SourceState, find_edits};
use self::open::{OpenSource, OpenSplit, find_index};
use self::segment_diff::diff_segments;
use self::write::{write_all, write_patch_file};
use crate::previous_split::load_index;
use ::edits::diff::file_diff::diff_name;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use sys::boundary::Boundary;
use sys::names::name_some;

pub use self::request::{PatchHooks, PatchOptions, PatchReport};

/// Returns the true path of an index, and the source that it names, for the caller's boundary.
pub fn find_source(index: &Path) -> Result<(PathBuf, PathBuf), Problem> {
    let path = find_index(index)?;
    let source = load_index(&path)?.source_path;
    Ok((path, PathBuf::from(source)))
}

/// Applies the edited segments of a split to their source.
pub fn patch(
    options: &PatchOptions<'_>,
    boundary: &mut Boundary,
    mut hooks: PatchHooks<'_>,
) -> Result<PatchReport, Problem> {
    let interrupts = hooks.interrupts;
    // Any failure after a signal is due to the signal.
    patch_locked(options, boundary, &mut hooks)
        .map_err(|problem| interrupts.pending().map_or(problem, Problem::interrupted))
}

fn patch_locked(
    options: &PatchOptions<'_>,
    boundary: &mut Boundary,
    hooks: &mut PatchHooks<'_>,
) -> Result<PatchReport, Problem> {
    let (split, _lock) = OpenSplit::open_index(options.index, boundary, hooks.interrupts)?;
    let source = OpenSource::open_file(options.dry_run, boundary, &split.index)?;
    let edits = find_edits(&split, &source.text, hooks)?;
    let patch = match edits.source {
        SourceState::AsSplit => {
            let toplevel = source.path.parent().and_then(git::find_toplevel);
            let name = diff_name(&source.path, toplevel.as_deref());
            diff_segments(&name, &source.text, &split.index.segments, &edits)
        }
        SourceState::HasEdits => None,
        SourceState::Changed => return Err(source_has_changed(&split, &edits)),
    };
    hooks.check_interrupts()?;
    let mut report = PatchReport {
        changed: patch.is_some(),
        applied: false,
        source_path: source.path.clone(),
        index_path: split.index_path.clone(),
        patch_path: None,
        source_sha256: edits.joined_sha256.clone(),
        edited: edits.numbers(),
        previous_path: None,
        notes: edits.notes.clone(),
    };
    if let Some(text) = &patch {
        report.patch_path = Some(write_patch_file(boundary, &split, &source.path, text)?);
    }
    if edits.source == SourceState::HasEdits && !report.edited.is_empty() {
        let note = "the source has these edits already, as after an interrupted run";
        report.notes.push(note.to_owned());
    }
    if options.dry_run || report.edited.is_empty() {
        if report.changed {
            report.source_sha256.clone_from(&split.index.source_sha256);
        }
        return Ok(report);
    }
    report.applied = report.changed;
    write_all(&split, source, &edits, boundary, hooks, &mut report)?;
    Ok(report)
}

fn source_has_changed(split: &OpenSplit, edits: &Edits) -> Problem {
    let names: Vec<String> =
        edits.numbers().iter().map(|number| quote_name(&split.segments[number - 1])).collect();
    let advice = if names.is_empty() {
        "split it again".to_owned()
    } else {
        let names = name_some(&names, 10, ", ");
        format!("split it again into another folder, and repeat the edits of {names} there")
    };
    Problem::failed(format!(
        "{} has changed since it was split, so nothing was changed; {advice}",
        quote_name(&split.index.source_path)
    ))
}
