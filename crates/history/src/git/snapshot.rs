//! Remembers a working tree before the commands of a run, and finds what differs after them, for undo.
//! libgit2 compares the tree with an index of nagent's own, as `git status` does it with the user's, so only what changed
//! since the last time is read. Contents that the user's repository does not have are stored byte for byte in a bare one,
//! `{root}/snapshots/{hash of the top}.git`. Nothing is written in the user's, not even the time of an object, which
//! libgit2 renews where it writes one again. Files that `.gitignore` excludes are not looked at, of
//! repositories inside it is only known that they are there, and of the index only whether it differs.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail, ensure};
use git2::{
    Delta, DiffDelta, DiffOptions, Index, IndexEntry, IndexTime, ObjectType, Odb, OdbLookupFlags,
    Oid, Repository,
};

use super::repository::open_repository;
use super::worker::run_in_worker;
use conversation::format::harmless::quote_name;
use conversation::limits::{SNAPSHOT_BYTES, SNAPSHOT_FILES, SNAPSHOT_TIME};
use sys::clock::Stopwatch;
use sys::fs::{create_private_folder, read_bytes, real_path, sha256};
use sys::root::Root;

const EXECUTABLE: u32 = 0o100_755;
const REGULAR: u32 = 0o100_644;
const LINK: u32 = 0o120_000;
const REPOSITORY: u32 = 0o160_000;

/// The name of the user's index in a snapshot.
pub const INDEX: &str = ".git/index";

/// The mode of a file in the tree, and the id of its content. A file that cannot be read has zeros.
pub type Entry = (u32, Oid);

/// A working tree: its files with their paths below the top, in the order of paths as bytes, which is the index's. In a tree
/// of 100,000 files a map of paths takes longer than git does.
pub type Snapshot = Vec<(Vec<u8>, Entry)>;

/// A file in a snapshot: its content, if that is stored, and whether its owner may execute it.
pub type Version = (Option<Vec<u8>>, bool);

/// A file that differs from a snapshot.
#[derive(Debug)]
pub struct TreeChange {
    /// Its path.
    pub path: PathBuf,
    /// The file before; `None` if there was none.
    pub before: Option<Version>,
    /// The file after.
    pub after: Option<Version>,
    /// Whether a file with this content was removed elsewhere.
    pub is_moved: bool,
}

/// Remembers the working tree with this top.
pub fn take(root: &Root, top: &Path) -> Result<Snapshot> {
    with_store(root, top, Store::read_tree)
}

/// The files that differ from the snapshot now, in the order of paths.
pub fn compare(root: &Root, top: &Path, old: Snapshot) -> Result<Vec<TreeChange>> {
    with_store(root, top, move |store| {
        let new = store.read_tree()?;
        let changed = list_changed(&old, &new);
        ensure!(changed.len() <= SNAPSHOT_FILES, "over {SNAPSHOT_FILES} files changed");
        let gone = changed.iter().filter(|(_, _, after)| after.is_none());
        let gone: HashSet<Oid> = gone.filter_map(|(_, before, _)| Some((*before)?.1)).collect();
        let mut left = 2 * SNAPSHOT_BYTES;
        let mut read = |file: Option<Entry>| file.map(|it| store.read(it, &mut left)).transpose();
        let change = |(path, before, after): (&[u8], Option<Entry>, Option<Entry>)| {
            let is_moved = after.is_some_and(|file| gone.contains(&file.1));
            let (before, after) = (read(before)?, read(after)?);
            let path = store.top.join(OsStr::from_bytes(path));
            Ok(TreeChange { path, before, after, is_moved })
        };
        changed.into_iter().map(change).collect()
    })
}

/// The repositories inside of the working tree with this top, of which a snapshot has no files.
pub fn list_repositories(top: &Path, snapshot: &Snapshot) -> Vec<PathBuf> {
    let is_one = |(_, (mode, _)): &&(Vec<u8>, Entry)| *mode == REPOSITORY;
    snapshot.iter().filter(is_one).map(|(path, _)| top.join(OsStr::from_bytes(path))).collect()
}

/// The files that two snapshots do not have alike, before and after.
fn list_changed<'a>(
    old: &'a Snapshot,
    new: &'a Snapshot,
) -> Vec<(&'a [u8], Option<Entry>, Option<Entry>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut changed = Vec::new();
    while let Some(path) =
        old.peek().map(|it| &it.0).into_iter().chain(new.peek().map(|it| &it.0)).min()
    {
        let before = old.next_if(|it| it.0 == *path).map(|it| it.1);
        let after = new.next_if(|it| it.0 == *path).map(|it| it.1);
        if before != after {
            changed.push((path.as_slice(), before, after));
        }
    }
    changed
}

/// The repositories of a working tree: the user's, and nagent's own.
struct Store {
    top: PathBuf,
    user: Repository,
    own: Repository,
}

/// Works with the repositories for this top; nagent's own is made where it is missing.
fn with_store<T: Send + 'static>(
    root: &Root,
    top: &Path,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> Result<T> {
    let hash = sha256(top.as_os_str().as_bytes());
    let folder = root.snapshots_folder().join(format!("{hash}.git"));
    let top = top.to_owned();
    let is_inside = real_path(root.path()).is_some_and(|root| root.starts_with(&top));
    ensure!(!is_inside, "nagent's own folder is below {}", quote_name(&top));
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
        work(&Store { own: Repository::open_bare(&folder)?, top, user })
    });
    done.unwrap_or_else(|| bail!("the working tree takes over {} s", SNAPSHOT_TIME.as_secs()))
}

