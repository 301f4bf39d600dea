//! Which files differ between two trees, and which of them are one file under two names.
//!
//! Trees are read as bytes, and only where their ids differ. Renames are found as git finds them: equal contents first,
//! then those that share half of their bytes or more. Copies are none: what a file was copied from is another file.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use git2::{ObjectType, OdbObject, Oid};

use super::objects::{Entry, Objects, entries};
use crate::history::similarity::{Pieces, RENAME, may_be_rename};

/// Files that one comparison finds; more are left out, and not counted either.
const FILES: usize = 200_000;

/// Folders within each other that are looked into.
const DEPTH: usize = 500;

/// Pairs of folders that one comparison reads: folders alone could be endless.
const TREES: usize = 200_000;

/// The largest content that is compared with others, in bytes.
const COMPARED: usize = 4 << 20;

/// Contents that one is compared with.
const CANDIDATES: usize = 2_000;

/// Equal files among which one of the same name is looked for.
const SAME: usize = 1_000;

/// The most files on each side that are compared with each other; more, and only equal contents make a rename.
const PAIRED: usize = 100;

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

/// The files that differ between two trees, by path; a missing tree is an empty one.
pub(super) fn changes(
    objects: &Objects<'_>,
    old: Option<Oid>,
    new: Option<Oid>,
) -> Result<Vec<Delta>, String> {
    let mut comparison = Comparison { objects, prefix: Vec::new(), trees: 0, deltas: Vec::new() };
    if old != new {
        comparison.compare(old, new, 0)?;
    }
    Ok(comparison.deltas)
}

/// A comparison that is under way.
struct Comparison<'a, 'repository> {
    objects: &'a Objects<'repository>,
    prefix: Vec<u8>,
    trees: usize,
    deltas: Vec<Delta>,
}

impl Comparison<'_, '_> {
    fn compare(&mut self, old: Option<Oid>, new: Option<Oid>, depth: usize) -> Result<(), String> {
        self.trees += 1;
        if depth > DEPTH || self.trees > TREES {
            return Ok(());
        }
        let objects = self.objects;
        let read = |id: Option<Oid>| id.map(|id| objects.read(id, ObjectType::Tree)).transpose();
        let (old, new) = (read(old)?, read(new)?);
        let (old, new) = (bytes(old.as_ref()), bytes(new.as_ref()));
        let (mut olds, mut news) = (entries(old).peekable(), entries(new).peekable());
        while self.deltas.len() < FILES {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, a_entry)), Some((b, b_entry))) => {
                    if a == b && a_entry == b_entry {
                        olds.next();
                        news.next();
                        continue;
                    }
                    sorted_as(a, *a_entry).cmp(sorted_as(b, *b_entry))
                }
            };
            let old = if order.is_le() { olds.next() } else { None };
            let new = if order.is_ge() { news.next() } else { None };
            let Some((name, _)) = old.or(new) else { break };
            let (old, new) = (old.map(|(_, entry)| entry), new.map(|(_, entry)| entry));
            let length = self.prefix.len();
            self.prefix.extend_from_slice(name);
            let is_folder = |entry: Option<Entry>| entry.is_some_and(Entry::is_folder);
            if is_folder(old) || is_folder(new) {
                self.prefix.push(b'/');
                let id = |entry: Option<Entry>| entry.map(|entry| entry.id);
                if id(old) != id(new) {
                    self.compare(id(old), id(new), depth + 1)?;
                }
            } else {
                self.deltas.push(Delta { path: self.prefix.clone(), old, new });
            }
            self.prefix.truncate(length);
        }
        Ok(())
    }
}

fn bytes<'a>(object: Option<&'a OdbObject<'_>>) -> &'a [u8] {
    object.map_or(&[], OdbObject::data)
}

/// The order of trees: a folder stands where its name with a slash would.
fn sorted_as(name: &[u8], entry: Entry) -> impl Iterator<Item = &u8> {
    name.iter().chain(entry.is_folder().then_some(&b'/'))
}

