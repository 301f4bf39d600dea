//! Locates a file in its repository in a way that is the same in every clone: by the repository's first commit and the
//! path.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, Repository};

use super::facts::find_toplevel;
use super::repository::{Objects, is_shallow, open_repository};
use super::worker::run_in_worker;

/// Maximum time to look for the first commit.
const TIME: Duration = Duration::from_secs(5);

/// Locates a file, whose folder must exist. A link in the last part of the path is not followed. `known` may give the first
/// commit for the top of a working tree; it is used if the repository has that commit and it has no parents.
///
/// Returns the id of the repository's first commit, which is the same in every clone (if a history has several
/// beginnings, the one that first parents lead to), and the path from the top of the working tree. `None` outside of a
/// working tree, in a repository's own folder, in one that cannot be opened (damaged, or another user's:
/// `safe.directory`), without commits, in a shallow clone, if a commit on the way is damaged, and if reading takes too
/// long.
pub(crate) fn locate(
    path: &Path,
    known: &dyn Fn(&Path) -> Option<String>,
) -> Option<(String, PathBuf)> {
    let folder = path.parent()?.canonicalize().ok()?;
    let path = folder.join(path.file_name()?);
    let toplevel = find_toplevel(&folder)?;
    let inside = path.strip_prefix(&toplevel).ok()?;
    if inside.components().any(|part| part.as_os_str() == OsStr::new(".git")) {
        return None;
    }
    let (inside, known) = (inside.to_owned(), known(&toplevel));
    let read = move || find_first_commit(&open_repository(&toplevel).ok()?, known);
    let first_commit = run_in_worker(TIME, &mut || true, read)??;
    Some((first_commit, inside))
}

fn find_first_commit(repository: &Repository, known: Option<String>) -> Option<String> {
    let objects = Objects::new(repository).ok()?;
    if is_shallow(repository) {
        return None;
    }
    let is_first = |id: &String| {
        let commit = Oid::from_str(id).ok().and_then(|id| objects.read_commit(id).ok());
        commit.is_some_and(|commit| commit.parent_count() == 0)
    };
    if let Some(known) = known.filter(is_first) {
        return Some(known);
    }
    let mut id = objects.head_id().ok()?;
    // Since hashes are not verified, commits can be made to be each other's parents.
    let mut seen = HashSet::new();
    while seen.insert(id) {
        match objects.read_commit(id).ok()?.parent_id(0) {
            Ok(parent) => id = parent,
            Err(_) => return Some(id.to_string()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::Signature;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use tempfile::TempDir;

    fn locate_unknown(path: &Path) -> Option<(String, PathBuf)> {
        locate(path, &|_| None)
    }

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
            Some(locate_unknown(&self.top.join("src/a"))?.0)
        }
    }

    #[test]
    fn a_place_is_the_first_commit_and_the_path() {
        let world = world();
        assert_eq!(world.first(), None, "without commits");
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
        assert_eq!(locate_unknown(&strange).unwrap().1.as_os_str().as_bytes(), b"src/\xff\n");
    }

    #[test]
    fn what_is_known_is_believed_only_where_the_repository_has_it() {
        let world = world();
        let one = world.commit(&[], "one");
        let two = world.commit(&[one], "two");
        let orphan = world.commit(&[], "orphan");
        world.head(two);
        let check = |known: &str, expect: Oid| {
            let found = locate(&world.top.join("src/a"), &|_| Some(known.to_owned())).unwrap();
            assert_eq!(found, (expect.to_string(), PathBuf::from("src/a")), "{known}");
        };
        check(&orphan.to_string(), orphan);
        check(&two.to_string(), one);
        check("ab", one);
        check("../x", one);
    }

    #[test]
    fn where_there_is_no_place() {
        let world = world();
        assert_eq!(locate_unknown(&world.top.join(".git/config")), None);
        assert_eq!(locate_unknown(&world.top.join("no/such/folder/a")), None);
        assert_eq!(locate_unknown(Path::new("/")), None);
        let bare = world.top.parent().unwrap().join("bare");
        Repository::init_bare(&bare).unwrap();
        assert_eq!(locate_unknown(&bare.join("a")), None);
        assert_eq!(locate_unknown(&world.top.parent().unwrap().join("a")), None);
        fs::write(world.top.join(".git/config"), "[core\nbroken").unwrap();
        assert_eq!(locate_unknown(&world.top.join("src/a")), None);
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
        assert_eq!(locate_unknown(&other.join("a")), Some((one.to_string(), "a".into())));
    }
}
