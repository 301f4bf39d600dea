//! `nagent-file-edit`: a file's own conversation and its diff.

use std::path::PathBuf;

use serde_json::Value;

use crate::answers::Answer;
use crate::process_under_test::Run;
use crate::sandbox::{CANARY, Invocation, Sandbox, answer};

pub(crate) const FILE_EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

impl Sandbox {
    pub(crate) fn file_edit(&self, args: &[&str]) -> Invocation<'_> {
        self.program(FILE_EDIT, args)
    }
}

pub(crate) fn edit(path: &str, from: &str, to: &str) -> String {
    format!(
        "<nagent-edit path=\"{path}\">\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n</nagent-edit>"
    )
}

pub(crate) fn write(path: &str, text: &str) -> String {
    format!("<nagent-write path=\"{path}\">\n{text}</nagent-write>")
}

/// One run on `a.txt` with a prompt, which changes a line.
#[track_caller]
pub(crate) fn change(sandbox: &Sandbox, prompt: &str, from: &str, to: &str) -> Run {
    sandbox.llm.push(edit("a.txt", from, to));
    sandbox.llm.push(answer("done"));
    sandbox.file_edit(&["--file", "a.txt", prompt]).run().assert_exit(0)
}

pub(crate) fn undo(sandbox: &Sandbox, more: &[&str]) -> Run {
    sandbox.file_edit(&[&["--file", "a.txt", "--undo"], more].concat()).run()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

// One file.

#[test]
fn the_answer_goes_to_stdout_and_the_whole_story_into_json() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    change(&sandbox, "make it 2", "two", "2").stdout_is("done\n").no_stderr();
    assert_eq!(sandbox.read("a.txt"), "one\n2\n");

    sandbox.llm.push(edit("a.txt", "one", "1"));
    sandbox.llm.push(answer("again"));
    let run = sandbox.file_edit(&["--file", "a.txt", "--json", "make", "it 1"]).run();
    let json = run.assert_exit(0).no_stderr().json();
    assert_eq!(json["responses"], serde_json::json!(["again"]));
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n 2\n";
    assert_eq!((text(&json["diff"]), &json["diff_cut"]), (diff, &Value::Bool(false)));
    assert_eq!((&json["changed"], &json["cleared"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!(json["before_sha256"], sys::fs::sha256(b"one\n2\n"));
    assert_eq!(json["after_sha256"], sys::fs::sha256(b"1\n2\n"));
    let path = sandbox.work().canonicalize().unwrap().join("a.txt");
    assert_eq!(text(&json["source_path"]), path.to_str().unwrap());
    let conversation = sandbox.conversation_path();
    assert_eq!(text(&json["conversation_path"]), conversation.to_str().unwrap());
    assert!(sandbox.requests()[2].user().contains("make it 2"), "one conversation a file");

    sandbox.llm.push(answer("nothing to do"));
    let json = sandbox.file_edit(&["--file", "a.txt", "--json", "look"]).run().json();
    assert_eq!((&json["changed"], &json["diff"]), (&Value::Bool(false), &Value::Null));
}

#[test]
fn an_answer_behind_the_writes_ends_the_run_unless_one_fails() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    sandbox.llm.push(edit("a.txt", "two", "2") + &answer("done"));
    let run = sandbox.file_edit(&["--file", "a.txt", "make it 2"]).run().assert_exit(0);
    run.stdout_is("done\n").no_stderr();
    assert_eq!((sandbox.read("a.txt").as_str(), sandbox.requests().len()), ("one\n2\n", 1));

    sandbox.llm.push(edit("a.txt", "three", "3") + &answer("done"));
    sandbox.llm.push(answer("there is no three"));
    let run = sandbox.file_edit(&["--file", "a.txt", "make it 3"]).run().assert_exit(0);
    run.stdout_is("there is no three\n");
    assert_eq!(sandbox.requests().len(), 3);
}

#[test]
fn the_prompt_comes_from_words_from_stdin_or_from_both() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "x\n");
    let file = ["--file", "a.txt"];
    for _ in 0..3 {
        sandbox.llm.push(answer("ok"));
    }
    sandbox.file_edit(&file).stdin("from stdin").run().answers("ok");
    sandbox.file_edit(&["--file", "a.txt", "words", "-"]).stdin("and more").run().answers("ok");
    sandbox.file_edit(&["--file", "a.txt", "--read", "a.txt"]).run().answers("ok");
    let prompts: Vec<String> =
        sandbox.blocks_of("user-prompt").iter().map(|block| block.body.clone()).collect();
    assert_eq!(prompts, ["from stdin", "words\nand more"]);
    let run = sandbox.file_edit(&file).run().assert_exit(2).no_stdout();
    run.stderr_has(&["nagent-file-edit: no prompt given", "nagent-file-edit FILE"]);
    sandbox.write("a file", "x");
    let run = sandbox.file_edit(&["make it so", "a file"]).run().assert_exit(2);
    run.stderr_has(&["nagent-file-edit 'a file' 'make it so'"]);
}

