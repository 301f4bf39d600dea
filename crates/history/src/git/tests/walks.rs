//! Which commits touched a file, who made them, what changed with it.

use super::*;
use crate::git::{LARGEST_COMMIT, MAX_COUNTED};
use crate::{CommitKind, FileChange};

#[test]
fn a_line_of_commits_is_as_git_has_it() {
    let mut world = World::new();
    world.change(&["a.txt", "b.txt"]);
    world.by("Bob <bob@x>").change(&["b.txt"]);
    world.change(&["a.txt"]);
    world.by("Ann <ann@x>").change(&["a.txt", "dir/c.txt"]);
    world.write("a.txt", "subject test\n");
    world.commit("\n\nTwo lines\nof subject\n\nBody.");
    let history = world.history("a.txt");
    assert_eq!(ids(&history), world.rev_list("a.txt"));
    assert_eq!(ids(&history), world.follow("a.txt"));
    assert_eq!(shortlog(&history), world.shortlog("a.txt"));
    let first = &history.commits[0];
    let shown = world.git(["log", "-1", "--format=%at|%an|%ae|%s"]);
    assert_eq!(format!("{}|{}|{}|{}", first.time, first.name, first.email, first.subject), shown);
    assert_eq!((first.offset, first.subject.as_str()), (60, "Two lines of subject"));
    assert_eq!((&history.toplevel, history.path.as_slice()), (&world.top, b"a.txt".as_slice()));
    assert_eq!(history.head, world.git(["rev-parse", "HEAD"]));
    let in_folder = world.history("dir/c.txt");
    assert_eq!(ids(&in_folder), world.rev_list("dir/c.txt"));
    assert_eq!(neighbours(&in_folder), ["a.txt 1"]);
}

#[test]
fn renames_are_followed_twice_and_into_folders() {
    let mut world = World::new();
    world.change(&["one.txt"]);
    world.change(&["one.txt", "other.txt"]);
    world.rename("one.txt", "dir/two.txt");
    world.commit("Move");
    world.change(&["dir/two.txt"]);
    world.rename("dir/two.txt", "dir/deep/er/three.txt");
    let before = world.change(&["dir/deep/er/three.txt", "other.txt"]);
    world.change(&["dir/deep/er/three.txt"]);
    let history = world.history("dir/deep/er/three.txt");
    assert_eq!(ids(&history), world.follow("dir/deep/er/three.txt"));
    assert_eq!(history.commits.len(), 6);
    let renamed = |from: &[u8]| FileChange::Renamed { from: from.to_owned() };
    let changes: Vec<_> = history.commits.iter().map(|commit| commit.change.clone()).collect();
    assert_eq!(changes[1], renamed(b"dir/two.txt"));
    assert_eq!(changes[3], renamed(b"one.txt"));
    assert_eq!(changes[5], FileChange::Added);
    let text = patch(&world, &history.commits[1]);
    assert!(text.contains("\n+changed at") && !text.contains("\n-c"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with(' ')).count(), 1, "{text}");
    assert_eq!(history.commits[1].id, before);
    assert_eq!(neighbours(&history), ["other.txt 2"]);
}

/// libgit2 and git do not measure in the same way: around a half they may differ.
#[test]
fn a_rename_is_one_where_most_of_the_lines_stayed() {
    for stayed in [0, 4, 9, 12] {
        let mut world = World::new();
        let line = |line, old| {
            let words = if old { "line number" } else { "other words" };
            format!("{words} {line:02}\n")
        };
        world.write("old", (0..12).map(|at| line(at, true)).collect::<String>());
        world.commit("Old");
        world.remove("old");
        world.write("new", (0..12).map(|at| line(at, at < stayed)).collect::<String>());
        world.commit("New");
        assert_eq!(ids(&world.history("new")), world.follow("new"), "{stayed} of 12 lines");
    }
}

#[test]
fn a_file_that_came_back_has_both_lives() {
    let mut world = World::new();
    world.change(&["a", "keep"]);
    world.remove("a");
    world.commit("Remove");
    world.change(&["keep"]);
    world.write("a", "something quite new\n");
    world.commit("Again");
    let history = world.history("a");
    assert_eq!(ids(&history), world.follow("a"));
    let changes: Vec<_> = history.commits.iter().map(|commit| commit.change.clone()).collect();
    assert_eq!(changes, [FileChange::Added, FileChange::Deleted, FileChange::Added]);
    world.remove("a");
    world.commit("Gone for good");
    assert_eq!(ids(&world.history("a")), world.follow("a"));
    for commit in &world.history("a").commits {
        let text = patch(&world, commit);
        let is_gone = commit.change == FileChange::Deleted;
        assert_eq!(text.contains("+0,0 @@\n-"), is_gone, "{text}");
        assert_eq!(text.contains("@@ -0,0 +"), !is_gone, "{text}");
    }
}

