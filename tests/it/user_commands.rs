//! The user's own commands in the loop: `--check`, and `--after-write`.

use crate::sandbox::{Sandbox, answer, shell};

#[test]
fn an_answer_counts_only_when_the_check_passes() {
    let sandbox =
        Sandbox::new().reply(answer("early")).reply(shell("touch ok")).reply(answer("done"));
    sandbox
        .run(&["--check", "echo checking; test -e ok", "task"])
        .assert_exit(0)
        .stdout_is("done\n");
    assert!(sandbox.requests()[1].last().contains("checking"), "its output is appended");
}

#[test]
fn a_check_is_tried_five_times_at_most() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| answer("done").into());
    sandbox.run(&["--check", "echo x >> tries; false", "task"]).assert_exit(6);
    assert_eq!(sandbox.read("tries").lines().count(), 5);
    assert_eq!(sandbox.requests().len(), 5);
}

#[test]
fn the_command_after_writes_shows_its_output_and_is_undone_with_them() {
    let write = |text: &str| format!("<nagent-write path=\"a.c\">{text}</nagent-write>");
    let two = format!("{}<nagent-write path=\"b.c\">b</nagent-write>", write("int  a;"));
    let command = "echo formatted; echo run >> ../log; sed -i 's/  */ /g' *.c";
    let sandbox = Sandbox::new().git().file("a.c", "old\n").reply(two);
    let sandbox = sandbox.reply(write("int  b;")).reply(write("int  b;")).reply(answer("done"));
    let run = sandbox
        .run(&["-w", "-f", "a.c", "--progress", "--after-write", command, "task"])
        .assert_exit(0);
    run.stderr_has(&["after write", "formatted"]);
    assert_eq!(std::fs::read_to_string(sandbox.base().join("log")).unwrap(), "run\nrun\n");
    let blocks = sandbox.blocks_of("system");
    let reports: Vec<_> =
        blocks.iter().filter(|block| block.get("after_write") == command).collect();
    let path = sandbox.work().join("a.c").display().to_string();
    assert_eq!(reports[0].body, format!("formatted\n[changed: {path}]"));
    assert_eq!(reports[1].body, reports[0].body);
    // The write over what the command had changed was refused once: the model had not seen that.
    assert!(sandbox.requests()[2].last().contains("int a;"), "{:?}", sandbox.requests()[2].last());
    assert_eq!(sandbox.read("a.c"), "int b;");
    sandbox.run(&["--undo"]).assert_exit(0);
    assert_eq!(sandbox.read("a.c"), "old\n");
    assert!(!sandbox.work().join("b.c").exists());
}
