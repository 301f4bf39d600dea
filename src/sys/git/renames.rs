//! Which of the files that differ are one file under two names. Found as git finds them: equal contents first, then those
//! that share half of their bytes or more. Copies are none: what a file was copied from is another file.
//!
//! A commit may move any number of files of any size: how much is read and compared is bounded ([`Contents`]), and beyond
//! that only equal contents are known for what they are.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use git2::{ObjectType, Oid};

use super::changes::Delta;
use super::objects::{Entry, Objects};
use crate::history::similarity::{Pieces, RENAME, may_be_rename};

/// The largest content that is compared with others, in bytes.
const COMPARED: usize = 4 << 20;

/// Contents that one is compared with.
const CANDIDATES: usize = 2_000;

/// Equal files among which one of the same name is looked for.
const SAME: usize = 1_000;

/// The most files on each side that are compared with each other; more, and only equal contents make a rename.
const PAIRED: usize = 100;

/// Bytes that are read in all to find what is alike.
const READ: usize = 64 << 20;

/// Pieces that are held against each other in all.
const WORK: usize = 50_000_000;

/// Contents in pieces: each is read once, and so are so many bytes in all, and so many pieces compared.
pub(super) struct Contents<'a, 'repository> {
    objects: &'a Objects<'repository>,
    pieces: HashMap<Oid, Option<Rc<Pieces>>>,
    bytes_left: usize,
    work_left: usize,
}

impl<'a, 'repository> Contents<'a, 'repository> {
    pub(super) fn new(objects: &'a Objects<'repository>) -> Self {
        Self { objects, pieces: HashMap::new(), bytes_left: READ, work_left: WORK }
    }

    /// How much two contents share, where that can be a rename and the bounds allow to find out.
    fn score(&mut self, one: Oid, other: Oid) -> Option<usize> {
        let size = |id: Oid| self.objects.size(id).ok().filter(|size| *size <= COMPARED);
        if !may_be_rename(size(one)?, size(other)?) {
            return None;
        }
        let (one, other) = (self.pieces(one)?, self.pieces(other)?);
        self.work_left = self.work_left.checked_sub(one.len() + other.len())?;
        Some(one.score(&other)).filter(|score| *score >= RENAME)
    }

    fn pieces(&mut self, id: Oid) -> Option<Rc<Pieces>> {
        if let Some(known) = self.pieces.get(&id) {
            return known.clone();
        }
        self.bytes_left = self.bytes_left.checked_sub(self.objects.size(id).ok()?)?;
        let object = self.objects.read(id, ObjectType::Blob).ok();
        let pieces = object.map(|object| Rc::new(Pieces::of(object.data())));
        self.pieces.insert(id, pieces.clone());
        pieces
    }
}

/// The file among those that are gone that became this new one: an equal one, else the most alike. Where there is none,
/// one whose path holds something else now, such as a stub that was left behind.
pub(super) fn source<'a>(
    objects: &Objects<'_>,
    deltas: &'a [Delta],
    path: &[u8],
) -> Option<&'a Delta> {
    let new = deltas.iter().find(|delta| delta.path == path)?.new?;
    let mut contents = Contents::new(objects);
    let with_old = |is_gone: bool| {
        let old = deltas.iter().filter(move |delta| delta.new.is_none() == is_gone);
        old.filter_map(|delta| Some((delta, delta.old?)))
    };
    nearest(&mut contents, (path, new), with_old(true)).or_else(|| {
        let found = nearest(&mut contents, (path, new), with_old(false))?;
        // One that is still what it was has been copied.
        let (old, new) = (found.old?, found.new?);
        (old.id != new.id && contents.score(old.id, new.id).is_none()).then_some(found)
    })
}

