//! The process contract: what a script may rely on, whatever the model and the network do.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;

use crate::answers::{Answer, Latch};
use crate::sandbox::{CANARY, Sandbox, answer, shell, wait_until};

/// "Within a second."
const SECOND: f64 = 1.0;

const SIGNALS: [(Signal, i32, &str); 3] =
    [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")];

// Stdin.

#[test]
fn with_a_prompt_a_silent_stdin_is_not_waited_for() {
    let sandbox = Sandbox::new().reply(answer("done"));
    sandbox.cmd(&["task"]).silent_stdin().run().assert_exit(0).stdout_is("done\n").within(5.0);
}

#[test]
fn with_a_command_flag_a_silent_stdin_is_not_waited_for() {
    let sandbox = Sandbox::new();
    for flag in [
        "--status",
        "--list-file-edits",
        "--list-providers",
        "--print-protocol",
        "--description",
        "--clear",
    ] {
        assert!(
            !sandbox.cmd(&[flag]).silent_stdin().run().assert_exit(0).within(5.0).stdout.is_empty(),
            "{flag}"
        );
    }
}

#[test]
fn with_read_a_silent_stdin_is_not_waited_for() {
    let sandbox = Sandbox::new().file("a.txt", "alpha").reply(answer("done"));
    sandbox
        .cmd(&["--read", "a.txt"])
        .silent_stdin()
        .run()
        .assert_exit(0)
        .stdout_is("done\n")
        .within(5.0);
}

#[test]
fn a_silent_stdin_does_not_reach_the_shell_either() {
    let sandbox = Sandbox::new().reply(shell("cat; echo read")).reply(answer("done"));
    sandbox.cmd(&["task"]).silent_stdin().run().assert_exit(0).within(5.0);
    assert!(sandbox.block("nagent-shell-result").body.contains("read"));
}

// Refusals.

fn refused_at_once(answer: Answer, words: &[&str]) {
    for json in [false, true] {
        let sandbox = Sandbox::new().answer(answer.clone());
        let args: &[&str] = if json { &["--json", "task"] } else { &["task"] };
        let run = sandbox.run(args).assert_exit(3).within(5.0);
        assert_eq!(sandbox.requests().len(), 1, "one request");
        if json {
            let document = run.json();
            assert_eq!(document["exit_code"], 3);
            let error = document["error"].as_str().unwrap().to_lowercase();
            for word in words {
                assert!(error.contains(&word.to_lowercase()), "{word} in {error}");
            }
        } else {
            run.no_stdout().stderr_has(words);
        }
    }
}

#[test]
fn status_401_is_one_request_exit_3_and_names_the_variable() {
    refused_at_once(Answer::error(401, "invalid_api_key"), &["OPENAI_API_KEY"]);
}

#[test]
fn status_403_is_one_request_exit_3_and_names_the_variable() {
    refused_at_once(Answer::error(403, "permission_denied"), &["OPENAI_API_KEY"]);
}

#[test]
fn status_400_is_one_request_exit_3() {
    refused_at_once(Answer::error(400, "invalid_request_error"), &["the test server says no"]);
}

#[test]
fn status_429_without_credit_is_one_request_exit_3() {
    refused_at_once(Answer::error(429, "insufficient_quota"), &["the test server says no"]);
}

#[test]
fn a_refusal_stands_in_the_conversation() {
    let sandbox = Sandbox::new().answer(Answer::error(401, "invalid_api_key"));
    sandbox.run(&["task"]).assert_exit(3);
    let system = sandbox.blocks_of("system");
    assert!(
        system.iter().any(|block| block.body.contains("401") || block.body.contains("refused")),
        "{system:?}"
    );
}

#[test]
fn status_429_for_ever_is_bounded_and_each_wait_is_said() {
    for json in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.llm.choose(|_| Answer::error(429, "rate_limit_exceeded"));
        let mut args = vec!["--patience", "2", "task"];
        if json {
            args.insert(0, "--json");
        }
        let run = sandbox.run(&args).assert_exit(3).within(10.0);
        let requests = sandbox.requests().len();
        assert!(requests > 1, "it is tried again");
        let said = run.stderr.lines().filter(|line| line.contains("429")).count();
        assert!(said >= requests - 1, "{} waits, said on stderr:\n{}", requests - 1, run.stderr);
        if json {
            assert_eq!(run.json()["exit_code"], 3);
        } else {
            run.no_stdout();
        }
    }
}

