//! What a repository's own folder must be before libgit2 opens it, which waits at a FIFO and takes a file of any size into
//! memory.
//!
//! Looked at are the files that libgit2 opens by their names, what the configuration includes, and, where objects and refs
//! are read, the folders of those and of alternates. Nothing is opened but small regular files, and nothing is changed. What
//! is refused is a sentence that names the file.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::fs::nonblock;
use super::super::names::shown;

/// The largest file of a line or a few, in bytes: `HEAD`, `commondir`, a list of alternates.
const FEW_LINES: u64 = 64 << 10;

/// The largest configuration that is read, in bytes; of an included file too.
const CONFIG: u64 = 1 << 20;

/// The largest list of packed refs that is read, in bytes.
const PACKED_REFS: u64 = 64 << 20;

/// The largest list of a shallow clone's last commits that is read, in bytes.
pub(super) const SHALLOW: u64 = 16 << 20;

/// Refs, and files of objects, that are looked at.
const ENTRIES: usize = 1_000_000;

/// How deep files include others, alternates have alternates, and folders nest; libgit2 goes no deeper.
const DEPTH: usize = 10;

/// Files in a repository's own folder that are opened by name, and how large they may be.
const FILES: [(&str, u64); 9] = [
    ("HEAD", FEW_LINES),
    ("commondir", FEW_LINES),
    ("gitdir", FEW_LINES),
    ("config", CONFIG),
    ("config.worktree", CONFIG),
    ("packed-refs", PACKED_REFS),
    ("shallow", SHALLOW),
    ("info/grafts", SHALLOW),
    ("objects/info/alternates", FEW_LINES),
];

/// What of a repository is about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Its configuration.
    Settings,
    /// Refs and objects too.
    Objects,
}

/// Lets the repository through whose working tree's top this is, or, where that holds no `.git`, which this is itself.
///
/// # Errors
/// Something in it is not to be read, and why.
pub(super) fn gate(top: &Path, wanted: Wanted) -> Result<(), String> {
    let mut gate = Gate { left: ENTRIES, seen: HashSet::new() };
    gate.repository(top, wanted)
        .map_err(|why| format!("the git repository at {} is not read: {why}", shown(top)))
}

/// The repository's own folders that a `.git` stands for, by their true paths: the one that it is or names, and the one
/// that this shares with other working trees.
pub fn folders(git: &Path) -> Vec<PathBuf> {
    let Ok(git) = fs::canonicalize(git) else { return Vec::new() };
    let folder = if git.is_dir() {
        Some(git)
    } else {
        named_in(&git, "gitdir:", git.parent().unwrap_or(&git))
    };
    let Some(folder) = folder else { return Vec::new() };
    let common = named_in(&folder.join("commondir"), "", &folder);
    [Some(folder), common].into_iter().flatten().collect()
}

/// The folder that a file of one line names, from `base`.
fn named_in(file: &Path, mark: &str, base: &Path) -> Option<PathBuf> {
    let text = beginning(file, 8192)?;
    let line = text.split(|byte| *byte == b'\n').next()?.strip_prefix(mark.as_bytes())?;
    let name = std::ffi::OsStr::from_bytes(line.trim_ascii());
    fs::canonicalize(base.join(name)).ok().filter(|folder| folder.is_dir())
}

/// The first bytes of a regular file. Never waits.
fn beginning(path: &Path, bytes: u64) -> Option<Vec<u8>> {
    let file: File = OpenOptions::new().read(true).custom_flags(nonblock()).open(path).ok()?;
    file.metadata().ok().filter(Metadata::is_file)?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text).ok()?;
    Some(text)
}

struct Gate {
    /// Entries that may still be looked at.
    left: usize,
    /// Folders and configurations that were, by device and inode.
    seen: HashSet<(u64, u64)>,
}

impl Gate {
    fn repository(&mut self, top: &Path, wanted: Wanted) -> Result<(), String> {
        let git = top.join(".git");
        let is_bare = fs::symlink_metadata(&git).is_err();
        let git = if is_bare { top.to_owned() } else { git };
        match fs::metadata(&git) {
            Ok(there) if !there.is_dir() => _ = file(&git, FEW_LINES)?,
            _ => {}
        }
        for folder in folders(&git) {
            for (name, limit) in FILES {
                file(&folder.join(name), limit)?;
            }
            for name in ["config", "config.worktree"] {
                self.included(&folder.join(name), DEPTH)?;
            }
            if wanted == Wanted::Objects {
                self.below(&folder.join("refs"), DEPTH)?;
                let objects = folder.join("objects");
                self.below(&objects, DEPTH)?;
                self.alternates(&objects, DEPTH)?;
            }
        }
        Ok(())
    }

