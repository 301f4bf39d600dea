//! Cuts a file into segments: one pass over it, and then one row of renames.
//!
//! The new files wait in a folder of their own until the last of them is written; the index takes its place last. A run
//! that fails leaves what was there before; one that is killed leaves that too, or no index, and then the next run takes
//! back what it had begun. What is no regular file is not read.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::earlier::{self, Earlier};
use super::failure::{Failure, Kind};
use super::naming::Naming;
use super::swap::Swap;
use super::tape::Tape;
use crate::code::cutter::Cutter;
use crate::code::language::{self, Language};
use crate::code::pack::Rules;
use crate::code::view::View;
use crate::format::index::{self, Index, Segment};
use crate::sys::clock::{self, Stopwatch};
use crate::sys::fs::hex;
use crate::sys::names::shown;
use crate::sys::split_files::{self, Folder};
use crate::sys::{fs, read};

/// The size that segments have at most unless another is asked for, in bytes.
pub const TARGET: u64 = 32 * 1024;
/// The smallest size that may be asked for.
pub const LEAST_TARGET: u64 = 16;
/// How much of a file tells what it is, in bytes.
const HEAD: u64 = 64 * 1024;
/// How long a parser may take: so long at all, and so long for each byte. Real files take a tenth of that.
const PARSE_TIME: (Duration, Duration) = (Duration::from_secs(3), Duration::from_micros(3));
/// How many windows may take longer before the rest is cut by lines.
const PATIENCE: usize = 2;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The file, as it was named: its segments are called after it.
    pub source: &'a Path,
    /// The folder for the segments; made with its parents where it is missing.
    pub output: &'a Path,
    /// Whether a folder that is made is for its owner alone.
    pub private: bool,
    /// The type, where it is not to be found out.
    pub language: Option<Language>,
    /// The size that segments have at most, in bytes, at least [`LEAST_TARGET`].
    pub target: u64,
    /// Whether to cut at every natural boundary.
    pub natural: bool,
    /// Whether edited segments of an earlier split are kept beside, instead of being a reason to do nothing.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Where the index is, absolute.
    pub index_path: PathBuf,
    /// What it says.
    pub index: Index,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What the caller hears and says meanwhile.
pub struct Hooks<'a> {
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Bytes done, of how many.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// The name of a folder for the segments of a file: `{slug}-{uuid}`.
pub fn default_folder_name(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    Naming::new(&name).folder()
}

/// Splits a file.
///
/// # Errors
/// Nothing was done then, and nothing is left behind.
pub fn split(plan: &Plan<'_>, hooks: &mut Hooks<'_>) -> Result<Split, Failure> {
    let name = plan.source.file_name().map(|name| utf8(Path::new(name)).map(str::to_owned));
    run(plan, name.transpose()?, None, hooks)
}

/// Splits a file again, as its index says, into the folder of the index.
///
/// # Errors
/// As [`split`]; and where the index cannot be read.
pub fn refresh(index: &Path, force: bool, hooks: &mut Hooks<'_>) -> Result<Split, Failure> {
    let inner = index.join(index::NAME);
    let index = if split_files::is_folder(index) { inner.as_path() } else { index };
    if index.file_name().is_none_or(|name| name != index::NAME) {
        let message = format!("{} is not called {}", shown(index), index::NAME);
        return Err(Failure::new(Kind::Usage, message));
    }
    // First, since a run that was killed may have put the index away.
    let given = fs::real_path(index).unwrap_or_else(|| index.to_owned());
    let place = given.parent().filter(|place| !place.as_os_str().is_empty());
    let place = place.unwrap_or(Path::new("."));
    let folder = split_files::is_folder(place).then(|| open(place, false)).transpose()?;
    let known = earlier::load(index)?;
    let language = Language::from_name(&known.split_type).ok_or_else(|| {
        let why =
            format!("{} names the type {}, which is not known", shown(index), known.split_type);
        Failure::new(Kind::Failed, why)
    })?;
    let real = fs::real_path(index).ok_or_else(|| Failure::io("find", index, "it is gone"))?;
    let plan = Plan {
        source: Path::new(&known.source_path),
        output: real.parent().unwrap_or(Path::new("/")),
        private: false,
        language: Some(language),
        target: known.target_bytes,
        natural: known.natural,
        force,
    };
    run(&plan, earlier::given_name(&known).map(str::to_owned), folder, hooks)
}

/// The names of the segments that do not hold what they held when their index was written, missing ones too.
pub fn edited(index_path: &Path, index: &Index, stop: &dyn Fn() -> bool) -> Vec<String> {
    let folder = index_path.parent().unwrap_or(Path::new("/"));
    index
        .segments
        .iter()
        .filter_map(|segment| {
            let name = Path::new(&segment.path).file_name()?;
            let hash = split_files::hash(&folder.join(name), stop).ok().flatten();
            (hash.as_deref() != Some(segment.sha256.as_str())).then(|| shown(name))
        })
        .collect()
}

fn utf8(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        let why = "its path is no UTF-8, which an index cannot hold; rename it, or go by a link";
        Failure::io("split", path, why)
    })
}

