//! Cuts a file into segments, in one pass over it.
//!
//! The new files are written into a folder next to their place, the index last, and then the folder is moved to its
//! place in one step ([`sys::staged_folder`]). So a run that fails or is killed leaves the previous files unchanged.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::naming::Naming;
use super::previous_split::{check_replaceable, load_index};
use super::problems::{failure, read_failure};
use super::read_window::ReadWindow;
use code::cutter::Cutter;
use code::language::{self, Language};
use code::pack::CutRules;
use conversation::format::harmless::quote_name;
use conversation::format::index::{self, Index, Segment};
use conversation::problem::Problem;
use edits::diff::lines::count_line_feeds;
use sys::clock::{self, Stopwatch};
use sys::file_stamp::FileStamp;
use sys::fs::{encode_hex, sha256};
use sys::staged_folder::StagedFolder;
use sys::{fs, read};

/// Default maximum size of a segment, in bytes.
pub const TARGET: u64 = 32 * 1024;
/// Minimum value of the maximum size.
pub const LEAST_TARGET: u64 = 16;
/// Number of bytes from which the type of a file is detected.
const HEAD: u64 = 64 * 1024;
/// Maximum time of a parser, and additional time for each byte. Real files take a tenth of that.
const PARSE_TIME: (Duration, Duration) = (Duration::from_secs(3), Duration::from_micros(3));
/// Maximum number of windows that take longer: after them, the rest of the file is cut by lines.
const MAX_LATE: usize = 2;

/// The file to split, and the settings.
#[derive(Debug, Clone)]
pub struct SplitRequest<'a> {
    /// The file. Its segments are named after this name.
    pub source: &'a Path,
    /// The folder for the segments: a new one, an empty one, or one of an earlier split of the file.
    pub output: &'a Path,
    /// Create a new folder for its owner alone.
    pub private: bool,
    /// The type; `None`: detect it.
    pub language: Option<Language>,
    /// Maximum size of a segment, in bytes, at least [`LEAST_TARGET`].
    pub target: u64,
    /// Cut at every natural boundary.
    pub natural: bool,
}

impl<'a> SplitRequest<'a> {
    /// A request with the usual settings.
    pub fn new(source: &'a Path, output: &'a Path) -> Self {
        Self { source, output, private: false, language: None, target: TARGET, natural: false }
    }
}

/// A finished split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The absolute path of the index.
    pub index_path: PathBuf,
    /// The index.
    pub index: Index,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The functions that a split needs from its caller.
pub struct SplitHooks<'a> {
    /// Called now and then: whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Called with the number of bytes done and of all.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Returns a new name for the folder of a file's segments: `{slug}-{id}`.
pub fn default_folder_name(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    Naming::new(&name).folder_name()
}

/// The index of a split that is named by its folder, or by the index itself.
pub fn index_path(named: &Path) -> PathBuf {
    let inner = named.join(index::NAME);
    if fs::exists(&inner) { inner } else { named.to_owned() }
}

/// Splits a file again with the settings of its index, into the folder of the index.
pub fn refresh(index: &Path, hooks: &mut SplitHooks<'_>) -> Result<Split, Problem> {
    let index = index_path(index);
    let known = load_index(&index)?;
    let real = fs::real_path(&index).unwrap_or(index);
    let request = SplitRequest {
        language: Language::from_name(&known.split_type),
        target: known.target_bytes,
        natural: known.natural,
        ..SplitRequest::new(Path::new(&known.source_path), real.parent().unwrap_or(&real))
    };
    split(&request, hooks)
}

/// Splits a file.
pub fn split(request: &SplitRequest<'_>, hooks: &mut SplitHooks<'_>) -> Result<Split, Problem> {
    let source = request.source;
    let real = read::resolve_existing(source, source)
        .map_err(|error| read_failure("split", source, &error))?;
    split_resolved(request, &real, hooks)
}

