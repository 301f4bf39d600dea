//! Segments, joined, as the library does it: against a model that is a closure.

use std::sync::Mutex;

use std::path::PathBuf;

use super::*;
use crate::summary_queue::{SummaryModel, SummaryRules, SummaryTotals};
use conversation::exit::Exit;
use conversation::format::index::Segment;
use conversation::model::{Reply, RequestMessage, StopReason, Usage};
use sys::atomic_file::AtomicFile;
use sys::interrupt::Interrupts;

/// What a model says to what it is sent; "no" is a failure.
type Script<'a> = &'a (dyn Fn(&str) -> String + Sync);

struct World {
    folder: tempfile::TempDir,
    sent: Mutex<Vec<String>>,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), sent: Mutex::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An index over a source, cut at these bytes, all of it on one line.
    fn index(&self, source: &[u8], cuts: &[u64]) -> Index {
        let path = self.path("source").display().to_string();
        AtomicFile::new(Path::new(&path)).write(source).unwrap();
        let size = source.len() as u64;
        let ends = cuts.iter().copied().chain([size]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let segments: Vec<Segment> = starts
            .zip(ends)
            .enumerate()
            .map(|(at, (start, end))| Segment {
                segment_index: at + 1,
                path: String::new(),
                start_line_num: at as u64 + 1,
                end_line_num: at as u64 + 1,
                start_byte: start,
                end_byte: end,
                sha256: fs::sha256(&source[place(start)..place(end)]),
                summary: None,
            })
            .collect();
        Index {
            source_path: path,
            source_sha256: fs::sha256(source),
            source_size_bytes: size,
            source_line_count: 1,
            split_type: "txt".into(),
            target_bytes: 1 << 20,
            natural: false,
            created_at: String::new(),
            segment_count: segments.len(),
            segments,
            summary: None,
        }
    }

    /// Summarises the index, two at once, and gives how many requests there were.
    fn run(
        &self,
        index: &mut Index,
        script: Script<'_>,
    ) -> (Result<Summary, Problem>, SummaryTotals) {
        let interrupts = Interrupts::without_handlers().unwrap();
        let connect = || {
            let model: SummaryModel<'_> = Box::new(|_: &str, messages: &[RequestMessage<'_>]| {
                let text = messages[0].parts.concat();
                self.sent.lock().unwrap().push(text.clone());
                let text = script(&text);
                if text == "no" {
                    return Err(Problem::new(Exit::Provider, text));
                }
                let (usage, stop) = (Usage::default(), StopReason::End);
                Ok((Reply { text, usage, stop, model: None }, ("p".into(), "m".into())))
            });
            Ok(model)
        };
        let queue = SummaryQueue::new(SummaryRules {
            folder: self.path("kept"),
            words: None,
            jobs: 2,
            again: false,
            // Requests of 64 KiB.
            window: Some(23_894),
            connect: Box::new(connect),
            report: Box::new(|_| ()),
            interrupts: &interrupts,
        });
        let result = fill_index(&queue, index, &|_, _| ());
        (result, queue.totals())
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

fn is_join(text: &str) -> bool {
    text.contains(", summaries of all ")
}

fn usual(text: &str) -> String {
    if is_join(text) { "joined".into() } else { text.lines().next().unwrap().to_owned() }
}

#[test]
fn segments_are_joined_and_a_single_one_is_not() {
    let world = World::new();
    let mut index = world.index(b"aabb", &[2]);
    let (result, totals) = world.run(&mut index, &usual);
    assert_eq!((result.unwrap().text, totals.requests), ("joined".into(), 3));
    let second = index.segments[1].summary.as_deref().unwrap();
    assert!(second.ends_with("source, part 2 of 2 (lines 2 to 2)"), "{second}");
    assert_eq!(index.summary.as_deref(), Some("joined"));
    let mut index = world.index(b"alone", &[]);
    let (result, totals) = world.run(&mut index, &usual);
    assert!(result.unwrap().text.ends_with("/source") && totals.requests == 1);
    let mut index = world.index(b"", &[]);
    let (result, totals) = world.run(&mut index, &usual);
    assert_eq!((result.unwrap().by, totals.requests), (None, 0));
}

#[test]
fn a_segment_that_is_too_large_for_a_request_costs_nothing() {
    let world = World::new();
    let source: String = (0..20_000).map(|n| format!("{n:06} abc\n")).collect();
    let mut index = world.index(source.as_bytes(), &[11_000]);
    let (result, totals) = world.run(&mut index, &usual);
    let message = result.unwrap_err().message;
    assert!(message.contains("too large") && message.contains("--target-bytes 65538"), "{message}");
    assert_eq!(totals.requests, 0);
}

#[test]
fn what_came_before_a_failure_stays_in_the_index_and_costs_nothing_again() {
    let world = World::new();
    let mut index = world.index(b"aabbccdd", &[2, 4, 6]);
    let (result, _) = world.run(&mut index, &|text| {
        if text.contains("\nbb\n") { "no".into() } else { usual(text) }
    });
    let failure = result.unwrap_err();
    let place = format!("{}, part 2 of 4 (lines 2 to 2): no; ", index.source_path);
    assert!(failure.exit == Exit::Provider && failure.message.starts_with(&place), "{failure}");
    assert!(index.segments[0].summary.is_some() && index.segments[1].summary.is_none());
    assert!(index.summary.is_none());
    let before = index.segments.iter().filter(|segment| segment.summary.is_some()).count() as u64;
    let (result, totals) = world.run(&mut index, &usual);
    assert_eq!(result.unwrap().text, "joined");
    assert_eq!((totals.cached, totals.requests), (before, 4 - before + 1));
}

#[test]
fn a_source_that_changed_since_the_split_is_not_summarised_as_it_was() {
    let world = World::new();
    let mut index = world.index(b"aabb", &[2]);
    AtomicFile::new(&world.path("source")).write(b"aaXX").unwrap();
    let failure = world.run(&mut index, &usual).0.unwrap_err();
    assert!(
        failure.exit == Exit::Failed && failure.message.contains("split it again"),
        "{failure}"
    );
    assert_eq!(index.segments[1].summary, None);
}