/// What became of the files that one tree has and another has not, asked for one path after another.
#[derive(Debug)]
pub(super) struct Vanished {
    deltas: Vec<Delta>,
    /// The files that are gone, by path, and the new ones that equal them.
    gone: HashMap<Vec<u8>, (Entry, Option<usize>)>,
    /// The new files that equal none that is gone.
    new: Vec<usize>,
    /// Those of them by the last part of the path.
    by_name: HashMap<Vec<u8>, Vec<usize>>,
}

impl Vanished {
    pub(super) fn new(deltas: Vec<Delta>) -> Self {
        let pairs: HashMap<usize, usize> = equal_pairs(&deltas).into_iter().collect();
        let taken: HashSet<usize> = pairs.values().copied().collect();
        let mut vanished =
            Self { deltas, gone: HashMap::new(), new: Vec::new(), by_name: HashMap::new() };
        for (at, delta) in vanished.deltas.iter().enumerate() {
            match (delta.old, delta.new) {
                (Some(old), None) => {
                    vanished.gone.insert(delta.path.clone(), (old, pairs.get(&at).copied()));
                }
                (None, Some(_)) if !taken.contains(&at) => {
                    vanished.new.push(at);
                    vanished.by_name.entry(name(&delta.path).to_owned()).or_default().push(at);
                }
                _ => {}
            }
        }
        vanished
    }

    /// How many files differ.
    pub(super) fn len(&self) -> usize {
        self.deltas.len()
    }

    /// The new path of a file that is gone. A new file of the same name that is alike is it: where a folder was moved,
    /// thousands are new, and most files keep their names.
    pub(super) fn became(&self, contents: &mut Contents<'_, '_>, path: &[u8]) -> Option<Vec<u8>> {
        let (old, equal) = *self.gone.get(path)?;
        if let Some(equal) = equal {
            return Some(self.deltas[equal].path.clone());
        }
        let same_name = self.by_name.get(name(path)).map(Vec::as_slice).unwrap_or_default();
        [same_name, &self.new].into_iter().find_map(|candidates| {
            let candidates = candidates.iter().filter_map(|at| {
                let delta = &self.deltas[*at];
                Some((delta, delta.new?))
            });
            nearest(contents, (path, old), candidates).map(|delta| delta.path.clone())
        })
    }
}

