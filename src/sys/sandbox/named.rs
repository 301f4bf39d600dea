//! What a repository's config names: files that git reads as config, folders of hooks, programs that it runs by itself.
//! A command that may write one of them runs again outside of its walls. It reads; it judges by paths alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sandbox::protected::Ghost;
use crate::sys::git;
use crate::sys::names::expand_home;

/// The paths that are taken from a config.
const MOST: usize = 100;

/// A path that something runs or reads by itself, whether anything stands there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// Absolute; links are not followed yet.
    pub(super) path: PathBuf,
    /// What stands in for it while it does not exist.
    pub(super) ghost: Ghost,
}

/// What the config of the repository at `top` names. Nothing where it cannot be read: git runs nothing of it then.
pub(super) fn by_git(top: &Path, home: Option<&Path>) -> Vec<Named> {
    let Some(config) = git::settings(top) else { return Vec::new() };
    let mut found = Vec::new();
    // What an included file includes is named from that file's folder.
    let mut bases = git::folders(&top.join(".git"));
    let Ok(mut entries) = config.entries(None) else { return Vec::new() };
    while let Some(Ok(entry)) = entries.next() {
        let key = entry.name_bytes().to_ascii_lowercase();
        let key = String::from_utf8_lossy(&key);
        let value = Path::new(OsStr::from_bytes(entry.value_bytes()));
        match kind(&key) {
            Some(Kind::Include) => {
                let path = expand_home(value, home);
                let paths: Vec<PathBuf> = bases.iter().map(|base| base.join(&path)).collect();
                let there: Vec<PathBuf> =
                    paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
                bases.extend(there.iter().filter_map(|path| Some(path.parent()?.to_owned())));
                // Most are named in the repository's own config.
                let paths =
                    if there.is_empty() { paths.into_iter().take(1).collect() } else { there };
                found.extend(paths.into_iter().map(|path| Named { path, ghost: Ghost::File }));
            }
            Some(Kind::Path(ghost)) => {
                found.push(Named { path: top.join(expand_home(value, home)), ghost });
            }
            // Words for a shell: the first is a program, others may be scripts.
            Some(Kind::Program) => {
                let words = String::from_utf8_lossy(entry.value_bytes()).into_owned();
                let words = words.split(|c: char| c.is_whitespace() || "'\"!;&|()".contains(c));
                let words = words.filter(|word| !word.is_empty()).enumerate();
                found.extend(words.filter(|(_, word)| word.contains('/')).filter_map(
                    |(at, word)| {
                        let path = top.join(expand_home(Path::new(word), home));
                        (at == 0 || path.is_file()).then_some(Named { path, ghost: Ghost::Folder })
                    },
                ));
            }
            None => {}
        }
        bases.truncate(MOST);
        if found.len() >= MOST {
            break;
        }
    }
    found
}

/// How a value is a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Include,
    Path(Ghost),
    Program,
}

/// Names of git-config(1), in lower case. Aliases, which a person types, are the project's own matter.
fn kind(key: &str) -> Option<Kind> {
    let (section, name) = (key.split('.').next()?, key.rsplit('.').next()?);
    Some(match (section, name) {
        ("include" | "includeif", "path") => Kind::Include,
        ("core", "hookspath") => Kind::Path(Ghost::Folder),
        ("core", "attributesfile") => Kind::Path(Ghost::File),
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
        | ("mergetool" | "difftool" | "browser" | "man", "cmd")
        | ("trailer", "command" | "cmd")
        | ("hook", "command")
        | ("uploadpack", "packobjectshook")
        | ("pager", _) => Kind::Program,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    fn check(config: &str, expect: &[(&str, Ghost)]) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        git2::Repository::init(&top).unwrap();
        fs::create_dir(top.join("conf")).unwrap();
        fs::write(top.join("conf/more"), "[include]\npath = deeper\n").unwrap();
        fs::write(top.join("conf/deeper"), "[core]\nfsmonitor = ./fs/mon --now\n").unwrap();
        fs::write(top.join(".git/config"), config).unwrap();
        let mut found = by_git(&top, Some(&top.join("home")));
        // Whoever runs this has a config, too.
        found.retain(|named| named.path.starts_with(&top));
        for (path, ghost) in expect {
            let is_there = found.iter().any(|named| {
                let path = top.join(path);
                named.ghost == *ghost
                    && (named.path == path || fs::canonicalize(&named.path).ok() == Some(path))
            });
            assert!(is_there, "{path} of {config}: {found:?}");
        }
        assert!(
            expect.len() <= found.len() && (!expect.is_empty() || found.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn what_git_reads_and_runs_by_itself_is_named() {
        check("[core]\nbare = false\n[user]\nname = a/b\n[remote \"o\"]\nurl = x/y\n", &[]);
        check("[core]\nhooksPath = tools/hooks\n", &[("tools/hooks", Ghost::Folder)]);
        check("[core]\nhooksPath = ~/hooks\n", &[("home/hooks", Ghost::Folder)]);
        check("[core]\nattributesFile = attrs\n", &[("attrs", Ghost::File)]);
        check("[filter \"x\"]\nclean = sh 'tools/clean.sh' %f\n", &[]);
        check("[filter \"x\"]\nclean = sh 'conf/more' %f\n", &[("conf/more", Ghost::Folder)]);
        check("[filter \"x\"]\nsmudge = tools/s s/a/b/\n", &[("tools/s", Ghost::Folder)]);
        check("[alias]\nst = !scripts/st\n", &[]);
    }

    #[test]
    fn includes_are_followed() {
        check(
            "[include]\npath = ../conf/more\n",
            &[
                ("conf/more", Ghost::File),
                ("conf/deeper", Ghost::File),
                ("./fs/mon", Ghost::Folder),
            ],
        );
    }

    #[test]
    fn a_config_that_would_be_waited_for_names_nothing() {
        let folder = tempfile::tempdir().unwrap();
        git2::Repository::init(folder.path()).unwrap();
        let config = folder.path().join(".git/config");
        fs::remove_file(&config).unwrap();
        fifo(&config);
        assert_eq!(by_git(folder.path(), None), []);
    }
}
