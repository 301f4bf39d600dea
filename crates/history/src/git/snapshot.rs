//! Remembers a working tree before and after the commands of a run, so that undo knows what they changed.
//!
//! A snapshot is a tree object of all files that `.gitignore` does not exclude, in a bare repository of nagent's own,
//! `{root}/snapshots/{hash of the top}.git`. The user's objects are read, so that unchanged files cost nothing; nothing
//! is written in the user's repository, not even the time of an object, which libgit2 renews where it finds one. Contents are
//! stored byte for byte: no filter applies. The index in that folder remembers which content a file had, by its times,
//! size and inode; a file that changed as late as the snapshot is read again.
//!
//! Whatever is not a readable file or link (a submodule, a FIFO, another user's file) is in the tree as a submodule: undo sees
//! that it changed, and leaves it alone.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{
    DiffOptions, Index, IndexEntry, IndexTime, ObjectType, Odb, OdbLookupFlags, Oid, Repository,
};

use super::repository::open_repository;
use super::worker::run_in_worker;
use conversation::limits::{self, SNAPSHOT_BYTES, SNAPSHOT_FILES, SNAPSHOT_TIME};
use sys::clock::{self, Stopwatch};
use sys::file_stamp::TICK;
use sys::fs::{create_private_folder, sha256};
use sys::list_dir::walk_unignored;

const EXECUTABLE: u32 = 0o100_755;
const REGULAR: u32 = 0o100_644;
const LINK: u32 = 0o120_000;
const OTHER: u32 = 0o160_000;

/// The kind of a file in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A file that cannot be executed.
    Regular,
    /// A file that can be executed.
    Executable,
    /// A symbolic link; its content is the target.
    Link,
    /// Something whose content is not stored.
    Other,
}

/// A file whose snapshots differ: kind and content before and after.
#[derive(Debug)]
pub struct TreeChange {
    /// Its path.
    pub path: PathBuf,
    /// The file before; `None` if there was none.
    pub before: Option<(FileKind, Vec<u8>)>,
    /// The file after.
    pub after: Option<(FileKind, Vec<u8>)>,
}

/// The reason why there is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSnapshot {
    /// The reason, for people.
    pub why: String,
    /// Whether the tree is over a limit, rather than one that cannot be remembered.
    pub is_over: bool,
}

impl From<String> for NoSnapshot {
    fn from(why: String) -> Self {
        Self { why, is_over: false }
    }
}

impl From<git2::Error> for NoSnapshot {
    fn from(error: git2::Error) -> Self {
        error.message().to_owned().into()
    }
}

impl NoSnapshot {
    fn over(why: String) -> Self {
        Self { why, is_over: true }
    }
}

/// The folder for the snapshots of the working tree with this top.
pub fn snapshot_folder(snapshots: &Path, top: &Path) -> PathBuf {
    snapshots.join(format!("{}.git", sha256(top.as_os_str().as_bytes())))
}

/// Stores the working tree with this top, without `hidden` folders, and returns the tree's id, or why it is left out.
/// The caller has the lock of `folder`.
pub fn store_tree(folder: &Path, top: &Path, hidden: &[PathBuf]) -> Result<String, NoSnapshot> {
    let (folder, top, hidden) = (folder.to_owned(), top.to_owned(), hidden.to_owned());
    // Twice: the time is checked between files, and a disk may not answer at all.
    let stored = run_in_worker(2 * SNAPSHOT_TIME, &mut || true, move || {
        let user = open_repository(&top)?;
        let (repository, index) = open_store(&folder)?;
        let odb = repository.odb()?;
        share_objects(&odb, &user);
        let watch = Stopwatch::start();
        let (files, bytes, is_new) = Default::default();
        let mut snapshot = Snapshot { top, odb, index, watch, files, bytes, is_new };
        let tree = snapshot.add_all(&user, &hidden).and_then(|()| snapshot.write_tree());
        if snapshot.is_new {
            // Also what was read in vain: the next snapshot need not read it again.
            snapshot.index.write()?;
        }
        tree.map(|tree| tree.to_string())
    });
    stored.unwrap_or_else(|| Err(no_answer()))
}

