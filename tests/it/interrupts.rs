//! A signal at each stage of a run: it ends within a second, says so, and leaves nothing running.

use std::time::Duration;

use rustix::process::Signal;

use crate::answers::Answer;
use crate::process_under_test::Running;
use crate::sandbox::{Sandbox, answer, shell, wait_until};

const SECOND: f64 = 1.0;

/// Signals a run once `ready`, and looks at how it ends.
fn check(sandbox: &Sandbox, running: Running, what: &str, ready: impl Fn(&Running) -> bool) {
    wait_until(what, || ready(&running));
    running.signal(Signal::TERM);
    let run = running.wait().within(SECOND).assert_exit(143);
    let document = run.json();
    assert_eq!(document["exit_code"], 143, "{what}");
    assert!(document["error"].as_str().unwrap().contains("SIGTERM"), "{what}: {document}");
    wait_until("no process is left", || sandbox.processes().is_empty());
    let entries = std::fs::read_dir(sandbox.root().join("conversations"));
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    assert_eq!(
        paths.filter(|path| path.extension().is_some_and(|e| e == "run")).count(),
        0,
        "{what}"
    );
}

fn is_said(sandbox: &Sandbox) {
    let last = sandbox.blocks().pop().unwrap();
    assert_eq!(last.name, "system");
    assert!(last.body.contains("interrupted by SIGTERM"), "{last:?}");
}

#[test]
fn while_stdin_is_read() {
    let sandbox = Sandbox::new();
    let running = sandbox.cmd(&["--json", "task", "-"]).silent_stdin().spawn();
    std::thread::sleep(Duration::from_millis(150));
    check(&sandbox, running, "stdin", |_| true);
    assert_eq!(sandbox.conversation_paths().len(), 0);
}

#[test]
fn while_it_waits_for_the_lock() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let first = sandbox.cmd(&["--conversation", "c", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let second = sandbox.cmd(&["--json", "--conversation", "c", "two"]).spawn();
    wait_until("it waits", || second.stderr_so_far().contains("waiting"));
    second.signal(Signal::TERM);
    let run = second.wait().within(SECOND).assert_exit(143);
    assert_eq!(run.json()["exit_code"], 143);
    assert!(sandbox.root().join("conversations/c.run").exists(), "the first one's note stays");
    first.signal(Signal::TERM);
    first.wait().assert_exit(143);
    assert_eq!(sandbox.blocks_of("user-prompt").len(), 1);
}

#[test]
fn while_tools_are_asked_what_they_are() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.root().join("bin")).unwrap();
    let tool =
        sandbox.script("tool", "#!/bin/sh\ntouch ~/asked; trap '' TERM; sleep 60; sleep 60\n");
    std::fs::rename(tool, sandbox.root().join("bin/tool")).unwrap();
    let running = sandbox.cmd(&["--json", "task"]).spawn();
    check(&sandbox, running, "discovery", |_| sandbox.home().join("asked").exists());
    is_said(&sandbox);
    assert_eq!(sandbox.block("user-prompt").body, "task", "the prompt is not lost");
}

#[test]
fn while_it_connects() {
    // Its queue is full: nobody accepts, and a connection more is not answered.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&port, Duration::from_millis(200)) {
        held.push(stream);
        assert!(held.len() < 10_000);
    }
    let sandbox = Sandbox::new();
    let address = format!("http://{port}/v1");
    let running =
        sandbox.cmd(&["--json", "--base-url", &address, "--conversation", "c", "task"]).spawn();
    let path = sandbox.root().join("conversations/c");
    check(&sandbox, running, "connect", |_| path.exists());
    is_said(&sandbox);
}

#[test]
fn while_it_streams() {
    let sandbox = Sandbox::new().answer(Answer::StallBody(answer("never").as_str().into()));
    let running = sandbox.cmd(&["--json", "task"]).spawn();
    check(&sandbox, running, "a stream", |_| sandbox.requests().len() == 1);
    is_said(&sandbox);
}

#[test]
fn while_it_waits_to_try_again() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| Answer::error(503, "overloaded"));
    let running = sandbox.cmd(&["--json", "--patience", "60", "task"]).spawn();
    check(&sandbox, running, "a wait", |running| running.stderr_so_far().contains("503"));
    is_said(&sandbox);
}

