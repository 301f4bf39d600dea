//! Summaries of files: a small one in one request, a large one by its segments.
//!
//! Every summary is kept as soon as it is there ([`super::asking`]), so that whatever ends a run, the next one goes on from
//! it. How much goes into a request is [`super::summary_plan`]'s to say, what bytes are [`super::content`]'s. The source is
//! read by ranges; memory follows the segments, not the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::asking::{Asking, Came, Failure, Request, Rules, Summary, Totals, Work};
use super::content::{self, Content, Encoding};
use super::failure::Kind as Trouble;
use super::levels::{self, Whole};
use super::split::{self, Hooks, Plan, Split};
use super::summary_plan::{self as plan, Kind, Limit, Sizes};
use crate::exit::Exit;
use crate::format::index::{self, Index};
use crate::sys::atomic_file::AtomicFile;
use crate::sys::names::shown;
use crate::sys::{fs, read_range};

/// The summary of a file.
#[derive(Debug)]
pub struct FileSummary {
    /// The whole's.
    pub summary: Summary,
    /// The file's size in bytes.
    pub bytes: u64,
    /// How it was split, with the segments' summaries, when it was large. Its files are gone where no folder was named.
    pub split: Option<Split>,
}

/// A part of a source that is one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    /// Which segment it is of, from 0.
    segment: usize,
    /// Its bytes in the source.
    start: u64,
    end: u64,
    /// Its lines in the source, from 1.
    first: u64,
    last: u64,
    /// The hash of its bytes, where the index has it.
    sha256: Option<String>,
}

/// A source while it is summarised.
struct Source<'i> {
    index: &'i Index,
    /// What is read: the source as it was split, where it is still kept.
    path: PathBuf,
    /// What the model is told.
    name: String,
    encoding: Encoding,
    sizes: Sizes,
}

/// Makes summaries of files.
pub struct Summarizer<'a> {
    asking: Asking<'a>,
    told: Mutex<BTreeSet<String>>,
}

impl<'a> Summarizer<'a> {
    /// One that has asked nothing yet.
    pub fn new(rules: Rules<'a>) -> Self {
        Self { asking: Asking::new(rules), told: Mutex::default() }
    }

    /// What was spent so far, in vain too.
    pub fn totals(&self) -> Totals {
        self.asking.totals()
    }