/// Two branches from one commit; the second is checked out.
fn fork(world: &mut World) {
    world.change(&["a", "b"]);
    world.git(["checkout", "--quiet", "-b", "side"]);
}

#[test]
fn a_merge_that_took_one_side_is_followed_there_alone() {
    let mut world = World::new();
    fork(&mut world);
    world.change(&["a"]);
    world.git(["checkout", "--quiet", "main"]);
    world.change(&["b"]);
    world.merge("side");
    let history = world.history("a");
    assert_eq!(ids(&history), world.rev_list("a"));
    assert_eq!(history.commits.len(), 2);
}

#[test]
fn merges_that_changed_the_file_are_counted() {
    let mut world = World::new();
    world.write("a", text("a"));
    fork(&mut world);
    let old = fs::read_to_string(world.top.join("a")).unwrap();
    world.write("a", format!("top\n{old}"));
    world.commit("Top");
    world.git(["checkout", "--quiet", "main"]);
    world.write("a", format!("{old}bottom\n"));
    world.write("other", "x");
    world.commit("Bottom");
    world.merge("side");
    let history = world.history("a");
    assert_eq!(ids(&history), world.rev_list("a"));
    assert_eq!((history.commits.len(), history.commits[0].kind), (4, CommitKind::Merge));
    // By hand: both sides change one line.
    world.git(["checkout", "--quiet", "-b", "hand"]);
    world.write("a", "theirs\n");
    world.commit("Theirs");
    world.git(["checkout", "--quiet", "main"]);
    world.write("a", "ours\n");
    world.commit("Ours");
    world.merge("hand");
    world.write("a", "by hand\n");
    let merge = world.commit("Resolved");
    let history = world.history("a");
    assert_eq!(ids(&history), world.rev_list("a"));
    assert_eq!((&history.commits[0].id, history.commits[0].kind), (&merge, CommitKind::Merge));
    assert_eq!(history.commits[0].change, FileChange::Modified);
    // A merge says nothing of what belongs together: its branch's commits do.
    assert_eq!(neighbours(&history), ["b 1", "other 1"]);
}

#[test]
fn a_side_that_a_merge_dropped_is_dropped() {
    let mut world = World::new();
    fork(&mut world);
    world.change(&["a"]);
    world.git(["checkout", "--quiet", "main"]);
    world.change(&["b"]);
    world.git(["merge", "--quiet", "-s", "ours", "--no-edit", "side"]);
    let history = world.history("a");
    assert_eq!(ids(&history), world.rev_list("a"));
    assert_eq!(history.commits.len(), 1);
}

#[test]
fn a_criss_cross_is_as_git_has_it() {
    let mut world = World::new();
    world.write("a", text("a"));
    fork(&mut world);
    let old = fs::read_to_string(world.top.join("a")).unwrap();
    world.write("a", format!("top\n{old}"));
    world.commit("Top");
    world.git(["branch", "side-1"]);
    world.git(["checkout", "--quiet", "main"]);
    world.write("a", format!("{old}bottom\n"));
    world.commit("Bottom");
    world.git(["branch", "main-1"]);
    world.merge("side-1");
    world.git(["checkout", "--quiet", "side"]);
    world.merge("main-1");
    world.change(&["a"]);
    world.git(["checkout", "--quiet", "main"]);
    world.change(&["b"]);
    world.merge("side");
    assert_eq!(ids(&world.history("a")), world.rev_list("a"));
}

#[test]
fn a_side_that_knew_the_file_by_its_old_name_is_followed_by_it() {
    let mut world = World::new();
    world.write("old", text("old"));
    let first = world.commit("Old");
    world.git(["checkout", "--quiet", "-b", "side"]);
    let side = world.change(&["old"]);
    world.git(["checkout", "--quiet", "main"]);
    world.rename("old", "new");
    let renamed = world.commit("Rename");
    world.merge("side");
    let history = world.history("new");
    let merge = world.git(["rev-parse", "HEAD"]);
    // The rename's line and the side's are told apart; `--follow` has one path for both, and loses one of them.
    assert_eq!(ids(&history), [merge, renamed, side.clone(), first]);
    assert_eq!(history.commits[2].path, b"old");
}

