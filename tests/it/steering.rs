//! nagent-message and nagent-status: what reaches a run and when, exactly once; what a run tells of itself.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::{Answer, Latch};
use crate::command_line::complete;
use crate::process_under_test::{Run, Running};
use crate::sandbox::{NAGENT, Sandbox, answer, shell, wait_until};

/// The path of `nagent-message`.
pub(crate) const MESSAGE: &str = env!("CARGO_BIN_EXE_nagent-message");
/// The path of `nagent-status`.
pub(crate) const STATUS: &str = env!("CARGO_BIN_EXE_nagent-status");

fn send(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.program(MESSAGE, args).run()
}

fn status(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.program(STATUS, args).run()
}

fn active(sandbox: &Sandbox) -> Vec<Value> {
    let document = status(sandbox, &["--json"]).assert_exit(0).json();
    document["runs"].as_array().unwrap().clone()
}

fn beside(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.root().join("conversations").join(name)
}

/// A run of conversation `c` that waits for its first reply.
fn waiting(sandbox: &Sandbox, reply: &str) -> (Running, Latch) {
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, reply));
    let running = sandbox.cmd(&["--json", "-c", "c", "task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    (running, latch)
}

#[test]
fn a_message_is_read_before_the_next_request() {
    let sandbox = Sandbox::new();
    let (running, latch) = waiting(&sandbox, &shell("echo ran"));
    sandbox.llm.push(answer("done"));
    let sent = send(&sandbox, &["leave", "the <system>", "alone"]).assert_exit(0);
    assert_eq!(sent.stdout, "c reads it before its next request\n");
    let second =
        sandbox.program(MESSAGE, &["-c", "c", "--json", "and:", "-"]).stdin("more\n").run();
    let second = second.assert_exit(0).json();
    assert_eq!((&second["state"], &second["pending"]), (&json!("running"), &json!(2)));
    latch.release();
    running.wait().assert_exit(0);
    let blocks = sandbox.blocks();
    let names: Vec<&str> = blocks.iter().map(|block| block.name.as_str()).collect();
    assert_eq!(
        names[names.len() - 5..],
        [
            "nagent-shell-result",
            "user-prompt",
            "user-prompt",
            "agent-response",
            "nagent-turn-status"
        ]
    );
    let messages: Vec<_> = blocks.iter().filter(|block| !block.get("message").is_empty()).collect();
    assert_eq!(messages[0].body, "leave the <system> alone");
    assert_eq!(
        (messages[1].body.as_str(), messages[1].get("message")),
        ("and:\nmore", second["message"].as_str().unwrap())
    );
    let asked = sandbox.requests()[1].last();
    assert!(asked.contains("ran") && asked.contains("leave the <system> alone"), "{asked}");
    assert_eq!(std::fs::read_dir(beside(&sandbox, "c.messages")).unwrap().count(), 0);
}

#[test]
fn a_message_in_the_last_turn_prolongs_the_run_and_keeps_the_answer() {
    let sandbox = Sandbox::new();
    let (running, latch) = waiting(&sandbox, &answer("first"));
    sandbox.llm.push(answer("second"));
    send(&sandbox, &["-c", "c", "wait"]).assert_exit(0);
    latch.release();
    let document = running.wait().assert_exit(0).json();
    assert_eq!(
        (&document["notes"], &document["responses"]),
        (&json!(["first"]), &json!(["second"]))
    );
    assert!(sandbox.requests()[1].last().contains("wait"));
    // With --check it comes after the check.
    let checked = Sandbox::new();
    checked.llm.push(answer("first"));
    checked.llm.push(answer("second"));
    let check = format!(
        "test -e sent || {{ touch sent; env -u NAGENT_PARENTS {MESSAGE} -c c 'too late?'; }}"
    );
    let document =
        checked.run(&["--json", "-c", "c", "--check", &check, "task"]).assert_exit(0).json();
    assert_eq!(
        (&document["notes"], &document["responses"]),
        (&json!(["first"]), &json!(["second"]))
    );
}

#[test]
fn a_message_to_nobody_waits_and_goes_before_the_next_prompt() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two")).reply(answer("three"));
    sandbox.run(&["-c", "c", "--max-turns", "1", "task"]).assert_exit(0);
    let sent = send(&sandbox, &["-c", "c", "by the way"]).assert_exit(0).no_stdout();
    assert!(
        sent.stderr.contains("no run is active on c; the message will precede"),
        "{}",
        sent.stderr
    );
    // A look changes nothing.
    let shown = sandbox.run(&["-c", "c", "--show-request", "prompt"]).assert_exit(0);
    assert!(shown.stdout.contains("by the way"));
    sandbox.run(&["-c", "c", "prompt"]).assert_exit(0);
    let prompts: Vec<_> = sandbox.blocks_of("user-prompt").into_iter().map(|it| it.body).collect();
    assert_eq!(prompts, ["task", "by the way", "prompt"]);
    // One that no limit leaves room for is left for the next prompt, and the run says so.
    let latch = Latch::default();
    sandbox.llm.forget();
    let limited = Sandbox::new();
    limited.llm.push(Answer::held(&latch, answer("one")));
    let running = limited.cmd(&["-c", "c", "--max-turns", "1", "task"]).spawn();
    limited.llm.wait_for_requests(1);
    send(&limited, &["-c", "c", "late"]).assert_exit(0);
    latch.release();
    running.wait().assert_exit(0).stderr_has(&["1 message arrived too late", "conversation c"]);
}

