//! Which commits touched a file, who made them, what changed with it.

use super::*;
use crate::history::{Change, Rate, Sort};

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
    let first = &history.touches[0];
    let shown = world.git(["log", "-1", "--format=%at|%an|%ae|%s"]);
    assert_eq!(format!("{}|{}|{}|{}", first.time, first.name, first.email, first.subject), shown);
    assert_eq!(
        (first.offset, first.files, first.subject.as_str()),
        (60, 1, "Two lines of subject")
    );
    assert_eq!((&history.toplevel, history.path.as_slice()), (&world.top, b"a.txt".as_slice()));
    assert_eq!(history.head, world.git(["rev-parse", "HEAD"]));
    let in_folder = world.history("dir/c.txt");
    assert_eq!(ids(&in_folder), world.rev_list("dir/c.txt"));
    assert_eq!(neighbours(&in_folder), ["a.txt 1 low"]);
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
    assert_eq!(history.touches.len(), 6);
    let renamed = |from: &[u8]| Change::Renamed { from: from.to_owned() };
    let changes: Vec<_> = history.touches.iter().map(|touch| touch.change.clone()).collect();
    assert_eq!(changes[1], renamed(b"dir/two.txt"));
    assert_eq!(changes[3], renamed(b"one.txt"));
    assert_eq!(changes[5], Change::Added);
    assert_eq!(history.touches[1].files, 2);
    let text = crate::sys::git::patch(&world.top, &history.touches[1], 10_000).unwrap();
    assert!(text.contains("rename from dir/two.txt\nrename to dir/deep/er/three.txt\n"), "{text}");
    assert!(text.contains("\n+changed at") && !text.contains("\n-c"), "{text}");
    assert_eq!(history.touches[1].id, before);
    assert_eq!(neighbours(&history), ["other.txt 2 medium"]);
}

