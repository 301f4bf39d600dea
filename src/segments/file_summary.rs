//! Summarizes files: a small one in one request, a large one by its segments.
//!
//! Every summary is cached as soon as it arrives ([`super::summary_queue`]), so the next run continues where this one ended.
//! Parts of the source are read when they are sent: memory follows the segments, not the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::content::{self, ContentKind, Encoding};
use super::reduce::{SummarizedPart, SummarizedWhole, reduce_parts};
use super::split::{self, Split, SplitHooks, SplitRequest};
use super::summary_plan::{self as plan, RequestSizes, SummaryKind, WordLimit};
use super::summary_queue::{
    Summary, SummaryQueue, SummaryRequest, SummaryRules, SummaryTask, SummaryTotals,
};
use crate::diff::lines::count_line_feeds;
use crate::exit::Exit;
use crate::format::index::{self, Index};
use crate::problem::Problem;
use crate::sys::atomic_file::AtomicFile;
use crate::sys::fs;
use crate::sys::names::shown;
use crate::sys::read_range::read_range;

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

/// A part of a source that is one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourcePart {
    /// The position of its segment.
    segment: usize,
    /// Its bytes in the source.
    start: u64,
    end: u64,
    first_line: u64,
    last_line: u64,
    /// The hash of its bytes, if the index has it.
    sha256: Option<String>,
}

/// A source while it is summarized.
struct SummarizedSource<'i> {
    index: &'i Index,
    /// The kept original, or the source if there is none.
    path: PathBuf,
    /// The name for the model.
    name: String,
    encoding: Encoding,
    sizes: RequestSizes,
}

/// The summaries of all segments, as far as they arrived, and that of the whole.
struct SegmentSummaries {
    segments: Vec<Option<SummarizedPart>>,
    whole: Result<Option<Summary>, Problem>,
}

/// Summarizes files.
pub struct FileSummarizer<'a> {
    queue: SummaryQueue<'a>,
    reported: Mutex<BTreeSet<String>>,
}

impl<'a> FileSummarizer<'a> {
    /// One that has asked nothing yet.
    pub fn new(rules: SummaryRules<'a>) -> Self {
        Self { queue: SummaryQueue::new(rules), reported: Mutex::default() }
    }

    /// What was spent so far, with failed requests.
    pub fn totals(&self) -> SummaryTotals {
        self.queue.totals()
    }

    /// The summary that failed because it was longer than the user's limit.
    pub fn rejected(&self) -> Option<String> {
        self.queue.rejected()
    }

