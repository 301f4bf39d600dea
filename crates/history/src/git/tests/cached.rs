//! What is kept from look to look: only what is new is read, and what comes out is the same.

use super::*;

/// Looks with what is kept, and holds it against a look without.
fn check(world: &World, path: &str, walked: u64) {
    let look = world.look(path);
    assert_eq!(look.commits_read, walked);
    assert_eq!(look.history, world.fresh(path).history);
}

#[test]
fn only_what_is_new_is_read() {
    let mut world = World::new();
    for _ in 0..10 {
        world.change(&["a", "b"]);
    }
    check(&world, "a", 10);
    check(&world, "a", 0);
    world.change(&["b"]);
    world.change(&["a", "b"]);
    check(&world, "a", 2);
    // Neighbours that were renamed or removed since are known.
    world.rename("b", "dir/b");
    world.commit("Move");
    check(&world, "a", 1);
    assert_eq!(neighbours(&world.look("a").history.unwrap()), ["dir/b 11 high"]);
    world.rename("dir/b", "c");
    world.commit("Move again");
    check(&world, "a", 1);
    assert_eq!(neighbours(&world.look("a").history.unwrap()), ["c 11 high"]);
    world.remove("c");
    world.commit("Remove");
    check(&world, "a", 1);
    world.change(&["a"]);
    check(&world, "a", 1);
    // The file itself moves: what its old path had is known.
    world.rename("a", "new");
    world.commit("Move it");
    check(&world, "new", 1);
    assert_eq!(world.look("new").history.unwrap().commits.len(), 13);
}

#[test]
fn branches_are_kept_side_by_side() {
    let mut world = World::new();
    for _ in 0..5 {
        world.change(&["a"]);
    }
    check(&world, "a", 5);
    world.git(["checkout", "--quiet", "-b", "side"]);
    world.change(&["a"]);
    check(&world, "a", 1);
    world.git(["checkout", "--quiet", "main"]);
    check(&world, "a", 0);
    world.change(&["b"]);
    check(&world, "a", 1);
    world.git(["checkout", "--quiet", "side"]);
    check(&world, "a", 0);
    world.git(["checkout", "--quiet", "main"]);
    world.merge("side");
    let look = world.look("a");
    assert!(look.commits_read < world.fresh("a").commits_read);
    assert_eq!(look.history, world.fresh("a").history);
    // Rewritten: what is not below the head does not count.
    world.git(["reset", "--quiet", "--hard", "HEAD~2"]);
    world.change(&["a"]);
    assert_eq!(world.look("a").history, world.fresh("a").history);
    for _ in 0..6 {
        world.change(&["a"]);
        world.look("a");
    }
    let folder = fs::read_dir(world.cache()).unwrap().next().unwrap().unwrap().path();
    let folder = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 4);
}

/// The one file that is kept.
fn kept(world: &World) -> PathBuf {
    let mut path = world.cache();
    while path.is_dir() {
        path = fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
    }
    path
}

#[test]
fn what_is_damaged_or_cannot_be_written_is_none() {
    let mut world = World::new();
    world.change(&["a", "b"]);
    world.change(&["a", "b"]);
    check(&world, "a", 2);
    for text in ["", "{", "null\n{}\n", "{\"key\":{}}"] {
        fs::write(kept(&world), text).unwrap();
        check(&world, "a", 2);
        check(&world, "a", 0);
    }
    // Another version.
    let text = fs::read_to_string(kept(&world)).unwrap();
    let (from, to) = ("\"basis\":\"4 ", "\"basis\":\"3 ");
    assert!(text.contains(from), "{text}");
    fs::write(kept(&world), text.replacen(from, to, 1)).unwrap();
    check(&world, "a", 2);
    let file = world.base().join("a file");
    fs::write(&file, "").unwrap();
    let look = read_history(&world.top.join("a"), &file, ReadingTime::UNLIMITED, &mut || true);
    let history = look.history.unwrap();
    assert_eq!((history.commits.len(), history.notes.len()), (2, 1));
}

#[test]
fn looks_side_by_side_are_whole() {
    let mut world = World::new();
    for _ in 0..20 {
        world.change(&["a", "b"]);
    }
    let expect = world.look("a").history;
    let path = kept(&world);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(world.look("a").history, expect);
                    let _ = fs::remove_file(&path);
                }
            });
        }
    });
}

#[test]
fn a_start_goes_on_where_the_last_one_stopped() {
    let mut world = World::new();
    let mut stream = String::new();
    for n in 0..450 {
        let name = if n < 220 { "old" } else { "a" };
        stream += &format!(
            "commit refs/heads/main\ncommitter Ann <ann@x> {} +0000\ndata 1\nm\n",
            1_700_000_000 + n * 60
        );
        if n == 220 {
            stream += "R old a\n";
        }
        for path in [name, "b"] {
            if n != 220 || path == "b" {
                let text = text(path) + &n.to_string();
                stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
            }
        }
    }
    world.import(stream.as_bytes());
    world.time += 450 * 60;
    let start = |world: &World| {
        let time = ReadingTime::at_most(std::time::Duration::ZERO);
        read_history(&world.top.join("a"), &world.cache(), time, &mut || true)
    };
    for read in 1..=4 {
        let look = start(&world);
        assert_eq!(look.commits_read, 100);
        let history = look.history.unwrap();
        assert_eq!(history.commits.len(), 100 * read);
        let newest_unread = 1_700_000_000 + 60 * (449 - 100 * i64::try_from(read).unwrap());
        assert_eq!(history.read_back_to, Some(newest_unread));
    }
    // A new head in between takes over the rest.
    fs::write(world.top.join("a"), "x").unwrap();
    world.git(["reset", "--quiet"]);
    world.change(&["a"]);
    let look = start(&world);
    assert_eq!(look.commits_read, 51);
    let history = look.history.unwrap();
    assert_eq!((history.commits.len(), history.read_back_to), (451, None));
    assert_eq!(history, world.history("a"));
    assert_eq!(start(&world).commits_read, 0);
}
