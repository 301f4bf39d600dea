//! Puts edited segments back into their source: a patch file, the source, the index, in this order.
//!
//! What was edited is known from hashes (`examine`), only that is compared (`hunks`), and the steps on disk are such
//! that a kill between any two of them is mended by the next run (`journal`). The source is written through the caller's
//! write boundary, all else stays in the index's own folder (`split`).

mod content;
mod examine;
mod failure;
mod hunks;
mod journal;
mod outcome;
mod split;

pub use failure::Failure;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::content::{copy, is_patch_of, keep_beside, put_together};
use self::examine::Found;
use self::journal::Left;
use self::outcome::Outcome;
use self::split::Split;
use crate::diff::file_diff::name_in_tree;
use crate::format::index;
use crate::sys::boundary::Boundary;
use crate::sys::denied::Denied;
use crate::sys::folder::{Folder, NoLock};
use crate::sys::interrupt::Interrupts;
use crate::sys::names::shown;
use crate::sys::opening::Opened;
use crate::sys::replace::{self, Content, Keep};
use crate::sys::{fs, git, read};

/// How long another patch of the same split is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is to be done.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub struct Plan<'a> {
    /// The index, relative to the run's folder or absolute.
    pub index: &'a Path,
    /// Where the patch goes instead of beside the index.
    pub patch: Option<&'a Path>,
    /// Write the patch alone.
    pub dry_run: bool,
    /// Leave source and index as they are.
    pub no_apply: bool,
    /// Overwrite a source that has changed since the split; believe in segments that look lost.
    pub force: bool,
    /// Put together what changed in a source since the split and what was edited.
    pub merge: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of --json")]
pub struct Patched {
    /// The segments differ from the source, and the patch says how.
    pub changed: bool,
    /// The source was replaced.
    pub applied: bool,
    /// The source's true path.
    pub source_path: PathBuf,
    /// The index's true path.
    pub index_path: PathBuf,
    /// The patch, when there is a change.
    pub patch_path: Option<PathBuf>,
    /// The hash of the source as it is now.
    pub source_sha256: String,
    /// The numbers of the edited segments, from 1.
    pub edited: Vec<usize>,
    /// Changes of the source were put together with the edits.
    pub merged: bool,
    /// An earlier run had been ended before its end, and this one mended that.
    pub mended: bool,
    /// Where the source's previous content was kept, when it was.
    pub previous_path: Option<PathBuf>,
    /// What else the user should know.
    pub notes: Vec<String>,
}

/// Keeps the content of a file, from its start, and says where.
pub type KeepPrevious<'a> = dyn FnMut(&mut File) -> anyhow::Result<PathBuf> + 'a;

/// What a patch needs of its surroundings.
pub struct Hooks<'a> {
    /// Asked between steps.
    pub interrupts: &'a Interrupts,
    /// Keeps what a source held before, from its start, and says where, at every change. `None`: as `{source}.before`
    /// beside the index, where a kill could leave less.
    pub keep: Option<&'a mut KeepPrevious<'a>>,
    /// Told how many bytes of how many were looked at.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

impl Hooks<'_> {
    fn go_on(&self) -> Result<(), Failure> {
        self.interrupts.pending().map_or(Ok(()), |signal| Err(Failure::Interrupted(signal)))
    }
}

/// The true path of an index and of the source that it names: what a boundary is made from.
///
/// # Errors
/// There is no such index, or it is none.
pub fn source_of(index: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let path = true_path(index)?;
    let text = fs::read_text(&path, 256 << 20)
        .map_err(|error| Failure::Refused(format!("{error:#}")))?
        .ok_or_else(|| not_found(index))?;
    let index = split::parse(&text).map_err(|why| {
        Failure::Refused(format!("{} cannot be used: {why}; split the file again", shown(&path)))
    })?;
    Ok((path, PathBuf::from(index.source_path)))
}

/// Puts the edited segments of a split back into its source.
///
/// # Errors
/// Nothing was changed, or what was begun is mended by the next run.
pub fn patch(
    plan: &Plan<'_>,
    boundary: &mut Boundary,
    mut hooks: Hooks<'_>,
) -> Result<Patched, Failure> {
    let interrupts = hooks.interrupts;
    // What a signal cut short fails with some error or other.
    run(plan, boundary, &mut hooks)
        .map_err(|failure| interrupts.pending().map_or(failure, Failure::Interrupted))
        .map_err(|failure| failure.naming(plan.index))
}

