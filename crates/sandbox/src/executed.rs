//! The files that git runs and that no diff shows: in a repository's own folders, and in paths that its config names. A
//! command that may write there can run code outside of its sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::special::{Group, names_in};
use conversation::limits;
use history::git::{git_folders, read_config};
use sys::names::expand_home;
use sys::walk::walk_below;

/// Maximum number of a repository's own folders, and of paths from a config: each becomes a mount.
const MAX_PATHS: usize = 100;

/// The paths in a repository's own folder that git runs, or reads to know what to run.
pub(crate) const EXECUTED: [&str; 6] = [
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
    "commondir",
];

/// Lists the own folders of repositories: of the working trees with these tops, the common ones, those of their other
/// working trees and of their submodules.
pub(crate) fn list_own_folders(tops: &[PathBuf]) -> Vec<PathBuf> {
    let is_git_folder = |folder: &Path| {
        let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
        has("HEAD") && (has("objects") && has("refs") || has("commondir"))
    };
    let by_file = tops.iter().flat_map(|top| git_folders(&top.join(".git")));
    let itself = tops.iter().filter(|top| is_git_folder(top)).cloned();
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in by_file.chain(itself) {
        let below = ["worktrees", "modules"].map(|name| folder.join(name));
        let enters = |name: &OsStr| name != "objects" && name != "refs" && name != "logs";
        let below = below.iter().flat_map(|folder| walk_below(folder, &enters));
        let below = below.take(limits::SCANNED_ENTRIES).filter(|entry| entry.file_name() == "HEAD");
        let below = below.filter_map(|entry| entry.path().parent().map(Path::to_owned));
        let below: Vec<PathBuf> = below.filter(|folder| is_git_folder(folder)).collect();
        found.extend([folder].into_iter().chain(below));
    }
    found.sort();
    found.dedup();
    found.truncate(MAX_PATHS);
    found
}

/// Lists all paths that are protected in the own folders of repositories, and the files that name these folders.
pub(crate) fn executed_paths(tops: &[PathBuf]) -> Vec<PathBuf> {
    let files = tops.iter().map(|top| top.join(".git")).filter(|path| path.is_file());
    let folders = list_own_folders(tops).into_iter();
    folders.flat_map(|folder| EXECUTED.map(|name| folder.join(name))).chain(files).collect()
}

/// Returns the paths that the config of the repository at `top` names, whether they exist or not: files that git reads
/// as config, folders of hooks, programs that it runs automatically. Empty if the config cannot be read: then git runs
/// nothing of it.
///
/// Every key counts that is not known to be harmless: a key that ends in path, file or dir names one path, any other
/// has words for a shell. Aliases, which a person types, belong to the project.
pub(crate) fn paths_named_by_config(top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut include_folders = git_folders(&top.join(".git"));
    for (key, value) in read_config(top) {
        if paths.len() >= MAX_PATHS {
            break;
        }
        let (section, name) = (key.split('.').next(), key.rsplit('.').next().unwrap_or_default());
        let is_plain =
            |known: &str| known.split_once('.') == section.map(|section| (section, name));
        if section == Some("alias") || names_in(Group::Plain).any(is_plain) {
            continue;
        }
        let (words, value) =
            (String::from_utf8_lossy(&value), Path::new(OsStr::from_bytes(&value)));
        if key.starts_with("include") {
            // Relative to the file that names it, which can be any file of the config.
            let value = expand_home(value, home);
            let named: Vec<_> = include_folders.iter().map(|folder| folder.join(&value)).collect();
            let found = named.iter().filter(|path| path.exists());
            include_folders.extend(found.filter_map(|path| Some(path.parent()?.to_owned())));
            include_folders.truncate(MAX_PATHS);
            paths.extend(named);
        } else if ["path", "file", "dir"].iter().any(|ending| name.ends_with(ending)) {
            paths.push(top.join(expand_home(value, home)));
        } else {
            let words = words.split(|c: char| c.is_whitespace() || "'\"!;&|()".contains(c));
            let words = words.filter(|word| !word.is_empty()).enumerate();
            paths.extend(words.filter_map(|(at, word)| {
                let path = top.join(expand_home(Path::new(word), home));
                // A first word without a slash is looked up in PATH.
                let is_program = at == 0 && word.contains('/') && !path.is_dir();
                (is_program || at > 0 && path.is_file()).then_some(path)
            }));
        }
    }
    paths
}
