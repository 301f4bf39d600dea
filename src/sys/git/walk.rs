//! The commits that touched a file, from a head down: through renames, past what a merge left aside.
//!
//! At each commit the file's entry is compared with that of each parent. Where one is the same, the walk goes on only
//! there (git's default simplification); else the commit touched the file. Where the file has no entry in a parent, it may
//! have had another path there: the file that is gone and most like it, and the walk goes on with that path. This is
//! what `git log --follow` does, with three differences: copies are not followed, since they are other files; merges are
//! simplified as without `--follow`; and each line of history has its own path.
//!
//! What an earlier walk found is grafted on where this one comes to its head.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use git2::{ObjectType, Oid};

use super::changes::{Delta, changes};
use super::objects::{Commit, Entry, Objects};
use super::renames::{renames, source};
use crate::format::harmless::truncate;
use crate::history::coupling::LARGEST;
use crate::history::{Change, Sort, Touch, object};

/// A first commit with more files is an import.
const IMPORT: usize = 10;

/// Between two commits of a walk that are noted for the next one.
const NOTED: u64 = 256;

/// Sentences about damage that are kept.
const NOTES: usize = 8;

/// What a walk says that was ended.
pub(super) const STOPPED: &str = "stopped before all of it was read";

/// No commit: the child of the head.
pub(super) const NONE: usize = usize::MAX;

/// A commit on the way, with the file's path there.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) commit: Oid,
    /// The commit's tree.
    pub(super) tree: Oid,
    /// The number of the path.
    path: usize,
    /// The state that the walk came from: nearer to the head.
    pub(super) child: usize,
}

/// A commit that touched the file.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// As the commit has it, without the mailmap.
    pub(super) touch: Touch,
    /// When it was committed.
    pub(super) committed: i64,
    /// Where in the walk.
    pub(super) state: usize,
    /// The other files, by the names that they had after it; `None` when the commit does not count.
    pub(super) together: Option<Vec<Vec<u8>>>,
}

/// What an earlier walk says of a head: whether it is known, and which commits, with the file's path, lie below it.
pub(super) trait Earlier {
    /// Whether there was a walk from this commit, with this path of the file.
    fn is_head(&mut self, commit: Oid, path: &[u8]) -> bool;
    /// Whether the walk that was grafted passed this commit with this path.
    fn passed(&self, commit: Oid, path: &[u8]) -> bool;
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The commits, the newest first.
    pub(super) found: Vec<Found>,
    /// The states, the head first.
    pub(super) states: Vec<State>,
    /// The earlier walk's head, and how many were found before the walk came there.
    pub(super) graft: Option<(usize, usize)>,
    /// Some commits on the way, with the file's path.
    pub(super) seen: Vec<(String, Vec<u8>)>,
    /// Commits that were read.
    pub(super) read: u64,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

/// Where a path leads in one commit: the trees on the way, and the entry.
#[derive(Debug, Clone, Default)]
struct Trace {
    trees: Vec<Oid>,
    entry: Option<Entry>,
}

/// A commit that waits for its turn.
struct Waiting {
    commit: Commit,
    trace: Result<Trace, String>,
}

struct Walk<'a, 'repository> {
    objects: &'a Objects<'repository>,
    paths: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, usize>,
    visited: HashSet<(Oid, usize)>,
    waiting: HashMap<usize, Waiting>,
    queue: BinaryHeap<(i64, Reverse<usize>)>,
    touched: HashSet<Oid>,
    walked: Walked,
}

/// Walks from a head.
pub(super) fn walk(
    objects: &Objects<'_>,
    head: Oid,
    path: &[u8],
    earlier: &mut dyn Earlier,
    stop: &dyn Fn() -> bool,
) -> Walked {
    let mut walk = Walk {
        objects,
        paths: vec![path.to_owned()],
        numbers: HashMap::from([(path.to_owned(), 0)]),
        visited: HashSet::new(),
        waiting: HashMap::new(),
        queue: BinaryHeap::new(),
        touched: HashSet::new(),
        walked: Walked::default(),
    };
    match objects.commit(head) {
        Ok(commit) => {
            let trace = walk.trace(commit.tree, 0, None);
            walk.push(head, commit, 0, trace, NONE);
        }
        Err(error) => walk.note(error),
    }
    walk.run(earlier, stop);
    walk.walked
}

impl Walk<'_, '_> {
    fn run(&mut self, earlier: &mut dyn Earlier, stop: &dyn Fn() -> bool) {
        while let Some((_, Reverse(state))) = self.queue.pop() {
            let Some(Waiting { commit, trace }) = self.waiting.remove(&state) else { continue };
            let State { commit: id, path, .. } = self.walked.states[state];
            if stop() {
                self.walked.notes.push(STOPPED.into());
                return;
            }
            if self.walked.read.is_multiple_of(NOTED) {
                self.walked.seen.push((id.to_string(), self.paths[path].clone()));
            }
            match self.walked.graft {
                None if earlier.is_head(id, &self.paths[path]) => {
                    self.walked.graft = Some((state, self.walked.found.len()));
                    continue;
                }
                Some(_) if earlier.passed(id, &self.paths[path]) => continue,
                _ => {}
            }
            self.walked.read += 1;
            self.step(state, &commit, trace);
        }
    }

