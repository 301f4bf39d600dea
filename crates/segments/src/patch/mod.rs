//! Puts edited segments back into their source.
//!
//! The steps on disk, each atomic and durable before the next one begins:
//!
//! ```text
//! 1. write the patch file
//! 2. replace the source (the caller's write boundary decides whether it may be written)
//! 3. rewrite segments that lost their line ending, or that a merge has changed
//! 4. replace {source}.orig
//! 5. replace index.json
//! ```
//! No record of the progress is needed. A run that finds a source equal to the joined segments does steps 3 to 5 again,
//! and a merge that is repeated gives the same text. So after a kill, the same command is the remedy.

mod edits;
mod open;
mod outcome;
mod request;
mod segment_diff;
mod write;

use std::path::{Path, PathBuf};

use self::edits::{find_edits, hash_file};
use self::open::{OpenSource, OpenSplit, index_not_found, parse_index, unusable_index};
use self::outcome::{Inputs, PatchOutcome};
use self::write::{write_all, write_patch_file};
use ::edits::diff::file_diff::diff_name;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use sys::boundary::Boundary;
use sys::fs;

pub use self::request::{PatchHooks, PatchOptions, PatchReport};

/// Returns the true path of an index, and the source that it names: what a boundary is made from.
pub fn find_source(index: &Path) -> Result<(PathBuf, PathBuf), Problem> {
    let path = fs::real_path(index).ok_or_else(|| index_not_found(index))?;
    let text = fs::read_text(&path, conversation::limits::SEGMENT_INDEX)?
        .ok_or_else(|| index_not_found(index))?;
    let index = parse_index(&text).map_err(|why| unusable_index(&path, &why))?;
    Ok((path, PathBuf::from(index.source_path)))
}

/// Puts the edited segments of a split back into their source.
pub fn patch(
    options: &PatchOptions<'_>,
    boundary: &mut Boundary,
    mut hooks: PatchHooks<'_>,
) -> Result<PatchReport, Problem> {
    let interrupts = hooks.interrupts;
    // Whatever fails after a signal fails because of it.
    patch_locked(options, boundary, &mut hooks)
        .map_err(|problem| interrupts.pending().map_or(problem, Problem::interrupted))
}

fn patch_locked(
    options: &PatchOptions<'_>,
    boundary: &mut Boundary,
    hooks: &mut PatchHooks<'_>,
) -> Result<PatchReport, Problem> {
    let (split, _lock) = OpenSplit::open_index(options.index, boundary, hooks.interrupts)?;
    let source = OpenSource::open_file(options.dry_run, boundary, &split)?;
    let edits = find_edits(&split, &source.file, options.force, hooks)?;
    let toplevel = source.path.parent().and_then(git::find_toplevel);
    let name = diff_name(&source.path, toplevel.as_deref());
    let inputs =
        Inputs { options, split: &split, source: &source.file, name: &name, edits: &edits };
    let outcome = inputs.decide()?;
    hooks.check_interrupts()?;
    let mut report = PatchReport {
        changed: outcome.patch.is_some(),
        applied: false,
        source_path: source.path.clone(),
        index_path: split.index_path(),
        patch_path: None,
        source_sha256: String::new(),
        edited: edits.numbers(),
        merged: outcome.merged,
        recovered: outcome.recovered,
        previous_path: None,
        notes: edits.notes.clone(),
    };
    if let Some(text) = &outcome.patch {
        report.patch_path = Some(write_patch_file(options, boundary, &split, &source.path, text)?);
    }
    report.notes.extend(describe(&outcome, options.dry_run));
    let is_idle = outcome.patch.is_none() && edits.matches_source && report.edited.is_empty();
    if options.dry_run || is_idle {
        report.source_sha256 = hash_file(&source.file)?;
        return Ok(report);
    }
    report.applied = report.changed;
    report.source_sha256.clone_from(&outcome.sha256);
    report.previous_path =
        write_all(&split, source, &edits, &outcome, boundary, hooks, &mut report.notes)?;
    if let Some(previous) = &report.previous_path {
        report
            .notes
            .push(format!("the previous content of the source is in {}", quote_name(previous)));
    }
    Ok(report)
}

fn describe(outcome: &PatchOutcome, is_dry: bool) -> Option<String> {
    let note = if outcome.recovered && is_dry {
        "the source has these edits already, as after an interrupted run; the next run without --dry-run updates the rest"
    } else if outcome.recovered {
        "the source has these edits already, as after an interrupted run; updated the rest"
    } else if outcome.merged && outcome.patch.is_none() {
        "the source already has all edits; updated the segments and the index"
    } else {
        return None;
    };
    Some(note.to_owned())
}
