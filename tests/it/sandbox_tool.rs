//! `nagent-sandbox`: what it refuses before anything runs, and what becomes of protected names that a command creates. What
//! the sandbox holds against attacks is tested by `make torture`.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::Signal;

use crate::sandbox::{Sandbox, answer, shell, wait_until};

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
    refused(&sandbox, &["--sandbox", "off"], 2, &["restricts nothing"]);
    refused(&sandbox, &["--within", "{}"], 2, &["nagent's own use"]);
    let run = sandbox.program(SANDBOX, &["--json", "--", "touch", "ran"]).run();
    assert!(run.json()["error"].as_str().unwrap().contains("--status"));
    assert!(!sandbox.work().join("ran").exists());
    let run = sandbox.program(SANDBOX, &["--no-network"]).run();
    run.assert_exit(2).no_stdout().stderr_has(&["no command"]);
}

#[test]
fn folders_that_cannot_be_made_writable() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--write", "missing"], 1, &["--write missing", "mkdir"]);
    refused(&sandbox, &["--write", "/"], 1, &["root of the file system"]);
    let root = sandbox.root();
    std::fs::create_dir_all(root.join("outputs")).unwrap();
    let inside = root.join("outputs").display().to_string();
    refused(&sandbox, &["--write", &inside], 1, &["nagent's own folder"]);
    sandbox.write("file", "x");
    refused(&sandbox, &["--write", "file"], 1, &["not a folder"]);
}

/// What a command wrote into the tree, or what came with it, makes no other folder writable.
#[test]
fn files_in_the_tree_make_no_other_folder_writable() {
    let sandbox = Sandbox::outside_temp();
    let (work, base) = (sandbox.work(), sandbox.base().to_owned());
    let victim = base.join("victim");
    std::fs::create_dir_all(victim.join("objects")).unwrap();
    std::fs::write(victim.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let named = victim.display().to_string();
    sandbox.write(".git/commondir", &named);
    let write = format!("echo x > {named}/HEAD; echo x > .git/refs/x");
    let run = sandbox.program(SANDBOX, &["--write", ".git", "--", "sh", "-c", &write]).run();
    run.stderr_has(&["victim/HEAD"]);
    assert!(work.join(".git/refs/x").exists());
    std::fs::remove_file(work.join(".git/commondir")).unwrap();
    sandbox.write("sub/.git", format!("gitdir: {named}\n"));
    refused(&sandbox, &["--write", "sub/.git"], 1, &["names the repository's folder"]);
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

/// All paths below a folder, from there; of git's own folder only the name.
fn entries(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(at) = ahead.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            found.insert(entry.path().strip_prefix(folder).unwrap().display().to_string());
            let is_folder = entry.file_type().unwrap().is_dir();
            ahead.extend((is_folder && entry.file_name() != ".git").then(|| entry.path()));
        }
    }
    found
}

const CREATE: &str = "mkdir -p sub/.vscode && echo 1 > sub/.vscode/tasks.json && echo 2 > .envrc && echo 3 > sub/plain";

/// The protected names that `CREATE` made are in `outputs/`, and each command in `text` brings one of them back.
fn check_moved(sandbox: &Sandbox, text: &str) {
    assert_eq!(sandbox.read("sub/plain"), "3\n");
    assert!(
        !sandbox.work().join(".envrc").exists() && !sandbox.work().join("sub/.vscode").exists()
    );
    let back: Vec<&str> = text
        .split(['\n', ';', ']'])
        .filter_map(|part| part.split_once("mv '"))
        .map(|(_, rest)| rest)
        .collect();
    assert_eq!(back.len(), 2, "{text}");
    for rest in back {
        let run = sandbox.program("sh", &["-c", &format!("mv '{rest}")]).run();
        run.assert_exit(0);
    }
    assert_eq!(sandbox.read(".envrc"), "2\n");
    assert_eq!(sandbox.read("sub/.vscode/tasks.json"), "1\n");
}

#[test]
fn protected_names_that_a_command_creates_are_moved_and_the_way_back_is_printed() {
    for flags in [&[][..], &["--only-landlock"]] {
        let sandbox = Sandbox::outside_temp();
        let words = [flags, &["--", "sh", "-c", CREATE]].concat();
        let run = sandbox.program(SANDBOX, &words).run().assert_exit(0);
        check_moved(&sandbox, &run.stderr);
        // The user has put them back: now they stay, and cannot be changed, or are named when they are.
        let change = ["--", "sh", "-c", "echo evil >> .envrc"];
        let run = sandbox.program(SANDBOX, &[flags, &change].concat()).run();
        let is_kept = sandbox.read(".envrc") == "2\n";
        assert!(is_kept != run.stderr.contains("changed what tools run"), "{run:?}");
    }
}

#[test]
fn the_model_reads_what_became_of_a_protected_name_that_its_command_created() {
    let sandbox = Sandbox::outside_temp().reply(shell(CREATE)).reply(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0).stdout_is("done\n");
    check_moved(&sandbox, &sandbox.block("nagent-shell-result").body);
}

#[test]
fn nothing_of_ours_is_in_the_tree_while_a_command_runs_and_after_a_kill() {
    let sandbox = Sandbox::outside_temp();
    sandbox.write("file", "x");
    let before = entries(&sandbox.work());
    let running = sandbox
        .program(SANDBOX, &["--", "sh", "-c", "echo $$ > /dev/stderr; exec sleep 60"])
        .spawn();
    wait_until("the command runs", || !running.stderr_so_far().is_empty());
    assert_eq!(entries(&sandbox.work()), before);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("all processes have ended", || sandbox.processes().is_empty());
    assert_eq!(entries(&sandbox.work()), before);
    assert!(!sandbox.root().join("sandbox").exists() && !sandbox.root().join("outputs").exists());
}
