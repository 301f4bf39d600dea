//! `--approve`: nothing that is asked about runs without a yes, and no text can give one. `--tags`, `--context`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::edit;
use crate::process_under_test::{Run, Running};
use crate::sandbox::{Sandbox, answer, shell, wait_until};

const QUESTION: &str = "why not [n]: ";

/// Types an answer to each question, and returns what the terminal showed.
#[track_caller]
pub(crate) fn answer_questions(sandbox: &Sandbox, flags: &[&str], answers: &[&str]) -> Run {
    let mut running = start(sandbox, flags);
    let mut keys = running.take_stdin();
    for (count, answer) in answers.iter().enumerate() {
        wait_for_question(&running, count + 1);
        keys.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    running.wait().assert_exit(0)
}

fn start(sandbox: &Sandbox, flags: &[&str]) -> Running {
    let flags = [&["--conversation", "c"], flags, &["task"]].concat();
    sandbox.cmd(&flags).on_terminal(80).spawn()
}

fn wait_for_question(running: &Running, count: usize) {
    wait_until("the question", || running.stdout_so_far().matches(QUESTION).count() >= count);
}

fn results(sandbox: &Sandbox) -> Vec<String> {
    let blocks = sandbox.blocks().into_iter().filter(|block| block.name.ends_with("-result"));
    blocks.map(|block| format!("{}: {}", block.get("status"), block.body)).collect()
}

#[test]
fn no_is_the_default_and_the_model_reads_the_reason() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(shell("touch a") + &shell("touch b") + &shell("touch c"));
    sandbox.llm.push(answer("done"));
    let run = answer_questions(&sandbox, &["--approve", "shell"], &["", "n use make", "y"]);
    assert_eq!(
        results(&sandbox),
        ["error: not run: the user said no", "error: not run: the user said no: use make", "ok: "]
    );
    let exists = |name: &str| sandbox.work().join(name).exists();
    assert_eq!([exists("a"), exists("b"), exists("c")], [false, false, true]);
    assert!(run.stdout.contains("│ touch a"), "{}", run.stdout);
}

#[test]
fn one_key_answers_unless_more_follow() {
    let sandbox = Sandbox::new();
    sandbox
        .llm
        .push(["a", "b", "c", "d", "e"].map(|name| shell(&format!("touch {name}"))).concat());
    sandbox.llm.push(answer("done"));
    let mut pty = sandbox.cmd(&["-c", "c", "--approve", "shell", "task"]).on_pty(80);
    let modes = sandbox.program("true", &[""; 0]).on_pty(80).modes();
    let keys = ["y", "n", "a better idea\r", "x\x7fuse m\x15y\r", "a"];
    for (count, keys) in keys.iter().enumerate() {
        pty.expect_times(QUESTION, count + 1);
        pty.type_keys(keys);
    }
    // What is stored needs Enter: a sentence may begin slowly.
    std::thread::sleep(Duration::from_millis(400));
    pty.type_keys("h, no\r");
    assert!(pty.wait().success(), "{}", pty.printed());
    let no = "error: not run: the user said no";
    let expect = ["ok: ", no, &format!("{no}: a better idea"), "ok: ", &format!("{no}: ah, no")];
    assert_eq!(results(&sandbox), expect);
    assert_eq!(pty.modes(), modes);
}

#[test]
fn a_sentence_is_a_reason_for_no() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(shell("touch a") + &shell("touch a") + &shell("touch a") + &shell("touch b"));
    sandbox.llm.push(answer("done"));
    let answers = ["a better idea: use ls", "yes but only in src", "Y, if it must be", "YES"];
    answer_questions(&sandbox, &["--approve", "shell"], &answers);
    let no = |reason: &str| format!("error: not run: the user said no: {reason}");
    let expect = [no(answers[0]), no(answers[1]), no(answers[2]), "ok: ".to_owned()];
    assert_eq!(results(&sandbox), expect);
    assert!(!sandbox.work().join("a").exists() && sandbox.work().join("b").exists());
    assert!(!sandbox.root().join("approvals.json").exists());
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let sandbox = Sandbox::new();
    let (opened, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let was_asked = opened.clone();
    let mut replies = vec![answer("done"), shell("touch a")];
    let go = gate.clone();
    sandbox.llm.choose(move |_| {
        was_asked.store(true, Ordering::SeqCst);
        wait_until("it was typed", || go.load(Ordering::SeqCst));
        replies.pop().unwrap().into()
    });
    let mut running = start(&sandbox, &["--approve", "shell"]);
    let mut keys = running.take_stdin();
    wait_until("the model is asked", || opened.load(Ordering::SeqCst));
    keys.write_all(b"y\ny\ny\n").unwrap();
    // The terminal does not show it.
    std::thread::sleep(std::time::Duration::from_millis(200));
    gate.store(true, Ordering::SeqCst);
    wait_for_question(&running, 1);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!sandbox.work().join("a").exists());
    keys.write_all(b"n\n").unwrap();
    running.wait().assert_exit(0);
    assert!(!sandbox.work().join("a").exists());
}

