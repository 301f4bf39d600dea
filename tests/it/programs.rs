//! Programs as models: the example of docs/programs.md runs, and what a program prints as an object counts.

use serde_json::json;

use crate::sandbox::Sandbox;

fn with_program(sandbox: Sandbox, body: &str) -> Sandbox {
    let program = sandbox.script("bin/model", body);
    sandbox.config(json!({"provider": "command", "command": [program]}))
}

#[test]
fn the_example_in_shell_runs_the_loop() {
    let page = include_str!("../../docs/programs.md");
    let mut blocks = page.split("```").skip(1).step_by(2);
    let example =
        blocks.find_map(|block| block.strip_prefix("sh\n").filter(|it| it.starts_with("#!")));
    let sandbox = with_program(Sandbox::new().file("a.txt", "1\n2\n"), example.unwrap());
    let document = sandbox.run(&["-n", "--json", "How many lines?"]).assert_exit(0).json();
    assert_eq!(document["responses"], json!(["counted"]));
    assert!(sandbox.block("nagent-shell-result").body.contains("a.txt"));
    assert_eq!(document["estimated"], true);
}

#[test]
fn an_object_reports_tokens_and_errors() {
    let object = r#"{"type": "result", "result": "<nagent-response>four</nagent-response>", "usage": {"input_tokens": 2, "cache_read_input_tokens": 8, "output_tokens": 1}}"#;
    let sandbox =
        with_program(Sandbox::new(), &format!("#!/bin/sh\ncat > /dev/null\necho '{object}'\n"));
    let document = sandbox.run(&["-n", "--json", "task"]).assert_exit(0).json();
    assert_eq!((&document["tokens_in"], &document["tokens_out"]), (&json!(10), &json!(1)));
    assert_eq!((&document["responses"], &document["estimated"]), (&json!(["four"]), &json!(false)));
    let object = r#"{"type": "error", "error": {"message": "too dear", "code": 402}}"#;
    let sandbox =
        with_program(Sandbox::new(), &format!("#!/bin/sh\ncat > /dev/null\necho '{object}'\n"));
    sandbox.run(&["-n", "task"]).assert_exit(3).stderr_has(&["too dear"]);
}

#[test]
fn a_signal_ends_a_program() {
    let sandbox = with_program(Sandbox::new(), "#!/bin/sh\necho > \"$HOME/asked\"\nsleep 60\n");
    let run = sandbox.cmd(&["task"]).spawn();
    crate::sandbox::wait_until("the program was asked", || sandbox.home().join("asked").exists());
    run.signal(rustix::process::Signal::INT);
    run.wait().assert_exit(130);
    assert_eq!(sandbox.lasting_processes(), [] as [String; 0]);
}
