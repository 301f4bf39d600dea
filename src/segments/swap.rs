//! Puts the files of a new split in place of those of the old: the index away first and back last, so that at no instant
//! something can be put back from a mixture. It writes no content.

use std::io;
use std::path::Path;

use super::earlier::Earlier;
use super::failure::{Failure, Kind};
use super::naming::Naming;
use crate::format::index::{self, Index};
use crate::sys::names::shown;
use crate::sys::split_files::{self, Folder};

/// Puts the new files in place of the old.
pub(super) struct Swap<'a> {
    pub(super) folder: &'a mut Folder,
    pub(super) place: &'a Path,
    /// The source, and its name.
    pub(super) own: (&'a Path, &'a str),
}

impl Swap<'_> {
    pub(super) fn run(
        self,
        earlier: Option<&Earlier>,
        index: &Index,
        naming: &Naming,
        notes: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let Self { folder, place, own: (source, own_name) } = self;
        let is_source = |name: &str| name == own_name && source.parent() == Some(place);
        let failed =
            |name: &str, error: io::Error| Failure::io("replace", &place.join(name), error);
        let settle = |folder: &Folder| {
            folder.settle().map_err(|error| Failure::io("make durable what is in", place, error))
        };
        // What waits is there for whoever has to take this back.
        settle(folder)?;
        if let Some(earlier) = earlier {
            earlier.is_unchanged(place)?;
            // The index goes first and comes last: between, nothing can be put back from a mixture. A disk keeps the order
            // of names only from one sync to the next.
            folder.put_away(index::NAME).map_err(|error| failed(index::NAME, error))?;
            settle(folder)?;
            for file in earlier.files.iter().filter(|file| !is_source(&file.name)) {
                let name = &file.name;
                if file.is_edited {
                    let kept = folder.keep_beside(name).map_err(|error| failed(name, error))?;
                    notes.push(format!(
                        "{name} was edited, and is kept as {}",
                        shown(place.join(kept))
                    ));
                } else {
                    folder.put_away(name).map_err(|error| failed(name, error))?;
                }
            }
        }
        let segments = index
            .segments
            .iter()
            .map(|segment| (naming.segment(segment.segment_index), Some(&segment.sha256)));
        let original = (naming.original(), Some(&index.source_sha256));
        for (name, sha256) in segments.chain([original, (index::NAME.to_owned(), None)]) {
            if name == index::NAME {
                settle(folder)?;
            }
            match folder.put_in_place(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let path = place.join(&name);
                    // What a run that was killed left, to the letter.
                    let is_same = !is_source(&name)
                        && split_files::hash(&path, &|| false).ok().flatten().as_ref() == sha256
                        && sha256.is_some();
                    if !is_same {
                        let message = format!(
                            "will not overwrite {}: it is there already, and no index of this file lists it",
                            shown(&path)
                        );
                        return Err(Failure::new(Kind::Taken, message));
                    }
                    folder
                        .put_away(&name)
                        .and_then(|()| folder.put_in_place(&name))
                        .map_err(|error| failed(&name, error))?;
                }
                result => result.map_err(|error| failed(&name, error))?,
            }
        }
        Ok(())
    }
}