impl Store {
    /// Brings the index up to date, and stores what is new.
    fn read_tree(&self) -> Result<Snapshot> {
        let (watch, mut bytes, mut unread) = (Stopwatch::start(), 0, Vec::new());
        let mut index = self.open_index()?;
        let mut options = DiffOptions::new();
        options.include_untracked(true).recurse_untracked_dirs(true).include_typechange(true);
        options.ignore_submodules(true);
        let diff = self.user.diff_index_to_workdir(Some(&index), Some(&mut options))?;
        let mut update = |delta: DiffDelta<'_>| {
            let seconds = SNAPSHOT_TIME.as_secs();
            ensure!(watch.elapsed() <= SNAPSHOT_TIME, "the working tree takes over {seconds} s");
            let path = OsStr::from_bytes(delta.new_file().path_bytes().unwrap_or_default());
            let (path, file) = (Path::new(path), self.top.join(path));
            let there = fs::symlink_metadata(&file).ok();
            if delta.status() != Delta::Untracked {
                index.remove(path, 0)?;
            }
            let Some(there) = there.filter(|it| it.is_file() || it.is_symlink()) else {
                if file.join(".git").exists() {
                    // Without the slash at the end.
                    let name = path.components().as_path().as_os_str().as_bytes().to_vec();
                    unread.push((name, (REPOSITORY, Oid::ZERO_SHA1)));
                }
                return Ok(());
            };
            match self.store_file(&file, &there, &mut bytes)? {
                Some((mode, id)) => index.add(&index_entry(path, mode, id, &there))?,
                None => unread.push((path.as_os_str().as_bytes().to_vec(), (0, Oid::ZERO_SHA1))),
            }
            Ok(())
        };
        let updated = diff.deltas().try_for_each(&mut update);
        if diff.deltas().len() > 0 {
            // Also what was read in vain: the next snapshot need not read it again.
            index.write()?;
        }
        updated?;
        let known = index.iter().map(|entry| (entry.path, (entry.mode, entry.id)));
        let mut all: Snapshot = known.chain(unread).chain(self.user_index()).collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    /// The content of the user's index, without the times in it, which `git status` brings up to date.
    fn user_index(&self) -> Option<(Vec<u8>, Entry)> {
        let index = self.user.index().ok()?;
        let mut hasher = DefaultHasher::new();
        for entry in index.iter() {
            (entry.path, entry.mode, entry.id, entry.flags, entry.flags_extended).hash(&mut hasher);
        }
        let id = Oid::from_bytes(&[&hasher.finish().to_le_bytes()[..], &[0; 12]].concat()).ok()?;
        Some((INDEX.into(), (0, id)))
    }

    fn open_index(&self) -> Result<Index> {
        let path = self.own.path().join("index");
        // Of a process that was killed while it wrote: the lock of the folder is ours.
        _ = fs::remove_file(self.own.path().join("index.lock"));
        Index::open(&path).or_else(|_| {
            fs::remove_file(&path)?;
            Ok(Index::open(&path)?)
        })
    }

    /// Stores a file's content, if neither repository has it; `None` if it cannot be read. Adds its size to `bytes`.
    fn store_file(&self, file: &Path, there: &Metadata, bytes: &mut u64) -> Result<Option<Entry>> {
        ensure!(there.len() <= SNAPSHOT_BYTES, over_bytes());
        let (mode, content) = if there.is_symlink() {
            (LINK, fs::read_link(file).ok().map(|target| target.into_os_string().into_vec()))
        } else {
            let mode = if there.mode() & 0o100 != 0 { EXECUTABLE } else { REGULAR };
            (mode, read_bytes(file, SNAPSHOT_BYTES).ok().flatten())
        };
        let Some(content) = content else { return Ok(None) };
        let id = Oid::hash_object(ObjectType::Blob, &content)?;
        if self.find(id).is_none() {
            *bytes += content.len() as u64;
            ensure!(*bytes <= SNAPSHOT_BYTES, over_bytes());
            self.own.odb()?.write(ObjectType::Blob, &content)?;
        }
        Ok(Some((mode, id)))
    }

    /// The objects that have this one.
    fn find(&self, id: Oid) -> Option<Odb<'_>> {
        let mut all = [&self.own, &self.user].into_iter().filter_map(|it| it.odb().ok());
        all.find(|odb| odb.exists_ext(id, OdbLookupFlags::NO_REFRESH))
    }

    /// Reads a file of a snapshot; `left` bytes may still be read.
    fn read(&self, (mode, id): Entry, left: &mut u64) -> Result<Version> {
        if !matches!(mode, EXECUTABLE | REGULAR) {
            return Ok((None, false));
        }
        let odb = self.find(id).with_context(|| format!("object {id} is missing"))?;
        let (size, _) = odb.read_header(id)?;
        *left = left.checked_sub(size as u64).with_context(over_bytes)?;
        let content = odb.read(id)?.data().to_vec();
        // The user's repository may be anybody's work: what it has under this id is checked.
        let is_it = Oid::hash_object(ObjectType::Blob, &content)? == id;
        ensure!(is_it, "object {id} is damaged");
        Ok((Some(content), mode == EXECUTABLE))
    }
}

fn over_bytes() -> String {
    format!("the working tree has over {} MiB that git does not know", SNAPSHOT_BYTES >> 20)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as in git's index")]
fn index_entry(path: &Path, mode: u32, id: Oid, there: &Metadata) -> IndexEntry {
    IndexEntry {
        ctime: IndexTime::new(there.ctime() as i32, there.ctime_nsec() as u32),
        mtime: IndexTime::new(there.mtime() as i32, there.mtime_nsec() as u32),
        dev: there.dev() as u32,
        ino: there.ino() as u32,
        mode,
        uid: there.uid(),
        gid: there.gid(),
        file_size: there.len() as u32,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_os_str().as_bytes().to_vec(),
    }
}
