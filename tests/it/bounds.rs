//! Every input has a bound: what is too large is an error that says so, or a cut that is said, and nothing is lost.

use std::fs::File;
use std::path::Path;

use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer};

const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const FILE_EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

/// A file of this size that takes no room.
fn hollow(path: &Path, bytes: u64) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn files_of_the_root_that_are_too_large_are_named_and_stay() {
    let check = |name: &str, bytes: u64, args: &[&str], code: i32| {
        let sandbox = Sandbox::new();
        let path = sandbox.root().join(name);
        hollow(&path, bytes);
        let run = sandbox.run(args).assert_exit(code).no_stdout().within(5.0);
        run.stderr_has(&[path.to_str().unwrap(), "limit"]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes, "{name} stays");
        assert!(sandbox.requests().is_empty(), "{name}: nothing was sent");
    };
    check("config.json", (1 << 20) + 1, &["task"], 2);
    check("conversations/c", (1 << 30) + 1, &["--conversation", "c", "task"], 1);
    check("conversations/file-index.json", (64 << 20) + 1, &["--list-file-edits"], 1);
}

#[test]
fn a_cache_that_is_too_large_is_made_anew() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let tool = sandbox.root().join("bin/mine");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/bin/true", tool).unwrap();
    let path = sandbox.root().join("tools.json");
    hollow(&path, (4 << 20) + 1);
    sandbox.run(&["task"]).assert_exit(0).stderr_has(&["bin/mine is not a tool"]);
    assert!(std::fs::metadata(&path).unwrap().len() < 100_000);
}

#[test]
fn a_recording_that_is_too_large_is_named() {
    let sandbox = Sandbox::new();
    hollow(&sandbox.work().join("rec"), (1 << 30) + 1);
    let run = sandbox.run(&["--provider", "replay", "--model", "rec", "task"]).assert_exit(1);
    run.no_stdout().stderr_has(&["rec", "limit"]);
}

#[test]
fn an_index_of_segments_that_is_too_large_is_named() {
    let sandbox = Sandbox::new();
    hollow(&sandbox.work().join("split/index.json"), (256 << 20) + 1);
    let run = sandbox.program(PATCH, &["--index", "split/index.json"]).run().assert_exit(1);
    run.no_stdout().stderr_has(&["index.json"]);
}

#[test]
fn an_index_of_an_earlier_split_that_is_too_large_is_refused() {
    let sandbox = Sandbox::new().file("a.txt", "one\n");
    let split = || sandbox.program(SPLIT, &["--file", "a.txt", "--output", "out"]).run();
    split().assert_exit(0);
    hollow(&sandbox.work().join("out/index.json"), (256 << 20) + 1);
    split().assert_exit(1).no_stdout().stderr_has(&["out/index.json", "limit"]);
}

#[test]
fn a_split_of_a_conversation_whose_index_is_too_large_is_made_anew() {
    let large = "a line of text\n".repeat(10_000);
    let sandbox = Sandbox::new().file("large.txt", &large);
    let read = "<nagent-file-read path=\"large.txt\"/>";
    for name in ["c", "c"] {
        sandbox.llm.push(read);
        sandbox.llm.push(answer("done"));
        sandbox.run(&["--conversation", name, "read"]).assert_exit(0);
        let splits = sandbox.root().join("splits/c");
        for split in std::fs::read_dir(&splits).unwrap() {
            hollow(&split.unwrap().path().join("index.json"), (256 << 20) + 1);
        }
    }
    assert_eq!(std::fs::read_dir(sandbox.root().join("splits/c")).unwrap().count(), 2);
}

#[test]
fn a_prompt_of_more_than_64_mib_is_refused_and_nothing_is_sent() {
    let sandbox = Sandbox::new();
    let run = sandbox.cmd(&["-"]).stdin(vec![b'a'; (64 << 20) + 1]).run().assert_exit(1);
    run.no_stdout().stderr_has(&["67108864", "put it into a file"]);
    assert!(sandbox.requests().is_empty());
}

#[test]
fn a_program_that_prints_without_end_is_ended_and_is_no_answer() {
    let sandbox = Sandbox::new();
    let program = sandbox.script("model.sh", "#!/bin/sh\ncat >/dev/null\nyes\n");
    let sandbox = sandbox.config(json!({"provider": "command", "command": [program]}));
    let run = sandbox.run(&["--patience", "0", "task"]).assert_exit(3).no_stdout();
    run.stderr_has(&["more than 64 MiB"]);
}