#[test]
fn exit_codes_are_those_of_nagent() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "x\n");
    sandbox.llm.allow_rewrites();
    let run = |args: &[&str]| sandbox.file_edit(&[&["--file", "a.txt"], args].concat()).run();
    run(&["--max-turns", "0", "x"]).assert_exit(2);
    sandbox.file_edit(&["prompt"]).run().assert_exit(2).stderr_has(&["nagent-file-edit FILE"]);
    let missing = sandbox.file_edit(&["--file", "no/where.txt", "x"]).run().assert_exit(1);
    missing.stderr_has(&["/no/where.txt", "no such folder"]);
    let bare = Sandbox::outside_temp().no_config().file("a.txt", "x\n");
    let keyless = bare.file_edit(&["--file", "a.txt", "--provider", "openai", "x"]);
    keyless.env("OPENAI_API_KEY", "").run().assert_exit(2).stderr_has(&["no credential"]);
    sandbox.llm.choose(|_| Answer::error(401, "auth"));
    run(&["x"]).assert_exit(3);
    sandbox.llm.choose(|_| "<no tag".into());
    run(&["x"]).assert_exit(4);
    sandbox.llm.choose(|_| "<nagent-next>on</nagent-next>".into());
    run(&["--max-turns", "2", "x"]).assert_exit(5);
    sandbox.llm.choose(|_| answer("done").into());
    let unchecked = run(&["--check", "false", "--json", "x"]).assert_exit(6).json();
    assert_eq!((&unchecked["exit_code"], &unchecked["changed"]), (&6.into(), &false.into()));
}

