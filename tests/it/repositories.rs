//! Repositories of every kind: what a run says of them to the model, and how long they keep it.

use std::fmt::Write as _;
use std::path::Path;

use crate::file_memory::commit;
use crate::sandbox::{Sandbox, answer};

/// The first context of a run with these arguments in a folder.
fn first_context(sandbox: &Sandbox, folder: &Path, args: &[&str]) -> String {
    sandbox.llm.push(answer("done"));
    let args = [args, &["task"]].concat();
    let run = sandbox.cmd(&args).folder(folder).run().assert_exit(0).within(10.0);
    assert!(run.stderr.lines().all(|line| line.contains("nagent --trust")), "{run:?}");
    sandbox.block("initial_context").body
}

/// Runs git in the work folder.
fn git(sandbox: &Sandbox, args: &[&str], input: &str) {
    sandbox.program("git", args).stdin(input).run().assert_exit(0);
}

#[track_caller]
fn has_line(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line {line:?} in:\n{text}");
}

#[test]
fn the_first_context_names_the_branch_what_is_changed_the_check_and_instructions() {
    let world = || {
        let sandbox = Sandbox::new().git().file("AGENTS.md", "tabs").file("sub/a.txt", "1");
        commit(&sandbox, "Begin");
        sandbox
    };
    let sandbox = world();
    let clean = first_context(&sandbox, &sandbox.work(), &[]);
    has_line(&clean, "branch at start: main");
    has_line(&clean, "repository instructions that the user has not confirmed: AGENTS.md");
    assert!(!clean.contains("\ncheck: "), "{clean}");
    let sandbox = world();
    let sub = sandbox.work().join("sub");
    sandbox.write("sub/a.txt", "2");
    sandbox.write("new 1", "");
    sandbox.write("new 2", "");
    let context = first_context(&sandbox, &sub, &["--check", "test -e a.txt"]);
    has_line(&context, "branch at start: main");
    let path = sandbox.work().join("AGENTS.md").display().to_string();
    has_line(&context, &format!("repository instructions that the user has not confirmed: {path}"));
    has_line(&context, "check: your answer is accepted only if this exits 0: test -e a.txt");
    // What is changed by the next run is no change of the context.
    sandbox.write("sub/b.txt", "");
    first_context(&sandbox, &sub, &["--check", "test -e a.txt"]);
    assert!(sandbox.blocks_of("context-update").is_empty(), "{}", sandbox.conversation());
}

/// Those between the top and the file count, wherever the call comes from.
#[test]
fn instructions_on_the_way_to_a_file_are_named() {
    for from_sub in [true, false] {
        let sandbox = Sandbox::new().git().file("AGENTS.md", "tabs").file("sub/in/CLAUDE.md", "x");
        sandbox.write("sub/CLAUDE.md", "spaces");
        sandbox.write("sub/AGENTS.md", "tabs");
        let (top, sub) = (sandbox.work(), sandbox.work().join("sub"));
        let folder = if from_sub { sub.clone() } else { sandbox.tmp() };
        let target = sub.join("in/z.txt").display().to_string();
        let check = "test 1 = 1; ".repeat(250);
        let args = ["--file-edit", &target, "--no-summaries", "--check", &check];
        let context = first_context(&sandbox, &folder, &args);
        let shown = |path: &Path| path.strip_prefix(&folder).unwrap_or(path).display().to_string();
        let paths = ["sub/in/CLAUDE.md", "sub/AGENTS.md", "AGENTS.md"];
        let names = paths.map(|path| shown(&top.join(path))).join(", ");
        has_line(
            &context,
            &format!("repository instructions that the user has not confirmed: {names}"),
        );
        has_line(&context, &format!("git: {}", top.display()));
        assert!(context.len() < 5_000 && context.contains("test 1 = 1;…"), "{context}");
    }
}

#[test]
fn a_repository_without_commits() {
    let sandbox = Sandbox::new().git().file("a.txt", "1\n");
    let context = first_context(&sandbox, &sandbox.work(), &["--file-edit", "a.txt"]);
    has_line(&context, "branch at start: main, no commit yet");
    assert!(!context.contains("{file-history}"), "{context}");
    let commit =
        ["-c", "user.name=A", "-c", "user.email=a@x", "commit", "--allow-empty", "-qm", "x"];
    git(&sandbox, &commit, "");
    git(&sandbox, &["checkout", "-q", "--detach"], "");
    let context = first_context(&sandbox, &sandbox.work(), &["-n"]);
    assert!(context.contains("\nbranch at start: none, HEAD is detached at "), "{context}");
}

#[test]
fn a_repository_with_very_many_commits() {
    let sandbox = Sandbox::new().git();
    let mut stream =
        "blob\nmark :1\ndata 2\n1\n\nblob\nmark :2\ndata 2\n2\n\nblob\nmark :3\ndata 2\n3\n\n"
            .to_owned();
    for n in 0..5_000 {
        let (file, mark) =
            if n % 10 == 0 { ("a.txt", 1 + n / 10 % 3) } else { ("b.txt", 1 + n % 3) };
        let time = 1_700_000_000 + n;
        let subject = format!("Step {n}");
        let length = subject.len();
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@x> {time} +0000\ndata {length}\n{subject}\nM 100644 :{mark} {file}\n\n"
        )
        .unwrap();
    }
    git(&sandbox, &["fast-import", "--quiet", "--depth=0"], &stream);
    git(&sandbox, &["reset", "--quiet", "--hard"], "");
    let context =
        first_context(&sandbox, &sandbox.work(), &["--file-edit", "a.txt", "--no-summaries"]);
    has_line(&context, "branch at start: main");
    assert!(context.contains(": Step 4990\n") && context.len() < 16_000, "{context}");
    assert!(context.contains("\n- history read back to ") || context.contains(" earlier commits "));
}

#[test]
fn a_shallow_clone_names_what_it_has() {
    let sandbox = Sandbox::new();
    let origin = Sandbox::new().git().file("a.txt", "1\n").file("b.txt", "1\n");
    commit(&origin, "Begin");
    origin.write("a.txt", "2\n");
    commit(&origin, "Go on");
    let url = format!("file://{}", origin.work().display());
    git(&sandbox, &["clone", "--quiet", "--depth", "1", &url, "."], "");
    let context =
        first_context(&sandbox, &sandbox.work(), &["--file-edit", "a.txt", "--no-summaries"]);
    has_line(&context, "branch at start: main");
    has_line(&context, "- earlier commits are not in this clone, which is shallow");
    // Nothing is known of these, and no heading says so.
    for heading in ["Individuals", "Files edited"] {
        assert!(!context.contains(heading), "{context}");
    }
}
