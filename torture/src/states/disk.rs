//! A disk in memory that keeps no more than POSIX promises, and the states that a power cut may leave on it.
//!
//! A file's bytes, its length and its mode are durable once the file was synced; until then each change of it may be there
//! or not, the last one in part. A name in a folder is durable once the folder was synced, whatever was done to the file;
//! until then each name may be at any of the things that it was since, whatever the other names are at. A rename takes the
//! old name away only where the new one is there; both may be. An exchange is there for both names or for none, as renameat2
//! promises. What the names of a folder are worth depends on the folder's own name.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::ground::{Numbers, State, Thing};

/// A file or a folder, whatever it is called.
pub(super) type Inode = usize;
/// The folder of the world.
pub(super) const TOP: Inode = 0;
/// The bytes that a disk writes at once.
const BLOCK: usize = 4096;

/// A name in a folder.
type Name = (Inode, String);

#[derive(Debug, Clone)]
struct Node {
    is_folder: bool,
    /// The durable one first.
    modes: Vec<u32>,
    durable: Vec<u8>,
    /// Changes since the last sync.
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A rename: the old name goes only where the new one is there. An exchange is two of them.
#[derive(Debug, Clone)]
struct Move {
    step: usize,
    from: Name,
    to: Name,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    nodes: Vec<Node>,
    /// What each name was since its folder was synced, the durable one first, with the step that made it so.
    names: BTreeMap<Name, Vec<(Option<Inode>, usize)>>,
    moves: Vec<Move>,
    links: BTreeMap<Name, PathBuf>,
    steps: usize,
}

/// Something that is not durable, with all that it may be.
enum Open {
    Name(Name),
    Bytes(Inode, Vec<Rc<Vec<u8>>>),
    Mode(Inode),
}

/// What is open at one instant.
pub(super) struct Choices<'a> {
    disk: &'a Disk,
    open: Vec<(Open, usize)>,
}

impl Disk {
    pub(super) fn of(state: &State) -> Self {
        let mut disk = Self::default();
        disk.node(true, 0o755, Vec::new());
        for (path, thing) in &state.0 {
            let folder =
                disk.find(path.parent().unwrap()).expect("folders come before what is in them");
            let name = (folder, path.file_name().unwrap().to_str().unwrap().to_owned());
            let node = match thing {
                Thing::Folder(mode) => disk.node(true, *mode, Vec::new()),
                Thing::File(bytes, mode) => disk.node(false, *mode, bytes.clone()),
                Thing::Link(to) => {
                    disk.links.insert(name, to.clone());
                    continue;
                }
            };
            disk.names.insert(name, vec![(Some(node), 0)]);
        }
        disk
    }

    fn node(&mut self, is_folder: bool, mode: u32, durable: Vec<u8>) -> Inode {
        self.nodes.push(Node { is_folder, modes: vec![mode], durable, changes: Vec::new() });
        self.nodes.len() - 1
    }

    /// What stands at a path as processes see it.
    pub(super) fn find(&self, path: &Path) -> Option<Inode> {
        path.iter().try_fold(TOP, |folder, name| {
            self.names.get(&(folder, name.to_str()?.to_owned()))?.last()?.0
        })
    }

