//! Summarizes files: a small one in one request, a large one by its segments.
//!
//! Every summary is cached as soon as it arrives ([`super::summary_queue`]), so the next run continues where this one ended.
//! Segments are read when they are sent: memory follows the segments, not the file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::content::{self, ContentKind, Encoding};
use super::split::{self, Split, SplitHooks, SplitRequest};
use super::summary_cache::Summary;
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, WordLimit};
use super::summary_queue::{
    ShowProgress, SummarizedPart, SummarizedWhole, SummaryQueue, SummaryRequest,
};
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index};
use conversation::format::numbers::format_tokens;
use conversation::problem::Problem;
use sys::atomic_file::AtomicFile;
use sys::fs;
use sys::read::read_range;

/// From how many segments on it is said first what a summary takes.
const MANY_SEGMENTS: usize = 20;

/// The summary of a file.
#[derive(Debug)]
pub struct FileSummary {
    /// The summary of the whole.
    pub summary: Summary,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The split of a large file, with the summaries of its segments. Its files were removed if no folder was named.
    pub split: Option<Split>,
}

struct SummaryInput<'a, 'q> {
    queue: &'a SummaryQueue<'q>,
    encoding: Encoding,
    /// Whether the user knows already that bytes were replaced.
    is_loss_reported: AtomicBool,
}

/// Summarizes a file. A large one is split into `output`, or into a private folder that is removed afterwards. `progress`
/// gets the segments that are done, and all.
pub fn summarize_file(
    queue: &SummaryQueue<'_>,
    path: &Path,
    output: Option<&Path>,
    progress: ShowProgress<'_>,
) -> Result<FileSummary, Problem> {
    let limit = queue.limit();
    let (bytes, head) = read_range(path, 0, content::HEAD)?;
    let kind = content::detect_content(&head);
    if let Some(text) = free_summary(kind, bytes) {
        let summary = Summary { text: limit.truncate(&text), by: None };
        return Ok(FileSummary { summary, bytes, split: None });
    }
    let sizes = RequestSizes::for_window(queue.rules.window)?;
    if bytes <= sizes.small {
        let source = SummaryInput::new(queue, kind);
        let (_, content) = read_range(path, 0, sizes.small)?;
        let request = SummaryRequest {
            kind: SummaryKind::File,
            limit,
            place: format!("File: {}", quote_name(path)),
            subject: quote_name(path),
            text: source.decode(&content),
        };
        return Ok(FileSummary { summary: queue.summarize(&request)?, bytes, split: None });
    }
    let temporary = if output.is_none() { Some(fs::empty_folder()?) } else { None };
    let folder = output.or(temporary.as_ref().map(tempfile::TempDir::path));
    // Segments that stay are for editing.
    let target = if output.is_some() { split::TARGET.min(sizes.small) } else { sizes.small };
    let mut split = split_source(queue, path, folder.unwrap_or(path), target)?;
    let index_path = output.is_some().then_some(split.index_path.as_path());
    let summary = summarize_segments(queue, index_path, &mut split.index, progress)?;
    Ok(FileSummary { summary, bytes: split.index.source_size_bytes, split: Some(split) })
}

fn split_source(
    queue: &SummaryQueue<'_>,
    source: &Path,
    output: &Path,
    target: u64,
) -> Result<Split, Problem> {
    let interrupts = queue.rules.interrupts;
    let stop = || interrupts.pending().is_some();
    let mut hooks = SplitHooks { stop: &stop, progress: &mut |_, _| () };
    let request = SplitRequest { target, ..SplitRequest::new(source, output) };
    let mut split = split::split(&request, &mut hooks)
        .map_err(|problem| interrupts.pending().map_or(problem, Problem::interrupted))?;
    split.notes.drain(..).for_each(|note| (queue.rules.report)(&note));
    Ok(split)
}

/// Summarizes the segments of a split, and the whole. All summaries that arrive are put into the index at `index_path`.
pub fn summarize_segments(
    queue: &SummaryQueue<'_>,
    index_path: Option<&Path>,
    index: &mut Index,
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let result = fill_index(queue, index, progress);
    let Some(path) = index_path else { return result };
    let written = AtomicFile::new(path).keep_mode().write(index::format(index).as_bytes());
    // Why the summaries failed matters more than why the index was not written.
    result.and_then(|summary| Ok(written.map(|()| summary)?))
}

