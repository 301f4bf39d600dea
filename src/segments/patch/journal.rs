//! The steps of a patch on disk, in an order that a kill at any instant leaves repairable.
//!
//! ```text
//! Here NAME.new and NAME.ours stand for .NAME.nagent-new and .NAME.nagent-ours.
//!
//! stage    {original}.new: the whole new source; {segment}.ours (a second name of the segment), {segment}.new; durable
//! commit   {index}.new, durable: from here on it is known what the new source is to be
//! apply    {segment}.new becomes the segment, which must be what was read until then
//!          the source is replaced and durable (the caller does that)
//! finish   {original}.new becomes {original}, {segment}.ours go, {index}.new becomes the index; a {segment}.ours that an
//!          editor has written to since (it had the file open) becomes the segment again
//! ```
//! A run that finds `{index}.new` looks at the source: when it is the new one, it goes on to the end; when not, it takes all
//! back. A source that was being written in place and is half one and half the other is written again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use super::examine::{Identity, Piece, has_changed, identity, read_at};
use super::split::{Hash, Split, names, new_name, parse, read_text, undo_name};
use super::{Failure, Hooks};
use crate::format::index::Index;
use crate::sys::folder::Folder;
use crate::sys::names::shown;

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
    // The source is written after all segments: one that still waits says that nothing of it was.
    let is_applied = !split.segments.iter().any(|name| is_there(split, &new_name(name)));
    if is != new.source_sha256
        && is != split.index.source_sha256
        && is_applied
        && is_torn(split, source)?
    {
        return Ok(Left::Torn(new));
    }
    Ok(Left::Void(new))
}

