//! Programs as models: the examples of docs/programs.md run, and a program that is kept running fails in every way.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer, shell};
use crate::wire::Reply;

/// The examples of the page, in order: text and lines in POSIX shell, the bridge in Python.
fn examples() -> Vec<String> {
    let page = include_str!("../../docs/programs.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks = blocks.map(|block| block.split_once('\n').unwrap().1.to_owned());
    blocks.filter(|block| block.starts_with("#!")).collect()
}

fn with_program(sandbox: Sandbox, api: &str, program: &PathBuf) -> Sandbox {
    sandbox.config(json!({"provider": "command", "api": api, "command": [program]}))
}

/// A sandbox with a kept program, a script of the shell.
fn kept(body: &str) -> Sandbox {
    let sandbox = Sandbox::new().file("q.txt", "What is 2+2?");
    let program = sandbox.script("model.sh", &format!("#!/bin/sh\n{body}"));
    with_program(sandbox, "lines", &program)
}

#[test]
fn the_examples_in_shell_run_the_loop() {
    for (api, example) in ["text", "lines"].iter().zip(examples()) {
        let sandbox = Sandbox::new().file("a.txt", "1\n2\n");
        let program = sandbox.script("bin/counter", &example);
        let sandbox = with_program(sandbox, api, &program);
        let run = sandbox.run(&["-n", "--json", "How many lines?"]).assert_exit(0);
        let document = run.json();
        assert_eq!(document["responses"], json!(["counted"]), "{api}");
        assert!(sandbox.block("nagent-shell-result").body.contains("a.txt"), "{api}");
        assert_eq!(document["estimated"], json!(*api == "text"), "{api}");
    }
}

#[test]
fn the_bridge_in_python_streams_counts_and_fails_like_a_server() {
    let sandbox = Sandbox::new();
    let program = sandbox.script("bridge.py", &examples()[2]);
    let base = sandbox.base_url();
    let sandbox = with_program(sandbox, "lines", &program).env("BRIDGE_URL", base);
    sandbox.llm.push(Reply::new(shell("echo grüße")).usage(100, 40, 7));
    sandbox.llm.push(Answer::busy(503));
    sandbox.llm.push(Reply::new(answer("done")).usage(200, 80, 5));
    let document = sandbox.run(&["-n", "-m", "some-model", "--json", "task"]).assert_exit(0).json();
    assert_eq!(document["responses"], json!(["done"]));
    for (key, count) in
        [("tokens_in", 300), ("recursive_cache_read_tokens", 120), ("tokens_out", 12)]
    {
        assert_eq!(document[key], count, "{key}: {document}");
    }
    let requests = sandbox.requests();
    assert_eq!(requests[0].json()["model"], "some-model");
    assert!(requests[0].system().contains("nagent-shell") && requests[2].last().contains("grüße"));
    let connections: Vec<usize> = requests.iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 0], "the program and its connection are kept");
    sandbox.llm.push(Answer::error(401, "invalid_api_key"));
    sandbox.run(&["-n", "task"]).assert_exit(3).stderr_has(&["invalid_api_key"]);
    assert_eq!(sandbox.processes(), [] as [String; 0]);
}

#[test]
fn a_kept_program_reads_lines_that_begin_alike_and_its_stdin_is_closed() {
    let body = "n=0\nwhile IFS= read -r line; do\n  n=$((n + 1)); printf '%s\\n' \"$line\" >> \"$HOME/seen\"\n\
        echo '{\"type\": \"thought\", \"text\": \"hm\"}'\n\
        if [ $n -lt 4 ]; then echo '{\"type\": \"text\", \"text\": \"<nagent-shell>true\"}'; echo '{\"type\": \"text\", \"text\": \"</nagent-shell>\"}'\n\
        else echo '{\"type\": \"text\", \"text\": \"<nagent-response>four</nagent-response>\"}'; fi\n\
        echo '{\"type\": \"result\", \"usage\": {\"input_tokens\": 2, \"cache_read_input_tokens\": 8, \"output_tokens\": 1}, \"model\": \"mine\"}'\n\
        done\necho ended >> \"$HOME/ended\"\n";
    let sandbox = kept(body);
    let args = ["--conversation", "c", "-m", "m", "--reasoning", "low", "-v", "--progress", "task"];
    let run = sandbox.run(&args).assert_exit(0).stdout_is("four\n");
    run.stderr_has(&["· hm", "(80 % cached)"]);
    assert_eq!(sandbox.read("../home/ended").trim(), "ended", "once, by itself");
    let seen = std::fs::read_to_string(sandbox.home().join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 4);
    for pair in lines.windows(2) {
        let before = pair[0].strip_suffix("\"}]}").unwrap();
        assert!(pair[1].starts_with(before), "{}\n{}", pair[0], pair[1]);
    }
    let first: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&first["conversation"], &first["model"]), (&json!("c"), &json!("m")));
    assert_eq!(first["reasoning"], "low");
    assert!(first.get("temperature").is_none() && first["system"].as_str().unwrap().len() > 100);
    // The text protocol has the same property, and nothing of this one.
    let shown = sandbox.run(&["-n", "--show-request", "task"]).assert_exit(0).stdout;
    assert!(shown.starts_with("{\"conversation\":"), "{shown}");
}

