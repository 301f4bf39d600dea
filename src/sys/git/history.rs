//! A file's history: looked up in what was kept, else read from the repository from there on.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::{ErrorCode, Oid, Repository};

use super::super::fs;
use super::super::names::shown;
use super::facts::toplevel;
use super::mailmap::mailmap;
use super::objects::{Objects, open, unreadable};
use super::store::{Grafted, Store};
use super::today::{FOLLOWED, Today};
use super::walk::{Found, STOPPED, Walked, walk};
use crate::history::coupling::{self, Together, neighbours};
use crate::history::kept::{Kept, Key, Rest};
use crate::history::people::people;
use crate::history::{History, Sort, Touch};

/// What was found of a file's history.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    /// The history; `None` where there is no repository with a working tree, it has no commit, or none touched the file.
    /// What could not be read of it stands in its own notes.
    pub history: Option<History>,
    /// Why there is none; empty where there is one.
    pub notes: Vec<String>,
    /// Whether that is trouble, such as a repository that cannot be read, and not simply so.
    pub is_trouble: bool,
    /// Commits that were read for it: 0 when all was kept.
    pub walked: u64,
    /// Whether something of it was kept by an earlier look.
    pub from_cache: bool,
}

/// Looks up the history of a file by its true absolute path, which need not exist. What is read is kept below `cache`.
/// Ends early, with a note, when `stop` says so. Never fails: trouble is a note.
pub fn history(file: &Path, cache: &Path, stop: &dyn Fn() -> bool) -> Look {
    look(file, cache, stop).unwrap_or_else(|note| Look { is_trouble: true, ..Look::none(note) })
}

impl Look {
    /// No history, for a reason that is none to worry about.
    fn none(note: String) -> Self {
        Self { notes: vec![note], ..Self::default() }
    }
}

fn look(file: &Path, cache: &Path, stop: &dyn Fn() -> bool) -> Result<Look, String> {
    let top = file.parent().and_then(toplevel);
    let Some(top) = top else {
        return Ok(Look::none(format!("{} is in no git repository", shown(file))));
    };
    let path = file.strip_prefix(&top).unwrap_or(file).as_os_str().as_bytes();
    if path.starts_with(b".git/") {
        return Ok(Look::none(format!("{} is git's own", shown(file))));
    }
    let repository = open(&top)?;
    let objects = Objects::new(&repository)?;
    let head = match head(&repository) {
        Ok(head) => head,
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
            let note = format!("the git repository at {} has no commit yet", shown(&top));
            return Ok(Look::none(note));
        }
        Err(error) => return Err(unreadable(&top, &error)),
    };
    let key = Key {
        repository: repository.commondir().as_os_str().as_bytes().to_owned(),
        path: path.to_owned(),
        head: head.to_string(),
        shallow: match objects.shallow.as_str() {
            "" => String::new(),
            list => fs::sha256(list.as_bytes()),
        },
    };
    let mut store = Store::new(cache, key);
    let mut look = Look::default();
    let mut notes = Vec::new();
    let kept = if let Some(kept) = store.read() {
        look.from_cache = true;
        kept
    } else {
        let mut walked = walk(&objects, head, path, &mut store, stop);
        look.walked = walked.read;
        look.from_cache = store.grafted.is_some();
        notes.append(&mut walked.notes);
        let (kept, rest) =
            joined(&objects, store.key.clone(), walked, store.grafted.as_ref(), stop);
        if notes.is_empty() && stop() {
            notes.push(STOPPED.into());
        }
        // What is not all there today may be tomorrow.
        if notes.is_empty()
            && let Err(error) = store.write(&kept, &rest)
        {
            notes.push(format!("the history is not kept: {error:#}"));
        }
        kept
    };
    if kept.touches.is_empty() {
        look.notes.push(format!(
            "no commit of {} touched {}",
            shown(&top),
            shown(OsStr::from_bytes(path))
        ));
        look.is_trouble = !notes.is_empty();
        look.notes.append(&mut notes);
        return Ok(look);
    }
    let names = mailmap(&repository, &top, &objects, head);
    let mut touches: Vec<Touch> = kept.touches.into_iter().map(|(touch, _)| touch).collect();
    for touch in touches.iter_mut().filter(|_| !names.is_empty()) {
        (touch.name, touch.email) = names.resolve(&touch.name, &touch.email);
    }
    look.history = Some(History {
        toplevel: top,
        path: kept.key.path,
        head: kept.key.head,
        people: people(&touches),
        neighbours: kept.neighbours,
        is_shallow: touches.iter().any(|touch| touch.sort == Sort::Boundary),
        touches,
        notes,
    });
    Ok(look)
}

fn head(repository: &Repository) -> Result<Oid, git2::Error> {
    let missing = || git2::Error::from_str("HEAD names no commit");
    repository.head()?.resolve()?.target().ok_or_else(missing)
}

