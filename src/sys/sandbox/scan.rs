//! Searches a writable folder for protected names. The walk has limits, because a command may wait for it and its result.

use std::collections::VecDeque;
use std::fs::{self, DirEntry, FileType};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::limits;
use crate::sandbox::policy::{FolderKind, SandboxPolicy, WritableFolder};
use crate::sandbox::protected::{HEAVY, PROTECTED, is_protected, names_in};
use crate::sys::git;
use crate::sys::names::resolve_links;

/// Maximum time that a walk takes.
pub(super) const MAX_TIME: Duration = Duration::from_millis(200);
/// Maximum number of protected paths; each becomes a mount.
pub(super) const MAX_PROTECTED: usize = 150;

/// What in a repository's own folder runs programs, or names programs that run.
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
    /// Links with protected names. Nothing can be mounted on a link.
    pub(super) links: Vec<ProtectedLink>,
    /// What they lead to where that does not exist, and what does not exist in a repository's own folder.
    pub(super) missing: Vec<PathBuf>,
    /// Folders that could not be read: there may be protected names in them.
    pub(super) unreadable: Vec<PathBuf>,
    /// Whether the walk ended at a limit: there may be more.
    pub(super) is_cut: bool,
}

/// A link with a protected name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProtectedLink {
    pub(super) path: PathBuf,
    /// The text of the link.
    pub(super) target: PathBuf,
}

/// Searches a writable folder of a policy.
pub(super) fn scan_folder(folder: &WritableFolder, policy: &SandboxPolicy) -> TreeScan {
    let mut scan = match folder.kind {
        FolderKind::Temp | FolderKind::Git => TreeScan::default(),
        FolderKind::Tree | FolderKind::Named => {
            scan_tree(&folder.path, &|path| policy.is_writable(path))
        }
    };
    // The top of a tree may be a bare repository.
    if folder.kind != FolderKind::Temp && is_git_folder(&folder.path) {
        for path in PROTECTED_IN_GIT.iter().map(|name| folder.path.join(name)) {
            match fs::symlink_metadata(&path) {
                Ok(there) if !there.is_symlink() => scan.protected.push(path),
                Ok(_) => {}
                Err(_) => scan.missing.push(path),
            }
        }
    }
    scan
}

/// Walks through a folder. `is_writable` decides whether what a link or a git file leads to is protected too.
pub(super) fn scan_tree(top: &Path, is_writable: &dyn Fn(&Path) -> bool) -> TreeScan {
    walk(top, is_writable, limits::SCANNED_ENTRIES)
}

fn walk(top: &Path, is_writable: &dyn Fn(&Path) -> bool, max_entries: usize) -> TreeScan {
    let started = Instant::now();
    let mut found = TreeScan::default();
    // First, so that no number of other entries hides them.
    for name in names_in(PROTECTED) {
        let path = top.join(name);
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            found.add_entry(path, metadata.file_type(), is_writable);
        }
    }
    let mut near = VecDeque::from([top.to_owned()]);
    let mut heavy = VecDeque::new();
    let mut count = 0;
    let mut is_over = |found: &mut TreeScan| {
        count += 1;
        found.is_cut |= count > max_entries || count % 128 == 0 && started.elapsed() >= MAX_TIME;
        found.is_cut
    };
    while let Some(folder) = near.pop_front().or_else(|| heavy.pop_front()) {
        let Ok(listing) = fs::read_dir(&folder) else {
            found.unreadable.push(folder);
            continue;
        };
        let mut entries: Vec<(DirEntry, FileType)> = Vec::new();
        for entry in listing.flatten() {
            if is_over(&mut found) {
                break;
            }
            if let Ok(kind) = entry.file_type() {
                entries.push((entry, kind));
            }
        }
        if folder != top && is_bare_repository(&entries) {
            found.add_protected(folder);
            continue;
        }
        for (entry, kind) in entries {
            let name = entry.file_name();
            if is_protected(&name) {
                found.add_entry(entry.path(), kind, is_writable);
            } else if kind.is_dir() {
                let is_heavy = HEAVY.iter().any(|heavy| name == *heavy);
                if is_heavy { &mut heavy } else { &mut near }.push_back(entry.path());
            }
        }
        let is_done = near.is_empty() && heavy.is_empty();
        found.is_cut |= found.protected.len() >= MAX_PROTECTED && !is_done;
        if found.is_cut {
            break;
        }
    }
    found
}

impl TreeScan {
    pub(super) fn add_protected(&mut self, path: PathBuf) {
        if !self.protected.contains(&path) {
            self.protected.push(path);
        }
    }

    fn add_entry(&mut self, path: PathBuf, kind: FileType, is_writable: &dyn Fn(&Path) -> bool) {
        if kind.is_symlink() {
            if self.links.iter().any(|link| link.path == path) {
                return;
            }
            let target = fs::read_link(&path).unwrap_or_default();
            match fs::canonicalize(&path) {
                Ok(target) if is_writable(&target) => self.add_protected(target),
                Ok(_) => {}
                Err(_) => self.missing.push(resolve_links(&path.with_file_name(&target))),
            }
            self.links.push(ProtectedLink { path, target });
            return;
        }
        if kind.is_file() && path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
        {
            for folder in git::git_folders(&path).into_iter().filter(|folder| is_writable(folder)) {
                self.add_protected(folder);
            }
        }
        self.add_protected(path);
    }
}

/// Returns whether git takes a folder for a bare repository, whatever its name.
fn is_bare_repository(entries: &[(DirEntry, FileType)]) -> bool {
    let has = |name: &str| entries.iter().any(|(entry, _)| entry.file_name() == name);
    has("HEAD") && has("objects") && has("refs")
}

/// Returns whether a folder is a repository's own.
pub(super) fn is_git_folder(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join("HEAD")).is_ok()
        && (folder.join("objects").is_dir() || folder.join("commondir").is_file())
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
        let found = walk(&top, &|_| true, 20);
        assert_eq!(found.protected, [top.join(".git")]);
        assert!(found.is_cut);
        // The text of the gap has the real limits.
        let request = SandboxRequest { mode: SandboxMode::Workspace, ..SandboxRequest::default() };
        let mechanism = Mechanism { no_bwrap: None, landlock: 7 };
        let gaps = mechanism.gaps(&request, false).join("\n");
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
        for folder in [".git", "sub/.vscode", "sub/deep/.git", "sub/bare/objects", "sub/bare/refs"]
        {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for file in [".bashrc", "sub/deep/.npmrc", "sub/README.md", "sub/bare/HEAD", "rc"] {
            fs::write(top.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../rc", top.join("sub/.zshrc")).unwrap();
        let found = scan_tree(&top, &|_| true);
        let mut protected: Vec<&Path> =
            found.protected.iter().map(|path| path.strip_prefix(&top).unwrap()).collect();
        protected.sort();
        let expect = [
            ".bashrc",
            ".git",
            "rc",
            "sub/.vscode",
            "sub/bare",
            "sub/deep/.git",
            "sub/deep/.npmrc",
        ];
        assert_eq!(protected, expect.map(Path::new));
        let link = ProtectedLink { path: top.join("sub/.zshrc"), target: PathBuf::from("../rc") };
        assert_eq!(found.links, [link]);
        assert!(!found.is_cut);
    }
}
