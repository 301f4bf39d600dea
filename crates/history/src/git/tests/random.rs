//! Random histories, held against git.

use proptest::prelude::*;

use super::*;
use crate::CommitKind;

/// What a commit does.
#[derive(Debug, Clone)]
enum Step {
    Modify(usize),
    Rewrite(usize),
    Add(usize),
    Delete(usize),
    Rename(usize, usize),
}

/// Paths that files may have: in folders, too.
const PATHS: [&str; 6] = ["a", "b", "dir/a", "dir/c", "dir/deep/d", "e\n\"é"];

fn step() -> impl Strategy<Value = Step> {
    let path = || 0..PATHS.len();
    prop_oneof![
        4 => path().prop_map(Step::Modify),
        1 => path().prop_map(Step::Rewrite),
        2 => path().prop_map(Step::Add),
        1 => path().prop_map(Step::Delete),
        2 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
    ]
}

/// A tree: contents by path.
type Tree = BTreeMap<&'static str, Vec<String>>;

/// Contents are of lines that no other file has, so that no copy is ever like another file: `--follow` would follow it.
fn apply(tree: &mut Tree, step: &Step, serial: &mut u32, may_rename: bool) {
    *serial += 1;
    let fresh = |serial: u32| (0..9).map(|line| format!("file {serial} line {line}\n")).collect();
    match *step {
        Step::Modify(at) => {
            if let Some(lines) = tree.get_mut(PATHS[at]) {
                let line = *serial as usize % lines.len();
                lines[line] = format!("changed {serial}\n");
            }
        }
        Step::Rewrite(at) => {
            if let Some(lines) = tree.get_mut(PATHS[at]) {
                *lines = fresh(*serial);
            }
        }
        Step::Add(at) => {
            tree.entry(PATHS[at]).or_insert_with(|| fresh(*serial));
        }
        Step::Delete(at) => {
            tree.remove(PATHS[at]);
        }
        Step::Rename(from, to) => {
            if may_rename
                && from != to
                && let Some(lines) = tree.remove(PATHS[from])
            {
                tree.insert(PATHS[to], lines);
            }
        }
    }
}

fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// A commit as `git fast-import` reads it.
fn emit(stream: &mut String, mark: usize, parents: &[usize], tree: &Tree) {
    let time = 1_700_000_000 + mark * 60;
    let person = format!("P{} <p@x> {time} +0000", mark % 3);
    stream.push_str(&format!(
        "commit refs/heads/main\nmark :{mark}\nauthor {person}\ncommitter {person}\ndata 1\nx\n"
    ));
    for (at, parent) in parents.iter().enumerate() {
        stream.push_str(&format!("{} :{parent}\n", if at == 0 { "from" } else { "merge" }));
    }
    stream.push_str("deleteall\n");
    for (path, lines) in tree {
        let text = lines.concat();
        stream.push_str(&format!(
            "M 100644 inline {}\ndata {}\n{text}\n",
            quoted(path),
            text.len()
        ));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// One line of commits: renames as `git log --follow` has them, other files as `git show` names them, also from the cache.
    #[test]
    fn a_line_is_what_follow_prints(
        mut commits in prop::collection::vec(prop::collection::vec(step(), 1..4), 1..14),
    ) {
        // A commit renames and does nothing else: libgit2 and git do not measure in the same way how similar files are.
        for steps in &mut commits {
            if let Some(at) = steps.iter().position(|step| matches!(step, Step::Rename(..))) {
                *steps = vec![steps[at].clone()];
            }
        }
        let world = World::new();
        let (mut tree, mut serial, mut stream) = (Tree::new(), 0, String::new());
        for (at, steps) in commits.iter().enumerate() {
            for step in steps {
                apply(&mut tree, step, &mut serial, true);
            }
            let parents: Vec<usize> = if at == 0 { vec![] } else { vec![at] };
            emit(&mut stream, at + 1, &parents, &tree);
        }
        world.import(stream.as_bytes());
        for path in tree.keys() {
            let history = world.history(path);
            prop_assert_eq!(ids(&history), world.follow(path), "{:?}", path);
            world.look(path);
            let later = world.look(path);
            prop_assert_eq!((later.commits_read, later.history.as_ref()), (0, Some(&history)));
            // Without renames other files are counted as git counts them. (With them, a path may mean one file after
            // another.)
            if !commits.iter().flatten().any(|step| matches!(step, Step::Rename(..))) {
                let plain: Vec<String> = history.commits.iter()
                    .filter(|commit| commit.kind == CommitKind::Plain).map(|commit| commit.id.clone()).collect();
                let mut expect = counted(&world, &plain, path.as_bytes());
                expect.retain(|other, _| tree.keys().any(|path| path.as_bytes() == other));
                let found: BTreeMap<Vec<u8>, u64> =
                    history.co_changed.iter().map(|n| (n.path.clone(), n.together)).collect();
                prop_assert_eq!(found, expect);
            }
        }
    }

    /// Branches and merges without renames: as `git rev-list` simplifies them. (`--follow` does not simplify.) The merges
    /// take each file from one of the sides, from neither, or leave it out.
    #[test]
    fn merges_are_simplified_as_rev_list_does(
        commits in prop::collection::vec(
            (prop::collection::vec(step(), 0..3), 0..5_usize, prop::option::of(0..5_usize), any::<u32>()), 1..16),
    ) {
        let world = World::new();
        let (mut trees, mut serial, mut stream): (Vec<Tree>, _, _) = (Vec::new(), 0, String::new());
        for (at, (steps, back, other, choice)) in commits.iter().enumerate() {
            let parent = at.checked_sub(1 + back).or(at.checked_sub(1));
            let other = other.and_then(|other| at.checked_sub(1 + other)).filter(|other| Some(*other) != parent);
            let mut tree = parent.map(|parent| trees[parent].clone()).unwrap_or_default();
            if let Some(other) = other {
                for (bit, path) in PATHS.iter().enumerate() {
                    if choice >> bit & 1 == 1 {
                        match trees[other].get(path) {
                            Some(lines) => tree.insert(path, lines.clone()),
                            None => tree.remove(path),
                        };
                    }
                }
            }
            for step in steps {
                apply(&mut tree, step, &mut serial, false);
            }
            let parents: Vec<usize> = parent.into_iter().chain(other).map(|at| at + 1).collect();
            emit(&mut stream, at + 1, &parents, &tree);
            trees.push(tree);
        }
        world.import(stream.as_bytes());
        let ids_of: BTreeMap<usize, String> = fs::read_to_string(world.base().join("marks")).unwrap().lines().map(|line| {
            let (mark, id) = line.split_once(' ').unwrap();
            (mark[1..].parse().unwrap(), id.to_owned())
        }).collect();
        let head = &ids_of[&commits.len()];
        world.git(["update-ref", "--no-deref", "HEAD", head]);
        for path in PATHS {
            let found = world.fresh(path).history.map(|history| ids(&history)).unwrap_or_default();
            prop_assert_eq!(found, world.rev_list(path));
        }
    }
}
