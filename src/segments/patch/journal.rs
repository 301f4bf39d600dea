//! The steps of a patch on disk, in an order that a kill at any instant leaves repairable.
//!
//! ```text
//! stage    {original}.new: the whole new source; {segment}.ours (a second name of the segment), {segment}.new; durable
//! commit   {index}.new, durable: from here on it is known what the new source is to be
//! apply    {segment}.new becomes the segment
//!          the source is replaced and durable (the caller does that)
//! finish   {original}.new becomes {original}, {segment}.ours go, {index}.new becomes the index
//! ```
//! A run that finds `{index}.new` looks at the source: when it is the new one, it goes on to the end; when not, it takes all
//! back. A source that was being written in place and is half one and half the other is written again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use super::examine::read_at;
use super::split::{Hash, Split, names, new_name, parse, read_text, undo_name};
use super::{Failure, Hooks};
use crate::format::index::Index;
use crate::sys::folder::Folder;

/// What a run that was ended left behind.
#[derive(Debug)]
pub(super) enum Left {
    /// Nothing that needs more than tidying.
    Nothing,
    /// The source is the new one; this is its index.
    New(Box<Index>),
    /// The source is half the new one and half the old one.
    Torn(Box<Index>),
    /// The source is another; what was prepared is void.
    Void(Box<Index>),
}

/// Looks what an earlier run left behind. Changes nothing.
pub(super) fn look(split: &Split, source: &File, hooks: &mut Hooks<'_>) -> Result<Left, Failure> {
    let Some((text, _)) = read_text(&split.folder, &new_name(&split.name))? else {
        return Ok(Left::Nothing);
    };
    // Half written, or somebody else's: no source was replaced for it.
    let Ok(new) = parse(&text) else { return Ok(Left::Nothing) };
    let names = names(&new, &split.name);
    if new.source_path != split.index.source_path
        || names.ok() != Some((split.segments.clone(), split.original.clone()))
    {
        return Ok(Left::Nothing);
    }
    let new = Box::new(new);
    let is = hash(source, hooks)?;
    if is == new.source_sha256 && is_pending_free(split, &new)? {
        return Ok(Left::New(new));
    }
    if is != new.source_sha256 && is != split.index.source_sha256 && is_torn(split, source)? {
        return Ok(Left::Torn(new));
    }
    Ok(Left::Void(new))
}

