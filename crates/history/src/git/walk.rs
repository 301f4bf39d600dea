//! Finds the commits that touched a file, from a head down: through renames, and without the sides that a merge did not
//! take.
//!
//! At each commit the file's entry is compared with that in each parent. If a parent has the same entry, the walk
//! continues only there (git's default simplification); else the commit touched the file. If a parent lacks the file,
//! it may have had another path there, and the walk continues with that path. This is what `git log --follow` does,
//! with three differences: copies are not followed, since they are other files; merges are simplified as without
//! `--follow`; and the sides of a merge may have different paths.
//!
//! libgit2's own walk would read the sides that are skipped here, and commits of any size.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use git2::{Commit, Oid};

use super::renames::{diff_trees, find_old_path};
use super::repository::{FileEntry, Objects};
use crate::{CommitKind, FileChange, FileCommit};
use conversation::format::harmless::truncate;
use conversation::limits;

/// Minimum number of files for a first commit to count as an import.
const MIN_IMPORT: usize = 10;

/// Maximum number of notes on damage.
const MAX_NOTES: usize = 8;

/// A commit, the file's path there, and the entry at this path.
struct FileVersion<'repository> {
    commit: Commit<'repository>,
    path: Rc<[u8]>,
    entry: Option<FileEntry>,
}

pub(super) struct Walk<'a, 'repository> {
    objects: &'a Objects<'repository>,
    is_shallow: bool,
    /// The versions that the walk has not visited yet, by commit time and then in the order of finding; the newest is
    /// next.
    pending: BTreeMap<(i64, Reverse<usize>), FileVersion<'repository>>,
    found: HashSet<Oid>,
    /// The commits that touched the file, newest first.
    pub(super) commits: Vec<FileCommit>,
    pub(super) commits_read: u64,
    /// The time of the newest commit that was not read, where the walk stopped early.
    pub(super) read_back_to: Option<i64>,
    pub(super) notes: Vec<String>,
}

impl<'a, 'repository> Walk<'a, 'repository> {
    pub(super) fn new(objects: &'a Objects<'repository>, is_shallow: bool) -> Self {
        Self {
            objects,
            is_shallow,
            pending: BTreeMap::new(),
            found: HashSet::new(),
            commits: Vec::new(),
            commits_read: 0,
            read_back_to: None,
            notes: Vec::new(),
        }
    }

    /// Walks from a head until all is read, [`limits::HISTORY_COMMITS`] are read, or `must_stop` returns true.
    pub(super) fn walk_commits(&mut self, head: Oid, path: &[u8], must_stop: &dyn Fn() -> bool) {
        match self.read_version(head, &path.into()) {
            Ok(version) => self.push(version),
            Err(note) => self.add_note(note),
        }
        while let Some(((time, _), version)) = self.pending.pop_last() {
            if self.commits_read >= limits::HISTORY_COMMITS || must_stop() {
                self.read_back_to = Some(time);
                break;
            }
            self.commits_read += 1;
            self.visit(version);
        }
    }

    /// Visits one commit: decides whether it touched the file, and where to continue.
    fn visit(&mut self, version: FileVersion<'repository>) {
        let mut parents = Vec::new();
        let mut is_cut_off = false;
        for id in version.commit.parent_ids() {
            match self.read_version(id, &version.path) {
                Ok(parent) => parents.push(parent),
                Err(note) => {
                    is_cut_off = true;
                    // libgit2 does not know that a clone is shallow in a working tree that was added to it.
                    if !self.is_shallow {
                        self.add_note(note);
                    }
                }
            }
        }
        if let Some(same) = parents.iter().position(|parent| parent.entry == version.entry) {
            self.push(parents.swap_remove(same));
            return;
        }
        if version.entry.is_some() {
            for parent in parents.iter_mut().filter(|parent| parent.entry.is_none()) {
                self.follow_rename(&version, parent);
            }
        }
        let change = match parents.first() {
            Some(_) if version.entry.is_none() => FileChange::Deleted,
            Some(first) if first.path != version.path => {
                FileChange::Renamed { from: first.path.to_vec() }
            }
            Some(_) if parents.iter().any(|parent| parent.entry.is_some()) => FileChange::Modified,
            _ => FileChange::Added,
        };
        let kind = match parents.len() {
            0 if is_cut_off || self.is_shallow => CommitKind::Boundary,
            0 if self.is_import(&version.commit) => CommitKind::Import,
            0 | 1 => CommitKind::Plain,
            _ => CommitKind::Merge,
        };
        // The walk may end at a first commit that never had the file.
        let is_touched = version.entry.is_some() || !parents.is_empty();
        if is_touched {
            self.commits.push(describe(&version, change, kind));
        }
        for parent in parents {
            self.push(parent);
        }
    }

    /// Finds the old path in a parent that lacks the file, if it was renamed.
    fn follow_rename(
        &self,
        version: &FileVersion<'repository>,
        parent: &mut FileVersion<'repository>,
    ) {
        let trees = (parent.commit.tree_id(), version.commit.tree_id());
        if let Some(path) = find_old_path(self.objects, trees, &version.path) {
            parent.entry = self.objects.find_file(parent.commit.tree_id(), &path).unwrap_or(None);
            parent.path = path.into();
        }
    }

    fn is_import(&self, commit: &Commit<'_>) -> bool {
        let diff = diff_trees(self.objects, None, commit.tree_id(), &[]);
        diff.is_ok_and(|diff| diff.deltas().len() > MIN_IMPORT)
    }

    fn read_version(&self, id: Oid, path: &Rc<[u8]>) -> Result<FileVersion<'repository>, String> {
        let commit = self.objects.read_commit(id)?;
        let entry = self.objects.find_file(commit.tree_id(), path)?;
        Ok(FileVersion { commit, path: Rc::clone(path), entry })
    }

    fn push(&mut self, version: FileVersion<'repository>) {
        if self.found.insert(version.commit.id()) {
            let key = (version.commit.time().seconds(), Reverse(self.found.len()));
            self.pending.insert(key, version);
        }
    }

    fn add_note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn describe(version: &FileVersion<'_>, change: FileChange, kind: CommitKind) -> FileCommit {
    let commit = &version.commit;
    let author = commit.author();
    let text = |bytes| truncate(String::from_utf8_lossy(bytes).trim(), limits::COMMIT_SUBJECT);
    FileCommit {
        id: commit.id().to_string(),
        time: author.when().seconds(),
        offset: author.when().offset_minutes(),
        name: text(author.name_bytes()),
        email: text(author.email_bytes()),
        subject: text(commit.summary_bytes().unwrap_or_default()),
        path: version.path.to_vec(),
        change,
        kind,
    }
}