    /// Summarises a file. A large one is split into `output`, or into a private folder that is removed afterwards.
    ///
    /// `progress` gets the segments that are done, and all. After a failure every summary that came is kept, and where
    /// `output` is named it stands in the index there.
    pub fn file(
        &self,
        path: &Path,
        output: Option<&Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<FileSummary, Failure> {
        let limit = Limit::new(self.asking.rules.words);
        let (size, head) = read_range::read_range(path, 0, content::HEAD)?;
        let kind = content::look(&head);
        if let Some(text) = local(kind, size) {
            let summary = Summary { text: limit.cut(&text), by: None };
            return Ok(FileSummary { summary, bytes: size, split: None });
        }
        let sizes = self.sizes(split::TARGET)?;
        if size <= sizes.small {
            let encoding = self.encoding(kind);
            let place = format!("File: {}", shown(path));
            let make = |_| Ok(self.ask(&head, encoding, limit, place.clone(), shown(path)));
            let Came { summaries, failure } = self.asking.run(1, &mut |_, _| (), &make);
            let summary = levels::one(summaries, failure)?;
            return Ok(FileSummary { summary, bytes: size, split: None });
        }
        let temporary = if output.is_none() { Some(fs::empty_folder()?) } else { None };
        let folder = output.or(temporary.as_ref().map(fs::EmptyFolder::path));
        let mut split = self.split(path, folder.unwrap_or(path), sizes.target)?;
        let index_path = output.is_some().then_some(split.index_path.as_path());
        let summary = self.segments(index_path, &mut split.index, progress)?;
        Ok(FileSummary { summary, bytes: split.index.source_size_bytes, split: Some(split) })
    }

    fn split(&self, source: &Path, output: &Path, target: u64) -> Result<Split, Failure> {
        let interrupts = self.asking.rules.interrupts;
        let plan = Plan {
            source,
            output,
            private: false,
            language: None,
            target,
            natural: false,
            force: false,
        };
        let stop = || interrupts.pending().is_some();
        let mut hooks = Hooks { stop: &stop, progress: &mut |_, _| () };
        let mut split = split::split(&plan, &mut hooks).map_err(|failure| {
            let exit = if failure.kind == Trouble::Usage { Exit::Usage } else { Exit::Failed };
            let advice = match failure.kind {
                Trouble::Edited => {
                    "; put them back with nagent-file-patch first, or choose another folder with --output"
                }
                Trouble::Taken => "; choose another folder with --output",
                _ => "",
            };
            let message = format!("{}{advice}", failure.message);
            interrupts
                .pending()
                .map_or_else(|| Failure::new(exit, message), Failure::interrupted)
        })?;
        for note in split.notes.drain(..) {
            self.tell(&note);
        }
        Ok(split)
    }

    /// Summarises the segments of a split, and joins the summaries into the whole's. All of them are put into the index, as
    /// far as they came, and the index is written to `index_path`, where one is named.
    ///
    /// The bytes are read from the source as it was split (`original_path`), else from the source.
    pub fn segments(
        &self,
        index_path: Option<&Path>,
        index: &mut Index,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Summary, Failure> {
        let result = self.fill(index, progress);
        let Some(path) = index_path else { return result };
        let written = AtomicFile::new(path).keep_mode().write(index::format(index).as_bytes());
        // What ended the work matters more than what ended its record.
        result.and_then(|summary| Ok(written.map(|()| summary)?))
    }

    fn fill(
        &self,
        index: &mut Index,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Summary, Failure> {
        let limit = Limit::new(self.asking.rules.words);
        let original = PathBuf::from(&index.original_path);
        let path = if fs::exists(&original) { original } else { PathBuf::from(&index.source_path) };
        let kind = content::look(&read_range::read_range(&path, 0, content::HEAD)?.1);
        if let Some(text) = local(kind, index.source_size_bytes) {
            let text = limit.cut(&text);
            index.summary = Some(text.clone());
            return Ok(Summary { text, by: None });
        }
        let sizes = self.sizes(index.target_bytes)?;
        let encoding = self.encoding(kind);
        let source = Source { index, path, name: shown(&index.source_path), encoding, sizes };
        let units = source.units()?;
        let make = |at: usize| self.unit(&source, &units[at]);
        let Came { summaries, mut failure } = self.asking.run(units.len(), progress, &make);
        let came = summaries.iter().flatten().count();
        let mut done: Vec<Option<Summary>> = vec![None; index.segments.len()];
        let mut summaries = units.iter().zip(summaries).peekable();
        while let Some((unit, _)) = summaries.peek() {
            let segment = unit.segment;
            let mut parts = Vec::new();
            let mut is_whole = true;
            while let Some((unit, summary)) = summaries.next_if(|next| next.0.segment == segment) {
                is_whole &= summary.is_some();
                parts.extend(summary.map(|summary| (unit.first, unit.last, summary)));
            }
            match self.join(&source, parts, Limit::DEFAULT, is_whole && failure.is_none()) {
                Ok(summary) if is_whole => done[segment] = summary,
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        let all = source.parts(&done);
        let result = match failure {
            None => self.join(&source, all, limit, true),
            Some(failure) => Err(self.going_on(failure, came, units.len())),
        };
        for (segment, summary) in index.segments.iter_mut().zip(done) {
            segment.summary = summary.map(|summary| summary.text);
        }
        let summary = result?.ok_or_else(|| {
            Failure::new(
                Exit::Failed,
                format!("{} has no segments to summarise", index.source_path),
            )
        })?;
        index.summary = Some(summary.text.clone());
        Ok(summary)
    }

    /// One summary out of many, in levels. One alone is its own, when it is short enough; without `may_ask`, nothing else is
    /// had. None of none.
    fn join(
        &self,
        source: &Source<'_>,
        parts: Vec<(u64, u64, Summary)>,
        limit: Limit,
        may_ask: bool,
    ) -> Result<Option<Summary>, Failure> {
        if let [(_, _, only)] = parts.as_slice()
            && (only.by.is_none() || !limit.is_over(plan::words(&only.text)))
        {
            return Ok(Some(Summary { text: limit.cut(&only.text), by: only.by.clone() }));
        }
        if parts.is_empty() || !may_ask {
            return Ok(None);
        }
        if parts.iter().all(|(_, _, summary)| summary.by.is_none()) {
            let texts: BTreeSet<&str> =
                parts.iter().map(|(_, _, summary)| summary.text.as_str()).collect();
            let text = texts.into_iter().collect::<Vec<_>>().join("; ");
            return Ok(Some(Summary { text: limit.cut(&text), by: None }));
        }
        let whole = Whole {
            kind: Kind::Join,
            what: "File",
            name: &source.name,
            lines: source.index.source_line_count,
            most: source.sizes.join,
        };
        levels::join(&self.asking, &whole, parts, limit).map(Some)
    }

    /// The work that a unit is.
    fn unit(&self, source: &Source<'_>, unit: &Unit) -> Result<Work, Failure> {
        let lines = format!("lines {} to {}", unit.first, unit.last);
        let bytes = source.read(unit)?;
        if let Some(expect) = &unit.sha256
            && *expect != fs::hash(&bytes)
        {
            return Err(Failure::new(
                Exit::Failed,
                format!(
                    "{lines} of {} are not what was split any more; split it again",
                    source.name
                ),
            ));
        }
        if let Some(text) = local(content::look_inside(&bytes, source.encoding), bytes.len() as u64)
        {
            return Ok(Work::Local(text));
        }
        let number = unit.segment + 1;
        let place = format!(
            "File: {}\nSegment {number} of {}, {lines} of {}",
            source.name,
            source.index.segments.len(),
            source.index.source_line_count
        );
        let subject = format!("segment {number} ({lines}) of {}", source.name);
        Ok(self.ask(&bytes, source.encoding, Limit::DEFAULT, place, subject))
    }

    fn ask(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        limit: Limit,
        place: String,
        subject: String,
    ) -> Work {
        let decoded = content::decode(bytes, encoding);
        if decoded.lossy {
            self.tell(
                "some bytes are no text in the file's encoding; the model got U+FFFD for them",
            );
        }
        Work::Ask(Request {
            kind: Kind::Content,
            limit,
            place,
            subject,
            source_sha256: fs::hash(bytes),
            text: decoded.text,
        })
    }

    /// The failure, with what is there already.
    fn going_on(&self, mut failure: Failure, came: usize, all: usize) -> Failure {
        if failure.exit != Exit::Usage {
            let next = if self.asking.rules.again {
                ""
            } else {
                ", and the same command goes on from there"
            };
            failure.message.push_str(&format!("; {came} of {all} summaries are kept{next}"));
        }
        failure
    }

    fn encoding(&self, kind: Content) -> Encoding {
        let Content::Text(encoding) = kind else { return Encoding::Utf8 };
        if let Some(note) = encoding.note() {
            self.tell(note);
        }
        encoding
    }

    fn sizes(&self, target: u64) -> Result<Sizes, Failure> {
        Sizes::fit(self.asking.rules.window, target)
            .map_err(|message| Failure::new(Exit::Provider, message))
    }

    /// Tells a note, once.
    fn tell(&self, note: &str) {
        let is_new = self.told.lock().is_ok_and(|mut told| told.insert(note.to_owned()));
        if is_new {
            (self.asking.rules.tell)(note);
        }
    }
}

impl Source<'_> {
    /// The requests that the segments are: one each, and several for one that is too large for that.
    fn units(&self) -> Result<Vec<Unit>, Failure> {
        let even = |at: u64| if self.encoding.unit() == 2 { at.next_multiple_of(2) } else { at };
        let mut units = Vec::with_capacity(self.index.segments.len());
        for (at, segment) in self.index.segments.iter().enumerate() {
            // A cut through a UTF-16 unit gives the unit to the segment in which it begins.
            let end = even(segment.end_byte).min(self.index.source_size_bytes);
            let start = even(segment.start_byte).min(end);
            let is_as_cut = (start, end) == (segment.start_byte, segment.end_byte);
            let unit = Unit {
                segment: at,
                start,
                end,
                first: segment.start_line_num,
                last: segment.end_line_num.max(segment.start_line_num),
                sha256: is_as_cut.then(|| segment.sha256.clone()),
            };
            if end - start <= self.sizes.small {
                units.push(unit);
            } else {
                units.extend(self.cut(&unit)?);
            }
        }
        Ok(units)
    }

    fn cut(&self, unit: &Unit) -> Result<Vec<Unit>, Failure> {
        let bytes = self.read(unit)?;
        let mut line = unit.first;
        let pieces = plan::pieces(&bytes, self.sizes.small, self.encoding);
        let units = pieces.into_iter().map(|piece| {
            let text = &bytes[piece.clone()];
            let first = line;
            line += text.iter().filter(|byte| **byte == b'\n').count() as u64;
            let ends_line = line > first && text.iter().rev().take(2).any(|byte| *byte == b'\n');
            Unit {
                start: unit.start + piece.start as u64,
                end: unit.start + piece.end as u64,
                first,
                last: line - u64::from(ends_line),
                sha256: None,
                ..unit.clone()
            }
        });
        Ok(units.collect())
    }

    fn read(&self, unit: &Unit) -> Result<Vec<u8>, Failure> {
        Ok(read_range::read_range(&self.path, unit.start, unit.end - unit.start)?.1)
    }

    /// The segments' summaries with their lines.
    fn parts(&self, summaries: &[Option<Summary>]) -> Vec<(u64, u64, Summary)> {
        let lines = self.index.segments.iter().zip(summaries);
        lines
            .filter_map(|(segment, summary)| {
                let last = segment.end_line_num.max(segment.start_line_num);
                Some((segment.start_line_num, last, summary.clone()?))
            })
            .collect()
    }
}

/// The summary of what costs nothing.
fn local(kind: Content, bytes: u64) -> Option<String> {
    match kind {
        Content::Empty => Some("Empty: 0 bytes.".to_owned()),
        Content::Blank => Some("Blank: nothing but white space.".to_owned()),
        Content::Binary(what) => Some(format!("Binary, {bytes} bytes: {what}.")),
        Content::Text(_) => None,
    }
}

#[cfg(test)]
mod tests;
