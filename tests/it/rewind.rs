//! `nagent-conversations rewind`: what goes, what stays, and which files have their content again.

use crate::compact::{checkpoint, fill, window};
use crate::sandbox::{Sandbox, answer, shell};

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
    assert!(run.stdout.contains("as it was before turn 3"), "{run:?}");
    let after = read(&sandbox);
    assert!(after.contains("first done") && !after.contains("second prompt"), "{after}");
    assert!(after.contains("Files are as they were left"), "{after}");
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
fn files_go_back_with_it_and_what_commands_changed_is_listed() {
    let sandbox = talk();
    let args = ["rewind", "c", "--turn", "6", "--files", "--json"];
    let done = sandbox.program(CONVERSATIONS, &args).run().assert_exit(0).json();
    assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("three\n".into(), "b\n".into()));
    let left: Vec<String> = serde_json::from_value(done["left_changed"].clone()).unwrap();
    let names: Vec<&str> = left.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert!(names.contains(&"c.txt") && names.contains(&"log.txt"), "{done}");
    assert!(!names.contains(&"a.txt"), "{done}");
    assert_eq!(done["files"][0]["after_sha256"], done["files"][0]["restored_sha256"]);
    assert!(read(&sandbox).contains("a.txt"), "{}", read(&sandbox));
    // In the middle of a run: what its first turns wrote stays, and can be undone.
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "4", "--files"]).run().assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "two\n");
    assert!(!sandbox.work().join("b.txt").exists());
    let after = read(&sandbox);
    assert!(after.contains("second prompt") && !after.contains("\nthree\n"), "{after}");
    sandbox.run(&["-c", "c", "--undo"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
    sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "1", "--files"]).run().assert_exit(0);
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
    run.stderr_has(&["nothing was undone", "the conversation is unchanged"]);
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
fn a_turn_that_was_compacted_is_in_its_archive() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    sandbox.llm.push(checkpoint("x"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let run = sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", "1"]).run().assert_exit(1);
    run.stderr_has(&["where a compaction put it", "expand c"]);
}

/// A child that is asked twice in one run, with these prompts: first it writes k1, then k1 and k2.
fn child_twice(prompts: [&'static str; 2]) -> Sandbox {
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
        let two = write("k1", "two\n") + &write("k2", "two\n");
        if answered == 1 { write("k1", "one\n") } else { two }.into()
    });
    sandbox.run(&["-c", "c", "-w", ".", "the-errand"]).assert_exit(0);
    assert_eq!((sandbox.read("k1"), sandbox.read("k2")), ("two\n".into(), "two\n".into()));
    sandbox
}

#[test]
fn a_child_that_went_on_goes_back_by_what_it_wrote_since() {
    for prompts in [["first", "second"], ["again", "again"]] {
        let sandbox = child_twice(prompts);
        let rewind = |turn| {
            sandbox.program(CONVERSATIONS, &["rewind", "c", "--turn", turn, "--files"]).run()
        };
        rewind("2").assert_exit(0);
        assert_eq!(sandbox.read("k1"), "one\n", "{prompts:?}");
        assert!(!sandbox.work().join("k2").exists(), "{prompts:?}");
        assert!(read(&sandbox).contains("Child conversations still have all that was said"));
        if prompts[0] == prompts[1] {
            // The child has both prompts still, and within a second nothing tells them apart.
            let before = read(&sandbox);
            rewind("1").assert_exit(1).stderr_has(&["which prompts of the child c.kid", "--files"]);
            assert_eq!((sandbox.read("k1"), read(&sandbox)), ("one\n".into(), before));
        } else {
            rewind("1").assert_exit(0);
            assert!(!sandbox.work().join("k1").exists());
        }
    }
    // What the child wrote cannot be told without its conversation.
    let sandbox = child_twice(["first", "second"]);
    std::fs::remove_file(sandbox.root().join("conversations/c.kid")).unwrap();
    let args = ["rewind", "c", "--turn", "2", "--files"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
    run.stderr_has(&["nothing was undone", "c.kid", "not there any more"]);
    assert_eq!((sandbox.read("k1"), sandbox.read("k2")), ("two\n".into(), "two\n".into()));
}

#[test]
fn files_that_the_log_does_not_know_of_stop_all_of_it() {
    let sandbox = talk();
    let before = read(&sandbox);
    // A copy, whose writes the log has under the other's name.
    sandbox.run(&["-c", "copy", "--load-conversation", "c"]).assert_exit(0);
    let edited = before.replace("third prompt", "the third prompt, in better words");
    for (name, turn, files) in [("copy", "1", "a.txt"), ("c", "6", "a.txt"), ("c", "3", "a.txt")] {
        if name == "c" {
            std::fs::write(sandbox.root().join("conversations/c"), &edited).unwrap();
        }
        let args = ["rewind", name, "--turn", turn, "--files"];
        let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
        run.stderr_has(&["nothing was undone", files, "without --files"]);
        assert_eq!((sandbox.read("a.txt"), sandbox.read("b.txt")), ("four\n".into(), "b\n".into()));
    }
    assert_eq!(read(&sandbox), edited);
    let left = std::fs::read_dir(sandbox.root().join("conversations")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("c-")), "an archive was left");
}

#[test]
fn a_refusal_names_a_way_that_works() {
    let sandbox = talk();
    sandbox.run(&["-c", "c", "--undo", "2"]).assert_exit(0);
    sandbox.write("a.txt", "one\nmine\n");
    let args = ["rewind", "c", "--turn", "1", "--files"];
    let run = sandbox.program(CONVERSATIONS, &args).run().assert_exit(1);
    run.stderr_has(&["nagent -c c --undo", "--force undoes all"]);
    sandbox.run(&["-c", "c", "--undo", "--force"]).assert_exit(0);
    sandbox.program(CONVERSATIONS, &args).run().assert_exit(0);
    let after = read(&sandbox);
    assert!(after.contains("nothing was left to take back: ") && !after.contains("first prompt"));
}

#[test]
fn a_full_disk_after_files_went_back_says_so_and_the_same_command_goes_on() {
    let names: String =
        (0..20).map(|n| format!("touch {n}-{}\n", "x".repeat(4))).collect::<String>();
    let sandbox = Sandbox::outside_temp().replies([
        write("a.txt", "one\n"),
        answer("first done"),
        shell(&format!("cd \"$LONG\"\n{names}")) + &write("a.txt", "two\n"),
        answer("second done"),
    ]);
    sandbox.llm.allow_rewrites();
    let long = sandbox.work().join("long".repeat(50)).join("name".repeat(50));
    std::fs::create_dir_all(&long).unwrap();
    let sandbox = sandbox.env("LONG", long.to_str().unwrap());
    for prompt in ["first", "second"] {
        sandbox.run(&["-c", "c", "-w", ".", prompt]).assert_exit(0);
    }
    let before = read(&sandbox);
    // Room for the archive, and not for the conversation, which then names the files that commands have changed.
    let script = format!(
        "trap '' XFSZ\nulimit -f {}\nexec {CONVERSATIONS} rewind c --turn 3 --files\n",
        before.len() / 512 + 2
    );
    let run = sandbox.program("/bin/sh", &["-c", &script]).run().assert_exit(1);
    run.stderr_has(&["a.txt", "content of then again", "The same command completes it"]);
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
