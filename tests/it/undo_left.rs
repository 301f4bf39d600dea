//! Undo of commands: what it leaves and names, and what it must not remove. What was there before a run, what the user makes
//! between its commands, and what git ignores stay; a run of which only that is left is one of the runs.

use std::process::Command;

use crate::sandbox::{answer, shell};
use crate::undo_commands::{commit, run, sandbox, take_back, tree};

#[test]
fn what_git_ignores_and_refs_are_named() {
    let sandbox = sandbox().file(".gitignore", "out/\n.env\n*.log\n").file("old.log", "");
    sandbox.write(".env", "A=1\n");
    sandbox.write("out/deep/same", "");
    commit(&sandbox);
    sandbox.program("git", &["tag", "v0"]).run().assert_exit(0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    run(&sandbox, "plain", shell("echo x >> a.txt"));
    let json = take_back(&sandbox, &["--json"]).assert_exit(0).json();
    assert_eq!(json["ignored"], serde_json::json!([]), "{json}");
    run(&sandbox, "odd", shell("echo x >> a.txt; echo B=2 >> .env; touch out/deep/new"));
    let undone = take_back(&sandbox, &[]).assert_exit(0).stdout_has(&["/.env, ", "/out\n"]);
    assert!(!undone.stdout.contains("old.log"), "{}", undone.stdout);
    run(&sandbox, "ignored alone", shell("touch out/deep/newer"));
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo", "/out\n"]);
    run(
        &sandbox,
        "gone",
        shell("rm .env; mkdir n; echo x > n/n.log; git tag v1; git branch b; git tag -d v0"),
    );
    let left = [
        "ignored by git before: ",
        "/.env; of git itself: ",
        "/.git/refs/heads/b, ",
        "/.git/refs/tags/v0, ",
        "/.git/refs/tags/v1\n",
        "/n/n.log\n",
    ];
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&left);
}

#[test]
fn what_was_there_before_is_not_removed() {
    let sandbox = sandbox().file(".gitignore", "*.log\nout/\n").file("k.log", "1\n");
    sandbox.write("out/o", "1\n");
    sandbox.write("tracked.log", "1\n");
    sandbox.program("git", &["add", "-f", "tracked.log"]).run().assert_exit(0);
    commit(&sandbox);
    sandbox.program("git", &["init", "-q", "inner"]).run().assert_exit(0);
    sandbox.write("inner/f", "1\n");
    // Of files that were hidden before, each gets a new inode, as if it were new.
    let commands =
        "rm .gitignore; rm -rf inner/.git; sed -i s/1/2/ k.log out/o tracked.log inner/f";
    run(&sandbox, "show", shell(commands));
    let left = ["/k.log", "/out/o", "/inner/f"];
    let undone = take_back(&sandbox, &[]).assert_exit(1).stdout_has(&left);
    let text = |name: &str| sandbox.read(name);
    assert_eq!(left.map(|name| text(&name[1..])), ["2\n"; 3], "{}", undone.stdout);
    assert_eq!((text("tracked.log"), text(".gitignore")), ("1\n".into(), "*.log\nout/\n".into()));
    run(&sandbox, "tracked", shell("echo 3 >> tracked.log"));
    take_back(&sandbox, &[]).assert_exit(0).stdout_has(&["/tracked.log\n"]);
    assert_eq!(text("tracked.log"), "1\n");
}

