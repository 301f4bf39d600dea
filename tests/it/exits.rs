//! Every row of the exit table, as a script sees it.

use rustix::process::Signal;

use crate::answers::Answer;
use crate::conversations::CONVERSATIONS;
use crate::sandbox::{NAGENT, Sandbox, answer, shell};
use crate::steering::{MESSAGE, STATUS};

#[test]
fn exit_0_done() {
    Sandbox::new().reply(answer("done")).run(&["task"]).answers("done");
}

#[test]
fn exit_1_the_tool_could_not_do_it() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--load-conversation", "nowhere"]).assert_exit(1).stderr_has(&["nowhere"]);
    sandbox.llm_text(&["--file", "missing.txt"]).run().assert_exit(1).stderr_has(&["missing.txt"]);
}

#[test]
fn exit_1_a_conversation_that_is_not_there() {
    let sandbox = Sandbox::new();
    let check = |words: &[&str], name: &str| {
        let run = sandbox.program(words[0], &words[1..]).run();
        assert_eq!(run.code, 1, "{words:?}: {}", run.stderr);
        run.no_stdout().stderr_has(&[name]);
    };
    for words in [
        [NAGENT, "--load-conversation", "nowhere"].as_slice(),
        &[NAGENT, "--branch-conversation", "nowhere"],
        &[NAGENT, "--continue", "nowhere", "x"],
        &[NAGENT, "--provider", "replay", "--model", "nowhere", "x"],
        &[NAGENT, "-c", "nowhere", "--save-conversation", "copy"],
        &[NAGENT, "-c", "nowhere", "--summarize"],
        &[NAGENT, "-c", "nowhere", "--undo"],
        &[NAGENT, "-c", "nowhere", "--edit-conversation", "x"],
        &[STATUS, "--wait", "nowhere"],
        &[STATUS, "--stop", "nowhere"],
        &[MESSAGE, "-c", "nowhere", "x"],
        &[CONVERSATIONS, "show", "nowhere"],
        &[CONVERSATIONS, "path", "nowhere"],
        &[CONVERSATIONS, "remove", "nowhere"],
        &[CONVERSATIONS, "rewind", "nowhere", "--turn", "1"],
        &[CONVERSATIONS, "export", "nowhere"],
    ] {
        check(words, "nowhere");
    }
    // This shell's own.
    check(&[CONVERSATIONS, "show"], "this shell has no conversation yet");
    check(&[MESSAGE, "x"], "this shell has no conversation yet");
}

#[test]
fn exit_1_a_lock_that_did_not_come_free() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let running = sandbox.cmd(&["--conversation", "shared", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let second = sandbox.run(&["--conversation", "shared", "--lock-timeout", "1", "two"]);
    second
        .assert_exit(1)
        .no_stdout()
        .within(4.0)
        .stderr_has(&["shared", &running.pid().to_string()]);
    assert!(!sandbox.conversation().contains("two"));
}

#[test]
fn exit_2_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--no-such-flag"]).assert_exit(2).stderr_has(&["--no-such-flag"]);
    sandbox.run::<&str>(&[]).assert_exit(2);
    sandbox.llm_text::<&str>(&[]).run().assert_exit(2).stderr_has(&["--file"]);
}

#[test]
fn exit_2_wrong_config() {
    let sandbox = Sandbox::new().config_text("{\"provider\": ");
    sandbox.run(&["task"]).assert_exit(2).stderr_has(&["config.json"]);
}

#[test]
fn exit_2_no_credential() {
    let sandbox = Sandbox::new().no_config().env("OPENAI_API_KEY", "");
    sandbox
        .run(&["--provider", "anthropic", "task"])
        .assert_exit(2)
        .stderr_has(&["ANTHROPIC_API_KEY"]);
}

#[test]
fn exit_3_the_provider_refused() {
    let sandbox = Sandbox::new().answer(Answer::error(400, "invalid_request_error"));
    sandbox.run(&["task"]).assert_exit(3);
}

#[test]
fn exit_3_the_provider_failed_after_retries() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| Answer::busy(500));
    sandbox.run(&["--patience", "1", "task"]).assert_exit(3);
    assert!(sandbox.requests().len() > 1);
}

#[test]
fn exit_4_the_reply_stayed_malformed() {
    let sandbox = Sandbox::new().replies(["<nagent-shell>ls", "{}", "<b>"]);
    sandbox.run(&["task"]).assert_exit(4).no_stdout();
}

#[test]
fn exit_5_the_limit_of_turns() {
    let sandbox = Sandbox::new().replies([shell("true"), shell("true")]);
    sandbox.run(&["--max-turns", "2", "task"]).assert_exit(5).no_stdout().stderr_has(&["turns"]);
}

#[test]
fn exit_6_the_check_never_passed() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| answer("done").into());
    let run = sandbox.run(&["--check", "false", "task"]).assert_exit(6).no_stdout();
    run.stderr_has(&["the check failed 5 times: false\nthe last answer (not accepted):\ndone\n"]);
    // The last line of its output says why.
    let check = "cd . && nosuchcmd; exit 3";
    let run = sandbox.run(&["--check", check, "task"]).assert_exit(6);
    run.stderr_has(&[
        "the check failed 5 times: cd . && nosuchcmd; exit 3 (",
        "command not found)\n",
    ]);
    let run = sandbox.run(&["--check", "false", "--progress", "task"]).assert_exit(6);
    assert_eq!(run.stderr.matches("note: rejected answer: done\n").count(), 4, "{}", run.stderr);
}

#[test]
fn exits_129_130_143_ended_by_a_signal() {
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = Sandbox::new().answer(Answer::StallHead);
        let running = sandbox.cmd(&["task"]).spawn();
        sandbox.llm.wait_for_requests(1);
        running.signal(signal);
        running.wait().assert_exit(code);
    }
}

#[test]
fn llm_text_ends_with_the_same_codes() {
    let sandbox =
        Sandbox::new().file("q.txt", "2+2?").answer(Answer::error(401, "invalid_api_key"));
    sandbox
        .llm_text(&["--file", "q.txt"])
        .run()
        .assert_exit(3)
        .no_stdout()
        .stderr_has(&["OPENAI_API_KEY"]);
    let sandbox = Sandbox::new().file("q.txt", "2+2?").answer(Answer::StallBody("4".into()));
    let running = sandbox.llm_text(&["--file", "q.txt"]).spawn();
    sandbox.llm.wait_for_requests(1);
    running.signal(Signal::TERM);
    running.wait().assert_exit(143).no_stdout().within(1.0);
}