fn is_there(split: &Split, name: &OsStr) -> bool {
    matches!(split.folder.read(name), Ok(Some(_)))
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

/// A segment that is to be rewritten, as it was read: an edit that is saved after that must not be lost.
#[derive(Debug)]
pub(super) struct Guard {
    at: usize,
    /// The segment.
    segment: Identity,
    /// Its second name, or a copy of it.
    undo: Identity,
}

/// Fails when something else stands in the place of a segment that is to be rewritten, or was written to it.
fn is_as_read(split: &Split, guard: &Guard) -> Result<(), Failure> {
    let name = &split.segments[guard.at];
    let is_same = is(split, name)? == Some(guard.segment);
    if is_same { Ok(()) } else { Err(has_changed(split, guard.at)) }
}

/// Fails when an editor that had a segment open has written to it after it was replaced. Asked before the source is
/// replaced, when all can still be taken back.
pub(super) fn are_unwritten(split: &Split, guards: &[Guard]) -> Result<(), Failure> {
    for guard in guards {
        if is(split, &undo_name(&split.segments[guard.at]))? != Some(guard.undo) {
            return Err(has_changed(split, guard.at));
        }
    }
    Ok(())
}

fn is(split: &Split, name: &OsStr) -> Result<Option<Identity>, Failure> {
    let file = split.folder.read(name)?;
    Ok(file.and_then(|file| file.metadata().ok()).map(|metadata| identity(&metadata)))
}

/// Prepares all that is to be: segments to rewrite, the next kept original, the next index. `pieces` are the segments
/// as they were read.
pub(super) fn stage(
    split: &Split,
    rewrites: &[(usize, Vec<u8>)],
    pieces: &[Piece],
    original: &mut dyn FnMut(&mut File) -> io::Result<()>,
    index: &str,
) -> Result<Vec<Guard>, Failure> {
    let folder = &split.folder;
    // First, since a second name changes the times of a segment, which tell whether it still is what was read.
    folder.create(&new_name(&split.original), &split.original, original)?;
    let mut guards = Vec::new();
    for (at, text) in rewrites {
        let name = &split.segments[*at];
        if folder.link(name, &undo_name(name)).is_err() {
            // Not every file system has second names.
            let old = super::examine::read_whole(split, *at)?;
            folder.create(&undo_name(name), name, &mut |file| file.write_all(&old))?;
        }
        folder.create(&new_name(name), name, &mut |file| file.write_all(text))?;
        let undo = is(split, &undo_name(name))?.ok_or_else(|| has_changed(split, *at))?;
        guards.push(Guard { at: *at, segment: pieces[*at].identity(), undo });
    }
    folder.sync()?;
    for guard in &guards {
        is_as_read(split, guard)?;
    }
    folder.create(&new_name(&split.name), &split.name, &mut |file| {
        file.write_all(index.as_bytes())
    })?;
    folder.sync()?;
    Ok(guards)
}

/// Puts the prepared segments in their places, each where what was read still stands.
pub(super) fn apply(split: &Split, guards: &[Guard]) -> Result<(), Failure> {
    let mut is_any = false;
    let there = split.folder.names()?;
    let there: std::collections::HashSet<&OsStr> = there.iter().map(AsRef::as_ref).collect();
    for (at, name) in split.segments.iter().enumerate() {
        let new = new_name(name);
        if there.contains(new.as_os_str()) {
            if let Some(guard) = guards.iter().find(|guard| guard.at == at) {
                is_as_read(split, guard)?;
            }
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
/// next run does this again. `new` is that index. Gives a note for each segment that was written to meanwhile.
pub(super) fn finish(split: &Split, new: &Index, guards: &[Guard]) -> Result<Vec<String>, Failure> {
    apply(split, guards)?;
    let folder = &split.folder;
    let original = new_name(&split.original);
    if folder.read(&original)?.is_some() {
        folder.rename(&original, &split.original)?;
    }
    let notes = keep_written(split, new, guards)?;
    remove_all(folder, split, undo_name)?;
    folder.sync()?;
    folder.rename(&new_name(&split.name), &split.name)?;
    folder.sync()?;
    Ok(notes)
}

/// Keeps what an editor has written to a replaced segment, which is now behind the second name alone: as the segment,
/// or beside it when that was edited too.
fn keep_written(split: &Split, new: &Index, guards: &[Guard]) -> Result<Vec<String>, Failure> {
    let folder = &split.folder;
    let there = folder.names()?;
    let there: std::collections::HashSet<&OsStr> = there.iter().map(AsRef::as_ref).collect();
    let modified = |file: Option<File>| file.and_then(|file| file.metadata().ok()?.modified().ok());
    let prepared = modified(folder.read(&new_name(&split.name))?);
    let mut notes = Vec::new();
    for (at, name) in split.segments.iter().enumerate() {
        let undo = undo_name(name);
        if !there.contains(undo.as_os_str()) {
            continue;
        }
        // A run that mends has not seen the segment before: the time tells.
        let is_written = match guards.iter().find(|guard| guard.at == at) {
            Some(guard) => is(split, &undo)? != Some(guard.undo),
            None => prepared.is_some() && modified(folder.read(&undo)?) > prepared,
        };
        if !is_written {
            continue;
        }
        let rewritten = new.segments.get(at).map(|entry| &entry.sha256);
        let place = if Some(file_hash(split, at)?).as_ref() == rewritten {
            folder.rename(&undo, name)?;
            split.path(at)
        } else {
            let Some(mut file) = folder.read(&undo)? else { continue };
            super::content::keep_beside(folder, name, &mut file)
                .map_err(|error| Failure::Refused(format!("{error:#}")))?
        };
        notes.push(format!(
            "segment {} was written to while the source was replaced; that text is in {}, and not yet in the source: compare it with the source before the next run",
            at + 1,
            shown(place)
        ));
    }
    Ok(notes)
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
        name.ends_with(b".nagent-new") || name.ends_with(b".nagent-ours")
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::format::index::Segment;
    use crate::segments::patch::examine::examine;
    use crate::sys::boundary::{Boundary, Places};
    use crate::sys::interrupt::Interrupts;

    const READ: &[u8] = b"edited";
    const REWRITTEN: &[u8] = b"edited\n";

    fn open(path: impl AsRef<Path>, flags: OFlags) -> File {
        File::from(rustix::fs::open(path.as_ref(), flags, Mode::from_raw_mode(0o600)).unwrap())
    }

    fn put(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let mut file = open(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC);
        file.write_all(text.as_ref()).unwrap();
    }

    fn get(path: impl AsRef<Path>) -> Vec<u8> {
        let mut text = Vec::new();
        let mut file = open(path.as_ref(), OFlags::RDONLY);
        io::Read::read_to_end(&mut file, &mut text).unwrap();
        text
    }

    /// A split of one segment, edited and staged; the folder lives as long as the first value.
    fn staged() -> (tempfile::TempDir, PathBuf, Split, Index, Vec<Guard>) {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for name in ["a.txt", "a.txt.orig", "a-0001.txt"] {
            put(at(name), "text\n");
        }
        let segment = Segment {
            segment_index: 1,
            path: at("a-0001.txt"),
            start_line_num: 1,
            end_line_num: 1,
            start_byte: 0,
            end_byte: 5,
            sha256: Hash::of(b"text\n"),
            summary: None,
        };
        let index = Index {
            source_path: at("a.txt"),
            source_sha256: Hash::of(b"text\n"),
            source_size_bytes: 5,
            source_line_count: 1,
            split_type: "txt".to_owned(),
            target_bytes: 100,
            natural: false,
            created_at: "2026-11-21T20:45:14Z".to_owned(),
            original_path: at("a.txt.orig"),
            segment_count: 1,
            segments: vec![segment],
            summary: None,
        };
        put(at("index.json"), crate::format::index::format(&index));
        put(at("a-0001.txt"), READ);
        let root = dir.path().join("root");
        let places =
            Places { cwd: dir.path(), toplevel: None, home: None, root: &root, tmpdir: None };
        let boundary = Boundary::for_file(places, Path::new("index.json")).unwrap();
        let opened = boundary.open_for_write(Path::new("index.json")).unwrap();
        let split = Split::load(Folder::of(&opened).unwrap(), "index.json".as_ref()).unwrap();
        let interrupts = Interrupts::none();
        let mut hooks = Hooks { interrupts: &interrupts, keep: None, progress: &mut |_, _| () };
        let source = open(at("a.txt"), OFlags::RDONLY);
        let found = examine(&split, &source, false, &mut hooks).unwrap();
        let mut new = index;
        new.segments[0].sha256 = Hash::of(REWRITTEN);
        let text = crate::format::index::format(&new);
        let rewrites = [(0, REWRITTEN.to_vec())];
        let fill = &mut |file: &mut File| file.write_all(REWRITTEN);
        let guards = stage(&split, &rewrites, &found.pieces, fill, &text).unwrap();
        let segment = PathBuf::from(at("a-0001.txt"));
        (dir, segment, split, new, guards)
    }

    fn save_by_rename(segment: &Path, text: &str) {
        let beside = segment.with_file_name("editor");
        put(&beside, text);
        rustix::fs::rename(beside, segment).unwrap();
    }

    #[test]
    fn an_edit_that_is_saved_before_the_segment_is_replaced_stays() {
        let saves: [fn(&Path); 2] = [
            |segment| save_by_rename(segment, "second edit"),
            |segment| put(segment, "second edit"),
        ];
        for save in saves {
            let (_dir, segment, split, new, guards) = staged();
            save(&segment);
            let failure = apply(&split, &guards).unwrap_err().to_string();
            assert!(failure.contains("segment 1") && failure.contains("was changed"), "{failure}");
            take_back(&split, Some(&new)).unwrap();
            assert_eq!(get(&segment), b"second edit");
            assert_eq!(split.folder.names().unwrap().len(), 6, "{:?}", split.folder.names());
        }
    }

    #[test]
    fn what_an_editor_writes_to_the_replaced_file_is_not_lost() {
        for is_late in [false, true] {
            let (_dir, segment, split, new, guards) = staged();
            let mut editor = open(&segment, OFlags::WRONLY);
            apply(&split, &guards).unwrap();
            assert_eq!(get(&segment), REWRITTEN);
            are_unwritten(&split, &guards).unwrap();
            editor.write_all(b"second edit").unwrap();
            if is_late {
                let notes = finish(&split, &new, &guards).unwrap();
                assert!(notes.len() == 1 && notes[0].contains("segment 1"), "{notes:?}");
            } else {
                are_unwritten(&split, &guards).unwrap_err();
                take_back(&split, Some(&new)).unwrap();
            }
            assert_eq!(get(&segment), b"second edit");
            assert_eq!(split.folder.names().unwrap().len(), 6, "{:?}", split.folder.names());
        }
    }

    #[test]
    fn what_was_not_written_to_ends_without_a_note() {
        let (_dir, segment, split, new, guards) = staged();
        apply(&split, &guards).unwrap();
        assert_eq!(finish(&split, &new, &guards).unwrap(), [] as [&str; 0]);
        assert_eq!(get(&segment), REWRITTEN);
    }

    #[test]
    fn both_edits_of_a_replaced_segment_are_kept() {
        let (dir, segment, split, new, guards) = staged();
        let mut editor = open(&segment, OFlags::WRONLY);
        apply(&split, &guards).unwrap();
        // A run that mends knows by the time alone, which the kernel tells to some milliseconds.
        let tick = std::time::Duration::from_millis(20);
        crate::sys::clock::sleep_interruptible(tick, &Interrupts::none());
        editor.write_all(b"second edit").unwrap();
        save_by_rename(&segment, "third edit");
        assert_eq!(finish(&split, &new, &[]).unwrap().len(), 1);
        assert_eq!(get(&segment), b"third edit");
        assert_eq!(get(dir.path().join("a-0001.txt.before")), b"second edit");
    }
}
