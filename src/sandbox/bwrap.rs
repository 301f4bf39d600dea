//! A layout of the file system within the walls → the arguments of `bwrap`.
//!
//! Everything is there to read, nothing to write; then come the folders that are writable, what is read-only in them, and
//! what is hidden, those nearer to `/` first, so that what lies deeper has the last word.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mount {
    /// It is writable, with what is mounted below it.
    Write,
    /// It is read-only.
    Read,
    /// An empty read-only folder is there instead.
    HideFolder,
    /// An empty read-only file is there instead.
    HideFile,
    /// It is there again, read-only, inside of something hidden.
    Show,
    /// It is there again, writable, inside of something hidden.
    ShowWritable,
}

/// A file system within the walls. All paths are true paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Whether everything is writable and nothing is hidden: then `mounts` is of no use.
    pub open: bool,
    /// What is done with which paths; the first for a path stands.
    pub mounts: Vec<(PathBuf, Mount)>,
    /// Files that stand at a path with another's content.
    pub instead: Vec<(PathBuf, PathBuf)>,
    /// An empty file.
    pub empty: PathBuf,
    /// The folder that the command runs in.
    pub cwd: PathBuf,
}

/// How the machine wants `bwrap` to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Whether a namespace of users is needed for the others.
    pub users: bool,
    /// Whether the inner stage is given the capability that it needs to empty the bounding set; it drops that, too.
    pub bounding: bool,
    /// Whether commands get a network of their own, which leads nowhere.
    pub no_network: bool,
}

/// The arguments, up to the `--` before the command.
pub fn arguments(layout: &Layout, how: How) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
    if layout.open {
        add(&["--bind", "/", "/", "--dev-bind", "/dev", "/dev"]);
    } else {
        add(&["--ro-bind", "/", "/", "--dev", "/dev"]);
    }
    add(&["--proc", "/proc"]);
    add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
    if how.users {
        add(&["--unshare-user"]);
    }
    if how.no_network {
        add(&["--unshare-net"]);
    }
    add(&["--cap-drop", "ALL"]);
    if how.bounding {
        add(&["--cap-add", "CAP_SETPCAP"]);
    }
    add(&["--die-with-parent", "--new-session"]);
    if !layout.open {
        mounts(layout, &mut words);
        words.extend(["--remount-ro", "/proc"].map(OsString::from));
    }
    words.push("--chdir".into());
    words.push(layout.cwd.clone().into());
    words.push("--".into());
    words
}

fn mounts(layout: &Layout, words: &mut Vec<OsString>) {
    let mut mounts: Vec<&(PathBuf, Mount)> = layout.mounts.iter().collect();
    // Stable: of two for one path, the first one was named first.
    mounts.sort_by_key(|(path, what)| (what.is_last(), path.components().count()));
    let mut done: Vec<&Path> = Vec::new();
    let mut hidden: Vec<&Path> = Vec::new();
    let bind = |words: &mut Vec<OsString>, option: &str, from: &Path, to: &Path| {
        words.extend([option.into(), from.into(), to.into()]);
    };
    for (path, what) in mounts {
        if done.contains(&path.as_path()) && !what.is_last() {
            continue;
        }
        done.push(path);
        match what {
            Mount::Write | Mount::ShowWritable => bind(words, "--bind", path, path),
            // What is hidden has nothing to be kept any more.
            Mount::Read if hidden.iter().any(|hidden| path.starts_with(hidden)) => {}
            Mount::Read | Mount::Show => bind(words, "--ro-bind", path, path),
            Mount::HideFolder => {
                words.extend(["--tmpfs".into(), path.into()]);
                hidden.push(path);
            }
            Mount::HideFile => bind(words, "--ro-bind", &layout.empty, path),
        }
    }
    for (content, path) in &layout.instead {
        bind(words, "--ro-bind", content, path);
    }
    for path in hidden {
        words.extend(["--remount-ro".into(), path.into()]);
    }
}

impl Mount {
    /// Whether it comes after all others.
    fn is_last(self) -> bool {
        matches!(self, Self::Show | Self::ShowWritable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mounts: &[(&str, Mount)], expect: &str) {
        let mounts = mounts.iter().map(|(path, what)| (PathBuf::from(path), *what)).collect();
        let layout = Layout { mounts, empty: "/e".into(), cwd: "/w".into(), ..Layout::default() };
        let how = How { users: false, bounding: false, no_network: false };
        let words = arguments(&layout, how);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let words = words.join(" ");
        let from = words.split_once("--new-session ").unwrap().1;
        assert_eq!(from.split_once("--remount-ro /proc").unwrap().0.trim(), expect);
    }

    #[test]
    fn what_lies_deeper_has_the_last_word() {
        check(
            &[("/w/.git", Mount::Read), ("/w", Mount::Write), ("/w/.git/o", Mount::Write)],
            "--bind /w /w --ro-bind /w/.git /w/.git --bind /w/.git/o /w/.git/o",
        );
    }

    #[test]
    fn what_was_named_first_stands() {
        check(&[("/w", Mount::Write), ("/w", Mount::Read)], "--bind /w /w");
    }

    #[test]
    fn what_is_hidden_stays_hidden_but_for_what_is_shown() {
        check(
            &[
                ("/h/r", Mount::HideFolder),
                ("/h/r/.git", Mount::Read),
                ("/h/f", Mount::HideFile),
                ("/h/r/bin/x", Mount::Show),
                ("/h/r/report", Mount::ShowWritable),
            ],
            "--tmpfs /h/r --ro-bind /e /h/f --bind /h/r/report /h/r/report --ro-bind /h/r/bin/x /h/r/bin/x --remount-ro /h/r",
        );
    }

    #[test]
    fn all_namespaces_and_no_capability() {
        let how = How { users: true, bounding: false, no_network: true };
        let words = arguments(&Layout::default(), how);
        for word in [
            "--unshare-pid",
            "--unshare-user",
            "--unshare-net",
            "--die-with-parent",
            "--new-session",
        ] {
            assert!(words.iter().any(|there| there == word), "{word}");
        }
        assert!(words.windows(2).any(|pair| pair[0] == "--cap-drop" && pair[1] == "ALL"));
        assert!(
            words
                .windows(3)
                .any(|three| three[0] == "--ro-bind" && three[1] == "/" && three[2] == "/")
        );
        assert!(!words.iter().any(|word| word == "--cap-add"));
    }
}
