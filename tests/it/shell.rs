//! The shell action: output, exit codes, timeouts, descendants, what its environment holds.

use crate::actions::{act, ok};
use crate::sandbox::{Sandbox, answer, shell};

#[test]
fn shell_gives_output_in_the_order_it_came_and_the_exit_code() {
    let sandbox = Sandbox::new();
    let commands = "echo 1; echo 2 >&2; echo 3; echo 4 >&2; exit 7";
    let block = act(&sandbox, &shell(commands), "nagent-shell-result");
    assert_eq!(block.get("exit_code"), "7");
    let digits: String = block.body.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.contains("1234"), "{block:?}");
}

#[test]
fn shell_runs_in_the_runs_folder_each_time_without_a_terminal_in_its_own_session() {
    let sandbox = Sandbox::new();
    let commands = "cd /; echo moved";
    act(&sandbox, &shell(commands), "nagent-shell-result");
    let commands = "pwd; [ -t 0 ] || [ -t 1 ] || echo no terminal; (exec </dev/tty) 2>/dev/null || echo no tty";
    let block = act(&sandbox, &shell(commands), "nagent-shell-result");
    assert!(block.body.contains(sandbox.work().to_str().unwrap()), "{block:?}");
    assert!(block.body.contains("no terminal") && block.body.contains("no tty"), "{block:?}");
}

#[test]
fn shell_with_a_timeout_is_ended_with_all_descendants() {
    let sandbox = Sandbox::new();
    let tag =
        "<nagent-shell timeout=\"1\">echo before; setsid sleep 300 & sleep 301</nagent-shell>";
    let block = act(&sandbox, tag, "nagent-shell-result");
    assert_eq!(block.get("status"), "error");
    assert!(block.body.contains("before"), "what came is kept: {block:?}");
    assert!(format!("{block:?}").contains("time"), "{block:?}");
    assert_eq!(sandbox.processes(), Vec::<String>::new());
}

#[test]
fn descendants_end_with_the_tag_that_started_them() {
    let sandbox = Sandbox::new();
    let block =
        act(&sandbox, &shell("(setsid sleep 300 &) ; sleep 301 & echo off"), "nagent-shell-result");
    assert!(block.body.contains("off"));
    assert_eq!(sandbox.processes(), Vec::<String>::new());
}

#[test]
fn large_output_is_kept_whole_and_shown_by_head_and_tail() {
    let sandbox = Sandbox::new();
    let block = act(&sandbox, &shell("seq 1 100000"), "nagent-shell-result");
    let whole = std::fs::read_to_string(block.get("output")).unwrap();
    assert_eq!(whole.lines().count(), 100_000);
    assert_eq!(block.get("bytes"), whole.len().to_string());
    assert!(
        block.body.len() < 20_000 && block.body.contains("\n2\n") && block.body.contains("99999")
    );
    let read =
        format!("<nagent-read path=\"{}\" offset=\"50000\" limit=\"1\"/>", block.get("output"));
    assert!(ok(&sandbox, &read, "nagent-read-result").body.contains("50000"));
}

#[test]
fn the_shell_holds_no_credential_but_those_let_through() {
    let sandbox = Sandbox::new().env("GITHUB_TOKEN", "gh-secret").env("EDITOR", "vi");
    let names = "env | cut -d= -f1";
    let block = act(&sandbox, &shell(names), "nagent-shell-result");
    assert!(!block.body.contains("OPENAI_API_KEY") && block.body.contains("EDITOR"), "{block:?}");
    let sandbox = sandbox.config_also(serde_json::json!({"pass_env": ["OPENAI_API_KEY"]}));
    let block = act(&sandbox, &shell(names), "nagent-shell-result");
    assert!(block.body.contains("OPENAI_API_KEY"), "{block:?}");
}

#[test]
fn a_sandbox_that_there_is_none_of_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--sandbox", "loose", "task"]).assert_exit(2).stderr_has(&["loose", "read-only"]);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--sandbox", "off", "task"]).assert_exit(0);
}

#[test]
fn a_command_inherits_no_descriptor_that_nagent_was_started_with() {
    let sandbox =
        Sandbox::new().reply(shell("ls /proc/self/fd | tr '\\n' ' '")).reply(answer("done"));
    let command = format!("exec 9</dev/null; exec '{}' task", crate::sandbox::NAGENT);
    let run = sandbox.program("/bin/sh", &["-c", &command]).run();
    run.assert_exit(0);
    // ls holds 3 for the folder that it lists.
    assert_eq!(sandbox.block("nagent-shell-result").body.trim(), "0 1 2 3");
}

#[test]
fn an_output_that_was_kept_before_and_changed_since_is_kept_anew() {
    for changed in ["", "something else"] {
        let sandbox = Sandbox::new();
        let kept = || {
            let block = act(&sandbox, &shell("seq 1 100000"), "nagent-shell-result");
            std::path::PathBuf::from(block.get("output"))
        };
        let path = kept();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, changed).unwrap();
        assert_eq!(kept(), path);
        assert!(std::fs::read(&path).unwrap() == whole, "{changed:?}");
    }
}
