//! What users of other tools do from habit: a pipe without `-`, words and flags of other programs, `-C`, `-h`, a check that
//! cannot pass, a picture; and that none of it is paid for.

use crate::conversations::{CONVERSATIONS, path};
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

/// Each call ends with 2 or 1, says this, and asks no model.
fn refused(sandbox: &Sandbox, calls: &[(&[&str], i32, &str)]) {
    for (args, code, part) in calls {
        sandbox.run(args).assert_exit(*code).no_stdout().stderr_has(&[part]);
    }
    assert!(sandbox.requests().is_empty());
}

#[test]
fn data_on_stdin_that_nothing_asks_for_is_refused_before_anything_is_paid() {
    let sandbox = Sandbox::new().file("data", "numbers\n");
    let (told, more) = ("stdin has data: end the prompt with -", "give < /dev/null");
    for line in
        ["echo numbers | N sum up", "N -q sum up < data", "(sleep 0.2; cat data) | N sum up"]
    {
        let line = line.replace('N', NAGENT);
        let run = sandbox.program("bash", &["-c", &line]).run();
        run.assert_exit(2).no_stdout().stderr_has(&[told, more]);
    }
    assert!(sandbox.requests().is_empty());
    // Nothing to read, or asked for.
    sandbox.llm.choose(|_| answer("done").into());
    for line in
        ["true | N -n sum", "N -n sum < /dev/null", "N -n sum - < data", "N -n -f - sum < data"]
    {
        let line = line.replace('N', NAGENT);
        sandbox.program("bash", &["-c", &line]).run().answers("done");
    }
    let line = format!("true | {NAGENT} -n sum -");
    sandbox.program("bash", &["-c", &line]).run().assert_exit(0).stderr_has(&["stdin is empty"]);
    // A pipe that nobody writes to costs a moment, and hangs nothing.
    sandbox.cmd(&["-n", "sum"]).silent_stdin().run().answers("done");
    let late = Sandbox::new().reply(shell("until [ -e written ]; do sleep 0.01; done; sleep 0.1"));
    late.llm.push(answer("done"));
    let line = format!("(sleep 0.7; echo 1; touch written) | {NAGENT} -n sum");
    late.program("bash", &["-c", &line]).run().assert_exit(0).stderr_has(&["had data, but late"]);
}

#[test]
fn words_and_flags_of_other_programs_get_the_right_hint() {
    let sandbox = Sandbox::new();
    refused(
        &sandbox,
        &[
            (&["run", "fix the tests"], 2, "did you mean nagent \"fix the tests\", or"),
            (&["exec", "say hi"], 2, "nagent \"say hi\""),
            (&["run", "tests"], 2, "nagent \"tests\", or nagent \"run tests\"?"),
            (&["mcp", "add", "x"], 2, "nagent-mcp, which has list"),
            (&["/help"], 2, "nagent-repl"),
            (&["update"], 2, "make install"),
            (&["completion", "bash"], 2, "NAGENT_COMPLETE=bash nagent"),
            (&["--resume"], 2, "nagent --continue"),
            (&["-r"], 2, "nagent --continue"),
            (&["--cd", "/tmp", "x"], 2, "-C DIR"),
            (&["--effort", "high", "x"], 2, "--reasoning"),
            (&["--system", "x", "y"], 2, "--context FILE"),
            (&["--color=never", "x"], 2, "NO_COLOR=1"),
            (&["--yolo", "x"], 2, "--sandbox off"),
            (&["-p", "x"], 2, "prints the answer and ends"),
            (&["- fix the list"], 2, "nagent -- \"- fix the list\""),
            (&["--max-turns", "-1", "x"], 2, "no number below zero: -1"),
            (&["-c", "and now?"], 2, "nagent --continue goes on"),
            (&["--status", "--doctor"], 2, "cannot be used with"),
            (&["--file-edit", "*.rs", "x"], 1, "/*.rs matches no file"),
        ],
    );
    sandbox.llm.choose(|_| answer("done").into());
    sandbox.run(&["run tests"]).answers("done");
    sandbox.run(&["run", "the", "slow tests"]).answers("done");
}