#[test]
fn a_wait_that_the_server_asks_for_is_kept_and_then_it_goes_on() {
    let headers = vec![("retry-after".to_owned(), "1".to_owned())];
    let limited = Answer::Error { status: 429, kind: "rate_limit_exceeded", headers };
    let sandbox = Sandbox::new().answer(limited).answer(Answer::busy(503)).reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    let requests = sandbox.requests();
    assert_eq!(requests.len(), 3);
    assert!((requests[1].at - requests[0].at).as_secs_f64() >= 1.0, "not before the server said");
    let status = sandbox.block("nagent-turn-status");
    assert_eq!(status.get("retries"), "2", "what a retry overcame is in the file");
    assert!(status.get("last_error").contains("503"), "{status:?}");
}

#[test]
fn a_server_that_asks_for_more_than_the_patience_is_not_waited_for() {
    let headers = vec![("retry-after".to_owned(), "3600".to_owned())];
    let sandbox =
        Sandbox::new().answer(Answer::Error { status: 429, kind: "rate_limit_exceeded", headers });
    sandbox.run(&["--patience", "2", "task"]).assert_exit(3).within(6.0).stderr_has(&["429"]);
}

// Signals.

#[test]
fn a_signal_during_a_model_call_ends_it_within_a_second_and_the_conversation_says_so() {
    for (signal, code, name) in SIGNALS {
        for json in [false, true] {
            let sandbox =
                Sandbox::new().answer(Answer::StallBody(answer("never seen").as_str().into()));
            let args: &[&str] = if json { &["--json", "task"] } else { &["task"] };
            let running = sandbox.cmd(args).spawn();
            sandbox.llm.wait_for_requests(1);
            running.signal(signal);
            let run = running.wait().within(SECOND).assert_exit(code);
            if json {
                assert_eq!(run.json()["exit_code"], code);
            } else {
                run.no_stdout();
            }
            let system = sandbox.blocks_of("system");
            let told = system
                .iter()
                .any(|block| block.body.contains(name) || block.body.contains("interrupted"));
            assert!(told, "{name} in {}", sandbox.conversation());
            assert!(!sandbox.conversation().contains("never seen"));
            assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_signal_before_the_answers_head_ends_it_within_a_second() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let running = sandbox.cmd(&["task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    running.signal(Signal::TERM);
    running.wait().within(SECOND).assert_exit(143);
}

#[test]
fn a_signal_during_a_shell_action_ends_all_descendants_and_the_conversation_says_so() {
    for (signal, code, name) in SIGNALS {
        // One that ignores signals, one in a session of its own, one that has lost its parent.
        let commands =
            "trap '' INT TERM HUP; setsid sleep 300 & (sleep 301 &) ; touch started; sleep 302";
        let sandbox = Sandbox::new().reply(shell(commands));
        let running = sandbox.cmd(&["task"]).spawn();
        wait_until("the shell has started", || sandbox.work().join("started").exists());
        running.signal(signal);
        running.wait().within(SECOND).assert_exit(code);
        assert_eq!(sandbox.lasting_processes(), Vec::<String>::new(), "after {name}");
        let conversation = sandbox.conversation();
        assert!(
            conversation.contains(name) || conversation.contains("interrupted"),
            "{name} in {conversation}"
        );
        // What ran has a result, one way or the other: nothing is open when the next run starts.
        assert_eq!(sandbox.blocks_of("nagent-shell-result").len(), 1, "{conversation}");
    }
}

#[test]
fn a_signal_during_backoff_ends_it_within_a_second() {
    for (signal, code, _) in SIGNALS {
        let sandbox = Sandbox::new();
        let headers = vec![("retry-after".to_owned(), "20".to_owned())];
        sandbox.llm.choose(move |_| Answer::Error {
            status: 503,
            kind: "overloaded",
            headers: headers.clone(),
        });
        let running = sandbox.cmd(&["task"]).spawn();
        sandbox.llm.wait_for_requests(1);
        wait_until("the wait is said", || running.stderr_so_far().contains("503"));
        running.signal(signal);
        running.wait().within(SECOND).assert_exit(code);
    }
}

#[test]
fn a_signal_ends_the_children_of_the_conversation_too() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        if request.user().contains("child work") {
            Answer::StallHead
        } else {
            "<nagent-conversation>child work</nagent-conversation>".into()
        }
    });
    let running = sandbox.cmd(&["task"]).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::TERM);
    running.wait().within(SECOND).assert_exit(143);
    wait_until("no child is left", || sandbox.processes().is_empty());
}

