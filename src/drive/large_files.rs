//! Actions on large files: a file split into segments for the model, and edited segments put back.
//!
//! A split that is made here is in the conversation's own folder below the root, which the conversation may write. A file
//! that has not changed since is not split again. Where a patch goes is decided by the write boundary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::change_result::ChangeResult;
use super::file_guard::FileGuard;
use super::result_block::error;
use super::run_context::RunContext;
use code::outline::describe_text;
use conversation::format::file::Block;
use conversation::format::index::{self, Index};
use conversation::problem::Problem;
use conversation::reason::Failure;
use segments::patch::{self, PatchHooks, PatchOptions};
use segments::previous_split::{edited_segments, load_index};
use segments::split::{self, Split, SplitHooks, SplitRequest};
use sys::conversation_file::ConversationFile;
use sys::fs;

/// Maximum size of a segment that is read for its description, in bytes. One of a single line may be longer.
const SEGMENT: u64 = 4 << 20;
/// Number of lines that are shown of the file's beginning, and the maximum of each, in bytes.
const HEAD_LINES: usize = 10;
const HEAD_LINE: usize = 160;

/// Splits a file, by its path without links, that is too large to be shown, and lists its segments.
pub(super) fn split_file(
    block: Block,
    source: &Path,
    splits: &Path,
    context: &RunContext<'_>,
    files: &mut FileGuard,
) -> anyhow::Result<Block> {
    let block = block.with("mode", "split");
    fs::create_private_folder(splits)?;
    files.boundary.allow_splits(splits);
    let split = match find_split(splits, source, context) {
        Some(known) => Ok(known),
        None => make_split(splits, source, context),
    };
    let Split { index_path, index, notes } = match split {
        Ok(split) => split,
        Err(problem) => return Ok(error(block, problem.to_string())),
    };
    let block = block
        .with("status", "ok")
        .with("bytes", index.source_size_bytes)
        .with("lines", index.source_line_count)
        .with("type", &index.split_type)
        .with("index_path", index_path.display())
        .with("segment_count", index.segment_count);
    let may_change = files.boundary.open_for_write(source).is_ok();
    let block = files.record_split(block, source, &index.source_sha256);
    let text = describe_segments(&index, &notes, may_change);
    context.redactor.with_cut_lines(block, text, &context.root.outputs_folder())
}

fn make_split(splits: &Path, source: &Path, context: &RunContext<'_>) -> Result<Split, Problem> {
    let output = splits.join(split::default_folder_name(source));
    let request = SplitRequest { private: true, ..SplitRequest::new(source, &output) };
    let stop = context.stop_check();
    let mut hooks = SplitHooks { stop: &stop, progress: &mut |_, _| () };
    split::split_resolved(&request, source, &mut hooks)
}

/// Finds a split of this conversation that is of the file as it is now.
fn find_split(splits: &Path, source: &Path, context: &RunContext<'_>) -> Option<Split> {
    // A name with a dot is of a split that is being written, or that a killed run did not finish.
    let names = fs::list_names(splits).ok()?.into_iter().filter(|name| !name.starts_with('.'));
    for path in names.map(|name| splits.join(name).join(index::NAME)) {
        let found = load_index(&path).ok();
        let Some(found) = found.filter(|found| Path::new(&found.source_path) == source) else {
            continue;
        };
        if fs::hash_file(source, &context.stop_check())? == found.source_sha256 {
            let edited = edited_segments(&path, &found, &context.stop_check()).join(", ");
            let note =
                "it was already split, and these segments have edits that are not in the file";
            let note = (!edited.is_empty()).then(|| format!("{note}: {edited}"));
            return Some(Split { index_path: path, index: found, notes: Vec::from_iter(note) });
        }
    }
    None
}

pub(super) fn apply_patch(
    block: Block,
    index: &str,
    context: &RunContext<'_>,
    files: &mut FileGuard,
    conversation: &ConversationFile,
) -> Result<ChangeResult, Failure> {
    let index = context.resolve(index);
    let options = PatchOptions { index: &index, dry_run: false };
    let (outputs, stop) = (context.root.outputs_folder(), context.stop_check());
    let mut keep = |file: &mut std::fs::File| fs::store_file(&outputs, file, &stop);
    let hooks = PatchHooks { interrupts: context.interrupts, keep: &mut keep };
    let done = patch::patch(&options, &mut files.boundary, hooks)
        .map_err(|problem| problem.to_string())?;
    let edited: Vec<String> = done.edited.iter().map(usize::to_string).collect();
    let as_text = |path: &PathBuf| path.display().to_string();
    let block = block
        .with("status", "ok")
        .with("changed", done.changed)
        .with("path", done.source_path.display())
        .with_some("patch", done.patch_path.as_ref().map(as_text))
        .with_some("previous", done.previous_path.as_ref().map(as_text))
        .with_some("edited", (!edited.is_empty()).then(|| edited.join(",")));
    let mut text = String::new();
    if !done.changed && done.edited.is_empty() {
        text.push_str("no segment was edited: nothing was changed\n");
    }
    for note in &done.notes {
        let _ = writeln!(text, "{note}");
    }
    let block = block.body(text.trim_end());
    Ok(files.record_patch(block, &done.source_path, conversation)?)
}

fn describe_segments(index: &Index, notes: &[String], may_change: bool) -> String {
    let mut text = String::from(if may_change {
        "To search or count, use <nagent-grep> or a command; to change the file, <nagent-edit>. Or read the segments that \
         matter, edit them in place, and put them back with <nagent-file-patch index=\"P\"/>, \
         where P is index_path.\n"
    } else {
        "To search or count, use <nagent-grep> or a command; or read the segments that matter. This conversation may not \
         change the file; the file's own conversation may: <nagent-conversation file=\"P\">.\n"
    });
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (at, segment) in index.segments.iter().enumerate() {
        let path = Path::new(&segment.path);
        let content = fs::read_bytes(path, SEGMENT).ok().flatten().unwrap_or_default();
        let content = String::from_utf8_lossy(&content);
        if at == 0 {
            let head = content.lines().take(HEAD_LINES).map(|line| {
                let end = line.floor_char_boundary(HEAD_LINE);
                format!("{}{}\n", &line[..end], if end < line.len() { "…" } else { "" })
            });
            let folder = path.parent().unwrap_or(path).display();
            let head: String = head.collect();
            let _ = writeln!(text, "The file begins:\n{head}The segments are in {folder}/:");
        }
        let _ = writeln!(
            text,
            "segment {}: lines {}-{}, {} bytes, {}: {}",
            segment.segment_index,
            segment.start_line_num,
            segment.end_line_num,
            segment.end_byte - segment.start_byte,
            path.file_name().unwrap_or_default().to_string_lossy(),
            describe_text(&content)
        );
    }
    text.truncate(text.trim_end().len());
    text
}