#[test]
fn an_import_is_known_for_what_it_is() {
    let mut world = World::new();
    for n in 0..300 {
        world.write(format!("src/f{n:03}"), text(&n.to_string()));
    }
    world.commit("Import");
    world.change(&["src/f100", "src/f200"]);
    let reformat = |world: &mut World| {
        for n in 0..300 {
            let path = format!("src/f{n:03}");
            let old = fs::read_to_string(world.top.join(&path)).unwrap();
            world.write(path, format!("{old}\n"));
        }
        world.commit("Reformat");
    };
    reformat(&mut world);
    world.change(&["src/f100", "src/f200"]);
    reformat(&mut world);
    let history = world.history("src/f100");
    assert_eq!(ids(&history), world.rev_list("src/f100"));
    let kinds: Vec<CommitKind> = history.commits.iter().map(|commit| commit.kind).collect();
    assert_eq!(
        kinds,
        [
            CommitKind::Plain,
            CommitKind::Plain,
            CommitKind::Plain,
            CommitKind::Plain,
            CommitKind::Import
        ]
    );
    // Nor do changes of very many files count.
    assert_eq!((neighbours(&history), history.counted), (vec!["src/f200 2".to_owned()], 2));
}

#[test]
fn a_shallow_clone_ends_at_its_boundary() {
    let mut world = World::new();
    for n in 0..6 {
        world.by(&format!("P{n} <p{n}@x>")).change(&["a", "b"]);
    }
    for depth in [1, 3] {
        let clone = world.base().join(format!("clone-{depth}"));
        let url = format!("file://{}", world.top.display());
        let target = clone.to_str().unwrap();
        world.git(["clone", "--quiet", "--depth", &depth.to_string(), &url, target]);
        let look = read_history(&clone.join("a"), &world.cache(), REPORT_TIME, &mut || true);
        let history = look.history.unwrap();
        let expect = world.git_in(&clone, ["log", "--follow", "--format=%H", "--", "a"]);
        assert_eq!(ids(&history), lines(&expect));
        assert_eq!((history.commits.len(), history.is_shallow), (depth, true));
        assert_eq!(history.commits[depth - 1].kind, CommitKind::Boundary);
        assert_eq!(history.people.len(), depth - 1);
        assert_eq!(history.notes, [] as [&str; 0]);
        let expect: &[&str] = if depth == 1 { &[] } else { &["b 2"] };
        assert_eq!(neighbours(&history), expect);
        // The same head with more below it is read anew.
        world.git_in(&clone, ["fetch", "--quiet", "--unshallow"]);
        let whole =
            super::read_history(&clone.join("a"), &world.cache(), REPORT_TIME, &mut || true);
        assert_eq!(whole.history.unwrap().commits.len(), 6);
    }
}

#[test]
fn the_mailmap_is_applied_also_to_what_was_kept() {
    let mut world = World::new();
    world.by("ann <old@x>").change(&["a"]);
    world.by("Ann B <ann@x>").change(&["a"]);
    world.by("Cid <cid@x>").change(&["a"]);
    assert_eq!(world.look("a").history.unwrap().people.len(), 3);
    world.write(".mailmap", "Ann B <ann@x> <old@x>\nCid D <cid@x>\n");
    let look = world.look("a");
    assert_eq!(look.commits_read, 0);
    let history = look.history.unwrap();
    assert_eq!(shortlog(&history), world.shortlog("a"));
    assert_eq!(history.people.len(), 2);
}

#[test]
fn any_name_is_only_a_name() {
    let names: [&[u8]; 12] = [
        b"with space",
        b"new\nline",
        b"quo\"te'",
        b"-dash",
        b":x",
        b":(glob)*",
        b"*.md",
        b"[id].tsx",
        b"i.tsx",
        b"caf\xc3\xa9.py",
        b"\xff\xfe.bin",
        b"back\\slash",
    ];
    let mut world = World::new();
    for (at, name) in names.iter().enumerate() {
        world.write(os(name), text(&format!("file {at}")));
    }
    world.write("x", "x");
    world.write("b.md", "y");
    world.commit("All");
    for (at, name) in names.iter().enumerate() {
        world.write(os(name), text(&format!("file {at} again")));
        world.write(os(&[b"dir/".as_slice(), name].concat()), text(&format!("dir {at}")));
        world.commit("One");
    }
    for name in names {
        let history = world.history(os(name));
        assert_eq!(ids(&history), world.rev_list(os(name)), "{}", String::from_utf8_lossy(name));
        assert_eq!((history.commits.len(), history.path.as_slice()), (2, name));
        let paths: Vec<&[u8]> = history.co_changed.iter().map(|n| n.path.as_slice()).collect();
        assert_eq!(paths, [[b"dir/".as_slice(), name].concat()]);
        // Kept, and the same from there.
        let (first, later) = (world.look(os(name)), world.look(os(name)));
        assert_eq!((first.history, later.commits_read), (later.history, 0));
        let text = patch(&world, &history.commits[0]);
        assert!(text.starts_with("@@ -1,12 +1,12 @@\n"), "{text}");
    }
}