    fn name(&self, path: &Path) -> Name {
        let folder = path.parent().and_then(|folder| self.find(folder));
        let folder = folder.unwrap_or_else(|| panic!("no folder of {}", path.display()));
        (folder, path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn set(&mut self, name: Name, node: Option<Inode>) {
        let steps = self.steps;
        self.names.entry(name).or_insert_with(|| vec![(None, 0)]).push((node, steps));
    }

    /// A file without a name.
    pub(super) fn unnamed(&mut self, mode: u32) -> Inode {
        self.node(false, mode, Vec::new())
    }

    pub(super) fn make(&mut self, path: &Path, is_folder: bool, mode: u32) -> Inode {
        self.steps += 1;
        let (node, name) = (self.node(is_folder, mode, Vec::new()), self.name(path));
        self.set(name, Some(node));
        node
    }

    pub(super) fn link(&mut self, node: Inode, path: &Path) {
        self.steps += 1;
        let name = self.name(path);
        self.set(name, Some(node));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.steps += 1;
        let name = self.name(path);
        self.set(name, None);
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) {
        self.steps += 1;
        let node = self.find(from);
        let (from, to) = (self.name(from), self.name(to));
        self.set(to.clone(), node);
        self.set(from.clone(), None);
        self.moves.push(Move { step: self.steps, from, to });
    }

    pub(super) fn exchange(&mut self, one: &Path, other: &Path) {
        self.steps += 1;
        let nodes = (self.find(one), self.find(other));
        let (one, other) = (self.name(one), self.name(other));
        self.set(one.clone(), nodes.1);
        self.set(other.clone(), nodes.0);
        for (from, to) in [(one.clone(), other.clone()), (other, one)] {
            self.moves.push(Move { step: self.steps, from, to });
        }
    }

    pub(super) fn write(&mut self, node: Inode, at: usize, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.nodes[node].changes.push(Change::Write { at, bytes });
        }
    }

    pub(super) fn length(&mut self, node: Inode, length: usize) {
        if self.bytes(node).len() != length {
            self.nodes[node].changes.push(Change::Length(length));
        }
    }

    pub(super) fn mode(&mut self, node: Inode, mode: u32) {
        self.nodes[node].modes.push(mode);
    }

    /// The bytes as processes see them.
    pub(super) fn bytes(&self, node: Inode) -> Vec<u8> {
        let mut bytes = self.nodes[node].durable.clone();
        self.nodes[node].changes.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    }

    /// `fsync`, and `fdatasync`, which leaves the mode.
    pub(super) fn sync(&mut self, node: Inode, is_whole: bool) {
        self.nodes[node].durable = self.bytes(node);
        self.nodes[node].changes.clear();
        if is_whole {
            let last = self.nodes[node].modes.len() - 1;
            self.nodes[node].modes.drain(..last);
        }
        if self.nodes[node].is_folder {
            let within: Vec<Name> =
                self.names.keys().filter(|(folder, _)| *folder == node).cloned().collect();
            for name in within {
                self.settle(&name, usize::MAX);
            }
        }
    }

    /// Makes a name durable as it was after a step.
    fn settle(&mut self, name: &Name, step: usize) {
        let versions = self.names.get_mut(name).expect("a known name");
        let last = versions.iter().rposition(|(_, made)| *made <= step).unwrap_or(0);
        let done: Vec<usize> = versions.drain(..last).map(|(_, made)| made).collect();
        let done = done.into_iter().skip(1).chain([self.names[name][0].1]);
        for step in done.collect::<Vec<_>>() {
            let moved = self.moves.iter().find(|moved| moved.step == step && moved.from == *name);
            if let Some(to) = moved.map(|moved| moved.to.clone())
                && self.names[&to][0].1 < step
            {
                self.settle(&to, step);
            }
        }
    }

    /// Makes all durable.
    pub(super) fn sync_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.sync(node, true));
    }

    /// All that is not durable now.
    pub(super) fn choices(&self) -> Choices<'_> {
        let mut open = Vec::new();
        let mut named = vec![false; self.nodes.len()];
        for (name, versions) in &self.names {
            versions.iter().filter_map(|(node, _)| *node).for_each(|node| named[node] = true);
            if versions.len() > 1 {
                open.push((Open::Name(name.clone()), versions.len()));
            }
        }
        for (inode, node) in self.nodes.iter().enumerate().filter(|(inode, _)| named[*inode]) {
            if !node.changes.is_empty() {
                let all = node.contents();
                let count = all.len();
                open.push((Open::Bytes(inode, all), count));
            }
            if node.modes.len() > 1 {
                open.push((Open::Mode(inode), node.modes.len()));
            }
        }
        Choices { disk: self, open }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write { at, bytes: new } => {
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
        }
    }

    /// The change in part: cut short, or its length alone, or its later blocks alone.
    fn parts(&self) -> Vec<Self> {
        let Self::Write { at, bytes } = self else { return Vec::new() };
        let border = (at + bytes.len() - 1) / BLOCK * BLOCK;
        let first = (at / BLOCK + 1) * BLOCK;
        let mut cuts = vec![1, bytes.len() / 2, bytes.len() - 1];
        cuts.extend(border.checked_sub(*at));
        cuts.extend(first.checked_sub(*at));
        // Where a reader is most easily led to think that all is there.
        let ends =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let ends: Vec<usize> = ends.collect();
        cuts.extend(ends.iter().step_by(ends.len() / 16 + 1));
        cuts.sort_unstable();
        cuts.dedup();
        cuts.retain(|cut| (1..bytes.len()).contains(cut));
        let mut parts: Vec<Self> =
            cuts.iter().map(|cut| Self::Write { at: *at, bytes: bytes[..*cut].to_vec() }).collect();
        parts.push(Self::Write { at: *at, bytes: vec![0; bytes.len()] });
        for cut in cuts.iter().filter(|cut| (at + **cut).is_multiple_of(BLOCK)) {
            let half = [&bytes[..*cut], &vec![0; bytes.len() - cut]].concat();
            parts.push(Self::Write { at: *at, bytes: half });
            let half = [&vec![0; *cut], &bytes[*cut..]].concat();
            parts.push(Self::Write { at: *at, bytes: half });
            parts.push(Self::Write { at: at + cut, bytes: bytes[*cut..].to_vec() });
        }
        parts
    }
}