    /// Takes a commit: touched or not, and where to go on.
    fn step(&mut self, state: usize, commit: &Commit, trace: Result<Trace, String>) {
        let path = self.walked.states[state].path;
        let mut parents = Vec::new();
        let mut is_missing = commit.is_boundary;
        for id in &commit.parents {
            match self.objects.commit(*id) {
                Ok(parent) => parents.push((*id, parent)),
                Err(error) => {
                    is_missing = true;
                    self.note(error);
                }
            }
        }
        let trace = match trace {
            Ok(trace) => trace,
            // What is not known is taken as unchanged.
            Err(error) => {
                self.note(error);
                for (id, parent) in parents {
                    let trace = self.trace(parent.tree, path, None);
                    self.push(id, parent, path, trace, state);
                }
                return;
            }
        };
        if parents.is_empty() {
            if trace.entry.is_some() {
                self.first(state, commit, is_missing);
            }
            return;
        }
        let mut traces = Vec::new();
        for (_, parent) in &parents {
            traces.push(self.trace(parent.tree, path, Some(&trace)));
        }
        let same = |other: &Result<Trace, String>| {
            other.as_ref().is_ok_and(|other| other.entry == trace.entry)
        };
        if let Some(at) = traces.iter().position(same) {
            parents = vec![parents.swap_remove(at)];
            traces = vec![traces.swap_remove(at)];
        } else if traces.iter().all(Result::is_ok) {
            self.touched(state, commit, trace.entry, parents, traces);
            return;
        }
        for ((id, parent), trace) in parents.into_iter().zip(traces) {
            self.push(id, parent, path, trace, state);
        }
    }

    /// A commit that changed the file against every parent.
    fn touched(
        &mut self,
        state: usize,
        commit: &Commit,
        entry: Option<Entry>,
        parents: Vec<(Oid, Commit)>,
        mut traces: Vec<Result<Trace, String>>,
    ) {
        let path = self.walked.states[state].path;
        let is_merge = parents.len() > 1;
        let mut paths = vec![path; parents.len()];
        let mut first = None;
        for (at, (_, parent)) in parents.iter().enumerate() {
            let is_new =
                entry.is_some() && traces[at].as_ref().is_ok_and(|old| old.entry.is_none());
            if at > 0 && !is_new {
                continue;
            }
            let deltas = match changes(self.objects, Some(parent.tree), Some(commit.tree)) {
                Ok(deltas) => deltas,
                Err(error) => {
                    self.note(error);
                    continue;
                }
            };
            if is_new && let Some(from) = source(self.objects, &deltas, &self.paths[path]) {
                paths[at] = self.number(&from.path);
                traces[at] = self.trace(parent.tree, paths[at], None);
            }
            if at == 0 {
                first = Some(deltas);
            }
        }
        let was =
            |trace: &Result<Trace, String>| trace.as_ref().is_ok_and(|old| old.entry.is_some());
        let change = if entry.is_none() {
            Change::Deleted
        } else if paths[0] != path {
            Change::Renamed { from: self.paths[paths[0]].clone() }
        } else if traces.iter().any(was) {
            Change::Modified
        } else {
            Change::Added
        };
        let sort = if is_merge { Sort::Merge } else { Sort::Plain };
        let from = paths[0];
        self.found(state, commit, (change, sort), first, from);
        for (((id, parent), path), trace) in parents.into_iter().zip(paths).zip(traces) {
            self.push(id, parent, path, trace, state);
        }
    }

