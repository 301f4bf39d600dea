//! The rules of `.gitignore`, `.ignore`, `.git/info/exclude` and the user's own ignore file, for searches. A library
//! would open these files of a repository whatever they are; here only regular files of at most 1 MiB are read, the
//! others are skipped and reported.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::fs::read_within;
use super::lock::lock_mutex;
use super::names::name_some;
use super::read::open_regular;
use conversation::format::harmless::quote_name;
use conversation::limits;

/// The files of rules in order of precedence. The first is not git's: it applies across repositories.
const FILES: [&str; 3] = [".ignore", ".gitignore", ".git/info/exclude"];

const MAX_NAMED: usize = 3;

pub(super) type LeftOut = Arc<Mutex<Vec<PathBuf>>>;

/// Describes the ignore files that were skipped; `None` if there are none.
pub(super) fn describe_left_out(left_out: &LeftOut) -> Option<String> {
    let paths = lock_mutex(left_out);
    let names: Vec<String> = paths.iter().map(quote_name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "ignore rules not read, since they are not in a regular file of at most 1 MiB: {}",
            name_some(&names, MAX_NAMED, ", ")
        )
    })
}

struct Level {
    folder: PathBuf,
    is_repository: bool,
    rules: [Gitignore; 3],
}

/// The rules of the folders that contain the present entry of a walk.
pub(super) struct IgnoreRules {
    levels: Vec<Level>,
    /// The rules of the user (`core.excludesFile`, `~/.config/git/ignore`), which have the lowest precedence.
    own: Gitignore,
    left_out: LeftOut,
}

impl IgnoreRules {
    /// Reads the rules above the folder that is searched, if it is in a repository.
    pub(super) fn new(folder: &Path, left_out: LeftOut) -> Self {
        let repository = folder.ancestors().find(|above| above.join(".git").exists());
        let (own, _) = GitignoreBuilder::new(repository.unwrap_or(folder)).build_global();
        let mut rules = Self { levels: Vec::new(), own, left_out };
        if repository.is_some() {
            let above: Vec<&Path> = folder.ancestors().skip(1).collect();
            above.into_iter().rev().for_each(|above| rules.enter(above));
        }
        rules
    }

    /// Returns whether an entry, by its path without links, is ignored. Entries come in the order of a walk.
    pub(super) fn ignores(&mut self, path: &Path, is_folder: bool) -> bool {
        let parent = path.parent().unwrap_or(path);
        while self.levels.last().is_some_and(|level| !parent.starts_with(&level.folder)) {
            self.levels.pop();
        }
        if self.levels.last().is_none_or(|level| level.folder != parent) {
            self.enter(parent);
        }
        for file in 0..FILES.len() {
            for level in self.levels.iter().rev() {
                match level
                    .rules
                    .get(file)
                    .map_or(Match::None, |rules| rules.matched(path, is_folder))
                {
                    Match::None => {}
                    found => return found.is_ignore(),
                }
                if file > 0 && level.is_repository {
                    break;
                }
            }
        }
        self.own.matched(path, is_folder).is_ignore()
    }

    fn enter(&mut self, folder: &Path) {
        let rules = FILES.map(|name| self.read(folder, name));
        let is_repository = folder.join(".git").exists();
        self.levels.push(Level { folder: folder.to_owned(), is_repository, rules });
    }

    fn read(&self, folder: &Path, name: &str) -> Gitignore {
        let path = folder.join(name);
        if std::fs::metadata(&path).is_err() {
            return Gitignore::empty();
        }
        let text = match open_regular(&path) {
            Ok((file, there)) => read_within(file, there.len(), limits::IGNORE_FILE).ok(),
            Err(_) => None,
        };
        let Some(text) = text else {
            lock_mutex(&self.left_out).push(path);
            return Gitignore::empty();
        };
        let mut builder = GitignoreBuilder::new(folder);
        for line in String::from_utf8_lossy(&text).lines() {
            // Invalid rules are skipped, as in git.
            let _ = builder.add_line(None, line);
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }
}
