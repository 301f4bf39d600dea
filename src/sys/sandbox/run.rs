//! One command in the sandbox: how it started, and what it left. Protected names that it created are moved out of the tree
//! when it ends, into `outputs/created-{uuid}/` of nagent's root; nothing of ours is ever put into the tree.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use uuid::Uuid;

use super::git_config_paths::runs_nothing;
use super::inner::InnerReport;
use super::scan::{TreeScan, scan_tree};
use crate::sandbox::inner::InnerPlan;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::{name_some, shell_word};
use crate::sys::process;
use crate::sys::process::job::{Job, JobOutcome, LeftRunning};

/// Why a command was not started, when the inner stage could not say it.
pub const NO_REASON: &str = "the sandbox could not be built; the output says why";

/// Maximum number of paths that a note names.
const MAX_NAMED: usize = 5;

/// How long moving to another file system may take.
const MOVE_TIME: Duration = Duration::from_mins(1);

/// The entries of a protected path, each with its inode and the time when it was last changed.
type PathState = Vec<(u64, i64, i64)>;

/// A command that runs in the sandbox. To be finished, or dropped, when it has ended.
#[derive(Debug)]
pub struct SandboxedRun {
    /// A file in memory: the plan until the inner stage reads it, then its report.
    control: File,
    /// Removed when the command has ended.
    scratch: Option<PathBuf>,
    /// Where what the command created is moved to.
    outputs: PathBuf,
    /// The folders that were searched, and what was found.
    trees: Vec<(PathBuf, TreeScan)>,
    /// Device and inode of every protected path: one that was renamed with its folder is not new.
    identities: HashSet<(u64, u64)>,
    /// Whether nothing keeps protected paths from being changed.
    may_change: bool,
    /// The state of those that may be changed.
    states: HashMap<PathBuf, PathState>,
    /// Paths that did not exist, and are read or run by themselves once they do.
    missing: Vec<PathBuf>,
}

/// Report of a sandboxed command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxOutcome {
    /// Why the command was not started; `None`: it was.
    pub refused: Option<String>,
    /// What it left running, where the inner stage knows it.
    pub left: LeftRunning,
    /// Notes for the reader of the result.
    pub notes: Vec<String>,
}

impl SandboxedRun {
    /// Remembers what there is before the command.
    pub(super) fn new(
        plan: &InnerPlan,
        outputs: PathBuf,
        scratch: Option<PathBuf>,
        trees: Vec<(PathBuf, TreeScan)>,
        missing: Vec<PathBuf>,
    ) -> io::Result<Self> {
        let (control, may_change) = (memory_file(&serde_json::to_vec(plan)?)?, plan.alone);
        if let Some(scratch) = &scratch {
            DirBuilder::new().mode(0o700).create(scratch)?;
        }
        let read_only = || trees.iter().flat_map(|(_, scan)| scan.read_only());
        let repositories = trees.iter().flat_map(|(_, scan)| &scan.repositories);
        let identities =
            read_only().chain(repositories).filter_map(|path| identity(path)).collect();
        let changeable = read_only().filter(|_| may_change);
        let states = changeable.map(|path| (path.clone(), path_state(path))).collect();
        Ok(Self { control, scratch, outputs, trees, identities, may_change, states, missing })
    }

    /// The descriptor that the inner stage reads its plan from.
    pub(super) fn control(&self) -> io::Result<File> {
        self.control.try_clone()
    }

    /// Reports how the command started, and moves the protected names that it created out of the tree.
    pub fn finish(self) -> SandboxOutcome {
        let InnerReport { refused, left } = self.report();
        SandboxOutcome { refused, left, notes: self.clean_up() }
    }

    /// The processes that the command left running, if the inner stage knows them.
    pub fn left_running(&self) -> LeftRunning {
        self.report().left
    }

    fn report(&self) -> InnerReport {
        let mut report = vec![0; 1 << 16];
        let length = self.control.read_at(&mut report, 0).unwrap_or(0);
        let report = report.get(..length).unwrap_or_default();
        // What is still the plan is not a report.
        serde_json::from_slice(report).unwrap_or_else(|_| InnerReport {
            refused: Some(NO_REASON.to_owned()),
            ..InnerReport::default()
        })
    }