#[test]
fn a_rename_is_one_from_half_of_the_bytes_on() {
    for kept in 0..=12 {
        let mut world = World::new();
        let old: String = (0..12).map(|line| format!("line number {line:02}\n")).collect();
        let new: String = (0..12)
            .map(|line| {
                if line < kept {
                    format!("line number {line:02}\n")
                } else {
                    format!("other words {line:02}\n")
                }
            })
            .collect();
        world.write("old", old);
        world.commit("Old");
        world.remove("old");
        world.write("new", new);
        world.commit("New");
        assert_eq!(ids(&world.history("new")), world.follow("new"), "{kept} of 12 lines");
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
    let changes: Vec<_> = history.touches.iter().map(|touch| touch.change.clone()).collect();
    assert_eq!(changes, [Change::Added, Change::Deleted, Change::Added]);
    world.remove("a");
    world.commit("Gone for good");
    assert_eq!(ids(&world.history("a")), world.follow("a"));
    for touch in &world.history("a").touches {
        let text = crate::sys::git::patch(&world.top, touch, 10_000).unwrap();
        let is_gone = touch.change == Change::Deleted;
        assert_eq!(text.contains("+++ /dev/null"), is_gone, "{text}");
        assert_eq!(text.contains("--- /dev/null"), !is_gone, "{text}");
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
    assert_eq!(history.touches.len(), 2);
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
    assert_eq!((history.touches.len(), history.touches[0].sort), (4, Sort::Merge));
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
    assert_eq!((&history.touches[0].id, history.touches[0].sort), (&merge, Sort::Merge));
    assert_eq!(history.touches[0].change, Change::Modified);
    // A merge says nothing of what belongs together: its branch's commits do.
    assert_eq!(neighbours(&history), ["b 1 low", "other 1 low"]);
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
    assert_eq!(history.touches.len(), 1);
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
    assert_eq!(history.touches[2].path, b"old");
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
    let sorts: Vec<Sort> = history.touches.iter().map(|touch| touch.sort).collect();
    assert_eq!(sorts, [Sort::Plain, Sort::Plain, Sort::Plain, Sort::Plain, Sort::Import]);
    assert_eq!(history.touches[4].files, 300);
    assert_eq!(neighbours(&history)[..2], ["src/f200 4 high", "src/f000 2 low"]);
    assert!(history.neighbours[1..].iter().all(|neighbour| neighbour.rate == Rate::Low));
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
        let look = history(&clone.join("a"), &world.cache(), &|| false);
        let history = look.history.unwrap();
        let expect = world.git_in(&clone, ["log", "--follow", "--format=%H", "--", "a"]);
        assert_eq!(ids(&history), lines(&expect));
        assert_eq!((history.touches.len(), history.is_shallow), (depth, true));
        assert_eq!(history.touches[depth - 1].sort, Sort::Boundary);
        assert_eq!(history.people.len(), depth - 1);
        assert_eq!(history.notes, [] as [&str; 0]);
        let expect: &[&str] = if depth == 1 { &[] } else { &["b 2 high"] };
        assert_eq!(neighbours(&history), expect);
        // The same head with more below it is read anew.
        world.git_in(&clone, ["fetch", "--quiet", "--unshallow"]);
        let whole = super::history(&clone.join("a"), &world.cache(), &|| false);
        assert_eq!(whole.history.unwrap().touches.len(), 6);
    }
}

#[test]
fn the_mailmap_is_applied_also_to_what_was_kept() {
    let mut world = World::new();
    world.by("ann <old@x>").change(&["a"]);
    world.by("Ann B <ann@x>").change(&["a"]);
    world.by("Cid <cid@x>").change(&["a"]);
    assert_eq!(world.look("a").history.unwrap().people.len(), 3);
    world.write(".mailmap", "Ann B <ann@x> <OLD@x>\nCid D <cid@x>\n");
    let look = world.look("a");
    assert_eq!((look.walked, look.from_cache), (0, true));
    let history = look.history.unwrap();
    assert_eq!(shortlog(&history), world.shortlog("a"));
    assert_eq!(history.people.len(), 2);
    // Where the working tree has none, the head's is in force.
    world.commit("Mailmap");
    world.remove(".mailmap");
    assert_eq!(world.look("a").history.unwrap().people.len(), 2);
}

#[test]
fn a_mailmap_says_what_git_reads_in_it() {
    use crate::history::mailmap::Mailmap;
    let text = "# comment\nProper One <one@x>\n<two@y> <two@x>\nThree <three@y> <three@x>\nLate <three@x>\n\
                Four <four@y> old four <shared@x>\nFive <five@y> OLD five <shared@x>\nLast <OLD@y> Old Five <shared@x>\n\
                Any <any@y> <Shared@x>\nno line\n<half\nEmpty <>\n<only@x>\n Six  <six@y>  <six@x> # more\n\
                Seven <seven@y> <>\n<eight@y> Name Eight <eight@x>\n";
    let world = World::new();
    world.write(".mailmap", text);
    let map = Mailmap::parse(text);
    for name in ["", "o", "Old Four", "old five", "Name Eight"] {
        for email in [
            "one@x", "ONE@X", "two@x", "three@x", "shared@x", "sHared@x", "only@x", "six@x",
            "eight@x", "nobody@x",
        ] {
            let person =
                |name: &str, email: &str| format!("{name} <{email}>").trim_start().to_owned();
            let (new_name, new_email) = map.resolve(name, email);
            let expect = world.git(["check-mailmap", &person(name, email)]);
            assert_eq!(person(&new_name, &new_email), expect, "{name} {email}");
        }
    }
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
        assert_eq!((history.touches.len(), history.path.as_slice()), (2, name));
        let paths: Vec<&[u8]> = history.neighbours.iter().map(|n| n.path.as_slice()).collect();
        assert_eq!(paths, [[b"dir/".as_slice(), name].concat()]);
        // Kept, and the same from there.
        let (first, later) = (world.look(os(name)), world.look(os(name)));
        assert_eq!((first.history, later.from_cache), (later.history, true));
        let text = crate::sys::git::patch(&world.top, &history.touches[0], 10_000).unwrap();
        assert!(
            text.starts_with("diff --git ") && text.lines().nth(3).unwrap().starts_with("@@"),
            "{text}"
        );
    }
}

#[test]
fn neighbours_bear_todays_name() {
    let mut world = World::new();
    world.change(&["a", "test", "gone", "twice", "same"]);
    world.change(&["a", "test", "gone", "twice", "same"]);
    world.rename("test", "tests/test");
    world.commit("Move the test alone");
    world.change(&["same"]);
    world.rename("twice", "twice2");
    world.change(&["twice2", "same"]);
    world.rename("twice2", "tests/twice3");
    world.commit("And again");
    world.remove("gone");
    world.commit("Remove one");
    world.change(&["a", "tests/test"]);
    let history = world.history("a");
    assert_eq!(neighbours(&history), ["tests/test 3 high", "same 2 high", "tests/twice3 2 high"]);
    // A rename in a commit that touched the file, with the change in it, is one file.
    world.rename("tests/test", "t");
    world.change(&["a", "t"]);
    assert_eq!(neighbours(&world.history("a"))[0], "t 4 high");
    assert_eq!(world.history("a").touches[0].files, 2);
}

