//! Searches a writable folder for protected names. The walk has limits, because a command may wait for it and its result.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, FileType};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::limits;
use crate::sandbox::protected::{Group, is_protected, names_in};
use crate::sys::git;
use crate::sys::names::resolve_links;
use crate::sys::walk::walk_below;

/// Maximum time that a walk takes.
pub(super) const MAX_TIME: Duration = Duration::from_millis(200);
/// Maximum number of protected paths; each becomes a mount.
pub(super) const MAX_PROTECTED: usize = 300;

/// What in a repository's own folder runs programs, or names programs that run. The rest is what commits are made of.
pub(super) const PROTECTED_IN_GIT: [&str; 8] = [
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "modules",
    "worktrees",
    "commondir",
    "gitdir",
];

/// What a walk found. Paths have no links in them; those nearer to the top come first.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeScan {
    /// Files and folders with protected names, and what git files and links with such names lead to.
    pub(super) protected: Vec<PathBuf>,
    /// Repositories' own folders, whatever their names.
    pub(super) repositories: Vec<PathBuf>,
    /// What is protected in these.
    pub(super) in_git: Vec<PathBuf>,
    /// Links that would be protected if anything could be mounted on a link, with their texts.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// What they lead to where that does not exist, and what does not exist in a repository's own folder.
    pub(super) missing: Vec<PathBuf>,
    /// Folders that could not be read: there may be protected names in them.
    pub(super) unreadable: Vec<PathBuf>,
    /// Whether the walk ended at a limit: there may be more.
    pub(super) is_cut: bool,
}

/// Walks through a folder. `is_writable` decides whether what a link or a git file leads to is protected too.
pub(super) fn scan_tree(top: &Path, is_writable: &dyn Fn(&Path) -> bool) -> TreeScan {
    walk_tree(top, is_writable, limits::SCANNED_ENTRIES)
}

fn walk_tree(top: &Path, is_writable: &dyn Fn(&Path) -> bool, max_entries: usize) -> TreeScan {
    let started = Instant::now();
    let mut found = TreeScan::default();
    // First, so that no number of other entries hides them.
    for path in names_in(Group::Protected).map(|name| top.join(name)) {
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            found.add_entry(path, metadata.file_type(), is_writable);
        }
    }
    let heavy_names: Vec<&str> = names_in(Group::Heavy).collect();
    let (mut near, mut heavy) = (VecDeque::from([top.to_owned()]), VecDeque::new());
    let mut count = 0;
    while let Some(folder) = near.pop_front().or_else(|| heavy.pop_front()) {
        let Ok(entries) = fs::read_dir(&folder) else {
            found.unreadable.push(folder);
            continue;
        };
        if is_git_folder(&folder) {
            found.add_repository(folder.clone(), is_writable);
            // The top may be a repository and a working tree in one.
            if folder != top {
                continue;
            }
        }
        for entry in entries.flatten() {
            count += 1;
            found.is_cut |= count > max_entries
                || count % 128 == 0 && started.elapsed() >= MAX_TIME
                || found.protected.len() + found.in_git.len() >= MAX_PROTECTED;
            if found.is_cut {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if is_protected(&path) {
                found.add_entry(path, kind, is_writable);
            } else if kind.is_dir() {
                let is_heavy = heavy_names.iter().any(|heavy| entry.file_name() == *heavy);
                if is_heavy { &mut heavy } else { &mut near }.push_back(path);
            }
        }
    }
    found
}

/// Returns a file with another name, a hard link, that is not in a folder that tools made. The search ends at its limit of time.
pub(super) fn find_hard_link(top: &Path) -> Option<PathBuf> {
    let started = Instant::now();
    let heavy: Vec<&str> = names_in(Group::Heavy).chain([".git"]).collect();
    let is_linked = |there: &fs::Metadata| there.is_file() && there.nlink() > 1;
    walk_below(top, &|name| !heavy.iter().any(|heavy| name == *heavy))
        .take_while(|_| started.elapsed() < MAX_TIME)
        .find(|entry| entry.metadata().is_ok_and(|there| is_linked(&there)))
        .map(|entry| entry.path())
}

impl TreeScan {
    /// Everything that is there and must not be changed.
    pub(super) fn read_only(&self) -> impl Iterator<Item = &PathBuf> {
        self.protected.iter().chain(&self.in_git)
    }

