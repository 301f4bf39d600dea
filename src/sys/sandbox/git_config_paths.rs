//! The paths that a repository's config names: files that git reads as config, folders of hooks, programs that it runs by
//! itself. A command that may write one of them runs again outside of its sandbox. And whether a new repository runs nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::scan::PROTECTED_IN_GIT;
use crate::sys::git;
use crate::sys::names::expand_home;

/// Maximum number of paths that are taken from a config.
const MAX_PATHS: usize = 100;

/// How a value of the config names paths.
enum ValueKind {
    /// A file that git includes, from the folder of the file that names it.
    Include,
    /// One path.
    Path,
    /// Words for a shell: the first is a program, others may be scripts.
    Program,
}

/// Returns the absolute paths that the config of the repository at `top` names, whether they exist or not. None if the
/// config cannot be read: then git runs nothing of it.
pub(super) fn paths_named_by_git(top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(config) = git::read_config(top) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut include_folders = git::git_folders(&top.join(".git"));
    let Ok(mut entries) = config.entries(None) else { return Vec::new() };
    while let Some(Ok(entry)) = entries.next() {
        // `[core] bare`, without a value, means true; git2 panics when it is asked for that value.
        if !entry.has_value() {
            continue;
        }
        let key = String::from_utf8_lossy(entry.name_bytes()).to_ascii_lowercase();
        let value = Path::new(OsStr::from_bytes(entry.value_bytes()));
        match value_kind(&key) {
            Some(ValueKind::Include) => {
                let value = expand_home(value, home);
                let candidates: Vec<PathBuf> =
                    include_folders.iter().map(|folder| folder.join(&value)).collect();
                let found: Vec<PathBuf> =
                    candidates.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
                include_folders
                    .extend(found.iter().filter_map(|path| Some(path.parent()?.to_owned())));
                // Most includes are in the repository's own config.
                let missing = candidates.into_iter().take(usize::from(found.is_empty()));
                paths.extend(missing.chain(found));
            }
            Some(ValueKind::Path) => paths.push(top.join(expand_home(value, home))),
            Some(ValueKind::Program) => {
                let words = String::from_utf8_lossy(entry.value_bytes()).into_owned();
                let words = words.split(|c: char| c.is_whitespace() || "'\"!;&|()".contains(c));
                let words = words.filter(|word| !word.is_empty()).enumerate();
                for (at, word) in words.filter(|(_, word)| word.contains('/')) {
                    let path = top.join(expand_home(Path::new(word), home));
                    paths.extend((at == 0 || path.is_file()).then_some(path));
                }
            }
            None => {}
        }
        include_folders.truncate(MAX_PATHS);
        if paths.len() >= MAX_PATHS {
            break;
        }
    }
    paths
}

/// Returns how a key of git-config(1), in lower case, names paths. Aliases, which a person types, are the project's own.
fn value_kind(key: &str) -> Option<ValueKind> {
    let (section, name) = (key.split('.').next()?, key.rsplit('.').next()?);
    Some(match (section, name) {
        ("include" | "includeif", "path") => ValueKind::Include,
        ("core", "hookspath" | "attributesfile") | ("init", "templatedir") => ValueKind::Path,
        (
            "core",
            "fsmonitor"
            | "sshcommand"
            | "editor"
            | "pager"
            | "askpass"
            | "gitproxy"
            | "alternaterefscommand",
        )
        | ("filter", "clean" | "smudge" | "process")
        | ("diff", "external" | "command" | "textconv")
        | ("merge", "driver")
        | ("gpg", "program" | "defaultkeycommand")
        | ("credential", "helper")
        | ("sequence", "editor")
        | ("interactive", "difffilter")
        | ("mergetool" | "difftool" | "browser" | "man", "cmd" | "path")
        | ("remote", "uploadpack" | "receivepack" | "vcs")
        | ("trailer" | "hook" | "tar", "command" | "cmd")
        | ("uploadpack", "packobjectshook")
        | ("pager", _) => ValueKind::Program,
        _ => return None,
    })
}

/// What `git init` and `git clone` write into a config: sections, and names in them. Nothing of it runs a program.
const PLAIN_CONFIG: &[(&str, &str)] = &[
    (
        "core",
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks",
    ),
    ("remote", "url fetch tagopt mirror promisor partialclonefilter"),
    ("branch", "remote merge"),
    ("user", "name email"),
    ("extensions", "objectformat partialclone refstorage"),
    ("submodule", "active"),
];