#[test]
fn folders_that_moved_and_hard_links_are_taken_back() {
    let sandbox = sandbox().file("d/b.txt", "b\n").file("d/c.txt", "c\n");
    std::fs::hard_link(sandbox.work().join("a.txt"), sandbox.work().join("h.txt")).unwrap();
    commit(&sandbox);
    let before = tree(&sandbox);
    run(&sandbox, "move", shell("mv d e; echo x >> a.txt"));
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(tree(&sandbox), before);
    run(&sandbox, "move and change", shell("mv d g; echo x >> g/b.txt"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/g/b.txt\n"]);
    assert_eq!((sandbox.read("d/b.txt"), sandbox.read("g/b.txt")), ("b\n".into(), "b\nx\n".into()));
    run(&sandbox, "link", shell("mv d f; ln -s f d"));
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["reached by a symbolic link"]);
}

#[test]
fn a_run_that_left_only_what_stays_is_one_of_the_runs() {
    let sandbox = sandbox();
    run(&sandbox, "first", shell("echo x >> a.txt"));
    run(&sandbox, "second", shell("chmod +x a.txt"));
    let list = take_back(&sandbox, &["--list"]).assert_exit(0).stdout;
    assert!(list.contains("  1  ") && list.contains("second") && list.contains("  2  "), "{list}");
    let json = take_back(&sandbox, &["--json"]).assert_exit(1).json();
    assert!(json["not_undone"][0].as_str().unwrap().contains("/a.txt"), "{json}");
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\nx\n");
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    // HEAD did not move, and neither run names what the other one left.
    run(&sandbox, "third", shell("ln -s a.txt l"));
    run(&sandbox, "fourth", shell("echo n > n; git stash -q -u; git stash pop -q"));
    let undone = take_back(&sandbox, &[]).assert_exit(0);
    assert!(!undone.stdout.contains("stay"), "{}", undone.stdout);
}

#[test]
fn what_the_user_makes_between_commands_is_not_removed() {
    let sandbox = sandbox().file("d/b.txt", "b\n").file("../out/pkg/b.txt", "b\n");
    sandbox.write("x.log", "b\n");
    sandbox.write(".gitignore", "*.log\n");
    commit(&sandbox);
    let work = sandbox.work();
    sandbox.llm.push(shell("ls"));
    sandbox.llm.choose(move |request| {
        if !request.user().contains("step-two") {
            std::thread::sleep(std::time::Duration::from_millis(50));
            for name in ["d/copy.txt", "notes.txt", "moved.txt", "d/u"] {
                std::fs::write(work.join(name), "b\n").unwrap();
            }
            let add = Command::new("git").args(["add", "notes.txt"]).current_dir(&work).status();
            assert!(add.unwrap().success());
            std::thread::sleep(std::time::Duration::from_millis(50));
            return shell("rm d/b.txt; chmod g+w notes.txt; mkdir n; mv moved.txt n/; mv x.log x.txt; echo step-two").into();
        }
        answer("done").into()
    });
    sandbox.run(&["task"]).assert_exit(0);
    let undone = take_back(&sandbox, &[]).assert_exit(1).stdout_has(&[
        "/x.txt",
        "/n/moved.txt",
        "/notes.txt",
    ]);
    for name in ["d/b.txt", "d/copy.txt", "notes.txt", "n/moved.txt", "d/u", "x.txt"] {
        assert_eq!(sandbox.read(name), "b\n", "{name}: {}", undone.stdout);
    }
    for name in ["d/copy.txt", "d/u", ".git/index"] {
        assert!(!undone.stdout.contains(name), "{name}: {}", undone.stdout);
    }
}

#[test]
fn runs_that_left_something_are_ticked_off_and_ignored_files_do_not_count() {
    let sandbox = sandbox().file(".gitignore", "*.log\n").file("gone", "g\n");
    commit(&sandbox);
    for (n, tag) in [(1, "t1"), (2, "t2")] {
        run(&sandbox, "edit", shell(&format!("echo {n} >> a.txt")));
        run(&sandbox, "tag", shell(&format!("git tag {tag}")));
    }
    for tag in ["t2", "t1"] {
        let undone = take_back(&sandbox, &["2"]).assert_exit(1);
        assert!(undone.stdout.contains(&format!("refs/tags/{tag}\n")), "{}", undone.stdout);
        assert_eq!(undone.stdout.matches("refs/tags").count(), 1, "{}", undone.stdout);
    }
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    let many = "for i in $(seq 1010); do : > $i.log; done; echo n > n1; ln n1 n2; rm gone";
    run(&sandbox, "many", shell(many));
    take_back(&sandbox, &[]).assert_exit(0);
    assert!(sandbox.work().join("gone").exists() && !sandbox.work().join("n1").exists());
    run(&sandbox, "folder", shell("rm a.txt; mkdir a.txt"));
    let refused = take_back(&sandbox, &[]).assert_exit(1);
    let refused = refused.stderr_has(&["nothing was undone", "is a folder", "move away"]);
    assert!(!refused.stderr.contains("--force"), "it cannot: {}", refused.stderr);
}

#[test]
fn files_outside_of_the_tree_are_named_where_commands_may_write() {
    let sandbox = sandbox().file("../other/kept.txt", "1\n");
    let text = "ran without a sandbox: what they changed elsewhere is not known";
    run(&sandbox, "free", shell("echo x >> a.txt"));
    take_back(&sandbox, &[]).assert_exit(0).stdout_has(&[text]);
    sandbox.llm.push(shell("echo x >> a.txt; echo 2 > ../other/free.txt"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--sandbox", "off", "--write", "../other", "task"]).assert_exit(0);
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/other/free.txt", text]);
    if !crate::sandbox::has_bwrap() {
        return;
    }
    let run = |command: &str| {
        sandbox.llm.push(shell(command));
        sandbox.llm.push(answer("done"));
        let flags = ["--sandbox", "workspace", "--write", "../other", "--write", ".", "task"];
        sandbox.run(&flags).assert_exit(0)
    };
    run("echo x >> a.txt; echo 2 > ../other/made.txt; rm ../other/kept.txt");
    let undone =
        take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/other/made.txt", "/other/kept.txt"]);
    assert!(!undone.stdout.contains(text), "{}", undone.stdout);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    run("rm ../other/made.txt");
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/other/made.txt\n"]);
    run("ls ../other");
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
}

#[test]
fn where_all_is_ignored_what_git_tracks_is_taken_back_and_the_rest_named() {
    for (rules, is_whole) in [("*\n", true), ("/*\n!/src\n", false)] {
        let sandbox = sandbox().file("gone.txt", "g\n").file("src/s", "s\n");
        commit(&sandbox);
        sandbox.write(".gitignore", rules);
        sandbox.program("git", &["add", "-f", ".gitignore"]).run().assert_exit(0);
        commit(&sandbox);
        run(&sandbox, "x", shell("echo x >> a.txt; rm gone.txt; echo n > new; echo y >> src/s"));
        take_back(&sandbox, &[]).assert_exit(0).stdout_has(&["not taken back: ", "/new"]);
        let texts = ["a.txt", "gone.txt", "src/s"].map(|name| sandbox.read(name));
        assert_eq!(texts, ["one\ntwo\n", "g\n", "s\n"], "{is_whole}");
    }
}

#[test]
fn a_command_does_not_hide_what_it_made() {
    let sandbox = sandbox();
    run(&sandbox, "hide", shell("echo n > new; echo '*' > .gitignore"));
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["/.gitignore", "/new"]);
    std::fs::remove_file(sandbox.work().join(".gitignore")).unwrap();
    std::fs::remove_file(sandbox.work().join("new")).unwrap();
    let commands = "echo n > new; git add new; git -c user.name=a -c user.email=a@x commit -qm n; echo '*' > .gitignore";
    run(&sandbox, "commit and hide", shell(commands));
    take_back(&sandbox, &[]).assert_exit(1);
    assert!(!sandbox.work().join("new").exists());
}

#[test]
fn a_file_in_the_place_of_a_folder_spoils_no_undo_of_others() {
    let sandbox = sandbox().file(".d/x", "x\n").file("b.txt", "b\n");
    commit(&sandbox);
    run(&sandbox, "swap", shell("rm -r .d; echo f > .d; rm a.txt; echo z >> b.txt; rm .d"));
    take_back(&sandbox, &[]).assert_exit(0);
    let texts = ["a.txt", ".d/x", "b.txt"].map(|name| sandbox.read(name));
    assert_eq!(texts, ["one\ntwo\n", "x\n", "b\n"]);
    run(&sandbox, "swap again", shell("rm -r .d; echo f > .d; rm a.txt"));
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["/.d"]);
}

#[test]
fn settings_of_the_repository_hide_no_change() {
    let sandbox = sandbox().file("t", "t\n");
    commit(&sandbox);
    for (key, value) in [("ignoreCase", "true"), ("trustctime", "false"), ("fileMode", "false")] {
        let words = ["config", &format!("core.{key}"), value];
        sandbox.program("git", &words).run().assert_exit(0);
    }
    run(&sandbox, "case", shell("mv t T; echo x > A.txt"));
    take_back(&sandbox, &[]).assert_exit(0);
    assert!(sandbox.work().join("t").exists() && !sandbox.work().join("T").exists());
    assert!(!sandbox.work().join("A.txt").exists());
    run(
        &sandbox,
        "time",
        shell("touch -r a.txt r; printf ONE | dd of=a.txt conv=notrunc; touch -r r a.txt; rm r"),
    );
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    run(&sandbox, "mode", shell("chmod +x t"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["links, modes", "/t"]);
}

#[test]
fn where_nothing_is_remembered_a_removed_file_is_not_hidden_by_a_new_one() {
    let sandbox = sandbox().file("d/a", "a\n");
    sandbox.program("git", &["config", "core.bare", "true"]).run().assert_exit(0);
    run(&sandbox, "x", shell("rm d/a; touch d/c"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/d, ", "/d/c"]);
}

#[test]
fn what_is_beside_a_tracked_file_in_an_ignored_folder_stays_and_is_named() {
    for rules in ["d/\n", "d/*\n", "*\n"] {
        let sandbox = sandbox().file("d/f", "f\n").file("d/.env", "A=1\n").file("d/u", "u\n");
        sandbox.write(".gitignore", rules);
        sandbox.program("git", &["add", "-f", "d/f", ".gitignore"]).run().assert_exit(0);
        commit(&sandbox);
        let env = || sandbox.read("d/.env");
        run(&sandbox, "first", shell("echo x >> a.txt"));
        run(&sandbox, "swap", shell("echo build/ > .gitignore; cp -r d t; rm -r d; mv t d"));
        take_back(&sandbox, &[]);
        assert_eq!((env(), sandbox.read("d/u")), ("A=1\n".into(), "u\n".into()), "{rules}");
        assert_eq!(sandbox.read(".gitignore"), rules);
        // Of others, which no snapshot has.
        for name in ["k", "l", "m"] {
            sandbox.write(&format!("d/{name}"), "k\n");
        }
        run(&sandbox, "change", shell("git add -f d/k; sed -i s/k/K/ d/k"));
        take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["ignored by git before: ", "/d/k"]);
        assert_eq!(sandbox.read("d/k"), "K\n", "{rules}");
        run(&sandbox, "quiet", shell("rm d/l; echo x >> d/m; echo n > d/n; echo x >> a.txt"));
        let left = ["ignored by git before: ", "/d/l", "/d/m", "/d/n"];
        take_back(&sandbox, &[]).assert_exit(1).stdout_has(&left);
    }
}

#[test]
fn untracked_files_at_the_top_are_remembered_where_all_folders_are_ignored() {
    let sandbox = sandbox().file(".gitignore", "*/\n");
    commit(&sandbox);
    sandbox.write("u", "mine\n");
    sandbox.write("w", "w\n");
    run(&sandbox, "x", shell("rm .gitignore; sed -i s/mine/S/ u; cp w t; mv t w; echo n > n"));
    take_back(&sandbox, &[]).assert_exit(0);
    let texts = [".gitignore", "u", "w"].map(|name| sandbox.read(name));
    assert_eq!(texts, ["*/\n", "mine\n", "w\n"]);
    assert!(!sandbox.work().join("n").exists());
}

#[test]
fn a_repository_of_another_working_tree_is_not_taken_for_this_one() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.base().join("other")).unwrap();
    let other = sandbox.base().join("other").display().to_string();
    sandbox.program("git", &["config", "core.worktree", &other]).run().assert_exit(0);
    run(&sandbox, "x", shell("echo x >> a.txt"));
    let left = ["names another working tree", "/a.txt"];
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&left);
}

#[test]
fn a_submodule_that_is_ignored_too_is_named() {
    for rules in ["sm/\n", "*\n"] {
        let sandbox = sandbox();
        sandbox.program("git", &["init", "-q", "sm"]).run().assert_exit(0);
        sandbox.write("sm/s", "s\n");
        let inner = "cd sm && git add -A && git -c user.name=a -c user.email=a@x commit -qm x";
        sandbox.program("sh", &["-c", inner]).run().assert_exit(0);
        commit(&sandbox);
        sandbox.write(".git/info/exclude", rules);
        std::thread::sleep(std::time::Duration::from_millis(20));
        run(&sandbox, "x", shell("rm sm/s; echo n > sm/n; echo x >> a.txt"));
        take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/sm, ", "/sm/n"]);
        assert_eq!(sandbox.read("a.txt"), "one\ntwo\n", "{rules}");
    }
}