#[test]
fn while_a_command_runs_that_heeds_no_signal() {
    let reply = format!(
        "{}{}",
        shell("trap '' TERM INT HUP; touch started; while :; do sleep 1; done"),
        shell("touch second")
    );
    let sandbox = Sandbox::new().reply(reply);
    let running = sandbox.cmd(&["--json", "task"]).spawn();
    check(&sandbox, running, "a command", |_| sandbox.work().join("started").exists());
    is_said(&sandbox);
    let states: Vec<_> = sandbox
        .blocks_of("nagent-shell-result")
        .iter()
        .map(|b| b.get("status").to_owned())
        .collect();
    assert_eq!(states, ["error", "not-run"]);
    assert!(!sandbox.work().join("second").exists());
}

#[test]
fn while_the_check_runs() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let running = sandbox
        .cmd(&[
            "--json",
            "--check",
            "trap '' TERM; touch started; sleep 60 & wait; sleep 60",
            "task",
        ])
        .spawn();
    check(&sandbox, running, "a check", |_| sandbox.work().join("started").exists());
    is_said(&sandbox);
}

#[test]
fn while_children_run_side_by_side() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        let user = request.user();
        match (1..=6).find(|n| user.contains(&format!("part {n}"))) {
            Some(n) => shell(&format!("trap '' TERM; touch started{n}; sleep 60; sleep 60")).into(),
            None => (1..=6)
                .map(|n| {
                    format!("<nagent-conversation name=\"child{n}\">part {n}</nagent-conversation>")
                })
                .collect::<String>()
                .into(),
        }
    });
    let running = sandbox.cmd(&["--json", "--conversation", "c", "--jobs", "3", "task"]).spawn();
    check(&sandbox, running, "children", |_| {
        (1..=3).all(|n| sandbox.work().join(format!("started{n}")).exists())
    });
    let read = |name: &str| {
        crate::blocks::blocks(
            &std::fs::read_to_string(sandbox.root().join("conversations").join(name)).unwrap(),
        )
    };
    let all = read("c");
    assert!(all.last().unwrap().body.contains("interrupted by SIGTERM"));
    let states: Vec<_> = all
        .iter()
        .filter(|b| b.name == "nagent-conversation-result")
        .map(|b| (b.get("conversation").to_owned(), b.get("status").to_owned()))
        .collect();
    let expect: Vec<_> = (1..=6)
        .map(|n| (format!("c.child{n}"), if n <= 3 { "error" } else { "not-run" }.to_owned()))
        .collect();
    assert_eq!(states, expect);
    for n in 1..=3 {
        assert!(
            read(&format!("c.child{n}")).last().unwrap().body.contains("interrupted by SIGTERM")
        );
    }
}

#[test]
fn at_any_instant_of_a_busy_run() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| format!("{}{}", shell("echo a"), shell("echo b")).into());
    for n in 0..25_u64 {
        let running = sandbox.cmd(&["--json", "--conversation", "c", "task"]).spawn();
        let path = sandbox.root().join("conversations/c");
        wait_until("it has begun", || {
            std::fs::read_to_string(&path)
                .is_ok_and(|text| text.matches("<user-prompt").count() as u64 == n + 1)
        });
        std::thread::sleep(Duration::from_millis(n * 3 % 40));
        let json = {
            running.signal(Signal::INT);
            running.wait().within(SECOND).assert_exit(130).json()
        };
        assert_eq!(json["exit_code"], 130);
        let all = sandbox.blocks();
        assert!(all.last().unwrap().body.contains("interrupted by SIGINT"));
        let actions: usize = all
            .iter()
            .filter(|b| b.name == "agent-response")
            .map(|b| b.body.matches("<nagent-shell>").count())
            .sum();
        assert_eq!(all.iter().filter(|b| b.name == "nagent-shell-result").count(), actions);
    }
}

#[test]
fn a_second_sigint_leaves_at_once() {
    let sandbox = Sandbox::new().reply(shell("trap '' TERM; touch started; sleep 60; sleep 60"));
    let running = sandbox.cmd(&["task"]).spawn();
    wait_until("it runs", || sandbox.work().join("started").exists());
    running.signal(Signal::INT);
    // Two at the same instant are one to the kernel; the first alone takes 0.2 s, until the trap is overrun.
    std::thread::sleep(Duration::from_millis(40));
    running.signal(Signal::INT);
    running.wait().within(0.05).assert_exit(130);
}