    /// Adds something that is not a link: a repository's own folder by its parts, anything else whole.
    fn add_protected(&mut self, path: PathBuf, is_writable: &dyn Fn(&Path) -> bool) {
        if is_git_folder(&path) {
            self.add_repository(path, is_writable);
        } else if !self.protected.contains(&path) {
            self.protected.push(path);
        }
    }

    fn add_repository(&mut self, folder: PathBuf, is_writable: &dyn Fn(&Path) -> bool) {
        if self.repositories.contains(&folder) {
            return;
        }
        for path in PROTECTED_IN_GIT.iter().map(|name| folder.join(name)) {
            match fs::symlink_metadata(&path) {
                Ok(there) if there.is_symlink() => {
                    self.add_entry(path, there.file_type(), is_writable);
                }
                Ok(_) => self.in_git.push(path),
                Err(_) => self.missing.push(path),
            }
        }
        self.repositories.push(folder);
    }

    fn add_entry(&mut self, path: PathBuf, kind: FileType, is_writable: &dyn Fn(&Path) -> bool) {
        if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            match fs::canonicalize(&path) {
                Ok(target) if is_writable(&target) => self.add_protected(target, is_writable),
                Ok(_) => {}
                Err(_) => self.missing.push(resolve_links(&path.with_file_name(&target))),
            }
            self.links.insert(path, target);
            return;
        }
        if kind.is_file() && path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
        {
            for folder in git::git_folders(&path).into_iter().filter(|folder| is_writable(folder)) {
                self.add_protected(folder, is_writable);
            }
        }
        self.add_protected(path, is_writable);
    }
}

/// Returns whether git takes a folder for a repository's own, whatever its name.
fn is_git_folder(folder: &Path) -> bool {
    let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::mechanism::Mechanism;
    use crate::sandbox::{SandboxMode, SandboxRequest};

    #[test]
    fn names_of_the_top_folder_are_found_among_any_number_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir(top.join(".git")).unwrap();
        for number in 0..100 {
            fs::write(top.join(number.to_string()), "").unwrap();
        }
        let found = walk_tree(&top, &|_| true, 20);
        assert_eq!(found.protected, [top.join(".git")]);
        assert!(found.is_cut);
        // The text of the gap has the real limits.
        let request = SandboxRequest { mode: SandboxMode::Workspace, ..SandboxRequest::default() };
        let gaps = Mechanism::default().describe_gaps(&request).join("\n");
        assert!(gaps.contains("100,000 entries") && gaps.contains("0.2 s"), "{gaps}");
        assert_eq!((limits::SCANNED_ENTRIES, MAX_TIME), (100_000, Duration::from_millis(200)));
    }

    #[test]
    fn a_fifo_that_a_git_file_names_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::create_dir_all(top.join("x")).unwrap();
        fs::write(top.join("sub/.git"), "gitdir: ../x\n").unwrap();
        let (path, mode) = (top.join("x/commondir"), rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let found = scan_tree(&top, &|_| true);
        assert_eq!(found.protected, [top.join("x"), top.join("sub/.git")]);
    }

    #[test]
    fn protected_names_are_found_in_every_folder() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in [
            ".git",
            "sub/.vscode",
            "sub/bare/objects",
            "sub/bare/refs",
            "sub/bare/hooks",
            ".config/mise",
        ] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in
            [".bashrc", "sub/.npmrc", "sub/README.md", "sub/bare/HEAD", "sub/bare/config", "rc"]
        {
            fs::write(top.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../rc", top.join("sub/.zshrc")).unwrap();
        let found = scan_tree(&top, &|_| true);
        let plain = |paths: &[PathBuf]| {
            let paths =
                paths.iter().map(|path| path.strip_prefix(&top).unwrap().display().to_string());
            let mut paths: Vec<String> = paths.collect();
            paths.sort();
            paths
        };
        let expect = [".bashrc", ".config/mise", ".git", "rc", "sub/.npmrc", "sub/.vscode"];
        assert_eq!(plain(&found.protected), expect);
        assert_eq!(plain(&found.in_git), ["sub/bare/config", "sub/bare/hooks"]);
        assert!(found.missing.contains(&top.join("sub/bare/commondir")));
        assert_eq!(found.links, [(top.join("sub/.zshrc"), PathBuf::from("../rc"))].into());
        assert!(!found.is_cut);
    }
}