fn fill_index(
    queue: &SummaryQueue<'_>,
    index: &mut Index,
    progress: ShowProgress<'_>,
) -> Result<Summary, Problem> {
    let path = PathBuf::from(&index.source_path);
    let kind = content::detect_content(&read_range(&path, 0, content::HEAD)?.1);
    if let Some(text) = free_summary(kind, index.source_size_bytes) {
        let text = queue.limit().truncate(&text);
        index.summary = Some(text.clone());
        return Ok(Summary { text, by: None });
    }
    let name = quote_name(&index.source_path);
    let whole = SummarizedWhole {
        kind: SummaryKind::JoinedFile,
        limit: queue.limit(),
        what: "File",
        name: &name,
        lines: index.source_line_count,
        sizes: RequestSizes::for_window(queue.rules.window)?,
    };
    let source = SummaryInput::new(queue, kind);
    let count = index.segments.len();
    if count > MANY_SEGMENTS {
        (queue.rules.report)(&format!(
            "{name} takes about {count} requests and {} tokens, less what is cached; Ctrl-C stops it, and the same command \
             goes on from there",
            format_tokens(index.source_size_bytes / 4)
        ));
    }
    let summarize = |at: usize| source.summarize_segment(&whole, &path, index, at);
    let (parts, summary) =
        queue.summarize_parts(&whole, index.segments.len(), progress, &summarize);
    for (segment, part) in index.segments.iter_mut().zip(parts) {
        segment.summary = part.map(|part| part.summary.text);
    }
    let summary = summary?;
    index.summary = Some(summary.text.clone());
    Ok(summary)
}

impl<'a, 'q> SummaryInput<'a, 'q> {
    fn new(queue: &'a SummaryQueue<'q>, kind: ContentKind) -> Self {
        let encoding =
            if let ContentKind::Text(encoding) = kind { encoding } else { Encoding::Utf8 };
        if let Some(note) = encoding.describe() {
            (queue.rules.report)(note);
        }
        Self { queue, encoding, is_loss_reported: AtomicBool::new(false) }
    }

    fn decode(&self, bytes: &[u8]) -> String {
        let decoded = content::decode_text(bytes, self.encoding);
        if decoded.lossy && !self.is_loss_reported.swap(true, Ordering::SeqCst) {
            (self.queue.rules.report)(
                "some bytes are not text in the encoding of the file; the model got U+FFFD for them",
            );
        }
        decoded.text
    }

    /// Summarizes a segment: in one request, or in several if it is too large for one, whose summaries are put together.
    fn summarize_segment(
        &self,
        whole: &SummarizedWhole<'_>,
        path: &Path,
        index: &Index,
        at: usize,
    ) -> Result<SummarizedPart, Problem> {
        let segment = &index.segments[at];
        let (number, name, first_line) = (at + 1, whole.name, segment.start_line_num);
        let last_line = segment.end_line_num.max(first_line);
        let size = segment.end_byte - segment.start_byte;
        let (_, bytes) = read_range(path, segment.start_byte, size)?;
        if fs::sha256(&bytes) != segment.sha256 {
            return Err(Problem::failed(format!(
                "lines {first_line} to {last_line} of {name} have changed since it was split; split it again"
            )));
        }
        let kind = content::detect_part(&bytes, self.encoding);
        if let Some(text) = free_summary(kind, size) {
            let summary = Summary { text, by: None };
            return Ok(SummarizedPart { first_line, last_line, summary });
        }
        let text = self.decode(&bytes);
        let mut parts = plan::cut_text(&text, first_line, whole.sizes.small);
        if let [part] = parts.as_mut_slice() {
            part.last_line = last_line;
        }
        let (mut texts, mut by) = (Vec::new(), None);
        for part in parts {
            let lines = format!("lines {} to {}", part.first_line, part.last_line);
            let summary = self.queue.summarize(&SummaryRequest {
                kind: SummaryKind::File,
                limit: WordLimit::DEFAULT,
                place: format!(
                    "File: {name}\nSegment {number} of {}, {lines} of {}",
                    index.segments.len(),
                    whole.lines
                ),
                subject: format!("segment {number} ({lines}) of {name}"),
                text: part.text.to_owned(),
            })?;
            texts.push(summary.text);
            by = summary.by;
        }
        let summary = Summary { text: texts.join("\n\n"), by };
        Ok(SummarizedPart { first_line, last_line, summary })
    }
}

fn free_summary(kind: ContentKind, bytes: u64) -> Option<String> {
    match kind {
        ContentKind::Empty => Some("Empty: 0 bytes.".to_owned()),
        ContentKind::Blank => Some("Blank: nothing but white space.".to_owned()),
        ContentKind::Binary(what) => Some(format!("Binary, {bytes} bytes: {what}.")),
        ContentKind::Text(_) => None,
    }
}

#[cfg(test)]
mod tests;
