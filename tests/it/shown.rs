//! What the model was last shown of a file: nothing that has changed since is written over.

use crate::blocks::Block;
use crate::sandbox::{Sandbox, answer};

/// What happens while the model thinks, and its reply.
type Step = (Box<dyn FnMut() + Send>, String);

/// Runs replies one by one on `a.txt`'s own conversation; before each goes out, its step happens.
fn run_with(sandbox: &Sandbox, steps: Vec<Step>) {
    let mut steps = steps.into_iter();
    sandbox.llm.choose(move |_| {
        let (mut happens, reply) = steps.next().expect("no more requests than steps");
        happens();
        reply.into()
    });
    sandbox.run(&["--file-edit", "a.txt", "task"]).assert_exit(0);
}

fn nothing() -> Box<dyn FnMut() + Send> {
    Box::new(|| ())
}

/// Somebody saves `a.txt`.
fn save(sandbox: &Sandbox, text: &'static str) -> Box<dyn FnMut() + Send> {
    let path = sandbox.work().join("a.txt");
    Box::new(move || std::fs::write(&path, text).unwrap())
}

const READ: &str = "<nagent-read path=\"a.txt\"/>";

fn write(text: &str) -> String {
    format!("<nagent-write path=\"a.txt\">\n{text}</nagent-write>")
}

fn edit(from: &str, to: &str) -> String {
    format!(
        "<nagent-edit path=\"a.txt\">\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n</nagent-edit>"
    )
}

fn results(sandbox: &Sandbox, name: &str) -> Vec<Block> {
    sandbox.blocks_of(name)
}

#[track_caller]
fn refused(block: &Block, words: &[&str]) {
    assert_eq!(block.get("status"), "error", "{block:?}");
    for word in words {
        assert!(block.body.contains(word), "{word} in {block:?}");
    }
}

#[test]
fn a_file_that_was_saved_while_the_model_thought_is_not_written_over() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let saved = save(&sandbox, "one\nTWO, by the user\n");
    let steps = vec![
        (nothing(), READ.into()),
        (saved, write("new\ntwo\n")),
        (nothing(), write("new\nTWO, by the user\n")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    let results = results(&sandbox, "nagent-write-result");
    refused(&results[0], &["has changed since it was last shown", "-two\n+TWO, by the user"]);
    assert_eq!(results[1].get("status"), "ok", "once it was told, it knows: {:?}", results[1]);
    assert_eq!(sandbox.read("a.txt"), "new\nTWO, by the user\n");
}

#[test]
fn what_was_never_read_is_known_as_it_was_when_the_run_began() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let saved = save(&sandbox, "one\nmore\n");
    run_with(&sandbox, vec![(saved, write("x\n")), (nothing(), answer("left alone"))]);
    refused(&results(&sandbox, "nagent-write-result")[0], &["+more"]);
    assert_eq!(sandbox.read("a.txt"), "one\nmore\n");
}

