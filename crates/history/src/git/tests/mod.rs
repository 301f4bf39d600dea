//! Histories held against what `git` prints of the same repositories.

mod cached;
mod random;
mod trouble;
mod walks;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::commit_text::read_commit_texts;
use super::{HistoryLookup, REPORT_TIME, START_TIME, read_history};
use crate::summaries::CommitText;
use crate::{FileCommit, History};

/// A repository and a folder for what is kept, gone at the end.
pub(super) struct World {
    base: tempfile::TempDir,
    pub(super) top: PathBuf,
    time: u64,
    author: String,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self::without_repository();
        world.git(["init", "--quiet", "-b", "main"]);
        world.time += 1;
        world
    }

    pub(super) fn without_repository() -> Self {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().canonicalize().unwrap().join("work");
        fs::create_dir(&top).unwrap();
        Self { base, top, time: 1_700_000_000, author: "Ann <ann@x>".into() }
    }

    pub(super) fn base(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    fn command<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new("git");
        let (name, email) = self.author.trim_end_matches('>').split_once(" <").unwrap();
        let date = format!("{} +0100", self.time);
        command.current_dir(folder).args(args).env_clear();
        for (key, value) in [
            ("PATH", std::env::var("PATH").unwrap().as_str()),
            ("HOME", self.base().to_str().unwrap()),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_AUTHOR_NAME", name),
            ("GIT_AUTHOR_EMAIL", email),
            ("GIT_AUTHOR_DATE", &date),
            ("GIT_COMMITTER_NAME", "Committer"),
            ("GIT_COMMITTER_EMAIL", "c@x"),
            ("GIT_COMMITTER_DATE", &date),
            ("GIT_ALLOW_PROTOCOL", "file"),
        ] {
            command.env(key, value);
        }
        command
    }

    /// What git prints, in a folder.
    pub(super) fn git_in<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        let mut command = self.command(folder, args);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(super) fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        self.git_in(&self.top, args)
    }

    /// A merge that may stop at conflicts.
    pub(super) fn merge(&mut self, branch: &str) {
        self.time += 60;
        let _ = self
            .command(&self.top, ["merge", "--quiet", "--no-ff", "--no-edit", branch])
            .output()
            .unwrap();
    }

    pub(super) fn by(&mut self, author: &str) -> &mut Self {
        author.clone_into(&mut self.author);
        self
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        let to = self.top.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(self.top.join(from), to).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.top.join(path)).unwrap();
    }

    /// Commits all that there is, and gives the id.
    pub(super) fn commit(&mut self, message: &str) -> String {
        self.time += 60;
        self.git(["add", "-A"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(["rev-parse", "HEAD"])
    }

    /// Writes files and commits them.
    pub(super) fn change(&mut self, paths: &[&str]) -> String {
        for path in paths {
            let time = self.time;
            let old = fs::read_to_string(self.top.join(path)).unwrap_or_else(|_| text(path));
            self.write(path, format!("{old}changed at {time}\n"));
        }
        self.commit(&format!("Change {}", paths.join(" and ")))
    }

    pub(super) fn import(&self, stream: &[u8]) {
        let mut command =
            self.command(&self.top, ["fast-import", "--quiet", "--export-marks=../marks"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stream).unwrap();
        assert!(child.wait().unwrap().success());
    }

    pub(super) fn cache(&self) -> PathBuf {
        self.base().join("cache")
    }

    pub(super) fn look(&self, path: impl AsRef<Path>) -> HistoryLookup {
        read_history(&self.top.join(path), &self.cache(), REPORT_TIME, &mut || true)
    }

    /// A look that finds nothing kept.
    pub(super) fn fresh(&self, path: impl AsRef<Path>) -> HistoryLookup {
        let cache = tempfile::tempdir_in(self.base()).unwrap();
        read_history(&self.top.join(path), cache.path(), REPORT_TIME, &mut || true)
    }

    pub(super) fn history(&self, path: impl AsRef<Path>) -> History {
        let look = self.fresh(path.as_ref());
        look.history.unwrap_or_else(|| panic!("{:?}: {:?}", path.as_ref(), look.notes))
    }

    /// The commits of a file as `git log --follow` has them.
    pub(super) fn follow(&self, path: impl AsRef<Path>) -> Vec<String> {
        let args = ["log", "--follow", "--format=%H", "--"].map(OsStr::new);
        lines(&self.git(args.into_iter().chain([path.as_ref().as_os_str()])))
    }

    /// What `git shortlog -nse` prints of a path, sorted as text.
    pub(super) fn shortlog(&self, path: &str) -> Vec<String> {
        let mut people: Vec<String> = lines(&self.git(["shortlog", "-nse", "HEAD", "--", path]))
            .iter()
            .map(|line| {
                format!("{:>6}", line.trim_start().split_once('\t').unwrap().0)
                    + &line[line.find('\t').unwrap()..]
            })
            .collect();
        people.sort();
        people
    }

    /// The commits of a path as `git rev-list` has them, merges simplified.
    pub(super) fn rev_list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let args = ["rev-list", "HEAD", "--"].map(OsStr::new);
        lines(&self.git(args.into_iter().chain([path.as_ref().as_os_str()])))
    }
}

/// Twelve lines that no other path's are like.
pub(super) fn text(seed: &str) -> String {
    (0..12).map(|line| format!("{seed} has line {line} of {seed}\n")).collect()
}

pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

pub(super) fn ids(history: &History) -> Vec<String> {
    history.commits.iter().map(|commit| commit.id.clone()).collect()
}

/// `path together` of the files that changed with it.
pub(super) fn neighbours(history: &History) -> Vec<String> {
    let line = |file: &crate::CoChangedFile| {
        format!("{} {}", String::from_utf8_lossy(&file.path), file.together)
    };
    history.co_changed.iter().map(line).collect()
}

/// People as `git shortlog -nse` prints them, sorted as text.
pub(super) fn shortlog(history: &History) -> Vec<String> {
    let mut people: Vec<String> = history
        .people
        .iter()
        .map(|person| format!("{:6}\t{} <{}>", person.commits, person.name, person.email))
        .collect();
    people.sort();
    people
}

/// How often other files are named in these commits by `git show`.
pub(super) fn counted(world: &World, ids: &[String], path: &[u8]) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    for id in ids {
        let shown = world
            .command(&world.top, ["show", "--format=", "--name-only", "-z", "-M", id])
            .output()
            .unwrap();
        for name in shown.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            if name != path {
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    counts
}

pub(super) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// What a commit says and did to the file.
pub(super) fn commit_text(world: &World, commit: &FileCommit) -> Option<CommitText> {
    read_commit_texts(&world.top, vec![commit.clone()], &mut || true).unwrap().remove(0)
}

/// What a commit did to the file.
pub(super) fn patch(world: &World, commit: &FileCommit) -> String {
    commit_text(world, commit).unwrap().diff
}
