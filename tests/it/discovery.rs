//! Which programs are tools: those beside nagent and the user's own; what the model reads of them, and what a user is told.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::sandbox::{NAGENT, Sandbox, answer};

/// Writes a program that gives this description.
fn program(path: &Path, description: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\necho \"path: $0\"\necho '{description}'\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_nagent_program_beside_the_running_one_is_asked() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let folder = sandbox.base().join("programs");
    program(&folder.join("nagent-hello"), "Says hello. Call it without arguments.");
    program(&folder.join("other"), "Is not one of them.");
    let nagent = folder.join("nagent");
    if std::fs::hard_link(NAGENT, &nagent).is_err() {
        std::fs::copy(NAGENT, &nagent).unwrap();
    }
    sandbox.program(nagent.to_str().unwrap(), &["task"]).run().assert_exit(0);
    let system = sandbox.requests()[0].system();
    assert!(system.contains("nagent-hello: Says hello. Call it without arguments."), "{system}");
    assert!(!system.contains("Is not one of them"));
}

#[test]
fn the_description_of_a_users_tool_is_quoted_whole_up_to_600_characters() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let long = format!("First. {}END", "word ".repeat(110));
    program(&sandbox.root().join("bin/long"), &long);
    program(&sandbox.root().join("bin/longer"), &"x".repeat(700));
    sandbox.run(&["task"]).assert_exit(0).no_stderr();
    let system = sandbox.requests()[0].system();
    assert!(system.contains(&format!("- long: {long}")), "{system}");
    assert!(system.contains(&format!("- longer: {}…", "x".repeat(599))));
}

#[test]
fn a_rejected_tool_is_reported_once_and_asked_again_when_it_changes() {
    let sandbox = Sandbox::new().replies([answer("1"), answer("2"), answer("3")]);
    let path = sandbox.root().join("bin/mine");
    program(&path, "Does it.");
    std::fs::write(&path, "#!/bin/sh\necho hello\n").unwrap();
    sandbox.run(&["task"]).assert_exit(0).stderr_has(&["bin/mine is not a tool", "\"path: ...\""]);
    sandbox.run(&["task"]).assert_exit(0).no_stderr();
    program(&path, "Does it now.");
    sandbox.run(&["--new", "task"]).assert_exit(0).no_stderr();
    assert!(sandbox.requests()[2].system().contains("mine: Does it now."));
}