    /// What a configuration includes is no FIFO and not too large either.
    fn included(&mut self, config: &Path, depth: usize) -> Result<(), String> {
        let Some(there) = file(config, CONFIG)? else { return Ok(()) };
        if depth == 0 || !self.seen.insert((there.dev(), there.ino())) {
            return Ok(());
        }
        let text = beginning(config, CONFIG).unwrap_or_default();
        for path in paths(&text) {
            let below_home = path.strip_prefix(b"~/").zip(std::env::var_os("HOME"));
            let path = below_home.map_or_else(
                || config.parent().unwrap_or(config).join(std::ffi::OsStr::from_bytes(&path)),
                |(path, home)| Path::new(&home).join(std::ffi::OsStr::from_bytes(path)),
            );
            self.included(&path, depth - 1)?;
        }
        Ok(())
    }

    /// The folders of objects that such a folder names.
    fn alternates(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let list = folder.join("info/alternates");
        if depth == 0 || file(&list, FEW_LINES)?.is_none() {
            return Ok(());
        }
        let text = beginning(&list, FEW_LINES).unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            if !line.is_empty() && !line.starts_with(b"#") {
                self.alternate(&folder.join(std::ffi::OsStr::from_bytes(line)), depth - 1)?;
            }
        }
        Ok(())
    }

    /// Of a folder that a repository only names, what it would be read for: anybody's folder is not walked through.
    fn alternate(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let Ok(there) = fs::metadata(folder) else { return Ok(()) };
        if !there.is_dir() {
            return Err(format!("the alternate {} is no folder", shown(folder)));
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            self.count(folder)?;
            let name = entry.file_name();
            let is_of_objects =
                name.len() == 2 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
            if is_of_objects || name == "pack" {
                self.below(&entry.path(), 1)?;
            }
        }
        file(&folder.join("info/commit-graph"), u64::MAX)?;
        if self.seen.insert((there.dev(), there.ino())) {
            self.alternates(folder, depth)?;
        }
        Ok(())
    }

    fn count(&mut self, folder: &Path) -> Result<(), String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!("{} and others hold more than {ENTRIES} entries", shown(folder))
        })?;
        Ok(())
    }

    /// Whether all below a folder are files and folders.
    fn below(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for entry in entries.flatten() {
            self.count(folder)?;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() {
                continue;
            }
            let path = entry.path();
            // Of links, what they lead to. One that leads nowhere is none.
            let Ok(there) = fs::metadata(&path) else { continue };
            if there.is_dir() {
                let is_new = !kind.is_symlink() || self.seen.insert((there.dev(), there.ino()));
                if depth > 0 && is_new {
                    self.below(&path, depth - 1)?;
                }
            } else if !there.is_file() {
                return Err(irregular(&path));
            }
        }
        Ok(())
    }
}

fn irregular(path: &Path) -> String {
    format!("{} is no regular file", shown(path))
}

/// A file that is there is regular and not too large.
fn file(path: &Path, limit: u64) -> Result<Option<Metadata>, String> {
    match fs::metadata(path) {
        // libgit2 opens no folder as a file.
        Ok(there) if there.is_dir() => Ok(None),
        Ok(there) if !there.is_file() => Err(irregular(path)),
        Ok(there) if there.len() > limit => {
            Err(format!("{} has {} bytes, over the limit of {limit}", shown(path), there.len()))
        }
        Ok(there) => Ok(Some(there)),
        Err(_) => Ok(None),
    }
}

/// The values of all keys `path` in a configuration that includes anything. More than those that are included: what is no
/// such file is looked at in vain.
fn paths(config: &[u8]) -> Vec<Vec<u8>> {
    let text: Vec<u8> = config.iter().copied().filter(|byte| *byte != b'\r').collect();
    if !text.to_ascii_lowercase().windows(7).any(|word| word == b"include") {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut rest = text.into_iter().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' if rest.peek() == Some(&b'\n') => _ = rest.next(),
            b'\n' => lines.push(std::mem::take(&mut line)),
            byte => line.push(byte),
        }
    }
    lines.push(line);
    lines.iter().filter_map(|line| value_of_path(line)).collect()
}

