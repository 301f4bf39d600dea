//! The files of a split, in their folder: made under names that nobody looks at, then put in place in one row of
//! renames that is taken back when one fails.
//!
//! What may be replaced is not decided here. What a run that was killed has begun is taken back by the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::fs::hex;
use super::read::open_regular;
use crate::format::index;

mod mending;

/// What the name of a folder begins with in which new files wait.
const WAITING: &str = ".nagent-split-";
/// The folder in that one for files that were put away.
const OLD: &str = "old";
/// The folder in it with a file for each that is kept beside, which holds its new name.
const KEPT: &str = "kept";
const CHUNK: usize = 256 * 1024;
/// How many files are made durable at once.
const SYNCS: usize = 8;

/// A folder for the files of a split, held by one process at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Those that were made for it, the outermost first.
    made: Vec<PathBuf>,
    waiting: Option<PathBuf>,
    moves: Vec<(PathBuf, PathBuf)>,
    is_done: bool,
    kept: Vec<(String, String)>,
    /// The lock ends with it.
    lock: Option<File>,
}

impl Folder {
    /// Opens a folder, and makes it where it is missing, with its parents: for its owner alone if `private`, else as the
    /// umask has it. What a run that was killed has begun there is taken back.
    pub fn open(path: &Path, private: bool) -> io::Result<Self> {
        let mut folder = Self {
            path: path.to_owned(),
            made: Vec::new(),
            waiting: None,
            moves: Vec::new(),
            is_done: false,
            kept: Vec::new(),
            lock: None,
        };
        let mode = if private { 0o700 } else { 0o777 };
        super::fs::make_folders(path, mode, &mut folder.made)?;
        folder.path = fs::canonicalize(path)?;
        let open = File::open(&folder.path)?;
        if !open.metadata()?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let flock = || rustix::fs::flock(&open, FlockOperation::NonBlockingLockExclusive);
        match rustix::io::retry_on_intr(flock) {
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::other(
                    "another nagent tool is at work in it; try again later",
                ));
            }
            // A file system without locks.
            _ => folder.lock = Some(open),
        }
        folder.mend()?;
        Ok(folder)
    }

    /// Its true path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Files that a run that was killed had made, and somebody has edited since: their names, and what those are now.
    pub fn kept(&self) -> &[(String, String)] {
        &self.kept
    }

    /// Makes the inner folder where new files wait, and gives its path and its group. What a run that was killed left
    /// there is removed.
    pub fn waiting(&mut self) -> io::Result<(PathBuf, u32)> {
        for left in mending::leftovers(&self.path)? {
            fs::remove_dir_all(left)?;
        }
        let waiting = self.path.join(format!("{WAITING}{}", uuid::Uuid::new_v4().simple()));
        fs::DirBuilder::new().mode(0o700).create(&waiting)?;
        self.waiting = Some(waiting.clone());
        fs::create_dir(waiting.join(OLD))?;
        fs::create_dir(waiting.join(KEPT))?;
        let group = fs::metadata(&waiting)?.gid();
        Ok((waiting, group))
    }

    /// Puts a file away that is in the folder, so that its name is free. It is removed when all is done.
    pub fn put_away(&mut self, name: &str) -> io::Result<()> {
        let Some(waiting) = &self.waiting else { return Err(Errno::NOENT.into()) };
        let to = waiting.join(OLD).join(name);
        self.rename(self.path.join(name), to)
    }

    /// Gives a file in the folder the first name that is free of `{name}.bak`, `{name}.bak2`…, and tells it.
    pub fn keep_beside(&mut self, name: &str) -> io::Result<String> {
        let mut number = 1u32;
        loop {
            let kept = match number {
                1 => format!("{name}.bak"),
                number => format!("{name}.bak{number}"),
            };
            if let Some(waiting) = &self.waiting {
                // Told before it is so, durably: a run that is cut short in between has left the file under its name.
                let told = waiting.join(KEPT).join(name);
                fs::write(&told, &kept)?;
                File::open(&told)?.sync_all()?;
                File::open(waiting.join(KEPT))?.sync_all()?;
            }
            match self.rename(self.path.join(name), self.path.join(&kept)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {
                    number += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(kept),
            }
        }
    }

    /// Gives a file that waits its place. The name must be free.
    pub fn put_in_place(&mut self, name: &str) -> io::Result<()> {
        let Some(waiting) = &self.waiting else { return Err(Errno::NOENT.into()) };
        self.rename(waiting.join(name), self.path.join(name))
    }

    fn rename(&mut self, from: PathBuf, to: PathBuf) -> io::Result<()> {
        rename_free(&from, &to)?;
        self.moves.push((from, to));
        Ok(())
    }

    /// Makes all names durable as they are: nothing that is done from here on is on the disk without them. The content of the
    /// files is [`make_durable`]'s.
    pub fn settle(&self) -> io::Result<()> {
        if let Some(waiting) = &self.waiting {
            // What was put away is at its new name before it is gone from the old.
            for inner in [waiting.join(OLD), waiting.join(KEPT), waiting.clone()] {
                File::open(inner)?.sync_all()?;
            }
        }
        self.sync()
    }

    /// Makes what was put in place durable and lets go of the folder. From here on nothing is taken back.
    pub fn done(mut self) -> io::Result<()> {
        self.is_done = true;
        self.sync()
    }

    /// Makes the names in the folder itself durable.
    fn sync(&self) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), File::sync_all)
    }
}

