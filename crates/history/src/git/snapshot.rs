//! Remembers a working tree before and after the commands of a run, so that undo knows what they changed.
//!
//! A snapshot is a tree object of all files that `.gitignore` does not exclude, in a bare repository of nagent's own,
//! `{root}/snapshots/{hash of the top}.git`. The user's objects are read, so that unchanged files cost nothing; nothing
//! is written in the user's repository, not even the time of an object, which libgit2 renews where it finds one. Contents are
//! stored byte for byte: no filter applies. The index in that folder remembers which content a file had, by its times,
//! size and inode; a file that changed as late as the snapshot is read again.
//!
//! Repositories inside are left out. Whatever else is not a readable file or link (a FIFO, another user's file) is in the
//! tree as a submodule: undo sees that it changed, and leaves it alone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, bail, ensure};
use git2::{
    DiffDelta, DiffFile, DiffOptions, Index, IndexEntry, IndexTime, ObjectType, Odb,
    OdbLookupFlags, Oid, Repository,
};

use super::repository::open_repository;
use super::worker::run_in_worker;
use conversation::limits::{SNAPSHOT_BYTES, SNAPSHOT_FILES, SNAPSHOT_TIME};
use sys::clock::{self, Stopwatch};
use sys::file_stamp::TICK;
use sys::fs::{create_private_folder, read_bytes, real_path, sha256};
use sys::list_dir::walk_unignored;
use sys::root::Root;

const EXECUTABLE: u32 = 0o100_755;
const REGULAR: u32 = 0o100_644;
const LINK: u32 = 0o120_000;
const OTHER: u32 = 0o160_000;

/// A file in a snapshot: its kind as in the log of changes, `None` where its content is not stored, and the content; a
/// link has its target.
pub type Version = (Option<char>, Vec<u8>);

/// A file whose snapshots differ.
#[derive(Debug)]
pub struct TreeChange {
    /// Its path.
    pub path: PathBuf,
    /// The file before; `None` if there was none.
    pub before: Option<Version>,
    /// The file after.
    pub after: Option<Version>,
}

/// Stores the working tree with this top, without nagent's own folder, and returns the tree's id.
pub fn store_tree(root: &Root, top: &Path) -> Result<String> {
    let hidden: Vec<PathBuf> = real_path(root.path()).into_iter().collect();
    with_store(root, top, move |top, odb, store| {
        let mut index = open_index(store)?;
        let known = index.iter().map(|entry| (entry.path.clone(), entry)).collect();
        index.clear()?;
        let (watch, files, bytes, is_new) = (Stopwatch::start(), Vec::new(), 0, false);
        let mut snapshot = Snapshot { odb, index, known, files, bytes, is_new };
        let mut add_all = || {
            for file in walk_unignored(top, &hidden) {
                let seconds = SNAPSHOT_TIME.as_secs();
                ensure!(
                    watch.elapsed() <= SNAPSHOT_TIME,
                    "the working tree takes over {seconds} s"
                );
                snapshot.add_file(top, &file)?;
            }
            snapshot.write_tree()
        };
        let tree = add_all();
        if snapshot.is_new || !snapshot.known.is_empty() {
            // Also what was read in vain: the next snapshot need not read it again.
            snapshot.index.write()?;
        }
        Ok(tree?.to_string())
    })
}

/// The files that differ between two snapshots, in the order of paths.
pub fn compare_trees(root: &Root, top: &Path, trees: [&str; 2]) -> Result<Vec<TreeChange>> {
    let trees = trees.map(str::to_owned);
    with_store(root, top, move |top, odb, store| {
        let tree = |id: &str| store.find_tree(Oid::from_str(id)?);
        let (before, after) = (tree(&trees[0])?, tree(&trees[1])?);
        let mut options = DiffOptions::new();
        options.include_typechange(true);
        let diff = store.diff_tree_to_tree(Some(&before), Some(&after), Some(&mut options))?;
        ensure!(diff.deltas().len() <= SNAPSHOT_FILES, "over {SNAPSHOT_FILES} files changed");
        let mut left = 2 * SNAPSHOT_BYTES;
        let mut read = |file: DiffFile<'_>| read_version(odb, &file, &mut left);
        let change = |delta: DiffDelta<'_>| {
            let path = delta.new_file().path_bytes().unwrap_or_default();
            let path = top.join(OsStr::from_bytes(path));
            let (before, after) = (read(delta.old_file())?, read(delta.new_file())?);
            Ok(TreeChange { path, before, after })
        };
        diff.deltas().map(change).collect()
    })
}