#[test]
fn a_message_to_a_run_that_is_killed_is_appended_once() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let turns = request.last().matches("ran").count();
        if turns < 1 { shell("echo ran").into() } else { answer("done").into() }
    });
    for round in 0..25_u64 {
        let text = format!("message {round};");
        let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
        let sent = sandbox.program(MESSAGE, &["-c", "c", &text]);
        wait_until("there is a run", || {
            beside(&sandbox, "c.run").exists() || beside(&sandbox, "c").exists()
        });
        sent.run().assert_exit(0);
        std::thread::sleep(Duration::from_millis(round % 9 * 4));
        running.signal(Signal::KILL);
        drop(running);
    }
    sandbox.run(&["-c", "c", "last"]).assert_exit(0);
    let blocks = sandbox.blocks();
    for round in 0..25 {
        let count = blocks.iter().filter(|it| it.body == format!("message {round};")).count();
        assert_eq!(count, 1, "message {round}");
    }
    // Killed between the append and the removal: also a text that begins again does not take it for new.
    let id = blocks.iter().rev().find(|it| !it.get("message").is_empty()).unwrap();
    let id = id.get("message").to_owned();
    for (verb, is_killed) in [("--clear", true), ("--json", true), ("--json", false)] {
        std::fs::write(beside(&sandbox, "c.messages").join(format!("{id}.txt")), "twice").unwrap();
        if is_killed {
            std::fs::write(beside(&sandbox, "c.run"), "{}").unwrap();
        }
        sandbox.run(&["-c", "c", verb, "again"]).assert_exit(0);
        assert!(!sandbox.conversation().contains("twice"), "{verb}");
        assert_eq!(std::fs::read_dir(beside(&sandbox, "c.messages")).unwrap().count(), 0);
        let block = format!(
            "\n<user-prompt at=\"2026-01-01T00:00:00Z\" message=\"{id}\">\nx\n</user-prompt>\n"
        );
        sandbox.edit_conversation(|text| text + &block);
    }
}

#[test]
fn a_message_reaches_a_child() {
    let sandbox = Sandbox::new();
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| match request.user() {
        user if user.contains("-result") => answer("all").into(),
        user if user.contains("for the child") => answer("heard").into(),
        user if user.contains("part") => Answer::held(&held, answer("part")),
        _ => "<nagent-conversation name=\"kid\">part</nagent-conversation>".into(),
    });
    let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
    sandbox.llm.wait_for_requests(2);
    let runs = active(&sandbox);
    assert_eq!(
        (&runs[0]["conversation"], &runs[1]["conversation"]),
        (&json!("c"), &json!("c.kid"))
    );
    assert_eq!(
        (&runs[1]["parent"], &runs[0]["action"]),
        (&json!("c"), &json!("nagent-conversation: kid"))
    );
    let text = status(&sandbox, &[]).assert_exit(0).stdout;
    assert!(text.contains("\nc.kid  of c  turn 1, "), "{text}");
    // The only run that a person has started is the parent.
    let to = send(&sandbox, &["--json", "for the parent"]).assert_exit(0).json();
    assert_eq!(to["conversation"], "c");
    send(&sandbox, &["-c", "c.k", "for the child"])
        .assert_exit(0)
        .stdout_is("c.kid reads it before its next request\n");
    latch.release();
    running.wait().assert_exit(0);
    let child = std::fs::read_to_string(beside(&sandbox, "c.kid")).unwrap();
    assert!(child.contains("\nfor the child\n") && child.contains("heard"), "{child}");
    let parent = std::fs::read_to_string(beside(&sandbox, "c")).unwrap();
    assert!(parent.contains("\nfor the parent\n"), "{parent}");
}

