//! Finds the paths at `HEAD` of files that were renamed since.
//!
//! A path that `HEAD` lacks has vanished somewhere between its commit and `HEAD`. The walk knows a line of commits between the
//! two, so the place is found by bisection: that reads a few trees instead of every commit's changes.
//!
//! At most [`MAX_FOLLOWED`] paths are followed, those of the most weight first.

use std::collections::HashMap;

use git2::{Oid, Tree};

use super::repository::{FOLDER, Objects};
use super::tree_diff::{Side, TreeDiff};
use crate::co_change::CoChangeCounts;

/// At most this many paths are followed.
const MAX_FOLLOWED: usize = 500;

/// A path is followed through at most this many renames.
const MAX_RENAMES: usize = 16;

/// Comparisons of trees are remembered until they hold this many files: most paths vanish in a few commits.
const MAX_REMEMBERED: usize = 400_000;

/// The end of the line of states: the child of the head.
pub(super) const NO_STATE: usize = usize::MAX;

/// A commit that the walk came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkState {
    pub(super) tree: Oid,
    /// The state from which the walk came, which is nearer to the head.
    pub(super) child: usize,
}

struct HeadPaths<'a, 'repository> {
    objects: &'a Objects<'repository>,
    /// The commits of the walk, of which the first is the head.
    states: &'a [WalkState],
    folders: HashMap<Vec<u8>, Option<Tree<'repository>>>,
    diffs: HashMap<(Oid, Oid), TreeDiff>,
    remembered: usize,
}

/// Replaces the paths in `counts` by those at `HEAD`, and marks the files that are gone. `last_seen` has the state at which
/// the walk met a path first, which is the newest commit that has it.
pub(super) fn update_paths(
    objects: &Objects<'_>,
    states: &[WalkState],
    counts: &mut CoChangeCounts,
    last_seen: &HashMap<Vec<u8>, usize>,
    must_stop: &dyn Fn() -> bool,
) {
    let Some(first) = states.first() else { return };
    let mut head = HeadPaths {
        objects,
        states,
        folders: HashMap::from([(Vec::new(), objects.read_tree(first.tree).ok())]),
        diffs: HashMap::new(),
        remembered: 0,
    };
    let mut missing = Vec::new();
    for (path, counts) in &mut counts.files {
        counts.is_gone = !head.contains(path);
        if counts.is_gone {
            missing.push((counts.weight(), path.clone()));
        }
    }
    missing.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, path) in missing.iter().take(MAX_FOLLOWED) {
        if must_stop() {
            return;
        }
        let state = last_seen.get(path).copied().unwrap_or(NO_STATE);
        if let Some(new_path) = head.follow(path, state)
            && let Some(mut moved) = counts.files.remove(path)
        {
            moved.is_gone = false;
            counts.add_file(&new_path, moved);
        }
    }
}

impl<'repository> HeadPaths<'_, 'repository> {
    fn contains(&mut self, path: &[u8]) -> bool {
        let (folder, name) = split_path(path);
        let tree = self.read_folder(folder);
        let entry = tree.and_then(|tree| tree.get_name_bytes(name));
        entry.is_some_and(|entry| entry.filemode() != FOLDER)
    }

    fn read_folder(&mut self, path: &[u8]) -> Option<&Tree<'repository>> {
        if !self.folders.contains_key(path) {
            let (parent, name) = split_path(path);
            let entry = self.read_folder(parent).and_then(|tree| tree.get_name_bytes(name));
            let id = entry.filter(|entry| entry.filemode() == FOLDER).map(|entry| entry.id());
            let tree = id.and_then(|id| self.objects.read_tree(id).ok());
            self.folders.insert(path.to_owned(), tree);
        }
        self.folders.get(path)?.as_ref()
    }

    /// Returns the path at `HEAD` of a file that had this path at a state of the walk; `None` when it is gone.
    fn follow(&mut self, path: &[u8], state: usize) -> Option<Vec<u8>> {
        let states = self.states;
        let to_head = std::iter::successors(states.get(state), |at| states.get(at.child));
        let line: Vec<Oid> = to_head.map(|at| at.tree).collect();
        let mut path = path.to_owned();
        let mut from = 0;
        for _ in 0..MAX_RENAMES {
            if self.contains(&path) {
                return Some(path);
            }
            let gone = line[from..].partition_point(|tree| self.is_in(*tree, &path)) + from;
            if gone == from || gone == line.len() {
                return None;
            }
            path = self.find_new_path(line[gone - 1], line[gone], &path)?;
            from = gone;
        }
        None
    }

    fn is_in(&self, tree: Oid, path: &[u8]) -> bool {
        self.objects.trace_path(tree, path, None).is_ok_and(|trace| trace.entry.is_some())
    }

    fn find_new_path(&mut self, old: Oid, new: Oid, path: &[u8]) -> Option<Vec<u8>> {
        if !self.diffs.contains_key(&(old, new)) {
            if self.remembered > MAX_REMEMBERED {
                self.diffs.clear();
                self.remembered = 0;
            }
            let diff = TreeDiff::compare(self.objects, Some(old), Some(new)).unwrap_or_default();
            self.remembered += diff.deltas.len();
            self.diffs.insert((old, new), diff);
        }
        self.diffs[&(old, new)].find_counterpart(self.objects, path, Side::Old)
    }
}

fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}
