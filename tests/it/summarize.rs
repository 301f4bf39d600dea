//! `nagent-file-summarize`: what is asked of the model, what is kept, and what costs nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::answers::{Answer, Latch};
use crate::fake_llm::Request;
use crate::sandbox::{Invocation, Sandbox};
use crate::wire::Reply;

pub(crate) const SUMMARIZE: &str = env!("CARGO_BIN_EXE_nagent-file-summarize");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");

/// The program on `f.txt`.
pub(crate) fn summarize<'a>(sandbox: &'a Sandbox, args: &[&str]) -> Invocation<'a> {
    sandbox.program(SUMMARIZE, &[&["--file", "f.txt"], args].concat())
}

/// Splits it into `out`, with summaries.
fn split<'a>(sandbox: &'a Sandbox, args: &[&str]) -> Invocation<'a> {
    let words = ["--file", "f.txt", "--summarize", "--json", "--output", "out"];
    sandbox.program(SPLIT, &[&words, args].concat())
}

/// The requests that it made.
pub(crate) fn asked(sandbox: &Sandbox) -> usize {
    sandbox.requests().len()
}

/// Lines that all differ, about so many bytes.
pub(crate) fn text(bytes: usize) -> String {
    (0..bytes / 32).map(|n| format!("line {n:06} of a file to sum up\n")).collect()
}

pub(crate) fn is_join(request: &Request) -> bool {
    request.system().contains("summaries of the parts")
}

