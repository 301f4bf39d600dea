//! The names that the sandbox treats specially: the table `names.txt`, with a reason for each group.
//!
//! A credential is a path that commands cannot read. Files that builds read are not credentials, though they may
//! contain a password: settings of pip and uv, Maven's `settings.xml`, the config of `NuGet` and Bundler. Files that
//! tools run without being asked, when somebody enters, opens or works in a folder, belong to the model like the rest
//! of the tree; the user gets a list of those that changed. Files that a person or a build runs by name (Makefile,
//! package.json, build.rs, workflows of CI) are not among them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

const TABLE: &str = include_str!("names.txt");

/// The treatment of the names in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Run by tools without being asked, wherever it is in a tree. Some are a folder and a name in it.
    Automatic,
    /// Run by tools without being asked, only in the home folder.
    Starter,
    /// Paths in the home folder that cannot be read.
    Credential,
    /// Variables with the paths of credentials: alone or, with a second word, in place of that folder of the home.
    Variable,
    /// Keys of git's config, without a subsection, that run nothing and name no file.
    Plain,
    /// Caches in the home folder that commands may write: the path, the program that uses it (`-`: many), and the variable
    /// that names another place for its first folder.
    Cache,
    /// Programs in such a cache that run later: read-only. Columns as for `Cache`; a `*` at the end of a name stands for more.
    Installed,
    /// Programs and state in such a folder that run later: a command gets an empty folder of its own. Columns as for `Cache`.
    Private,
    /// Large folders that tools make, which are not searched.
    Heavy,
}

/// Returns the names of all groups of a kind.
pub(crate) fn names_in(group: Group) -> impl Iterator<Item = &'static str> {
    let mut is_wanted = false;
    let is_name = move |line: &&str| {
        if !line.starts_with(' ') {
            let word = line.split(':').next().unwrap_or_default();
            is_wanted = format!("{group:?}").eq_ignore_ascii_case(word);
        }
        is_wanted && line.starts_with(' ')
    };
    TABLE.lines().filter(is_name).map(str::trim_start)
}

/// Returns whether tools run a file or folder of this path without being asked. Some file systems do not distinguish case.
pub(crate) fn is_automatic(path: &Path) -> bool {
    static NAMES: LazyLock<HashSet<String>> =
        LazyLock::new(|| names_in(Group::Automatic).map(str::to_ascii_lowercase).collect());
    let lower = |name: &OsStr| name.to_str().map(str::to_ascii_lowercase);
    let Some(name) = path.file_name().and_then(lower) else { return false };
    let folder = path.parent().and_then(Path::file_name).filter(|_| !name.starts_with('.'));
    let is_below = |folder: String| NAMES.contains(&format!("{folder}/{name}"));
    NAMES.contains(&name) || folder.and_then(lower).is_some_and(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_whatever_their_case() {
        for name in [
            ".git",
            "a/.GIT",
            ".Bashrc",
            ".Rprofile",
            ".rprofile",
            ".npmrc",
            ".config/mise",
            "a/.YARN/releases",
        ] {
            assert!(is_automatic(Path::new(name)), "{name}");
        }
        for name in ["git", ".github", ".gitignore", ".config", "releases", "Makefile", ".env", "."]
        {
            assert!(!is_automatic(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn each_name_is_listed_once_in_a_group_that_is_known() {
        use Group::{
            Automatic, Cache, Credential, Heavy, Installed, Plain, Private, Starter, Variable,
        };
        let mut count = 0;
        for group in
            [Automatic, Starter, Credential, Variable, Plain, Heavy, Cache, Installed, Private]
        {
            let mut seen = HashSet::new();
            for name in names_in(group) {
                let is_plain = name.split('/').all(|part| !["", ".", ".."].contains(&part));
                assert!(seen.insert(name) && is_plain && name.trim() == name, "{name}");
            }
            assert!(seen.len() > 4, "{group:?}");
            count += seen.len();
        }
        assert_eq!(count, TABLE.lines().filter(|line| line.starts_with("    ")).count());
    }

    #[test]
    fn credentials_hide_no_folder_that_many_tools_share_and_nothing_that_a_build_reads() {
        let is_listed = |path: &str| names_in(Group::Credential).any(|name| name == path);
        for path in
            [".claude.json", ".codex/auth.json", ".config/gh", ".s3cfg", "_netrc", ".bash_history"]
        {
            assert!(is_listed(path), "{path}");
        }
        for path in [
            ".config",
            ".local",
            ".local/share",
            ".cache",
            ".cargo",
            ".claude",
            ".m2",
            ".m2/settings.xml",
            ".config/pip/pip.conf",
        ] {
            assert!(!is_listed(path), "{path}");
        }
    }
}
