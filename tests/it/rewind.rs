//! `nagent-conversations rewind`: what goes, what stays, and which files have their content again.

use crate::compact::{checkpoint, fill, window};
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

const CONVERSATIONS: &str = env!("CARGO_BIN_EXE_nagent-conversations");

fn write(path: &str, text: &str) -> String {
    format!("<nagent-write path=\"{path}\">\n{text}</nagent-write>")
}

fn read(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap()
}

/// Three prompts: turns 1 and 2; 3, 4 and 5; 6 and 7.
fn talk() -> Sandbox {
    let sandbox = Sandbox::outside_temp().replies([
        write("a.txt", "one\n"),
        answer("first done"),
        write("a.txt", "two\n"),
        write("a.txt", "three\n") + &write("b.txt", "b\n"),
        answer("second done"),
        shell("echo more >> log.txt; echo x > c.txt") + &write("a.txt", "four\n"),
        answer("third done"),
    ]);
    sandbox.llm.allow_rewrites();
    for prompt in ["first prompt", "second prompt", "third prompt"] {
        sandbox.run(&["-c", "c", "-w", ".", prompt]).assert_exit(0);
    }
    sandbox
}

#[test]
fn it_goes_back_to_before_a_prompt_and_leaves_files() {
    let sandbox = talk();
    let before = read(&sandbox);
    let run = sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "3"]).run().assert_exit(0);
    assert!(run.stdout.contains("back to before turn 3"), "{run:?}");
    let after = read(&sandbox);
    assert!(after.contains("first done") && !after.contains("second prompt"), "{after}");
    assert!(after.contains("Files were not changed"), "{after}");
    assert_eq!(sandbox.read("a.txt"), "four\n");
    // The archive has every byte, and says where it goes on.
    let name = after.split("rewound=\"").nth(1).unwrap().split('"').next().unwrap();
    let archive = std::fs::read_to_string(sandbox.root().join("conversations").join(name)).unwrap();
    assert!(archive.starts_with(&before) && archive.contains("rewound_into=\"c\""));
    // The next turn counts on from there.
    sandbox.llm.push(answer("again"));
    sandbox.run(&["-c", "c", "go another way"]).assert_exit(0);
    assert!(read(&sandbox).contains("turn=\"3\""), "{}", read(&sandbox));
    let run = sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "9"]).run().assert_exit(1);
    run.stderr_has(&["has no turn 9; it has the turns 1 to 3"]);
    let run = sandbox.program(CONVERSATIONS, &["rewind", "c"]).run().assert_exit(2);
    run.stderr_has(&["--turn"]);
    sandbox.program(CONVERSATIONS, &["rewind", "none", "--turn", "1"]).run().assert_exit(1);
}

#[test]
fn files_go_back_with_it() {
    let sandbox = talk();
    let rewind = |turn| {
        let args = ["rewind", "c", "--turn", turn, "--files", "--json"];
        sandbox.program(CONVERSATIONS, &args).run()
    };
    let done = rewind("6").assert_exit(0).json();
    assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("three\n".into(), "b\n".into()));
    let files = done["files"].as_array().unwrap();
    let file = files.iter().find(|it| it["source_path"].as_str().unwrap().ends_with("/a.txt"));
    assert_eq!(file.unwrap()["after_sha256"], sys::fs::sha256(b"three\n"));
    assert!(!sandbox.work().join("c.txt").exists(), "what commands made is taken back, too");
    assert!(read(&sandbox).contains("as they were before: ") && read(&sandbox).contains("a.txt"));
    // In the middle of a run: its first turn is named.
    let before = read(&sandbox);
    rewind("4").assert_exit(1).stderr_has(&["begun with turn 4", "--turn 3 goes back"]);
    assert_eq!((sandbox.read("a.txt"), read(&sandbox)), ("three\n".into(), before));
    rewind("3").assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
    assert!(!sandbox.work().join("b.txt").exists());
    rewind("1").assert_exit(0);
    assert!(!sandbox.work().join("a.txt").exists());
    assert!(!read(&sandbox).contains("first prompt"));
}