#[test]
fn a_list_of_models_without_end_is_an_error() {
    let sandbox = Sandbox::new();
    let origin = sandbox.llm.origin();
    let sandbox = sandbox
        .config(json!({"provider": "anthropic", "model": "m", "base_url": origin}))
        .env("ANTHROPIC_API_KEY", "k");
    let page = json!({"data": [{"id": "a", "type": "model"}], "has_more": true, "last_id": "a"});
    sandbox.llm.beside(move |_| Some(Answer::raw(200, "application/json", page.to_string())));
    sandbox.run(&["--list-models"]).assert_exit(3).stderr_has(&["more than 100 pages"]);
    assert_eq!(sandbox.llm.all_requests().len(), 100);
}

#[test]
fn a_list_of_models_of_many_megabytes_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.llm.beside(|_| Some(Answer::raw(200, "application/json", vec![b' '; (16 << 20) + 1])));
    sandbox.run(&["--list-models"]).assert_exit(3).stderr_has(&["too long"]);
}

#[test]
fn a_reply_may_start_64_children_and_a_run_200() {
    // One name for all: those beside the first are refused as well, at no cost, and in other words.
    let tags =
        |count: usize| "<nagent-conversation name=\"x\">p</nagent-conversation>".repeat(count);
    let sandbox = Sandbox::new();
    let mut replies = vec![tags(60), tags(60), tags(70), tags(20)].into_iter();
    sandbox.llm.choose(move |request| {
        if request.user().contains("the task") {
            replies.next().unwrap_or_else(|| answer("done")).into()
        } else {
            answer("child").into()
        }
    });
    sandbox.run(&["--conversation", "c", "the task"]).assert_exit(0).stdout_is("done\n");
    let text = std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap();
    let said = |words: &str| text.matches(words).count();
    assert_eq!(said("too many conversations: at most 64 per reply"), 6);
    assert_eq!(said("this run has started 200 conversations, the maximum"), 10);
    assert_eq!(said("</nagent-conversation-result>"), 210, "each has its result");
}

#[test]
fn what_a_child_used_is_not_left_for_those_that_wait() {
    let sandbox = Sandbox::new();
    let child =
        |name: &str| format!("<nagent-conversation name=\"{name}\">work</nagent-conversation>");
    let tags = child("a") + &child("b") + &child("c");
    sandbox.llm.choose(move |request| {
        if request.user().contains("the task") {
            tags.as_str().into()
        } else {
            answer("child").into()
        }
    });
    // Each reply is 1,010 tokens: one of the parent, then one child at a time.
    let args = ["--conversation", "t", "--jobs", "1", "--max-tokens", "2500", "the task"];
    sandbox.run(&args).assert_exit(5);
    let text = std::fs::read_to_string(sandbox.root().join("conversations/t")).unwrap();
    let refused = "the limits of this run are used up: no further conversation can be started";
    assert_eq!(text.matches(refused).count(), 1, "{text}");
}

#[test]
fn a_kept_content_that_is_too_large_is_not_read_back() {
    let sandbox = Sandbox::new().file("a.txt", "one\n");
    sandbox.llm.push(crate::file_edit::edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("done"));
    sandbox.program(FILE_EDIT, &["--file", "a.txt", "task"]).run().assert_exit(0);
    for entry in std::fs::read_dir(sandbox.root().join("outputs")).unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read(&path).unwrap() == b"one\n" {
            hollow(&path, (256 << 20) + 1);
        }
    }
    let run = sandbox.program(FILE_EDIT, &["--file", "a.txt", "--undo"]).run().assert_exit(1);
    run.stderr_has(&["limit"]);
    assert_eq!(sandbox.read("a.txt"), "two\n");
}

#[test]
fn more_tools_than_are_asked_are_said() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let bin = sandbox.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let one = sandbox.script("tool", "#!/bin/sh\nexit 1\n");
    for n in 0..201 {
        std::fs::hard_link(&one, bin.join(format!("tool-{n}"))).unwrap();
    }
    let run = sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    run.stderr_has(&["more than 200 programs", "are ignored"]);
}