impl Node {
    /// What the bytes may be after a power cut; what processes see comes last, what was synced first.
    fn contents(&self) -> Vec<Rc<Vec<u8>>> {
        let count = self.changes.len();
        let mut picks: Vec<Vec<usize>> = if count <= 3 {
            (0..1_usize << count)
                .map(|set| (0..count).filter(|at| set >> at & 1 == 1).collect())
                .collect()
        } else {
            let without = (0..count).map(|gone| (0..count).filter(|at| *at != gone).collect());
            (0..=count).map(|end| (0..end).collect()).chain(without).collect()
        };
        picks.sort_by_key(Vec::len);
        let mut all: Vec<Vec<u8>> = Vec::new();
        for pick in picks {
            let mut bytes = self.durable.clone();
            let Some((last, before)) = pick.split_last() else {
                all.push(bytes);
                continue;
            };
            before.iter().for_each(|at| self.changes[*at].apply(&mut bytes));
            for part in self.changes[*last].parts() {
                let mut bytes = bytes.clone();
                part.apply(&mut bytes);
                all.push(bytes);
            }
            self.changes[*last].apply(&mut bytes);
            all.push(bytes);
        }
        let seen = all.pop().expect("what processes see");
        let mut different: Vec<Rc<Vec<u8>>> = Vec::new();
        for bytes in all {
            if bytes != seen && !different.iter().any(|other| **other == bytes) {
                different.push(Rc::new(bytes));
            }
        }
        different.push(Rc::new(seen));
        different
    }
}

