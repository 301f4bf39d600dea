//! `nagent-sandbox`: what it refuses before anything is built or runs. What walls hold is `make torture`'s matter.

use crate::sandbox::Sandbox;

const SANDBOX: &str = env!("CARGO_BIN_EXE_nagent-sandbox");

/// It is refused with this code and these words, and the command does not run.
fn refused(sandbox: &Sandbox, args: &[&str], code: i32, words: &[&str]) {
    let mark = sandbox.work().join("ran");
    let mut all = args.to_vec();
    all.extend(["--", "touch", mark.to_str().unwrap()]);
    let run = sandbox.program(SANDBOX, &all).run();
    run.assert_exit(code).no_stdout().stderr_has(words);
    assert!(!mark.exists(), "{args:?}");
}

#[test]
fn wrong_usage() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--sandbox", "loose"], 2, &["off, workspace or read-only"]);
    refused(&sandbox, &["--sandbox", "off"], 2, &["has no walls"]);
    refused(&sandbox, &["--within", "{}"], 2, &["inner stage"]);
    let run = sandbox.program(SANDBOX, &["--json", "--", "touch", "ran"]).run();
    assert!(run.json()["error"].as_str().unwrap().contains("--status"));
    assert!(!sandbox.work().join("ran").exists());
    let run = sandbox.program(SANDBOX, &["--no-network"]).run();
    run.assert_exit(2).no_stdout().stderr_has(&["no command"]);
}

#[test]
fn folders_that_no_wall_makes_writable() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--write", "missing"], 1, &["--write missing", "mkdir"]);
    refused(&sandbox, &["--write", "/"], 1, &["root of the file system"]);
    let root = sandbox.root();
    std::fs::create_dir_all(root.join("outputs")).unwrap();
    let inside = root.join("outputs").display().to_string();
    refused(&sandbox, &["--write", &inside], 1, &["nagent's own folder"]);
    sandbox.write("file", "x");
    refused(&sandbox, &["--write", "file"], 1, &["no folder"]);
}

/// What a command wrote into the tree, or what came with it, makes no other folder writable.
#[test]
fn what_a_tree_says_of_other_folders_is_not_believed() {
    let sandbox = Sandbox::outside_temp();
    let (work, base) = (sandbox.work(), sandbox.base().to_owned());
    let victim = base.join("victim");
    std::fs::create_dir_all(victim.join("objects")).unwrap();
    std::fs::write(victim.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let named = victim.display().to_string();
    sandbox.write(".git/commondir", &named);
    refused(&sandbox, &["--write", ".git"], 1, &["commondir", &named]);
    sandbox.write(".git/commondir", "/etc\n");
    refused(&sandbox, &["--write", ".git"], 1, &["commondir", "/etc"]);
    sandbox.write("sub/.git", format!("gitdir: {named}\n"));
    refused(&sandbox, &["--write", "sub/.git"], 1, &["knows nothing of this working tree", &named]);
    std::os::unix::fs::symlink(&victim, work.join("build")).unwrap();
    refused(&sandbox, &["--write", "build"], 1, &["leads out of the working tree", &named]);
    refused(&sandbox, &["--write", "./sub/../build"], 1, &["leads out of the working tree"]);
}

#[test]
fn a_tree_that_holds_too_much() {
    let sandbox = Sandbox::outside_temp();
    let work = sandbox.work();
    let inside = work.join("own").display().to_string();
    refused(
        &sandbox,
        &["--root", &inside],
        1,
        &["holds nagent's own folder", "--sandbox read-only"],
    );
    let sandbox = Sandbox::outside_temp().env("HOME", work.display().to_string());
    let run = sandbox.program(SANDBOX, &["--root", &inside, "--", "true"]).folder(&work).run();
    run.assert_exit(1).no_stdout().stderr_has(&["holds"]);
}

#[test]
fn the_root_must_be_writable_for_what_the_walls_keep_there() {
    let sandbox = Sandbox::outside_temp();
    sandbox.write("file", "x");
    refused(&sandbox, &["--root", "file"], 1, &["walls", "--root DIR"]);
}
