//! Which files differ between two trees, which are read as bytes, and only where their ids differ. Which of them are one
//! file under two names is [`super::renames`]'s.

use std::cmp::Ordering;

use git2::{ObjectType, OdbObject, Oid};

use super::objects::{Entry, Objects, entries};

/// Files that one comparison finds; more are left out, and not counted either.
const FILES: usize = 200_000;

/// Folders within each other that are looked into.
const DEPTH: usize = 500;

/// Pairs of folders that one comparison reads: folders alone could be endless.
const TREES: usize = 200_000;

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