#[test]
fn a_check_that_cannot_pass_and_what_is_no_text_are_refused() {
    let sandbox = Sandbox::new().file("a.png", b"\x89PNG\r\n\x1a\nno byte of zero").file("d/x", "");
    refused(
        &sandbox,
        &[
            (&["--check", "nosuchcmd -v", "x"], 2, "--check: nosuchcmd: command not found"),
            (&["--check", " ", "x"], 2, "--check is empty"),
            (
                &["--after-write", "nosuchcmd", "x"],
                2,
                "--after-write: nosuchcmd: command not found",
            ),
            (&["-f", "a.png", "x"], 1, "it cannot be decoded"),
            (&["-f", "d", "x"], 1, "it is a folder; name a file in it"),
        ],
    );
    sandbox.llm.choose(|_| answer("done").into());
    for check in ["true", "! false", "X=1 true", "cd d && test -e x", "[ -e d/x ]", "{ true; }"] {
        sandbox.run(&["-n", "--check", check, "x"]).answers("done");
    }
}

#[test]
fn every_tool_runs_in_another_folder() {
    let sandbox = Sandbox::new().file("sub/a.txt", "in-the-folder\n").reply(answer("done"));
    sandbox.run(&["-C", "sub", "-f", "a.txt", "x"]).answers("done");
    let block = sandbox.block("user-prompt");
    assert_eq!(block.get("cwd"), sandbox.work().join("sub").to_str().unwrap());
    assert!(sandbox.requests()[0].text().contains("in-the-folder"));
    sandbox
        .run(&["-C", "nowhere", "x"])
        .assert_exit(2)
        .stderr_has(&["-C nowhere: ", "name a folder"]);
    let run = sandbox.program(CONVERSATIONS, &["list", "--here", "-C", "sub", "--json"]).run();
    assert_eq!(run.assert_exit(0).json()["conversations"].as_array().unwrap().len(), 1);
    for command in nagent::cmd::list_commands() {
        let has = command.get_arguments().any(|arg| arg.get_short() == Some('C'));
        assert!(has, "{}", command.get_name());
    }
}

#[test]
fn the_short_help_fits_on_a_screen_and_names_flags_that_exist() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["-h"]).assert_exit(0).no_stderr().stdout;
    assert!(help.lines().count() < 24 && help.lines().all(|line| line.len() < 80), "{help}");
    let all = sandbox.run(&["--help"]).assert_exit(0).stdout;
    let is_flag = |word: &&str| word.starts_with('-') && word.len() > 1;
    let words = help.split(|c: char| c.is_whitespace() || "(),:;.[]".contains(c));
    let flags: Vec<&str> = words.filter(is_flag).collect();
    assert!(flags.len() > 14, "{flags:?}");
    for flag in flags {
        assert!(all.contains(flag), "{flag}");
    }
    assert!(!all.contains("--save-conversation") && all.contains("--lock-timeout"), "{all}");
}

#[test]
fn conversations_are_kept_in_order_by_nagent_conversations() {
    let sandbox = Sandbox::new().file("f.txt", "x\n");
    sandbox.llm.choose(|_| answer("done").into());
    sandbox.run(&["-c", "log", "first words"]).answers("done");
    let run = |args: &[&str]| sandbox.program(CONVERSATIONS, args).run().assert_exit(0);
    let text = |name: &str| std::fs::read_to_string(path(&sandbox, name)).unwrap();
    run(&["save", "kept", "lo"]);
    assert_eq!(text("kept"), text("log"));
    run(&["branch", "log", "second"]);
    run(&["load", "kept", "third"]);
    assert!(text("second").contains("first words") && text("third").contains("first words"));
    assert!(run(&["compact", "log"]).stdout.contains("nothing to compact"));
    assert!(run(&["summarize", "log", "-m", "other"]).stdout.contains("done"));
    assert_eq!(sandbox.requests().last().unwrap().json()["model"], "other");
    sandbox.file_edit(&["f.txt", "--no-summaries", "look"]).run().assert_exit(0);
    assert!(run(&["files"]).stdout.contains("f.txt"));
    let before = run(&["list", "--json"]).json()["conversations"].as_array().unwrap().len();
    assert!(run(&["clear", "log"]).stdout.contains("archived:"));
    assert!(!text("log").contains("first words"));
    // Archives are not what a person looks for.
    let count = |args: &[&str]| run(args).json()["conversations"].as_array().unwrap().len();
    assert_eq!(count(&["list", "--json"]), before);
    assert_eq!(count(&["list", "--all", "--json"]), before + 1);
    assert_eq!(count(&["list", "-n", "2", "--json"]), 2);
}
