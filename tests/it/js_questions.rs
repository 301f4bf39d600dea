//! What a script is asked about on a terminal: the lines that one types, what they store, what does not count as an answer.

use std::io::Write;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::Answer;
use crate::js::JS;
use crate::process_under_test::Running;
use crate::sandbox::{Sandbox, wait_until};
use crate::think::THINK;

const CHOICES: &str = "y once, a always, n never [n]: ";

/// Starts a script on a terminal, with its answers stored in `policy.json`.
fn start(sandbox: &Sandbox, code: &str) -> Running {
    sandbox.program(JS, &["--policy", "policy.json", "-e", code]).on_terminal(60).spawn()
}

fn wait_for_question(running: &Running, count: usize) {
    wait_until("the question", || running.stdout_so_far().matches(CHOICES).count() >= count);
}

fn policy(sandbox: &Sandbox) -> Value {
    let text = std::fs::read_to_string(sandbox.work().join("policy.json"));
    text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

/// What the script prints when these lines are typed, and the first entry of its policy.
fn answered(keys: &str) -> (String, Value) {
    let sandbox = Sandbox::new();
    let code = "let r = []; for (const i of [1, 2]) { try { r.push(env.get('HOME').length > 0) } catch (e) { r.push(e.message) } } r.join()";
    let mut running = start(&sandbox, code);
    let mut stdin = running.take_stdin();
    for (count, key) in keys.split_inclusive(['\n', '\u{3}', '\u{4}']).enumerate() {
        wait_for_question(&running, count + 1);
        stdin.write_all(key.as_bytes()).unwrap();
    }
    let run = running.wait();
    let last = run.stdout.lines().last().unwrap_or_default().trim_end_matches('\r').to_owned();
    let entry = policy(&sandbox)["env"]["entries"][0].clone();
    (format!("{}: {last}", run.code), entry)
}

#[test]
fn three_answers_and_what_they_store() {
    for keys in ["a\n", "Always\n", "x\na\n"] {
        let (got, entry) = answered(keys);
        assert_eq!(got, "0: true,true", "{keys:?}");
        assert_eq!(
            (&entry["name"], &entry["approval"], &entry["source"]),
            (&json!("HOME"), &json!("allow"), &json!("prompt"))
        );
        assert!(entry["created"].as_str().is_some_and(|time| time.ends_with('Z')), "{entry}");
    }
    for keys in ["n\n", "\n", "x\nNO\n"] {
        let (got, entry) = answered(keys);
        assert!(
            got.starts_with("0: env HOME is not allowed: the user said no,env HOME"),
            "{keys:?}: {got}"
        );
        assert_eq!(entry["approval"], "deny", "{keys:?}");
    }
    let (got, entry) = answered("y\n");
    assert_eq!((got.as_str(), entry), ("0: true,true", Value::Null));
    // A reason is about this time only: the second call is asked about again.
    let (got, entry) = answered("n use LANG\na better idea\n");
    assert!(got.contains("said no: use LANG,") && got.ends_with("said no: a better idea"), "{got}");
    assert_eq!(entry, Value::Null);
    for keys in ["\u{3}", "\u{4}"] {
        let (got, entry) = answered(keys);
        assert!(got.starts_with("130: "), "{keys:?}: {got}");
        assert_eq!(entry, Value::Null);
    }
}

#[test]
fn after_a_no_to_memory_no_model_is_asked() {
    let sandbox = crate::think::world();
    crate::think::remember(&sandbox, "env.get('LANG')");
    let answer = |keys: &[u8]| {
        let mut running = sandbox.program(THINK, &["hello.md"]).on_terminal(60).spawn();
        wait_for_question(&running, 1);
        running.take_stdin().write_all(keys).unwrap();
        running.wait()
    };
    sandbox.llm.push(crate::sandbox::answer("done"));
    // With a reason it is about this time, and the model may find another way.
    assert!(answer(b"n use HOME\n").assert_exit(0).stdout.contains("done"));
    assert_eq!(sandbox.requests().len(), 1);
    let run = answer(b"n\n").assert_exit(1);
    let what = "memory.js ended: env LANG is not allowed: the user said no; no model was asked";
    assert!(
        run.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(what),
        "{}",
        run.stdout
    );
    assert_eq!(sandbox.requests().len(), 1);
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let sandbox = Sandbox::new();
    let mut running = start(
        &sandbox,
        "process.stdout.write('go\\n'); process.sleep(700); fs.writeFile('a', '1'); 'written'",
    );
    wait_until("it runs", || running.stdout_so_far().contains("go"));
    let mut stdin = running.take_stdin();
    // It would be a no.
    stdin.write_all(b"n\nn\n").unwrap();
    wait_for_question(&running, 1);
    stdin.write_all(b"a\n").unwrap();
    let run = running.wait().assert_exit(0);
    assert!(
        run.stdout.contains("◆") && run.stdout.contains("WRITE") && run.stdout.contains("written"),
        "{}",
        run.stdout
    );
    let entry = &policy(&sandbox)["paths"]["entries"][0];
    let path = sandbox.work().canonicalize().unwrap().join("a");
    assert_eq!((&entry["path"], &entry["mode"]), (&json!(path), &json!("w")));
    assert_eq!(sandbox.read("a"), "1");
}

#[test]
fn who_is_typing_answers_nothing() {
    let sandbox = Sandbox::new();
    let mut running = start(&sandbox, "process.stdout.write('go'); env.get('HOME')");
    wait_until("it runs", || running.stdout_so_far().contains("go"));
    let mut stdin = running.take_stdin();
    // Keys that go on while the question appears: each would be a yes.
    let mut behind = 0;
    while behind < 10 {
        stdin.write_all(b"a\n").unwrap();
        behind += usize::from(running.stdout_so_far().contains("ENV"));
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    wait_for_question(&running, 1);
    stdin.write_all(b"n\n").unwrap();
    let shown = running.wait().assert_exit(1).stdout;
    assert!(shown.contains("the user said no"), "{shown}");
    let running = start(&sandbox, "env.get('LANG')");
    wait_until("its head is there", || running.stdout_so_far().contains("ENV"));
    let mut running = running;
    running.take_stdin().write_all(b"\x03").unwrap();
    running.wait().assert_exit(130);
}

#[test]
fn a_question_about_a_folder_says_that_it_is_about_all_in_it() {
    for (code, part) in [
        ("fs.readDir('/etc')", "READ  /etc and all in it"),
        ("fs.readFile('/etc/passwd')", "READ  /etc/passwd\r"),
    ] {
        let sandbox = Sandbox::new();
        let mut running = start(&sandbox, code);
        wait_for_question(&running, 1);
        running.take_stdin().write_all(b"n\n").unwrap();
        let shown = running.wait().assert_exit(1).stdout;
        assert!(shown.contains(part), "{code}: {shown}");
    }
}

#[test]
fn a_private_host_that_a_question_shows_is_reached() {
    let sandbox = Sandbox::new();
    sandbox.llm.beside(|_| Some(Answer::raw(200, "text/plain", "reached")));
    let code = format!("net.fetch('{}/').body", sandbox.llm.origin());
    for (key, entries) in [("y\n", 0), ("a\n", 1)] {
        let mut running = start(&sandbox, &code);
        wait_for_question(&running, 1);
        running.take_stdin().write_all(key.as_bytes()).unwrap();
        let shown = running.wait().assert_exit(0).stdout;
        assert!(shown.trim_end().ends_with("reached"), "{key}: {shown}");
        let stored = policy(&sandbox)["net"]["hosts"]["entries"].as_array().map_or(0, Vec::len);
        assert_eq!(stored, entries, "{key}");
    }
}

#[test]
fn questions_reach_the_terminal_behind_pipes() {
    let sandbox = Sandbox::new();
    let line = format!("echo piped | '{JS}' -e \"env.get('LANG').length\" 2>/dev/null | tr 0-9 n");
    let mut running = sandbox.program("sh", &["-c", &line]).on_terminal(60).spawn();
    wait_for_question(&running, 1);
    running.take_stdin().write_all(b"y\n").unwrap();
    let shown = running.wait().assert_exit(0).stdout;
    assert!(shown.ends_with('n'), "{shown}");
}

#[test]
fn what_no_answer_could_allow_is_not_asked() {
    let sandbox = Sandbox::new();
    for path in ["/proc/version", "/dev/null"] {
        let running = start(&sandbox, &format!("fs.readFile('{path}')"));
        let shown = running.wait().assert_exit(1).stdout;
        assert!(shown.contains("not files") && !shown.contains(CHOICES), "{path}: {shown}");
    }
}

#[test]
fn a_long_detail_is_shown_whole_and_nothing_in_it_steers_the_terminal() {
    let sandbox = Sandbox::new();
    let code = "env.get('\\u001b[2J\\n  y once' + 'A'.repeat(10240) + 'END')";
    let mut running = start(&sandbox, code);
    wait_for_question(&running, 1);
    running.take_stdin().write_all(b"n\n").unwrap();
    let run = running.wait().assert_exit(1);
    assert!(
        run.stdout.contains("\\u{1b}[2J\\n") && !run.stdout.contains("\u{1b}[2J"),
        "{}",
        run.stdout
    );
    let rows = run.stdout.matches('A').count();
    assert!(rows >= 10240 && run.stdout.contains("END"), "{}", run.stdout);
}

#[test]
fn a_signal_ends_a_question_and_the_time_limit_does_not() {
    let sandbox = Sandbox::new();
    let code = "fs.writeFile('a', '1')";
    let running = sandbox.program(JS, &["--timeout", "0.3", "-e", code]).on_terminal(60).spawn();
    wait_for_question(&running, 1);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(!running.stdout_so_far().contains("longer than"));
    // The terminal goes away.
    running.signal(Signal::TERM);
    running.wait();
    wait_until("all are gone", || sandbox.processes().is_empty());
}

#[test]
fn two_scripts_ask_one_after_the_other_and_leave_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let one = format!("'{JS}' -e \"env.get('HOME')\"");
    let both = format!("{one} & {one}; wait; stty -a < /dev/tty");
    let mut running = sandbox.program("sh", &["-c", &both]).on_terminal(160).spawn();
    wait_for_question(&running, 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(running.stdout_so_far().matches(CHOICES).count(), 1);
    let mut stdin = running.take_stdin();
    stdin.write_all(b"y\n").unwrap();
    wait_for_question(&running, 2);
    stdin.write_all(b"n\n").unwrap();
    let shown = running.wait().assert_exit(0).stdout;
    let modes: Vec<&str> = shown.split_whitespace().collect();
    for mode in ["icanon", "echo", "isig"] {
        assert!(modes.contains(&mode), "{mode}: {shown}");
    }
}