/// Splits a file, by its path without links: a link that has been put into it since is not followed.
pub fn split_resolved(
    request: &SplitRequest<'_>,
    real: &Path,
    hooks: &mut SplitHooks<'_>,
) -> Result<Split, Problem> {
    let SplitRequest { source, output, target, .. } = *request;
    if target < LEAST_TARGET {
        let message = format!("segments of {target} bytes are too small; at least {LEAST_TARGET}");
        return Err(Problem::usage(message));
    }
    let (file, metadata) =
        read::open_resolved(real).map_err(|error| read_failure("split", source, &error))?;
    // If others may not read the source, only the owner may read and list the segments.
    let private = request.private || metadata.mode() & 0o004 == 0;
    let is_disposable = |folder: &Path| check_replaceable(folder, real, &|| false).is_ok();
    let is_leftover =
        |folder: &Path| !fs::exists(&folder.join(index::NAME)) || is_disposable(folder);
    let folder = StagedFolder::create(output, private, &is_leftover)
        .map_err(|error| failure("use the folder", output, error))?;
    let place = folder.place().to_owned();
    for path in [real, &place] {
        if path.to_str().is_none() {
            let why = "its path is not UTF-8, which an index cannot hold; rename it, or use a symbolic link";
            return Err(failure("split", path, why));
        }
    }
    check_replaceable(&place, real, hooks.stop)?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let mut splitter = Splitter {
        request,
        window: ReadWindow::new(file),
        size: metadata.len(),
        hasher: Sha256::new(),
        folder,
        mode: if private { 0o600 } else { 0o644 },
        naming: Naming::new(&name),
        segments: Vec::new(),
        line: 1,
        notes: Vec::new(),
        hooks,
    };
    let language = splitter.split_source(&name)?;
    let Splitter { window, hasher, folder, mode, segments, notes, .. } = splitter;
    let index = Index {
        source_path: real.to_string_lossy().into_owned(),
        source_sha256: encode_hex(&hasher.finalize()),
        source_size_bytes: window.current_view().end_offset(),
        source_line_count: segments.last().map_or(0, |segment| segment.end_line_num),
        split_type: language.name().to_owned(),
        target_bytes: target,
        natural: request.natural,
        created_at: clock::now(),
        segment_count: segments.len(),
        segments,
        summary: None,
    };
    let index_path = place.join(index::NAME);
    folder
        .sync_files()
        .and_then(|()| folder.create_whole_file(index::NAME, mode, &index::format(&index)))
        .map_err(|error| failure("write", &index_path, error))?;
    folder.publish(&is_disposable).map_err(|error| failure("replace", &place, error))?;
    Ok(Split { index_path, index, notes })
}

struct Splitter<'a, 'h> {
    request: &'a SplitRequest<'a>,
    window: ReadWindow,
    size: u64,
    hasher: Sha256,
    folder: StagedFolder,
    /// The permissions of the new files.
    mode: u32,
    naming: Naming,
    segments: Vec<Segment>,
    /// The line on which the next segment begins.
    line: u64,
    notes: Vec<String>,
    hooks: &'a mut SplitHooks<'h>,
}

impl Splitter<'_, '_> {
    /// Reads the source to its end and writes its segments. Returns its type.
    fn split_source(&mut self, name: &str) -> Result<Language, Problem> {
        let stamp = FileStamp::of_open(&self.window.file);
        self.read_until(HEAD)?;
        let detected = language::detect(name, self.window.current_view().bytes);
        if let Some(note) = detected.note {
            self.notes.push(format!("{} is {note}", quote_name(self.request.source)));
        }
        let language =
            self.request.language.filter(|_| detected.is_text).unwrap_or(detected.language);
        let rules = CutRules { target: self.request.target, natural: self.request.natural };
        let mut cutter = Cutter::new(language, detected.unit, detected.is_text, rules);
        let late = self.cut_segments(&mut cutter)?;
        self.note_unparsed(&cutter, language, late);
        let mut settled = Vec::new();
        cutter.finish(self.window.current_view(), &mut settled);
        self.write_segments(&mut settled)?;
        let bytes = self.window.current_view().end_offset();
        let now = FileStamp::of_open(&self.window.file);
        if bytes != self.size || now != stamp || FileStamp::of_path(self.request.source) != stamp {
            return Err(self.source_changed());
        }
        Ok(language)
    }

