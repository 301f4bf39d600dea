//! What is made for a command and goes with it: stand-ins for protected names that do not exist, a scratch folder, a report.
//!
//! A stand-in is a mount point: while it is there and mounted read-only, a command cannot make the real thing. Linux takes
//! a mount away with its mount point, so a stand-in stays until the last command in its tree has ended, whoever started that:
//! every command holds a shared lock on the tree's folder, and who gets it exclusively may remove. What was made is written
//! down first, in `ROOT/walls`; what a run that was killed has left there, the next one removes:
//!
//! ```text
//! {uuid}.hold      JSON: {"scratch": PATH, "trees": [{"tree": PATH, "ghosts": [{"name": PATH, "is_folder": BOOL, "identity": TEXT}, …]}, …]};
//!                  once before they are made, without identities, and once after it, which counts then; locked while it is in use
//! {uuid}.new       the same, while it is being made
//! {uuid}.report    the inner stage's: empty, or that the command was begun, or why not
//! {uuid}.exclude   git's own list of names to ignore, with the stand-ins added
//! empty            an empty file, which stands in for files that are hidden
//! ```

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Missing;
use super::inner::BEGUN;
use super::survey::{Link, Survey};
use crate::sandbox::plan::lossless;
use crate::sandbox::protected::Ghost;
use crate::sys::read::open_regular;

/// The longest that a lock on a tree is waited for: who removes holds it for an instant.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// What is read of git's list of names to ignore, in bytes.
const LONGEST_LIST: u64 = 1 << 20;
/// After this time a `.new` is nobody's any more.
const ABANDONED: Duration = Duration::from_mins(1);

/// What was made for a command and goes with it; to be ended, or dropped, when the command has ended.
#[derive(Debug, Default)]
pub struct Hold {
    walls: PathBuf,
    id: String,
    record: Option<File>,
    trees: Vec<File>,
    /// Whether there is a report to read.
    reports: bool,
    before: Vec<(PathBuf, Survey)>,
    /// Which file or folder each kept path was: another one at the same path is as new as one that was not there.
    identities: HashMap<PathBuf, (u64, u64)>,
    made: Vec<PathBuf>,
    /// Where nothing was that is read or run by itself.
    awaited: Vec<PathBuf>,
}

/// Why a command was never started where the inner stage was not reached, or could not say it.
pub const UNSAID: &str = "the walls could not be built; its output says why";

/// What is to be said of a command that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Why the command was never started. `None`: it was.
    pub refused: Option<String>,
    /// What the next reader of its result should know: protected names that have appeared.
    pub notes: Vec<String>,
    /// Links with protected names, beside which nothing new could be made.
    pub links: Vec<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default, with = "lossless::option")]
    scratch: Option<PathBuf>,
    trees: Vec<Tree>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tree {
    #[serde(with = "lossless")]
    tree: PathBuf,
    ghosts: Vec<Made>,
}

/// A stand-in.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    /// From the tree.
    #[serde(with = "lossless")]
    name: PathBuf,
    is_folder: bool,
    /// What was made, whatever has its name by now; `None`: it may not have been made yet.
    #[serde(default)]
    identity: Option<String>,
}

impl Hold {
    /// Begins one: the record and the report.
    pub(super) fn begin(walls: &Path) -> Result<Self, Missing> {
        let id = Uuid::new_v4().simple().to_string();
        let mut hold = Self::default();
        walls.clone_into(&mut hold.walls);
        hold.id = id;
        let new = hold.path("new");
        let record = private_file(&new).map_err(|error| cannot("make", &new, &error))?;
        record.lock().map_err(|error| cannot("lock", &new, &error))?;
        private_file(&hold.path("report"))
            .map_err(|error| cannot("make", &hold.path("report"), &error))?;
        fs::rename(&new, hold.path("hold")).map_err(|error| cannot("name", &new, &error))?;
        hold.record = Some(record);
        hold.reports = true;
        Ok(hold)
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.walls.join(format!("{}.{kind}", self.id))
    }

    /// Where the inner stage reports.
    pub(super) fn report(&self) -> PathBuf {
        self.path("report")
    }

