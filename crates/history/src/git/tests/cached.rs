//! The history that is cached: read again at another head, and never trusted.

use super::*;

/// Looks with the cache, and holds it against a look without.
fn check(world: &World, path: &str, walked: u64) {
    let look = world.look(path);
    assert_eq!(look.commits_read, walked);
    assert_eq!(look.history, world.fresh(path).history);
}

#[test]
fn a_history_is_read_once_for_each_head() {
    let mut world = World::new();
    for _ in 0..10 {
        world.change(&["a", "b"]);
    }
    check(&world, "a", 10);
    check(&world, "a", 0);
    world.change(&["b"]);
    check(&world, "a", 11);
    check(&world, "a", 0);
    world.git(["checkout", "--quiet", "HEAD~3"]);
    check(&world, "a", 8);
    world.rename("a", "new");
    world.commit("Move it");
    check(&world, "new", 9);
    check(&world, "new", 0);
    // One for each path.
    assert_eq!(fs::read_dir(world.cache()).unwrap().count(), 2);
}

/// The one file that is kept.
fn kept(world: &World) -> PathBuf {
    fs::read_dir(world.cache()).unwrap().next().unwrap().unwrap().path()
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
    let (from, to) = ("\"basis\":\"5 ", "\"basis\":\"4 ");
    assert!(text.contains(from), "{text}");
    fs::write(kept(&world), text.replacen(from, to, 1)).unwrap();
    check(&world, "a", 2);
    let file = world.base().join("a file");
    fs::write(&file, "").unwrap();
    let look = read_history(&world.top.join("a"), &file, REPORT_TIME, &mut || true);
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
fn a_long_history_is_cut_and_a_report_reads_it_again() {
    let mut world = World::new();
    for _ in 0..3 {
        world.change(&["a"]);
    }
    let look = |time| read_history(&world.top.join("a"), &world.cache(), time, &mut || true);
    // The walk stops at once; reading ends before anybody stops waiting.
    let start = look(std::time::Duration::ZERO);
    assert!(start.is_trouble && start.notes[0].contains(" since 2023-11-14; "), "{start:?}");
    assert_eq!(look(START_TIME), start);
    let report = look(REPORT_TIME).history.unwrap();
    assert_eq!((report.commits.len(), report.read_back_to), (3, None));
    assert_eq!(look(START_TIME).history, Some(report));
}