    fn clean_up(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut unsearched: Vec<String> = Vec::new();
        let show = |path: &PathBuf| path.display().to_string();
        let mut created: Vec<PathBuf> = Vec::new();
        for (folder, before) in &self.trees {
            let after = scan_tree(folder, &|_| false);
            let is_new = |path: &PathBuf| {
                !self.states.contains_key(path)
                    && identity(path).is_some_and(|identity| !self.identities.contains(&identity))
            };
            // What can be created in a repository that was there is among `missing`.
            let repositories = after.repositories.into_iter().filter(|path| !runs_nothing(path));
            created.extend(after.protected.into_iter().chain(repositories).filter(is_new));
            let links = before.links.keys().chain(after.links.keys());
            let is_other =
                |path: &&PathBuf| fs::read_link(path).ok().as_ref() != before.links.get(*path);
            created.extend(links.filter(is_other).cloned());
            if before.is_cut || after.is_cut {
                unsearched.push(show(folder));
            }
            let is_reported =
                |folder: &&PathBuf| self.may_change || !before.unreadable.contains(folder);
            unsearched.extend(after.unreadable.iter().filter(is_reported).map(show));
        }
        let mut moved = self.move_out(created, &mut notes);
        // Before what was missing, which may be the target of such a link.
        let restored = self.restore_links();
        moved.extend(self.move_out(self.missing.clone(), &mut notes));
        let has_changed = |(path, before): &(&PathBuf, &PathState)| path_state(path) != **before;
        let changed = self.states.iter().filter(has_changed).map(|(path, _)| show(path)).collect();
        for (what, names) in [
            (
                "the command created files that tools run automatically; they were moved. To restore",
                moved,
            ),
            ("links that the command removed or replaced are back", restored),
            (
                "the command changed files that tools run automatically; check them before you work there",
                changed,
            ),
            (
                "not searched to the end for what tools run by themselves (too large, too slow or unreadable), so it may hold more",
                unsearched,
            ),
        ] {
            if !names.is_empty() {
                notes.push(format!("{what}: {}", name_some(&names, MAX_NAMED, "; ")));
            }
        }
        notes
    }

    /// Moves paths out of the trees. Returns the command that moves each one back.
    fn move_out(&self, mut created: Vec<PathBuf>, notes: &mut Vec<String>) -> Vec<String> {
        created.sort();
        created.dedup();
        let folder = self.outputs.join(format!("created-{}", Uuid::new_v4().simple()));
        let mut moved = Vec::new();
        // What is gone was in a folder that has been moved.
        let is_there = |path: &&PathBuf| fs::symlink_metadata(path).is_ok() && is_in_place(path);
        for path in created.iter().filter(is_there) {
            let target = folder.join(path.strip_prefix("/").unwrap_or(path));
            match move_path(path, &target) {
                Ok(()) => moved.push(format!("mv {} {}", shell_word(&target), shell_word(path))),
                Err(why) => notes.push(format!(
                    "the command created {}, which tools run by themselves, and it cannot be moved to {} ({why}); look at it before you work there",
                    path.display(),
                    target.display()
                )),
            }
        }
        moved
    }

    /// Puts links with protected names back that the command removed or replaced: no mount protects a link.
    fn restore_links(&self) -> Vec<String> {
        let links = self.trees.iter().flat_map(|(_, scan)| &scan.links);
        let is_back = |(path, target): &(&PathBuf, &PathBuf)| {
            let is_gone = fs::symlink_metadata(path).is_err() && is_in_place(path);
            is_gone && symlink(target, path).is_ok()
        };
        links.filter(is_back).map(|(path, _)| path.display().to_string()).collect()
    }
}

impl Drop for SandboxedRun {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            remove_folder(scratch);
        }
    }
}

/// Gives stdin through a pipe where it is a file: a descriptor for reading is enough to change a file's mode and times.
///
/// # Errors
/// The pipe cannot be made.
pub fn pipe_stdin() -> io::Result<()> {
    let mut file = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    let (reader, mut writer) = io::pipe()?;
    rustix::stdio::dup2_stdin(reader)?;
    // It ends with the command, which need not read to the end.
    std::thread::spawn(move || io::copy(&mut file, &mut writer));
    Ok(())
}

pub(super) fn memory_file(content: &[u8]) -> io::Result<File> {
    let file = File::from(memfd_create("nagent-sandbox", MemfdFlags::CLOEXEC)?);
    file.write_all_at(content, 0)?;
    Ok(file)
}

/// Moves a file or folder, to another file system too.
fn move_path(from: &Path, to: &Path) -> anyhow::Result<()> {
    let parent = to.parent().unwrap_or(to);
    crate::sys::fs::make_folders(parent, 0o700, &mut Vec::new())?;
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return Ok(done?),
    }
    let argv = vec!["mv".into(), "--".into(), from.into(), to.into()];
    let path = vec![("PATH".into(), "/usr/bin:/bin".into())];
    let job = Job { timeout: Some(MOVE_TIME), ..Job::new(argv, "/".into(), path) };
    let finished = process::run(job, &Interrupts::without_handlers()?)?;
    let is_done = finished.outcome == JobOutcome::Ended { code: 0 };
    anyhow::ensure!(is_done, "{}", String::from_utf8_lossy(&finished.stdout).trim());
    Ok(())
}

/// Returns whether no folder above a path is a link: a command may have made one that leads out of the tree.
fn is_in_place(path: &Path) -> bool {
    path.parent().is_some_and(|folder| fs::canonicalize(folder).is_ok_and(|real| real == folder))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()))
}

/// Reads the state of a protected path and of what is in it.
fn path_state(path: &Path) -> PathState {
    let mut ahead = vec![path.to_owned()];
    let mut state = PathState::new();
    while let Some(path) = ahead.pop()
        && state.len() < 1000
    {
        let Ok(there) = fs::symlink_metadata(&path) else { continue };
        state.push((there.ino(), there.ctime(), there.ctime_nsec()));
        if there.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            entries.sort();
            ahead.extend(entries);
        }
    }
    state
}

/// Removes a folder whatever modes a command gave to folders in it.
fn remove_folder(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        folders.extend(entries.filter(is_folder).map(|entry| entry.path()));
    }
    let _ = fs::remove_dir_all(folder);
}
