//! Repositories that are missing, empty, unusual, foreign or damaged: a note each, and what can be read.

use super::*;
use crate::git::repository::describe_open_error;
use git2::{ErrorClass, ErrorCode};

fn check_none(look: &HistoryLookup, expect: &str) {
    assert_eq!(look.history, None);
    assert!(look.notes.len() == 1 && look.notes[0].contains(expect), "{:?}", look.notes);
}

#[test]
fn where_there_is_no_history_a_note_says_why() {
    let world = World::without_repository();
    check_none(&world.look("a"), "is not in a git repository");
    check_none(&world.look("not/there/a"), "is not in a git repository");
    world.git(["init", "--quiet", "--bare", "-b", "main"]);
    check_none(&world.look("objects/a"), "is not in a git repository");
    let mut world = World::new();
    check_none(&world.look("a"), "has no commit yet");
    world.change(&["b"]);
    check_none(&world.look("a"), "touched a");
    world.write("a", "x");
    check_none(&world.look("a"), "touched a");
    assert_eq!(world.look("a").commits_read, 0, "that nothing is there is kept too");
    check_none(&world.look(".git/config"), "belongs to git itself");
    check_none(&world.look("b/c"), "touched b/c");
    assert_eq!(
        read_history(Path::new("/"), &world.cache(), REPORT_TIME, &mut || true).history,
        None
    );
}

#[test]
fn a_worktree_has_its_own_head() {
    let mut world = World::new();
    world.change(&["a"]);
    let tree = world.base().join("tree");
    world.git(["worktree", "add", "--quiet", "-b", "other", tree.to_str().unwrap()]);
    fs::write(tree.join("a"), "new\n").unwrap();
    world.time += 60;
    world.git_in(&tree, ["commit", "--quiet", "-am", "Other"]);
    let look =
        read_history(&tree.join("a"), &world.cache(), REPORT_TIME, &mut || true).history.unwrap();
    assert_eq!((look.commits.len(), &look.toplevel), (2, &tree));
    assert_eq!(world.look("a").history.unwrap().commits.len(), 1);
}

#[test]
fn a_submodule_is_a_repository_of_its_own() {
    let mut inner = World::new();
    inner.change(&["a"]);
    inner.change(&["a"]);
    let mut world = World::new();
    world.change(&["a"]);
    world.git(["submodule", "--quiet", "add", inner.top.to_str().unwrap(), "sub"]);
    world.change(&["a"]);
    let look = world.fresh("sub/a").history.unwrap();
    assert_eq!((look.commits.len(), look.toplevel), (2, world.top.join("sub")));
    // In the outer one it is a file like any other.
    let outer = world.history("a");
    assert_eq!(neighbours(&outer), [".gitmodules 1", "sub 1"]);
}

/// Overwrites an object, which is a file of its own.
fn damage(world: &World, id: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = world.top.join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, "garbage").unwrap();
}

#[test]
fn damage_is_a_note_and_the_rest_is_read() {
    for what in ["commit", "tree", "blob", "missing"] {
        let mut world = World::new();
        world.change(&["a"]);
        let ids: Vec<String> = (0..4).map(|_| world.change(&["a", "b"])).collect();
        let bad = match what {
            "tree" => world.git(["rev-parse", &format!("{}^{{tree}}", ids[1])]),
            "blob" => world.git(["rev-parse", &format!("{}:a", ids[1])]),
            _ => ids[1].clone(),
        };
        if what == "missing" {
            fs::remove_file(world.top.join(".git/objects").join(&bad[..2]).join(&bad[2..]))
                .unwrap();
        } else {
            damage(&world, &bad);
        }
        let look = world.look("a");
        let history = look.history.unwrap();
        let (commits, notes) = (history.commits.len(), history.notes.len());
        match what {
            // Ids of contents are compared, not contents.
            "blob" => assert_eq!((commits, notes), (5, 0), "{what}"),
            _ => assert_eq!((commits, notes), (2, 1), "{what}"),
        }
        if what == "blob" {
            let bad = history.commits.iter().find(|commit| commit.id == ids[1]).unwrap();
            assert_eq!(commit_text(&world, bad), None);
        } else {
            assert!(history.notes[0].contains(&bad), "{what}: {:?}", history.notes);
            assert_ne!(world.look("a").commits_read, 0, "{what}: what is damaged is not kept");
        }
        // A damaged head leaves nothing.
        damage(&world, &ids[3]);
        let look = world.fresh("a");
        assert_eq!((look.history, look.notes.len()), (None, 2));
    }
}

