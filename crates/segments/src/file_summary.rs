//! Summarizes files: a small one in one request, a large one by its segments.
//!
//! Every summary is cached as soon as it arrives ([`super::summary_queue`]), so the next run continues where this one ended.
//! Segments are read when they are sent: memory follows the segments, not the file.

use std::path::Path;

use super::content::{self, ContentKind, Encoding};
use super::split::{self, Split, SplitHooks, SplitRequest};
use super::summary_cache::Summary;
use super::summary_plan::{RequestSizes, SummaryKind};
use super::summary_queue::{PartedText, ShowProgress, SummaryQueue};
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index};
use conversation::format::numbers::format_tokens;
use conversation::problem::Problem;
use sys::atomic_file::AtomicFile;
use sys::fs;
use sys::read::read_range;

/// Minimum number of segments for which the cost of a summary is reported in advance.
const MANY_SEGMENTS: usize = 20;

/// The summary of a file.
#[derive(Debug)]
pub struct FileSummary {
    /// The summary of the whole file.
    pub summary: Summary,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The segments of a large file, with their summaries. Their files were removed.
    pub index: Option<Index>,
}

/// Summarizes a file. A large one is split into a private folder that is removed afterwards. `progress` gets the number of
/// finished segments and of all.
pub fn summarize_file(
    queue: &SummaryQueue<'_>,
    path: &Path,
    progress: ShowProgress<'_>,
) -> Result<FileSummary, Problem> {
    let (bytes, head) = read_range(path, 0, content::HEAD)?;
    let encoding = match find_encoding(&head, bytes) {
        Ok(encoding) => encoding,
        Err(summary) => return Ok(FileSummary { summary, bytes, index: None }),
    };
    let sizes = RequestSizes::for_window(queue.rules.window)?;
    if bytes <= sizes.small {
        let (_, content) = read_range(path, 0, sizes.small)?;
        let text = content::decode_text(&content, encoding);
        if text.contains(char::REPLACEMENT_CHARACTER) {
            (queue.rules.report)("some bytes are not text; the model got U+FFFD for them");
        }
        let whole = PartedText {
            kind: SummaryKind::File,
            limit: queue.limit(),
            name: &quote_name(path),
            parts: vec![(1, 1)],
            read: &|_| Ok(text.clone()),
            sizes,
        };
        let summary = queue.summarize_parts(&whole, progress).1?;
        return Ok(FileSummary { summary, bytes, index: None });
    }
    let temporary = fs::empty_folder()?;
    let mut index = split_source(queue, path, temporary.path(), sizes.small)?;
    let summary = fill_index(queue, &mut index, progress)?;
    Ok(FileSummary { summary, bytes: index.source_size_bytes, index: Some(index) })
}

/// Returns the encoding of a text, or the summary of a file that needs no model.
fn find_encoding(head: &[u8], bytes: u64) -> Result<Encoding, Summary> {
    let text = match content::detect_content(head) {
        ContentKind::Text(encoding) => return Ok(encoding),
        ContentKind::Empty => "Empty: 0 bytes.".to_owned(),
        ContentKind::Blank => "Blank: nothing but white space.".to_owned(),
        ContentKind::Binary => format!("Binary, {bytes} bytes."),
    };
    Err(Summary { text, by: None })
}

fn split_source(
    queue: &SummaryQueue<'_>,
    source: &Path,
    output: &Path,
    target: u64,
) -> Result<Index, Problem> {
    let interrupts = queue.rules.interrupts;
    let stop = || interrupts.pending().is_some();
    let mut hooks = SplitHooks { stop: &stop, progress: &mut |_, _| () };
    let request = SplitRequest { target, ..SplitRequest::new(source, output) };
    let mut split = split::split(&request, &mut hooks)
        .map_err(|problem| interrupts.pending().map_or(problem, Problem::interrupted))?;
    split.notes.drain(..).for_each(|note| (queue.rules.report)(&note));
    Ok(split.index)
}

/// Summarizes the segments of a split, and the whole. All summaries that arrive are added to its index.
pub fn summarize_segments(
    queue: &SummaryQueue<'_>,
    split: &mut Split,
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let result = fill_index(queue, &mut split.index, progress);
    let index = index::format(&split.index);
    let written = AtomicFile::new(&split.index_path).keep_mode().write(index.as_bytes());
    // The failure of the summaries matters more than that of writing the index.
    result.and_then(|summary| Ok(written.map(|()| summary)?))
}

fn fill_index(
    queue: &SummaryQueue<'_>,
    index: &mut Index,
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let path = Path::new(&index.source_path);
    let head = read_range(path, 0, content::HEAD)?.1;
    let encoding = match find_encoding(&head, index.source_size_bytes) {
        Ok(encoding) => encoding,
        Err(summary) => {
            index.summary = Some(summary.text.clone());
            return Ok(summary);
        }
    };
    let name = &quote_name(path);
    let sizes = RequestSizes::for_window(queue.rules.window)?;
    let longest = index.segments.iter().map(|segment| segment.end_byte - segment.start_byte).max();
    if longest.is_some_and(|longest| longest > sizes.small) {
        let most = sizes.small;
        return Err(Problem::failed(format!(
            "segments of {name} are too large for a request; split it with --target-bytes {most} or less"
        )));
    }
    let count = index.segments.len();
    if count > MANY_SEGMENTS {
        (queue.rules.report)(&format!(
            "{name} takes about {count} requests and {} tokens, less what is cached; Ctrl-C stops it, and the same command \
             goes on from there",
            format_tokens(index.source_size_bytes / 4)
        ));
    }
    let read = |at: usize| {
        let segment = &index.segments[at];
        let size = segment.end_byte - segment.start_byte;
        let (_, bytes) = read_range(path, segment.start_byte, size)?;
        if fs::sha256(&bytes) != segment.sha256 {
            let message = format!("{name} has changed since it was split; split it again");
            return Err(Problem::failed(message));
        }
        Ok(content::decode_text(&bytes, encoding))
    };
    let lines = index.segments.iter();
    let whole = PartedText {
        kind: SummaryKind::File,
        limit: queue.limit(),
        name,
        parts: lines.map(|segment| (segment.start_line_num, segment.end_line_num)).collect(),
        read: &read,
        sizes,
    };
    let (parts, summary) = queue.summarize_parts(&whole, progress);
    for (segment, part) in index.segments.iter_mut().zip(parts) {
        segment.summary = part.map(|part| part.text);
    }
    let summary = summary?;
    index.summary = Some(summary.text.clone());
    Ok(summary)
}

#[cfg(test)]
mod tests;
