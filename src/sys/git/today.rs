//! What became of files since a commit: their paths in the head's tree.
//!
//! A path that the head does not have has vanished somewhere between the commit and the head. The walk knows a line of
//! commits between the two, so that place is found by halving: a few trees are read, not every commit's changes. There the
//! files that are new are compared with it, as git compares them for renames.
//!
//! At most [`FOLLOWED`] paths are followed, those of the most weight first, each through [`STEPS`] renames.

use std::collections::HashMap;

use git2::Oid;

use super::changes::changes;
use super::objects::{Entry, Objects};
use super::renames::{Contents, Vanished};
use super::walk::{NONE, State};

/// Paths that are followed to today's.
pub(super) const FOLLOWED: usize = 500;

/// Renames that one path is followed through.
const STEPS: usize = 16;

/// Files of the comparisons that are held for the next path: most paths vanish in few commits, each of many files.
const HELD: usize = 400_000;

/// The paths of one head.
pub(super) struct Today<'a, 'repository> {
    objects: &'a Objects<'repository>,
    states: &'a [State],
    head: Oid,
    folders: HashMap<Vec<u8>, Option<HashMap<Vec<u8>, Entry>>>,
    contents: Contents<'a, 'repository>,
    /// Pairs of trees that were compared already.
    vanished: HashMap<(Oid, Oid), Vanished>,
    held: usize,
    stop: &'a dyn Fn() -> bool,
}

impl<'a, 'repository> Today<'a, 'repository> {
    /// The paths of the head of a walk, whose tree this is. Nothing more is found once `stop` says so.
    pub(super) fn new(
        objects: &'a Objects<'repository>,
        head: Oid,
        states: &'a [State],
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let contents = Contents::new(objects);
        let (folders, vanished) = (HashMap::new(), HashMap::new());
        Self { objects, states, head, folders, contents, vanished, held: 0, stop }
    }

    /// Whether the head has a file of this path.
    pub(super) fn has(&mut self, path: &[u8]) -> bool {
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        if !self.folders.contains_key(folder) {
            let entries = self.folder(folder);
            self.folders.insert(folder.to_owned(), entries);
        }
        let entries = self.folders.get(folder).and_then(Option::as_ref);
        entries.and_then(|entries| entries.get(name)).is_some_and(|entry| !entry.is_folder())
    }

    fn folder(&self, path: &[u8]) -> Option<HashMap<Vec<u8>, Entry>> {
        let mut tree = self.head;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            tree = self.objects.child(tree, name).ok()?.filter(|entry| entry.is_folder())?.id;
        }
        self.objects.children(tree).ok()
    }

    /// The path today of a file that had this path at a state of the walk; `None` when it is gone.
    pub(super) fn path(&mut self, path: &[u8], state: usize) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let mut at = state;
        while at != NONE {
            line.push(self.states.get(at)?.tree);
            at = self.states[at].child;
        }
        let mut path = path.to_owned();
        let mut from = 0;
        for _ in 0..STEPS {
            if (self.stop)() {
                return None;
            }
            if self.has(&path) {
                return Some(path);
            }
            if !self.is_in(*line.get(from)?, &path) {
                return None;
            }
            // It is in `low` and not in `high`.
            let (mut low, mut high) = (from, line.len() - 1);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if self.is_in(line[middle], &path) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            if low == high {
                return None;
            }
            path = self.became(line[low], line[high], &path)?;
            from = high;
        }
        None
    }

    fn is_in(&self, tree: Oid, path: &[u8]) -> bool {
        matches!(self.objects.entry(tree, path), Ok(Some(_)))
    }

    fn became(&mut self, old: Oid, new: Oid, path: &[u8]) -> Option<Vec<u8>> {
        if let Some(known) = self.vanished.get(&(old, new)) {
            return known.became(&mut self.contents, path);
        }
        let vanished =
            Vanished::new(changes(self.objects, Some(old), Some(new)).unwrap_or_default());
        if self.held > HELD {
            self.vanished.clear();
            self.held = 0;
        }
        self.held += vanished.len();
        let new_path = vanished.became(&mut self.contents, path);
        self.vanished.insert((old, new), vanished);
        new_path
    }
}
