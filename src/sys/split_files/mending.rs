//! Takes back what a run that was killed has begun, so that the earlier split stands again.
//!
//! The state on disk says how far it came: while the index is away, the next index waits in the inner folder and lists
//! the new files. Each of them that does not wait was put in place. What was put away lies in `old/`, and `kept/` tells for
//! edited files where they are. Every step here may itself be cut short, and done again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{Folder, KEPT, OLD, WAITING, hash, rename_free};
use crate::format::index;
use crate::sys::names::shown;

/// The largest index that is read, in bytes.
const LIMIT: u64 = 1 << 30;

/// The inner folders of runs that have ended without removing them.
pub(super) fn leftovers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten().filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(WAITING)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    Ok(entries.map(|entry| entry.path()).collect())
}

impl Folder {
    /// Takes back what was begun and not ended. Files that somebody has changed or made since are not replaced.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        for left in leftovers(&self.path)? {
            if exists(&self.path.join(index::NAME)) {
                break;
            }
            self.take_back(&left)?;
            // What came back is at its name before the other name is gone.
            self.sync()?;
            fs::remove_dir_all(left)?;
        }
        Ok(())
    }

    fn take_back(&mut self, left: &Path) -> io::Result<()> {
        for (name, sha256) in listed(&left.join(index::NAME)) {
            let (waits, path) = (left.join(&name), self.path.join(&name));
            if exists(&waits) {
                // A disk that gave it its place before it took the other name away has it at both.
                let is_put_away = exists(&left.join(OLD).join(&name));
                if is_put_away && hash(&path, &|| false)?.as_ref() == Some(&sha256) {
                    fs::remove_file(&path)?;
                }
                continue;
            }
            match hash(&path, &|| false)? {
                None => {}
                Some(hash) if hash == sha256 => rename_free(&path, &waits)?,
                Some(_) => {
                    let kept = self.keep_beside(&name)?;
                    // It stays so, whatever becomes of this run.
                    self.moves.clear();
                    // From here on the name is the old file's, also when this is cut short.
                    File::create_new(&waits)?;
                    self.kept.push((name, kept));
                }
            }
        }
        for name in names(&left.join(KEPT))? {
            let Ok(kept) = fs::read_to_string(left.join(KEPT).join(&name)) else { continue };
            let is_beside = kept
                .strip_prefix(name.as_str())
                .and_then(|rest| rest.strip_prefix(".bak"))
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            if is_beside {
                match rename_free(&self.path.join(kept), &self.path.join(name)) {
                    // It was not renamed, or somebody has taken it.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                        ) => {}
                    result => result?,
                }
            }
        }
        let mut old = names(&left.join(OLD))?;
        // The index comes last: until then this is done again.
        old.sort_by_key(|name| name == index::NAME);
        for name in old {
            let (from, to) = (left.join(OLD).join(&name), self.path.join(&name));
            if name == index::NAME {
                self.sync()?;
            }
            match rename_free(&from, &to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if hash(&from, &|| false)? != hash(&to, &|| false)? {
                        return Err(io::Error::other(format!(
                            "an earlier run was killed, and its file {} cannot go back to {}, where another is now; move one of \
                             them away",
                            shown(&from),
                            shown(&to)
                        )));
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }
}

/// The new files that an index lists, with what they hold. None where it is missing or half written: then none of them
/// was put in place.
fn listed(index: &Path) -> Vec<(String, String)> {
    if !fs::symlink_metadata(index).is_ok_and(|metadata| metadata.is_file()) {
        return Vec::new();
    }
    let text = crate::sys::fs::read_text(index, LIMIT).ok().flatten().unwrap_or_default();
    let Ok(index) = index::parse(&text) else { return Vec::new() };
    let original = (index.original_path, index.source_sha256);
    let segments = index.segments.into_iter().map(|segment| (segment.path, segment.sha256));
    segments
        .chain([original])
        .filter_map(|(path, sha256)| {
            Some((Path::new(&path).file_name()?.to_str()?.to_owned(), sha256))
        })
        .collect()
}

/// The names in a folder that may be missing.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    if !fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