/// The files that differ between two snapshots, in the order of paths.
pub fn compare_trees(
    folder: &Path,
    top: &Path,
    trees: [&str; 2],
) -> Result<Vec<TreeChange>, NoSnapshot> {
    let (folder, top, trees) = (folder.to_owned(), top.to_owned(), trees.map(str::to_owned));
    let compared = run_in_worker(2 * SNAPSHOT_TIME, &mut || true, move || {
        let user = open_repository(&top)?;
        let (repository, _) = open_store(&folder)?;
        let odb = repository.odb()?;
        share_objects(&odb, &user);
        let tree = |id: &str| Oid::from_str(id).and_then(|id| repository.find_tree(id));
        let (before, after) = (tree(&trees[0])?, tree(&trees[1])?);
        let mut options = DiffOptions::new();
        options.include_typechange(true);
        let diff = repository.diff_tree_to_tree(Some(&before), Some(&after), Some(&mut options))?;
        if diff.deltas().len() > SNAPSHOT_FILES {
            return Err(NoSnapshot::over(format!("over {SNAPSHOT_FILES} files changed")));
        }
        let mut left = 2 * SNAPSHOT_BYTES;
        let mut read = |file: git2::DiffFile<'_>| read_version(&odb, &file, &mut left);
        let change = |delta: git2::DiffDelta<'_>| {
            let path = delta.new_file().path_bytes().unwrap_or_default();
            let path = top.join(OsStr::from_bytes(path));
            let (before, after) = (read(delta.old_file())?, read(delta.new_file())?);
            Ok(TreeChange { path, before, after })
        };
        diff.deltas().map(change).collect()
    });
    compared.unwrap_or_else(|| Err(no_answer()))
}

/// Reads one side of a change; `left` bytes may still be read.
fn read_version(
    odb: &Odb<'_>,
    file: &git2::DiffFile<'_>,
    left: &mut u64,
) -> Result<Option<(FileKind, Vec<u8>)>, NoSnapshot> {
    let kind = match u32::from(file.mode()) {
        EXECUTABLE => FileKind::Executable,
        LINK => FileKind::Link,
        OTHER => return Ok(Some((FileKind::Other, Vec::new()))),
        0 => return Ok(None),
        _ => FileKind::Regular,
    };
    let (size, _) = odb.read_header(file.id())?;
    *left = left.checked_sub(size as u64).ok_or_else(over_bytes)?;
    let content = odb.read(file.id())?.data().to_vec();
    // The user's repository may be anybody's work: what it has under this id is checked.
    if Oid::hash_object(ObjectType::Blob, &content)? != file.id() {
        return Err(format!("object {} is damaged", file.id()).into());
    }
    Ok(Some((kind, content)))
}

fn no_answer() -> NoSnapshot {
    NoSnapshot::over("the disk does not answer in time".to_owned())
}

/// Opens nagent's own repository; makes it where it is missing.
fn open_store(folder: &Path) -> Result<(Repository, Index), git2::Error> {
    let failed = |error: &dyn std::fmt::Display| git2::Error::from_str(&error.to_string());
    for part in ["", "objects", "refs"] {
        create_private_folder(&folder.join(part)).map_err(|error| failed(&error))?;
    }
    let head = folder.join("HEAD");
    if !head.exists() {
        fs::write(head, "ref: refs/heads/none\n").map_err(|error| failed(&error))?;
    }
    // Of a process that was killed while it wrote: the lock of the folder is ours.
    let (index, lock) = (folder.join("index"), folder.join("index.lock"));
    _ = fs::remove_file(lock);
    let opened = Index::open(&index).or_else(|_| {
        _ = fs::remove_file(&index);
        Index::open(&index)
    });
    Ok((Repository::open_bare(folder)?, opened?))
}

/// Makes the user's objects readable in nagent's repository. Without them each content is stored.
fn share_objects(odb: &Odb<'_>, user: &Repository) {
    if let Some(objects) = user.commondir().join("objects").to_str() {
        _ = odb.add_disk_alternate(objects);
    }
}

