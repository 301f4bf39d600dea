//! `nagent --undo`: all files of a run or none, together with `nagent-file-edit --undo`, which sees the same changes.

use rustix::process::Signal;

use crate::answers::Answer;
use crate::file_edit::{change, edit, text, undo, write};
use crate::process_under_test::{Run, Running};
use crate::sandbox::{Sandbox, answer, shell};

/// A shell of its own: all runs of these tests are given in it.
fn sandbox() -> Sandbox {
    Sandbox::outside_temp().env("STY", "1.undo").file("a.txt", "one\ntwo\n")
}

#[track_caller]
fn run(sandbox: &Sandbox, prompt: &str, reply: String) {
    sandbox.llm.push(reply);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--write", ".", prompt]).assert_exit(0);
}

fn take_back(sandbox: &Sandbox, more: &[&str]) -> Run {
    sandbox.run(&[&["--undo"], more].concat())
}

fn exists(sandbox: &Sandbox, name: &str) -> bool {
    sandbox.work().join(name).exists()
}

#[test]
fn all_files_of_the_last_run_are_taken_back() {
    let sandbox = sandbox();
    run(&sandbox, "first", edit("a.txt", "one", "1") + &write("new/b.txt", "b\n"));
    run(&sandbox, "second", edit("a.txt", "1", "eins") + &edit("a.txt", "two", "zwei"));
    let list = take_back(&sandbox, &["--list"]).assert_exit(0).stdout;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("  1  ") && lines[0].ends_with("  second"), "{list}");
    assert!(lines[1].starts_with("     /") && lines[1].ends_with("/a.txt"), "{list}");
    assert!(lines[2].starts_with("  2  ") && lines.len() == 5, "{list}");
    assert_eq!(sandbox.read("a.txt"), "eins\nzwei\n", "nothing was undone");

    let undone = sandbox.cmd(&["--undo"]).env("OPENAI_API_KEY", "").run().assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\n");
    assert!(undone.stdout.contains("-eins\n-zwei\n+1\n+two\n"), "{}", undone.stdout);
    let block = sandbox.blocks().pop().unwrap();
    assert_eq!((block.name.as_str(), block.get("change")), ("system", "undo"));
    assert!(block.body.contains("the user undid"), "{block:?}");

    let json = take_back(&sandbox, &["--json"]).assert_exit(0).json();
    assert_eq!(json["files"].as_array().unwrap().len(), 2);
    assert_eq!(json["files"][0]["undone"][0]["prompt"], "first");
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    assert!(!exists(&sandbox, "new/b.txt"));
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
    let list = take_back(&sandbox, &["--list"]).assert_exit(0).stdout;
    assert!(list.starts_with("nothing to undo in ") && list.contains("add -c NAME"), "{list}");

    // The model knows the file as it is: it may edit it at once.
    run(&sandbox, "third", edit("a.txt", "one", "three"));
    run(&sandbox, "fourth", edit("a.txt", "three", "four"));
    take_back(&sandbox, &["3"])
        .assert_exit(1)
        .stderr_has(&["cannot undo 3 runs", "can be undone: 2"]);
    take_back(&sandbox, &["2"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

#[test]
fn a_file_that_changed_since_keeps_all_files_as_they_are() {
    let sandbox = sandbox();
    let text_of = |n: u32| {
        (0..9).map(|line| format!("{}{line}\n", if line == 4 { n } else { 0 })).collect::<String>()
    };
    sandbox.write("a.txt", text_of(0));
    run(&sandbox, "x", edit("a.txt", "04", "14") + &write("b.txt", "b\n"));
    sandbox.write("a.txt", text_of(1) + "mine\n");
    let refused = take_back(&sandbox, &[]).assert_exit(1).no_stdout();
    refused.stderr_has(&["nothing was undone", "a.txt was changed", "--force"]);
    assert!(exists(&sandbox, "b.txt"), "all or none");
    sandbox.write("a.txt", text_of(2));
    let forced = take_back(&sandbox, &["--force"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), text_of(0));
    assert!(!exists(&sandbox, "b.txt"));
    let path =
        forced.stdout.lines().find_map(|line| line.strip_prefix("the replaced content is in "));
    assert_eq!(std::fs::read_to_string(path.unwrap()).unwrap(), text_of(2));
}

#[test]
fn each_undo_sees_what_the_other_tool_did() {
    let sandbox = sandbox();
    run(&sandbox, "by nagent", edit("a.txt", "one", "1"));
    change(&sandbox, "by file-edit", "two", "2");
    let json = undo(&sandbox, &["2", "--json"]).assert_exit(0).json();
    let prompts: Vec<&str> = json["files"][0]["undone"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| text(&it["prompt"]))
        .collect();
    assert_eq!(prompts, ["by file-edit", "by nagent"]);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);

    // The last run of this shell was one on a file.
    change(&sandbox, "by file-edit", "two", "2");
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
    // A run of another shell is not this one's.
    run(&sandbox, "x", edit("a.txt", "one", "1"));
    let other = sandbox.cmd(&["--undo"]).env("STY", "2.other").run().assert_exit(1);
    other.stderr_has(&["nothing to undo", "--continue for the last one in this folder"]);
    sandbox.run(&["--undo", "--new"]).assert_exit(2).stderr_has(&["--new"]);
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\n");
}

#[test]
fn what_a_child_wrote_belongs_to_the_run() {
    let sandbox = sandbox();
    sandbox.llm.choose(|request| {
        let user = request.user();
        match () {
            () if user.contains("edit-result") || user.contains("conversation-result") => {
                answer("done").into()
            }
            () if user.contains("part") => edit("a.txt", "one", "1").into(),
            () => "<nagent-conversation file=\"a.txt\">part</nagent-conversation>".into(),
        }
    });
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\n");
    let list = take_back(&sandbox, &["--conversation", "c", "--list", "--json"]).json();
    assert_eq!(list["undoable"][0]["prompt"], "task", "what the run was asked for: {list}");
    take_back(&sandbox, &["--conversation", "c"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

#[test]
fn a_file_that_was_moved_is_refused_and_named() {
    let sandbox = sandbox();
    let rename = |from: &str, to: &str| {
        std::fs::rename(sandbox.work().join(from), sandbox.work().join(to)).unwrap();
    };
    run(&sandbox, "x", edit("a.txt", "one", "1") + &write("new.txt", "new\n"));
    rename("a.txt", "b.txt");
    let refused = take_back(&sandbox, &[]).assert_exit(1);
    refused.stderr_has(&["nothing was undone", "a.txt was removed or moved"]);
    assert!(exists(&sandbox, "new.txt"), "all or none");
    rename("b.txt", "a.txt");
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    // A move by the run's own command is taken back.
    run(&sandbox, "one run", edit("a.txt", "one", "1") + &shell("mv a.txt moved.txt"));
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    assert!(!exists(&sandbox, "moved.txt"));
}

#[test]
fn a_killed_run_and_a_fork_can_be_undone() {
    let sandbox = sandbox();
    sandbox.llm.push(edit("a.txt", "one", "1"));
    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.cmd(&["--write", ".", "killed"]).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::KILL);
    running.wait();
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");

    // Another program changes the conversation's file: the run goes on in a fork.
    sandbox.llm.allow_rewrites();
    let touch = "<nagent-shell>echo by hand >> \"$(ls -t ~/.nagent/conversations/latest-* | grep -v run | head -1)\"</nagent-shell>";
    run(&sandbox, "forked", touch.to_owned() + &edit("a.txt", "one", "1"));
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\n");
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

#[test]
fn two_undos_at_once_take_back_two_runs() {
    let sandbox = sandbox();
    run(&sandbox, "x", edit("a.txt", "one", "1"));
    run(&sandbox, "y", edit("a.txt", "1", "eins"));
    let both = [sandbox.cmd(&["--undo"]).spawn(), sandbox.cmd(&["--undo"]).spawn()];
    for running in both {
        running.wait().assert_exit(0);
    }
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_others_as_they_are() {
    let sandbox = sandbox();
    run(&sandbox, "x", edit("a.txt", "one", "1") + &write("b.txt", "b\n"));
    // The content of one is gone: nothing is undone.
    let hash = sys::fs::sha256(b"one\ntwo\n");
    std::fs::remove_file(sandbox.root().join(format!("outputs/{hash}.txt"))).unwrap();
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing was undone", &hash]);
    assert!(exists(&sandbox, "b.txt") && sandbox.read("a.txt") == "1\ntwo\n");
    // A link leads no undo elsewhere.
    let path = sandbox.work().join("b.txt");
    std::fs::rename(&path, sandbox.work().join("c.txt")).unwrap();
    std::os::unix::fs::symlink("c.txt", &path).unwrap();
    take_back(&sandbox, &["--force"]).assert_exit(1);
    assert!(exists(&sandbox, "c.txt"));
}

#[test]
fn what_commands_of_a_run_do_to_its_files_is_undone_with_it() {
    let sandbox = sandbox();
    let again = edit("a.txt", "TWO", "2");
    let all = edit("a.txt", "one", "1") + &shell("sed -i s/two/TWO/ a.txt") + &again;
    run(&sandbox, "all", all + &shell("echo three >> a.txt"));
    assert_eq!(sandbox.read("a.txt"), "1\n2\nthree\n");
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    // What somebody else changes meanwhile is not the run's: it is shown.
    let path = sandbox.work().join("a.txt");
    let (first, second) = (edit("a.txt", "one", "1"), shell("true"));
    let mut replies = vec![first, second, answer("done")].into_iter();
    sandbox.llm.choose(move |_| {
        let reply = replies.next().unwrap();
        if reply.contains("true") {
            std::fs::write(&path, "1\ntwo\nmine\n").unwrap();
        }
        reply.into()
    });
    sandbox.run(&["--write", ".", "--conversation", "c", "meanwhile"]).assert_exit(0);
    take_back(&sandbox, &["--conversation", "c"]).assert_exit(1).stderr_has(&["by something else"]);
    assert_eq!(sandbox.read("a.txt"), "1\ntwo\nmine\n");
}

#[test]
fn what_does_not_go_with_undo_is_refused() {
    let sandbox = sandbox();
    for args in [&["--force"][..], &["--list"], &["--undo", "--clear"], &["--undo", "0"]] {
        sandbox.run(args).assert_exit(2);
    }
    sandbox.run(&["--undo", "--force", "--list"]).assert_exit(2);
}

#[test]
fn a_refusal_names_the_run_that_came_after() {
    let sandbox = sandbox();
    sandbox.llm.push(edit("a.txt", "one", "1"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-c", "p", "--write", ".", "first"]).assert_exit(0);
    sandbox.llm.push(edit("a.txt", "two", "2"));
    sandbox.llm.push(answer("done"));
    sandbox.file_edit(&["a.txt", "second", "thing"]).run().assert_exit(0);
    let refused = take_back(&sandbox, &["-c", "p"]).assert_exit(1);
    refused
        .stderr_has(&["a.txt was changed", "nagent-file-edit FILE --undo takes that back first"]);
    sandbox.file_edit(&["a.txt", "--undo"]).run().assert_exit(0);
    take_back(&sandbox, &["-c", "p"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

#[test]
fn a_hard_link_that_was_made_after_the_run_keeps_what_it_has() {
    let sandbox = sandbox();
    run(&sandbox, "x", edit("a.txt", "one", "1"));
    std::fs::hard_link(sandbox.work().join("a.txt"), sandbox.work().join("backup")).unwrap();
    let undone = take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!((&*sandbox.read("a.txt"), &*sandbox.read("backup")), ("one\ntwo\n", "1\ntwo\n"));
    undone.stderr_has(&["other hard links", "a.txt"]);
}

#[test]
fn of_four_undos_at_once_one_undoes_the_run() {
    let sandbox = sandbox();
    run(&sandbox, "x", edit("a.txt", "one", "1"));
    // Each has chosen what it undoes before the first one does.
    let lock = sandbox.root().join("conversations/.locks/changes.json");
    let held = std::fs::File::create(lock).unwrap();
    held.lock().unwrap();
    let undos: Vec<_> = (0..4).map(|_| sandbox.cmd(&["--undo"]).spawn()).collect();
    std::thread::sleep(std::time::Duration::from_secs(1));
    drop(held);
    let mut ended: Vec<Run> = undos.into_iter().map(Running::wait).collect();
    ended.sort_by_key(|run| run.code);
    assert_eq!(ended.iter().map(|run| run.code).collect::<Vec<_>>(), [0, 1, 1, 1]);
    ended[1..].iter().for_each(|run| assert!(run.stderr.contains("nothing to undo")));
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}
