//! Reads the facts about the working folder's repository: its top and its remotes.
//!
//! This goes through libgit2, which starts no program that the repository's configuration names. Anybody may have
//! written a repository: its claims about its own location are ignored, secrets are cut out of addresses, and damage in
//! it is not an error here.

use super::repository::{ask_repository, describe_open_error};
use conversation::format::harmless::quote_name;
use git2::{ErrorCode, Index, Repository, StatusEntry, StatusOptions, StatusShow};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use sys::fs::real_path;

const REMOTES: usize = 20;

/// The facts about the repository that contains a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitFacts {
    /// The nearest folder with `.git`, at or above the working folder; none in a bare repository.
    pub toplevel: Option<PathBuf>,
    /// Names and addresses of the remotes, sorted by name; credentials are cut out of the addresses.
    pub remotes: Vec<(String, String)>,
    /// The branch: `main`, or `main, no commit yet`.
    pub branch: Option<String>,
    /// Notes on facts that could not be determined, with the reasons.
    pub notes: Vec<String>,
}

/// The nearest folder with `.git`, at or above this one. `core.worktree` could name any folder; the user works in the
/// one with `.git`. An empty folder of that name does not make a repository, as in git.
pub fn find_toplevel(folder: &Path) -> Option<PathBuf> {
    let holds_git = |folder: &&Path| {
        let git = folder.join(".git");
        let is_empty = || fs::read_dir(&git).is_ok_and(|mut entries| entries.next().is_none());
        fs::symlink_metadata(&git).is_ok() && !is_empty()
    };
    folder.ancestors().find(holds_git).map(Path::to_owned)
}

/// The nearest repository without a working tree, at or above a folder.
fn find_bare(folder: &Path) -> Option<PathBuf> {
    let is_bare = |folder: &&Path| {
        ["HEAD", "objects", "refs"].iter().all(|name| fs::metadata(folder.join(name)).is_ok())
    };
    folder.ancestors().find(is_bare).map(Path::to_owned)
}

/// The settings of the repository with this top, of its user and of the machine: keys in lower case, and values as they are.
/// Nothing where they cannot be read.
pub fn read_config(top: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |repository: Repository| {
        let config = repository.config()?;
        let (mut entries, mut all) = (config.entries(None)?, Vec::new());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            // `[core] bare`, without a value, means true; git2 panics when it is asked for that value.
            if entry.has_value() {
                let key = String::from_utf8_lossy(entry.name_bytes()).to_ascii_lowercase();
                all.push((key, entry.value_bytes().to_vec()));
            }
        }
        Ok(all)
    };
    ask_repository(top, read).unwrap_or_default()
}

/// Lists the tops of the submodules of the repository with this top.
pub fn list_submodules(top: &Path) -> Vec<PathBuf> {
    if !top.join(".gitmodules").is_file() {
        return Vec::new();
    }
    let list = |repository: Repository| {
        let submodules = repository.submodules()?;
        Ok(submodules.iter().map(|submodule| submodule.path().to_owned()).collect())
    };
    let paths: Vec<PathBuf> = ask_repository(top, list).unwrap_or_default();
    paths.into_iter().map(|path| top.join(path)).collect()
}

/// What libgit2 leaves out of its lists, with whether it is ignored: what is in an ignored folder beside files of the index, and
/// at a top that it takes for ignored (where the rules are `*` or `*/`).
pub(super) fn list_left_out(repository: &Repository, index: &Index) -> Vec<(PathBuf, bool)> {
    let is_ignored = |path: &Path| repository.is_path_ignored(path).unwrap_or(false);
    let mut folders = BTreeSet::from([PathBuf::new()]);
    let mut last = PathBuf::new();
    for entry in index.iter() {
        let folder = Path::new(OsStr::from_bytes(&entry.path)).parent().unwrap_or(&last);
        if *folder != last {
            last = folder.to_owned();
            let new = last.ancestors().take_while(|it| !folders.contains(*it));
            folders.extend(new.map(Path::to_owned).collect::<Vec<_>>());
        }
    }
    let Some(top) = repository.workdir() else { return Vec::new() };
    // A link may be in the place of a folder.
    let is_there =
        |folder: &Path| real_path(&top.join(folder)).is_some_and(|it| it == top.join(folder));
    let mut left_out = Vec::new();
    let is_top = |folder: &Path| folder.as_os_str().is_empty();
    for folder in folders.iter().filter(|it| is_top(it) || is_ignored(it) && is_there(it)) {
        for entry in fs::read_dir(top.join(folder)).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            let is_known = folders.contains(&path) || index.get_path(&path, 0).is_some();
            if !is_known && path != Path::new(".git") {
                let is_ignored = is_ignored(&path);
                left_out.push((path, is_ignored));
            }
        }
    }
    left_out
}