fn open(path: &Path, private: bool) -> Result<Folder, Failure> {
    Folder::open(path, private).map_err(|error| Failure::io("use the folder", path, error))
}

/// `folder`: that of the plan, where it is open already.
fn run(
    plan: &Plan<'_>,
    name: Option<String>,
    folder: Option<Folder>,
    hooks: &mut Hooks<'_>,
) -> Result<Split, Failure> {
    let source = plan.source;
    if plan.target < LEAST_TARGET {
        let message =
            format!("segments of {} bytes are too small; at least {LEAST_TARGET}", plan.target);
        return Err(Failure::new(Kind::Usage, message));
    }
    let (file, metadata) =
        read::open_regular(source).map_err(|error| Failure::unreadable("split", source, error))?;
    let real =
        fs::real_path(source).ok_or_else(|| Failure::io("split", source, "its path is gone"))?;
    let source_path = utf8(&real)?.to_owned();
    let own_name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.unwrap_or_else(|| own_name.clone());
    let naming = Naming::new(&name);

    // The names in it tell of what nobody else may read.
    let private = plan.private || metadata.mode() & 0o044 == 0;
    let mut folder = folder.map_or_else(|| open(plan.output, private), Ok)?;
    let place = folder.path().to_owned();
    utf8(&place)?;
    let earlier = Earlier::find(&place, &real, hooks.stop)?;
    if let (Some(earlier), false) = (&earlier, plan.force) {
        earlier.refuse_edited(&place)?;
    }
    let (waiting, group) =
        folder.waiting().map_err(|error| Failure::io("write to the folder", &place, error))?;
    let mut cutting = Cutting {
        source,
        writer: Writer {
            waiting: waiting.clone(),
            place: place.clone(),
            mode: mode(&metadata, group),
            naming: naming.clone(),
            segments: Vec::new(),
            line: 1,
        },
        notes: Vec::new(),
        hooks,
    };
    let all = cutting.read(plan, Tape::new(file), &metadata, &name)?;
    let Cutting { writer, mut notes, .. } = cutting;
    for (name, kept) in folder.kept() {
        let kept = shown(place.join(kept));
        notes
            .push(format!("{name}, of a split that was killed, was edited, and is kept as {kept}"));
    }

    let index = Index {
        source_path,
        source_sha256: all.sha256,
        source_size_bytes: all.bytes,
        source_line_count: writer.segments.last().map_or(0, |segment| segment.end_line_num),
        split_type: all.language.name().to_owned(),
        target_bytes: plan.target,
        natural: plan.natural,
        created_at: clock::now(),
        original_path: place.join(naming.original()).to_string_lossy().into_owned(),
        segment_count: writer.segments.len(),
        segments: writer.segments,
        summary: None,
    };
    split_files::make_durable(&waiting).map_err(|error| unwritten(&place, &error))?;
    let write = |mut file: File| {
        file.write_all(index::format(&index).as_bytes()).and_then(|()| file.sync_all())
    };
    split_files::create(&waiting.join(index::NAME), mode(&metadata, group))
        .and_then(write)
        .map_err(|error| unwritten(&place.join(index::NAME), &error))?;

    let swap = Swap { folder: &mut folder, place: &place, own: (&real, &own_name) };
    swap.run(earlier.as_ref(), &index, &naming, &mut notes)?;
    folder.done().map_err(|error| Failure::io("make durable what is in", &place, error))?;
    Ok(Split { index_path: place.join(index::NAME), index, notes })
}

/// Who may read and write the new files: whom the source lets, and its owner, who is to edit them.
fn mode(source: &Metadata, group: u32) -> u32 {
    let mode = source.mode() & 0o666;
    // To another group they are no more than to everybody.
    let mode = if source.gid() == group { mode } else { mode & (0o606 | mode << 3) };
    mode | 0o600
}

/// What a write failed with.
fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    let advice = if full { "; make room, or choose another folder" } else { "" };
    Failure::io("write", path, format!("{error}{advice}; nothing was changed"))
}

/// What was read.
struct Read {
    sha256: String,
    bytes: u64,
    language: Language,
}

/// A source on its way into its segments.
struct Cutting<'a, 'h> {
    source: &'a Path,
    writer: Writer,
    notes: Vec<String>,
    hooks: &'a mut Hooks<'h>,
}