/// What a walk found and what was kept before, as one.
fn joined(
    objects: &Objects<'_>,
    key: Key,
    walked: Walked,
    grafted: Option<&Grafted>,
    stop: &dyn Fn() -> bool,
) -> (Kept, Rest) {
    let graft = walked.graft.zip(grafted);
    let mut rows = Rows::default();
    match graft {
        None => walked.found.into_iter().for_each(|found| rows.found(found)),
        Some(((state, before), grafted)) => {
            let known: HashSet<&str> =
                grafted.kept.touches.iter().map(|(touch, _)| touch.id.as_str()).collect();
            let mut found = walked.found;
            let after = found.split_off(before.min(found.len()));
            let is_new = |found: &Found| !known.contains(found.touch.id.as_str());
            found.into_iter().filter(is_new).for_each(|found| rows.found(found));
            // Both are in order: the later commit comes first.
            let mut after = after.into_iter().filter(is_new).peekable();
            for (at, (touch, committed)) in grafted.kept.touches.iter().enumerate() {
                while let Some(found) = after.next_if(|found| found.committed > *committed) {
                    rows.found(found);
                }
                rows.kept(grafted, at, (touch.clone(), *committed), state);
            }
            after.for_each(|found| rows.found(found));
        }
    }
    let tree = walked.states.first().map(|state| state.tree);
    if let Some(tree) = tree {
        rows.name(
            &mut Today::new(objects, tree, &walked.states, stop),
            graft.map(|(_, grafted)| grafted),
        );
    }
    let neighbours = neighbours(&rows.together(&key.path));
    let mut seen = walked.seen;
    if let Some((_, grafted)) = graft {
        seen.extend(grafted.rest.seen.iter().cloned());
    }
    let rest = Rest {
        together: rows.together,
        today: rows.today.iter().map(|(old, new)| (*old, *new)).collect(),
        paths: rows.paths,
        seen,
    };
    (Kept { key, touches: rows.touches, neighbours }, rest)
}

/// Where a path stands last in the history, which is where it is followed from.
#[derive(Debug, Clone, Copy)]
struct Last {
    state: usize,
    /// Whether it was kept before: then what became of it up to there is known.
    is_kept: bool,
}

/// Touches and the paths of the files beside them, numbered.
#[derive(Debug, Default)]
struct Rows {
    touches: Vec<(Touch, i64)>,
    together: Vec<Option<Vec<u32>>>,
    paths: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
    last: HashMap<u32, Last>,
    weights: HashMap<u32, f64>,
    today: HashMap<u32, Option<u32>>,
}

impl Rows {
    fn found(&mut self, found: Found) {
        let last = Last { state: found.state, is_kept: false };
        let together = found.together.map(|paths| {
            paths.into_iter().map(|path| self.put(&path, found.touch.files, last)).collect()
        });
        self.together.push(together);
        self.touches.push((found.touch, found.committed));
    }

    fn kept(&mut self, grafted: &Grafted, at: usize, touch: (Touch, i64), state: usize) {
        let last = Last { state, is_kept: true };
        let files = touch.0.files;
        let numbers = grafted.rest.together.get(at).and_then(Option::as_ref);
        let together = numbers.map(|numbers| {
            let paths = numbers.iter().map(|number| &grafted.rest.paths[*number as usize]);
            paths.map(|path| self.put(path, files, last)).collect()
        });
        self.together.push(together);
        self.touches.push(touch);
    }

    /// Numbers a path of a commit of so many files.
    fn put(&mut self, path: &[u8], files: u64, last: Last) -> u32 {
        let number = self.number(path);
        self.last.entry(number).or_insert(last);
        *self.weights.entry(number).or_default() += coupling::weight(files);
        number
    }

    fn number(&mut self, path: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Finds today's names of the paths that the head does not have; the weightiest first, as far as the bound goes.
    fn name(&mut self, today: &mut Today<'_, '_>, grafted: Option<&Grafted>) {
        let mut missing: Vec<u32> = Vec::new();
        for (number, path) in (0_u32..).zip(&self.paths) {
            if !today.has(path) {
                missing.push(number);
            }
        }
        let weight = |number: &u32| self.weights.get(number).copied().unwrap_or_default();
        missing.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
        let known: HashMap<&[u8], Option<&[u8]>> = grafted.map(Grafted::today).unwrap_or_default();
        let mut followed = 0;
        for number in missing {
            let path = self.paths[number as usize].clone();
            let Some(last) = self.last.get(&number).copied() else { continue };
            let from = match known.get(path.as_slice()) {
                Some(known) if last.is_kept => known.map(<[u8]>::to_vec),
                _ => Some(path),
            };
            let found = match from {
                Some(from) if today.has(&from) => Some(from),
                Some(from) if followed < FOLLOWED => {
                    followed += 1;
                    today.path(&from, last.state)
                }
                _ => None,
            };
            let found = found.map(|path| self.number(&path));
            self.today.insert(number, found);
        }
    }

    /// The commits that count, with the other files by today's names.
    fn together(&self, path: &[u8]) -> Vec<Together<'_>> {
        let rows = self.touches.iter().zip(&self.together);
        rows.filter_map(|((touch, _), numbers)| {
            let numbers = numbers.as_ref()?;
            let today = |number: &u32| match self.today.get(number) {
                None => Some(*number),
                Some(today) => *today,
            };
            let others: BTreeSet<&[u8]> = numbers
                .iter()
                .filter_map(today)
                .map(|number| self.paths[number as usize].as_slice())
                .filter(|other| *other != path)
                .collect();
            Some(Together { files: touch.files, others })
        })
        .collect()
    }
}
