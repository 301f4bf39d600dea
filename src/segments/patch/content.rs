//! Copies: the new source from its parts, a file from another, what a source held before.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Failure;
use super::examine::{self, Found};
use super::split::Split;
use crate::diff::unified::UnifiedDiff;
use crate::sys::folder::Folder;
use crate::sys::fs;
use crate::sys::interrupt::Interrupts;

/// Bytes that are copied between two looks at the signals.
const COPY: u64 = 32 << 20;

/// The longest name to which something is added, in bytes.
const LONGEST: usize = 240;

/// Bytes in which the first line of a patch ends, its path quoted.
const PATCH_HEAD: u64 = 32 << 10;

/// A whole file.
pub(super) fn whole(file: &File) -> Result<Vec<u8>, Failure> {
    examine::range(file, 0, u64::MAX).map_err(|error| Failure::io("read the source", &error))
}

/// The new source: what is unchanged from the old one, the rest from the segments.
pub(super) fn put_together(
    split: &Split,
    source: &File,
    found: &Found,
    to: &mut File,
    interrupts: &Interrupts,
) -> io::Result<()> {
    let mut source = source.try_clone()?;
    let (mut from, mut end) = (0, 0);
    for (at, (piece, segment)) in found.pieces.iter().zip(&split.index.segments).enumerate() {
        if piece.edited {
            copy(&mut source, to, from, end, interrupts)?;
            examine::write_text(split, at, piece, to)?;
            from = segment.end_byte;
        }
        end = segment.end_byte;
    }
    copy(&mut source, to, from, end, interrupts)
}

/// Copies a range, in the kernel where it can, and stops for a signal.
pub(super) fn copy(
    from: &mut File,
    to: &mut File,
    start: u64,
    end: u64,
    interrupts: &Interrupts,
) -> io::Result<()> {
    from.seek(SeekFrom::Start(start))?;
    let mut left = end.saturating_sub(start);
    while left > 0 {
        if let Some(signal) = interrupts.pending() {
            return Err(io::Error::other(format!("interrupted by {}", signal.name())));
        }
        let copied = io::copy(&mut Read::by_ref(from).take(left.min(COPY)), to);
        match copied {
            Ok(0) => return Err(io::Error::other("what was to be copied has become shorter")),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            // What was copied before a signal came counts.
            _ => left = end.saturating_sub(from.stream_position()?),
        }
    }
    Ok(())
}

/// Keeps a file as `{name}.before`, or under the next name that is free.
pub(super) fn keep_beside(
    folder: &Folder,
    name: &OsStr,
    file: &mut File,
) -> anyhow::Result<PathBuf> {
    let taken = folder.names()?;
    // A file's name has 255 bytes at most, and this one gets longer.
    let bytes = name.as_bytes();
    let stem = match String::from_utf8_lossy(bytes) {
        name if name.len() > LONGEST => name.chars().take(LONGEST / 4).collect::<String>().into(),
        _ => name.to_owned(),
    };
    let numbered = |n: u32| {
        let mut kept: OsString = stem.clone();
        kept.push(if n == 1 { ".before".to_owned() } else { format!(".before-{n}") });
        kept
    };
    let kept = (1..=u32::MAX).map(numbered).find(|kept| !taken.contains(kept));
    let kept = kept.ok_or_else(|| anyhow::anyhow!("no name is free"))?;
    folder.create(&kept, name, &mut |to| fs::copy_rest(file, to))?;
    folder.sync()?;
    Ok(folder.path().join(kept))
}

/// Whether a file is empty or the patch of a source, by whatever part of its path: what is a repository's top changes.
pub(super) fn is_patch_of(file: &File, source: &Path) -> bool {
    let Ok(start) = examine::range(file, 0, PATCH_HEAD) else { return false };
    let is_of =
        |name: &Path| start.starts_with(&UnifiedDiff::first_line(name.as_os_str().as_bytes()));
    let mut names = source.ancestors().filter_map(|top| source.strip_prefix(top).ok());
    start.is_empty() || names.any(|name| !name.as_os_str().is_empty() && is_of(name))
}