#[test]
fn a_kept_program_that_fails_is_exit_3_and_started_again() {
    let check = |body: &str, words: &[&str]| {
        let args = ["q.txt", "--patience", "0.1"];
        let run = kept(body).llm_text(&args).run().assert_exit(3).no_stdout();
        run.stderr_has(words);
    };
    let read = "IFS= read -r line\n";
    check(&format!("{read}echo hello; sleep 60"), &["not one of its JSON lines: hello"]);
    check(&format!("{read}echo '{{\"hello\": 1}}'; sleep 60"), &["not one of its JSON lines"]);
    check(&format!("{read}echo '[]'; sleep 60"), &["not one of its JSON lines"]);
    check(
        &format!("{read}echo '{{\"type\": \"text\", \"text\": \"4\"}}'"),
        &["ended before the last line"],
    );
    check(&format!("{read}echo 'no licence' >&2; exit 9"), &["exit code 9: no licence"]);
    // What counts of a long stderr is its end.
    let noise = "head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo >&2";
    check(&format!("{read}{noise}; echo 'no memory' >&2; exit 8"), &["exit code 8: no memory"]);
    check("exec sleep 0\n", &["ended before the last line"]);
    check(
        &format!(
            "{read}echo '{{\"type\": \"error\", \"error\": {{\"message\": \"too dear\", \"code\": 402}}}}'; sleep 60"
        ),
        &["too dear"],
    );
    // What nagent does not know is not for it.
    let more = "echo '{\"type\": \"metrics\", \"load\": 2}'; echo '{\"type\": \"result\", \"result\": \"4\"}'";
    kept(&format!("{read}{more}")).llm_text(&["q.txt"]).run().assert_exit(0).stdout_is("4\n");
    let slow = kept("sleep 60");
    let program = slow.work().join("model.sh");
    let config =
        json!({"provider": "command", "api": "lines", "command": [program], "read_timeout": 0.2});
    slow.config(config).llm_text(&["q.txt"]).run().assert_exit(3).stderr_has(&["read_timeout"]);
    // One that ends after each reply is started again.
    let once = kept(
        "IFS= read -r line\necho x >> \"$HOME/starts\"\n\
        if [ \"$(wc -l < \"$HOME/starts\")\" -gt 1 ]; then echo '{\"type\": \"result\", \"result\": \"4\"}'; exit; fi\n\
        echo '{\"type\": \"error\", \"error\": {\"message\": \"busy\", \"code\": 429, \"retry_after\": 0.01}}'",
    );
    let run = once.llm_text(&["q.txt", "--patience", "5"]).run().assert_exit(0).stdout_is("4\n");
    run.stderr_has(&["busy (HTTP 429); trying again"]);
    let wrong =
        Sandbox::new().config(json!({"provider": "command", "api": "chat", "command": ["x"]}));
    wrong.run(&["task"]).assert_exit(2).stderr_has(&["\"text\" or \"lines\""]);
}

#[test]
fn a_signal_ends_a_kept_program() {
    let sandbox = kept("IFS= read -r line\necho > \"$HOME/asked\"\nsleep 60");
    let run = sandbox.cmd(&["task"]).spawn();
    crate::sandbox::wait_until("the program was asked", || sandbox.home().join("asked").exists());
    run.signal(rustix::process::Signal::INT);
    run.wait().assert_exit(130);
    assert_eq!(sandbox.processes(), [] as [String; 0]);
}