#[test]
fn a_file_that_was_removed_while_the_model_thought_is_not_made_again_unasked() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let path = sandbox.work().join("a.txt");
    let removed = Box::new(move || std::fs::remove_file(&path).unwrap());
    let steps = vec![
        (nothing(), READ.into()),
        (removed, edit("one", "two")),
        (nothing(), write("two\n")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    refused(&results(&sandbox, "nagent-edit-result")[0], &["has been removed since"]);
    assert_eq!(results(&sandbox, "nagent-write-result")[0].get("status"), "ok");
    assert_eq!(sandbox.read("a.txt"), "two\n");
}

#[test]
fn a_file_that_appeared_while_the_model_thought_is_not_written_over() {
    let sandbox = Sandbox::outside_temp();
    let saved = save(&sandbox, "by the user\n");
    run_with(&sandbox, vec![(saved, write("x\n")), (nothing(), answer("left alone"))]);
    refused(&results(&sandbox, "nagent-write-result")[0], &["+by the user"]);
    assert_eq!(sandbox.read("a.txt"), "by the user\n");
}

#[test]
fn an_edit_of_lines_that_have_changed_since_is_refused_with_the_change() {
    // The search is found all the same, since only indentation differs.
    let sandbox = Sandbox::outside_temp().file("a.txt", "if a:\n  one()\n  two()\nrest\n");
    let saved = save(&sandbox, "if a:\n    one()\n    two()\nrest\n");
    let steps = vec![
        (nothing(), READ.into()),
        (saved, edit("  one()\n  two()", "  one()\n  three()")),
        (nothing(), edit("  one()\n  two()", "  one()\n  three()")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    let results = results(&sandbox, "nagent-edit-result");
    refused(&results[0], &["has changed since it was last shown", "-  two()", "+    two()"]);
    assert_eq!(results[1].get("status"), "ok", "{:?}", results[1]);
    assert_eq!(sandbox.read("a.txt"), "if a:\n    one()\n    three()\nrest\n");
}

#[test]
fn an_edit_beside_a_change_goes_through_and_keeps_it() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\nthree\nfour\n");
    let steps = vec![
        (nothing(), READ.into()),
        (save(&sandbox, "ONE\ntwo\nthree\nfour\n"), edit("four", "FOUR")),
        // What the user changed is still not known.
        (nothing(), write("one\ntwo\nthree\nFOUR\n")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    assert_eq!(results(&sandbox, "nagent-edit-result")[0].get("status"), "ok");
    let write = &results(&sandbox, "nagent-write-result")[0];
    refused(write, &["-one\n+ONE"]);
    assert_eq!(sandbox.read("a.txt"), "ONE\ntwo\nthree\nFOUR\n");
}

#[test]
fn a_search_that_is_gone_is_answered_with_what_became_of_it() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "alpha\nbeta\n");
    let saved = save(&sandbox, "alpha\ngamma\n");
    let steps = vec![
        (nothing(), READ.into()),
        (saved, edit("beta", "delta")),
        (nothing(), answer("left alone")),
    ];
    run_with(&sandbox, steps);
    refused(&results(&sandbox, "nagent-edit-result")[0], &["What changed:", "-beta\n+gamma"]);
    assert_eq!(sandbox.read("a.txt"), "alpha\ngamma\n");
}

#[test]
fn a_change_is_shown_once_in_a_reply() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "alpha\nbeta\n");
    let replies = || [edit("beta", "x"), edit("beta", "y"), write("z\n")].concat();
    let steps = vec![
        (nothing(), READ.into()),
        (save(&sandbox, "alpha\ngamma\n"), replies()),
        (save(&sandbox, "alpha\ndelta\n"), edit("gamma", "x")),
        (nothing(), answer("left alone")),
    ];
    run_with(&sandbox, steps);
    let edits = results(&sandbox, "nagent-edit-result");
    refused(&edits[0], &["What changed:", "-beta\n+gamma"]);
    for again in [&edits[1], &results(&sandbox, "nagent-write-result")[0]] {
        refused(
            again,
            &["has changed since it was last shown", "The change is shown in a result above"],
        );
        assert!(!again.body.contains("+gamma"), "{again:?}");
    }
    refused(&edits[2], &["What changed:", "-gamma\n+delta"]);
}

#[test]
fn what_was_shown_is_remembered_from_run_to_run() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    run_with(&sandbox, vec![(nothing(), READ.into()), (nothing(), answer("read"))]);
    sandbox.write("a.txt", "one\nTWO\n");
    run_with(&sandbox, vec![(nothing(), write("one\ntwo\nthree\n")), (nothing(), answer("left"))]);
    refused(&results(&sandbox, "nagent-write-result")[0], &["-two\n+TWO"]);
    // A result that a user removes is forgotten.
    sandbox.edit_conversation(|text| {
        let from = text.find("<nagent-read-result").unwrap();
        let end = "</nagent-read-result>\n";
        let to = from + text[from..].find(end).unwrap() + end.len();
        let text = format!("{}{}", &text[..from], &text[to..]);
        let from = text.find("<nagent-write-result").unwrap();
        text[..from].to_owned()
    });
    run_with(&sandbox, vec![(nothing(), write("x\n")), (nothing(), answer("done"))]);
    refused(results(&sandbox, "nagent-write-result").last().unwrap(), &["had read nothing of it"]);
    assert_eq!(sandbox.read("a.txt"), "one\nTWO\n");
}

