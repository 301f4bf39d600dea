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
