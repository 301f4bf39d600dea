//! Where protected names stand in a writable folder: a walk with a bound. It reads names, and the few lines with which git
//! says where a repository's own folder is; it changes nothing.

use std::collections::VecDeque;
use std::fs::{self, DirEntry, FileType};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sandbox::protected::{HEAVY, is_protected};
pub(super) use crate::sys::git::folders as git_folders;

/// The entries that are looked at.
const ENTRIES: usize = 20_000;
/// The time that a walk takes.
const TIME: Duration = Duration::from_millis(200);
/// The names that are kept; each is a mount.
const KEPT: usize = 150;

/// What a walk found. True paths, in the order found: those nearer to the top first.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    /// Files and folders with protected names, and what git files and links lead to.
    pub(super) kept: Vec<PathBuf>,
    /// Links with protected names, and where they lead to. Nothing can be mounted on a link.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Whether the bound was reached: below, there may be more.
    pub(super) is_cut: bool,
}

/// Walks through a folder. `is_writable` tells whether what a link or a git file leads to has to be kept.
pub(super) fn survey(top: &Path, is_writable: &dyn Fn(&Path) -> bool) -> Survey {
    let started = Instant::now();
    let mut found = Survey::default();
    let mut near = VecDeque::from([top.to_owned()]);
    let mut heavy = VecDeque::new();
    let mut seen = 0;
    while let Some(folder) = near.pop_front().or_else(|| heavy.pop_front()) {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let entries: Vec<(DirEntry, FileType)> = entries
            .flatten()
            .filter_map(|entry| {
                let kind = entry.file_type().ok()?;
                Some((entry, kind))
            })
            .take(ENTRIES)
            .collect();
        seen += entries.len();
        if folder != top && looks_bare(&entries) {
            found.keep(folder);
            continue;
        }
        for (entry, kind) in entries {
            let name = entry.file_name();
            if is_protected(&name) {
                found.note(entry.path(), kind, is_writable);
            } else if kind.is_dir() {
                let is_heavy = HEAVY.iter().any(|heavy| name == *heavy);
                if is_heavy { &mut heavy } else { &mut near }.push_back(entry.path());
            }
        }
        if seen >= ENTRIES || started.elapsed() >= TIME || found.kept.len() >= KEPT {
            found.is_cut = !near.is_empty() || !heavy.is_empty();
            break;
        }
    }
    found
}

impl Survey {
    fn keep(&mut self, path: PathBuf) {
        if !self.kept.contains(&path) {
            self.kept.push(path);
        }
    }

    fn note(&mut self, path: PathBuf, kind: FileType, is_writable: &dyn Fn(&Path) -> bool) {
        if kind.is_symlink() {
            if let Ok(target) = fs::canonicalize(&path)
                && is_writable(&target)
            {
                self.keep(target);
            }
            let target = fs::read_link(&path).unwrap_or_default();
            self.links.push((path, target));
            return;
        }
        if kind.is_file() && path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
        {
            for folder in git_folders(&path) {
                if is_writable(&folder) {
                    self.keep(folder);
                }
            }
        }
        self.keep(path);
    }
}

/// What git takes for a repository's own folder, whatever its name.
fn looks_bare(entries: &[(DirEntry, FileType)]) -> bool {
    let has = |name: &str| entries.iter().any(|(entry, _)| entry.file_name() == name);
    has("HEAD") && has("objects") && has("refs")
}

/// Whether a folder is a repository's own.
pub(super) fn is_git_folder(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join("HEAD")).is_ok()
        && (folder.join("objects").is_dir() || folder.join("commondir").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_are_found_wherever_they_stand() {
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
        let found = survey(&top, &|_| true);
        let mut kept: Vec<&Path> =
            found.kept.iter().map(|path| path.strip_prefix(&top).unwrap()).collect();
        kept.sort();
        let expect = [
            ".bashrc",
            ".git",
            "rc",
            "sub/.vscode",
            "sub/bare",
            "sub/deep/.git",
            "sub/deep/.npmrc",
        ];
        assert_eq!(kept, expect.map(Path::new));
        assert_eq!(found.links, [(top.join("sub/.zshrc"), PathBuf::from("../rc"))]);
        assert!(!found.is_cut);
    }
}