/// Returns whether a path is a repository's own folder in which git runs nothing by itself: no hooks but samples, and a config
/// as `git init` and `git clone` write it. Builds and clones make such repositories, and go on to use them.
pub(super) fn runs_nothing(folder: &Path) -> bool {
    let is_there = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    let is_real_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
    let is_sample = |name: &OsStr| name.as_bytes().ends_with(b".sample");
    let hooks = folder.join("hooks");
    let has_no_hooks = !is_there("hooks")
        || is_real_folder(&hooks)
            && fs::read_dir(&hooks).is_ok_and(|mut hooks| {
                hooks.all(|hook| hook.is_ok_and(|hook| is_sample(&hook.file_name())))
            });
    let is_other = |name: &&str| !["hooks", "config"].contains(name) && is_there(name);
    is_real_folder(folder)
        && is_there("HEAD")
        && has_no_hooks
        && !PROTECTED_IN_GIT.iter().any(is_other)
        && has_plain_config(&folder.join("config"))
}

fn has_plain_config(config: &Path) -> bool {
    let is_link = fs::symlink_metadata(config).is_ok_and(|there| there.is_symlink());
    let (Ok(Some(text)), false) = (crate::sys::fs::read_text(config, 1 << 16), is_link) else {
        return false;
    };
    let mut names = "";
    text.lines().map(str::trim).filter(|line| !line.is_empty()).all(|line| {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let section =
                section.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            let known = PLAIN_CONFIG.iter().find(|(name, _)| *name == section);
            names = known.map_or("", |(_, names)| names);
            return known.is_some();
        }
        let Some((name, value)) = line.split_once('=') else { return false };
        // A value that goes on in the next line, or an address that names a program (`ext::`).
        !value.ends_with('\\')
            && !value.contains("::")
            && names.split(' ').any(|known| name.trim().eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    fn check(config: &str, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        git2::Repository::init(&top).unwrap();
        fs::create_dir(top.join("conf")).unwrap();
        fs::write(top.join("conf/more"), "[include]\npath = deeper\n").unwrap();
        fs::write(top.join("conf/deeper"), "[core]\nfsmonitor = ./fs/mon --now\n").unwrap();
        fs::write(top.join(".git/config"), config).unwrap();
        let mut found = paths_named_by_git(&top, Some(&top.join("home")));
        // Whoever runs this has a config, too.
        found.retain(|path| path.starts_with(&top));
        for expected in expect {
            let expected = top.join(expected);
            let is_there = found.iter().any(|path| {
                *path == expected || fs::canonicalize(path).ok().as_ref() == Some(&expected)
            });
            assert!(is_there, "{expected:?} of {config}: {found:?}");
        }
        assert!(
            expect.len() <= found.len() && (!expect.is_empty() || found.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn the_paths_that_git_reads_and_runs_by_itself_are_found() {
        check("[core]\nbare = false\n[user]\nname = a/b\n[remote \"o\"]\nurl = x/y\n", &[]);
        check("[core]\nbare\nhooksPath = tools/hooks\n", &["tools/hooks"]);
        check("[core]\nhooksPath = ~/hooks\n", &["home/hooks"]);
        check("[core]\nattributesFile = attrs\n", &["attrs"]);
        check("[filter \"x\"]\nclean = sh 'tools/clean.sh' %f\n", &[]);
        check("[filter \"x\"]\nclean = sh 'conf/more' %f\n", &["conf/more"]);
        check("[filter \"x\"]\nsmudge = tools/s s/a/b/\n", &["tools/s"]);
        check("[remote \"o\"]\nuploadpack = tools/up\n", &["tools/up"]);
        check("[alias]\nst = !scripts/st\n", &[]);
    }

    #[test]
    fn includes_are_followed() {
        check("[include]\npath = ../conf/more\n", &["conf/more", "conf/deeper", "./fs/mon"]);
    }

    #[test]
    fn a_fifo_as_config_names_nothing() {
        let folder = tempfile::tempdir().unwrap();
        git2::Repository::init(folder.path()).unwrap();
        let config = folder.path().join(".git/config");
        fs::remove_file(&config).unwrap();
        fifo(&config);
        assert_eq!(paths_named_by_git(folder.path(), None), Vec::<PathBuf>::new());
    }
}
