//! `--lines`: every event of a run as a line of JSON, the last one after every end.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::{edit, text};
use crate::process_under_test::Run;
use crate::sandbox::{NAGENT, Sandbox, answer, shell, wait_until};

#[track_caller]
fn events(run: &Run) -> Vec<Value> {
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"));
    let events: Vec<Value> = run.stdout.lines().map(read).collect();
    assert_eq!(run.stderr, "");
    assert_eq!(events.last().unwrap()["event"], "end", "{}", run.stdout);
    events
}

fn page() -> String {
    let path = format!("{}/docs/editors.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The events of the page, and all that is in backquotes in their rows.
fn documented() -> Vec<(String, BTreeSet<String>)> {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let quoted =
        |row: &str| row.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| {
        let mut words = quoted(row).into_iter();
        (words.next().unwrap(), words.collect())
    })
    .collect()
}

#[test]
fn every_event_is_printed_as_the_page_says() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(Answer::busy(503));
    let child = "<nagent-conversation name=\"kid\">part</nagent-conversation>";
    sandbox.llm.push(
        answer("I look") + &shell("seq 12; sleep 0.4") + &edit("a.txt", "one", "two") + child,
    );
    sandbox.llm.push(shell("echo in child"));
    sandbox.llm.push(answer("from child"));
    sandbox.llm.push(answer("half") + "word");
    sandbox.llm.push(answer("all\n\ndone"));
    let run = sandbox
        .run(&["--lines", "--write", ".", "--check", "true", "--after-write", "true", "task"])
        .assert_exit(0);
    let events = events(&run);
    let documented = documented();
    let mut seen = BTreeSet::new();
    for event in &events {
        let name = text(&event["event"]).to_owned();
        let known = documented.iter().find(|(known, _)| *known == name);
        let (_, keys) = known.unwrap_or_else(|| panic!("{name} is not in the table"));
        for key in event.as_object().unwrap().keys() {
            let is_known = key == "event" || key == "child" || name == "end" || keys.contains(key);
            assert!(is_known, "{key} of {name} is not in the table");
        }
        seen.insert(name);
    }
    let missing: Vec<_> = documented.iter().filter(|(name, _)| !seen.contains(name)).collect();
    assert_eq!(
        missing.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["decide", "compact"]
    );

    let find = |name: &str, tag: &str| {
        let is_it = |event: &&Value| {
            event["event"] == name && event["tag"] == tag && event.get("child").is_none()
        };
        events.iter().find(is_it).unwrap().clone()
    };
    assert_eq!(find("start", "nagent-shell")["body"], "seq 12; sleep 0.4");
    let finish = find("finish", "nagent-shell");
    assert_eq!((&finish["lines_before"], &finish["shown"][9]), (&json!(2), &json!("12")));
    assert_eq!(finish["n"], find("start", "nagent-shell")["n"]);
    let output = events.iter().find(|it| it["event"] == "output").unwrap();
    assert_eq!((&output["n"], &output["lines_before"]), (&finish["n"], &json!(9)));
    assert_eq!(output["shown"], json!(["10", "11", "12"]));
    let check = events.iter().find(|it| it["event"] == "check").unwrap();
    assert_eq!((&check["try"], &check["of"]), (&json!(1), &json!(5)));
    assert!(text(&find("finish", "nagent-edit")["diff"]).contains("-one\n+two\n"));
    let child = events.iter().find(|it| it["child"] == json!(["kid"]) && it["event"] == "start");
    assert_eq!(child.unwrap()["body"], "echo in child");
    let verdicts: Vec<&str> = events
        .iter()
        .filter(|it| it["event"] == "heard" && it.get("child").is_none())
        .map(|it| text(&it["verdict"]))
        .collect();
    assert_eq!(verdicts, ["whole", "malformed", "whole"]);
    assert_eq!(events.last().unwrap()["responses"], json!(["all\n\ndone"]));
}

