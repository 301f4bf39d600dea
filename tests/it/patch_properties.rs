//! Properties of patching: what joining gives, what `git apply` and `patch` make of the patch file, what a crash leaves.
//!
//! Through the library, since there are many cases. It is longer than other files, since one world serves all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use conversation::format::index::{self, Index, Segment};
use conversation::problem::Problem;
use edits::diff::lines::count_line_feeds;
use edits::diff::unified::UnifiedDiff;
use proptest::prelude::*;
use segments::patch::{PatchHooks, PatchOptions, PatchReport, patch};
use sys::boundary::{Boundary, BoundaryFolders};
use sys::fs::sha256 as hash;
use sys::interrupt::Interrupts;

/// A source and its split, in a folder of their own.
struct World {
    dir: tempfile::TempDir,
}

fn lines(text: &[u8]) -> u64 {
    count_line_feeds(text) + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// The bytes of a text, cut at places that are taken modulo its length.
fn cuts(text: &[u8], places: &[usize]) -> Vec<usize> {
    let mut ends: Vec<usize> = places.iter().map(|at| at % (text.len() + 1)).collect();
    ends.push(text.len());
    ends.sort_unstable();
    ends
}

impl World {
    fn new(source: &[u8], ends: &[usize]) -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(world.at("split")).unwrap();
        fs::write(world.at("big.txt"), source).unwrap();
        world.index(source, ends);
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn segment(&self, number: usize) -> PathBuf {
        self.at(&format!("split/big-{number:04}.txt"))
    }

    fn index(&self, source: &[u8], ends: &[usize]) {
        let mut start = 0;
        let mut segments = Vec::new();
        for (at, end) in ends.iter().enumerate() {
            let text = &source[start..*end];
            fs::write(self.segment(at + 1), text).unwrap();
            let line = |at: usize| count_line_feeds(&source[..at]) + 1;
            segments.push(Segment {
                segment_index: at + 1,
                path: self.segment(at + 1).to_str().unwrap().to_owned(),
                start_line_num: line(start),
                end_line_num: if text.is_empty() { line(start) - 1 } else { line(end - 1) },
                start_byte: start as u64,
                end_byte: *end as u64,
                sha256: hash(text),
                summary: Some(format!("summary {at}")),
            });
            start = *end;
        }
        let index = Index {
            source_path: self.at("big.txt").to_str().unwrap().to_owned(),
            source_sha256: hash(source),
            source_size_bytes: source.len() as u64,
            source_line_count: lines(source),
            split_type: "txt".to_owned(),
            target_bytes: 1,
            natural: false,
            created_at: "2026-11-21T20:45:14Z".to_owned(),
            segment_count: segments.len(),
            segments,
            summary: None,
        };
        fs::write(self.at("split/index.json"), index::format(&index)).unwrap();
    }

    fn read_index(&self) -> Index {
        index::parse(&fs::read_to_string(self.at("split/index.json")).unwrap()).unwrap()
    }

    fn run(&self, change: impl Fn(&mut PatchOptions<'_>)) -> Result<PatchReport, Problem> {
        let index = self.at("split/index.json");
        let mut plan = PatchOptions { index: &index, dry_run: false };
        change(&mut plan);
        let root = self.at("root");
        let places = BoundaryFolders {
            cwd: self.dir.path(),
            toplevel: None,
            home: None,
            root: &root,
            tmpdir: None,
        };
        let mut boundary = Boundary::for_file(places, &self.at("big.txt")).unwrap();
        boundary.allow_splits(&self.at("split"));
        let interrupts = Interrupts::without_handlers().unwrap();
        let keep = &mut |_: &mut fs::File| Ok(PathBuf::new());
        let hooks = PatchHooks { interrupts: &interrupts, keep };
        patch(&plan, &mut boundary, hooks)
    }

    fn patch(&self) -> Result<PatchReport, Problem> {
        self.run(|_| ())
    }

    fn source(&self) -> Vec<u8> {
        fs::read(self.at("big.txt")).unwrap()
    }

    fn joined(&self) -> Vec<u8> {
        let count = self.read_index().segments.len();
        (1..=count).flat_map(|number| fs::read(self.segment(number)).unwrap()).collect()
    }

    /// Source, segments and index all say the same.
    #[track_caller]
    fn agrees(&self) {
        let (source, index) = (self.source(), self.read_index());
        assert_eq!(index.check(), Ok(()));
        assert_eq!(index.source_sha256, hash(&source));
        assert_eq!(self.joined(), source);
        for segment in &index.segments {
            let place = |at: u64| usize::try_from(at).unwrap();
            let (from, to) = (place(segment.start_byte), place(segment.end_byte));
            assert_eq!(segment.sha256, hash(&source[from..to]));
            let line = |at: usize| count_line_feeds(&source[..at]) + 1;
            let expect = (line(from), if from == to { line(from) - 1 } else { line(to - 1) });
            assert_eq!((segment.start_line_num, segment.end_line_num), expect);
        }
        assert_eq!(index.source_line_count, lines(&source));
    }

    /// Both programs make the new text of the old one, byte for byte.
    #[track_caller]
    fn is_taken(old: &[u8], new: &[u8], patch: &Path) {
        for program in [["git", "apply"].as_slice(), &["patch", "-p1", "--silent"]] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("big.txt"), old).unwrap();
            let output = Command::new(program[0])
                .args(&program[1..])
                .args(if program[0] == "patch" { &["-i"][..] } else { &[] })
                .arg(patch)
                .current_dir(dir.path())
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CEILING_DIRECTORIES", dir.path())
                .stdin(Stdio::null())
                .output()
                .unwrap_or_else(|error| panic!("{} is needed for this test: {error}", program[0]));
            let text = fs::read(patch).unwrap();
            assert!(
                output.status.success(),
                "{program:?}: {}\n{}",
                String::from_utf8_lossy(&output.stderr),
                String::from_utf8_lossy(&text)
            );
            let got = fs::read(dir.path().join("big.txt")).unwrap_or_default();
            assert!(got == new, "{program:?} of\n{}", String::from_utf8_lossy(&text));
        }
    }
}