#[test]
fn a_run_goes_on_after_an_interrupted_one() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let running = sandbox.cmd(&["task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    running.signal(Signal::INT);
    running.wait().assert_exit(130);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["again"]).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.blocks_of("user-prompt").len(), 2);
}

#[test]
fn a_closed_stdout_ends_quietly() {
    let sandbox = Sandbox::new().reply(answer(&"words ".repeat(100_000)));
    let mut command = std::process::Command::new("sh");
    let line = format!("'{}' task | head -c 1 >/dev/null", crate::sandbox::NAGENT);
    command.args(["-c", &line]).current_dir(sandbox.work());
    command.env("HOME", sandbox.home()).env("OPENAI_API_KEY", CANARY).env("TMPDIR", sandbox.tmp());
    let run = crate::process_under_test::Running::start(command, "a pipe".into()).wait();
    run.assert_exit(0).no_stderr();
}

// Results and failures.

#[test]
fn stdout_holds_the_answer_and_nothing_else() {
    let reply =
        format!("<nagent-response>on my way</nagent-response>{}", shell("echo out; echo err >&2"));
    let sandbox = Sandbox::new().reply(reply).reply(answer("the answer"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("the answer\n");
}

#[test]
fn json_is_one_document_on_success() {
    let sandbox = Sandbox::new().reply(shell("true")).reply(answer("the answer"));
    let run = sandbox.run(&["--json", "task"]).assert_exit(0);
    let document = run.json();
    assert_eq!(document["exit_code"], 0);
    assert_eq!(document["responses"], serde_json::json!(["the answer"]));
    assert_eq!(document["turn_count"], 2);
    assert_eq!(document["conversation_path"], sandbox.conversation_path().to_str().unwrap());
    for key in [
        "conversation_input_tokens",
        "recursive_input_tokens",
        "recursive_output_tokens",
        "tokens_in",
        "tokens_out",
    ] {
        assert!(document[key].is_u64(), "{key} in {document}");
    }
    assert_eq!((&document["tokens_in"], &document["tokens_out"]), (&2000.into(), &20.into()));
}

#[test]
fn json_is_one_document_on_each_kind_of_failure() {
    let failures: [(&str, &[&str], i32, Answer); 8] = [
        ("unknown flag", &["--no-such-flag", "task"], 2, answer("x").into()),
        ("no prompt", &[], 2, answer("x").into()),
        ("a value that is none", &["--max-turns", "many", "task"], 2, answer("x").into()),
        ("missing file", &["--load-conversation", "nowhere"], 1, answer("x").into()),
        ("refused", &["task"], 3, Answer::error(401, "invalid_api_key")),
        ("limit", &["--max-turns", "1", "task"], 5, shell("true").into()),
        ("check", &["--check", "false", "--max-turns", "9", "task"], 6, answer("x").into()),
        ("unknown provider", &["--provider", "nobody", "task"], 2, answer("x").into()),
    ];
    for (what, args, code, reply) in failures {
        let sandbox = Sandbox::new();
        sandbox.llm.choose(move |_| reply.clone());
        let args: Vec<_> = std::iter::once("--json").chain(args.iter().copied()).collect();
        let run = sandbox.run(&args).assert_exit(code);
        let document = run.json();
        assert_eq!(document["exit_code"], code, "{what}");
        assert!(
            document["error"].as_str().is_some_and(|error| !error.is_empty()),
            "{what}: {document}"
        );
    }
}

#[test]
fn json_is_one_document_for_several_commands_in_one_call() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    sandbox.run(&["task"]).assert_exit(0);
    let run =
        sandbox.run(&["--json", "--save-conversation", "kept", "--clear", "go"]).assert_exit(0);
    let document = run.json();
    for key in ["saved_path", "archived_path", "conversation_path", "responses", "exit_code"] {
        assert!(!document[key].is_null(), "{key} in {document}");
    }
}

#[test]
fn a_failure_is_said_on_stderr_and_stdout_stays_empty() {
    let sandbox = Sandbox::new();
    for args in [
        &["--no-such-flag"][..],
        &[],
        &["--load-conversation", "nowhere"],
        &["--provider", "nobody", "x"],
    ] {
        let run = sandbox.run(args).no_stdout();
        assert_ne!(run.code, 0, "{args:?}");
        assert!(!run.stderr.trim().is_empty(), "{args:?} says why");
    }
}

// What is left behind.

fn snapshot(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    entries.map(|path| (name(&path), std::fs::read(&path).unwrap_or_default())).collect()
}

#[test]
fn the_folder_it_runs_in_is_untouched() {
    let sandbox = Sandbox::new().git().file("a.txt", "alpha").file("context.md", "not mine");
    let before = snapshot(&sandbox.work());
    sandbox.llm.push(shell("cat a.txt"));
    sandbox.llm.push(
        "<nagent-read path=\"a.txt\"/><nagent-list path=\".\"/><nagent-grep pattern=\"alpha\"/>",
    );
    sandbox.llm.push("not a tag");
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    assert_eq!(sandbox.requests().len(), 4);
    assert_eq!(snapshot(&sandbox.work()), before);
    assert_eq!(snapshot(&sandbox.tmp()), BTreeMap::new(), "temp files that stay");
}

#[test]
fn the_root_is_for_its_owner_alone() {
    let sandbox = Sandbox::new().no_config().reply(answer("done"));
    std::fs::remove_dir_all(sandbox.root()).unwrap();
    let run =
        sandbox.cmd(&["task"]).env("OPENAI_BASE_URL", sandbox.base_url()).env("NAGENT_CONFIG", "");
    run.run().assert_exit(0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sandbox.root()), 0o700);
    assert_eq!(mode(&sandbox.root().join("conversations")), 0o700);
    assert_eq!(mode(&sandbox.conversation_path()), 0o600);
}