#[test]
fn who_has_read_a_range_has_not_seen_the_file() {
    let text: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    let sandbox = Sandbox::outside_temp().file("a.txt", &text);
    let changed = text.replace("line 2\n", "LINE 2\n").replace("line 39\n", "LINE 39\n");
    let path = sandbox.work().join("a.txt");
    let saved = Box::new(move || std::fs::write(&path, &changed).unwrap());
    let steps = vec![
        (nothing(), READ.into()),
        (saved, "<nagent-read path=\"a.txt\" offset=\"30\"/>".into()),
        (nothing(), write("x\n")),
        (nothing(), answer("left alone")),
    ];
    run_with(&sandbox, steps);
    let write = &results(&sandbox, "nagent-write-result")[0];
    refused(write, &["-line 2\n+LINE 2", "-line 39\n+LINE 39"]);
}

#[test]
fn reading_a_file_that_may_be_written_copies_nothing() {
    let sandbox = Sandbox::in_folder("/tmp".as_ref()).file("a.txt", "one\n");
    sandbox.llm.push(READ);
    sandbox.llm.push(answer("read"));
    sandbox.run(&["task"]).assert_exit(0);
    assert_eq!(sandbox.block("nagent-read-result").get("shown").len(), 12);
    assert!(!sandbox.root().join("outputs").exists());
}

#[test]
fn a_run_that_changed_its_file_says_so_at_its_end_and_keeps_both_contents() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let steps = vec![
        (nothing(), edit("two", "three\nfour")),
        // A command counts too.
        (nothing(), "<nagent-shell>echo five >> a.txt</nagent-shell>".into()),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    let block = results(&sandbox, "system").pop().unwrap();
    assert_eq!(block.get("change"), "run", "{block:?}");
    assert!(block.body.starts_with("this run changed "), "{block:?}");
    let kept = |hash: &str| std::fs::read_to_string(sandbox.stored(hash)).unwrap();
    assert_eq!(kept(block.get("before")), "one\ntwo\n");
    assert_eq!(kept(block.get("after")), "one\nthree\nfour\nfive\n");
    let prompt = sandbox.block("user-prompt");
    assert_eq!(prompt.get("before"), block.get("before"));
    // One that changes nothing says nothing.
    sandbox.llm.choose(|_| answer("hello").into());
    sandbox.run(&["--file-edit", "a.txt", "task"]).assert_exit(0);
    assert_eq!(results(&sandbox, "system").len(), 1);
}

#[test]
fn json_tells_what_became_of_the_file() {
    let sandbox = Sandbox::outside_temp();
    sandbox.llm.push(write("new\n"));
    sandbox.llm.push(answer("done"));
    let json = sandbox.run(&["--json", "--file-edit", "a.txt", "task"]).assert_exit(0).json();
    assert_eq!((&json["changed"], &json["before_sha256"]), (&true.into(), &"none".into()));
    let hash = json["after_sha256"].as_str().unwrap().to_owned();
    assert!(sandbox.root().join(format!("outputs/{hash}.txt")).exists());
    sandbox.llm.push(answer("done"));
    let json = sandbox.run(&["--json", "--file-edit", "a.txt", "task"]).assert_exit(0).json();
    assert_eq!((&json["changed"], &json["after_sha256"]), (&false.into(), &().into()));
}