fn true_path(index: &Path) -> Result<PathBuf, Failure> {
    fs::real_path(index).ok_or_else(|| not_found(index))
}

fn not_found(index: &Path) -> Failure {
    Failure::Refused(format!("index not found: {}", shown(index)))
}

fn run(
    plan: &Plan<'_>,
    boundary: &mut Boundary,
    hooks: &mut Hooks<'_>,
) -> Result<Patched, Failure> {
    let index_path = true_path(plan.index)?;
    let opened = boundary.open_for_write(&index_path)?;
    if opened.path() != index_path {
        return Err(Denied::Changed { path: shown(&index_path) }.into());
    }
    let name = index_path.file_name().unwrap_or_default().to_owned();
    let folder = Folder::of(&opened)?;
    // The index alone may be within the boundary; what is written beside it must be too.
    let beside = index_path.with_file_name(split::new_name(&name));
    if boundary.open_for_write(&beside)?.path() != beside {
        return Err(Failure::Refused(format!("{} is a link; remove it", shown(&beside))));
    }
    let _lock = folder.lock(PATIENCE, hooks.interrupts).map_err(|no| no_lock(no, &index_path))?;
    let split = Split::load(folder, &name)?;
    let is_dry = plan.dry_run || plan.no_apply;
    let mut task = Task { plan, boundary, hooks, split, is_dry, mended: false, notes: Vec::new() };
    let mut source = task.source()?;
    if task.mend(&mut source)? {
        source = task.source()?;
    }
    task.go(source)
}

fn no_lock(no: NoLock, index: &Path) -> Failure {
    match no {
        NoLock::Busy => Failure::Refused(format!(
            "another process is at work on {}; run the same again when it has ended",
            shown(index)
        )),
        NoLock::Interrupted(signal) => Failure::Interrupted(signal),
        NoLock::Failed(denied) => denied.into(),
    }
}

/// The source, open for what is to be done with it.
struct Source {
    file: File,
    path: PathBuf,
    /// Opened within the boundary, when it is to be written.
    opened: Option<Opened>,
}

struct Task<'a, 'h> {
    plan: &'a Plan<'a>,
    boundary: &'a mut Boundary,
    hooks: &'a mut Hooks<'h>,
    split: Split,
    /// Nothing but the patch is written.
    is_dry: bool,
    mended: bool,
    notes: Vec<String>,
}

impl Task<'_, '_> {
    fn source(&self) -> Result<Source, Failure> {
        let path = PathBuf::from(&self.split.index.source_path);
        let missing = || {
            Failure::Refused(format!(
                "source file not found: {}; what it held is in {}",
                shown(&path),
                shown(self.split.folder.path().join(&self.split.original))
            ))
        };
        let true_path = fs::real_path(&path).ok_or_else(missing)?;
        if true_path.parent() == Some(self.split.folder.path())
            && true_path.file_name().is_some_and(|name| self.split.is_own_name(name))
        {
            return Err(Failure::Refused(format!(
                "{} is a file of the split itself, so it cannot be its source",
                shown(&path)
            )));
        }
        if self.is_dry {
            let (file, _) = read::open_regular(&true_path)
                .map_err(|error| Failure::Refused(error.to_string()))?;
            return Ok(Source { file, path: true_path, opened: None });
        }
        let opened = self.boundary.open_for_write(&path)?;
        let file = opened.file().ok_or_else(missing)?;
        let file = file.try_clone().map_err(|error| Failure::io("open the source", &error))?;
        Ok(Source { file, path: opened.path().to_owned(), opened: Some(opened) })
    }