impl Drop for Folder {
    /// Takes back what is not done; what cannot be taken back stays, since the error that led here says more.
    fn drop(&mut self) {
        let mut is_whole = true;
        if !self.is_done {
            let moves = std::mem::take(&mut self.moves);
            for (from, to) in moves.into_iter().rev() {
                if from.ends_with(index::NAME) {
                    // It says what the others are.
                    is_whole &= self.sync().is_ok();
                }
                is_whole &= rename_free(&to, &from).is_ok();
            }
            is_whole &= self.sync().is_ok();
        }
        if let Some(waiting) = self.waiting.as_ref().filter(|_| is_whole) {
            let _ = fs::remove_dir_all(waiting);
        }
        if !self.is_done {
            for made in self.made.iter().rev() {
                let _ = fs::remove_dir(made);
            }
        }
    }
}

/// Gives a file another name, which must be free.
fn rename_free(from: &Path, to: &Path) -> io::Result<()> {
    let here = rustix::fs::CWD;
    match rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
        // Some file systems know no such flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(Errno::EXIST.into());
            }
            fs::rename(from, to)
        }
        result => Ok(result?),
    }
}

/// Makes a file that is not there yet. The umask applies to `mode`.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Makes the content of all files in a folder durable: before the index, which says what they hold. Several are waited
/// for at once, so that a file system has one commit for them: a tenth of the time of one after the other.
pub fn make_durable(folder: &Path) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            paths.push(entry.path());
        }
    }
    let sync = |paths: &[PathBuf]| {
        paths.iter().try_for_each(|path| File::open(path).and_then(|file| file.sync_all()))
    };
    if paths.len() <= SYNCS {
        return sync(&paths);
    }
    let share = paths.len().div_ceil(SYNCS);
    std::thread::scope(|scope| {
        let running: Vec<_> =
            paths.chunks(share).map(|paths| scope.spawn(move || sync(paths))).collect();
        running.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// The SHA-256 of a regular file in lower-case hexadecimal digits; `None` where there is none.
pub fn hash(path: &Path, stop: &dyn Fn() -> bool) -> io::Result<Option<String>> {
    if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let (mut file, _) = open_regular(path).map_err(io::Error::other)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(hex(&hasher.finalize()))),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a path is that of a folder, links followed.
pub fn is_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// What tells whether a file was changed: device, inode, size, and its times of change; `None` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u64, u64, u64, (i64, i64), (i64, i64));

/// The state of what stands at a path, links followed.
pub fn state(path: &Path) -> Option<State> {
    fs::metadata(path).ok().map(|metadata| state_of(&metadata))
}

/// The same of a file's metadata.
pub fn state_of(metadata: &fs::Metadata) -> State {
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    State(metadata.dev(), metadata.ino(), metadata.len(), modified, changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn begin(path: &Path) -> Folder {
        let mut folder = Folder::open(path, false).unwrap();
        let (waiting, _) = folder.waiting().unwrap();
        fs::write(waiting.join("a"), "new").unwrap();
        folder
    }

    #[test]
    fn what_is_not_done_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        fs::write(dir.path().join("b"), "old").unwrap();
        let mut folder = begin(dir.path());
        assert!(folder.put_in_place("a").is_err(), "the name is taken");
        folder.put_away("a").unwrap();
        assert_eq!(folder.keep_beside("b").unwrap(), "b.bak");
        folder.put_in_place("a").unwrap();
        drop(folder);
        assert_eq!(listing(dir.path()), ["a", "b"]);
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "old");
    }

    #[test]
    fn what_is_done_stays() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "b.bak"] {
            fs::write(dir.path().join(name), "old").unwrap();
        }
        let mut folder = begin(dir.path());
        folder.put_away("a").unwrap();
        assert_eq!(folder.keep_beside("b").unwrap(), "b.bak2");
        folder.put_in_place("a").unwrap();
        folder.done().unwrap();
        assert_eq!(listing(dir.path()), ["a", "b.bak", "b.bak2"]);
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "new");
    }

    #[test]
    fn a_folder_that_was_made_goes_when_nothing_is_done_and_is_held_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x/y");
        let folder = begin(&path);
        let error = Folder::open(&path, false).unwrap_err().to_string();
        assert!(error.contains("at work"), "{error}");
        drop(folder);
        assert!(listing(dir.path()).is_empty());
        begin(&path).done().unwrap();
        assert!(path.is_dir());
    }

    #[test]
    fn what_a_killed_run_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".nagent-split-1/old")).unwrap();
        begin(dir.path()).done().unwrap();
        assert!(listing(dir.path()).is_empty());
    }

    /// Every state between the first rename and the last, and every one of its mending that is cut short.
    #[test]
    fn what_was_begun_is_taken_back_wherever_it_was_killed() {
        const LISTED: &str = r#"{"source_path": "/s", "source_sha256": "HASH", "source_size_bytes": 3,
            "source_line_count": 1, "split_type": "text", "target_bytes": 16, "natural": false, "created_at": "",
            "original_path": "/x/s.orig", "segment_count": 2, "segments": [
            {"segment_index": 1, "path": "/x/a", "start_line_num": 1, "end_line_num": 1, "start_byte": 0, "end_byte": 3,
             "sha256": "HASH"},
            {"segment_index": 2, "path": "/x/b", "start_line_num": 1, "end_line_num": 1, "start_byte": 0, "end_byte": 3,
             "sha256": "HASH"}]}"#;
        let old =
            [("a", "old a"), ("b", "edited"), ("b.bak", "before"), ("index.json", "old index")];
        // After how many steps it is killed, and whether somebody edits a new file then.
        for (steps, edits) in (0..=6).map(|steps| (steps, false)).chain([(5, true)]) {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in old {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let mut folder = Folder::open(dir.path(), false).unwrap();
            let (waiting, _) = folder.waiting().unwrap();
            fs::write(waiting.join("a"), "new").unwrap();
            let new = hash(&waiting.join("a"), &|| false).unwrap().unwrap();
            for name in ["b", "s.orig"] {
                fs::write(waiting.join(name), "new").unwrap();
            }
            fs::write(waiting.join("index.json"), LISTED.replace("HASH", &new)).unwrap();
            for step in 0..steps {
                match step {
                    0 => folder.put_away("index.json").unwrap(),
                    1 => folder.put_away("a").unwrap(),
                    2 => assert_eq!(folder.keep_beside("b").unwrap(), "b.bak2"),
                    3 => folder.put_in_place("a").unwrap(),
                    4 => folder.put_in_place("b").unwrap(),
                    _ => folder.put_in_place("s.orig").unwrap(),
                }
            }
            // As a kill does.
            folder.lock = None;
            std::mem::forget(folder);
            if edits {
                fs::write(dir.path().join("a"), "edited since").unwrap();
            }
            let folder = Folder::open(dir.path(), false).unwrap();
            assert_eq!(folder.kept().len(), usize::from(edits));
            drop(folder);
            Folder::open(dir.path(), false).unwrap().waiting().unwrap();
            let mut expect: Vec<_> = old.map(|(name, _)| name).to_vec();
            if edits {
                expect.insert(1, "a.bak");
                let kept = fs::read_to_string(dir.path().join("a.bak")).unwrap();
                assert_eq!(kept, "edited since");
            }
            assert_eq!(listing(dir.path()), expect, "{steps}");
            for (name, text) in old {
                assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), text, "{steps}");
            }
        }
    }

    #[test]
    fn hashes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "abc").unwrap();
        let hash = hash(&dir.path().join("a"), &|| false).unwrap().unwrap();
        assert!(hash.starts_with("ba7816bf8f01cfea") && hash.len() == 64);
        assert_eq!(super::hash(&dir.path().join("b"), &|| false).unwrap(), None);
    }
}