impl Choices<'_> {
    /// How many there are, with those that no rename allows.
    pub(super) fn count(&self) -> usize {
        self.open.iter().fold(1_usize, |all, (_, count)| all.saturating_mul(*count))
    }

    /// All choices, or so many of them: nothing and all of what is open, all but one thing, one thing alone, and others
    /// as the numbers have it.
    pub(super) fn picked(&self, most: usize, numbers: &mut Numbers) -> Vec<Vec<usize>> {
        let counts: Vec<usize> = self.open.iter().map(|(_, count)| *count).collect();
        let mut picked = Vec::new();
        if self.count() <= most {
            for mut number in 0..self.count() {
                let choice = counts.iter().map(|count| {
                    let at = number % count;
                    number /= count;
                    at
                });
                picked.push(choice.collect());
            }
        } else {
            let none = vec![0; counts.len()];
            let all: Vec<usize> = counts.iter().map(|count| count - 1).collect();
            for from in [&none, &all] {
                picked.push(from.clone());
                for (at, count) in counts.iter().enumerate() {
                    picked.extend((0..*count).map(|version| {
                        let mut choice = from.clone();
                        choice[at] = version;
                        choice
                    }));
                }
            }
            while picked.len() < most {
                let pick = |count: &usize| usize::try_from(numbers.below(*count as u64)).unwrap();
                picked.push(counts.iter().map(pick).collect());
            }
        }
        picked.retain(|choice| self.is_allowed(choice));
        picked
    }

    fn name_at(&self, name: &Name, choice: &[usize]) -> (Option<Inode>, usize) {
        let at = self.open.iter().position(|(open, _)| matches!(open, Open::Name(n) if n == name));
        self.disk.names[name][at.map_or(0, |at| choice[at])]
    }

    fn is_allowed(&self, choice: &[usize]) -> bool {
        self.disk.moves.iter().all(|moved| {
            let is_gone = self.name_at(&moved.from, choice).1 >= moved.step;
            !is_gone || self.name_at(&moved.to, choice).1 >= moved.step
        })
    }

    /// What the disk holds then.
    pub(super) fn state(&self, choice: &[usize]) -> State {
        let mut versions: BTreeMap<&Name, usize> = BTreeMap::new();
        let (mut bytes, mut modes) = (BTreeMap::new(), BTreeMap::new());
        for ((open, _), at) in self.open.iter().zip(choice) {
            match open {
                Open::Name(name) => drop(versions.insert(name, *at)),
                Open::Bytes(inode, all) => drop(bytes.insert(*inode, &all[*at])),
                Open::Mode(inode) => drop(modes.insert(*inode, *at)),
            }
        }
        let mut state = State::default();
        let mut folders = vec![(TOP, PathBuf::new())];
        while let Some((folder, path)) = folders.pop() {
            let from = (folder, String::new());
            for (name, all) in
                self.disk.names.range(from..).take_while(|(name, _)| name.0 == folder)
            {
                let at = versions.get(name).copied().unwrap_or(0);
                let Some(inode) = all[at].0 else { continue };
                let (node, path) = (&self.disk.nodes[inode], path.join(&name.1));
                let mode = node.modes[modes.get(&inode).copied().unwrap_or(0)];
                let thing = if node.is_folder {
                    folders.push((inode, path.clone()));
                    Thing::Folder(mode)
                } else {
                    let bytes = bytes.get(&inode).map_or(&node.durable, |bytes| &***bytes);
                    Thing::File(bytes.clone(), mode)
                };
                state.0.insert(path, thing);
            }
            for (name, to) in self.disk.links.iter().filter(|(name, _)| name.0 == folder) {
                state.0.insert(path.join(&name.1), Thing::Link(to.clone()));
            }
        }
        state
    }

    /// What processes see.
    pub(super) fn seen(&self) -> State {
        self.state(&self.open.iter().map(|(_, count)| count - 1).collect::<Vec<_>>())
    }

    /// A choice in words: what of the open things is not as processes saw it.
    pub(super) fn told(&self, choice: &[usize]) -> String {
        let lost = self.open.iter().zip(choice).filter(|((_, count), at)| **at + 1 < *count);
        let words = lost.map(|((open, count), at)| match open {
            Open::Name((_, name)) => format!("{name} at {at} of {}", count - 1),
            Open::Bytes(inode, all) => {
                let name = self
                    .disk
                    .names
                    .iter()
                    .find(|(_, all)| all.iter().any(|(node, _)| *node == Some(*inode)));
                let zeros = all[*at].iter().filter(|byte| **byte == 0).count();
                format!(
                    "{} of {} bytes ({zeros} zeros) for {}",
                    name.map_or("", |((_, name), _)| name),
                    all[*at].len(),
                    all[count - 1].len()
                )
            }
            Open::Mode(inode) => format!("mode of {inode}"),
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

/// The same number for the same state.
pub(super) fn digest(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, thing) in &state.0 {
        path.hash(&mut hasher);
        match thing {
            Thing::File(bytes, mode) => (0, bytes, mode).hash(&mut hasher),
            Thing::Folder(mode) => (1, mode).hash(&mut hasher),
            Thing::Link(to) => (2, to).hash(&mut hasher),
        }
    }
    hasher.finish()
}