    /// Ends or takes back what an earlier run left behind. True when the source is to be opened again.
    fn mend(&mut self, source: &mut Source) -> Result<bool, Failure> {
        let left = journal::look(&self.split, &source.file, self.hooks)?;
        if self.is_dry {
            if let Left::New(index) = left {
                self.split.index = *index;
                self.notes.push("an earlier run was ended before it had written the index; the next one without --dry-run mends that".to_owned());
            }
            return Ok(false);
        }
        let told = match left {
            Left::Nothing => {
                journal::tidy(&self.split)?;
                return Ok(false);
            }
            Left::Void(index) => {
                journal::take_back(&self.split, Some(&index))?;
                "an earlier run was ended before it had changed the source; what it had begun was taken back"
            }
            Left::New(index) => {
                self.notes.append(&mut journal::finish(&self.split, &index, &[])?);
                self.split.index = *index;
                "an earlier run was ended before it had written the index; that was mended"
            }
            Left::Torn(index) => {
                self.rewrite_torn(source)?;
                self.notes.append(&mut journal::finish(&self.split, &index, &[])?);
                self.split.index = *index;
                "an earlier run was ended while it wrote the source; that was mended"
            }
        };
        self.mended = true;
        self.notes.push(told.to_owned());
        // The index that is in force may be another file now.
        let folder = self.boundary.open_for_write(&self.index_path())?;
        self.split = Split::load(Folder::of(&folder)?, &self.split.name.clone())?;
        Ok(true)
    }

    fn rewrite_torn(&mut self, source: &mut Source) -> Result<(), Failure> {
        let original = split::new_name(&self.split.original);
        let kept = self.split.folder.path().join(&original);
        let file = self.split.folder.read(&original)?;
        let (Some(opened), Some(mut file)) = (source.opened.take(), file) else { return Ok(()) };
        let bytes =
            file.metadata().map_err(|error| Failure::io("read the new source", &error))?.len();
        let interrupts = self.hooks.interrupts;
        replace::stream(
            opened,
            &mut Content {
                write: &mut |to| copy(&mut file, to, 0, bytes, interrupts),
                bytes,
                keep_previous: &mut |_| Ok(kept.clone()),
                keep: Keep::InPlace,
            },
        )?;
        self.boundary.renew_target();
        Ok(())
    }

    fn index_path(&self) -> PathBuf {
        self.split.folder.path().join(&self.split.name)
    }

    fn go(mut self, source: Source) -> Result<Patched, Failure> {
        let found = examine::examine(&self.split, &source.file, self.plan.force, self.hooks)?;
        let numbers = found.pieces.iter().enumerate().filter(|(_, piece)| piece.edited);
        let edited: Vec<usize> = numbers.map(|(at, _)| at + 1).collect();
        let name =
            name_in_tree(&source.path, source.path.parent().and_then(git::toplevel).as_deref());
        let result = if found.source_is_same {
            self.plain(&name, &source, &found)?
        } else if self.plan.merge {
            self.merge(&name, &source, &found)?
        } else if self.plan.force {
            self.overwrite(&name, &source, &found)?
        } else {
            return Err(self.source_has_changed(&source, &found));
        };
        self.notes.extend(found.notes.iter().cloned());
        self.hooks.go_on()?;
        let patch_path = match &result.patch {
            Some(patch) => Some(self.write_patch(&source, patch)?),
            None => None,
        };
        let mut patched = Patched {
            changed: result.patch.is_some(),
            applied: false,
            source_path: source.path.clone(),
            index_path: self.index_path(),
            patch_path,
            source_sha256: String::new(),
            edited,
            merged: result.merged,
            mended: self.mended,
            previous_path: None,
            notes: Vec::new(),
        };
        let is_idle = result.patch.is_none() && found.source_is_same && patched.edited.is_empty();
        if self.is_dry || is_idle {
            patched.source_sha256 = if found.source_is_same {
                self.split.index.source_sha256.clone()
            } else {
                journal::hash(&source.file, self.hooks)?
            };
        } else {
            patched.source_sha256.clone_from(&result.whole);
            patched.applied = result.patch.is_some();
            patched.previous_path = self.write(source, &found, &result)?;
        }
        if result.merged && !patched.changed {
            let told = "the source holds all edits already; segments and index now are what it is";
            self.notes.push(told.to_owned());
        }
        if let Some(previous) = &patched.previous_path {
            self.notes.push(format!("what the source held before is kept in {}", shown(previous)));
        }
        patched.notes = self.notes;
        Ok(patched)
    }