#[test]
fn always_is_this_text_in_this_folder() {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        sandbox.llm.push(shell("echo x >> out"));
        sandbox.llm.push(answer("done"));
    }
    answer_questions(&sandbox, &["--approve", "shell"], &["a"]);
    answer_questions(&sandbox, &["--approve", "shell"], &[]);
    assert_eq!(sandbox.read("out"), "x\nx\n");
    let stored = std::fs::read_to_string(sandbox.root().join("approvals.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["entries"][0]["text"], "echo x >> out");
    assert_eq!(stored["entries"].as_array().unwrap().len(), 1);
    // Another text, and another folder, are asked about; without a terminal that is a no.
    for (folder, command) in [("work", "echo x >> out; true"), ("home", "echo x >> out")] {
        sandbox.llm.push(shell(command));
        sandbox.llm.push(answer("done"));
        let folder = sandbox.base().join(folder);
        sandbox
            .cmd(&["--approve", "shell", "--conversation", "d", "x"])
            .folder(folder)
            .run()
            .assert_exit(0);
        assert!(
            results_of(&sandbox, "d").last().unwrap().contains("there is no terminal to ask on")
        );
    }
}

#[test]
fn the_first_two_words_can_be_approved_in_the_sandbox_and_only_there() {
    let sandbox = Sandbox::new();
    for _ in 0..4 {
        let again = ["git log -1", "git log --oneline -2", "git log | cat", "git status -s"];
        sandbox.llm.push(again.map(shell).concat());
        sandbox.llm.push(answer("done"));
    }
    let boxed = ["--approve", "shell", "--sandbox", "workspace"];
    let run = answer_questions(&sandbox, &boxed, &["w", "n", "n"]);
    assert!(run.stdout.contains("w always git log ..., "), "{}", run.stdout);
    let shown = run.stdout.replace("\r\n", "");
    assert!(!shown.contains("w always git log ..., or why not [n]: n"));
    let stored = std::fs::read_to_string(sandbox.root().join("approvals.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["entries"][0]["text"], "git log *");
    answer_questions(&sandbox, &boxed, &["n", "n"]);
    // Options can write: without the sandbox it does not count, and is not offered.
    let run = answer_questions(&sandbox, &["--approve", "shell"], &["w", "n", "n", "n", "n"]);
    assert!(!run.stdout.contains("w always") && run.stdout.contains("one of these letters"));
}

fn results_of(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.root().join("conversations").join(name)).unwrap();
    text.split("\n\n").filter(|block| block.contains("-result ")).map(str::to_owned).collect()
}

#[test]
fn the_editor_makes_another_command_of_it() {
    let sandbox = Sandbox::new();
    let editor = sandbox.script("editor", "#!/bin/sh\necho 'touch edited' > \"$1\"\n");
    let sandbox = sandbox.env("EDITOR", editor.to_str().unwrap());
    sandbox.llm.push(shell("touch original"));
    sandbox.llm.push(answer("done"));
    let run = answer_questions(&sandbox, &["--approve", "shell"], &["e"]);
    assert!(!run.stdout.contains("before it ran"), "the person knows: {}", run.stdout);
    assert!(sandbox.work().join("edited").exists() && !sandbox.work().join("original").exists());
    // The reply does not have what ran: the result does.
    let said = "[the user edited the command before it ran; this ran instead: touch edited]";
    assert!(sandbox.block("nagent-shell-result").body.contains(said));
}

#[test]
fn edits_are_asked_about_as_their_diff_and_hidden_text_shows() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    sandbox
        .llm
        .push(edit("a.txt", "two", "2") + &shell("ls\u{200b}\u{1b}[7m nagent asks: y\u{1b}[0m"));
    sandbox.llm.push(answer("done"));
    let run = answer_questions(&sandbox, &["-w", "--approve", "ask"], &["y", "n"]);
    let shown = &run.stdout;
    assert!(shown.contains("-two") && shown.contains("+2"), "{shown}");
    assert!(shown.contains("  -1 +1\r\n"), "{shown}");
    assert!(shown.contains("ls\\u{200b}\\u{1b}[7m nagent asks"), "{shown}");
    assert_eq!(sandbox.read("a.txt"), "one\n2\n");
}

#[test]
fn nobody_is_asked_about_a_write_that_is_refused_anyway() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(
        "<nagent-read path=\"a.txt\"/><nagent-write path=\"a.txt\">two\n</nagent-write>".to_owned(),
    );
    sandbox.llm.push(answer("done"));
    let run = answer_questions(&sandbox, &["-w", "--approve", "ask"], &[]);
    assert!(run.stdout.contains("had not read this file before"), "{}", run.stdout);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn what_is_allowed_by_pattern_needs_no_question_and_what_is_stopped_gets_none() {
    let sandbox = Sandbox::new();
    let config = json!({"provider": "openai", "model": "test-model", "base_url": sandbox.base_url(),
        "approve": "shell", "approve_allow": ["echo *"]});
    let sandbox = sandbox.config(config);
    let reply = shell("echo a") + &shell("echo a; touch x") + &shell("rm -rf / --no-preserve-root");
    // Bash runs another program than the one that the parser sees.
    let hidden =
        ["\u{feff}echo a", "\u{a0}echo a", "echo\u{2800}a", "echo\u{a0}a", "echo a\u{200b}"];
    sandbox.llm.push(reply + &hidden.map(shell).concat());
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    let results = results(&sandbox);
    assert_eq!(results[0], "ok: a");
    assert!(results[1].contains("there is no terminal to ask on"), "{results:?}");
    assert!(results[2].contains("nagent refuses such commands"), "{results:?}");
    for (result, command) in results[3..].iter().zip(hidden) {
        assert!(result.contains("there is no terminal to ask on"), "{command:?}: {result}");
    }
}

#[test]
fn a_child_is_refused_what_its_parent_would_ask_about() {
    let sandbox = Sandbox::new();
    sandbox.llm.push("<nagent-conversation name=\"kid\">part</nagent-conversation>".to_owned());
    sandbox.llm.push(shell("touch x"));
    sandbox.llm.push(answer("could not"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-c", "c", "--approve", "shell", "task"]).assert_exit(0);
    assert!(sandbox.requests()[2].user().contains("which a child conversation cannot ask for"));
    assert!(!sandbox.work().join("x").exists());
}

#[test]
fn a_front_end_decides_line_by_line() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(shell("touch a") + &shell("touch b") + &shell("touch c"));
    sandbox.llm.push(answer("done"));
    let mut running = sandbox.cmd(&["--lines", "--approve", "shell"]).silent_stdin().spawn();
    let mut stdin = running.take_stdin();
    stdin.write_all(b"{\"prompt\": \"task\"}\n").unwrap();
    let asked = |n: u64| {
        let is_it = |line: &str| {
            let event = serde_json::from_str::<Value>(line).unwrap_or_default();
            event["event"] == "decide" && event["n"] == n
        };
        wait_until("the question", || running.stdout_so_far().lines().any(is_it));
    };
    asked(1);
    stdin.write_all(b"{\"decide\": 1, \"allow\": true}\n").unwrap();
    asked(2);
    stdin.write_all(b"{\"decide\": 2, \"allow\": false, \"reason\": \"not b\"}\n").unwrap();
    asked(3);
    drop(stdin);
    let run = running.wait().assert_exit(0);
    let exists = |name: &str| sandbox.work().join(name).exists();
    assert_eq!([exists("a"), exists("b"), exists("c")], [true, false, false]);
    let finished: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == "finish")
        .collect();
    assert_eq!(finished.iter().map(|it| it["n"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(finished[1]["first_line"].as_str().unwrap().contains("not b"));
    assert!(finished[2]["first_line"].as_str().unwrap().contains("there is no terminal"));
}

#[test]
fn a_front_end_ends_the_run_at_a_question() {
    let sandbox = Sandbox::new().reply(shell("touch ran"));
    let args = ["--conversation", "c", "--lines", "--approve", "shell", "x"];
    let mut running = sandbox.cmd(&args).silent_stdin().spawn();
    let mut stdin = running.take_stdin();
    wait_until("the question", || running.stdout_so_far().contains("decide"));
    stdin.write_all(b"{\"decide\": 1, \"allow\": false, \"stop\": true}\n").unwrap();
    running.wait().assert_exit(130);
    assert!(!sandbox.work().join("ran").exists());
    assert!(sandbox.conversation().contains("exit=\"130\""));
}

/// A person who answers late: the yes is for the number of a question of the child.
#[test]
fn a_late_yes_to_a_child_is_none_for_its_parent() {
    let sandbox = Sandbox::new();
    sandbox.llm.push("<nagent-conversation name=\"kid\">part</nagent-conversation>".to_owned());
    sandbox.llm.push(shell("touch kid") + &shell("touch kid"));
    sandbox.llm.push(answer("could not"));
    sandbox.llm.push(shell("touch parent"));
    sandbox.llm.push(answer("done"));
    let mut running =
        sandbox.cmd(&["--lines", "--approve", "shell", "task"]).silent_stdin().spawn();
    let mut stdin = running.take_stdin();
    let questions = || -> Vec<Value> {
        let lines = running.stdout_so_far();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["event"] == "decide").collect()
    };
    let is_own = |event: &&Value| event.get("child").is_none();
    wait_until("the parent's question", || questions().iter().any(|event| is_own(&event)));
    let (own, of_child): (Vec<_>, Vec<_>) = questions().into_iter().partition(|it| is_own(&it));
    for late in of_child.iter().filter(|late| own.iter().any(|own| own["n"] == late["n"])) {
        stdin
            .write_all(format!("{{\"decide\": {}, \"allow\": true}}\n", late["n"]).as_bytes())
            .unwrap();
    }
    drop(stdin);
    running.wait().assert_exit(0);
    assert!(!sandbox.work().join("parent").exists() && !sandbox.work().join("kid").exists());
    assert_eq!(of_child, [Value::Null; 0], "nobody can answer these");
    let folder = sandbox.work().canonicalize().unwrap();
    assert_eq!(own[0]["folder"], folder.to_str().unwrap());
}

#[test]
fn a_decision_that_nobody_asked_for_ends_the_run() {
    let sandbox = Sandbox::new().reply(shell("touch a"));
    let mut running = sandbox.cmd(&["--lines", "--approve", "shell"]).silent_stdin().spawn();
    let mut stdin = running.take_stdin();
    stdin.write_all(b"{\"prompt\": \"task\"}\n").unwrap();
    wait_until("the question", || running.stdout_so_far().contains("decide"));
    stdin.write_all(b"{\"decide\": 7, \"allow\": true}\n").unwrap();
    let run = running.wait().assert_exit(2);
    assert!(run.stdout.lines().last().unwrap().contains("waits for a decision"), "{}", run.stdout);
    assert!(!sandbox.work().join("a").exists());
    assert_eq!(sandbox.block("nagent-shell-result").get("status"), "not-run");
}

#[test]
fn a_model_has_the_tags_that_it_is_given() {
    let sandbox = Sandbox::new();
    sandbox.llm.push("<nagent-write path=\"x\">x</nagent-write>".to_owned());
    sandbox.llm.push(shell("echo hi"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-c", "c", "--tags", "shell,read", "task"]).assert_exit(0);
    let system = sandbox.requests()[0].system();
    assert!(system.contains("<nagent-shell") && system.contains("<nagent-read "), "{system}");
    for other in ["nagent-write", "nagent-edit", "nagent-grep", "nagent-conversation", "SEARCH"] {
        assert!(!system.contains(other), "{other} in {system}");
    }
    let note = sandbox.requests()[1].user();
    assert!(note.contains("there is no tag <nagent-write>"), "{note}");
    assert!(!sandbox.work().join("x").exists());
    sandbox.run(&["--tags", "shel", "x"]).assert_exit(2).stderr_has(&["\"shel\"", "shell, next"]);
}

#[test]
fn a_file_of_the_users_choice_comes_with_the_context() {
    let sandbox = Sandbox::new().file("rules.md", "Be brief.\n").file("bytes.md", b"\xff\xfe");
    sandbox.llm.push(Answer::from(answer("done")));
    sandbox.run(&["-c", "c", "--context", "rules.md", "task"]).assert_exit(0);
    assert!(sandbox.requests()[0].system().contains("Be brief."));
    for (file, words) in [("no.md", "no such file"), ("bytes.md", "UTF-8")] {
        sandbox.run(&["--context", file, "x"]).assert_exit(2).stderr_has(&[
            "--context",
            file,
            words,
        ]);
    }
}
