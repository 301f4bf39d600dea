//! Where a file is in its repository, in words that hold in every clone of it.
//!
//! A repository is known by its first commit, a file in it by its path. It reads no file's content and no history but
//! the way to the first commit, which takes a second where it is 100,000 commits long: who knows that commit already says
//! so ([`place_knowing`]).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::objects::{Objects, open};
use super::toplevel;

/// A file's place in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The top of the working tree, by its true path.
    pub toplevel: PathBuf,
    /// The path from there, as bytes.
    pub path: Vec<u8>,
    /// The id of the repository's first commit, in hexadecimal digits: the same in every clone. Where a history has several
    /// beginnings, the one that first parents lead to. `None` in a repository without commits and in a shallow one, whose
    /// first commit is not known, and where the way to it is damaged.
    pub first_commit: Option<String>,
}

/// Where a file is, or will be: its folder must exist. A link in its last part is not followed.
///
/// `None` outside of a working tree, in a repository's own folder, and in a repository that cannot be opened: damaged, or
/// another user's (`safe.directory`). It starts no program.
pub fn place(path: &Path) -> Option<Place> {
    place_knowing(path, &|_| None)
}

/// The same without the way to the first commit where `known` gives it for the top of the working tree, and the
/// repository there has it indeed.
pub fn place_knowing(path: &Path, known: &dyn Fn(&Path) -> Option<String>) -> Option<Place> {
    let folder = path.parent()?.canonicalize().ok()?;
    let path = folder.join(path.file_name()?);
    let toplevel = toplevel(&folder)?;
    let inside = path.strip_prefix(&toplevel).ok()?;
    if inside.components().any(|part| part.as_os_str() == OsStr::new(".git")) {
        return None;
    }
    let repository = open(&toplevel).ok()?;
    let first_commit = known(&toplevel)
        .filter(|id| is_first(&repository, id))
        .or_else(|| first_commit(&repository));
    Some(Place { path: inside.as_os_str().as_bytes().to_vec(), toplevel, first_commit })
}

/// Whether the repository has this commit, and it is one without parents.
fn is_first(repository: &Repository, id: &str) -> bool {
    let Ok(id) = Oid::from_str(id) else { return false };
    let commit = Objects::new(repository).and_then(|objects| objects.commit(id));
    commit.is_ok_and(|commit| commit.parents.is_empty()) && !is_shallow(repository)
}

