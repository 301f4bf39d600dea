//! Prompts and files to read that are too long to be shown whole, or are not text; conversations that outgrow the window.

use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer};

/// About 200 KB of numbered lines.
fn log() -> String {
    (0..20_000).map(|n| format!("line {n:05}\n")).collect()
}

#[test]
fn a_long_prompt_is_stored_and_its_ends_are_shown() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let run = sandbox.cmd(&["--conversation", "c", "Sum it up", "-"]).stdin(log()).run();
    run.assert_exit(0).stdout_is("one\n").stderr_has(&["the input has 220.0 KB: the model gets"]);
    let block = sandbox.block("user-prompt");
    assert!(block.body.starts_with("Sum it up\nline 00000\n"), "{}", &block.body[..50]);
    assert!(block.body.trim_end().ends_with("line 19999") && block.body.len() < 20_000);
    let path = block.get("output");
    assert_eq!(std::fs::read_to_string(path).unwrap(), format!("Sum it up\n{}", log()));
    assert!(block.body.contains(path), "the model reads where it is");
    assert!(sandbox.requests()[0].body.len() < 40_000, "what is sent is short");
    sandbox.cmd(&["--conversation", "c", "short"]).run().answers("two");
    // As much as is shown whole stays as it is.
    sandbox.llm.push(answer("three"));
    let whole = "x".repeat(64 << 10);
    sandbox.cmd(&["--conversation", "d"]).stdin(whole.clone()).run().answers("three");
    assert!(sandbox.requests()[2].user().contains(&whole));
}

#[test]
fn a_long_file_to_read_likewise() {
    let sandbox = Sandbox::new().reply(answer("one")).file("big.log", log());
    sandbox.run(&["--read", "big.log", "Sum it up"]).answers("one");
    let block = sandbox.block("nagent-read-result");
    assert_eq!((block.get("status"), block.get("path")), ("ok", "big.log"));
    assert!(
        block.body.starts_with("line 00000\n") && block.body.trim_end().ends_with("line 19999")
    );
    assert_eq!(std::fs::read_to_string(block.get("output")).unwrap(), log());
    let run = sandbox.run(&["--show-request", "--read", "big.log", "x"]).assert_exit(0);
    assert!(run.stdout.len() < 60_000);
}

#[test]
fn input_that_is_not_text_is_reported() {
    let sandbox = Sandbox::new().reply(answer("one")).file("latin.txt", b"Gr\xfc\xdfe\n");
    let run = sandbox.cmd(&["Read it", "-"]).stdin(b"Gr\xfc\xdfe\n".to_vec()).run().assert_exit(0);
    run.stdout_is("one\n").stderr_has(&["the prompt is not valid UTF-8"]);
    let block = sandbox.block("user-prompt");
    assert_eq!(block.get("utf8"), "false");
    assert_eq!(std::fs::read(block.get("output")).unwrap(), b"Read it\nGr\xfc\xdfe\n");
    sandbox.llm.push(answer("two"));
    let run = sandbox.run(&["--conversation", "r", "--read", "latin.txt", "x"]).assert_exit(0);
    run.stderr_has(&["--read latin.txt is not valid UTF-8"]);
}

#[test]
fn a_conversation_that_outgrew_its_window_is_not_a_trap() {
    let sandbox = Sandbox::new();
    let body = json!({"error": {"message": "too many tokens", "code": "context_length_exceeded"}});
    sandbox.llm.push(Answer::raw(400, "application/json", body.to_string()));
    let run = sandbox.run(&["task"]).assert_exit(3);
    run.stderr_has(&["too many tokens", "nagent --new", "nagent-conversations"]);
    let sandbox = Sandbox::new().config_also(json!({"context_window_tokens": 1000}));
    let run = sandbox.cmd(&["-c", "big", "-"]).stdin("word ".repeat(12_000)).run().assert_exit(3);
    run.stderr_has(&["nothing was sent", "nagent --new", "nagent-conversations path big prints"]);
    // Of a file's conversation there is only one.
    let sandbox = sandbox.file("a.txt", "a\n");
    let run = sandbox.file_edit(&["a.txt", &"word ".repeat(12_000)]).run().assert_exit(3);
    run.stderr_has(&["nagent-conversations clear a-", "nagent-conversations path a-"]);
}