/// Whether each segment that is still to be rewritten is as it was when that was prepared.
fn is_pending_free(split: &Split, new: &Index) -> Result<bool, Failure> {
    for (at, name) in split.segments.iter().enumerate() {
        let Some(next) = split.folder.read(&new_name(name))? else { continue };
        let (now, then) = (split.folder.read(name)?, split.folder.read(&undo_name(name))?);
        let prepared = next.metadata().and_then(|metadata| metadata.modified()).ok();
        let identity = |file: File| file.metadata().ok().map(|is| (is.dev(), is.ino(), is.len()));
        let edited = now.as_ref().and_then(|file| file.metadata().ok()?.modified().ok());
        let (now, then) = (now.and_then(identity), then.and_then(identity));
        if now.is_none() || now != then || edited > prepared || at >= new.segments.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether each byte of the source is that of the old one or of the new one in its place.
fn is_torn(split: &Split, source: &File) -> Result<bool, Failure> {
    let (Some(old), Some(new)) =
        (split.folder.read(&split.original)?, split.folder.read(&new_name(&split.original))?)
    else {
        return Ok(false);
    };
    let failed = |error: io::Error| Failure::io("compare the source", &error);
    let size = source.metadata().map_err(failed)?.len();
    let mut buffers = [vec![0; 1 << 16], vec![0; 1 << 16], vec![0; 1 << 16]];
    let mut at = 0;
    while at < size {
        let mut counts = [0; 3];
        for (n, file) in [source, &old, &new].into_iter().enumerate() {
            counts[n] = read_at(file, &mut buffers[n], at).map_err(failed)?;
        }
        let [is, was, will] = [0, 1, 2].map(|n| &buffers[n][..counts[n]]);
        let fits = |n: usize, byte: &u8| was.get(n) == Some(byte) || will.get(n) == Some(byte);
        if !is.iter().enumerate().all(|(n, byte)| fits(n, byte)) {
            return Ok(false);
        }
        at += is.len().max(1) as u64;
    }
    Ok(true)
}

/// The hash of a whole file.
pub(super) fn hash(file: &File, hooks: &mut Hooks<'_>) -> Result<String, Failure> {
    let mut hash = Hash::default();
    let mut buffer = vec![0; 1 << 18];
    let mut at = 0;
    loop {
        hooks.go_on()?;
        let count = read_at(file, &mut buffer, at)
            .map_err(|error| Failure::io("read the source", &error))?;
        if count == 0 {
            return Ok(hash.hex());
        }
        hash.feed(&buffer[..count]);
        at += count as u64;
    }
}

/// Prepares all that is to be: segments to rewrite, the next kept original, the next index.
pub(super) fn stage(
    split: &Split,
    rewrites: &[(usize, Vec<u8>)],
    original: &mut dyn FnMut(&mut File) -> io::Result<()>,
    index: &str,
) -> Result<(), Failure> {
    let folder = &split.folder;
    // First, since a second name changes the times of a segment, which tell whether it still is what was read.
    folder.create(&new_name(&split.original), &split.original, original)?;
    for (at, text) in rewrites {
        let name = &split.segments[*at];
        if folder.link(name, &undo_name(name)).is_err() {
            // Not every file system has second names.
            let old = super::examine::read_whole(split, *at)?;
            folder.create(&undo_name(name), name, &mut |file| file.write_all(&old))?;
        }
        folder.create(&new_name(name), name, &mut |file| file.write_all(text))?;
    }
    folder.sync()?;
    folder.create(&new_name(&split.name), &split.name, &mut |file| {
        file.write_all(index.as_bytes())
    })?;
    folder.sync()?;
    Ok(())
}

/// Puts the prepared segments in their places.
pub(super) fn apply(split: &Split) -> Result<(), Failure> {
    let mut is_any = false;
    let there = split.folder.names()?;
    let there: std::collections::HashSet<&OsStr> = there.iter().map(AsRef::as_ref).collect();
    for name in &split.segments {
        let new = new_name(name);
        if there.contains(new.as_os_str()) {
            split.folder.rename(&new, name)?;
            is_any = true;
        }
    }
    if is_any {
        split.folder.sync()?;
    }
    Ok(())
}

/// Ends what was begun, once the source is the new one. The index comes last: as long as it is not in its place, the
/// next run does this again.
pub(super) fn finish(split: &Split) -> Result<(), Failure> {
    apply(split)?;
    let folder = &split.folder;
    let original = new_name(&split.original);
    if folder.read(&original)?.is_some() {
        folder.rename(&original, &split.original)?;
    }
    remove_all(folder, split, undo_name)?;
    folder.sync()?;
    folder.rename(&new_name(&split.name), &split.name)?;
    folder.sync()?;
    Ok(())
}

/// Takes back what was begun, as long as the source is not the new one. `new` is the index that was prepared, when it
/// was: a segment that is as it says was rewritten, any other has been edited since and stays.
pub(super) fn take_back(split: &Split, new: Option<&Index>) -> Result<(), Failure> {
    let folder = &split.folder;
    let there = folder.names()?;
    let there: std::collections::HashSet<&OsStr> = there.iter().map(AsRef::as_ref).collect();
    for (at, name) in split.segments.iter().enumerate() {
        let undo = undo_name(name);
        if !there.contains(undo.as_os_str()) {
            continue;
        }
        let rewritten = new.and_then(|new| new.segments.get(at)).map(|entry| &entry.sha256);
        if rewritten.is_some() && Some(file_hash(split, at)?).as_ref() == rewritten {
            folder.rename(&undo, name)?;
        }
        // Two names of one file: the rename did nothing.
        folder.remove(&undo)?;
    }
    remove_all(folder, split, new_name)?;
    for name in [&split.original, &split.name] {
        folder.remove(&new_name(name))?;
    }
    folder.sync()?;
    Ok(())
}

/// Removes files of a run that was ended before it had prepared all.
pub(super) fn tidy(split: &Split) -> Result<(), Failure> {
    let there = split.folder.names()?;
    let is_left = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".new") || name.ends_with(b".ours")
    };
    if there.iter().any(|name| is_left(name)) { take_back(split, None) } else { Ok(()) }
}

fn file_hash(split: &Split, at: usize) -> Result<String, Failure> {
    Ok(Hash::of(&super::examine::read_whole(split, at)?))
}

fn remove_all(
    folder: &Folder,
    split: &Split,
    suffixed: impl Fn(&OsStr) -> std::ffi::OsString,
) -> Result<(), Failure> {
    let there = folder.names()?;
    let there: std::collections::HashSet<&OsStr> = there.iter().map(AsRef::as_ref).collect();
    for name in &split.segments {
        let name = suffixed(name);
        if there.contains(name.as_os_str()) {
            folder.remove(&name)?;
        }
    }
    Ok(())
}