impl Cutting<'_, '_> {
    fn read(
        &mut self,
        plan: &Plan<'_>,
        mut tape: Tape,
        metadata: &Metadata,
        name: &str,
    ) -> Result<Read, Failure> {
        let original = self.writer.waiting.join(self.writer.naming.original());
        let mut copy = split_files::create(&original, self.writer.mode)
            .map_err(|error| self.writer.failed(&self.writer.naming.original(), &error))?;
        let mut hasher = Sha256::new();
        let mut more = |tape: &mut Tape, hooks: &mut Hooks<'_>| -> Result<(), Failure> {
            if (hooks.stop)() {
                return Err(Failure::interrupted("splitting", plan.source));
            }
            let chunk = tape.read().map_err(|error| Failure::io("read", plan.source, error))?;
            hasher.update(chunk);
            copy.write_all(chunk).map_err(|error| unwritten(&original, &error))?;
            let done = tape.view().end_offset();
            if done > metadata.len() {
                return Err(changed(plan.source));
            }
            (hooks.progress)(done, metadata.len());
            Ok(())
        };
        while !tape.at_end() && tape.view().end_offset() < HEAD {
            more(&mut tape, self.hooks)?;
        }
        let detected = language::detect(name, tape.view().bytes);
        if let Some(note) = detected.note {
            self.notes.push(format!("{} is {note}", shown(self.source)));
        }
        let language = match plan.language {
            Some(language) if detected.is_text => language,
            _ => detected.language,
        };
        let rules = Rules { target: plan.target, natural: plan.natural };
        let mut cutter = Cutter::new(language, detected.unit, detected.is_text, rules);
        let mut settled = Vec::new();
        let mut late = 0;
        loop {
            let goal = match cutter.wants() {
                0 => tape.view().end_offset() + 1,
                goal => goal,
            };
            while !tape.at_end() && tape.view().end_offset() < goal {
                more(&mut tape, self.hooks)?;
            }
            let view = tape.view();
            if view.end_offset() == 0 {
                break;
            }
            let watch = Stopwatch::start();
            let longest =
                PARSE_TIME.0 + PARSE_TIME.1 * u32::try_from(view.bytes.len()).unwrap_or(u32::MAX);
            let mut is_late = false;
            let mut stop = || {
                is_late |= watch.elapsed() > longest;
                is_late || (self.hooks.stop)()
            };
            let is_done = cutter.read_view(view, tape.at_end(), &mut stop, &mut settled);
            self.write(view, &mut settled)?;
            late += usize::from(is_late);
            if late >= PATIENCE {
                cutter.give_up();
            }
            tape.forget(cutter.keep_from());
            if is_done {
                break;
            }
        }
        self.note_unparsed(&cutter, language, late);
        let view = tape.view();
        cutter.finish(view, &mut settled);
        self.write(view, &mut settled)?;
        let bytes = view.end_offset();
        let now =
            tape.file().metadata().map_err(|error| Failure::io("read", plan.source, error))?;
        let at_path = split_files::state(plan.source);
        let state = split_files::state_of(metadata);
        if bytes != metadata.len() || split_files::state_of(&now) != state || at_path != Some(state)
        {
            return Err(changed(plan.source));
        }
        Ok(Read { sha256: hex(&hasher.finalize()), bytes, language })
    }

    fn write(&mut self, view: View<'_>, settled: &mut Vec<(u64, u64)>) -> Result<(), Failure> {
        for (from, to) in settled.drain(..) {
            if (self.hooks.stop)() {
                return Err(Failure::interrupted("splitting", self.source));
            }
            self.writer.write(from, view.range(from, to))?;
        }
        Ok(())
    }

    /// `late`: how many of them took too long.
    fn note_unparsed(&mut self, cutter: &Cutter, language: Language, late: usize) {
        let parts = cutter.unparsed();
        if let Some((from, to)) = parts.first() {
            let more = match parts.len() {
                1 => String::new(),
                count => format!(" and {} parts behind them", count - 1),
            };
            let when = match late {
                0 => "",
                late if late < parts.len() => " (some not in time)",
                _ => " in time",
            };
            let rest = if late >= PATIENCE { ", as is all that follows" } else { "" };
            self.notes.push(format!(
                "{}: bytes {from} to {to}{more} could not be parsed as {}{when}, and are cut by lines{rest}",
                shown(self.source),
                language.name()
            ));
        }
    }
}

fn changed(source: &Path) -> Failure {
    Failure::io("split", source, "it was changed while it was read; nothing was done, try again")
}

/// Writes segments where they wait.
struct Writer {
    waiting: PathBuf,
    place: PathBuf,
    mode: u32,
    naming: Naming,
    segments: Vec<Segment>,
    /// The line that the next segment begins on.
    line: u64,
}

impl Writer {
    fn write(&mut self, start: u64, bytes: &[u8]) -> Result<(), Failure> {
        let number = self.segments.len() + 1;
        let name = self.naming.segment(number);
        let path = self.waiting.join(&name);
        split_files::create(&path, self.mode)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|error| self.failed(&name, &error))?;
        let feeds = memchr::memchr_iter(b'\n', bytes).count() as u64;
        let ends_line = bytes.last() == Some(&b'\n');
        self.segments.push(Segment {
            segment_index: number,
            path: self.place.join(name).to_string_lossy().into_owned(),
            start_line_num: self.line,
            end_line_num: self.line + feeds - u64::from(ends_line),
            start_byte: start,
            end_byte: start + bytes.len() as u64,
            sha256: hex(&Sha256::digest(bytes)),
            summary: None,
        });
        self.line += feeds;
        Ok(())
    }

    fn failed(&self, name: &str, error: &io::Error) -> Failure {
        unwritten(&self.place.join(name), error)
    }
}
