//! Where protected names stand in a writable folder: a walk with a bound. It reads names, and the few lines with which git
//! says where a repository's own folder is; it changes nothing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, FileType};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sandbox::protected::{HEAVY, is_protected, names};
pub(super) use crate::sys::git::folders as git_folders;
use crate::sys::read::open_regular;

/// The entries that are looked at.
pub(super) const ENTRIES: usize = 100_000;
/// The time that a walk takes.
pub(super) const TIME: Duration = Duration::from_millis(200);
/// The names that are kept; each is a mount.
pub(super) const KEPT: usize = 150;
/// The links that are followed on the way to a file, as in the kernel.
const LINKS: usize = 40;

/// What a walk found. True paths, in the order found: those nearer to the top first.
#[derive(Debug, Clone, Default)]
pub(super) struct Survey {
    /// Files and folders with protected names, and what git files and links lead to.
    pub(super) kept: Vec<PathBuf>,
    /// Links with protected names. Nothing can be mounted on a link.
    pub(super) links: Vec<Link>,
    /// Whether the bound was reached: below, there may be more.
    pub(super) is_cut: bool,
}

/// A link with a protected name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) path: PathBuf,
    /// As it is written in the link.
    pub(super) target: PathBuf,
    /// Where the way to its target ends; `None`: the target is there.
    pub(super) missing: Option<PathBuf>,
}

/// Walks through a folder. `is_writable` tells whether what a link or a git file leads to has to be kept.
pub(super) fn survey(top: &Path, is_writable: &dyn Fn(&Path) -> bool) -> Survey {
    walk(top, is_writable, ENTRIES)
}

fn walk(top: &Path, is_writable: &dyn Fn(&Path) -> bool, most: usize) -> Survey {
    let started = Instant::now();
    let mut found = Survey::default();
    // However much else lies beside them.
    for (name, _) in names() {
        let path = top.join(name);
        if let Ok(there) = fs::symlink_metadata(&path) {
            found.note(path, there.file_type(), is_writable);
        }
    }
    let mut near = VecDeque::from([top.to_owned()]);
    let mut heavy = VecDeque::new();
    let mut seen = 0;
    let mut is_over = |found: &mut Survey| {
        seen += 1;
        found.is_cut |= seen > most || seen % 128 == 0 && started.elapsed() >= TIME;
        found.is_cut
    };
    while let Some(folder) = near.pop_front().or_else(|| heavy.pop_front()) {
        let Ok(listing) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<(DirEntry, FileType)> = Vec::new();
        for entry in listing.flatten() {
            if is_over(&mut found) {
                break;
            }
            if let Ok(kind) = entry.file_type() {
                entries.push((entry, kind));
            }
        }
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
        found.is_cut |= found.kept.len() >= KEPT && !(near.is_empty() && heavy.is_empty());
        if found.is_cut {
            break;
        }
    }
    found
}

impl Survey {
    pub(super) fn keep(&mut self, path: PathBuf) {
        if !self.kept.contains(&path) {
            self.kept.push(path);
        }
    }

    fn note(&mut self, path: PathBuf, kind: FileType, is_writable: &dyn Fn(&Path) -> bool) {
        if kind.is_symlink() {
            if self.links.iter().any(|link| link.path == path) {
                return;
            }
            if let Ok(target) = fs::canonicalize(&path)
                && is_writable(&target)
            {
                self.keep(target);
            }
            let target = fs::read_link(&path).unwrap_or_default();
            let missing = first_missing(&path);
            self.links.push(Link { path, target, missing });
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

/// Where the way to an absolute path ends, links followed: the first name on it at which there is nothing. `None`: all of
/// it is there, or it cannot be gone.
pub(super) fn first_missing(path: &Path) -> Option<PathBuf> {
    let steps = |path: &Path| -> Vec<OsString> {
        let steps = path
            .components()
            .filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir));
        steps.map(|step| step.as_os_str().to_owned()).rev().collect()
    };
    let (mut at, mut ahead, mut links) = (PathBuf::from("/"), steps(path), 0);
    while let Some(step) = ahead.pop() {
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(step);
        match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(next),
            Err(_) => return None,
            Ok(there) if there.is_symlink() => {
                links += 1;
                let target = fs::read_link(&next).ok().filter(|_| links <= LINKS)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                ahead.extend(steps(&target));
            }
            Ok(_) => at = next,
        }
    }
    None
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

/// The true path that a file's first line names behind `mark`, from `base`.
pub(super) fn path_in(file: &Path, mark: &str, base: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    // Anybody may have put anything there: it is not waited for.
    open_regular(file).ok()?.0.take(8192).read_to_end(&mut text).ok()?;
    let line = text.split(|byte| *byte == b'\n').next()?.strip_prefix(mark.as_bytes())?;
    let name = OsStr::from_bytes(line.trim_ascii());
    fs::canonicalize(base.join(name)).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sandbox::materials::{self, Materials};
    use crate::sandbox::{Mode, Wanted};

    #[test]
    fn the_way_to_a_file_ends_at_the_first_name_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        for (target, link) in [
            ("a/b", "there"),
            ("a/new/deep", "dangling"),
            ("dangling", "twice"),
            ("a/../a/b/../none", "winding"),
            ("round", "round"),
        ] {
            symlink(target, top.join(link)).unwrap();
        }
        symlink(top.join("gone"), top.join("absolute")).unwrap();
        let check = |path: &str, expect: Option<&str>| {
            assert_eq!(
                first_missing(&top.join(path)),
                expect.map(|expect| top.join(expect)),
                "{path}"
            );
        };
        check("a/b", None);
        check("a/c/d", Some("a/c"));
        check("there", None);
        check("there/x", Some("a/b/x"));
        check("dangling", Some("a/new"));
        check("twice", Some("a/new"));
        check("winding", Some("a/none"));
        check("absolute", Some("gone"));
        check("round", None);
    }

    #[test]
    fn names_of_the_top_folder_are_found_among_any_number_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir(top.join(".git")).unwrap();
        for number in 0..100 {
            fs::write(top.join(number.to_string()), "").unwrap();
        }
        let found = walk(&top, &|_| true, 20);
        assert_eq!(found.kept, [top.join(".git")]);
        assert!(found.is_cut);
        // What is said of the bounds is what they are.
        let wanted = Wanted { mode: Mode::Workspace, ..Wanted::default() };
        let materials = Materials { no_bwrap: None, landlock: 7 };
        let gaps = materials::gaps(&wanted, &materials, false).join("\n");
        assert!(gaps.contains("100,000 entries") && gaps.contains("0.2 s"), "{gaps}");
        assert_eq!((ENTRIES, TIME), (100_000, Duration::from_millis(200)));
    }

    #[test]
    fn what_a_git_file_names_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("sub")).unwrap();
        fs::create_dir_all(top.join("x")).unwrap();
        fs::write(top.join("sub/.git"), "gitdir: ../x\n").unwrap();
        let (path, mode) = (top.join("x/commondir"), rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let found = survey(&top, &|_| true);
        assert_eq!(found.kept, [top.join("x"), top.join("sub/.git")]);
    }

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
        let link =
            Link { path: top.join("sub/.zshrc"), target: PathBuf::from("../rc"), missing: None };
        assert_eq!(found.links, [link]);
        assert!(!found.is_cut);
    }
}
