//! Finds the commits that touched a file, from a head down: through renames, and past the sides that a merge did not take.
//!
//! At each commit the file's entry is compared with that in each parent. Where a parent has the same entry, the walk goes on
//! only there (git's default simplification); else the commit touched the file. Where a parent lacks the file, it may have
//! had another path there, and the walk goes on with that path. This is what `git log --follow` does, with three
//! differences: copies are not followed, since they are other files; merges are simplified as without `--follow`; and each
//! line of history has its own path.
//!
//! A walk that comes to a head in the cache takes over what was cached, and goes on where that reading stopped, if it did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use git2::{Commit, Oid};

use super::cache::{Cache, FrontierCommit};
use super::commit_text::decode;
use super::current_path::{NO_STATE, WalkState, update_paths};
use super::repository::{FileEntry, Objects, PathTrace};
use super::tree_diff::{Side, TreeDiff};
use super::worker::Progress;
use crate::co_change::{CoChange, CoChangeCounts, LARGEST_COMMIT, MAX_LISTED, add_weight, weight};
use crate::{CommitKind, FileChange, FileCommit};
use conversation::format::harmless::truncate;
use conversation::limits;

/// A first commit of more files is an import.
const MIN_IMPORT: usize = 10;

/// A walk reads at least this many commits, so that each start gets further, however slow the machine is.
const MIN_READ: u64 = 100;

/// At most this many notes on damage are kept.
const MAX_NOTES: usize = 8;

/// A commit, and the file's path there.
struct CommitAtPath<'repository> {
    commit: Commit<'repository>,
    path: Rc<[u8]>,
    trace: PathTrace,
}

pub(super) struct Walk<'a, 'repository> {
    objects: &'a Objects<'repository>,
    /// The commits at which a shallow clone ends.
    shallow: HashSet<Oid>,
    progress: &'a Progress,
    /// What the walk has still to look at, by commit time and state; the newest is next.
    pending: BTreeMap<(i64, Reverse<usize>), CommitAtPath<'repository>>,
    visited: HashSet<(Oid, Rc<[u8]>)>,
    states: Vec<WalkState>,
    recorded: HashSet<Oid>,
    /// The commits that were taken from the cache, with the file's path there.
    cached: Option<HashSet<(Oid, Vec<u8>)>>,
    /// For each path in `co_changes`, the newest state that has it.
    last_seen: HashMap<Vec<u8>, usize>,
    /// The commits that touched the file, newest first.
    pub(super) commits: Vec<FileCommit>,
    pub(super) co_changes: CoChangeCounts,
    pub(super) commits_read: u64,
    pub(super) notes: Vec<String>,
}

impl<'a, 'repository> Walk<'a, 'repository> {
    pub(super) fn new(
        objects: &'a Objects<'repository>,
        shallow: HashSet<Oid>,
        progress: &'a Progress,
        (head, path): (Oid, &[u8]),
    ) -> Self {
        let mut walk = Self {
            objects,
            shallow,
            progress,
            pending: BTreeMap::new(),
            visited: HashSet::new(),
            states: Vec::new(),
            recorded: HashSet::new(),
            cached: None,
            last_seen: HashMap::new(),
            commits: Vec::new(),
            co_changes: CoChangeCounts::default(),
            commits_read: 0,
            notes: Vec::new(),
        };
        walk.push_commit(head, path.into(), NO_STATE);
        walk
    }

    /// Walks until all is read or `must_stop` says so.
    pub(super) fn walk_commits(&mut self, cache: &mut Cache, must_stop: &dyn Fn() -> bool) {
        while let Some((key, next)) = self.pending.pop_last() {
            if self.commits_read >= MIN_READ && must_stop() {
                self.pending.insert(key, next);
                break;
            }
            let (_, Reverse(state)) = key;
            if !self.resume_from_cache(&next, state, cache) {
                self.commits_read += 1;
                self.progress.advance();
                self.visit(next, state);
            }
        }
    }

    /// The commits that are still to be read, and the time of the newest of them.
    pub(super) fn frontier(&self) -> (Vec<FrontierCommit>, Option<i64>) {
        let pending = self.pending.values().rev();
        let frontier = pending.map(|next| FrontierCommit {
            id: next.commit.id().to_string(),
            path: next.path.to_vec(),
        });
        (frontier.collect(), self.pending.keys().next_back().map(|(time, _)| *time))
    }

    /// Renames the files in `co_changes` to their paths at the head, and drops the file itself.
    pub(super) fn update_paths(&mut self, path: &[u8], must_stop: &dyn Fn() -> bool) {
        let must_stop = || {
            self.progress.advance();
            must_stop()
        };
        let (counts, last_seen) = (&mut self.co_changes, &self.last_seen);
        update_paths(self.objects, &self.states, counts, last_seen, &must_stop);
        self.co_changes.files.remove(path);
    }

