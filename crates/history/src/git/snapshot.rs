//! Remembers a working tree before the commands of a run, and finds what differs after them, for undo.
//! libgit2 compares the tree with an index of nagent's own, as `git status` does it with the user's, so only what changed
//! since the last time is read. Contents that the user's repository does not have are stored byte for byte in a bare one,
//! `{root}/snapshots/{hash of the top}.git`. Nothing is written in the user's, not even the time of an object, which
//! libgit2 renews where it writes one again. Of files that `.gitignore` excludes it is only known that they are there (but
//! for those that git tracks), of repositories inside also their commit, and of the user's refs and index whether they differ.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail, ensure};
use git2::{
    ConfigLevel, Delta, DiffDelta, DiffOptions, Index, IndexEntry, IndexTime, ObjectType, Odb,
    OdbLookupFlags, Oid, Repository,
};

use super::facts::list_left_out;
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

/// The mode of what is ignored. No file has it.
const IGNORED: u32 = 1;

/// The name of the user's index in a snapshot.
pub const INDEX: &str = ".git/index";

/// What git leaves while a merge or the like is under way.
const UNDER_WAY: [&str; 4] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"];

/// The mode of a file in the tree, and the id of its content. A file that cannot be read has zeros.
pub type Entry = (u32, Oid);

/// A working tree: its files with their paths below the top, in the order of paths as bytes, which is the index's. In a tree
/// of 100,000 files a map of paths takes longer than git does.
/// Each has the number of its inode, or 0.
pub type Snapshot = Vec<(Vec<u8>, Entry, u32)>;

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
    /// Whether it is a file that was in the snapshot under another name.
    pub is_moved: bool,
    /// Whether it may have been there before, ignored or in a repository inside.
    pub was_hidden: bool,
}

/// Remembers the working tree with this top.
pub fn take(root: &Root, top: &Path) -> Result<Snapshot> {
    with_store(root, top, Store::read_tree)
}

/// The files that differ from the snapshot now, in the order of paths.
pub fn compare(root: &Root, top: &Path, old: Snapshot) -> Result<Vec<TreeChange>> {
    with_store(root, top, move |store| {
        let new = store.read_tree()?;
        let hidden = old.iter().filter(|(_, (mode, _), _)| matches!(*mode, REPOSITORY | IGNORED));
        let hidden: HashSet<&Path> = hidden.map(|(path, ..)| as_path(path)).collect();
        let mut changed = list_changed(&old, &new);
        changed.retain(|(path, before, after)| match (before.map(mode), after.map(mode)) {
            (None, Some(IGNORED)) => false,
            // The rest of a folder may be named in another way.
            (Some(IGNORED), None) => fs::symlink_metadata(store.top.join(as_path(path))).is_err(),
            _ => true,
        });
        let is_file = |it| matches!(mode(it), EXECUTABLE | REGULAR | LINK);
        let files =
            changed.iter().filter(|(_, before, after)| before.or(*after).is_some_and(is_file));
        ensure!(files.count() <= SNAPSHOT_FILES, "over {SNAPSHOT_FILES} files changed");
        let gone = changed.iter().filter(|(_, _, after)| after.is_none());
        let gone: HashSet<Inode> = gone.filter_map(|(_, before, _)| *before).collect();
        let mut left = 2 * SNAPSHOT_BYTES;
        let mut read =
            |file: Option<Inode>| file.map(|(it, _)| store.read(it, &mut left)).transpose();
        let change = |(path, before, after): Change<'_>| {
            let is_moved = after.is_some_and(|file| file.1 != 0 && gone.contains(&file));
            let is_known = before.is_some_and(|it| is_file(it) || mode(it) == REPOSITORY);
            let (before, after) = (read(before)?, read(after)?);
            let was_hidden = !is_known && as_path(path).ancestors().any(|it| hidden.contains(it));
            let path = store.top.join(as_path(path));
            Ok(TreeChange { path, before, after, is_moved, was_hidden })
        };
        changed.into_iter().map(change).collect()
    })
}