#[test]
fn in_a_main_conversation_it_holds_for_temporary_files() {
    let sandbox = Sandbox::in_folder("/tmp".as_ref()).file("a.txt", "one\n");
    let path = sandbox.work().join("a.txt");
    let mut steps = vec![
        (nothing(), READ.to_owned()),
        (Box::new(move || std::fs::write(&path, "ONE\n").unwrap()) as _, write("two\n")),
        (nothing(), answer("left alone")),
    ]
    .into_iter();
    sandbox.llm.choose(move |_| {
        let (mut happens, reply): Step = steps.next().unwrap();
        happens();
        reply.into()
    });
    sandbox.run(&["task"]).assert_exit(0);
    refused(&results(&sandbox, "nagent-write-result")[0], &["-one\n+ONE"]);
}

#[test]
fn what_a_reply_asks_to_be_shown_it_has_not_seen_when_it_writes() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let by_user = "one\nTWO, by the user\n";
    let both = |first: String| format!("{first}\n{}", write("x\n"));
    let steps = vec![
        (nothing(), READ.into()),
        (save(&sandbox, by_user), both(READ.into())),
        // It knows now what it read; a refusal counts from the next reply on, too.
        (save(&sandbox, "one\ntwo\nthree\n"), both(write("y\n"))),
        (nothing(), write("done\n")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    let results = results(&sandbox, "nagent-write-result");
    refused(&results[0], &["-two\n+TWO, by the user"]);
    refused(&results[1], &["-TWO, by the user\n+two\n+three"]);
    refused(&results[2], &["The change is shown in a result above"]);
    assert_eq!(results[3].get("status"), "ok", "{:?}", results[3]);
    assert_eq!(sandbox.read("a.txt"), "done\n");
}

#[test]
fn what_a_reply_has_written_itself_is_no_news_to_it() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\nthree\n");
    let all =
        [edit("one", "ONE"), edit("ONE", "1"), write("1\n2\n"), edit("2", "TWO"), write("last\n")];
    let steps =
        vec![(nothing(), READ.into()), (nothing(), all.join("\n")), (nothing(), answer("done"))];
    run_with(&sandbox, steps);
    assert_eq!(sandbox.read("a.txt"), "last\n");
}

#[test]
fn one_refused_edit_among_others_is_told_once() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "a\n  b\nc\nd\n");
    let two = |other: String| format!("{}\n{other}", edit("a\n  b", "a\n  B"));
    let steps = vec![
        (nothing(), READ.into()),
        (save(&sandbox, "a\n    b\nc\nd\n"), two(edit("d", "D"))),
        (nothing(), edit("a\n    b", "a\n    B")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    let states: Vec<_> = results(&sandbox, "nagent-edit-result")
        .iter()
        .map(|block| block.get("status").to_owned())
        .collect();
    assert_eq!(states, ["error", "ok", "ok"]);
    assert_eq!(sandbox.read("a.txt"), "a\n    B\nc\nD\n");
}

#[test]
fn the_change_of_a_large_file_is_its_present_text_and_refuses_once() {
    let text = "a line of text\n".repeat(400_000);
    let sandbox = Sandbox::outside_temp().file("a.txt", &text);
    let path = sandbox.work().join("a.txt");
    let saved = Box::new(move || {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("a line", "THE line", 1)).unwrap();
    });
    let steps =
        vec![(saved as _, write("x\n")), (nothing(), write("x\n")), (nothing(), answer("done"))];
    run_with(&sandbox, steps);
    let writes = results(&sandbox, "nagent-write-result");
    refused(&writes[0], &["The file is now:\nTHE line of text", "[… cut: read the file again]"]);
    assert_eq!(writes[1].get("status"), "ok", "{:?}", writes[1]);
    assert_eq!(sandbox.read("a.txt"), "x\n");
}