/// Works with nagent's own repository for this top, which can read the user's objects. It is made where it is missing.
fn with_store<T: Send + 'static>(
    root: &Root,
    top: &Path,
    work: impl FnOnce(&Path, &Odb<'_>, &Repository) -> Result<T> + Send + 'static,
) -> Result<T> {
    let hash = sha256(top.as_os_str().as_bytes());
    let (folder, top) = (root.snapshots_folder().join(format!("{hash}.git")), top.to_owned());
    // Twice: the time is checked between files, and a disk may not answer at all.
    let done = run_in_worker(2 * SNAPSHOT_TIME, &mut || true, move || {
        let user = open_repository(&top).map_err(Error::msg)?;
        create_private_folder(&folder)?;
        let lock = File::open(&folder)?;
        lock.lock()?;
        for part in ["objects", "refs"] {
            create_private_folder(&folder.join(part))?;
        }
        fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?;
        let store = Repository::open_bare(&folder)?;
        let odb = store.odb()?;
        // Without them each content is stored.
        if let Some(objects) = user.commondir().join("objects").to_str() {
            _ = odb.add_disk_alternate(objects);
        }
        work(&top, &odb, &store)
    });
    done.unwrap_or_else(|| bail!("the disk does not answer in time"))
}

fn open_index(store: &Repository) -> Result<Index> {
    let path = store.path().join("index");
    // Of a process that was killed while it wrote: the lock of the folder is ours.
    _ = fs::remove_file(store.path().join("index.lock"));
    let opened = Index::open(&path).or_else(|_| {
        _ = fs::remove_file(&path);
        Index::open(&path)
    });
    Ok(opened?)
}

/// Reads one side of a change; `left` bytes may still be read.
fn read_version(odb: &Odb<'_>, file: &DiffFile<'_>, left: &mut u64) -> Result<Option<Version>> {
    let kind = match u32::from(file.mode()) {
        EXECUTABLE => 'x',
        LINK => 'l',
        OTHER => return Ok(Some((None, Vec::new()))),
        0 => return Ok(None),
        _ => '-',
    };
    let (size, _) = odb.read_header(file.id())?;
    *left = left.checked_sub(size as u64).with_context(over_bytes)?;
    let content = odb.read(file.id())?.data().to_vec();
    // The user's repository may be anybody's work: what it has under this id is checked.
    let is_it = Oid::hash_object(ObjectType::Blob, &content)? == file.id();
    ensure!(is_it, "object {} is damaged", file.id());
    Ok(Some((Some(kind), content)))
}

struct Snapshot<'a> {
    odb: &'a Odb<'a>,
    /// What was stored of each file, and its times then.
    index: Index,
    /// What the index had before, and was not found yet.
    known: HashMap<Vec<u8>, IndexEntry>,
    /// Path, mode and id of each file.
    files: Vec<(Vec<u8>, u32, Oid)>,
    /// Bytes that were stored.
    bytes: u64,
    /// Whether the index has another file.
    is_new: bool,
}

impl Snapshot<'_> {
    fn add_file(&mut self, top: &Path, file: &Path) -> Result<()> {
        let Ok(there) = fs::symlink_metadata(file) else { return Ok(()) };
        let mode = match () {
            () if there.is_dir() => return Ok(()),
            () if there.is_symlink() => LINK,
            () if !there.is_file() => OTHER,
            () if there.mode() & 0o100 != 0 => EXECUTABLE,
            () => REGULAR,
        };
        let path = file.strip_prefix(top)?.as_os_str().as_bytes().to_vec();
        let entry = index_entry(&path, mode, &there);
        if let Some(old) = self.known.remove(&path).filter(|old| is_unchanged(old, &entry)) {
            self.files.push((path, mode, old.id));
            return Ok(self.index.add(&old)?);
        }
        self.is_new = true;
        ensure!(there.len() <= SNAPSHOT_BYTES, over_bytes());
        let content = match mode {
            OTHER => None,
            LINK => fs::read_link(file).ok().map(|target| target.into_os_string().into_vec()),
            _ => read_bytes(file, SNAPSHOT_BYTES).ok().flatten(),
        };
        let Some(content) = content else {
            self.files.push((path, OTHER, Oid::hash_object(ObjectType::Blob, b"")?));
            return Ok(());
        };
        let id = self.store(ObjectType::Blob, &content)?;
        self.files.push((path, mode, id));
        // A file that changed just now may change again without a new time.
        let changed = seconds(entry.ctime) + TICK;
        let ctime = if changed > clock::since_epoch() { IndexTime::new(0, 0) } else { entry.ctime };
        Ok(self.index.add(&IndexEntry { id, ctime, ..entry })?)
    }

    /// Stores an object that neither repository has.
    fn store(&mut self, kind: ObjectType, content: &[u8]) -> Result<Oid> {
        let id = Oid::hash_object(kind, content)?;
        if self.odb.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            return Ok(id);
        }
        self.bytes += content.len() as u64;
        ensure!(self.bytes <= SNAPSHOT_BYTES, over_bytes());
        Ok(self.odb.write(kind, content)?)
    }

    /// Stores the tree of all files.
    fn write_tree(&mut self) -> Result<Oid> {
        let mut files = std::mem::take(&mut self.files);
        files.sort_unstable();
        let files: Vec<_> =
            files.iter().map(|(path, mode, id)| (path.as_slice(), *mode, *id)).collect();
        self.write_folder(&files)
    }

    fn write_folder(&mut self, files: &[(&[u8], u32, Oid)]) -> Result<Oid> {
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

fn over_bytes() -> String {
    format!("the working tree has over {} MiB that git does not know", SNAPSHOT_BYTES >> 20)
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
