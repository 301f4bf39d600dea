//! `nagent-file-edit --undo`: what is taken back, what is told, what is refused.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::answers::{Answer, Latch};
use crate::file_edit::{change, edit, text, undo, write};
use crate::sandbox::{Sandbox, answer};

#[test]
fn undo_brings_back_what_the_file_held_and_says_what_it_undid() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let path = sandbox.work().join("a.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o754)).unwrap();
    change(&sandbox, "first thing\nand more", "two", "2\n3");
    sandbox.llm.push(answer("an idle run"));
    sandbox.file_edit(&["--file", "a.txt", "only look"]).run().assert_exit(0);
    change(&sandbox, "second thing", "one", "1");
    assert_eq!(sandbox.read("a.txt"), "1\n2\n3\n");

    // Neither a model nor a credential is needed.
    let run = sandbox.file_edit(&["--file", "a.txt", "--undo", "--json"]);
    let json = run.env("OPENAI_API_KEY", "").run().assert_exit(0).no_stderr().json();
    let json = &json["files"][0];
    assert_eq!(sandbox.read("a.txt"), "one\n2\n3\n");
    assert_eq!(json["undone"].as_array().unwrap().len(), 1);
    let undone = &json["undone"][0];
    assert_eq!(undone["prompt"], "second thing");
    assert!(text(&undone["at"]).ends_with('Z'));
    assert_eq!(undone["before_sha256"], sys::fs::sha256(b"one\n2\n3\n"));
    assert_eq!(undone["before_sha256"], json["after_sha256"]);
    assert_eq!(undone["after_sha256"], sys::fs::sha256(b"1\n2\n3\n"));
    let previous = std::fs::read_to_string(text(&json["previous_path"])).unwrap();
    assert_eq!(previous, "1\n2\n3\n", "what was undone is kept");
    assert!(text(&json["diff"]).contains("-1\n+one\n"), "{json}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o754);

    let block = sandbox.blocks_of("system").pop().unwrap();
    assert_eq!((block.get("change"), block.get("count")), ("undo", "1"));
    for words in ["the user undid", "second thing", "Read the file again"] {
        assert!(block.body.contains(words), "{block:?}");
    }

    // A second one undoes the change before.
    let run = undo(&sandbox, &[]).assert_exit(0).no_stderr();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].ends_with("Z  first thing"), "{lines:?}");
    assert!(lines[1].starts_with("restored ") && lines[1].ends_with("a.txt"), "{lines:?}");
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo", "a.txt"]);

    // The model is told, and the conversation goes on.
    sandbox.llm.push(answer("I see"));
    sandbox.file_edit(&["--file", "a.txt", "and now?"]).run().assert_exit(0);
    assert!(sandbox.requests().pop().unwrap().last().contains("the user undid a change"));
}

#[test]
fn the_change_of_a_file_that_was_moved_is_refused() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    change(&sandbox, "to 1", "one", "1");
    let (old, new) = (sandbox.work().join("a.txt"), sandbox.work().join("b.txt"));
    std::fs::rename(&old, &new).unwrap();
    let undo = || sandbox.file_edit(&["--file", "b.txt", "--undo"]).run();
    undo().assert_exit(1).stderr_has(&["nothing was undone", "a.txt was removed or moved"]);
    assert_eq!(sandbox.read("b.txt"), "1\ntwo\n");
    std::fs::rename(&new, &old).unwrap();
    sandbox.file_edit(&["--file", "a.txt", "--undo"]).run().assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

/// A run that changes a line while somebody edits its conversation.
fn change_while(sandbox: &Sandbox, edit_conversation: impl Fn(&str) -> String) {
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, edit("a.txt", "one", "1")));
    sandbox.llm.push(answer("done"));
    let running = sandbox.file_edit(&["--file", "a.txt", "to 1"]).spawn();
    sandbox.llm.wait_for_requests(1);
    sandbox.edit_conversation(|text| edit_conversation(&text));
    latch.release();
    running.wait().assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "1\n");
}