#[test]
fn the_answer_comes_in_pieces_that_are_the_answer() {
    let sandbox = Sandbox::new().reply(answer("\n one\n\ntwo\n") + &answer("three"));
    let input = format!("{}\n", json!({"prompt": "task\nmore"}));
    let run = sandbox.cmd(&["--lines"]).stdin(input).run().assert_exit(0);
    let pieces: Vec<Value> = events(&run);
    let joined: String =
        pieces.iter().filter(|it| it["event"] == "text").map(|it| text(&it["text"])).collect();
    assert_eq!(joined, " one\n\ntwo\nthree");
    assert_eq!(sandbox.block("user-prompt").body, "task\nmore");
}

/// Nobody knows whether such an answer counts while it comes.
#[test]
fn an_answer_that_has_to_be_accepted_comes_once() {
    for flags in [["--check", "test -e ok"], ["--schema", "s.json"], ["-o", "out"]] {
        let sandbox = Sandbox::new().file("s.json", "{\"type\": \"object\"}");
        if flags[0] != "-o" {
            sandbox.llm.push(shell("touch before"));
            sandbox.llm.push(answer("refused"));
        }
        sandbox.llm.push(shell("touch ok"));
        sandbox.llm.push(answer("```json\n{}\n```"));
        let run = sandbox.run(&["--lines", flags[0], flags[1], "task"]).assert_exit(0);
        let events = events(&run);
        let texts: Vec<&str> =
            events.iter().filter(|it| it["event"] == "text").map(|it| text(&it["text"])).collect();
        let expect = if flags[0] == "--schema" { "{}" } else { "```json\n{}\n```" };
        assert_eq!(texts, [expect], "{flags:?}");
        assert_eq!(events[events.len() - 2]["event"], "text", "{flags:?}");
        // One that is not accepted is not shown.
        if flags[0] == "--check" {
            sandbox.llm.choose(|_| answer("never").into());
            let run = sandbox.run(&["--lines", "--new", "--check", "false", "x"]).assert_exit(6);
            assert!(!self::events(&run).iter().any(|it| it["event"] == "text"), "{}", run.stdout);
        }
    }
}

#[test]
fn the_end_comes_after_every_end() {
    let check = |run: Run, code: i32, words: &str| {
        let events = events(&run);
        let end = events.last().unwrap();
        assert_eq!((run.code, &end["exit_code"]), (code, &json!(code)));
        assert!(text(&end["error"]).contains(words), "{end}");
    };
    let sandbox = Sandbox::new();
    check(sandbox.run(&["--lines", "--no-such-flag", "x"]), 2, "unexpected argument");
    check(sandbox.run(&["--lines", "--json", "x"]), 2, "cannot be used with");
    check(sandbox.run(&["--lines", "--status"]), 2, "--lines");
    check(sandbox.run(&["--lines", "--undo"]), 2, "--lines");
    for (input, words) in [
        ("word\n", "--lines expects"),
        ("{\"prompt\": 1}\n", "--lines expects"),
        ("{\"prompt\": \"x\", \"more\": 1}\n", "unknown field"),
        ("{\"decide\": 1, \"allow\": true}\n", "unknown field"),
        ("{\"prompt\": \"x\"}\n{\"decide\": 1, \"allow\": true}\n", "unexpected decision"),
        ("{\"prompt\": \" \"}\n", "empty"),
        ("", "--lines expects"),
    ] {
        check(sandbox.cmd(&["--lines"]).stdin(input).run(), 2, words);
    }
    sandbox.llm.push(Answer::error(400, "invalid_request_error"));
    check(sandbox.run(&["--lines", "x"]), 3, "the test server says no");
    for _ in 0..3 {
        sandbox.llm.push("<word");
    }
    check(sandbox.run(&["--lines", "--new", "x"]), 4, "did not follow");
    sandbox.llm.push(shell("true"));
    check(sandbox.run(&["--lines", "--new", "--max-turns", "1", "x"]), 5, "1 turn ");
    sandbox.llm.push(Answer::StallHead);
    let before = sandbox.requests().len();
    let running = sandbox.cmd(&["--lines", "--new", "x"]).spawn();
    sandbox.llm.wait_for_requests(before + 1);
    running.signal(rustix::process::Signal::INT);
    check(running.wait(), 130, "SIGINT");
}