#[test]
fn the_credential_is_written_nowhere_and_not_handed_to_commands() {
    let sandbox = Sandbox::new().reply(shell("env")).reply(answer("done"));
    let run = sandbox.run(&["--json", "task"]).assert_exit(0);
    assert!(!run.stdout.contains(CANARY) && !run.stderr.contains(CANARY));
    assert!(!sandbox.everything_at_home().contains(CANARY));
    let requests = sandbox.requests();
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    assert!(requests.iter().all(|request| !request.text().contains(CANARY)));
}

#[test]
fn a_credential_that_the_server_echoes_is_masked() {
    let body = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {CANARY}","code":"invalid_api_key"}}}}"#
    );
    let sandbox = Sandbox::new().answer(Answer::raw(401, "application/json", body));
    let run = sandbox.run(&["task"]).assert_exit(3);
    assert!(!run.stderr.contains(CANARY), "{}", run.stderr);
    assert!(!sandbox.everything_at_home().contains(CANARY));
}

#[test]
fn no_run_file_stays_after_a_run_and_one_is_there_during_it() {
    let sandbox = Sandbox::new();
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, answer("done")));
    let running = sandbox.cmd(&["task"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let run_file = {
        let mut path = sandbox.conversation_path().into_os_string();
        path.push(".run");
        std::path::PathBuf::from(path)
    };
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&run_file).unwrap()).unwrap();
    assert_eq!(document["pid"], running.pid());
    latch.release();
    running.wait().assert_exit(0);
    assert!(!run_file.exists());
}

// Sizes.

#[test]
fn a_first_request_is_under_5000_bytes() {
    let sandbox = Sandbox::new().reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    let size = sandbox.requests()[0].body.len();
    assert!(size < 5000, "{size} bytes");
}

#[test]
fn llm_text_adds_under_150_bytes_to_its_file() {
    let text = "What is 2+2? ".repeat(100);
    let sandbox = Sandbox::new().file("q.txt", &text).reply("4");
    sandbox.llm_text(&["--file", "q.txt"]).run().assert_exit(0).stdout_is("4\n");
    let size = sandbox.requests()[0].body.len() - text.len();
    assert!(size < 150, "{size} bytes more than the file");
}

#[test]
fn a_trivial_exchange_keeps_under_8_kb_on_disk() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let before = sandbox.everything_at_home().len();
    sandbox.run(&["task"]).assert_exit(0);
    let size = sandbox.everything_at_home().len() - before;
    assert!(size < 8192, "{size} bytes");
    assert!(sandbox.conversation().contains("done"));
}

#[test]
fn a_recording_goes_to_a_regular_file_alone() {
    let sandbox = Sandbox::new().reply(answer("one"));
    let fifo = sandbox.work().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in ["fifo", "/dev/null"] {
        let run = sandbox.cmd(&["--record", path, "task"]).spawn();
        run.wait_up_to(std::time::Duration::from_secs(5))
            .assert_exit(1)
            .stderr_has(&[path, "not a regular file"]);
    }
    assert!(sandbox.requests().is_empty());
}
