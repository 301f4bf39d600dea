//! Refuses actions that would replace a credential with its mask.

use std::path::Path;

use super::run_context::RunContext;
use conversation::format::index;
use conversation::limits;
use conversation::protocol::{Action, Change};
use segments::previous_split::edited_segments;
use sys::fs;

pub(super) fn check_for_masks(action: &Action, context: &RunContext<'_>) -> Option<String> {
    let Action::Change(change) = action else { return None };
    match change {
        Change::FilePatch { index } => check_segments_for_masks(&context.resolve(index), context),
        Change::Write { text, .. } => context.redactor.refuse_mask(text),
        Change::Edit { blocks, .. } => context.redactor.refuse_mask(blocks),
    }
}

fn check_segments_for_masks(path: &Path, context: &RunContext<'_>) -> Option<String> {
    let read = |path: &Path, limit| {
        let bytes = fs::read_bytes(path, limit).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    // A file that is not an index, or cannot be read as one, puts nothing back.
    let index = index::parse(&read(path, limits::SEGMENT_INDEX)?).ok()?;
    let folder = path.parent()?;
    edited_segments(path, &index, &context.stop_check()).iter().find_map(|name| {
        let refusal =
            context.redactor.refuse_mask(&read(&folder.join(name), limits::MASKED_SEGMENT)?)?;
        Some(format!("{name}: {refusal}"))
    })
}