#[test]
fn a_run_that_nobody_follows_any_more_ends() {
    let sandbox = Sandbox::new().reply(shell("touch ran; sleep 0.5")).reply(answer("never asked"));
    let line =
        format!("{NAGENT} --lines --conversation c task | head -n 1; echo \"${{PIPESTATUS[0]}}\"");
    let run = sandbox.program("bash", &["-c", &line]).run().assert_exit(0);
    assert_eq!(run.stdout.lines().last(), Some("129"), "{}", run.stdout);
    let end = sandbox.blocks().pop().unwrap();
    assert_eq!(end.get("exit"), "129", "{end:?}");
}

#[test]
fn the_front_end_of_the_page_runs() {
    let page = page();
    let code = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(code.lines().count() <= 38, "{} lines", code.lines().count());
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("front.py", code);
    sandbox.llm.push(shell("echo hi there") + &edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("done it"));
    // The person says yes and no to the parent's commands; of those of the child nobody is asked.
    let asks = Sandbox::new().file("front.py", code);
    asks.llm.push("<nagent-conversation name=\"kid\">part</nagent-conversation>".to_owned());
    asks.llm.push(shell("touch kid") + &shell("touch kid"));
    asks.llm.push(answer("could not"));
    asks.llm.push(shell("touch a") + &shell("touch b"));
    asks.llm.push(answer("asked"));
    let bin = std::path::Path::new(NAGENT).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let found = Command::new("python3").arg("--version").output();
    assert!(found.is_ok(), "this test needs python3");
    let run = asks.program("python3", &["front.py", "--approve", "shell", "task"]);
    let run = run.env("PATH", &path).stdin("y\nnot this one\n").run().assert_exit(0);
    let exists = ["kid", "a", "b"].map(|name| asks.work().join(name).exists());
    assert_eq!(exists, [false, true, false], "{}", run.stdout);
    assert!(run.stdout.contains("touch a in "), "{}", run.stdout);
    assert!(asks.requests().last().unwrap().user().contains("the user said no: not this one"));
    let run = sandbox.program("python3", &["front.py", "--write", ".", "task"]).env("PATH", &path);
    let run = run.run().assert_exit(0);
    sandbox.llm.push(answer("checked it"));
    let checked = sandbox.program("python3", &["front.py", "--check", "true", "task"]);
    let checked = checked.env("PATH", &path).run().assert_exit(0);
    assert_eq!(checked.stdout.matches("checked it").count(), 1, "{}", checked.stdout);
    for words in
        ["* nagent-shell: echo hi there", "  | hi there", "-one\n+two\n", "done it", "[exit 0]"]
    {
        assert!(run.stdout.contains(words), "{words:?} in {}", run.stdout);
    }
}

#[test]
fn a_front_end_sees_the_answer_before_it_is_complete() {
    let reply = answer(&format!("first {}", "word ".repeat(200)));
    let sandbox = Sandbox::new().answer(Answer::StallBody(reply.as_str().into()));
    let running = sandbox.cmd(&["--lines", "task"]).spawn();
    wait_until("a piece has come", || running.stdout_so_far().contains("\"first word"));
    running.signal(rustix::process::Signal::INT);
    running.wait().assert_exit(130);
}

#[test]
fn a_closed_stdout_ends_the_run_like_a_hangup() {
    let sandbox = Sandbox::new().reply(shell("touch ran")).reply(answer("never asked"));
    let line = format!("{NAGENT} --lines --conversation c task | :; exit ${{PIPESTATUS[0]}}");
    sandbox.program("bash", &["-c", &line]).run().assert_exit(129);
    assert!(!sandbox.work().join("ran").exists());
}