#[test]
fn a_file_that_somebody_has_changed_stops_all_of_it() {
    let sandbox = talk();
    let before = read(&sandbox);
    sandbox.write("b.txt", "mine\n");
    let args = ["rewind", "c", "--turn", "3", "--files"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
    run.stderr_has(&["nothing was undone", "conversation c is unchanged"]);
    assert_eq!((read(&sandbox), sandbox.read("a.txt")), (before, "four\n".to_owned()));
}

#[test]
fn children_go_back_too() {
    const EDIT: &str = "<nagent-edit path=\"a.txt\">\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n</nagent-edit>";
    let sandbox = Sandbox::outside_temp().file("a.txt", "old\n");
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let last = request.last();
        if last.contains("change it") {
            EDIT.into()
        } else if last.contains("nagent-edit-result") {
            answer("child done").into()
        } else if last.contains("nagent-conversation-result") {
            answer("all done").into()
        } else {
            "<nagent-conversation file=\"a.txt\">change it</nagent-conversation>".into()
        }
    });
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "new\n");
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "1", "--files"]).run().assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "old\n");
}

#[test]
fn a_turn_that_was_compacted_is_refused() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    sandbox.llm.push(checkpoint("x"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let run = sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "1"]).run().assert_exit(1);
    run.stderr_has(&["has no turn 1;", "an archive may have others"]);
}

/// A child that is asked twice in one run: first it writes k1, then k2.
fn child_twice() -> Sandbox {
    let prompts = ["first", "second"];
    let sandbox = Sandbox::outside_temp();
    sandbox.llm.allow_rewrites();
    let (mut asked, mut answered) = (0, 0);
    sandbox.llm.choose(move |request| {
        let last = request.last();
        if last.contains("nagent-write-result") {
            return answer("child done").into();
        }
        if last.contains("the-errand") || last.contains("child done") {
            asked += 1;
            let ask = |prompt| {
                format!("<nagent-conversation name=\"kid\">{prompt}</nagent-conversation>")
            };
            return prompts.get(asked - 1).map_or_else(|| answer("all done"), ask).into();
        }
        answered += 1;
        if answered == 1 { write("k1", "one\n") } else { write("k2", "two\n") }.into()
    });
    sandbox.run(&["-c", "c", "-w", ".", "the-errand"]).assert_exit(0);
    assert_eq!((sandbox.read("k1"), sandbox.read("k2")), ("one\n".into(), "two\n".into()));
    sandbox
}

#[test]
fn a_child_goes_back_with_the_run_that_asked_it() {
    let sandbox = child_twice();
    let rewind = |name, turn| {
        let args = ["rewind", name, "--turn", turn, "--files"];
        sandbox.program(CONVERSATIONS, &args).run()
    };
    rewind("c", "2").assert_exit(1).stderr_has(&["begun with turn 2", "--turn 1 goes back"]);
    rewind("c.kid", "3").assert_exit(1).stderr_has(&["begun with turn 3", "--turn 1 goes back"]);
    assert!(sandbox.work().join("k2").exists());
    // The log tells what the child wrote, also without its conversation.
    std::fs::remove_file(sandbox.root().join("conversations/c.kid")).unwrap();
    rewind("c", "1").assert_exit(0);
    assert!(!sandbox.work().join("k1").exists() && !sandbox.work().join("k2").exists());
}

#[test]
fn a_run_on_its_own_file_goes_back_whole() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "0\n");
    sandbox.llm.allow_rewrites();
    let edit = |old, new| {
        format!(
            "<nagent-edit path=\"a.txt\">\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n</nagent-edit>"
        )
    };
    for reply in [edit(0, 1), shell("echo 2 > a.txt"), edit(2, 3), edit(3, 4), answer("done")] {
        sandbox.llm.push(reply);
    }
    sandbox.file_edit(&["--file", "a.txt", "task"]).run().assert_exit(0);
    let path = sandbox.conversation_path();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let rewind = |turn| {
        let args = ["rewind", &name, "--turn", turn, "--files"];
        sandbox.program(CONVERSATIONS, &args).run()
    };
    let refused = rewind("4").assert_exit(1);
    refused.stderr_has(&["--turn 1 goes back to where it began"]);
    assert_eq!(sandbox.read("a.txt"), "4\n");
    rewind("1").assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "0\n");
}