#[test]
fn what_somebody_saved_while_the_model_thought_is_no_change_of_the_run() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let steps =
        vec![(save(&sandbox, "by the user\n"), write("x\n")), (nothing(), answer("left alone"))];
    run_with(&sandbox, steps);
    crate::file_edit::undo(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
    assert_eq!(sandbox.read("a.txt"), "by the user\n");
    // Between two changes of one run: it is not undone unasked.
    let steps = vec![
        (nothing(), edit("by the user", "1")),
        (save(&sandbox, "1, by the user\n"), write("2\n")),
        (nothing(), write("2, by the user\n")),
        (nothing(), answer("done")),
    ];
    run_with(&sandbox, steps);
    crate::file_edit::undo(&sandbox, &[]).assert_exit(1).stderr_has(&["between these changes"]);
    assert_eq!(sandbox.read("a.txt"), "2, by the user\n");
    crate::file_edit::undo(&sandbox, &["--force"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "by the user\n");
}

#[test]
fn a_file_that_was_never_shown_is_not_written_over_however_often_that_is_tried() {
    let sandbox = Sandbox::new().file("a.txt", "one\ntwo\n").file("empty.txt", "");
    let empty = "<nagent-write path=\"empty.txt\">x\n</nagent-write>";
    let read = "<nagent-read path=\"a.txt\" offset=\"2\"/>".to_owned();
    for reply in [write("new\n") + empty, write("new\n"), read, write("new\n"), answer("done")] {
        sandbox.llm.push(reply);
    }
    sandbox.run(&["--write", ".", "task"]).assert_exit(0);
    let results = results(&sandbox, "nagent-write-result");
    refused(&results[0], &["exists (8 bytes)", "had read nothing of it", "Read it"]);
    assert_eq!(results[1].get("status"), "ok", "nothing is lost of an empty file");
    refused(&results[2], &["had read nothing of it"]);
    assert_eq!(results[3].get("status"), "ok", "a part is enough: {:?}", results[3]);
    assert_eq!(sandbox.read("a.txt"), "new\n");
}

#[test]
fn who_has_read_a_part_does_not_undo_what_was_saved_since() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    let steps = vec![
        (nothing(), "<nagent-read path=\"a.txt\" limit=\"1\"/>".to_owned()),
        (save(&sandbox, "one\nTWO\n"), write("x\n")),
        (nothing(), answer("left alone")),
    ];
    run_with(&sandbox, steps);
    refused(&results(&sandbox, "nagent-write-result")[0], &["has changed since it was last shown"]);
}

#[test]
fn a_file_that_the_user_showed_with_the_prompt_may_be_replaced_in_whatever_folder_that_was_given() {
    let write = "<nagent-write path=\"a.txt\">new</nagent-write>";
    let sandbox = Sandbox::new().file("a.txt", "old\n").file("sub/a.txt", "other\n");
    for folder in ["", "sub"] {
        sandbox.llm.push(write);
        sandbox.llm.push(answer("done"));
        let args = ["-c", "one", "-w", "-f", "a.txt", "Replace it"];
        sandbox.cmd(&args).folder(sandbox.work().join(folder)).run().assert_exit(0);
    }
    assert_eq!((sandbox.read("a.txt"), sandbox.read("sub/a.txt")), ("new".into(), "new".into()));
}

/// An edit shows its own lines, and no more of the file.
#[test]
fn who_has_edited_a_line_has_not_seen_the_file() {
    let text: String = (1..=500).map(|n| format!("{n}\n")).collect();
    let edit = |n: u32| edit(&n.to_string(), &format!("line {n}"));
    for args in [["-w", "task"].as_slice(), &["--file-edit", "a.txt", "--no-summaries", "task"]] {
        let at_once = vec![edit(3) + &write("x\n")];
        let later = vec![edit(3), edit(7), write("x\n")];
        for replies in [at_once, later] {
            let sandbox = Sandbox::outside_temp().file("a.txt", &text);
            replies.into_iter().chain([answer("left alone")]).for_each(|r| sandbox.llm.push(r));
            sandbox.run(args).assert_exit(0);
            refused(&results(&sandbox, "nagent-write-result")[0], &["had read nothing of it"]);
            assert_eq!(sandbox.read("a.txt").lines().count(), 500);
        }
    }
    // Who knew the file knows it still.
    let sandbox = Sandbox::outside_temp().file("a.txt", &text);
    for reply in [READ.to_owned(), edit(3), write("x\n"), answer("done")] {
        sandbox.llm.push(reply);
    }
    sandbox.run(&["-w", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "x\n");
}
