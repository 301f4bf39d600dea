//! Checks a repository's own files before libgit2 opens it, which waits at a FIFO and reads a file of any size into
//! memory.
//!
//! The checked files are those that are opened by name when a repository is opened: they must be regular and not too
//! large. Objects are too many to check; they are read in a thread that can be abandoned (`worker`).

use conversation::limits;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use conversation::format::harmless::quote_name;
use sys::fs::nonblock;

/// Maximum number of refs that a ref is followed through; libgit2 follows no more.
const MAX_DEPTH: usize = 10;

/// Maximum number of configurations and lists of alternates that name others.
const MAX_NAMED: usize = 200;

/// Files in a repository's own folder that are opened by name, and their maximum sizes.
const FILES: [(&str, u64); 9] = [
    ("HEAD", limits::REPOSITORY_FILE),
    ("commondir", limits::REPOSITORY_FILE),
    ("gitdir", limits::REPOSITORY_FILE),
    ("config", limits::REPOSITORY_CONFIG),
    ("config.worktree", limits::REPOSITORY_CONFIG),
    ("packed-refs", limits::PACKED_REFS),
    ("shallow", limits::SHALLOW_COMMITS),
    ("info/grafts", limits::SHALLOW_COMMITS),
    ("objects/info/alternates", limits::REPOSITORY_FILE),
];

/// The part of a repository that is about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The configuration.
    Config,
    /// The configuration, refs and objects.
    Objects,
}

/// Checks the repository of the working tree with this top; a folder without `.git` counts as a bare repository.
pub(super) fn check_repository(top: &Path, access: Access) -> Result<(), String> {
    check(top, access)
        .map_err(|why| format!("the git repository at {} is not read: {why}", quote_name(top)))
}

fn check(top: &Path, access: Access) -> Result<(), String> {
    let git = top.join(".git");
    let git = if fs::symlink_metadata(&git).is_ok() { git } else { top.to_owned() };
    if fs::metadata(&git).is_ok_and(|metadata| !metadata.is_dir()) {
        check_file(&git, limits::REPOSITORY_FILE)?;
    }
    let folders = git_folders(&git);
    let mut left = MAX_NAMED;
    for folder in &folders {
        for (name, limit) in FILES {
            check_file(&folder.join(name), limit)?;
        }
        for name in ["config", "config.worktree"] {
            check_includes(&folder.join(name), &mut left)?;
        }
        if access == Access::Objects {
            check_ref(&folders, Path::new("HEAD"), MAX_DEPTH)?;
            check_alternates(&folder.join("objects"), &mut left)?;
        }
    }
    Ok(())
}

/// The repository's own folders that a `.git` leads to, without links, with the one shared by other working trees.
pub fn git_folders(git: &Path) -> Vec<PathBuf> {
    let Ok(git) = fs::canonicalize(git) else { return Vec::new() };
    let folder = if git.is_dir() {
        Some(git)
    } else {
        read_named_folder(&git, "gitdir:", git.parent().unwrap_or(&git))
    };
    let Some(folder) = folder else { return Vec::new() };
    let common = read_named_folder(&folder.join("commondir"), "", &folder);
    [Some(folder), common].into_iter().flatten().collect()
}

/// Reads the path of a folder from a file with one line, relative to `base`.
fn read_named_folder(file: &Path, mark: &str, base: &Path) -> Option<PathBuf> {
    let text = read_start(file, 8192)?;
    let line = text.split(|byte| *byte == b'\n').next()?.strip_prefix(mark.as_bytes())?;
    let folder = base.join(OsStr::from_bytes(line.trim_ascii()));
    fs::canonicalize(folder).ok().filter(|folder| folder.is_dir())
}

/// Reads the first bytes of a regular file. Never waits.
fn read_start(path: &Path, bytes: u64) -> Option<Vec<u8>> {
    let file: File = OpenOptions::new().read(true).custom_flags(nonblock()).open(path).ok()?;
    file.metadata().ok().filter(Metadata::is_file)?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Checks the files that a configuration includes. Only plain values are accepted: git's escapes could hide a path.
fn check_includes(config: &Path, left: &mut usize) -> Result<(), String> {
    let text = read_start(config, limits::REPOSITORY_CONFIG).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).to_string();
    if !text.to_ascii_lowercase().contains("include") {
        return Ok(());
    }
    count_file(config, left)?;
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if !key.contains('[') && !key.trim().eq_ignore_ascii_case("path") {
            continue;
        }
        let value = value.trim();
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = inner.unwrap_or(value);
        if key.contains('[') || value.contains(['"', '\\', ';', '#']) {
            return Err(format!("{} includes other files in an unusual way", quote_name(config)));
        }
        let below_home = value.strip_prefix("~/").zip(std::env::var_os("HOME"));
        let path = below_home.map_or_else(
            || config.parent().unwrap_or(config).join(value),
            |(path, home)| Path::new(&home).join(path),
        );
        check_file(&path, limits::REPOSITORY_CONFIG)?;
        if path != config {
            check_includes(&path, left)?;
        }
    }
    Ok(())
}

/// Counts a file that names others, as they could name each other without end.
fn count_file(path: &Path, left: &mut usize) -> Result<(), String> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| format!("{} and others name too many files", quote_name(path)))?;
    Ok(())
}