#[test]
fn a_repository_that_cannot_be_opened_is_a_note() {
    let mut world = World::new();
    world.change(&["a"]);
    let config = world.top.join(".git/config");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, "[core\nbroken").unwrap();
    check_none(&world.look("a"), "cannot read the git repository");
    fs::write(&config, good).unwrap();
    fs::write(world.top.join(".git/HEAD"), "nonsense").unwrap();
    assert_eq!(world.look("a").history, None);
    let other = World::without_repository();
    fs::write(other.top.join(".git"), "gitdir: /nonexistent\n").unwrap();
    assert_eq!(other.look("a").history, None);
    let sha256 = World::without_repository();
    sha256.git(["init", "--quiet", "--object-format=sha256"]);
    check_none(&sha256.look("a"), "cannot read the git repository");
}

#[test]
fn a_repository_of_somebody_else_is_a_note_with_advice() {
    let error = git2::Error::new(ErrorCode::Owner, ErrorClass::Config, "not owned by current user");
    let note = describe_open_error(Path::new("/p"), &error);
    assert!(
        note.contains("cannot read the git repository at /p: not owned")
            && note.contains("safe.directory"),
        "{note}"
    );
    // Only root can give a repository away; the words above are what anybody sees then.
    if rustix::process::geteuid().is_root() {
        let mut world = World::new();
        world.change(&["a"]);
        for path in [world.top.clone(), world.top.join(".git")] {
            std::os::unix::fs::chown(path, Some(1234), None).unwrap();
        }
        let mut trusted = git2::Config::open_default().unwrap();
        let is_trusted = trusted.snapshot().and_then(|config| config.get_string("safe.directory"));
        match is_trusted {
            Err(_) => check_none(&world.look("a"), "safe.directory"),
            // Whoever runs this trusts some folders: then these may be among them.
            Ok(_) => {
                assert!(world.look("a").history.is_some() || !world.look("a").notes.is_empty());
            }
        }
    }
}

/// Nobody writes to a FIFO: whoever opens it waits.
#[test]
fn an_object_that_blocks_is_a_note() {
    let mut world = World::new();
    world.change(&["a"]);
    let id = world.git(["rev-parse", "HEAD^{tree}"]);
    let object = world.top.join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::remove_file(&object).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &object, rustix::fs::Mode::RWXU).unwrap();
    let begun = std::time::Instant::now();
    let look = read_history(&world.top.join("a"), &world.cache(), START_TIME, &mut || true);
    assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
    assert!(look.is_trouble);
    check_none(&look, "does not answer");
    // A signal ends the wait at once.
    let look = read_history(&world.top.join("a"), &world.cache(), REPORT_TIME, &mut || false);
    check_none(&look, "does not answer");
}

#[test]
fn a_folder_that_became_a_file_and_links_are_no_trouble() {
    let mut world = World::new();
    world.change(&["a/b", "c"]);
    world.remove("a/b");
    fs::remove_dir(world.top.join("a")).unwrap();
    world.write("a", "now a file");
    world.commit("A file");
    assert_eq!(world.history("a").commits.len(), 1);
    // git prints the folder's commits as well: a path is a prefix to it.
    assert_eq!(world.rev_list("a").len(), 2);
    assert_eq!(ids(&world.history("a/b")), world.rev_list("a/b"));
    std::os::unix::fs::symlink("c", world.top.join("link")).unwrap();
    world.commit("Link");
    world.remove("link");
    world.write("link", "a file");
    world.commit("No link");
    assert_eq!(ids(&world.history("link")), world.rev_list("link"));
}

#[test]
fn commits_that_are_too_large_are_left_out_with_a_note() {
    let mut world = World::new();
    world.change(&["a"]);
    let stream = |data: usize| {
        let head = format!(
            "commit refs/heads/main\ncommitter A <a@x> 2000000000 +0000\ndata {data}\n{}\nfrom refs/heads/main^0\n",
            "x".repeat(data)
        );
        [head.as_bytes(), b"M 100644 inline a\ndata 4\nnew\n\n"].concat()
    };
    world.import(&stream(15 << 20));
    assert_eq!(world.fresh("a").history.unwrap().commits.len(), 2);
    world.import(&stream(16 << 20));
    let look = world.fresh("a");
    assert!(look.is_trouble && look.history.is_none(), "{look:?}");
    assert!(look.notes.iter().any(|note| note.contains("over the limit of 16777216")), "{look:?}");
}