    /// Summarizes a file. A large one is split into `output`, or into a private folder that is removed afterwards.
    /// `progress` gets the segments that are done, and all.
    ///
    /// # Errors
    /// What arrived until then is cached, and is in the index if `output` is named.
    pub fn summarize_file(
        &self,
        path: &Path,
        output: Option<&Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FileSummary, Problem> {
        let limit = WordLimit::new(self.queue.rules.words);
        let (size, head) = read_range(path, 0, content::HEAD)?;
        let kind = content::detect_content(&head);
        if let Some(text) = free_summary(kind, size) {
            let summary = Summary { text: limit.truncate(&text), by: None };
            return Ok(FileSummary { summary, bytes: size, split: None });
        }
        let sizes = self.request_sizes(split::TARGET)?;
        if size <= sizes.small {
            let encoding = self.encoding(kind);
            let place = format!("File: {}", shown(path));
            let make = |_| Ok(self.request(&head, encoding, limit, place.clone(), shown(path)));
            let summary = self.queue.run_tasks(1, &mut |_, _| (), &make).into_single()?;
            return Ok(FileSummary { summary, bytes: size, split: None });
        }
        let temporary = if output.is_none() { Some(fs::empty_folder()?) } else { None };
        let folder = output.or(temporary.as_ref().map(tempfile::TempDir::path));
        let mut split = self.split_source(path, folder.unwrap_or(path), sizes.target)?;
        let index_path = output.is_some().then_some(split.index_path.as_path());
        let summary = self.summarize_segments(index_path, &mut split.index, progress)?;
        Ok(FileSummary { summary, bytes: split.index.source_size_bytes, split: Some(split) })
    }

    fn split_source(&self, source: &Path, output: &Path, target: u64) -> Result<Split, Problem> {
        let interrupts = self.queue.rules.interrupts;
        let request = SplitRequest {
            source,
            output,
            private: false,
            language: None,
            target,
            natural: false,
            force: false,
        };
        let stop = || interrupts.pending().is_some();
        let mut hooks = SplitHooks { stop: &stop, progress: &mut |_, _| () };
        let split = split::split(&request, &mut hooks);
        let mut split =
            split.map_err(|problem| interrupts.pending().map_or(problem, Problem::interrupted))?;
        for note in split.notes.drain(..) {
            self.report_once(&note);
        }
        Ok(split)
    }

    /// Summarizes the segments of a split, and the whole. All summaries that arrive are put into the index, which is written
    /// to `index_path`, if that is named. The bytes are read from the kept original, or from the source if there is none.
    pub fn summarize_segments(
        &self,
        index_path: Option<&Path>,
        index: &mut Index,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Summary, Problem> {
        let result = self.fill_index(index, progress);
        let Some(path) = index_path else { return result };
        let written = AtomicFile::new(path).keep_mode().write(index::format(index).as_bytes());
        // Why the summaries failed matters more than why the index was not written.
        result.and_then(|summary| Ok(written.map(|()| summary)?))
    }

    fn fill_index(
        &self,
        index: &mut Index,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Summary, Problem> {
        let limit = WordLimit::new(self.queue.rules.words);
        let original = PathBuf::from(&index.original_path);
        let path = if fs::exists(&original) { original } else { PathBuf::from(&index.source_path) };
        let kind = content::detect_content(&read_range(&path, 0, content::HEAD)?.1);
        if let Some(text) = free_summary(kind, index.source_size_bytes) {
            let text = limit.truncate(&text);
            index.summary = Some(text.clone());
            return Ok(Summary { text, by: None });
        }
        let sizes = self.request_sizes(index.target_bytes)?;
        let encoding = self.encoding(kind);
        let name = shown(&index.source_path);
        let source = SummarizedSource { index, path, name, encoding, sizes };
        let SegmentSummaries { segments, whole } =
            self.summarize_parts(&source, limit, progress)?;
        for (segment, part) in index.segments.iter_mut().zip(segments) {
            segment.summary = part.map(|part| part.summary.text);
        }
        let summary = whole?.ok_or_else(|| {
            Problem::failed(format!("{} has no segments to summarize", index.source_path))
        })?;
        index.summary = Some(summary.text.clone());
        Ok(summary)
    }

    fn summarize_parts(
        &self,
        source: &SummarizedSource<'_>,
        limit: WordLimit,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SegmentSummaries, Problem> {
        let parts = source.list_parts()?;
        let make = |at: usize| self.part_task(source, &parts[at]);
        let result = self.queue.run_tasks(parts.len(), progress, &make);
        let count = result.summaries.iter().flatten().count();
        let mut problem = result.problem;
        // A segment that is too large for one request has several parts.
        let mut by_segment = vec![Vec::new(); source.index.segments.len()];
        for (part, summary) in parts.iter().zip(result.summaries) {
            let SourcePart { first_line, last_line, .. } = *part;
            let part_summary =
                summary.map(|summary| SummarizedPart { first_line, last_line, summary });
            by_segment[part.segment].push(part_summary);
        }
        let mut done = Vec::new();
        for (parts, segment) in by_segment.into_iter().zip(&source.index.segments) {
            let parts: Option<Vec<SummarizedPart>> = parts.into_iter().collect();
            let joined = match parts {
                Some(parts) => {
                    self.join_parts(source, parts, WordLimit::DEFAULT, problem.is_none())
                }
                None => Ok(None),
            };
            let summary = joined.unwrap_or_else(|error| {
                problem = Some(error);
                None
            });
            done.push(summary.map(|summary| SummarizedPart {
                first_line: segment.start_line_num,
                last_line: segment.end_line_num.max(segment.start_line_num),
                summary,
            }));
        }
        let whole = match problem {
            None => self.join_parts(source, done.iter().flatten().cloned().collect(), limit, true),
            Some(problem) => Err(self.with_count(problem, count, parts.len())),
        };
        Ok(SegmentSummaries { segments: done, whole })
    }

    /// Joins summaries; a single one that is short enough needs no request. `None` if there are none, or if a request is
    /// needed and `may_ask` is false.
    fn join_parts(
        &self,
        source: &SummarizedSource<'_>,
        parts: Vec<SummarizedPart>,
        limit: WordLimit,
        may_ask: bool,
    ) -> Result<Option<Summary>, Problem> {
        if let [SummarizedPart { summary, .. }] = parts.as_slice()
            && (summary.by.is_none() || !limit.is_over(plan::count_words(&summary.text)))
        {
            return Ok(Some(Summary {
                text: limit.truncate(&summary.text),
                by: summary.by.clone(),
            }));
        }
        if parts.is_empty() || !may_ask {
            return Ok(None);
        }
        if parts.iter().all(|part| part.summary.by.is_none()) {
            let texts: BTreeSet<&str> =
                parts.iter().map(|part| part.summary.text.as_str()).collect();
            let text = texts.into_iter().collect::<Vec<_>>().join("; ");
            return Ok(Some(Summary { text: limit.truncate(&text), by: None }));
        }
        let whole = SummarizedWhole {
            kind: SummaryKind::JoinedFile,
            what: "File",
            name: &source.name,
            lines: source.index.source_line_count,
            max_bytes: source.sizes.join,
        };
        reduce_parts(&self.queue, &whole, parts, limit).map(Some)
    }

    fn part_task(
        &self,
        source: &SummarizedSource<'_>,
        part: &SourcePart,
    ) -> Result<SummaryTask, Problem> {
        let lines = format!("lines {} to {}", part.first_line, part.last_line);
        let bytes = source.read_part(part)?;
        if part.sha256.as_ref().is_some_and(|sha256| *sha256 != fs::sha256(&bytes)) {
            let name = &source.name;
            let message =
                format!("{lines} of {name} have changed since it was split; split it again");
            return Err(Problem::failed(message));
        }
        let kind = content::detect_part(&bytes, source.encoding);
        if let Some(text) = free_summary(kind, bytes.len() as u64) {
            return Ok(SummaryTask::Known(text));
        }
        let number = part.segment + 1;
        let place = format!(
            "File: {}\nSegment {number} of {}, {lines} of {}",
            source.name,
            source.index.segments.len(),
            source.index.source_line_count
        );
        let subject = format!("segment {number} ({lines}) of {}", source.name);
        Ok(self.request(&bytes, source.encoding, WordLimit::DEFAULT, place, subject))
    }

    fn request(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        limit: WordLimit,
        place: String,
        subject: String,
    ) -> SummaryTask {
        let decoded = content::decode_text(bytes, encoding);
        if decoded.lossy {
            self.report_once(
                "some bytes are not text in the encoding of the file; the model got U+FFFD for them",
            );
        }
        SummaryTask::Ask(SummaryRequest {
            kind: SummaryKind::File,
            limit,
            place,
            subject,
            source_sha256: fs::sha256(bytes),
            text: decoded.text,
        })
    }

    /// Adds to a problem how many summaries are cached.
    fn with_count(&self, mut problem: Problem, count: usize, all: usize) -> Problem {
        if problem.exit != Exit::Usage {
            let again = self.queue.rules.again;
            let next = if again { "" } else { ", and the same command continues from there" };
            problem.message.push_str(&format!("; {count} of {all} summaries are cached{next}"));
        }
        problem
    }

    fn encoding(&self, kind: ContentKind) -> Encoding {
        let ContentKind::Text(encoding) = kind else { return Encoding::Utf8 };
        if let Some(note) = encoding.describe() {
            self.report_once(note);
        }
        encoding
    }

    fn request_sizes(&self, target: u64) -> Result<RequestSizes, Problem> {
        RequestSizes::for_window(self.queue.rules.window, target)
            .map_err(|message| Problem::new(Exit::Provider, message))
    }

    fn report_once(&self, note: &str) {
        let is_new = self.reported.lock().is_ok_and(|mut notes| notes.insert(note.to_owned()));
        if is_new {
            (self.queue.rules.report)(note);
        }
    }
}

impl SummarizedSource<'_> {
    /// Lists the requests for the segments: one each, or several for a segment that is too large.
    fn list_parts(&self) -> Result<Vec<SourcePart>, Problem> {
        let even =
            |at: u64| if self.encoding.unit_size() == 2 { at.next_multiple_of(2) } else { at };
        let mut parts = Vec::with_capacity(self.index.segments.len());
        for (at, segment) in self.index.segments.iter().enumerate() {
            // A cut through a UTF-16 unit gives the unit to the segment in which it begins.
            let end = even(segment.end_byte).min(self.index.source_size_bytes);
            let start = even(segment.start_byte).min(end);
            let is_as_cut = (start, end) == (segment.start_byte, segment.end_byte);
            let part = SourcePart {
                segment: at,
                start,
                end,
                first_line: segment.start_line_num,
                last_line: segment.end_line_num.max(segment.start_line_num),
                sha256: is_as_cut.then(|| segment.sha256.clone()),
            };
            if end - start <= self.sizes.small {
                parts.push(part);
            } else {
                parts.extend(self.cut_part(&part)?);
            }
        }
        Ok(parts)
    }

    fn cut_part(&self, part: &SourcePart) -> Result<Vec<SourcePart>, Problem> {
        let bytes = self.read_part(part)?;
        let mut line = part.first_line;
        let ranges = plan::cut_bytes(&bytes, self.sizes.small, self.encoding);
        let parts = ranges.into_iter().map(|range| {
            let text = &bytes[range.clone()];
            let first_line = line;
            line += count_line_feeds(text);
            let ends_line =
                line > first_line && text.iter().rev().take(2).any(|byte| *byte == b'\n');
            SourcePart {
                start: part.start + range.start as u64,
                end: part.start + range.end as u64,
                first_line,
                last_line: line - u64::from(ends_line),
                sha256: None,
                ..part.clone()
            }
        });
        Ok(parts.collect())
    }

    fn read_part(&self, part: &SourcePart) -> Result<Vec<u8>, Problem> {
        Ok(read_range(&self.path, part.start, part.end - part.start)?.1)
    }
}

/// Returns the summary of content that needs no model.
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