/// The repositories inside of the working tree with this top, of which a snapshot has no files.
pub fn list_repositories(top: &Path, snapshot: &Snapshot) -> Vec<PathBuf> {
    let inside = snapshot.iter().filter(|(_, (mode, _), _)| *mode == REPOSITORY);
    inside.map(|(path, ..)| top.join(as_path(path))).collect()
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// A file, and the number of its inode.
type Inode = (Entry, u32);

fn mode(((mode, _), _): Inode) -> u32 {
    mode
}

/// A path, and what is there before and after.
type Change<'a> = (&'a [u8], Option<Inode>, Option<Inode>);

/// The files that two snapshots do not have alike.
fn list_changed<'a>(old: &'a Snapshot, new: &'a Snapshot) -> Vec<Change<'a>> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut changed = Vec::new();
    while let Some(path) =
        old.peek().map(|it| &it.0).into_iter().chain(new.peek().map(|it| &it.0)).min()
    {
        let before = old.next_if(|it| it.0 == *path).map(|it| (it.1, it.2));
        let after = new.next_if(|it| it.0 == *path).map(|it| (it.1, it.2));
        if before.map(|it| it.0) != after.map(|it| it.0) {
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
        let is_here = user.workdir().and_then(real_path).is_none_or(|it| it == top);
        ensure!(is_here, "the repository names another working tree");
        create_private_folder(&folder)?;
        let lock = File::open(&folder)?;
        lock.lock()?;
        for part in ["objects", "refs"] {
            create_private_folder(&folder.join(part))?;
        }
        fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?;
        // Settings of the user's repository that hide changes.
        let settings = folder.join("settings");
        fs::write(
            &settings,
            "[core]\nignorecase = false\ntrustctime = true\nfilemode = true\nsymlinks = true\n",
        )?;
        let mut config = user.config()?;
        config.add_file(&settings, ConfigLevel::App, true)?;
        user.set_config(&config)?;
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
        options.ignore_submodules(true).include_ignored(true);
        let diff = self.user.diff_index_to_workdir(Some(&index), Some(&mut options))?;
        // libgit2 does not read every index.
        let tracked = self.user.index().ok();
        let mut update = |delta: DiffDelta<'_>| {
            let seconds = SNAPSHOT_TIME.as_secs();
            ensure!(watch.elapsed() <= SNAPSHOT_TIME, "the working tree takes over {seconds} s");
            // Folders have a slash at the end.
            let path = as_path(delta.new_file().path_bytes().unwrap_or_default()).components();
            let path = path.as_path();
            let (file, name) = (self.top.join(path), path.as_os_str().as_bytes().to_vec());
            if delta.status() == Delta::Ignored {
                // A submodule may be ignored, too.
                let submodule = tracked.as_ref().and_then(|it| it.get_path(path, 0));
                let submodule = submodule.and_then(|_| repository_at(&file));
                unread.push((name, submodule.unwrap_or((IGNORED, Oid::ZERO_SHA1)), 0));
                return Ok(());
            }
            if delta.status() != Delta::Untracked {
                // It may be gone: a file in the place of its folder took it along.
                _ = index.remove(path, 0);
            }
            // A link in the place of its folder may lead to a file like it.
            let is_gone = delta.status() == Delta::Deleted;
            let there = if is_gone { None } else { fs::symlink_metadata(&file).ok() };
            let Some(there) = there.filter(|it| it.is_file() || it.is_symlink()) else {
                unread.extend(repository_at(&file).filter(|_| !is_gone).map(|it| (name, it, 0)));
                return Ok(());
            };
            match self.store_file(&file, &there, &mut bytes)? {
                Some((mode, id)) => index.add(&index_entry(path, mode, id, &there))?,
                None => unread.push((name, (0, Oid::ZERO_SHA1), 0)),
            }
            Ok(())
        };
        let updated = diff.deltas().try_for_each(&mut update);
        let has_added = updated.is_ok() && self.add_left_out(&mut index, &mut unread, &watch)?;
        if has_added || diff.deltas().any(|it| it.status() != Delta::Ignored) {
            // Also what was read in vain: the next snapshot need not read it again.
            index.write()?;
        }
        updated?;
        unread.retain(|(path, ..)| index.get_path(as_path(path), 0).is_none());
        let known = index.iter().map(|entry| (entry.path, (entry.mode, entry.id), entry.ino));
        let mut all: Snapshot = known.chain(unread).chain(self.user_state()?).collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all.dedup_by(|one, other| one.0 == other.0);
        Ok(all)
    }

    /// Adds what the diff leaves out: files that the user's git tracks although they are ignored, and what is beside them.
    /// Returns whether there are new files in the index.
    fn add_left_out(
        &self,
        index: &mut Index,
        unread: &mut Snapshot,
        watch: &Stopwatch,
    ) -> Result<bool> {
        let mut known = index.iter().map(|entry| entry.path).peekable();
        let mut is_new = |path: &Vec<u8>| {
            while known.next_if(|it| it < path).is_some() {}
            known.peek() != Some(path)
        };
        let tracked = self.user.index().ok();
        let tracked = tracked.iter().flat_map(Index::iter).map(|it| it.path);
        let missing: Vec<Vec<u8>> = tracked.filter(|it| is_new(it)).collect();
        let (mut bytes, mut has_added) = (0, false);
        let mut add = |index: &mut Index, unread: &mut Snapshot, path: &Path| {
            let (file, name) = (self.top.join(path), path.as_os_str().as_bytes());
            let there = fs::symlink_metadata(&file).ok();
            let Some(there) = there.filter(|it| it.is_file() || it.is_symlink()) else {
                return Ok(());
            };
            // Not one that a link in the place of its folder leads to.
            let folder = file.parent().unwrap_or(&self.top);
            if index.get_path(path, 0).is_some() || real_path(folder).as_deref() != Some(folder) {
                return Ok(());
            }
            let seconds = SNAPSHOT_TIME.as_secs();
            ensure!(watch.elapsed() <= SNAPSHOT_TIME, "the working tree takes over {seconds} s");
            match self.store_file(&file, &there, &mut bytes)? {
                Some((mode, id)) => index.add(&index_entry(path, mode, id, &there))?,
                None => unread.push((name.to_vec(), (0, Oid::ZERO_SHA1), 0)),
            }
            has_added = true;
            Ok(())
        };
        for path in &missing {
            add(index, unread, as_path(path))?;
        }
        let named: HashSet<Vec<u8>> = unread.iter().map(|(name, ..)| name.clone()).collect();
        for (path, is_ignored) in list_left_out(&self.user, index) {
            let name = path.as_os_str().as_bytes().to_vec();
            match repository_at(&self.top.join(&path)) {
                _ if named.contains(&name) => {}
                Some(repository) => unread.push((name, repository, 0)),
                None if is_ignored => unread.push((name, (IGNORED, Oid::ZERO_SHA1), 0)),
                None => add(index, unread, &path)?,
            }
        }
        Ok(has_added)
    }

    /// The state of the user's repository: the refs, the content of the index (without the times in it, which `git status`
    /// brings up to date), and what is under way.
    fn user_state(&self) -> Result<Snapshot> {
        let mut all = Snapshot::new();
        // libgit2 does not read every index.
        if let Ok(index) = self.user.index() {
            let mut hasher = DefaultHasher::new();
            for IndexEntry { path, mode, id, flags, flags_extended, .. } in index.iter() {
                (path, mode, id, flags, flags_extended).hash(&mut hasher);
            }
            let id = [&hasher.finish().to_le_bytes()[..], &[0; 12]].concat();
            all.push((INDEX.into(), (0, Oid::from_bytes(&id)?), 0));
        }
        for reference in self.user.references()?.flatten() {
            let id = reference.target().unwrap_or(Oid::ZERO_SHA1);
            all.push(([b".git/", reference.name_bytes()].concat(), (0, id), 0));
        }
        for name in UNDER_WAY {
            let file = self.user.path().join(name);
            if let Ok(Some(content)) = read_bytes(&file, SNAPSHOT_BYTES) {
                let id = Oid::hash_object(ObjectType::Blob, &content)?;
                all.push((format!(".git/{name}").into(), (0, id), 0));
            }
        }
        Ok(all)
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

/// The repository in a folder, and its commit.
fn repository_at(folder: &Path) -> Option<Entry> {
    folder.join(".git").exists().then(|| {
        let inside = open_repository(folder).ok();
        let commit = inside.and_then(|it| it.head().ok()?.target());
        (REPOSITORY, commit.unwrap_or(Oid::ZERO_SHA1))
    })
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