struct Snapshot<'a> {
    top: PathBuf,
    odb: Odb<'a>,
    /// What was stored of each file, and its times then.
    index: Index,
    watch: Stopwatch,
    /// Path, mode and id of each file.
    files: Vec<(Vec<u8>, u32, Oid)>,
    /// Bytes that were stored.
    bytes: u64,
    /// Whether the index has changed.
    is_new: bool,
}

impl Snapshot<'_> {
    fn add_all(&mut self, user: &Repository, hidden: &[PathBuf]) -> Result<(), NoSnapshot> {
        let top = self.top.clone();
        walk_unignored(&top, hidden, &mut |path, is_nested| self.add_file(path, is_nested))?;
        // Files that git knows although they are ignored, and those that an earlier snapshot had: a command may have
        // written the rule that excludes them.
        let seen: HashSet<Vec<u8>> = self.files.iter().map(|(path, ..)| path.clone()).collect();
        let list = |index: &Index| -> Vec<Vec<u8>> {
            let all = index.iter().filter(|entry| entry.mode != OTHER);
            all.map(|entry| entry.path).filter(|path| !seen.contains(path)).collect()
        };
        let is_small = fs::metadata(user.path().join("index"))
            .is_ok_and(|there| there.len() <= limits::REPOSITORY_FILE);
        let tracked = user.index().ok().filter(|_| is_small).map(|index| list(&index));
        let known = list(&self.index);
        let (mut done, walked) = (HashSet::new(), self.files.len());
        for path in tracked.into_iter().flatten().chain(known.iter().cloned()) {
            let file = top.join(OsStr::from_bytes(&path));
            // Not in a folder that is a link now, or a repository of its own.
            let is_here = file.parent().is_some_and(|folder| {
                folder.canonicalize().is_ok_and(|real| real == folder)
                    && !folder.ancestors().any(|above| {
                        above != top && above.starts_with(&top) && above.join(".git").exists()
                    })
            });
            let is_hidden = hidden.iter().any(|folder| file.starts_with(folder));
            if is_here && !is_hidden && done.insert(path) {
                self.add_file(&file, false)?;
            }
        }
        let found: HashSet<&[u8]> =
            self.files.iter().skip(walked).map(|(path, ..)| path.as_slice()).collect();
        for path in known {
            if !found.contains(path.as_slice()) {
                self.is_new |= self.index.remove(Path::new(OsStr::from_bytes(&path)), 0).is_ok();
            }
        }
        Ok(())
    }

    fn add_file(&mut self, file: &Path, is_nested: bool) -> Result<(), NoSnapshot> {
        if self.watch.elapsed() > SNAPSHOT_TIME {
            let why =
                format!("the working tree takes over {} s to remember", SNAPSHOT_TIME.as_secs());
            return Err(NoSnapshot::over(why));
        }
        let Ok(there) = fs::symlink_metadata(file) else { return Ok(()) };
        if there.is_dir() && !is_nested {
            return Ok(());
        }
        let path = file.strip_prefix(&self.top).unwrap_or(file).as_os_str().as_bytes().to_vec();
        let mode = match () {
            () if there.is_symlink() => LINK,
            () if !there.is_file() => OTHER,
            () if there.mode() & 0o100 != 0 => EXECUTABLE,
            () => REGULAR,
        };
        let entry = index_entry(&path, mode, &there);
        let old = self.index.get_path(Path::new(OsStr::from_bytes(&path)), 0);
        if let Some(old) = old.filter(|old| is_unchanged(old, &entry)) {
            self.files.push((path, mode, old.id));
            return Ok(());
        }
        if there.len() > SNAPSHOT_BYTES {
            return Err(over_bytes());
        }
        let content = match mode {
            OTHER => None,
            LINK => fs::read_link(file).ok().map(|target| target.into_os_string().into_vec()),
            _ => sys::fs::read_bytes(file, SNAPSHOT_BYTES).ok().flatten(),
        };
        let Some(content) = content else {
            let commit = is_nested.then(|| open_repository(file).ok()?.head().ok()?.target());
            let none = Oid::hash_object(ObjectType::Blob, b"");
            let id = commit.flatten().map_or(none, Ok)?;
            self.files.push((path, OTHER, id));
            return Ok(());
        };
        let id = self.store(ObjectType::Blob, &content)?;
        self.files.push((path, mode, id));
        // A file that changed just now may change again without a new time.
        let changed = seconds(entry.ctime) + TICK;
        let ctime = if changed > clock::since_epoch() { IndexTime::new(0, 0) } else { entry.ctime };
        self.index.add(&IndexEntry { id, ctime, ..entry })?;
        self.is_new = true;
        Ok(())
    }

    /// Stores an object that neither repository has.
    fn store(&mut self, kind: ObjectType, content: &[u8]) -> Result<Oid, NoSnapshot> {
        let id = Oid::hash_object(kind, content)?;
        if self.odb.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            return Ok(id);
        }
        self.bytes += content.len() as u64;
        if self.bytes > SNAPSHOT_BYTES {
            return Err(over_bytes());
        }
        Ok(self.odb.write(kind, content)?)
    }

    /// Stores the tree of all files.
    fn write_tree(&mut self) -> Result<Oid, NoSnapshot> {
        let mut files = std::mem::take(&mut self.files);
        // In the order of git: a folder counts as its name with a slash.
        files.sort_unstable();
        files.dedup_by(|a, b| a.0 == b.0);
        let files: Vec<_> =
            files.iter().map(|(path, mode, id)| (path.as_slice(), *mode, *id)).collect();
        self.write_folder(&files)
    }

    fn write_folder(&mut self, files: &[(&[u8], u32, Oid)]) -> Result<Oid, NoSnapshot> {
        let mut tree = Vec::with_capacity(files.len() * 40);
        let mut rest = files;
        while let Some((path, mode, id)) = rest.first() {
            let slash = path.iter().position(|byte| *byte == b'/');
            let name = &path[..slash.unwrap_or(path.len())];
            let (mode, id, count) = match slash {
                None => (*mode, *id, 1),
                Some(at) => {
                    let is_in =
                        |(file, ..): &(&[u8], u32, Oid)| file.get(..=at) == Some(&path[..=at]);
                    let below: Vec<_> = rest
                        .iter()
                        .take_while(|file| is_in(file))
                        .map(|(file, mode, id)| (&file[at + 1..], *mode, *id))
                        .collect();
                    (0o40_000, self.write_folder(&below)?, below.len())
                }
            };
            tree.extend_from_slice(format!("{mode:o} ").as_bytes());
            tree.extend_from_slice(name);
            tree.push(0);
            tree.extend_from_slice(id.as_bytes());
            rest = &rest[count..];
        }
        self.store(ObjectType::Tree, &tree)
    }
}

fn over_bytes() -> NoSnapshot {
    NoSnapshot::over(format!(
        "the working tree has over {} MiB that git does not know",
        SNAPSHOT_BYTES >> 20
    ))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as in git's index")]
fn index_entry(path: &[u8], mode: u32, there: &Metadata) -> IndexEntry {
    IndexEntry {
        ctime: IndexTime::new(there.ctime() as i32, there.ctime_nsec() as u32),
        mtime: IndexTime::new(there.mtime() as i32, there.mtime_nsec() as u32),
        dev: there.dev() as u32,
        ino: there.ino() as u32,
        mode,
        uid: there.uid(),
        gid: there.gid(),
        file_size: there.len() as u32,
        id: Oid::ZERO_SHA1,
        flags: 0,
        flags_extended: 0,
        path: path.to_vec(),
    }
}

fn is_unchanged(old: &IndexEntry, now: &IndexEntry) -> bool {
    let stamp =
        |it: &IndexEntry| (seconds(it.ctime), seconds(it.mtime), it.ino, it.mode, it.file_size);
    stamp(old) == stamp(now)
}

fn seconds(time: IndexTime) -> Duration {
    Duration::new(u64::try_from(time.seconds()).unwrap_or(0), time.nanoseconds())
}