/// Text with all kinds of line ends and what looks like them; few different lines, so that they repeat.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"a\n",
        b"b\n",
        b"\n",
        b"c\r\n",
        b"\r\n",
        b"\x0c",
        b"\r",
        b"d",
        b"\xff",
        b"+e\n",
        b"-- f\n",
        b"@@ -1 +1 @@\n",
        b"\\ No newline\n",
        b"line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_source_becomes_what_the_segments_join_to(
        source in text(),
        places in prop::collection::vec(0usize..1000, 0..6),
        edits in prop::collection::vec((0usize..7, text()), 0..4),
    ) {
        let ends = cuts(&source, &places);
        let world = World::new(&source, &ends);
        let idle = world.patch().unwrap();
        prop_assert!(!idle.changed && idle.edited.is_empty() && idle.patch_path.is_none(), "{:?}", idle);
        world.agrees();
        for (at, text) in &edits {
            let number = at % ends.len() + 1;
            fs::write(world.segment(number), text).unwrap();
        }
        let dry = world.run(|plan| plan.dry_run = true).unwrap();
        prop_assert_eq!(world.source(), &*source);
        let patched = world.patch().unwrap();
        world.agrees();
        prop_assert_eq!((dry.changed, &dry.edited, &dry.patch_path), (patched.changed, &patched.edited, &patched.patch_path));
        prop_assert_eq!(patched.changed, world.source() != source);
        prop_assert_eq!(&patched.source_sha256, &hash(&world.source()));
        if let Some(patch) = &patched.patch_path {
            World::is_taken(&source, &world.source(), patch);
        }
        prop_assert!(!world.patch().unwrap().changed);
    }
}

#[test]
fn names_of_all_kinds_are_taken_by_both_programs() {
    for name in ["a b.txt", "tab\there.txt", "q\"uote\\.txt", "ünï.txt", "line\nfeed", "\x01.txt"]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut diff = UnifiedDiff::new(name.as_bytes());
        diff.add_change(1, b"one\ntwo\n", 4..8, b"2\n");
        fs::write(dir.path().join("the.patch"), diff.finish().unwrap()).unwrap();
        for program in
            [["git", "apply", "the.patch"].as_slice(), &["patch", "-p1", "-i", "the.patch"]]
        {
            fs::write(dir.path().join(name), "one\ntwo\n").unwrap();
            let output = Command::new(program[0])
                .args(&program[1..])
                .current_dir(dir.path())
                .env("GIT_CEILING_DIRECTORIES", dir.path())
                .output()
                .unwrap_or_else(|error| panic!("{} is needed for this test: {error}", program[0]));
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{program:?} {name:?}: {told}");
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "one\n2\n", "{name:?}");
        }
    }
}