#[test]
fn a_child_that_ends_without_reading_a_message_is_told_of() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(move |request| match request.user() {
        user if user.contains("-result") => answer("all").into(),
        user if user.contains("part") => Answer::StallHead,
        _ => "<nagent-conversation name=\"kid\">part</nagent-conversation>".into(),
    });
    let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
    sandbox.llm.wait_for_requests(2);
    let pid = active(&sandbox)[1]["pid"].as_u64().unwrap();
    send(&sandbox, &["-c", "c.k", "for the child"]).assert_exit(0);
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    let run = running.wait().assert_exit(0);
    run.stderr_has(&["1 message arrived too late", "conversation c.kid"]);
}

#[test]
fn a_message_finds_its_run() {
    let sandbox = Sandbox::new();
    send(&sandbox, &["x"]).assert_exit(1).stderr_has(&["no run is active", "--conversation"]);
    send(&sandbox, &["-c", "nobody", "x"])
        .assert_exit(1)
        .stderr_has(&["no conversation begins with"]);
    sandbox.llm.choose(|_| Answer::StallHead);
    let runs: Vec<Running> =
        ["one", "two"].iter().map(|name| sandbox.cmd(&["-c", name, "task"]).spawn()).collect();
    sandbox.llm.wait_for_requests(2);
    send(&sandbox, &["x"]).assert_exit(2).stderr_has(&["2 runs are active", "one", "two"]);
    let own = sandbox.program(MESSAGE, &["x"]).env("NAGENT_CONVERSATION", "two").run();
    own.assert_exit(0).stdout_is("two reads it before its next request\n");
    let other = sandbox.program(MESSAGE, &["x"]).env("NAGENT_PARENTS", "one").run();
    other.assert_exit(2).stderr_has(&["count as the user's words"]);
    drop(runs);
}

