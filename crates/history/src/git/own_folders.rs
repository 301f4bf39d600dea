//! The folders of a repository's own data, found without libgit2.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use conversation::format::harmless::{escape_line, quote_name};
use conversation::limits;

/// Files that libgit2 reads into memory when it opens a repository, and their largest sizes.
const FILES: [(&str, u64); 8] = [
    ("HEAD", limits::REPOSITORY_CONFIG),
    ("config", limits::REPOSITORY_CONFIG),
    ("config.worktree", limits::REPOSITORY_CONFIG),
    ("index", u64::MAX),
    ("packed-refs", limits::REPOSITORY_FILE),
    ("shallow", limits::REPOSITORY_FILE),
    ("info/grafts", limits::REPOSITORY_FILE),
    ("objects/info/alternates", limits::REPOSITORY_FILE),
];

/// The most bytes of a file that names a folder.
const NAME: u64 = 8192;

/// The repository's own folders that a `.git` stands for, without links, with the one shared by other working trees.
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

/// The common folder of the repository of a linked working tree. `None` where its repository does not name the tree in turn:
/// anybody may have written a `.git`.
pub fn linked_repository(top: &Path) -> Option<PathBuf> {
    let git = fs::canonicalize(top.join(".git")).ok().filter(|git| git.is_file())?;
    let [own, common] = <[PathBuf; 2]>::try_from(git_folders(&git)).ok()?;
    let back = sys::fs::read_bytes(&own.join("gitdir"), NAME).ok()??;
    let back = fs::canonicalize(own.join(OsStr::from_bytes(back.trim_ascii()))).ok()?;
    (back == git && own.parent()? == common.join("worktrees")).then_some(common)
}

/// Maximum number of moves that are described.
const MOVES: usize = 5;

/// Maximum number of characters of one.
const MOVE: usize = 80;

/// The length of the log that git keeps of `HEAD`, and what it says of its moves behind `offset`: `commit: Fix it`,
/// `checkout: moving from main to x`. Nothing where there is no log.
pub fn read_head_log(top: &Path, offset: u64) -> (u64, Vec<String>) {
    let Some(folder) = git_folders(&top.join(".git")).into_iter().next() else {
        return (0, Vec::new());
    };
    let log = folder.join("logs/HEAD");
    let length = fs::metadata(&log).map_or(0, |metadata| metadata.len());
    if length <= offset || length - offset > limits::REPOSITORY_CONFIG {
        return (length, Vec::new());
    }
    let bytes = sys::fs::read_bytes(&log, u64::MAX).ok().flatten().unwrap_or_default();
    let new = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
    let new = String::from_utf8_lossy(new);
    // `git stash` resets to the commit that is there.
    let moves = new.lines().filter_map(|line| {
        let (commits, what) = line.split_once('\t')?;
        let mut commits = commits.split(' ');
        (commits.next() != commits.next()).then_some(what)
    });
    (length, moves.take(MOVES).map(|line| escape_line(line, MOVE)).collect())
}

/// Refuses a repository one of whose files is not regular or too large.
pub(super) fn check_files(top: &Path) -> Result<(), String> {
    let git = top.join(".git");
    let folders = if git.exists() { git_folders(&git) } else { vec![top.to_owned()] };
    for folder in &folders {
        for (name, limit) in FILES {
            let file = folder.join(name);
            let Ok(metadata) = fs::metadata(&file) else { continue };
            let is_other = !metadata.is_file() && !metadata.is_dir();
            if is_other || metadata.len() > limit && metadata.is_file() {
                let (file, size) = (quote_name(&file), metadata.len());
                return Err(if is_other {
                    format!("{file} is not a regular file")
                } else {
                    format!("{file} has {size} bytes, over the limit of {limit}")
                });
            }
        }
    }
    Ok(())
}

/// Reads the folder that a file of one line names, relative to `base`.
fn read_named_folder(file: &Path, mark: &str, base: &Path) -> Option<PathBuf> {
    let text = sys::fs::read_bytes(file, NAME).ok()??;
    let line = text.split(|byte| *byte == b'\n').next()?.strip_prefix(mark.as_bytes())?;
    let folder = base.join(OsStr::from_bytes(line.trim_ascii()));
    fs::canonicalize(folder).ok().filter(|folder| folder.is_dir())
}
