//! What an earlier split left in a folder: whether it is ours to replace, and which of its files somebody has edited.
//!
//! Anybody may have written an index. It counts only for files that lie beside it under the names that a split of
//! its source gives, and such a file is let go of only when it holds what the index says.

use std::path::Path;

use super::failure::{Failure, Kind};
use super::naming::Naming;
use crate::format::index::{self, Index};
use crate::sys::names::shown;
use crate::sys::split_files::{self, State};
use crate::sys::{fs, read};

/// The largest index that is read, in bytes.
const LIMIT: u64 = 1 << 30;
/// How many names stand in an error.
const NAMED: usize = 10;

/// A file of an earlier split that is still there.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) name: String,
    /// It does not hold what it held.
    pub(super) is_edited: bool,
    state: Option<State>,
}

/// The earlier split of a source in a folder.
#[derive(Debug)]
pub(super) struct Earlier {
    pub(super) files: Vec<Kept>,
    index: Option<State>,
}

/// The index that a file holds.
pub(super) fn load(path: &Path) -> Result<Index, Failure> {
    // Refuses what is no regular file before anything is read.
    read::open_regular(path).map_err(|error| Failure::unreadable("read the index", path, error))?;
    let text = fs::read_text(path, LIMIT)
        .map_err(|error| Failure::new(Kind::Failed, format!("{error:#}")))?
        .ok_or_else(|| Failure::new(Kind::Failed, format!("no such file: {}", shown(path))))?;
    index::parse(&text).map_err(|error| {
        Failure::new(Kind::Taken, format!("{} is no index of segments: {error}", shown(path)))
    })
}

/// The name that a source had when it was split, which may be that of a link to it.
pub(super) fn given_name(index: &Index) -> Option<&str> {
    let kept = Path::new(&index.original_path).file_name()?.to_str()?;
    kept.strip_suffix(".orig").filter(|name| !name.is_empty())
}

/// An error where a patch was ended midway: what it has begun is for the next patch to go on with.
fn refuse_journal(folder: &Path, index: &Path, source: &Path) -> Result<(), Failure> {
    let own = folder.join(format!(".{}.nagent-new", index::NAME));
    let plain = folder.join(format!("{}.new", index::NAME));
    let is_journal = || {
        fs::exists(&plain)
            && load(&plain).is_ok_and(|index| Path::new(&index.source_path) == source)
    };
    let found = if fs::exists(&own) {
        own
    } else if is_journal() {
        plain
    } else {
        return Ok(());
    };
    Err(Failure::new(
        Kind::Failed,
        format!(
            "a patch was ended midway, and has left {}; run nagent-file-patch --index {} first, which mends that",
            shown(&found),
            shown(index)
        ),
    ))
}

impl Earlier {
    /// Looks at a folder. `None` where no index is in it; an error where there is one that is not of this source.
    pub(super) fn find(
        folder: &Path,
        source: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, Failure> {
        let path = folder.join(index::NAME);
        if !fs::exists(&path) {
            return Ok(None);
        }
        let before = split_files::state(&path);
        if fs::real_path(&path).as_deref() == Some(source) {
            let message = format!("{} is the file that is to be split", shown(&path));
            return Err(Failure::new(Kind::Taken, message));
        }
        let index = load(&path).map_err(|failure| {
            let path = shown(&path);
            let why = match failure.message.strip_prefix(&path) {
                Some(why) => format!("it{why}"),
                None => failure.message,
            };
            Failure::new(Kind::Taken, format!("will not overwrite {path}: {why}"))
        })?;
        if Path::new(&index.source_path) != source {
            let message = format!(
                "will not overwrite {}: it is the index of {}",
                shown(&path),
                shown(&index.source_path)
            );
            return Err(Failure::new(Kind::Taken, message));
        }
        refuse_journal(folder, &path, source)?;
        let mut files = Vec::new();
        if let Some(naming) = given_name(&index).map(Naming::new) {
            let segments = index.segments.iter().map(|segment| {
                (naming.segment(segment.segment_index), segment.path.as_str(), &segment.sha256)
            });
            let original = (naming.original(), index.original_path.as_str(), &index.source_sha256);
            for (name, listed, sha256) in segments.chain([original]) {
                if Path::new(listed).file_name().is_none_or(|listed| listed != name.as_str()) {
                    continue;
                }
                let file = folder.join(&name);
                let state = split_files::state(&file);
                let hash = split_files::hash(&file, stop).map_err(|error| {
                    if stop() {
                        Failure::interrupted("reading", &file)
                    } else {
                        Failure::io("look at", &file, error)
                    }
                })?;
                if let Some(hash) = hash {
                    files.push(Kept { name, is_edited: hash != *sha256, state });
                }
            }
        }
        Ok(Some(Self { files, index: before }))
    }

    /// An error that names the edited files, if there are any.
    pub(super) fn refuse_edited(&self, folder: &Path) -> Result<(), Failure> {
        let edited: Vec<&str> = self
            .files
            .iter()
            .filter(|file| file.is_edited)
            .map(|file| file.name.as_str())
            .collect();
        if edited.is_empty() {
            return Ok(());
        }
        let more = edited.len().saturating_sub(NAMED);
        let names = edited[..edited.len() - more].iter().map(shown);
        let mut names = names.collect::<Vec<_>>().join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        let folder = shown(folder);
        Err(Failure::new(
            Kind::Edited,
            format!("edited since the split, and not yet put back: {names} (in {folder})"),
        ))
    }

    /// That nobody has changed the files since they were looked at.
    pub(super) fn is_unchanged(&self, folder: &Path) -> Result<(), Failure> {
        let all = self.files.iter().map(|file| (file.name.as_str(), file.state));
        for (name, state) in all.chain([(index::NAME, self.index)]) {
            let path = folder.join(name);
            if split_files::state(&path) != state {
                return Err(Failure::io(
                    "replace",
                    &path,
                    "it was changed meanwhile; nothing was done, try again",
                ));
            }
        }
        Ok(())
    }
}