#[test]
fn what_a_command_of_the_turn_started_goes_back_too() {
    let config = serde_json::json!({"pass_env": ["OPENAI_API_KEY"]});
    let sandbox = Sandbox::outside_temp().config_also(config);
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let last = request.last();
        if last.contains("inner") {
            write("a.txt", "inner\n").into()
        } else if last.contains("outer") {
            shell(&format!("{NAGENT} -c other -w . the inner task")).into()
        } else {
            answer("done").into()
        }
    });
    sandbox.run(&["-c", "c", "the outer task"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "inner\n");
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "1", "--files"]).run().assert_exit(0);
    assert!(!sandbox.work().join("a.txt").exists());
}

#[test]
fn another_turn_of_the_same_number_stays() {
    let sandbox = talk();
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "6"]).run().assert_exit(0);
    for reply in [write("b.txt", "another\n"), answer("done")] {
        sandbox.llm.push(reply);
    }
    sandbox.run(&["-c", "c", "-w", ".", "another way"]).assert_exit(0);
    assert!(read(&sandbox).contains("turn=\"6\""));
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "6", "--files"]).run().assert_exit(0);
    assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("four\n".into(), "b\n".into()));
}

#[test]
fn what_the_run_of_another_conversation_wrote_stops_all_of_it() {
    let sandbox = talk();
    sandbox.run(&["-c", "copy", "--load-conversation", "c"]).assert_exit(0);
    let edited = read(&sandbox).replace("third prompt", "the third prompt, in better words");
    std::fs::write(sandbox.root().join("conversations/c"), &edited).unwrap();
    let args = ["rewind", "copy", "--turn", "1", "--files"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
    run.stderr_has(&["nothing was undone", ".txt", "nagent -c c --undo", "without --files"]);
    // An edited prompt is still the same run.
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "6", "--files"]).run().assert_exit(0);
    assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("three\n".into(), "b\n".into()));
}

#[test]
fn a_refusal_names_a_way_that_works() {
    let sandbox = talk();
    sandbox.run(&["-c", "c", "--undo", "2"]).assert_exit(0);
    sandbox.write("a.txt", "one\nmine\n");
    let args = ["rewind", "c", "--turn", "1", "--files"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
    run.stderr_has(&["--undo --force undoes all"]);
    sandbox.run(&["-c", "c", "--undo", "--force"]).assert_exit(0);
    sandbox.program(CONVERSATIONS, &args).run().assert_exit(0);
    assert!(!read(&sandbox).contains("first prompt"));
}

#[test]
fn a_full_disk_after_files_went_back_says_so_and_the_same_command_goes_on() {
    let sandbox = Sandbox::outside_temp().replies([
        write("a.txt", "one\n"),
        answer("first done"),
        write("a.txt", "two\n"),
        answer("second done"),
    ]);
    sandbox.llm.allow_rewrites();
    for prompt in ["first", "second"] {
        sandbox.run(&["-c", "c", "-w", ".", prompt]).assert_exit(0);
    }
    let before = read(&sandbox);
    // Room for what is undone, and not for the archive.
    let script = format!(
        "trap '' XFSZ\nulimit -f {}\nexec {CONVERSATIONS} rewind c --turn 3 --files\n",
        before.len() / 512 - 1
    );
    let run = sandbox.program("/bin/sh", &["-c", &script]).run().assert_exit(1);
    run.stderr_has(&["a.txt", "files were restored", "Run the same command again"]);
    assert_eq!((sandbox.read("a.txt"), read(&sandbox)), ("one\n".into(), before));
    let args = ["rewind", "c", "--turn", "3", "--files"];
    sandbox.program(CONVERSATIONS, &args).run().assert_exit(0);
    let after = read(&sandbox);
    assert_eq!(sandbox.read("a.txt"), "one\n");
    assert!(after.contains("first done") && !after.contains("second done"), "{after}");
    // What stayed can be undone as before.
    sandbox.run(&["-c", "c", "--undo"]).assert_exit(0);
    assert!(!sandbox.work().join("a.txt").exists());
}