/// The value in a line `path = value`, which a section's head may stand before.
fn value_of_path(line: &[u8]) -> Option<Vec<u8>> {
    let lower = line.to_ascii_lowercase();
    let mut from = 0;
    let raw = loop {
        let at = from + lower.get(from..)?.windows(4).position(|word| word == b"path")?;
        let is_start = at == 0 || matches!(lower[at - 1], b' ' | b'\t' | b']');
        let after = line[at + 4..].trim_ascii_start();
        match after.strip_prefix(b"=") {
            Some(value) if is_start => break value.trim_ascii(),
            _ => from = at + 4,
        }
    };
    let (mut value, mut is_quoted, mut bytes) = (Vec::new(), false, raw.iter().copied());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'#' | b';' if !is_quoted => break,
            b'\\' => value.extend(bytes.next().map(|byte| match byte {
                b'n' => b'\n',
                b't' => b'\t',
                b'b' => 8,
                byte => byte,
            })),
            byte => value.push(byte),
        }
    }
    let value = value.trim_ascii_end();
    (!value.is_empty()).then(|| value.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::Repository;
    use tempfile::TempDir;

    fn repository() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        Repository::init(&top).unwrap();
        (dir, top)
    }

    fn fifo(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(fs::remove_file(path));
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    }

    #[test]
    fn a_fifo_is_not_waited_at() {
        let check = |name: &str, is_of_objects: bool| {
            let (_dir, top) = repository();
            assert_eq!(gate(&top, Wanted::Objects), Ok(()));
            fifo(&top.join(name));
            let refused = gate(&top, Wanted::Objects).unwrap_err();
            assert!(refused.contains("is no regular file"), "{name}: {refused}");
            assert_eq!(gate(&top, Wanted::Settings).is_ok(), is_of_objects, "{name}");
        };
        for name in [".git/HEAD", ".git/config", ".git/packed-refs", ".git/shallow"] {
            check(name, false);
        }
        check(".git/commondir", false);
        check(".git/objects/info/alternates", false);
        check(".git/refs/heads/main", true);
        check(".git/objects/ab/cd", true);
        check(".git/objects/pack/pack-1.idx", true);
    }

    #[test]
    fn a_file_of_a_repository_is_bounded() {
        let check = |name: &str, limit: u64| {
            let (_dir, top) = repository();
            let path = top.join(name);
            File::create(&path).unwrap().set_len(limit).unwrap();
            assert_eq!(gate(&top, Wanted::Settings), Ok(()), "{name}");
            File::create(&path).unwrap().set_len(limit + 1).unwrap();
            let refused = gate(&top, Wanted::Settings).unwrap_err();
            assert!(refused.contains("over the limit of"), "{name}: {refused}");
        };
        check(".git/config", CONFIG);
        check(".git/HEAD", FEW_LINES);
        check(".git/packed-refs", PACKED_REFS);
        check(".git/shallow", SHALLOW);
    }

    #[test]
    fn what_is_included_is_looked_at() {
        let (_dir, top) = repository();
        fifo(&top.join("fifo"));
        let path = top.join("fifo").display().to_string();
        let (half, other) = path.split_at(path.len() - 2);
        for text in [
            format!("[include]\n\tpath = {path}\n"),
            format!("[INCLUDE] PATH={path} ; a comment\n"),
            format!("[includeIf \"gitdir:/\"]\npath = \"{path}\"\n"),
            format!("[include]\npath = {half}\\\n{other}\n"),
            format!("[include]\r\n path\t=\t\"{half}\"{other}\r\n"),
            "[include]\npath = ../fifo\n".to_owned(),
            "[include]\npath = ../more\n".to_owned(),
        ] {
            fs::write(top.join(".git/config"), &text).unwrap();
            fs::write(top.join("more"), "[include]\npath = more\npath = fifo\n").unwrap();
            assert!(gate(&top, Wanted::Settings).is_err(), "{text}");
        }
        fs::write(top.join(".git/config"), "[include]\npath = nowhere\npath = .\n").unwrap();
        assert_eq!(gate(&top, Wanted::Settings), Ok(()));
    }

    #[test]
    fn alternates_are_looked_at_for_objects_alone() {
        let (_dir, top) = repository();
        let other = tempfile::tempdir().unwrap();
        let alternates = top.join(".git/objects/info/alternates");
        let check = |line: &str, is_fine: bool| {
            fs::write(&alternates, format!("# a comment\n{line}\n")).unwrap();
            assert_eq!(gate(&top, Wanted::Objects).is_ok(), is_fine, "{line}");
        };
        check("/nonexistent", true);
        check("/dev/zero", false);
        check("../../.git/objects", true);
        let path = other.path().display().to_string();
        fifo(&other.path().join("fifo"));
        check(&path, true);
        fs::create_dir(other.path().join("info")).unwrap();
        fs::write(other.path().join("info/alternates"), format!("{path}\n/dev/null\n")).unwrap();
        check(&path, false);
        fs::remove_file(other.path().join("info/alternates")).unwrap();
        fifo(&other.path().join("0a/b"));
        check(&path, false);
    }

    #[test]
    fn entries_are_counted() {
        let (_dir, top) = repository();
        fs::write(top.join(".git/refs/heads/main"), "").unwrap();
        let gate = |left| {
            let mut gate = Gate { left, seen: HashSet::new() };
            gate.below(&top.join(".git/refs"), DEPTH)
        };
        // Two folders and a file.
        assert_eq!(gate(3), Ok(()));
        assert!(gate(2).unwrap_err().contains("hold more than"));
    }

    #[test]
    fn a_git_file_leads_to_folders_and_is_no_fifo() {
        let (_dir, top) = repository();
        let tree = tempfile::tempdir().unwrap();
        let git = tree.path().join(".git");
        fs::write(&git, format!("gitdir: {}\n", top.join(".git").display())).unwrap();
        assert_eq!(folders(&git), [top.join(".git")]);
        assert_eq!(gate(tree.path(), Wanted::Objects), Ok(()));
        fifo(&top.join(".git/commondir"));
        assert_eq!(folders(&git), [top.join(".git")]);
        fifo(&git);
        assert_eq!(folders(&git), Vec::<PathBuf>::new());
        assert!(gate(tree.path(), Wanted::Settings).is_err());
    }
}