/// Lists the files and folders that git ignores in the tree with this top.
pub fn list_ignored(top: &Path) -> Vec<PathBuf> {
    let list = |repository: Repository| {
        let mut options = StatusOptions::new();
        options.show(StatusShow::Workdir).include_ignored(true);
        options.include_untracked(true).recurse_untracked_dirs(true);
        let statuses = repository.statuses(Some(&mut options))?;
        let ignored = statuses.iter().filter(|it| it.status().is_ignored());
        let path = |it: StatusEntry<'_>| PathBuf::from(OsStr::from_bytes(it.path_bytes()));
        let mut all: BTreeSet<PathBuf> = ignored.map(path).collect();
        let left_out = list_left_out(&repository, &repository.index()?).into_iter();
        all.extend(left_out.filter(|(_, is_ignored)| *is_ignored).map(|(path, _)| path));
        Ok(all)
    };
    let ignored = ask_repository(top, list).unwrap_or_default();
    ignored.iter().map(|it| top.join(it).components().collect()).collect()
}

/// Reads the facts about the repository of `cwd`. Starts no program, opens no connection and never fails.
pub fn read_facts(cwd: &Path) -> GitFacts {
    let mut facts = GitFacts { toplevel: find_toplevel(cwd), ..GitFacts::default() };
    let Some(place) = facts.toplevel.clone().or_else(|| find_bare(cwd)) else { return facts };
    let asked = ask_repository(&place, |repository| {
        Ok((remotes(&repository)?, describe_branch(&repository)))
    });
    match (asked, &facts.toplevel) {
        (Ok(((remotes, more), branch)), _) => {
            (facts.remotes, facts.branch) = (remotes, branch);
            if more > 0 {
                facts.notes.push(format!("{more} more remotes left out"));
            }
        }
        (Err(error), None) if error.code() == ErrorCode::NotFound => {}
        (Err(error), _) => facts.notes.push(describe_open_error(&place, &error)),
    }
    facts
}

/// The branch, or the commit where there is none.
fn describe_branch(repository: &Repository) -> Option<String> {
    Some(match repository.head() {
        Ok(head) if head.is_branch() => quote_name(head.shorthand().unwrap_or("HEAD")),
        Ok(head) => {
            let commit = head.target().map(|id| id.to_string()).unwrap_or_default();
            format!("none, HEAD is detached at {commit:.7}")
        }
        Err(error) if error.code() == ErrorCode::UnbornBranch => {
            let head = repository.find_reference("HEAD").ok()?;
            let branch = head.symbolic_target().ok()??;
            quote_name(branch.strip_prefix("refs/heads/").unwrap_or(branch)) + ", no commit yet"
        }
        Err(_) => return None,
    })
}