    fn write_patch(&self, source: &Source, text: &[u8]) -> Result<PathBuf, Failure> {
        let beside = || {
            let stem = Path::new(&self.split.index.source_path).file_stem().unwrap_or_default();
            let mut name = stem.to_owned();
            name.push(".patch");
            self.split.folder.path().join(name)
        };
        let asked = self.plan.patch.map_or_else(beside, Path::to_owned);
        let opened = self.boundary.open_for_write(&asked)?;
        let own = opened.path();
        let is_own = own.parent() == Some(self.split.folder.path())
            && own.file_name().is_some_and(|name| self.split.is_own_name(name));
        if own == source.path || is_own || opened.is_linked() {
            return Err(Failure::Refused(format!(
                "the patch would overwrite {}; name another file with --patch",
                shown(own)
            )));
        }
        if !opened.file().is_none_or(|file| is_patch_of(file, &source.path)) {
            return Err(Failure::Refused(format!(
                "the patch would overwrite {}, which is no patch of this source; name another file with --patch",
                shown(own)
            )));
        }
        let written = own.to_owned();
        replace::stream(
            opened,
            &mut Content {
                write: &mut |file| file.write_all(text),
                bytes: text.len() as u64,
                keep_previous: &mut |_| Ok(PathBuf::new()),
                keep: Keep::InPlace,
            },
        )?;
        Ok(written)
    }

    /// Writes segments, source and index. Gives where the source's previous content was kept, when it was.
    fn write(
        &mut self,
        source: Source,
        found: &Found,
        result: &Outcome,
    ) -> Result<Option<PathBuf>, Failure> {
        let new = self.refreshed(found, result);
        let index = index::format(&new);
        let (split, interrupts) = (&self.split, self.hooks.interrupts);
        let mut fill = |to: &mut File| match &result.text {
            Some(text) => to.write_all(text),
            None => put_together(split, &source.file, found, to, interrupts),
        };
        let staged = journal::stage(split, &result.rewrites, &found.pieces, &mut fill, &index);
        let guards = staged.inspect_err(|_| {
            // The failure says more than one about this; what stays is tidied by the next run.
            _ = journal::take_back(split, None);
        })?;
        (self.hooks.go_on())
            .and_then(|()| journal::apply(split, &guards))
            .and_then(|()| journal::are_unwritten(split, &guards))
            .inspect_err(|_| _ = journal::take_back(split, Some(&new)))?;
        let replaced =
            if result.patch.is_some() { self.replace(source, result.keep) } else { Ok(None) };
        match replaced {
            Ok(previous) => {
                self.notes.append(&mut journal::finish(&self.split, &new, &guards)?);
                Ok(previous)
            }
            Err(failure) => {
                self.undo();
                Err(failure)
            }
        }
    }

    /// Replaces the source by the prepared one.
    fn replace(&mut self, source: Source, keep: Keep) -> Result<Option<PathBuf>, Failure> {
        let new = self.split.folder.read(&split::new_name(&self.split.original))?;
        let (Some(opened), Some(mut new)) = (source.opened, new) else {
            return Err(Failure::Refused("the prepared source is gone".to_owned()));
        };
        let bytes =
            new.metadata().map_err(|error| Failure::io("read the new source", &error))?.len();
        if opened.parted_names() > 0 {
            let told = "other names (hard links) of the source keep what it held before";
            self.notes.push(told.to_owned());
        }
        let interrupts = self.hooks.interrupts;
        let folder = &self.split.folder;
        let name = source.path.file_name().unwrap_or_default();
        let hook = &mut self.hooks.keep;
        // Who says where keeps everything.
        let keep = if hook.is_some() { Keep::Always } else { keep };
        let mut keep_previous = |file: &mut File| match hook {
            Some(keep) => keep(file),
            None => keep_beside(folder, name, file),
        };
        let previous = replace::stream(
            opened,
            &mut Content {
                write: &mut |to| copy(&mut new, to, 0, bytes, interrupts),
                bytes,
                keep_previous: &mut keep_previous,
                keep,
            },
        )?;
        self.boundary.renew_target();
        Ok(previous)
    }

    /// After a failure: takes back what was begun, unless the source was written all the same. What cannot be done now
    /// is done by the next run.
    fn undo(&mut self) {
        let quiet = Interrupts::deaf();
        let Ok(quiet) = quiet else { return };
        let mut hooks = Hooks { interrupts: &quiet, keep: None, progress: &mut |_, _| () };
        let Ok(source) = self.source() else { return };
        _ = match journal::look(&self.split, &source.file, &mut hooks) {
            Ok(Left::Void(index)) => journal::take_back(&self.split, Some(&index)),
            Ok(Left::New(index)) => journal::finish(&self.split, &index, &[]).map(|_| ()),
            _ => Ok(()),
        };
    }
}
