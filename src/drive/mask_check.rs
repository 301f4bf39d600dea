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
    // Without shapes the only masks are those of this process's own keys.
    let is_on = context.redactor.finds_shapes();
    // A file that is not an index, or cannot be read as one, puts nothing back.
    let index = match read_for_masks(path, limits::SEGMENT_INDEX) {
        Ok(text) => index::parse(&text).ok()?,
        Err(refusal) => return refusal.filter(|_| is_on),
    };
    let folder = path.parent()?;
    edited_segments(path, &index, &context.stop_check()).iter().find_map(|name| {
        let refusal = match read_for_masks(&folder.join(name), limits::MASKED_SEGMENT) {
            Ok(text) => context.redactor.refuse_mask(&text)?,
            Err(refusal) => return refusal.filter(|_| is_on),
        };
        Some(format!("{name}: {refusal}"))
    })
}

/// Reads a file to search it for masks, else says why it may not be put back. `Err(None)`: there is no such file.
fn read_for_masks(path: &Path, limit: u64) -> Result<String, Option<String>> {
    match fs::read_bytes(path, limit) {
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(None) => Err(None),
        Err(_) => Err(Some(format!(
            "nothing was changed: {} cannot be checked for masked credentials (unreadable, or over {} MiB); only the user \
             can turn the check off (--redact)",
            path.display(),
            limit >> 20
        ))),
    }
}