#[test]
fn a_run_whose_conversation_was_edited_meanwhile_can_be_undone() {
    // Something was added: the run is in the same conversation.
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change_while(&sandbox, |text| format!("{text}\nA note.\n"));
    assert_eq!(sandbox.conversation_paths().len(), 1);
    assert!(sandbox.conversation().contains("\nA note.\n\n<agent-response"));
    assert!(undo(&sandbox, &[]).assert_exit(0).stdout.contains("to 1"));
    assert_eq!(sandbox.read("a.txt"), "one\n");

    // Something was changed: it is in a fork, to which a block leads.
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change_while(&sandbox, |text| text.replace("to 1", "to one"));
    assert_eq!(sandbox.conversation_paths().len(), 2);
    assert!(undo(&sandbox, &[]).assert_exit(0).stdout.contains("to 1"));
    assert_eq!(sandbox.read("a.txt"), "one\n");
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
    // The next prompt goes on in the conversation of the file, and the model knows of both.
    sandbox.llm.push(answer("I see"));
    sandbox.file_edit(&["--file", "a.txt", "and now?"]).run().assert_exit(0);
    let last = sandbox.requests().pop().unwrap();
    let seen = last.user();
    assert!(seen.contains("the run continued in conversation a-"), "{seen}");
}

#[test]
fn undo_takes_back_several_and_no_more_than_there_are() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "0\n");
    for n in 0..3 {
        change(&sandbox, &format!("to {}", n + 1), &n.to_string(), &(n + 1).to_string());
    }
    undo(&sandbox, &["4"]).assert_exit(1).stderr_has(&["cannot undo 4", "can be undone: 3"]);
    assert_eq!(sandbox.read("a.txt"), "3\n");
    undo(&sandbox, &["0"]).assert_exit(2);
    let json = undo(&sandbox, &["2", "--json"]).assert_exit(0).json();
    let prompts: Vec<&str> = json["files"][0]["undone"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| text(&one["prompt"]))
        .collect();
    assert_eq!(prompts, ["to 3", "to 2"], "the newest first");
    assert_eq!(sandbox.read("a.txt"), "1\n");
    undo(&sandbox, &["2"]).assert_exit(1).stderr_has(&["can be undone: 1"]);
    // What came after an undo can be undone like all else.
    change(&sandbox, "to 9", "1", "9");
    undo(&sandbox, &["2"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "0\n");
}

#[test]
fn a_file_that_was_changed_since_is_left_alone_unless_forced() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    sandbox.write("a.txt", "two\nby hand\n");
    let run = undo(&sandbox, &[]).assert_exit(1).no_stdout();
    run.stderr_has(&["nothing was undone", "changed by something else", "--force"]);
    let json = undo(&sandbox, &["--json"]).assert_exit(1).json();
    assert!(text(&json["files"][0]["source_path"]).ends_with("a.txt"), "{json}");
    assert_eq!(sandbox.read("a.txt"), "two\nby hand\n");
    let json = undo(&sandbox, &["--force", "--json"]).assert_exit(0).json();
    assert_eq!(sandbox.read("a.txt"), "one\n");
    let kept = std::fs::read_to_string(text(&json["files"][0]["previous_path"])).unwrap();
    assert_eq!(kept, "two\nby hand\n");
}

#[test]
fn what_something_else_changed_between_two_runs_is_not_taken_back_unasked() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    sandbox.write("a.txt", "by hand\ntwo\n");
    change(&sandbox, "y", "two", "three");
    undo(&sandbox, &["2"])
        .assert_exit(1)
        .stderr_has(&["between these changes", "a smaller number"]);
    assert_eq!(sandbox.read("a.txt"), "by hand\nthree\n");
    undo(&sandbox, &["1"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "by hand\ntwo\n");
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["changed by something else"]);
    undo(&sandbox, &["--force"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn a_file_that_a_run_created_is_removed_and_one_that_it_removed_comes_back() {
    let sandbox = Sandbox::outside_temp().reply(write("a.txt", "new\n")).reply(answer("made"));
    sandbox.file_edit(&["--file", "a.txt", "make"]).run().assert_exit(0);
    let json = undo(&sandbox, &["--json"]).assert_exit(0).json();
    assert!(!sandbox.work().join("a.txt").exists());
    assert_eq!(text(&json["files"][0]["after_sha256"]), "none");
    let kept = std::fs::read_to_string(text(&json["files"][0]["previous_path"])).unwrap();
    assert_eq!(kept, "new\n");

    let sandbox = Sandbox::outside_temp().file("a.txt", "old\r\n");
    sandbox.llm.push("<nagent-shell>rm a.txt</nagent-shell>");
    sandbox.llm.push(answer("gone"));
    sandbox.file_edit(&["--file", "a.txt", "remove it"]).run().assert_exit(0);
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "old\r\n");
    // Removed by something else: brought back on demand alone.
    change(&sandbox, "x", "old", "new");
    std::fs::remove_file(sandbox.work().join("a.txt")).unwrap();
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["was removed or moved by something else"]);
    undo(&sandbox, &["--force"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "old\r\n");
}

#[test]
fn a_file_that_was_brought_back_by_hand_counts_as_undone() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    sandbox.write("a.txt", "one\n");
    let run = undo(&sandbox, &[]).assert_exit(0);
    assert!(run.stdout.contains("has that content already"), "{}", run.stdout);
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
}

