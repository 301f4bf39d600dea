//! The target of a per-file conversation: what it held when a run began, and what the run made of it.
//!
//! Contents are kept whole in `outputs/` under their hash, so that whatever changed the file, a tag or a command, can be
//! taken back. [`crate::memory`] has the attributes that name them. What changed while the model was asked was somebody
//! else's doing, and no change of the run. Nothing is written to the target here.

use std::path::Path;

use anyhow::Result;

use super::{World, shown};
use crate::diff::lines;
use crate::format::conversation::Block;
use crate::memory::changes::NO_FILE;
use crate::sys::file_stamp::FileStamp;
use crate::sys::read_error::ReadError;
use crate::sys::{fs, read};

/// The largest target whose content is kept at the start of a run, in bytes.
const LIMIT: u64 = 64 << 20;

/// What a file holds: its SHA-256 in hexadecimal digits, or [`NO_FILE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content(String);

impl Content {
    /// No file.
    pub fn none() -> Self {
        Self(NO_FILE.to_owned())
    }

    /// As an attribute has it.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// What a run did to its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The content before.
    pub before: Content,
    /// The content after.
    pub after: Content,
}

/// The run's own changes, told from those of others.
#[derive(Debug, Default)]
pub struct Own {
    /// What the target looked like when the model was last asked, and what it held.
    held: Option<(Option<FileStamp>, Content)>,
    /// What somebody else has left there, from which on changes are the run's.
    since: Option<Content>,
    /// The run's changes before that.
    earlier: Vec<RunChange>,
}

/// What a file holds, kept in `outputs` if that folder is given. `None` where it cannot be read, or is too large.
///
/// # Errors
/// The content could not be kept.
pub fn content(path: &Path, outputs: Option<&Path>) -> Result<Option<Content>> {
    let (mut file, metadata) = match read::open_regular(path) {
        Ok(opened) => opened,
        Err(ReadError::Missing { .. }) => return Ok(Some(Content::none())),
        Err(_) => return Ok(None),
    };
    if metadata.len() > LIMIT {
        return Ok(None);
    }
    let Some(outputs) = outputs else {
        return Ok(fs::read_all(&mut file).ok().map(|bytes| Content(fs::hash(&bytes))));
    };
    let kept = fs::keep_file(outputs, &mut file)?;
    Ok(kept.file_stem().map(|stem| Content(stem.to_string_lossy().into_owned())))
}

impl World<'_> {
    /// Notes what the target holds at the start of a run: the attribute of its prompt. A look keeps nothing.
    ///
    /// # Errors
    /// The content could not be kept.
    pub fn begin(&mut self, is_look: bool) -> Result<Option<&Content>> {
        if let Some(target) = self.boundary.target() {
            let outputs = self.root.outputs();
            self.before = content(target, (!is_look).then_some(&outputs))?;
        }
        Ok(self.before.as_ref())
    }

    /// Notes what the target holds before the model is asked.
    pub(super) fn before_asking(&mut self) {
        let (Some(_), Some(target)) = (&self.before, self.boundary.target()) else { return };
        let now = FileStamp::of(target);
        if self.own.held.as_ref().is_none_or(|(known, _)| *known != now) {
            // What cannot be read cannot be told apart.
            self.own.held = content(target, None).ok().flatten().map(|held| (now, held));
        }
    }

    /// Sets apart what somebody else has changed while the model was asked.
    ///
    /// # Errors
    /// The content could not be kept.
    pub(super) fn after_asking(&mut self) -> Result<()> {
        let (Some(before), Some(target)) = (&self.before, self.boundary.target()) else {
            return Ok(());
        };
        let now = FileStamp::of(target);
        let Some((_, held)) = self.own.held.take_if(|(known, _)| *known != now) else {
            return Ok(());
        };
        let Some(left) = content(target, Some(&self.root.outputs()))? else { return Ok(()) };
        if left != held {
            let before = self.own.since.replace(left.clone()).unwrap_or_else(|| before.clone());
            if before != held {
                self.own.earlier.push(RunChange { before, after: held });
            }
        }
        self.own.held = Some((now, left));
        Ok(())
    }

    /// What the run did to its target, recorded at its end. `None` where nothing changed, or it cannot be told.
    ///
    /// # Errors
    /// The content could not be kept, or the conversation not be written.
    pub fn end(&mut self) -> Result<Option<RunChange>> {
        let (Some(before), Some(target)) = (self.before.take(), self.boundary.target()) else {
            return Ok(None);
        };
        let Own { since, earlier: mut changes, .. } = std::mem::take(&mut self.own);
        let before = since.unwrap_or(before);
        if let Some(after) =
            content(target, Some(&self.root.outputs()))?.filter(|after| *after != before)
        {
            changes.push(RunChange { before, after });
        }
        let blocks = changes.iter().map(|change| self.change_block(target, change)).collect();
        self.append(blocks)?;
        Ok(changes.pop())
    }

    fn change_block(&self, target: &Path, change: &RunChange) -> Block {
        let outputs = self.root.outputs();
        let path = shown::name(target);
        let text = match (change.before.name(), change.after.name()) {
            (NO_FILE, _) => format!("this run created {path}"),
            (_, NO_FILE) => format!("in this run {path} was removed"),
            (old, new) => match (fs::read_kept(&outputs, old), fs::read_kept(&outputs, new)) {
                (Ok(old), Ok(new)) => {
                    let (gone, come) = count(&old, &new);
                    format!("this run changed {path}: -{gone} +{come} lines")
                }
                _ => format!("this run changed {path}"),
            },
        };
        Block::new("system")
            .with("change", "run")
            .with("path", path)
            .with("before", change.before.name())
            .with("after", change.after.name())
            .body(text)
    }
}

/// How many lines went, and how many came.
fn count(old: &[u8], new: &[u8]) -> (u64, u64) {
    let lines = |bytes: &[u8]| {
        lines::count_line_feeds(bytes) + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"))
    };
    lines::changed_ranges(old, new).into_iter().fold((0, 0), |(gone, come), region| {
        (gone + lines(&old[region.old]), come + lines(&new[region.new]))
    })
}