#[test]
fn messages_that_cannot_be_left_or_read() {
    let sandbox = Sandbox::new().reply(answer("one"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    send(&sandbox, &["-c", "c", " "]).assert_exit(2).stderr_has(&["no message given"]);
    let large = sandbox.program(MESSAGE, &["-c", "c"]).stdin(vec![b'x'; 10 << 20]).run();
    large.assert_exit(1).stderr_has(&["10485760 bytes", "limit of 1048576"]);
    // What is not text is read as a prompt is.
    sandbox.program(MESSAGE, &["-c", "c"]).stdin(b"caf\xe9".to_vec()).run().assert_exit(0);
    sandbox.llm.push(answer("two"));
    sandbox.run(&["-c", "c", "go"]).assert_exit(0);
    let message = sandbox.blocks().into_iter().find(|it| !it.get("message").is_empty()).unwrap();
    assert_eq!((message.body.as_str(), message.get("utf8")), ("caf\u{fffd}", "false"));

    // On a full disk nothing is left of it.
    let line = format!("ulimit -f 1; {MESSAGE} -c c \"$(seq 2000)\"");
    let full = sandbox.program("bash", &["-c", &line]).run();
    full.assert_exit(1).no_stdout().stderr_has(&["c.messages"]);
    let folder = beside(&sandbox, "c.messages");
    std::fs::remove_dir(&folder).unwrap();
    std::fs::write(&folder, "a file").unwrap();
    send(&sandbox, &["-c", "c", "x"]).assert_exit(1).stderr_has(&["c.messages"]);
    sandbox.llm.push(shell("true"));
    sandbox.llm.push(answer("three"));
    let run = sandbox.run(&["-c", "c", "go"]).assert_exit(0);
    assert_eq!(run.stderr.matches("messages cannot be read").count(), 1, "{}", run.stderr);
    std::fs::remove_file(&folder).unwrap();

    // What somebody else has put there is no message of the user's, and neither is what is not named like one.
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("notes.txt"), "no message").unwrap();
    if rustix::process::geteuid().is_root() {
        std::fs::write(folder.join("1700000000000000-00000000.txt"), "theirs").unwrap();
        std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
        send(&sandbox, &["-c", "c", "x"])
            .assert_exit(1)
            .stderr_has(&["belongs to the user with id 12345"]);
        sandbox.llm.push(answer("four"));
        sandbox.run(&["-c", "c", "go"]).assert_exit(0).stderr_has(&["belongs to the user"]);
        std::os::unix::fs::chown(&folder, Some(0), None).unwrap();
    } else {
        std::fs::set_permissions(&folder, Permissions::from_mode(0o500)).unwrap();
        send(&sandbox, &["-c", "c", "x"]).assert_exit(1).stderr_has(&["c.messages"]);
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    }
    assert!(
        !sandbox.conversation().contains("theirs")
            && !sandbox.conversation().contains("no message")
    );
}

#[test]
fn status_tells_what_runs_do() {
    let sandbox = Sandbox::new()
        .config_also(json!({"prices": {"test-model": {"input": 1000, "output": 1000}}}));
    status(&sandbox, &[]).assert_exit(0).stdout_is("no run is active\n");
    let (running, latch) = waiting(&sandbox, &shell("echo one; echo last words"));
    let run = &active(&sandbox)[0];
    assert_eq!(
        (&run["turn"], &run["action"], &run["state"]),
        (&json!(1), &json!("model"), &json!("running"))
    );
    assert_eq!((&run["pid"], &run["tokens_out"]), (&json!(running.pid()), &json!(0)));
    let stop = sandbox.work().join("stop");
    sandbox.llm.push(shell("echo now; while ! test -e stop; do sleep 0.01; done"));
    latch.release();
    wait_until("the command runs", || {
        active(&sandbox)[0]["action"].as_str().unwrap().starts_with("nagent-shell: echo now")
            && active(&sandbox)[0]["last_line"] == "now"
    });
    let run = &active(&sandbox)[0];
    assert_eq!((&run["turn"], &run["last_line"]), (&json!(2), &json!("now")));
    assert!(run["tokens_in"].as_u64().unwrap() > 0 && run["cost"].as_f64().unwrap() > 0.0, "{run}");
    let text = status(&sandbox, &[]).assert_exit(0).stdout;
    assert!(text.contains("c  turn 2, ") && text.contains("  | now\n"), "{text}");
    // The clock is set back: nothing began in the future.
    let note = beside(&sandbox, "c.run");
    let told = std::fs::read_to_string(&note).unwrap();
    let started = run["started"].as_str().unwrap();
    std::fs::write(&note, told.replace(started, "2999-01-01T00:00:00Z")).unwrap();
    assert_eq!(active(&sandbox)[0]["seconds"], 0);
    // Its number now belongs to another process.
    let ticks = serde_json::from_str::<Value>(&told).unwrap()["ticks"].as_str().unwrap().to_owned();
    std::fs::write(&note, told.replace(&ticks, "17")).unwrap();
    assert_eq!(active(&sandbox)[0]["state"], "killed");
    std::fs::write(&note, told).unwrap();
    let waits = sandbox.program(STATUS, &["--wait", "c"]).spawn();
    sandbox.llm.push(answer("done"));
    std::fs::write(stop, "").unwrap();
    running.wait().assert_exit(0);
    waits.wait().assert_exit(0).no_stdout().no_stderr();
    status(&sandbox, &[]).assert_exit(0).stdout_is("no run is active\n");
}

#[test]
fn status_waits_and_ends_with_the_exit_code_of_the_run() {
    let sandbox = Sandbox::new();
    status(&sandbox, &["--wait", "c"]).assert_exit(1).stderr_has(&["no conversation begins with"]);
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, shell("true")));
    let running = sandbox.cmd(&["-c", "c", "--max-turns", "1", "task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let waits = sandbox.program(STATUS, &["--wait", "c", "--json"]).spawn();
    latch.release();
    running.wait().assert_exit(5);
    assert_eq!(waits.wait().assert_exit(5).json()["conversation"], "c");
    // Also after the end.
    status(&sandbox, &["--wait", "c"]).assert_exit(5).no_stderr();
    sandbox.llm.push(Answer::error(400, "invalid_request_error"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(3);
    status(&sandbox, &["--wait", "c"]).assert_exit(3);
    // After its last one.
    sandbox.llm.push(answer("x"));
    let run = sandbox.program("bash", &["-c", &format!("{NAGENT} -c c -o /dev/full task")]).run();
    assert_ne!(run.code, 0, "{}", run.stderr);
    status(&sandbox, &["--wait", "c"]).assert_exit(run.code);
    // Before its first request.
    sandbox.run(&["-c", "c", "-f", "no-such-file", "task"]).assert_exit(1);
    status(&sandbox, &["--wait", "c"]).assert_exit(1).no_stderr();
}

#[test]
fn status_stops_a_run_and_knows_a_killed_one() {
    let sandbox = Sandbox::new();
    let (running, _latch) = waiting(&sandbox, &answer("never"));
    assert_eq!(complete(&sandbox, STATUS, &["--stop", ""]), ["c"]);
    let stops = status(&sandbox, &["--stop", "c"]).assert_exit(0).within(3.0);
    assert_eq!(stops.stdout, "stopped c\n");
    running.wait().assert_exit(130);
    assert!(complete(&sandbox, STATUS, &["--stop", ""]).is_empty());
    status(&sandbox, &["--wait", "c"]).assert_exit(130);
    status(&sandbox, &["--stop", "c"]).assert_exit(0).stdout_is("no run of c is active\n");
    status(&sandbox, &["--stop", "nobody"]).assert_exit(1);

    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.cmd(&["-c", "c", "task"]).spawn();
    sandbox.llm.wait_for_requests(2);
    let waits = sandbox.program(STATUS, &["--wait", "c"]).spawn();
    running.signal(Signal::KILL);
    drop(running);
    waits.wait().assert_exit(1).stderr_has(&["was killed", "nagent -c c"]);
    let text = status(&sandbox, &[]).assert_exit(0).stdout;
    assert!(text.starts_with("c  was killed (process "), "{text}");
    // One on another host is waited for as long as its lock is held.
    let note = beside(&sandbox, "c.run");
    let told = std::fs::read_to_string(&note).unwrap();
    let host = serde_json::from_str::<Value>(&told).unwrap()["host"].as_str().unwrap().to_owned();
    std::fs::write(&note, told.replace(&format!("\"host\":\"{host}\""), "\"host\":\"other\""))
        .unwrap();
    assert_eq!(active(&sandbox)[0]["state"], "elsewhere");
    let sent = sandbox.program(MESSAGE, &["-c", "c", "hello"]).run().assert_exit(0);
    assert!(sent.stdout.contains("if its run is still active"), "{}", sent.stdout);
    std::fs::remove_dir_all(beside(&sandbox, "c.messages")).unwrap();
    status(&sandbox, &["--stop", "c"]).assert_exit(1).stderr_has(&["on other", "stop it there"]);
    // To ask whether it is held makes no lock.
    let lock = beside(&sandbox, ".locks/c");
    let ended = std::fs::read(&lock).unwrap();
    std::fs::remove_file(&lock).unwrap();
    status(&sandbox, &["--wait", "c"]).assert_exit(1).stderr_has(&["was killed"]);
    assert!(!lock.exists());
    std::fs::write(&lock, ended).unwrap();
    std::fs::write(&note, told).unwrap();
    sandbox.llm.push(answer("back"));
    sandbox.run(&["-c", "c", "go on"]).assert_exit(0);
    status(&sandbox, &[]).assert_exit(0).stdout_is("no run is active\n");
    status(&sandbox, &["--wait", "c"]).assert_exit(0);
}

#[test]
fn status_is_shown_again_until_a_signal() {
    let sandbox = Sandbox::new();
    let watching = sandbox.program(STATUS, &["--watch"]).spawn();
    wait_until("it shows something", || watching.stdout_so_far() == "no run is active\n");
    let screen = sandbox.program(STATUS, &["--watch"]).on_pty(60);
    screen.expect("no run is active");
    let (running, latch) = waiting(&sandbox, &answer("done"));
    wait_until("it shows the run", || watching.stdout_so_far().contains("c  turn 1"));
    wait_until("it shows the run alone", || {
        let shown = screen.screen();
        shown[0].starts_with("c  turn 1") && !shown.concat().contains("no run")
    });
    latch.release();
    running.wait().assert_exit(0);
    watching.signal(Signal::INT);
    watching.wait().assert_exit(130).no_stderr();
}