    /// Takes the shared lock on a tree, so that nobody removes a stand-in in it.
    pub(super) fn share(&mut self, tree: &Path) -> Result<(), Missing> {
        let folder = File::open(tree).map_err(|error| cannot("open", tree, &error))?;
        let started = Instant::now();
        loop {
            match folder.try_lock_shared() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Missing(format!(
                        "another process has locked the folder {} (flock), which the walls share; end it",
                        tree.display()
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(cannot("lock", tree, &error)),
            }
        }
        self.trees.push(folder);
        Ok(())
    }

    /// Makes stand-ins, and a scratch folder, having written down what will be made. Gives the stand-ins that stand.
    pub(super) fn make(
        &mut self,
        wanted: &[(PathBuf, Vec<(PathBuf, Ghost)>)],
        scratch: Option<&Path>,
    ) -> Result<Vec<(PathBuf, Ghost)>, Missing> {
        let trees = wanted.iter().map(|(tree, ghosts)| Tree {
            tree: tree.clone(),
            ghosts: ghosts
                .iter()
                .map(|(name, kind)| Made {
                    name: name.clone(),
                    is_folder: *kind == Ghost::Folder,
                    identity: None,
                })
                .collect(),
        });
        let mut record = Record { scratch: scratch.map(Path::to_owned), trees: trees.collect() };
        self.write(&record)?;
        if let Some(scratch) = scratch {
            DirBuilder::new()
                .mode(0o700)
                .create(scratch)
                .map_err(|error| cannot("make", scratch, &error))?;
        }
        let mut stand = Vec::new();
        for (tree, (top, ghosts)) in record.trees.iter_mut().zip(wanted) {
            tree.ghosts.clear();
            for (name, kind) in ghosts {
                let path = top.join(name);
                match make_ghost(&path, *kind) {
                    Ok(()) => {
                        let is_folder = *kind == Ghost::Folder;
                        let identity = crate::sys::fs::identity(&path);
                        tree.ghosts.push(Made { name: name.clone(), is_folder, identity });
                        stand.push((path, *kind));
                    }
                    // Whoever made it between the look and now: it is there, and will be read-only.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        stand.push((path, *kind));
                    }
                    // What this user cannot make, a command of this user cannot make either.
                    Err(error) if is_forbidden(&error) => {}
                    Err(error) => return Err(cannot("make", &path, &error)),
                }
            }
        }
        self.write(&record)?;
        self.made = stand.iter().map(|(path, _)| path.clone()).collect();
        Ok(stand)
    }

    /// Writes down what will be made, or what was.
    fn write(&self, record: &Record) -> Result<(), Missing> {
        let path = self.path("hold");
        let mut text =
            serde_json::to_vec(record).map_err(|error| cannot("write", &path, &error))?;
        text.push(b'\n');
        self.record
            .as_ref()
            .map_or(Ok(()), |mut file| file.write_all(&text))
            .map_err(|error| cannot("write", &path, &error))
    }

    /// A copy of git's list of names to ignore with these added; `None` where there is no such list.
    pub(super) fn ignore(&self, list: &Path, names: &[&str]) -> Option<PathBuf> {
        let mut text = Vec::new();
        open_regular(list).ok()?.0.take(LONGEST_LIST).read_to_end(&mut text).ok()?;
        text.extend_from_slice(b"\n# nagent-sandbox: held while a command runs\n");
        for name in names {
            text.extend_from_slice(format!("/{name}\n").as_bytes());
        }
        let path = self.path("exclude");
        private_file(&path).and_then(|mut file| file.write_all(&text)).ok()?;
        Some(path)
    }

    /// Remembers what stood before the command, to tell what has appeared when it has ended.
    pub(super) fn remember(&mut self, before: Vec<(PathBuf, Survey)>, awaited: Vec<PathBuf>) {
        self.awaited = awaited;
        let kept = before.iter().flat_map(|(_, survey)| &survey.kept);
        self.identities = kept.filter_map(|path| Some((path.clone(), identity(path)?))).collect();
        self.before = before;
    }

    /// The command has ended: tells what is to be said of it, and removes what was made.
    pub fn end(self) -> Ended {
        let mut ended = Ended::default();
        if self.reports {
            let report = fs::read(self.report()).unwrap_or_default();
            if report != BEGUN.as_bytes() {
                let why = String::from_utf8_lossy(&report).trim().to_owned();
                ended.refused = Some(if why.is_empty() { UNSAID.to_owned() } else { why });
            }
        }
        ended.notes = self.appeared();
        let links = self.before.iter().flat_map(|(_, survey)| &survey.links);
        ended.links = links.map(|link| link.path.clone()).collect();
        ended
    }

