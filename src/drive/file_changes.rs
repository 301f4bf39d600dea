//! Finds the changes of a run to the file that its conversation belongs to.
//!
//! Contents are kept whole in `outputs/` under their hash, so that every change, by a tag or by a command, can be undone.
//! [`conversation::memory`] reads the attributes that name them. A change that happened while the model was being asked
//! was made by somebody else, and is not counted. Nothing is written to the file here.

use std::path::{Path, PathBuf};

use anyhow::Result;

use conversation::format::file::Block;
use conversation::limits;
use conversation::memory::changes::{NO_FILE, short_hash};
use conversation::reason::Reason;
use edits::diff::lines;
use sys::file_stamp::FileStamp;
use sys::{fs, read};

/// A change of the file by the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The SHA-256 of the content before, or [`NO_FILE`].
    pub before: String,
    /// The SHA-256 of the content after, or [`NO_FILE`].
    pub after: String,
}

/// Distinguishes the run's own changes of its file from those of others.
#[derive(Debug)]
pub struct RunChanges {
    /// The file, by its true path. `None` in a main conversation.
    file: Option<PathBuf>,
    outputs: PathBuf,
    /// The content when the run began; `None` before that, and where it could not be read.
    before: Option<String>,
    /// The stamp and the content of the file when the model was last asked.
    when_asked: Option<(Option<FileStamp>, String)>,
    /// The content that another program left there; later changes are the run's.
    since: Option<String>,
    /// The run's changes before that.
    earlier: Vec<RunChange>,
}

impl RunChanges {
    /// Starts without changes.
    pub fn new(file: Option<&Path>, outputs: PathBuf) -> Self {
        let file = file.map(Path::to_owned);
        Self { file, outputs, before: None, when_asked: None, since: None, earlier: Vec::new() }
    }

    /// Notes the content of the file at the start of a run; with `keep`, stores it.
    pub fn begin(&mut self, keep: bool) -> Result<Option<&String>> {
        if let Some(file) = &self.file {
            self.before = content_hash(file, keep.then_some(&self.outputs))?;
        }
        Ok(self.before.as_ref())
    }

    /// The content when the run began, where the path is that of the file.
    pub(super) fn content_at_start(&self, path: &Path) -> Option<&String> {
        self.before.as_ref().filter(|_| self.file.as_deref() == Some(path))
    }

    pub(super) fn before_asking(&mut self) {
        let (Some(_), Some(file)) = (&self.before, &self.file) else { return };
        let now = FileStamp::of_path(file);
        if self.when_asked.as_ref().is_none_or(|(known, _)| *known != now) {
            // A file that cannot be read: whose change it was cannot be determined.
            self.when_asked = content_hash(file, None).ok().flatten().map(|hash| (now, hash));
        }
    }

    /// Separates the changes that another program made while the model was being asked.
    pub(super) fn after_asking(&mut self) -> Result<()> {
        let (Some(before), Some(file)) = (&self.before, &self.file) else { return Ok(()) };
        let now = FileStamp::of_path(file);
        let Some((_, held)) = self.when_asked.take_if(|(known, _)| *known != now) else {
            return Ok(());
        };
        let Some(left) = content_hash(file, Some(&self.outputs))? else { return Ok(()) };
        if left != held {
            let before = self.since.replace(left.clone()).unwrap_or_else(|| before.clone());
            if before != held {
                self.earlier.push(RunChange { before, after: held });
            }
        }
        self.when_asked = Some((now, left));
        Ok(())
    }

    /// Returns the run's changes, one for each span between those of others; `None`: there is no file, or it could not
    /// be read. Called once, at the end.
    ///
    /// # Errors
    /// The content could not be kept.
    pub(super) fn finish(&mut self) -> Result<Option<Vec<RunChange>>> {
        let (Some(before), Some(file)) = (self.before.take(), &self.file) else {
            return Ok(None);
        };
        let before = self.since.take().unwrap_or(before);
        let mut changes = std::mem::take(&mut self.earlier);
        let after = content_hash(file, Some(&self.outputs))?;
        if let Some(after) = after.filter(|after| *after != before) {
            changes.push(RunChange { before, after });
        }
        Ok(Some(changes))
    }

    /// The block that records a change.
    pub(super) fn change_block(&self, change: &RunChange) -> Block {
        let path = self.file.as_deref().unwrap_or(Path::new("")).display().to_string();
        let text = match (change.before.as_str(), change.after.as_str()) {
            (NO_FILE, _) => format!("this run created {path}"),
            (_, NO_FILE) => format!("in this run {path} was removed"),
            (old, new) => {
                match (fs::read_stored(&self.outputs, old), fs::read_stored(&self.outputs, new)) {
                    (Ok(old), Ok(new)) => {
                        let (removed, added) = count_changed_lines(&old, &new);
                        format!("this run changed {path}: -{removed} +{added} lines")
                    }
                    _ => format!("this run changed {path}"),
                }
            }
        };
        Block::new("system")
            .with("change", "run")
            .with("path", path)
            .with("before", short_hash(&change.before))
            .with("after", short_hash(&change.after))
            .body(text)
    }
}

/// The hash of a file's content, kept in `outputs` where that is given. `None`: the file cannot be read, or is too large.
pub(super) fn content_hash(path: &Path, outputs: Option<&PathBuf>) -> Result<Option<String>> {
    let (mut file, metadata) = match read::open_resolved(path) {
        Ok(opened) => opened,
        Err(error) if error.reason == Some(Reason::Missing) => {
            return Ok(Some(NO_FILE.to_owned()));
        }
        Err(_) => return Ok(None),
    };
    if metadata.len() > limits::TRACKED_FILE {
        return Ok(None);
    }
    let Some(outputs) = outputs else {
        return Ok(fs::sha256_of_file(file).ok());
    };
    // Also after a signal: the changes of a run are recorded at its end.
    let kept = fs::store_file(outputs, &mut file, &|| false)?;
    Ok(Some(fs::stored_hash(&kept)))
}

fn count_changed_lines(old: &[u8], new: &[u8]) -> (u64, u64) {
    let count = |bytes: &[u8]| {
        lines::count_line_feeds(bytes) + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"))
    };
    lines::changed_ranges(old, new).into_iter().fold((0, 0), |(removed, added), range| {
        (removed + count(&old[range.old]), added + count(&new[range.new]))
    })
}