    /// Counts for each of the other files the commits that are older than it: they tell nothing of the two together. A path
    /// that a commit lacks is taken to be missing from all older ones, so a few trees are read for each file.
    pub(super) fn count_older_commits(&mut self, must_stop: &dyn Fn() -> bool) {
        let files = self.co_changes.files.iter_mut();
        let mut files: Vec<(&Vec<u8>, &mut CoChange)> =
            files.filter(|(_, counts)| counts.together > 1 && !counts.is_gone).collect();
        files.sort_by_key(|(_, counts)| Reverse(counts.weight()));
        for (path, counts) in files.into_iter().take(MAX_LISTED) {
            if must_stop() {
                return;
            }
            self.progress.advance();
            let lacks_file = |commit: &FileCommit| {
                let commit = self.objects.read_commit(Oid::from_str(&commit.id).ok()?).ok()?;
                let trace = self.objects.trace_path(commit.tree_id(), path, None).ok()?;
                Some(trace.entry.is_none())
            };
            let with_file =
                self.commits.partition_point(|commit| !lacks_file(commit).unwrap_or(false));
            counts.before.clear();
            for commit in &self.commits[with_file..] {
                if commit.kind == CommitKind::Plain {
                    add_weight(&mut counts.before, commit.committed, weight(commit.files));
                }
            }
        }
    }

    /// Takes over what is cached for this commit. Returns whether the cache knows all below it.
    fn resume_from_cache(
        &mut self,
        next: &CommitAtPath<'_>,
        state: usize,
        cache: &mut Cache,
    ) -> bool {
        let id = next.commit.id();
        if let Some(cached) = &self.cached {
            return cached.contains(&(id, next.path.to_vec()));
        }
        let Some(history) = cache.read_head(&id.to_string(), &next.path) else { return false };
        let oid = |id: &str| Oid::from_str(id).unwrap_or(Oid::ZERO_SHA1);
        let ids = history.commits.iter().map(|commit| oid(&commit.id));
        // Counts cannot be taken apart: what both have would count twice. It takes clocks that are wrong to come here.
        if ids.clone().any(|id| self.recorded.contains(&id)) {
            return false;
        }
        self.recorded.extend(ids.clone());
        let paths = history.commits.iter().map(|commit| commit.path.clone());
        self.cached = Some(ids.zip(paths).collect());
        self.commits.extend(history.commits);
        self.co_changes.add_total(&history.co_changes.total);
        for (path, counts) in history.co_changes.files {
            self.co_changes.add_file(&path, counts);
            self.last_seen.entry(path).or_insert(state);
        }
        for commit in history.frontier {
            self.push_commit(oid(&commit.id), commit.path.into(), state);
        }
        true
    }

    /// Looks at one commit: whether it touched the file, and where to go on.
    fn visit(&mut self, next: CommitAtPath<'repository>, state: usize) {
        let CommitAtPath { commit, path, trace } = next;
        let mut is_cut_off = self.shallow.contains(&commit.id());
        let mut parents: Vec<CommitAtPath<'repository>> = Vec::new();
        for id in commit.parent_ids().filter(|_| !is_cut_off).collect::<Vec<_>>() {
            match self.read_parent(id, &path, Some(&trace)) {
                Ok(parent) => parents.push(parent),
                Err(note) => {
                    is_cut_off = true;
                    self.add_note(note);
                }
            }
        }
        if let Some(same) = parents.iter().position(|parent| parent.trace.entry == trace.entry) {
            parents = vec![parents.swap_remove(same)];
        } else if !parents.is_empty() {
            self.visit_touched(&commit, state, &path, trace.entry, &mut parents);
        } else if trace.entry.is_some() {
            let diff = self.read_diff(None, commit.tree_id());
            let kind = match &diff {
                _ if is_cut_off => CommitKind::Boundary,
                Some(diff) if diff.deltas.len() > MIN_IMPORT => CommitKind::Import,
                _ => CommitKind::Plain,
            };
            self.record((&commit, state), &path, (FileChange::Added, kind), diff);
        }
        for parent in parents {
            self.push_pending(parent, state);
        }
    }