/// Checks a ref and the refs that it points to.
fn check_ref(folders: &[PathBuf], name: &Path, depth: usize) -> Result<(), String> {
    for path in folders.iter().map(|folder| folder.join(name)) {
        check_file(&path, limits::REPOSITORY_FILE)?;
        let text = read_start(&path, limits::REPOSITORY_FILE).unwrap_or_default();
        if depth > 0
            && let Some(next) = text.strip_prefix(b"ref:")
        {
            check_ref(folders, Path::new(OsStr::from_bytes(next.trim_ascii())), depth - 1)?;
        }
    }
    Ok(())
}

/// Checks the object folders in the list of alternates.
fn check_alternates(objects: &Path, left: &mut usize) -> Result<(), String> {
    let list = objects.join("info/alternates");
    check_file(&list, limits::REPOSITORY_FILE)?;
    let text = read_start(&list, limits::REPOSITORY_FILE).unwrap_or_default();
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if !line.is_empty() && !line.starts_with(b"#") {
            count_file(&list, left)?;
            check_alternates(&objects.join(OsStr::from_bytes(line)), left)?;
        }
    }
    Ok(())
}

/// Checks that a file is regular and not too large, if it exists.
fn check_file(path: &Path, limit: u64) -> Result<(), String> {
    match fs::metadata(path) {
        // libgit2 does not open a folder as a file.
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(metadata) if !metadata.is_file() => {
            Err(format!("{} is not a regular file", quote_name(path)))
        }
        Ok(metadata) if metadata.len() > limit => {
            let size = metadata.len();
            Err(format!("{} has {size} bytes, over the limit of {limit}", quote_name(path)))
        }
        _ => Ok(()),
    }
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
    fn a_fifo_is_refused() {
        let check = |name: &str, is_of_objects: bool| {
            let (_dir, top) = repository();
            fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
            assert_eq!(check_repository(&top, Access::Objects), Ok(()));
            fifo(&top.join(name));
            let refused = check_repository(&top, Access::Objects).unwrap_err();
            assert!(refused.contains("is not a regular file"), "{name}: {refused}");
            assert_eq!(check_repository(&top, Access::Config).is_ok(), is_of_objects, "{name}");
        };
        for name in [".git/HEAD", ".git/config", ".git/packed-refs", ".git/shallow"] {
            check(name, false);
        }
        check(".git/commondir", false);
        check(".git/objects/info/alternates", false);
        check(".git/refs/heads/main", true);
    }

    #[test]
    fn the_size_of_a_file_is_bounded() {
        let check = |name: &str, limit: u64| {
            let (_dir, top) = repository();
            let path = top.join(name);
            File::create(&path).unwrap().set_len(limit).unwrap();
            assert_eq!(check_repository(&top, Access::Config), Ok(()), "{name}");
            File::create(&path).unwrap().set_len(limit + 1).unwrap();
            let refused = check_repository(&top, Access::Config).unwrap_err();
            assert!(refused.contains("over the limit of"), "{name}: {refused}");
        };
        check(".git/config", limits::REPOSITORY_CONFIG);
        check(".git/HEAD", limits::REPOSITORY_FILE);
        check(".git/packed-refs", limits::PACKED_REFS);
        check(".git/shallow", limits::SHALLOW_COMMITS);
    }

    #[test]
    fn included_files_are_checked() {
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
            assert!(check_repository(&top, Access::Config).is_err(), "{text}");
        }
        fs::write(top.join(".git/config"), "[include]\npath = nowhere\npath = .\n").unwrap();
        assert_eq!(check_repository(&top, Access::Config), Ok(()));
    }

    #[test]
    fn alternates_of_alternates_are_checked() {
        let (_dir, top) = repository();
        let other = tempfile::tempdir().unwrap();
        fs::write(
            top.join(".git/objects/info/alternates"),
            format!("# a comment\n{}\n", other.path().display()),
        )
        .unwrap();
        assert_eq!(check_repository(&top, Access::Objects), Ok(()));
        fifo(&other.path().join("info/alternates"));
        assert!(check_repository(&top, Access::Objects).is_err());
    }

    #[test]
    fn refs_are_checked_through_each_other() {
        let (_dir, top) = repository();
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/one\n").unwrap();
        fs::write(top.join(".git/refs/heads/one"), "ref: refs/heads/two\n").unwrap();
        fs::write(top.join(".git/refs/heads/two"), "ref: refs/heads/one\n").unwrap();
        assert_eq!(check_repository(&top, Access::Objects), Ok(()));
        File::create(top.join(".git/refs/heads/two"))
            .unwrap()
            .set_len(limits::REPOSITORY_FILE + 1)
            .unwrap();
        assert!(check_repository(&top, Access::Objects).unwrap_err().contains("over the limit"));
    }

    #[test]
    fn a_git_file_leads_to_folders_and_is_no_fifo() {
        let (_dir, top) = repository();
        let tree = tempfile::tempdir().unwrap();
        let git = tree.path().join(".git");
        fs::write(&git, format!("gitdir: {}\n", top.join(".git").display())).unwrap();
        assert_eq!(git_folders(&git), [top.join(".git")]);
        assert_eq!(check_repository(tree.path(), Access::Objects), Ok(()));
        fifo(&top.join(".git/commondir"));
        assert_eq!(git_folders(&git), [top.join(".git")]);
        fifo(&git);
        assert_eq!(git_folders(&git), Vec::<PathBuf>::new());
        assert!(check_repository(tree.path(), Access::Config).is_err());
    }
}