    /// Cuts all but the last segments. Returns the number of windows for which the parser took too long.
    fn cut_segments(&mut self, cutter: &mut Cutter) -> Result<usize, Problem> {
        let mut settled = Vec::new();
        let mut late = 0;
        loop {
            let goal = match cutter.wanted_end() {
                0 => self.window.current_view().end_offset() + 1,
                goal => goal,
            };
            self.read_until(goal)?;
            let view = self.window.current_view();
            if view.end_offset() == 0 {
                return Ok(late);
            }
            let watch = Stopwatch::start();
            let length = u32::try_from(view.bytes.len()).unwrap_or(u32::MAX);
            let longest = PARSE_TIME.0 + PARSE_TIME.1 * length;
            let mut is_late = false;
            let mut stop = || {
                is_late |= watch.elapsed() > longest;
                is_late || (self.hooks.stop)()
            };
            let is_done = cutter.read_view(view, self.window.at_end, &mut stop, &mut settled);
            self.write_segments(&mut settled)?;
            late += usize::from(is_late);
            if late >= MAX_LATE {
                cutter.give_up();
            }
            self.window.forget(cutter.keep_from());
            if is_done {
                return Ok(late);
            }
        }
    }

    /// Reads up to an offset of the source, and hashes these bytes.
    fn read_until(&mut self, goal: u64) -> Result<(), Problem> {
        while !self.window.at_end && self.window.current_view().end_offset() < goal {
            self.check_stop()?;
            let source = self.request.source;
            let chunk = self.window.read_chunk().map_err(|error| failure("read", source, error))?;
            self.hasher.update(chunk);
            let done = self.window.current_view().end_offset();
            if done > self.size {
                return Err(self.source_changed());
            }
            (self.hooks.progress)(done, self.size);
        }
        Ok(())
    }

    fn write_segments(&mut self, settled: &mut Vec<(u64, u64)>) -> Result<(), Problem> {
        for (start, end) in settled.drain(..) {
            self.check_stop()?;
            let bytes = self.window.current_view().range(start, end);
            let number = self.segments.len() + 1;
            let name = self.naming.segment_name(number);
            let path = self.folder.place().join(&name);
            let file = self.folder.create_file(&name, self.mode);
            file.and_then(|mut file| file.write_all(bytes)).map_err(|error| {
                failure("write", &path, format!("{error}; nothing was changed"))
            })?;
            let feeds = count_line_feeds(bytes);
            self.segments.push(Segment {
                segment_index: number,
                path: path.to_string_lossy().into_owned(),
                start_line_num: self.line,
                end_line_num: self.line + feeds - u64::from(bytes.ends_with(b"\n")),
                start_byte: start,
                end_byte: end,
                sha256: sha256(bytes),
                summary: None,
            });
            self.line += feeds;
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Problem> {
        if (self.hooks.stop)() {
            let source = quote_name(self.request.source);
            return Err(Problem::failed(format!("splitting {source} was interrupted")));
        }
        Ok(())
    }

    fn source_changed(&self) -> Problem {
        let why = "it changed while it was read; the folder is unchanged, try again";
        failure("split", self.request.source, why)
    }

    /// Adds a note about parts that were cut by lines. `late` is the number of those for which the parser took too
    /// long.
    fn note_unparsed(&mut self, cutter: &Cutter, language: Language, late: usize) {
        let parts = cutter.unparsed_ranges();
        let Some((from, to)) = parts.first() else { return };
        let more = if parts.len() > 1 { " and others" } else { "" };
        let when = if late > 0 { " in time" } else { "" };
        let rest = if late >= MAX_LATE { ", as is all that follows" } else { "" };
        self.notes.push(format!(
            "{}: bytes {from} to {to}{more} could not be parsed as {}{when}, and are cut by lines{rest}",
            quote_name(self.request.source),
            language.name()
        ));
    }
}