    /// Looks at a commit whose file differs from that of every parent, and finds the paths that it had there.
    fn visit_touched(
        &mut self,
        commit: &Commit<'repository>,
        state: usize,
        path: &Rc<[u8]>,
        entry: Option<FileEntry>,
        parents: &mut [CommitAtPath<'repository>],
    ) {
        let mut first_diff = None;
        for (at, parent) in parents.iter_mut().enumerate() {
            let is_new = entry.is_some() && parent.trace.entry.is_none();
            if at > 0 && !is_new {
                continue;
            }
            let Some(diff) = self.read_diff(Some(parent.commit.tree_id()), commit.tree_id()) else {
                continue;
            };
            let old_path =
                is_new.then(|| diff.find_counterpart(self.objects, path, Side::New)).flatten();
            if let Some(old_path) = old_path {
                parent.trace = self
                    .objects
                    .trace_path(parent.commit.tree_id(), &old_path, None)
                    .unwrap_or_default();
                parent.path = old_path.into();
            }
            if at == 0 {
                first_diff = Some(diff);
            }
        }
        let change = if entry.is_none() {
            FileChange::Deleted
        } else if parents[0].path != *path {
            FileChange::Renamed { from: parents[0].path.to_vec() }
        } else if parents.iter().any(|parent| parent.trace.entry.is_some()) {
            FileChange::Modified
        } else {
            FileChange::Added
        };
        let kind = if parents.len() > 1 { CommitKind::Merge } else { CommitKind::Plain };
        self.record((commit, state), path, (change, kind), first_diff);
    }

    /// Records a commit that touched the file; once, whatever paths the file is reached by.
    fn record(
        &mut self,
        (commit, state): (&Commit<'_>, usize),
        path: &[u8],
        (change, kind): (FileChange, CommitKind),
        diff: Option<TreeDiff>,
    ) {
        if !self.recorded.insert(commit.id()) {
            return;
        }
        let deltas = diff.map(|diff| diff.deltas).unwrap_or_default();
        let files = (deltas.len() as u64).max(1);
        if kind == CommitKind::Plain && !deltas.is_empty() && files <= LARGEST_COMMIT {
            let old_path = match &change {
                FileChange::Renamed { from } => from.as_slice(),
                _ => path,
            };
            let paths = deltas.iter().map(|delta| delta.path.as_slice());
            let others: Vec<&[u8]> =
                paths.filter(|other| *other != path && *other != old_path).collect();
            for other in &others {
                self.last_seen.entry(other.to_vec()).or_insert(state);
            }
            self.co_changes.add_commit(commit.time().seconds(), files, others);
        }
        let described = describe(commit, path, change, kind, files);
        let is_newer = |other: &FileCommit| other.committed >= described.committed;
        let at = match &self.cached {
            // What came from there is older in part.
            Some(_) => self.commits.iter().rposition(is_newer).map_or(0, |last| last + 1),
            None => self.commits.len(),
        };
        self.commits.insert(at, described);
    }

    fn read_diff(&mut self, old: Option<Oid>, new: Oid) -> Option<TreeDiff> {
        self.progress.advance();
        TreeDiff::compare(self.objects, old, Some(new)).map_err(|note| self.add_note(note)).ok()
    }

    fn read_parent(
        &self,
        id: Oid,
        path: &Rc<[u8]>,
        hint: Option<&PathTrace>,
    ) -> Result<CommitAtPath<'repository>, String> {
        let commit = self.objects.read_commit(id)?;
        let trace = self.objects.trace_path(commit.tree_id(), path, hint)?;
        Ok(CommitAtPath { commit, path: Rc::clone(path), trace })
    }

    fn push_commit(&mut self, id: Oid, path: Rc<[u8]>, child: usize) {
        match self.read_parent(id, &path, None) {
            Ok(next) => self.push_pending(next, child),
            Err(note) => self.add_note(note),
        }
    }

    fn push_pending(&mut self, next: CommitAtPath<'repository>, child: usize) {
        if self.visited.insert((next.commit.id(), Rc::clone(&next.path))) {
            let state = self.states.len();
            self.states.push(WalkState { tree: next.commit.tree_id(), child });
            self.pending.insert((next.commit.time().seconds(), Reverse(state)), next);
        }
    }

    fn add_note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn describe(
    commit: &Commit<'_>,
    path: &[u8],
    change: FileChange,
    kind: CommitKind,
    files: u64,
) -> FileCommit {
    let author = commit.author();
    let text = |bytes: &[u8]| truncate(decode(commit, bytes).trim(), limits::COMMIT_SUBJECT);
    FileCommit {
        id: commit.id().to_string(),
        time: author.when().seconds(),
        offset: author.when().offset_minutes(),
        committed: commit.time().seconds(),
        name: text(author.name_bytes()),
        email: text(author.email_bytes()),
        subject: text(commit.summary_bytes().unwrap_or_default()),
        path: path.to_owned(),
        change,
        kind,
        files,
    }
}