/// The candidate that is most like a file: an equal one, the same name before others, else one that shares half or more.
fn nearest<'a>(
    contents: &mut Contents<'_, '_>,
    (path, entry): (&[u8], Entry),
    candidates: impl Iterator<Item = (&'a Delta, Entry)>,
) -> Option<&'a Delta> {
    let fits = |other: Entry| {
        if entry.is_regular() { other.is_regular() } else { entry.mode == other.mode }
    };
    let same_name = |delta: &Delta| name(&delta.path) == name(path);
    let mut candidates: Vec<(&Delta, Entry)> =
        candidates.filter(|(_, other)| fits(*other)).collect();
    // Those of the same name first: they are compared before a bound is reached.
    candidates.sort_by_key(|(delta, _)| !same_name(delta));
    if let Some((delta, _)) = candidates.iter().find(|(_, other)| other.id == entry.id) {
        return Some(delta);
    }
    if !entry.is_regular() {
        return None;
    }
    let mut best: Option<(usize, bool, &Delta)> = None;
    for (delta, other) in candidates.iter().take(CANDIDATES) {
        let Some(score) = contents.score(entry.id, other.id) else { continue };
        let found = (score, same_name(delta), *delta);
        if best.is_none_or(|best| (found.0, found.1) > (best.0, best.1)) {
            best = Some(found);
        }
    }
    best.map(|(_, _, delta)| delta)
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Files that are gone with the new ones of equal content, each once: those that keep their name first.
fn equal_pairs(deltas: &[Delta]) -> Vec<(usize, usize)> {
    let mut gone: HashMap<(Oid, bool), Vec<usize>> = HashMap::new();
    // The last comes first off a list: so the first path is the first to be taken.
    for (at, delta) in deltas.iter().enumerate().rev() {
        if let (Some(old), None) = (delta.old, delta.new) {
            gone.entry((old.id, old.is_regular())).or_default().push(at);
        }
    }
    if gone.is_empty() {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for (at, delta) in deltas.iter().enumerate() {
        let (None, Some(new)) = (delta.old, delta.new) else { continue };
        let Some(found) = gone.get_mut(&(new.id, new.is_regular())) else { continue };
        // Where very many are equal, as empty files are, names are not looked for among all of them.
        let among = found.len().saturating_sub(SAME)..found.len();
        let is_same = |gone: &usize| name(&deltas[*gone].path) == name(&delta.path);
        let same = found[among.clone()].iter().rposition(is_same).map(|at| among.start + at);
        let taken = match same {
            Some(same) => Some(found.remove(same)),
            None => found.pop(),
        };
        if let Some(gone) = taken {
            pairs.push((gone, at));
        }
    }
    pairs
}

/// All renames among these: the file that is gone, the new one. Where very many are gone and new, only equal ones.
pub(super) fn renames(objects: &Objects<'_>, deltas: &[Delta]) -> Vec<(usize, usize)> {
    let mut pairs = equal_pairs(deltas);
    let left =
        |is_side: fn(&Delta) -> Option<Entry>, taken: HashSet<usize>| -> Vec<(usize, Entry)> {
            deltas
                .iter()
                .enumerate()
                .filter_map(|(at, delta)| Some((at, is_side(delta)?)))
                .filter(|(at, entry)| entry.is_regular() && !taken.contains(at))
                .collect()
        };
    let gone_only = |delta: &Delta| delta.old.filter(|_| delta.new.is_none());
    let new_only = |delta: &Delta| delta.new.filter(|_| delta.old.is_none());
    let (mut gone, mut new) = (0, 0);
    for delta in deltas {
        gone += usize::from(gone_only(delta).is_some());
        new += usize::from(new_only(delta).is_some());
    }
    let rest = (gone - pairs.len(), new - pairs.len());
    if rest.0 == 0 || rest.1 == 0 || rest.0 > PAIRED || rest.1 > PAIRED {
        return pairs;
    }
    let gone = left(gone_only, pairs.iter().map(|(gone, _)| *gone).collect());
    let new = left(new_only, pairs.iter().map(|(_, new)| *new).collect());
    let mut contents = Contents::new(objects);
    let mut scores = Vec::new();
    for (from, gone) in &gone {
        for (to, new) in &new {
            if let Some(score) = contents.score(gone.id, new.id) {
                let same = name(&deltas[*from].path) == name(&deltas[*to].path);
                scores.push((score, same, *from, *to));
            }
        }
    }
    scores.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| (a.2, a.3).cmp(&(b.2, b.3))));
    let (mut gone_taken, mut new_taken) = (Vec::new(), Vec::new());
    for (_, _, from, to) in scores {
        if !gone_taken.contains(&from) && !new_taken.contains(&to) {
            gone_taken.push(from);
            new_taken.push(to);
            pairs.push((from, to));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::objects::open;
    use super::*;

    #[test]
    fn what_is_read_and_compared_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        git2::Repository::init(folder.path()).unwrap();
        let repository = open(folder.path()).unwrap();
        let one = repository.blob(b"a\nb\nc\n").unwrap();
        let other = repository.blob(b"a\nb\nd\n").unwrap();
        let objects = Objects::new(&repository).unwrap();
        let contents =
            |bytes_left, work_left| Contents { bytes_left, work_left, ..Contents::new(&objects) };
        let mut enough = contents(12, 12);
        // Each is read once, and compared while the bound allows.
        assert_eq!(enough.score(one, other), Some(40_000));
        assert_eq!(enough.score(other, one), Some(40_000));
        assert_eq!(enough.score(one, other), None);
        assert_eq!(contents(11, 12).score(one, other), None);
        assert_eq!(contents(12, 5).score(one, other), None);
    }
}