#[test]
fn a_neighbour_counts_since_its_last_rename() {
    let mut world = World::new();
    world.change(&["a", "test", "gone", "same"]);
    world.change(&["a", "test", "gone", "same"]);
    world.rename("a", "dir/a");
    world.rename("test", "dir/test");
    world.remove("gone");
    world.commit("Move");
    world.change(&["dir/a", "dir/test"]);
    let history = world.history("dir/a");
    assert_eq!((neighbours(&history), history.counted), (lines("dir/test 2\nsame 2"), 4));
}

#[test]
fn the_latest_commits_of_few_files_are_counted() {
    let world = World::new();
    let mut stream = String::new();
    let file = |path: &str, n: usize| format!("M 100644 inline {path}\ndata 4\n{n:04}\n");
    for n in 0..MAX_COUNTED + 10 {
        let time = 1_700_000_000 + n;
        stream += &format!(
            "commit refs/heads/main\ncommitter A <a@x> {time} +0000\ndata 1\nm\n{}{}",
            file("a", n),
            file(if n < 20 { "old" } else { "new" }, n)
        );
        if n == 50 {
            let many = (0..LARGEST_COMMIT).map(|k| file(&format!("f{k}"), n));
            stream += &many.collect::<String>();
        }
    }
    world.import(stream.as_bytes());
    let history = world.history("a");
    assert_eq!(history.commits.len(), MAX_COUNTED + 10);
    assert_eq!((neighbours(&history), history.counted), (lines("new 39\nold 10"), 49));
}

#[test]
fn patches_have_modes_and_binary_contents() {
    let mut world = World::new();
    world.change(&["a"]);
    world.write("a", [0, 1, 2]);
    world.commit("Binary");
    world.git(["update-index", "--chmod=+x", "a"]);
    world.time += 60;
    world.git(["commit", "--quiet", "-m", "Mode\n\nlong body"]);
    let history = world.history("a");
    let patch = |at: usize| commit_text(&world, &history.commits[at]).unwrap().diff;
    assert_eq!([patch(0), patch(1)], ["", "Binary contents differ\n"]);
    let whole = patch(2);
    assert!(whole.contains("@@ -0,0 +1,13 @@\n+a has line 0 of a\n"), "{whole}");
    let text = commit_text(&world, &history.commits[0]).unwrap();
    assert_eq!(text.message, "Mode\n\nlong body\n");
    let nonsense = FileCommit { id: "nonsense".into(), ..FileCommit::default() };
    assert_eq!(commit_text(&world, &nonsense), None);
}

/// A folder of many files that is moved while all of them are changed.
#[test]
fn a_file_that_moved_and_changed_with_hundreds_of_others_is_followed() {
    let world = World::new();
    let mut stream = String::new();
    for step in 0..2 {
        let time = 1_700_000_000 + step;
        stream += &format!("commit refs/heads/main\ncommitter A <a@x> {time} +0000\ndata 1\nm\n");
        for k in 0..500 {
            let lines: String = (0..20).map(|n| format!("line {n} of {k}\n")).collect();
            let (path, text) = match step {
                0 => (format!("o{k}"), lines),
                _ => (format!("src/o{k}"), lines + "more\n"),
            };
            if step == 1 {
                stream += &format!("D o{k}\n");
            }
            stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
    }
    world.import(stream.as_bytes());
    let history = world.history("src/o444");
    assert_eq!(history.commits[0].change, FileChange::Renamed { from: b"o444".to_vec() });
    assert_eq!((history.commits.len(), history.counted), (2, 0));
}

#[test]
fn a_file_that_left_a_stub_behind_is_followed_and_a_copy_is_not() {
    let mut world = World::new();
    world.write("a", text("a"));
    let first = world.commit("first");
    world.rename("a", "b");
    world.write("a", "moved to b\n");
    let moved = world.commit("moved");
    assert_eq!(ids(&world.history("b")), [moved.clone(), first]);
    assert_eq!(world.follow("b"), ids(&world.history("b")));
    world.write("c", text("a"));
    world.write("b", text("a") + "changed a little\n");
    let copied = world.commit("copied");
    assert_eq!(ids(&world.history("c")), [copied]);
}
