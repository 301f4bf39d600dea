//! The paths that a repository's config names: files that git reads as config, folders of hooks, programs that it runs by
//! itself. A command that may write one of them runs again outside of its sandbox. And whether a new repository runs nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::scan::PROTECTED_IN_GIT;
use crate::sandbox::protected::{Group, names_in};
use crate::sys::git;
use crate::sys::names::expand_home;

/// Maximum number of paths that are taken from a config.
const MAX_PATHS: usize = 100;

/// Returns the absolute paths that the config of the repository at `top` names, whether they exist or not. None if the
/// config cannot be read: then git runs nothing of it.
///
/// Whatever is not known to be harmless counts: a key that ends in path, file or dir names one path, each other one has
/// words for a shell. Aliases, which a person types, are the project's own.
pub(super) fn paths_named_by_git(top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(config) = git::read_config(top) else { return Vec::new() };
    let Ok(mut entries) = config.entries(None) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut include_folders = git::git_folders(&top.join(".git"));
    while let Some(Ok(entry)) = entries.next() {
        let (section, name) = split_key(entry.name_bytes());
        // `[core] bare`, without a value, means true; git2 panics when it is asked for that value.
        if !entry.has_value() || is_plain(&section, &name) || section == "alias" {
            continue;
        }
        let value = expand_home(Path::new(OsStr::from_bytes(entry.value_bytes())), home);
        if section.starts_with("include") {
            // From the folder of the file that names it: any file of the config.
            let candidates = include_folders.iter().map(|folder| folder.join(&value));
            let candidates: Vec<PathBuf> = candidates.collect();
            let found = candidates.iter().filter(|path| path.exists());
            include_folders.extend(found.filter_map(|path| Some(path.parent()?.to_owned())));
            paths.extend(candidates);
        } else if ["path", "file", "dir"].iter().any(|ending| name.ends_with(ending)) {
            paths.push(top.join(value));
        } else {
            let words = String::from_utf8_lossy(entry.value_bytes()).into_owned();
            let words = words.split(|c: char| c.is_whitespace() || "'\"!;&|()".contains(c));
            let words = words.filter(|word| !word.is_empty()).enumerate();
            paths.extend(words.filter_map(|(at, word)| {
                let path = top.join(expand_home(Path::new(word), home));
                // The first one without a slash is looked up in PATH.
                let is_program = at == 0 && word.contains('/') && !path.is_dir();
                (is_program || at > 0 && path.is_file()).then_some(path)
            }));
        }
        include_folders.truncate(MAX_PATHS);
        if paths.len() >= MAX_PATHS {
            break;
        }
    }
    paths
}

/// Splits a key of git's config into its section and its name, in lower case, without a subsection.
fn split_key(key: &[u8]) -> (String, String) {
    let key = String::from_utf8_lossy(key).to_ascii_lowercase();
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    (part(key.split('.').next()), part(key.rsplit('.').next()))
}

fn is_plain(section: &str, name: &str) -> bool {
    names_in(Group::Plain).any(|known| known.split_once('.') == Some((section, name)))
}

/// Returns whether a path is a repository's own folder in which git runs nothing by itself: no hooks but samples, and a config
/// as `git init` and `git clone` write it. Builds and clones make such repositories, and go on to use them.
pub(super) fn runs_nothing(folder: &Path) -> bool {
    let kind = |path: &Path| fs::symlink_metadata(path).ok().map(|there| there.file_type());
    let has_only_samples = |hooks: &Path| {
        let is_sample = |hook: fs::DirEntry| hook.file_name().as_bytes().ends_with(b".sample");
        fs::read_dir(hooks).is_ok_and(|mut hooks| hooks.all(|hook| hook.is_ok_and(is_sample)))
    };
    PROTECTED_IN_GIT.iter().all(|name| {
        let path = folder.join(name);
        match (kind(&path), *name) {
            (Some(kind), "config") => kind.is_file() && has_plain_config(&path),
            (Some(kind), "hooks") => kind.is_dir() && has_only_samples(&path),
            (there, name) => there.is_none() && name != "config",
        }
    })
}

fn has_plain_config(config: &Path) -> bool {
    // An included file is read at once, whatever it is.
    let text = crate::sys::fs::read_text(config, 1 << 16).ok().flatten();
    let has_includes = text.is_none_or(|text| text.to_ascii_lowercase().contains("[include"));
    let config = if has_includes { None } else { git2::Config::open(config).ok() };
    let Some(mut entries) = config.as_ref().and_then(|config| config.entries(None).ok()) else {
        return false;
    };
    while let Some(entry) = entries.next() {
        let is_fine = entry.is_ok_and(|entry| {
            let (section, name) = split_key(entry.name_bytes());
            // An address may name a program (`ext::`).
            let names_program = || entry.value_bytes().windows(2).any(|pair| pair == b"::");
            is_plain(&section, &name) && (!entry.has_value() || !names_program())
        });
        if !is_fine {
            return false;
        }
    }
    true
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
        fs::write(top.join("file"), "").unwrap();
        fs::write(top.join("conf/more"), "[include]\npath = deeper\n").unwrap();
        fs::write(top.join("conf/deeper"), "[core]\nfsmonitor = ./fs/mon --now\n").unwrap();
        fs::write(top.join(".git/config"), config).unwrap();
        let mut found = paths_named_by_git(&top, Some(&top.join("home")));
        // The user's own config counts, too.
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
        for named in [
            "remote \"o\"]\nuploadpack",
            "lfs \"customtransfer.x\"]\npath",
            "sendemail]\nsmtpserver",
            "new]\nkey",
        ] {
            check(&format!("[{named} = tools/up\n"), &["tools/up"]);
        }
        check("[filter \"x\"]\nclean = python3 file\n[safe]\ndirectory = conf/\n", &["file"]);
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