/// Numbers on lines, in segments of ten lines.
fn numbered(lines: usize) -> (Vec<u8>, Vec<usize>) {
    let line = |n: usize| format!("line {n}\n");
    let ends = (0..lines)
        .step_by(10)
        .map(|n| (0..(n + 10).min(lines)).map(line).collect::<String>().len());
    ((0..lines).map(line).collect::<String>().into_bytes(), ends.collect())
}

/// What a kill between two steps leaves: files of before and of after the run, in the order in which they are written.
#[test]
fn the_same_command_finishes_what_was_killed() {
    let (source, ends) = numbered(40);
    // The second edit loses its line ending, so that the segment is rewritten.
    for edit in ["edited\n", "edited"] {
        for step in 0..=3 {
            let world = World::new(&source, &ends);
            fs::write(world.segment(2), edit).unwrap();
            let names = ["split/big-0002.txt", "big.txt", "split/index.json"];
            let before = names.map(|name| fs::read(world.at(name)).unwrap());
            world.patch().unwrap();
            let expect = world.source();
            for (name, bytes) in names.iter().zip(&before).skip(step) {
                fs::write(world.at(name), bytes).unwrap();
            }
            fs::write(world.at("split/.nagent-0123.tmp"), "half").unwrap();
            let patched = world.patch().unwrap();
            let what = format!("{edit:?}, step {step}: {patched:?}");
            assert_eq!(world.source(), expect, "{what}");
            world.agrees();
            assert_eq!(patched.applied, step <= 1, "{what}");
            assert_eq!(patched.edited.is_empty(), step == 3, "{what}");
            assert!(!world.patch().unwrap().changed);
        }
    }
}

#[test]
fn summaries_go_with_what_they_describe() {
    let (source, ends) = numbered(20);
    let world = World::new(&source, &ends);
    let mut index = world.read_index();
    index.summary = Some("whole".to_owned());
    fs::write(world.at("split/index.json"), index::format(&index)).unwrap();
    fs::write(world.segment(2), "x\n").unwrap();
    world.patch().unwrap();
    let index = world.read_index();
    assert_eq!(index.segments[0].summary.as_deref(), Some("summary 0"));
    assert_eq!((&index.segments[1].summary, &index.summary), (&None, &None));
    assert_eq!(index.created_at, "2026-11-21T20:45:14Z");
}

#[test]
fn an_index_cannot_lead_out_of_the_boundary() {
    let (source, ends) = numbered(20);
    let world = World::new(&source, &ends);
    fs::write(world.segment(1), "x\n").unwrap();
    let root = world.at("root");
    fs::create_dir(world.at("other")).unwrap();
    let places = BoundaryFolders {
        cwd: world.dir.path(),
        toplevel: None,
        home: None,
        root: &root,
        tmpdir: None,
    };
    let index = world.at("split/index.json");
    let plan = PatchOptions { index: &index, dry_run: false };
    let interrupts = Interrupts::without_handlers().unwrap();
    let check = |target: &str, folders: &[&str]| {
        let mut boundary = Boundary::for_file(places, &world.at(target)).unwrap();
        for folder in folders {
            boundary.allow_splits(&world.at(folder));
        }
        let keep = &mut |_: &mut fs::File| anyhow::bail!("nothing is to be kept");
        let hooks = PatchHooks { interrupts: &interrupts, keep };
        let failure = patch(&plan, &mut boundary, hooks).unwrap_err().to_string();
        assert!(failure.contains("outside of the write boundary"), "{failure}");
        assert_eq!(world.source(), source);
    };
    // Only the index itself may be written; the source, and not the split; the split, and not the source.
    check("split/index.json", &[]);
    check("big.txt", &["other"]);
    check("other/file", &["split"]);
}