/// A worktree's own folder does not tell.
fn is_shallow(repository: &Repository) -> bool {
    let list = repository.commondir().join("shallow");
    repository.is_shallow() || list.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

fn first_commit(repository: &Repository) -> Option<String> {
    if is_shallow(repository) {
        return None;
    }
    let objects = Objects::new(repository).ok()?;
    // Not peeled: libgit2 takes in a commit of any size.
    let mut id = repository.head().ok()?.resolve().ok()?.target()?;
    // Where hashes are not checked, commits can be made to be each other's parents.
    let mut seen = HashSet::new();
    while seen.insert(id) {
        match objects.commit(id).ok()?.parents.first() {
            Some(parent) => id = *parent,
            None => return Some(id.to_string()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::Signature;
    use std::fs;
    use tempfile::TempDir;

    struct World {
        _dir: TempDir,
        top: PathBuf,
        repository: Repository,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("r");
        let repository = Repository::init(&top).unwrap();
        fs::create_dir(top.join("src")).unwrap();
        World { _dir: dir, top, repository }
    }

    impl World {
        fn commit(&self, parents: &[Oid], message: &str) -> Oid {
            let tree = self.repository.treebuilder(None).unwrap().write().unwrap();
            let tree = self.repository.find_tree(tree).unwrap();
            let me = Signature::new("a", "a@x", &git2::Time::new(1, 0)).unwrap();
            let parents: Vec<_> =
                parents.iter().map(|id| self.repository.find_commit(*id).unwrap()).collect();
            let parents: Vec<_> = parents.iter().collect();
            self.repository.commit(None, &me, &me, message, &tree, &parents).unwrap()
        }

        fn head(&self, id: Oid) {
            self.repository.reference("refs/heads/main", id, true, "").unwrap();
            self.repository.set_head("refs/heads/main").unwrap();
        }

        fn first(&self) -> Option<String> {
            place(&self.top.join("src/a")).unwrap().first_commit
        }
    }

    #[test]
    fn a_place_is_the_first_commit_and_the_path() {
        let world = world();
        let found = place(&world.top.join("src/a")).unwrap();
        let expect =
            Place { toplevel: world.top.clone(), path: b"src/a".to_vec(), first_commit: None };
        assert_eq!(found, expect, "without commits");
        let one = world.commit(&[], "one");
        let two = world.commit(&[one], "two");
        world.head(two);
        assert_eq!(world.first(), Some(one.to_string()));
        // Of several beginnings, the one that first parents lead to, whichever is older.
        let other = world.commit(&[], "other");
        world.head(world.commit(&[two, other], "merge"));
        assert_eq!(world.first(), Some(one.to_string()));
        world.head(world.commit(&[other, two], "merge"));
        assert_eq!(world.first(), Some(other.to_string()));
        let strange = world.top.join(OsStr::from_bytes(b"src/\xff\n"));
        assert_eq!(place(&strange).unwrap().path, b"src/\xff\n");
    }

    #[test]
    fn what_is_known_is_believed_only_where_the_repository_has_it() {
        let world = world();
        let one = world.commit(&[], "one");
        let two = world.commit(&[one], "two");
        let orphan = world.commit(&[], "orphan");
        world.head(two);
        let check = |known: &str, expect: Oid| {
            let found =
                place_knowing(&world.top.join("src/a"), &|_| Some(known.to_owned())).unwrap();
            assert_eq!(found.first_commit, Some(expect.to_string()), "{known}");
        };
        check(&orphan.to_string(), orphan);
        check(&two.to_string(), one);
        check("ab", one);
        check("../x", one);
    }

    #[test]
    fn where_there_is_no_place() {
        let world = world();
        assert_eq!(place(&world.top.join(".git/config")), None);
        assert_eq!(place(&world.top.join("no/such/folder/a")), None);
        assert_eq!(place(Path::new("/")), None);
        let bare = world.top.parent().unwrap().join("bare");
        Repository::init_bare(&bare).unwrap();
        assert_eq!(place(&bare.join("a")), None);
        assert_eq!(place(&world.top.parent().unwrap().join("a")), None);
        fs::write(world.top.join(".git/config"), "[core\nbroken").unwrap();
        assert_eq!(place(&world.top.join("src/a")), None);
    }

    #[test]
    fn a_shallow_or_damaged_history_has_no_first_commit() {
        let world = world();
        let one = world.commit(&[], "one");
        let two = world.commit(&[one], "two");
        world.head(two);
        let list = world.top.join(".git/shallow");
        fs::write(&list, format!("{two}\n")).unwrap();
        assert_eq!(world.first(), None);
        fs::remove_file(list).unwrap();
        let id = one.to_string();
        let object = world.top.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        fs::remove_file(&object).unwrap();
        fs::write(&object, "damage").unwrap();
        assert_eq!(world.first(), None);
    }

    #[test]
    fn commits_that_are_their_own_ancestors_have_no_first() {
        let world = world();
        let one = world.commit(&[], "one");
        let two = world.commit(&[one], "two");
        world.head(two);
        let object = |id: Oid| {
            let id = id.to_string();
            world.top.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))
        };
        fs::remove_file(object(one)).unwrap();
        fs::copy(object(two), object(one)).unwrap();
        assert_eq!(world.first(), None);
    }

    #[test]
    fn a_linked_worktree_is_of_the_same_repository() {
        let world = world();
        let one = world.commit(&[], "one");
        world.head(one);
        let other = world.top.parent().unwrap().join("w");
        world.repository.worktree("w", &other, None).unwrap();
        let found = place(&other.join("a")).unwrap();
        assert_eq!((found.toplevel, found.first_commit), (other, Some(one.to_string())));
    }
}
