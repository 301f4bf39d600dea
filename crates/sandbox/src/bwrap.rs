//! Converts a policy into the arguments of `bwrap`.
//!
//! Everything is readable and nothing writable at first. Then come the writable folders, the read-only paths in them,
//! and the hidden paths; paths nearer to `/` first, so that the deepest mount decides.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::policy::SandboxPolicy;

/// Returns the arguments before the command. `sockets` are covered. `empty` has a descriptor of an empty file for each
/// hidden file: `bwrap` reads and closes one for each.
pub fn arguments(
    policy: &SandboxPolicy,
    user_namespace: bool,
    cwd: &Path,
    sockets: &BTreeSet<PathBuf>,
    empty: &[RawFd],
) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
    add(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--cap-drop", "ALL"]);
    add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    add(if user_namespace { &["--unshare-user"] } else { &[] });
    add(if policy.no_network { &["--unshare-net"] } else { &[] });
    add_mounts(policy, sockets, empty, &mut words);
    words.extend(["--remount-ro".into(), "/proc".into(), "--chdir".into(), cwd.into()]);
    words
}

fn add_mounts(
    policy: &SandboxPolicy,
    sockets: &BTreeSet<PathBuf>,
    empty: &[RawFd],
    words: &mut Vec<OsString>,
) {
    // If two rules are about one path, the earlier one wins.
    let mut mounts: BTreeMap<&Path, &str> = BTreeMap::new();
    for hidden in &policy.hidden {
        let mount = if hidden.is_folder { "--tmpfs" } else { "--ro-bind-data" };
        mounts.entry(&hidden.path).or_insert(mount);
    }
    for private in &policy.private {
        mounts.entry(private).or_insert("--tmpfs");
    }
    let writable = policy.writable.iter().map(|path| (path.as_path(), "--bind"));
    let read_only = policy.read_only.iter().chain(&policy.shown);
    let read_only = read_only.map(|path| (path.as_path(), "--ro-bind"));
    let fixed: Vec<(&Path, &str)> = writable.chain(read_only).collect();
    // A folder above a mount could be moved away and replaced by another one; a folder that is a mount itself cannot.
    let is_inside = |above: &&Path| {
        let mut folders = policy.writable.iter();
        folders.any(|folder| *above != folder && above.starts_with(folder))
    };
    let paths = fixed.iter().map(|(path, _)| *path).chain(mounts.keys().copied());
    let above = paths.flat_map(|path| path.ancestors().skip(1).take_while(is_inside));
    let pinned: Vec<(&Path, &str)> = above.map(|path| (path, "--bind")).collect();
    for (path, mount) in fixed.into_iter().chain(pinned).filter(|(path, _)| !policy.is_hidden(path))
    {
        mounts.entry(path).or_insert(mount);
    }
    let mut mounts: Vec<(&Path, &str)> = mounts.into_iter().collect();
    mounts.sort_by_key(|(path, _)| path.components().count());

    let mut empty = empty.iter();
    for (path, mount) in &mounts {
        words.push(mount.into());
        match *mount {
            "--tmpfs" => {}
            "--ro-bind-data" => words.extend(empty.next().map(|number| number.to_string().into())),
            _ => words.push(path.into()),
        }
        words.push(path.into());
    }
    let is_private = |path: &&Path| policy.private.iter().any(|private| private == *path);
    for (path, _) in mounts.iter().filter(|(path, mount)| *mount == "--tmpfs" && !is_private(path))
    {
        words.extend(["--remount-ro".into(), path.into()]);
    }
    for socket in sockets.iter().filter(|socket| !policy.is_hidden(socket)) {
        words.extend(["--ro-bind".into(), "/dev/null".into(), socket.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::HiddenPath;

    fn check(writable: &[&str], read_only: &[&str], hidden: &[(&str, bool)], expect: &str) {
        let policy = SandboxPolicy {
            writable: writable.iter().map(PathBuf::from).collect(),
            read_only: read_only.iter().map(PathBuf::from).collect(),
            hidden: hidden
                .iter()
                .map(|(path, is_folder)| HiddenPath { path: path.into(), is_folder: *is_folder })
                .collect(),
            ..SandboxPolicy::default()
        };
        let words =
            arguments(&policy, false, Path::new("/w"), &["/g/socket".into()].into(), &[7, 8]);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let words = words.join(" ");
        let from = words.split_once("--unshare-uts ").unwrap().1;
        assert_eq!(
            from.split_once(" --ro-bind /dev/null /g/socket --remount-ro /proc").unwrap().0,
            expect
        );
    }

    #[test]
    fn the_deepest_mount_decides() {
        check(
            &["/w", "/w/.git/o"],
            &["/w/.git"],
            &[],
            "--bind /w /w --ro-bind /w/.git /w/.git --bind /w/.git/o /w/.git/o",
        );
    }

    #[test]
    fn a_folder_above_a_read_only_path_cannot_be_moved() {
        check(
            &["/w"],
            &["/w/.git/info/attributes"],
            &[],
            "--bind /w /w --bind /w/.git /w/.git --bind /w/.git/info /w/.git/info --ro-bind /w/.git/info/attributes /w/.git/info/attributes",
        );
    }

    #[test]
    fn a_folder_that_the_user_named_is_writable_even_if_it_is_protected() {
        check(&["/w", "/w/.git"], &["/w/.git"], &[], "--bind /w /w --bind /w/.git /w/.git");
    }

    #[test]
    fn a_shown_path_in_a_hidden_one_is_read_only() {
        let policy = SandboxPolicy {
            writable: vec!["/t".into()],
            hidden: vec![HiddenPath { path: "/t/root".into(), is_folder: true }],
            shown: vec!["/t/root/skills".into()],
            ..SandboxPolicy::default()
        };
        let words = arguments(&policy, false, Path::new("/w"), &BTreeSet::new(), &[]);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let expect = "--bind /t /t --tmpfs /t/root --ro-bind /t/root/skills /t/root/skills --remount-ro /t/root";
        assert!(words.join(" ").contains(expect), "{words:?}");
    }

    #[test]
    fn hidden_paths_are_empty() {
        check(
            &["/h/w"],
            &["/h/.git"],
            &[("/h", true), ("/g/key", false)],
            "--tmpfs /h --ro-bind-data 7 /g/key --remount-ro /h",
        );
    }
}