/// The file among those that are gone that became this new one: an equal one, else the most alike.
pub(super) fn source<'a>(
    objects: &Objects<'_>,
    deltas: &'a [Delta],
    path: &[u8],
) -> Option<&'a Delta> {
    let new = deltas.iter().find(|delta| delta.path == path)?.new?;
    let gone = deltas.iter().filter_map(|delta| match (delta.old, delta.new) {
        (Some(old), None) => Some((delta, old)),
        _ => None,
    });
    nearest(objects, (path, new), gone)
}

/// The file among the new ones that this one that is gone became. One that equals another that is gone is that one.
pub(super) fn target<'a>(
    objects: &Objects<'_>,
    deltas: &'a [Delta],
    path: &[u8],
) -> Option<&'a Delta> {
    let old = deltas.iter().find(|delta| delta.path == path)?.old?;
    let pairs = equal_pairs(deltas);
    if let Some((_, new)) = pairs.iter().find(|(gone, _)| deltas[*gone].path == path) {
        return Some(&deltas[*new]);
    }
    let taken: HashSet<usize> = pairs.iter().map(|(_, new)| *new).collect();
    let new = deltas.iter().enumerate().filter_map(|(at, delta)| match (delta.old, delta.new) {
        (None, Some(new)) if !taken.contains(&at) => Some((delta, new)),
        _ => None,
    });
    nearest(objects, (path, old), new)
}

/// The candidate that is most like a file: an equal one, the same name before others, else one that shares half or more.
fn nearest<'a>(
    objects: &Objects<'_>,
    (path, entry): (&[u8], Entry),
    candidates: impl Iterator<Item = (&'a Delta, Entry)>,
) -> Option<&'a Delta> {
    let fits = |other: Entry| {
        if entry.is_regular() { other.is_regular() } else { entry.mode == other.mode }
    };
    let candidates: Vec<(&Delta, Entry)> = candidates.filter(|(_, other)| fits(*other)).collect();
    let same_name = |delta: &Delta| name(&delta.path) == name(path);
    let equal = || candidates.iter().filter(|(_, other)| other.id == entry.id);
    if let Some((delta, _)) = equal().find(|(delta, _)| same_name(delta)).or_else(|| equal().next())
    {
        return Some(delta);
    }
    if !entry.is_regular() {
        return None;
    }
    let size = objects.size(entry.id).ok().filter(|size| *size <= COMPARED)?;
    let mut ours = None;
    let mut best: Option<(usize, bool, &Delta)> = None;
    for (delta, other) in candidates.iter().take(CANDIDATES) {
        let alike = objects
            .size(other.id)
            .is_ok_and(|other| other <= COMPARED && may_be_rename(size, other));
        if !alike {
            continue;
        }
        let ours = match &ours {
            Some(ours) => ours,
            None => ours.insert(pieces(objects, entry.id)?),
        };
        let Some(others) = pieces(objects, other.id) else { continue };
        let found = (ours.score(&others), same_name(delta), *delta);
        let is_better = best.is_none_or(|best| (found.0, found.1) > (best.0, best.1));
        if found.0 >= RENAME && is_better {
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
    let read = |entries: Vec<(usize, Entry)>| -> Vec<(usize, usize, Option<Pieces>)> {
        let size = |entry: Entry| objects.size(entry.id).ok().filter(|size| *size <= COMPARED);
        entries
            .iter()
            .map(|(at, entry)| {
                let size = size(*entry);
                (*at, size.unwrap_or(0), size.and_then(|_| pieces(objects, entry.id)))
            })
            .collect()
    };
    let (gone, new) = (read(gone), read(new));
    let mut scores = Vec::new();
    for (from, from_size, from_pieces) in &gone {
        for (to, to_size, to_pieces) in &new {
            if let (Some(a), Some(b)) = (from_pieces, to_pieces)
                && may_be_rename(*from_size, *to_size)
                && let score = a.score(b)
                && score >= RENAME
            {
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

/// A file's content in pieces, when it can be read.
fn pieces(objects: &Objects<'_>, id: Oid) -> Option<Pieces> {
    objects.read(id, ObjectType::Blob).ok().map(|object| Pieces::of(object.data()))
}