/// The first remotes by name, and the number of the others: each look-up reads the whole configuration.
fn remotes(repository: &Repository) -> Result<(Vec<(String, String)>, usize), git2::Error> {
    let names = repository.remotes()?;
    let mut names: Vec<&str> =
        names.iter_bytes().filter_map(|name| std::str::from_utf8(name).ok()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(REMOTES);
    let found = names.into_iter().take(REMOTES).filter_map(|name| {
        let remote = repository.find_remote(name).ok()?;
        let url = String::from_utf8_lossy(remote.url_bytes()).into_owned();
        Some((quote_name(name), quote_name(without_credentials(&url))))
    });
    Ok((found.collect(), more))
}

/// The address without its password and its query, which may have a token. The user of an ssh address is not a secret.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let is_ssh = scheme.is_empty() || scheme.to_ascii_lowercase().contains("ssh");
    let rest = if is_ssh { rest } else { rest.split(['?', '#']).next().unwrap_or_default() };
    let authority = rest.find('/').unwrap_or(rest.len());
    // A password with an unescaped slash moves the end of the authority; the last @ still ends it.
    let port = rest[..authority]
        .split_once(':')
        .is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let end = match rest[..authority].rfind('@') {
        None if scheme.is_empty() || port => None,
        None => rest.rfind('@'),
        found => found,
    };
    let Some(end) = end else { return format!("{scheme}{rest}") };
    let (user, host) = (&rest[..end], &rest[end + 1..]);
    let user = user.split([':', '/']).next().unwrap_or_default();
    if is_ssh && !user.is_empty() {
        format!("{scheme}{user}@{host}")
    } else {
        format!("{scheme}{host}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn repository() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        Repository::init(&path).unwrap();
        (dir, path)
    }

    #[test]
    fn credentials_are_cut_out_of_addresses() {
        let check = |url: &str, expect: &str| assert_eq!(without_credentials(url), expect, "{url}");
        check("https://github.com/a/b.git", "https://github.com/a/b.git");
        check("https://user:token@github.com/a/b", "https://github.com/a/b");
        check("https://ghp_token@github.com/a", "https://github.com/a");
        check("https://u:p@ss@host:8443/a", "https://host:8443/a");
        check("https://u:p/a@ss@host/a", "https://host/a");
        check("https://host:8443/@scope/a", "https://host:8443/@scope/a");
        check("https://host/a?private_token=x", "https://host/a");
        check("HTTPS://:t@host", "HTTPS://host");
        check("git@github.com:a/b.git", "git@github.com:a/b.git");
        check("ssh://git:secret@host:22/a", "ssh://git@host:22/a");
        check("user:secret@host:a/b", "user@host:a/b");
        check("../other@repo", "../other@repo");
        check("/srv/git/a.git", "/srv/git/a.git");
        check("https://ü@ü", "https://ü");
        check("", "");
    }

    #[test]
    fn top_and_remotes_are_found_from_below() {
        let (_dir, path) = repository();
        let repository = Repository::open(&path).unwrap();
        repository.remote("origin", "https://me:secret@host/x.git").unwrap();
        repository.remote("backup", "git@host:x.git").unwrap();
        fs::create_dir_all(path.join("a/b")).unwrap();
        let facts = read_facts(&path.join("a/b"));
        let remote = |name: &str, url: &str| (name.to_owned(), url.to_owned());
        assert_eq!(
            facts.remotes,
            [remote("backup", "git@host:x.git"), remote("origin", "https://host/x.git")]
        );
        assert_eq!((facts.toplevel, facts.notes), (Some(path), vec![]));
    }

    #[test]
    fn no_repository_is_no_note() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_facts(dir.path()), GitFacts::default());
        assert_eq!(read_facts(Path::new("/nonexistent/folder")), GitFacts::default());
    }

    #[test]
    fn a_bare_repository_has_no_top() {
        let dir = tempfile::tempdir().unwrap();
        let bare = Repository::init_bare(dir.path()).unwrap();
        bare.remote("origin", "host:x").unwrap();
        let facts = read_facts(&dir.path().join("objects"));
        assert_eq!((facts.toplevel, facts.remotes.len(), facts.notes.len()), (None, 1, 0));
    }

    #[test]
    fn damage_leaves_the_top_and_a_note() {
        let (_dir, path) = repository();
        fs::write(path.join(".git/config"), "[core\nbroken").unwrap();
        let damaged = read_facts(&path);
        assert_eq!(
            (damaged.toplevel.as_ref(), damaged.remotes.len(), damaged.notes.len()),
            (Some(&path), 0, 1)
        );
        let dir = tempfile::tempdir().unwrap();
        symlink("/nonexistent", dir.path().join(".git")).unwrap();
        let dangling = read_facts(dir.path());
        assert_eq!((dangling.toplevel.is_some(), dangling.notes.len()), (true, 1));
    }

    #[test]
    fn what_a_repository_says_about_its_place_is_not_believed() {
        let (_dir, path) = repository();
        Repository::open(&path).unwrap().config().unwrap().set_str("core.worktree", "/").unwrap();
        assert_eq!(read_facts(&path).toplevel, Some(path));
    }

    #[test]
    fn a_worktree_has_its_own_top() {
        let (_dir, path) = repository();
        let other = tempfile::tempdir().unwrap();
        let worktrees = path.join(".git/worktrees/w");
        fs::create_dir_all(&worktrees).unwrap();
        fs::write(worktrees.join("HEAD"), "ref: refs/heads/w\n").unwrap();
        fs::write(worktrees.join("commondir"), "../..\n").unwrap();
        fs::write(worktrees.join("gitdir"), format!("{}/.git\n", other.path().display())).unwrap();
        fs::write(other.path().join(".git"), format!("gitdir: {}\n", worktrees.display())).unwrap();
        Repository::open(&path).unwrap().remote("origin", "host:x").unwrap();
        let facts = read_facts(other.path());
        assert_eq!((facts.toplevel.as_deref(), facts.remotes.len()), (Some(other.path()), 1));
    }

    #[test]
    fn programs_that_the_configuration_names_are_not_started() {
        let (_dir, path) = repository();
        let mark = path.join("started");
        let program = format!("touch {}", mark.display());
        let mut config = Repository::open(&path).unwrap().config().unwrap();
        for key in [
            "core.fsmonitor",
            "core.sshCommand",
            "core.pager",
            "gpg.program",
            "diff.external",
            "core.hooksPath",
        ] {
            config.set_str(key, &program).unwrap();
        }
        Repository::open(&path)
            .unwrap()
            .remote("origin", &format!("ext::sh -c 'touch {}'", mark.display()))
            .unwrap();
        assert_eq!(read_facts(&path).remotes.len(), 1);
        assert!(!mark.exists());
    }
}