    fn appeared(&self) -> Vec<String> {
        let mut new = Vec::new();
        for (top, before) in &self.before {
            let after = super::survey::survey(top, &|_| false);
            let is_same = |path: &PathBuf| identity(path).as_ref() == self.identities.get(path);
            let is_old = |path: &PathBuf| {
                before.kept.contains(path) && is_same(path) || self.made.contains(path)
            };
            // An empty one may be another run's stand-in, and runs nothing.
            new.extend(after.kept.into_iter().filter(|path| !is_old(path) && !is_empty(path)));
            let is_known = |link: &Link| {
                before.links.iter().any(|old| {
                    let leads_where_it_did = old.missing == link.missing
                        || old.missing.as_ref().is_some_and(|path| self.made.contains(path));
                    old.path == link.path && old.target == link.target && leads_where_it_did
                })
            };
            let links = after.links.into_iter().filter(|link| !is_known(link));
            new.extend(links.map(|link| link.path));
        }
        let is_there = |path: &&PathBuf| fs::symlink_metadata(path).is_ok() && !is_empty(path);
        let awaited = self.awaited.iter().filter(|path| !self.made.contains(path));
        new.extend(awaited.filter(is_there).cloned());
        new.sort();
        new.dedup();
        let mut notes = Vec::new();
        if self.before.iter().any(|(_, before)| before.is_cut) {
            notes.push("the tree is too large to look for all protected names in it: some in deep folders may be writable".to_owned());
        }
        if new.is_empty() {
            return notes;
        }
        let names: Vec<String> =
            new.iter().take(5).map(|path| path.display().to_string()).collect();
        let more =
            if new.len() > 5 { format!(" and {} more", new.len() - 5) } else { String::new() };
        vec![format!(
            "the command made what others run by themselves: {}{more}; look at it before you work there",
            names.join(", ")
        )]
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Its own lock on the trees first, then the one on the record: now it is as one that was killed.
        self.trees.clear();
        if self.record.take().is_some() {
            sweep(&self.walls);
        }
    }
}

/// Removes what commands that have ended, or were killed, have left. What others still need stays.
pub(super) fn sweep(walls: &Path) {
    let Ok(entries) = fs::read_dir(walls) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("hold") => drop(clear(&path)),
            Some("new") if is_abandoned(&path) => drop(fs::remove_file(&path)),
            _ => {}
        }
    }
}

fn clear(path: &Path) -> Option<()> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    let text = fs::read(path).ok()?;
    // The last one that is whole.
    let records = serde_json::Deserializer::from_slice(&text).into_iter::<Record>();
    let mut record = records.map_while(Result::ok).last().unwrap_or_default();
    if let Some(scratch) = record.scratch.take() {
        remove_folder(&scratch);
    }
    record.trees.retain(|tree| !tree.ghosts.is_empty() && !remove_ghosts(tree));
    if record.trees.is_empty() {
        for kind in ["report", "exclude", "hold"] {
            let _ = fs::remove_file(path.with_extension(kind));
        }
    }
    Some(())
}

/// Removes the stand-ins of a tree, unless a command still runs there. Whether they are done with.
fn remove_ghosts(tree: &Tree) -> bool {
    // A tree that is gone has none.
    let Ok(folder) = File::open(&tree.tree) else { return true };
    if folder.try_lock().is_err() {
        return false;
    }
    for Made { name, is_folder, identity } in &tree.ghosts {
        let path = tree.tree.join(name);
        let Ok(there) = fs::symlink_metadata(&path) else { continue };
        // Something else may have its name by now.
        if identity.is_some() && crate::sys::fs::identity(&path) != *identity {
            continue;
        }
        if *is_folder {
            // Only an empty one goes.
            let _ = fs::remove_dir(&path);
        } else if there.is_file() && there.len() == 0 && there.mode() & 0o777 == 0o400 {
            let _ = fs::remove_file(&path);
        }
    }
    true
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()))
}

fn make_ghost(path: &Path, kind: Ghost) -> io::Result<()> {
    match kind {
        Ghost::Nothing => Ok(()),
        Ghost::Folder => fs::create_dir(path),
        Ghost::File => {
            OpenOptions::new().write(true).create_new(true).mode(0o400).open(path).map(drop)
        }
    }
}

fn is_empty(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => fs::metadata(path).is_ok_and(|there| there.len() == 0),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Removes a folder whatever modes a command gave to folders in it.
fn remove_folder(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() {
        return;
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !fs::symlink_metadata(&folder).is_ok_and(|there| there.is_dir()) {
            continue;
        }
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        folders.extend(
            fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()),
        );
    }
    let _ = fs::remove_dir_all(folder);
}

fn is_abandoned(path: &Path) -> bool {
    let made = fs::metadata(path).and_then(|there| there.modified());
    made.is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age > ABANDONED))
}

/// Makes the empty file that stands in for files that are hidden.
pub(super) fn make_empty(walls: &Path) -> Result<(), Missing> {
    let empty = walls.join("empty");
    if empty.is_file() {
        return Ok(());
    }
    private_file(&empty).map(drop).map_err(|error| {
        let Missing(why) = cannot("make", &empty, &error);
        // As it is for a command that stands within walls.
        let is_within = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
        let advice = "; if this runs within walls already, they hold for all that it starts: run it without more";
        Missing(if is_within { format!("{why}{advice}") } else { why })
    })
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

pub(super) fn cannot(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Missing {
    let path = String::from_utf8_lossy(path.as_os_str().as_bytes());
    Missing(format!("cannot {what} {path}, which the walls need: {error}"))
}