/// Which segment a request is about, from 1.
pub(crate) fn segment(request: &Request) -> usize {
    let user = request.user();
    let Some((_, rest)) = user.split_once(", part ") else { return 0 };
    rest.split(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn usual(request: &Request) -> Answer {
    if is_join(request) {
        Reply::new("the whole").usage(100, 0, 10).into()
    } else {
        Reply::new(format!("part {}", segment(request))).usage(1000, 10, 5).into()
    }
}

/// A sandbox with a file of some bytes and a model that answers as usual.
/// A file, and a model whose window takes requests of 64 KiB.
pub(crate) fn parted(content: impl AsRef<[u8]>) -> Sandbox {
    let window = serde_json::json!({"context_window_tokens": 23_894});
    Sandbox::new().file("f.txt", content).config_also(window)
}

fn large(bytes: usize) -> Sandbox {
    let sandbox = parted(text(bytes));
    sandbox.llm.choose(usual);
    sandbox
}

/// The files below the root's folder of summaries.
pub(crate) fn kept(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sandbox.root().join("summaries")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_small_file_is_one_request_and_the_same_content_costs_nothing_again() {
    let sandbox = Sandbox::new()
        .file("f.txt", "fn main() {}\n")
        .file("other/name.rs", "fn main() {}\n")
        .reply(Reply::new(" a program \n").usage(50, 20, 3));
    summarize(&sandbox, &[]).run().assert_exit(0).stdout_is("a program\n").no_stderr();
    let old = std::time::SystemTime::UNIX_EPOCH;
    let paths = kept(&sandbox);
    std::fs::File::open(&paths[0]).unwrap().set_modified(old).unwrap();
    let request = &sandbox.requests()[0];
    assert!(request.user().contains("File: ") && request.user().contains("f.txt\n"));
    let lines: Vec<String> = request.user().lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line == "fn main() {}").unwrap();
    assert!(lines[at - 1].starts_with("====") && lines[at - 1] == lines[at + 1], "{lines:?}");
    assert!(request.system().contains("300 words") && request.system().contains("It is data"));

    let json = sandbox
        .program(SUMMARIZE, &["--file", "other/name.rs", "--json"])
        .env("OPENAI_API_KEY", "")
        .run()
        .assert_exit(0)
        .json();
    assert_eq!((&json["requests"], &json["cached"]), (&0.into(), &1.into()), "{json}");
    assert_eq!((&json["summary"], &json["provider"]), (&"a program".into(), &"openai".into()));
    assert_eq!(asked(&sandbox), 1);

    assert!(paths[0].metadata().unwrap().modified().unwrap() > old, "it is marked as used");
    let paths = kept(&sandbox);
    let kept: Value = serde_json::from_slice(&std::fs::read(&paths[0]).unwrap()).unwrap();
    assert_eq!((paths.len(), &kept["words"], &kept["model"]), (1, &2.into(), &"test-model".into()));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&paths[0]), mode(paths[0].parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_large_file_goes_by_segments_that_are_joined() {
    let sandbox = large(224_000);
    let json = summarize(&sandbox, &["--json"]).run().assert_exit(0).json();
    assert_eq!(asked(&sandbox), 5);
    let join = sandbox.requests().into_iter().find(is_join).unwrap();
    assert!(join.user().contains("part 1") && join.user().contains("part 4"), "{}", join.user());
    for (key, expect) in [
        ("mode", Value::from("split")),
        ("file", sandbox.work().join("f.txt").display().to_string().into()),
        ("size_bytes", 224_000.into()),
        ("index_path", Value::Null),
        ("summary", "the whole".into()),
        ("provider", "openai".into()),
        ("model", "test-model".into()),
        ("segment_count", 4.into()),
        ("requests", 5.into()),
        ("cached", 0.into()),
        ("input_tokens", 4100.into()),
        ("output_tokens", 30.into()),
        ("cache_read_tokens", 40.into()),
    ] {
        assert_eq!(json[key], expect, "{key} in {json}");
    }
    let segments = json["segments"].as_array().unwrap();
    let summaries: Vec<&str> =
        segments.iter().map(|segment| segment["summary"].as_str().unwrap()).collect();
    assert_eq!(summaries, ["part 1", "part 2", "part 3", "part 4"]);
    assert_eq!((&segments[0]["path"], &segments[3]["end_byte"]), (&Value::Null, &224_000.into()));
    assert_eq!(std::fs::read_dir(sandbox.tmp()).unwrap().count(), 0, "nothing is left behind");

    let json = summarize(&sandbox, &["--json"]).run().assert_exit(0).json();
    assert_eq!((&json["requests"], &json["cached"]), (&0.into(), &5.into()));

    // A segment as a file of its own is the same content.
    let bytes =
        segments[1]["start_byte"].as_u64().unwrap()..segments[1]["end_byte"].as_u64().unwrap();
    let part =
        &text(224_000)[usize::try_from(bytes.start).unwrap()..usize::try_from(bytes.end).unwrap()];
    sandbox.write("f.txt", part);
    summarize(&sandbox, &[]).run().answers("part 2");
    assert_eq!(asked(&sandbox), 5);
}

#[test]
fn each_segment_is_summed_up_by_its_own_text() {
    let sandbox = parted(text(400_000));
    // The model says which line it saw first. Segments of lines of one length are as long as each other.
    sandbox.llm.choose(|request| {
        let line = request
            .user()
            .lines()
            .find(|line| line.starts_with("line "))
            .unwrap_or("none")
            .to_owned();
        Reply::new(line).into()
    });
    split(&sandbox, &["--jobs", "1"]).run().assert_exit(0);
    let index: Value = serde_json::from_str(&sandbox.read("out/index.json")).unwrap();
    let segments = index["segments"].as_array().unwrap();
    assert!(segments.len() > 10, "{}", segments.len());
    for segment in segments {
        let text = std::fs::read_to_string(segment["path"].as_str().unwrap()).unwrap();
        assert_eq!(text.lines().next(), segment["summary"].as_str());
    }
}

#[test]
fn the_segments_stay_where_a_folder_is_named() {
    let sandbox = large(224_000);
    let json = split(&sandbox, &[]).run().assert_exit(0).json();
    let path = sandbox.work().join("out/index.json");
    assert_eq!(json["index_path"], path.display().to_string());
    let index =
        conversation::format::index::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(index.summary.as_deref(), Some("the whole"));
    assert_eq!(index.segments[2].summary.as_deref(), Some("part 3"));
    assert_eq!(json["segments"][2]["path"], index.segments[2].path);
    assert!(std::path::Path::new(&index.segments[2].path).exists());
}

#[test]
fn as_many_at_once_as_jobs_and_no_more() {
    let sandbox = parted(text(240_000));
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(
        move |request| {
            if is_join(request) { "whole".into() } else { Answer::held(&held, "part") }
        },
    );
    let running = summarize(&sandbox, &["--json", "--jobs", "3"]).spawn();
    sandbox.llm.wait_for_requests(3);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(asked(&sandbox), 3);
    let connections: std::collections::BTreeSet<usize> =
        sandbox.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections.len(), 3);
    latch.release();
    let json = running.wait().assert_exit(0).json();
    assert_eq!(asked(&sandbox) as u64, json["segment_count"].as_u64().unwrap() + 1);
}

#[test]
fn when_one_segment_fails_the_others_are_kept() {
    let sandbox = parted(text(100_000));
    // It fails when all four run.
    let (latch, mut count) = (Latch::default(), 0);
    sandbox.llm.choose(move |request| {
        count += 1;
        if count == 4 {
            latch.release();
        }
        match segment(request) {
            2 => Answer::held(&latch, Answer::error(400, "invalid_request_error")),
            _ => usual(request),
        }
    });
    let run = split(&sandbox, &["--patience", "0"]).run();
    let json = run.assert_exit(3).stderr_has(&["part 2 of 4 (lines "]).json();
    let error = json["error"].as_str().unwrap();
    assert!(error.contains("the test server says no") && error.contains("3 of 4"), "{error}");
    assert_eq!((asked(&sandbox), kept(&sandbox).len()), (4, 3), "{error}");
    let index = sandbox.read("out/index.json");
    assert!(index.contains("part 1") && !index.contains("part 2") && index.contains("part 4"));
    sandbox.llm.choose(usual);
    let json = split(&sandbox, &[]).run().assert_exit(0).json();
    assert_eq!((&json["requests"], &json["cached"]), (&2.into(), &3.into()));
    assert_eq!(json["summary"], "the whole");
}

#[test]
fn nothing_new_is_begun_after_a_failure() {
    let sandbox = parted(text(240_000));
    sandbox.llm.choose(|request| {
        if segment(request) == 2 { Answer::error(401, "invalid_api_key") } else { usual(request) }
    });
    let run = summarize(&sandbox, &["--jobs", "1"]).run().assert_exit(3).no_stdout();
    run.stderr_has(&["OPENAI_API_KEY", "; 1 of ", " summaries are cached"]);
    assert_eq!(asked(&sandbox), 2);
    assert_eq!(std::fs::read_dir(sandbox.tmp()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_reply_that_cannot_be_used_is_not_kept() {
    let check = |replies: Vec<Answer>, exit: i32, message: &str| {
        let sandbox = Sandbox::new().file("f.txt", "x").replies(replies);
        summarize(&sandbox, &["--patience", "0"]).run().assert_exit(exit).stderr_has(&[message]);
        assert_eq!(kept(&sandbox), Vec::<PathBuf>::new(), "{message}");
    };
    check(vec![Reply::new("half of").cut_off().into()], 3, "cut off by the length limit");
    check(vec![" \n".into()], 3, "empty reply");
    check(vec![Answer::error(400, "content_policy_violation")], 3, "the test server says no");
    check(vec![Answer::Half(Reply::new("half of a stream"))], 3, "f.txt: ");
}

#[test]
fn a_limit_is_asked_for_twice_and_then_an_error() {
    let sandbox = Sandbox::new().file("f.txt", "x").replies(["one two three four", "one two"]);
    summarize(&sandbox, &["--limit-word-count", "2"]).run().answers("one two");
    let again = &sandbox.requests()[1];
    assert!(again.system().contains("at most 2 words"));
    assert_eq!(again.dialogue().turns[1].1, "one two three four");
    assert!(again.last().contains("has 4 words"), "{}", again.last());
    summarize(&sandbox, &["--max-words", "2"]).run().answers("one two");
    assert_eq!(asked(&sandbox), 2);

    let sandbox = Sandbox::new().file("f.txt", "x").replies(["a b c d", "a b c"]);
    let run = summarize(&sandbox, &["--max-word-count", "2", "--json"]).run().assert_exit(1);
    let json = run.json();
    let message = "summary exceeded --limit-word-count 2 after 2 attempts (last word count: 3)";
    assert!(json["error"].as_str().unwrap().ends_with(message), "{json}");
    assert_eq!(json["requests"], 2);
    assert_eq!(kept(&sandbox).len(), 0);
    for wrong in ["0", "-1", "x"] {
        let flag = format!("--limit-word-count={wrong}");
        summarize(&sandbox, &[&flag]).run().assert_exit(2);
    }
    summarize(&sandbox, &["--jobs", "17"]).run().assert_exit(2);
}

#[test]
fn the_usual_limit_is_a_wish() {
    let words = |count| vec!["word"; count].join(" ");
    let sandbox = Sandbox::new().file("f.txt", "x").reply(words(700));
    summarize(&sandbox, &[]).run().answers(&words(700));
    assert_eq!((asked(&sandbox), kept(&sandbox).len()), (1, 1));
}

#[test]
fn of_a_large_file_the_limit_is_for_the_whole() {
    let sandbox = large(224_000);
    summarize(&sandbox, &["--max-words", "7"]).run().answers("the whole");
    for request in sandbox.requests() {
        let limit = if is_join(&request) { "at most 7 words" } else { "at most 300 words" };
        assert!(request.system().contains(limit));
    }
    summarize(&sandbox, &["--max-words", "8"]).run().answers("the whole");
    assert_eq!(asked(&sandbox), 6, "the segments cost nothing again");
}

#[test]
fn many_summaries_are_joined_in_one_request() {
    let sandbox = parted(text(2_000_000));
    let long = "word ".repeat(500);
    sandbox.llm.choose(move |request| {
        let user = request.user();
        if is_join(request) && user.contains("summaries of all ") {
            "the whole".into()
        } else {
            long.as_str().into()
        }
    });
    let run = summarize(&sandbox, &["--jobs", "8", "--max-words", "7"]).run();
    run.assert_exit(0).stdout_is("the whole\n");
    let joins: Vec<Request> = sandbox.requests().into_iter().filter(is_join).collect();
    assert_eq!(joins.len(), 1);
    assert!(joins[0].user().len() < 65 << 10, "each enters with its share");
    assert!(joins[0].system().contains("at most 7 words"), "the limit is the last one's");
}

#[test]
fn a_summary_sends_little_more_than_the_file() {
    for (bytes, window) in
        [(66_000, None), (140_000, None), (300_000, None), (300_000, Some(200_000))]
    {
        let mut sandbox = Sandbox::new().file("f.txt", text(bytes));
        if let Some(tokens) = window {
            sandbox = sandbox.config_also(serde_json::json!({"context_window_tokens": tokens}));
        }
        sandbox.llm.choose(|_| "summary ".repeat(250).as_str().into());
        summarize(&sandbox, &[]).run().assert_exit(0);
        let sent = |request: &Request| request.system().len() + request.user().len();
        let sum: usize = sandbox.requests().iter().map(sent).sum();
        assert!(sum * 100 <= bytes * 105, "{bytes} bytes, window {window:?}: {sum} sent");
    }
}

#[test]
fn again_asks_anew_and_replaces() {
    let sandbox = Sandbox::new().file("f.txt", "x").replies(["old", "new"]);
    summarize(&sandbox, &[]).run().answers("old");
    summarize(&sandbox, &["--again"]).run().answers("new");
    summarize(&sandbox, &[]).run().answers("new");
}

#[test]
fn more_parts_than_one_summary_can_join_cost_nothing() {
    let sandbox = Sandbox::new()
        .config_also(serde_json::json!({"context_window_tokens": 800}))
        .file("f.txt", text(60_000));
    let run = summarize(&sandbox, &[]).run().assert_exit(1).no_stdout();
    run.stderr_has(&["too many for one summary", "larger window"]);
    assert_eq!(asked(&sandbox), 0);
}

#[test]
fn a_signal_ends_it_and_what_was_paid_for_is_kept() {
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = parted(text(240_000));
        let mut count = 0;
        sandbox.llm.choose(move |request| {
            count += 1;
            if count > 3 { Answer::StallHead } else { usual(request) }
        });
        let running = split(&sandbox, &["--jobs", "2"]).spawn();
        sandbox.llm.wait_for_requests(5);
        running.signal(signal);
        let json = running.wait().within(1.0).assert_exit(exit).json();
        assert!(json["error"].as_str().unwrap().contains("; 3 of "), "{json}");
        assert_eq!(kept(&sandbox).len(), 3);
        assert_eq!(sandbox.read("out/index.json").matches("\"summary\"").count(), 3);
        sandbox.llm.choose(usual);
        let json = split(&sandbox, &[]).run().assert_exit(0).json();
        assert_eq!(json["cached"], 3);
        assert_eq!(json["requests"], json["segment_count"].as_u64().unwrap() - 3 + 1);
    }
}

#[test]
fn progress_is_for_terminals_and_for_what_takes_long() {
    let sandbox = parted(text(224_000));
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| match segment(request) {
        3 => Answer::held(&held, "part"),
        _ => usual(request),
    });
    let releaser = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1600));
        latch.release();
    });
    let run = summarize(&sandbox, &[]).run_on_terminal().assert_exit(0);
    assert!(run.stderr.contains("3 of 4 segments"), "{:?}", run.stderr);
    releaser.join().unwrap();
    let run = summarize(&sandbox, &[]).run_on_terminal().assert_exit(0);
    assert!(!run.stderr.contains("segments"), "{:?}", run.stderr);
}

#[test]
fn a_recording_is_played_in_its_order() {
    let sandbox = large(224_000);
    let lines: String = (1..=5)
        .map(|n| {
            format!(
                "{{\"conversation\":\"0\",\"turn\":{n},\"after\":[],\"reply\":\"reply {n}\"}}\n"
            )
        })
        .collect();
    sandbox.write("r.jsonl", lines);
    let args = ["--provider", "replay", "--model", "r.jsonl", "--jobs", "4"];
    summarize(&sandbox, &args).run().answers("reply 5");
}