#[test]
fn clear_and_a_prompt_make_one_document() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    change(&sandbox, "first", "one", "two");
    sandbox.llm.push(answer("fresh"));
    sandbox.llm.allow_rewrites();
    let run = sandbox.file_edit(&["--file", "a.txt", "--clear", "--json", "second"]).run();
    let json = run.assert_exit(0).json();
    assert_eq!((&json["cleared"], &json["responses"][0]), (&true.into(), &"fresh".into()));
    assert!(PathBuf::from(text(&json["archived_path"])).is_file());
    assert!(!sandbox.requests()[2].user().contains("first"));

    let json = sandbox.file_edit(&["--file", "a.txt", "--clear", "--json"]).run().json();
    assert_eq!((&json["cleared"], &json["exit_code"]), (&true.into(), &0.into()));
    assert!(json["source_path"].is_string(), "{json}");
    // The change is the file's, whatever its conversation has.
    undo(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn a_file_that_is_new_is_created_by_the_first_write() {
    let sandbox = Sandbox::outside_temp().reply(write("new.txt", "hello\n")).reply(answer("made"));
    let run = sandbox.file_edit(&["--file", "new.txt", "--json", "make it"]).run();
    let json = run.assert_exit(0).json();
    assert_eq!(sandbox.read("new.txt"), "hello\n");
    assert_eq!(text(&json["diff"]), "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n");
    assert_eq!((&json["before_sha256"], &json["changed"]), (&"none".into(), &true.into()));
}

#[test]
fn a_terminal_gets_the_diff_in_colour_without_what_could_steer_it() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(edit("a.txt", "one", "t\x1b[2Jwo"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.file_edit(&["--file", "a.txt", "x"]).run_on_terminal().assert_exit(0);
    assert!(run.stderr.contains("\x1b[31m-one\x1b[0m"), "{:?}", run.stderr);
    assert!(run.stderr.contains("\x1b[32m+t\\u{1b}[2Jwo\x1b[0m"), "{:?}", run.stderr);
    assert_eq!(run.stdout, "done\n");

    let long: String = (0..400).map(|n| format!("{n}\n")).collect();
    sandbox.llm.push("<nagent-read path=\"a.txt\"/>");
    for extra in [&[][..], &["--quiet"]] {
        sandbox.llm.push(write("a.txt", &format!("{}{long}", extra.len())));
        sandbox.llm.push(answer("done"));
        let args = [&["--file", "a.txt", "x"], extra].concat();
        let run = sandbox.file_edit(&args).env("NO_COLOR", "1").run_on_terminal().assert_exit(0);
        assert!(!run.stderr.contains('\x1b'), "{:?}", run.stderr);
        if extra.is_empty() {
            run.stderr_has(&["+++ b/a.txt", "lines omitted; to see all: diff -u /"]);
        } else {
            assert!(!run.stderr.contains("+++"), "{:?}", run.stderr);
        }
    }
    // And so it is with nagent --file-edit.
    sandbox.llm.push(write("a.txt", "short\n"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.cmd(&["--file-edit", "a.txt", "x"]).run_on_terminal().assert_exit(0);
    run.stderr_has(&["-10", "lines omitted"]);
}

#[test]
fn what_a_command_changed_and_what_is_no_text_is_in_the_diff_too() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push("<nagent-shell>printf 'two\\n' > a.txt</nagent-shell>");
    sandbox.llm.push(answer("done"));
    let json = sandbox.file_edit(&["--file", "a.txt", "--json", "x"]).run().json();
    assert!(text(&json["diff"]).ends_with("-one\n+two\n"), "{json}");
    sandbox.llm.push("<nagent-shell>printf 'a\\0b' > a.txt</nagent-shell>");
    sandbox.llm.push(answer("done"));
    let json = sandbox.file_edit(&["--file", "a.txt", "--json", "x"]).run().json();
    assert_eq!(text(&json["diff"]), "Binary files a/a.txt and b/a.txt differ\n");
    undo(&sandbox, &["2"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn a_long_diff_is_cut_in_a_childs_result() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let long: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
    let wrote = edit("a.txt", "one", long.trim_end());
    sandbox.llm.choose(move |request| match request.last() {
        last if last.contains("edit-result") => answer("done").into(),
        last if last.contains("conversation-result") => answer("done").into(),
        last if last.contains("make it long") => wrote.clone().into(),
        _ => "<nagent-conversation file=\"a.txt\">make it long</nagent-conversation>".into(),
    });
    sandbox.run(&["-c", "top", "task"]).assert_exit(0);
    let top = std::fs::read_to_string(sandbox.root().join("conversations/top")).unwrap();
    let blocks = crate::blocks::blocks(&top);
    let body =
        &blocks.iter().find(|block| block.name == "nagent-conversation-result").unwrap().body;
    let (head, end) = body.rsplit_once('\n').unwrap();
    assert_eq!(end, "[… the rest of the diff is not shown]");
    assert!(body.contains("-one\n+line 0\n") && body.len() < 5_000, "{body}");
    let last = head.lines().last().unwrap();
    assert!(last.strip_prefix("+line ").is_some_and(|n| n.parse::<u32>().is_ok()), "{last}");
}

#[test]
fn history_is_told_without_a_model() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "x\n").file("b.txt", "y\n");
    let args = ["-c", "user.name=Ada", "-c", "user.email=ada@x"];
    for words in [&["add", "."][..], &["commit", "-qm", "Begin"]] {
        let run = sandbox.program("git", &[&args[..], words].concat()).run();
        run.assert_exit(0);
    }
    let run = sandbox.file_edit(&["--file", "a.txt", "--history"]);
    let run = run.env("OPENAI_API_KEY", "").run().assert_exit(0);
    assert!(run.stdout.contains("Ada"), "{}", run.stdout);
    let json = sandbox.file_edit(&["b.txt", "--history", "--json"]).run().assert_exit(0).json();
    assert!(json["history"].as_str().unwrap().contains("Begin"), "{json}");
    assert_eq!(sandbox.requests().len(), 0);
}

#[test]
fn several_files_are_the_work_of_each() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "x\n").file("b.txt", "y\n");
    let run = sandbox.file_edit(&["--file", "a.txt", "--file", "b.txt", "x"]).run();
    run.assert_exit(2).no_stdout().stderr_has(&["nagent-each --own"]);
    assert_eq!(sandbox.requests().len(), 0, "nothing is begun");
}

#[test]
fn names_of_any_bytes_and_leading_dashes_are_files_too() {
    let sandbox = Sandbox::outside_temp();
    sandbox.llm.choose(|_| answer("ok").into());
    for name in ["-x y.txt", "q\"'\n.txt", "__init__.py"] {
        sandbox.write(name, "old\n");
        let args = [&format!("--file={name}"), "--clear", "--json", "x"];
        let json = sandbox.file_edit(&args).run().assert_exit(0).json();
        assert_eq!(json["cleared"], true);
    }
    assert!(!sandbox.everything_at_home().contains(CANARY));
}