#[test]
fn a_neighbour_that_was_renamed_on_another_branch_is_found() {
    let mut world = World::new();
    world.change(&["a", "test"]);
    world.change(&["a", "test"]);
    world.git(["checkout", "--quiet", "-b", "side"]);
    world.rename("test", "t/test");
    world.commit("Move");
    world.git(["checkout", "--quiet", "main"]);
    world.change(&["a"]);
    world.merge("side");
    assert_eq!(neighbours(&world.history("a")), ["t/test 2 high"]);
}

#[test]
fn messages_in_latin_1_are_read() {
    let mut world = World::new();
    let stream = b"commit refs/heads/main\nauthor J\xf6rg <j@x> 1700000000 -0330\ncommitter J <j@x> 1700000000 +0000\nencoding ISO-8859-1\ndata 5\nGr\xfc\xdf\nM 100644 inline a\ndata 2\nx\n";
    world.import(stream);
    world.time += 60;
    let touch = &world.history("a").touches[0];
    assert_eq!((touch.name.as_str(), touch.subject.as_str(), touch.offset), ("Jörg", "Grüß", -210));
    assert_eq!(crate::sys::git::message(&world.top, &touch.id, 100).unwrap(), "Grüß\n");
}

#[test]
fn patches_say_what_they_leave_out() {
    let mut world = World::new();
    world.change(&["a"]);
    world.write("a", [0, 1, 2]);
    world.commit("Binary");
    world.git(["update-index", "--chmod=+x", "a"]);
    world.time += 60;
    world.git(["commit", "--quiet", "-m", "Mode\n\nlong body"]);
    let history = world.history("a");
    let patch =
        |at: usize, limit| crate::sys::git::patch(&world.top, &history.touches[at], limit).unwrap();
    assert_eq!(patch(0, 1000), "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n");
    assert!(patch(1, 1000).ends_with("Binary contents differ\n"), "{}", patch(1, 1000));
    let whole = patch(2, 10_000);
    assert!(whole.contains("@@ -0,0 +1,13 @@\n+a has line 0 of a\n"), "{whole}");
    let cut = patch(2, 100);
    assert!(whole.starts_with(cut.split("[cut: ").next().unwrap()) && cut.len() < 160, "{cut}");
    assert!(cut.ends_with(&format!(" of {} bytes are shown]\n", whole.len())), "{cut}");
    let message = crate::sys::git::message(&world.top, &history.touches[0].id, 100).unwrap();
    assert_eq!(message, "Mode\n\nlong body\n");
    assert!(crate::sys::git::message(&world.top, "nonsense", 9).is_err());
}

/// Hundreds of files beside the file, in a tree that was then moved and changed as a whole.
#[test]
fn a_tree_that_was_moved_and_changed_is_compared_once() {
    let world = World::new();
    let content = |k: usize, end: &str| {
        let lines: String = (0..20).map(|n| format!("line {n} of {k}\n")).collect();
        lines + end
    };
    let mut stream = String::new();
    for step in 0..3 {
        stream += &format!(
            "commit refs/heads/main\ncommitter Ann <ann@x> {} +0000\ndata 1\nm\nM 100644 inline a\ndata 1\n{step}\n",
            1_700_000_000 + step
        );
        for k in 0..1_500 {
            let (path, text) = match step {
                0 => (format!("o{k}"), content(k, "")),
                1 if k < 400 => (format!("o{k}"), content(k, "more\n")),
                1 => continue,
                _ => (format!("src/o{k}"), content(k, "other\n")),
            };
            if step == 2 {
                stream += &format!("D o{k}\n");
            }
            stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
    }
    world.import(stream.as_bytes());
    let begun = std::time::Instant::now();
    let history = world.history("a");
    // One comparison for each of the paths takes a hundred times as long.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    assert_eq!(history.neighbours.len(), crate::history::coupling::KEPT);
    assert!(history.neighbours.iter().all(|neighbour| neighbour.path.starts_with(b"src/o")));
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
