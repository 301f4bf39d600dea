//! `nagent --trust`: which texts of a repository a conversation begins with, in which order, and until when.

use crate::sandbox::{Sandbox, answer, shell};

fn ask(sandbox: &Sandbox) -> String {
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-n", "task"]).assert_exit(0);
    sandbox.requests().last().unwrap().system()
}

fn repository() -> Sandbox {
    let sandbox =
        Sandbox::new().git().file("AGENTS.md", "top words\n").file("sub/AGENTS.md", "sub words\n");
    sandbox.write(".nagent/context.md", "own words\n");
    let root = sandbox.root();
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("context.md"), "user words\n").unwrap();
    sandbox
}

#[test]
fn a_repositorys_text_counts_once_it_was_shown() {
    let sandbox = repository();
    let system = ask(&sandbox);
    assert!(system.contains("has not confirmed: .nagent/context.md, AGENTS.md"), "{system}");
    assert!(system.contains("user words") && !system.contains("top words"), "{system}");
    let run = sandbox.run(&["--trust"]).assert_exit(0);
    assert!(run.stdout.contains("top words") && run.stdout.contains("own words"), "{run:?}");
    assert!(run.stdout.contains("2 files trusted") && !run.stdout.contains("sub words"), "{run:?}");
    let system = ask(&sandbox);
    let at = |words: &str| system.find(words).unwrap_or_else(|| panic!("{words}: {system}"));
    assert!(at("user words") < at("top words") && at("top words") < at("own words"));
    assert!(!system.contains("has not confirmed"), "{system}");

    // From a folder below, that folder's own comes last, and is only named until it was shown, too.
    let sub = sandbox.work().join("sub");
    sandbox.llm.push(answer("done"));
    sandbox.cmd(&["-n", "task"]).folder(&sub).run().assert_exit(0);
    let system = sandbox.requests().last().unwrap().system();
    assert!(
        system.contains("top words") && system.contains("has not confirmed: AGENTS.md"),
        "{system}"
    );
    sandbox.cmd(&["--trust"]).folder(&sub).run().assert_exit(0);
    sandbox.llm.push(answer("done"));
    sandbox.cmd(&["-n", "task"]).folder(&sub).run().assert_exit(0);
    let system = sandbox.requests().last().unwrap().system();
    assert!(system.find("own words") < system.find("sub words"), "{system}");

    // Another text is not trusted, and the user is told.
    sandbox.write("AGENTS.md", "other words\n");
    sandbox.llm.push(answer("done"));
    let run = sandbox.run(&["-n", "task"]).assert_exit(0);
    assert!(run.stderr.contains("AGENTS.md changed since you trusted it"), "{run:?}");
    let system = sandbox.requests().last().unwrap().system();
    assert!(!system.contains("other words") && system.contains("own words"), "{system}");
    sandbox.run(&["--untrust"]).assert_exit(0);
    assert!(!ask(&sandbox).contains("own words"));
}

#[test]
fn a_conversation_that_goes_on_is_told_of_it() {
    let sandbox = repository();
    sandbox.llm.push(answer("one"));
    sandbox.run(&["task"]).assert_exit(0);
    sandbox.run(&["--trust"]).assert_exit(0);
    sandbox.llm.push(answer("two"));
    sandbox.run(&["task"]).assert_exit(0);
    let updates = sandbox.blocks_of("context-update");
    assert!(updates.iter().any(|block| block.body.contains("top words")), "{updates:?}");
}

#[test]
fn a_text_that_leads_out_of_the_repository_is_not_trusted() {
    let sandbox = repository();
    std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
    std::fs::write(sandbox.home().join(".ssh/id"), "a private key\n").unwrap();
    std::fs::remove_file(sandbox.work().join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("../home/.ssh/id", sandbox.work().join("AGENTS.md")).unwrap();
    let run = sandbox.run(&["--trust"]).assert_exit(1);
    run.stderr_has(&[".ssh/id is outside of the repository", "nothing was trusted"]);
    assert!(!ask(&sandbox).contains("a private key"));
    // One that stays in it is a text like another.
    std::fs::remove_file(sandbox.work().join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("sub/AGENTS.md", sandbox.work().join("AGENTS.md")).unwrap();
    sandbox.run(&["--trust"]).assert_exit(0);
    assert!(ask(&sandbox).contains("sub words"));
}

#[test]
fn only_the_user_trusts() {
    let sandbox = repository();
    let nagent = env!("CARGO_BIN_EXE_nagent");
    sandbox.llm.push(shell(&format!("{nagent} --trust 2>&1")));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    assert!(sandbox.block("nagent-shell-result").body.contains("is for the user"));
    assert!(!sandbox.root().join("trusted.json").exists());
    // A damaged record trusts nothing, and is left alone.
    sandbox.run(&["--trust"]).assert_exit(0);
    let path = sandbox.root().join("trusted.json");
    std::fs::write(&path, "{").unwrap();
    sandbox.llm.push(answer("done"));
    let run = sandbox.run(&["-n", "task"]).assert_exit(0);
    assert!(run.stderr.contains("no text of a repository is trusted"), "{run:?}");
    sandbox.run(&["--trust"]).assert_exit(1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
    // What no terminal should get is escaped, and what is no text is refused.
    std::fs::remove_file(&path).unwrap();
    sandbox.write("AGENTS.md", "red \u{1b}[31m\n");
    let run = sandbox.run(&["--trust"]).assert_exit(0);
    assert!(!run.stdout.contains('\u{1b}'), "{run:?}");
    sandbox.write("AGENTS.md", b"\xff\n");
    sandbox.run(&["--trust"]).assert_exit(1).stderr_has(&["not UTF-8", "nothing was trusted"]);
    let sandbox = Sandbox::new();
    sandbox.run(&["--trust"]).assert_exit(1).stderr_has(&["nothing to trust"]);
}