    /// A commit without parents that has the file.
    fn first(&mut self, state: usize, commit: &Commit, is_missing: bool) {
        let deltas = changes(self.objects, None, Some(commit.tree));
        let deltas = deltas.map_err(|error| self.note(error)).ok();
        let sort = match &deltas {
            _ if is_missing => Sort::Boundary,
            Some(deltas) if deltas.len() > IMPORT => Sort::Import,
            _ => Sort::Plain,
        };
        let path = self.walked.states[state].path;
        self.found(state, commit, (Change::Added, sort), deltas, path);
    }

    /// Notes a touch: once a commit, whatever paths the file is reached by.
    fn found(
        &mut self,
        state: usize,
        commit: &Commit,
        (change, sort): (Change, Sort),
        deltas: Option<Vec<Delta>>,
        from: usize,
    ) {
        let State { commit: id, path, .. } = self.walked.states[state];
        if !self.touched.insert(id) {
            return;
        }
        let mut files = 1;
        let mut together = None;
        if let Some(deltas) = deltas {
            let renames = renames(self.objects, &deltas);
            files = ((deltas.len() - renames.len()) as u64).max(1);
            if sort == Sort::Plain && files <= LARGEST {
                let gone: HashSet<usize> = renames.iter().map(|(gone, _)| *gone).collect();
                let (path, from) = (&self.paths[path], &self.paths[from]);
                let others = deltas
                    .into_iter()
                    .enumerate()
                    .filter(|(at, delta)| {
                        !gone.contains(at) && delta.path != *path && delta.path != *from
                    })
                    .map(|(_, delta)| delta.path);
                together = Some(others.collect());
            }
        }
        let mut touch = self.described(id);
        touch.path.clone_from(&self.paths[path]);
        (touch.change, touch.sort, touch.files) = (change, sort, files);
        self.walked.found.push(Found { touch, committed: commit.time, state, together });
    }

    /// What a commit says of itself.
    fn described(&mut self, id: Oid) -> Touch {
        let mut touch = Touch { id: id.to_string(), ..Touch::default() };
        let object = self.objects.read(id, ObjectType::Commit);
        if let Some(raw) = object.as_ref().ok().and_then(|object| object::commit(object.data())) {
            let author = object::person(raw.author);
            let text = |bytes: &[u8]| object::decoded(bytes, raw.encoding).into_owned();
            let name = |bytes: &[u8]| truncate(&text(bytes), object::LONGEST);
            (touch.time, touch.offset) = (author.time, author.offset);
            (touch.name, touch.email) = (name(author.name), name(author.email));
            touch.subject = object::subject(&text(raw.message));
        }
        touch
    }

    fn push(
        &mut self,
        id: Oid,
        commit: Commit,
        path: usize,
        trace: Result<Trace, String>,
        child: usize,
    ) {
        if !self.visited.insert((id, path)) {
            return;
        }
        let state = self.walked.states.len();
        self.walked.states.push(State { commit: id, tree: commit.tree, path, child });
        self.queue.push((commit.time, Reverse(state)));
        self.waiting.insert(state, Waiting { commit, trace });
    }

    fn number(&mut self, path: &[u8]) -> usize {
        if let Some(known) = self.numbers.get(path) {
            return *known;
        }
        let number = self.paths.len();
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Where a path leads from a commit's tree. Where a folder is the same as in the hint, all below it is.
    fn trace(&self, tree: Oid, path: usize, hint: Option<&Trace>) -> Result<Trace, String> {
        let mut trace = Trace { trees: vec![tree], entry: None };
        let mut tree = tree;
        let mut names = self.paths[path].split(|byte| *byte == b'/').enumerate().peekable();
        while let Some((level, name)) = names.next() {
            if let Some(hint) = hint.filter(|hint| hint.trees.get(level) == Some(&tree)) {
                return Ok(hint.clone());
            }
            let entry = self.objects.child(tree, name)?;
            match (entry, names.peek()) {
                (Some(entry), Some(_)) if entry.is_folder() => {
                    tree = entry.id;
                    trace.trees.push(tree);
                }
                (Some(entry), None) if !entry.is_folder() => trace.entry = Some(entry),
                _ => break,
            }
        }
        Ok(trace)
    }

    fn note(&mut self, note: String) {
        if self.walked.notes.len() < NOTES && !self.walked.notes.contains(&note) {
            self.walked.notes.push(note);
        }
    }
}