#[test]
fn a_kept_content_that_is_gone_or_forged_is_not_put_back() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    let hash = sys::fs::sha256(b"one\n");
    let kept = sandbox.root().join(format!("outputs/{hash}.txt"));
    std::fs::write(&kept, "forged\n").unwrap();
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing was undone", "its hash differs"]);
    std::fs::remove_file(&kept).unwrap();
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["cannot be read", &hash]);
    // An attribute that a hand has edited leads nowhere else.
    let log = sandbox.root().join("changes.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace(&hash, "../../../../etc/hostname")).unwrap();
    undo(&sandbox, &[]).assert_exit(1).stderr_has(&["is not the name of a stored content"]);
    assert_eq!(sandbox.read("a.txt"), "two\n");
}

#[test]
fn undo_waits_for_a_run_and_gives_up_when_told_to() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.file_edit(&["--file", "a.txt", "long"]).spawn();
    sandbox.llm.wait_for_requests(3);
    let run = undo(&sandbox, &["--lock-timeout", "0.2"]).assert_exit(1);
    run.stderr_has(&["waiting for conversation", "in use"]);
    running.signal(Signal::INT);
    running.wait().assert_exit(130);
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn a_killed_runs_writes_can_be_undone() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(edit("a.txt", "one", "two"));
    sandbox.llm.push(Answer::StallHead);
    let running = sandbox.file_edit(&["--file", "a.txt", "x"]).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(sandbox.read("a.txt"), "two\n");
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn what_does_not_go_with_undo_is_refused() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "x\n");
    let cases: [&[&str]; 6] = [
        &["--undo", "1", "prompt"],
        &["--undo", "--clear"],
        &["--undo", "--history"],
        &["--undo", "--check", "true"],
        &["--force", "prompt"],
        &["--history", "prompt"],
    ];
    for args in cases {
        sandbox.file_edit(&[&["--file", "a.txt"], args].concat()).run().assert_exit(2);
    }
}

#[test]
fn a_link_that_is_planted_since_leads_no_undo_elsewhere() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("victim", "mine\n");
    change(&sandbox, "x", "one", "two");
    let path = sandbox.work().join("a.txt");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("victim", &path).unwrap();
    for force in [&[][..], &["--force"]] {
        undo(&sandbox, force).assert_exit(1).stderr_has(&["nothing to undo", "victim"]);
    }
    assert_eq!(sandbox.read("victim"), "mine\n");
}

#[test]
fn undo_from_a_command_of_the_same_conversation_is_refused() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    let program = crate::file_edit::FILE_EDIT;
    sandbox.llm.push(format!("<nagent-shell>{program} --file a.txt --undo</nagent-shell>"));
    sandbox.llm.push(answer("done"));
    sandbox.file_edit(&["--file", "a.txt", "undo it"]).run().assert_exit(0);
    let block = sandbox.block("nagent-shell-result");
    assert_eq!(block.get("exit_code"), "2", "{block:?}");
    assert!(block.body.contains("is waiting for this command"), "{block:?}");
    assert_eq!(sandbox.read("a.txt"), "two\n");
}

#[test]
fn a_file_whose_links_are_several_is_brought_back_in_place() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    std::fs::hard_link(sandbox.work().join("a.txt"), sandbox.work().join("other")).unwrap();
    change(&sandbox, "x", "one", "two");
    assert_eq!(sandbox.read("other"), "two\n");
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("other"), "one\n");
}

#[test]
fn a_terminal_gets_the_diff_of_an_undo() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    let run = sandbox.file_edit(&["--file", "a.txt", "--undo"]).run_on_terminal();
    run.assert_exit(0).stderr_has(&["-two", "+one"]);
}

#[test]
fn a_kept_content_that_was_damaged_is_kept_anew_before_a_write() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "x", "one", "two");
    change(&sandbox, "x", "two", "one");
    for entry in std::fs::read_dir(sandbox.root().join("outputs")).unwrap() {
        std::fs::write(entry.unwrap().path(), "").unwrap();
    }
    change(&sandbox, "x", "one", "three");
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}
