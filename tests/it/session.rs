//! A session of `nagent-repl` from its start to its end: how it is opened, which conversation it continues, what it shows of
//! it, and what is typed during a run.

use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::json;

use crate::answers::{Answer, Latch};
use crate::conversations::CONVERSATIONS;
use crate::file_edit::{text, write};
use crate::pty::{Pty, screen_of};
use crate::repl::{prompt, screen, start};
use crate::sandbox::{NAGENT, Sandbox, answer, shell, wait_until};

fn prompts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect()
}

#[track_caller]
fn expect_last(pty: &Pty, line: &str) {
    wait_until(line, || screen(pty).last().is_some_and(|last| last == line));
}

#[track_caller]
fn expect_line(pty: &Pty, line: &str) {
    wait_until(line, || screen(pty).iter().any(|shown| shown == line));
}

#[test]
fn nagent_alone_on_a_terminal_opens_a_session() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let mut pty = sandbox.cmd(&["-c", "c", "-q"]).on_pty(80);
    expect_last(&pty, "»");
    prompt(&mut pty, "» ", "first");
    assert_eq!(screen(&pty)[..2], ["» first", "one"]);
    // The last exchange is shown, unless -q.
    let mut pty = sandbox.cmd(&["--continue"]).on_pty(300);
    expect_last(&pty, "»");
    let shown = screen(&pty);
    assert_eq!(shown[1..2], ["continues c"]);
    assert_eq!(shown[3..], ["│ first", "", "[turn 1]", "one", "", "»"]);
    prompt(&mut pty, "» ", "second");
    assert_eq!(prompts(&sandbox), ["first", "second"]);
    // The shell goes on with it.
    sandbox.llm.push(answer("three"));
    let line = format!("{NAGENT} --continue; {NAGENT} third < /dev/null");
    let mut pty = sandbox.program("bash", &["-c", &line]).on_pty(80);
    expect_last(&pty, "»");
    pty.type_keys("/quit\r");
    assert!(pty.wait().success());
    assert_eq!(prompts(&sandbox), ["first", "second", "third"]);
    // What asks for something else does that.
    for flags in [&["--json"][..], &["--code"], &["--pid", "1"], &["-o", "x"]] {
        let mut pty = sandbox.cmd(flags).on_pty(80);
        assert_eq!(pty.wait().code(), Some(2), "{flags:?}");
        assert!(pty.printed().contains("no prompt given"), "{}", pty.printed());
    }
    let mut pty = sandbox.cmd(&["--list-providers"]).on_pty(80);
    assert!(pty.wait().success());
    // And so does what another tool asks nagent for.
    let mut pty = sandbox.program(CONVERSATIONS, &["files"]).on_pty(80);
    assert!(pty.wait().success(), "{}", pty.printed());
    sandbox.cmd(&[""; 0]).stdin("").run().assert_exit(2).stderr_has(&["no prompt given"]);
}

#[test]
fn a_session_takes_up_the_conversation_that_nagent_takes_up() {
    let sandbox = Sandbox::new();
    for name in ["old", "last"] {
        sandbox.llm.push(answer(name));
        sandbox.run(&["-c", name, &format!("prompt of {name}")]).assert_exit(0);
    }
    sandbox.llm.push(answer("again"));
    let run = sandbox.repl(&["--continue", "go on"]).stdin("").run();
    run.assert_exit(0).stdout_is("again\n");
    let user = sandbox.requests().pop().unwrap().user();
    assert!(user.contains("prompt of last") && user.contains("go on"), "{user}");
    sandbox.llm.push(answer("older"));
    sandbox.repl(&["--continue", "ol"]).stdin("more\n").run().assert_exit(0);
    assert!(sandbox.requests().pop().unwrap().user().contains("prompt of old"));
    let why = "no conversation begins with \"none\"";
    sandbox.repl(&["--continue", "none"]).stdin("x\n").run().assert_exit(1).stderr_has(&[why]);
    sandbox.repl(&["-n", "-c", "last"]).stdin("x\n").run().assert_exit(2);
    // -n is a conversation of its own, and archives nothing.
    let count = sandbox.conversation_paths().len();
    sandbox.llm.push(answer("new"));
    let run = sandbox.repl(&["-n", "--json"]).stdin("x\n").run().assert_exit(0);
    assert!(text(&run.json()["conversation_path"]).contains("/new-"));
    assert_eq!(sandbox.conversation_paths().len(), count + 1);
}

#[test]
fn a_long_exchange_is_cut() {
    let long: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    let sandbox = Sandbox::new().reply(answer(&long));
    sandbox.run(&["-c", "c", "\x1b[2Jask"]).assert_exit(0);
    let pty = start(&sandbox, &["-c", "c"], "» ");
    let shown = screen(&pty);
    assert!(shown.contains(&"│ \\u{1b}[2Jask".to_owned()), "{shown:?}");
    assert!(shown.contains(&"… 28 more lines (/show)".to_owned()), "{shown:?}");
}

#[test]
fn a_note_beside_actions_is_not_shown_as_the_answer() {
    let note = "<nagent-response>I will look</nagent-response>".to_owned() + &shell("false");
    let sandbox = Sandbox::new().reply(note).answer(Answer::error(401, "no"));
    sandbox.run(&["-c", "c", "ask it"]).assert_exit(3);
    let pty = start(&sandbox, &["-c", "c"], "» ");
    let shown = screen(&pty);
    let ends = ["│ ask it", "no answer yet", "", "»"];
    assert!(shown.ends_with(&ends.map(str::to_owned)), "{shown:?}");
}

/// Conversations with these first prompts, the first of them the newest.
fn conversations(sandbox: &Sandbox, named: impl Iterator<Item = (String, String)>) {
    sandbox.llm.push(answer("model"));
    sandbox.run(&["-c", "model", "MARK"]).assert_exit(0);
    let path = sandbox.root().join("conversations/model");
    let text = std::fs::read_to_string(&path).unwrap();
    for (at, (name, words)) in named.enumerate() {
        let path = path.with_file_name(name);
        std::fs::write(&path, text.replacen("\nMARK\n", &format!("\n{words}\n"), 1)).unwrap();
        let age = Duration::from_secs(3600 * (at as u64 + 2));
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_conversation_is_chosen_from_a_list() {
    let sandbox = Sandbox::new();
    let list = [
        ("latest-box-1-2", "Fix the parser, which fails on empty files"),
        ("kept", "Write the docs \x1b[2J of the parser"),
        ("latest-box-3-4", "Speed up the tests"),
        ("child-0123456789abcdef0123456789abcdef", "part of another"),
    ];
    let list = list.map(|(name, words)| (name.to_owned(), words.to_owned()));
    conversations(&sandbox, list.into_iter());
    let mut pty = sandbox.repl(&["-c", "fresh"]).on_pty(60);
    pty.expect("» ");
    pty.type_keys("/resume\r");
    expect_last(&pty, "3 of 3>");
    let shown = screen(&pty);
    assert_eq!(
        shown[shown.len() - 4..],
        [
            "›   2 h  Fix the parser, which fails on empty files",
            "    3 h  Write the docs \\u{1b}[2J of the parser  (kept)",
            "    4 h  Speed up the tests",
            "3 of 3>",
        ]
    );
    // Words as they are come before letters in this order; the age and the name count, too.
    pty.type_keys("Parser");
    expect_last(&pty, "2 of 3> Parser");
    pty.type_keys("\x1b[B");
    expect_line(&pty, "›   3 h  Write the docs \\u{1b}[2J of the parser  (kept)");
    pty.type_keys("\x15pdtst");
    expect_last(&pty, "1 of 3> pdtst");
    pty.type_keys("\x15nothing");
    expect_last(&pty, "0 of 3> nothing");
    pty.type_keys("\r");
    expect_last(&pty, "»");
    // Esc and Ctrl-C leave everything as it was.
    for keys in ["\x1b", "\x03"] {
        pty.type_keys("/resume\r");
        expect_last(&pty, "3 of 3>");
        pty.type_keys(keys);
        expect_last(&pty, "»");
    }
    // In a narrow window, which is resized meanwhile.
    pty.resize(20);
    pty.type_keys("/resume\r");
    expect_line(&pty, "›   2 h  Fix the p…");
    pty.resize(60);
    expect_line(&pty, "›   2 h  Fix the parser, which fails on empty files");
    pty.type_keys("4 h\r");
    expect_line(&pty, "continues the conversation");
    expect_last(&pty, "»");
    sandbox.llm.push(answer("done"));
    prompt(&mut pty, "» ", "go on");
    assert!(sandbox.requests().pop().unwrap().user().contains("Speed up the tests"));
    // By name, and without a terminal.
    prompt(&mut pty, "» ", "/resume kep");
    assert!(screen(&pty).contains(&"continues kept".to_owned()), "{:?}", screen(&pty));
    let run = sandbox.repl(&[""; 0]).stdin("/resume\n").run().assert_exit(0);
    assert!(run.stdout.contains("Speed up the tests"), "{}", run.stdout);
}

#[test]
fn a_long_list_is_there_before_all_of_it_is_read() {
    let sandbox = Sandbox::new();
    let list = (0..2_000).map(|n| (format!("latest-box-{n}-0"), format!("topic {n} of many")));
    conversations(&sandbox, list);
    let mut pty = sandbox.repl(&["-c", "fresh"]).on_pty(80);
    pty.expect("» ");
    pty.type_keys("/resume\r");
    pty.expect("2000 of 2000> ");
    let printed = pty.printed();
    assert!(printed.find("topic 0 of many") < printed.find("2000 of 2000> "), "{printed:?}");
    pty.type_keys("1999");
    pty.expect("›  83 d  topic 1999 of many");
    pty.type_keys("\r");
    pty.expect("continues the conversation");
}

/// Types a line, and returns what the session shows of it.
fn shown_after(pty: &mut Pty, keys: &str) -> String {
    let before = pty.printed().len();
    prompt(pty, "» ", keys);
    screen_of(&pty.printed()[before..], 160).join("\n")
}

#[test]
fn the_commands_about_a_conversation() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("src/x.txt", "");
    let mut pty = start(&sandbox, &["-c", "c"], "» ");
    let mut check = |keys: &str, part: &str| {
        let shown = shown_after(&mut pty, keys);
        assert!(shown.contains(part), "{keys}: {part:?} in\n{shown}");
    };
    let work = sandbox.work().canonicalize().unwrap().display().to_string();
    check("/diff", "this conversation has changed no file");
    check("/write maybe", "/write: use on, which is -w, or off");
    check("/write", "tags may write in temporary folders\n");
    check("/write on", &format!("tags may write in temporary folders, {work}\n"));
    sandbox.llm.push("<nagent-read path=\"a.txt\"/>".to_owned());
    sandbox.llm.push(write("a.txt", "two\n") + &write("b.txt", "new\n"));
    sandbox.llm.push(write("a.txt", "three\n"));
    sandbox.llm.push(answer("done"));
    check("go", "done");
    // What the user has changed since is not shown.
    sandbox.write("b.txt", "mine\n");
    check("/diff", "@@ -1 +1 @@\n-one\n+three\n");
    sandbox.write("b.txt", "new\n");
    check("/diff", "+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n");
    check("/write off", "tags may write in temporary folders\n");
    check("/cost", "prompts of this session: 4 turns, 4000 tokens in");
    check("/cost", "this conversation, without its children: 4 turns, 4000 tokens in");
    check("/status", "the conversation: 1 prompt, about ");
    let shown = shown_after(&mut pty, "/status");
    assert!(
        !shown.contains("look = ") && !shown.contains("(default)") && shown.lines().count() < 20,
        "{shown}"
    );
    let mut check = |keys: &str, part: &str| {
        let shown = shown_after(&mut pty, keys);
        assert!(shown.contains(part), "{keys}: {part:?} in\n{shown}");
    };
    check("/compact", "nothing to compact: about ");
    check("!", "! needs a command line for your shell, as in !ls");
    check("/read src", "/read: src is a folder; name it in the prompt");
    check("/show abc", "/show takes a number of entries, and not abc");
    // What another conversation of the same shell has changed is not the shell's own's.
    sandbox.llm.push(write("d.txt", "other\n"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-w", "-c", "d", "task"]).assert_exit(0);
    let run = sandbox.repl(&[""; 0]).stdin("/diff\n").run().assert_exit(0);
    assert_eq!(run.stdout, "this conversation has changed no file\n");
    let run = sandbox.repl(&["-c", "c"]).stdin("/diff\n/cost\n/write\n").run().assert_exit(0);
    for part in
        ["+three\n", "prompts of this session: 0 turns", "tags may write in temporary folders\n"]
    {
        assert!(run.stdout.contains(part), "{part:?} in {}", run.stdout);
    }
}

#[test]
fn another_model_goes_on_with_the_conversation() {
    let sandbox = Sandbox::new();
    let models =
        json!({"data": [{"id": "test-model"}, {"id": "test-model-large"}, {"id": "gpt-5.5"}]});
    let models = models.to_string();
    sandbox.llm.beside(move |request| {
        let is_list = request.path.ends_with("/models");
        is_list.then(|| Answer::raw(200, "application/json", models.clone()))
    });
    sandbox.llm.push(answer("one"));
    sandbox.llm.push(answer("two"));
    let mut pty = start(&sandbox, &[], "» ");
    prompt(&mut pty, "» ", "first");
    let shown = shown_after(&mut pty, "/model test-modle-large");
    let why =
        "openai has no model test-modle-large; did you mean test-model-large? /model lists them";
    assert!(shown.contains(why), "{shown}");
    assert!(shown_after(&mut pty, "/model test-model-large").contains("model: test-model-large"));
    let shown = shown_after(&mut pty, "/model gpt-5.4");
    assert!(shown.contains("openai has no model gpt-5.4"), "what nagent knows of openai: {shown}");
    // A version of one that is listed is not a typo.
    assert!(shown_after(&mut pty, "/model gpt-5.5-2026-05-01").contains("model: gpt-5.5-2026"));
    prompt(&mut pty, "» ", "second");
    let last = sandbox.requests().pop().unwrap();
    assert_eq!(last.json()["model"], "gpt-5.5-2026-05-01");
    assert!(last.user().contains("first"), "{}", last.user());
    // A provider without a list may have any.
    let program =
        sandbox.script("model", "#!/bin/sh\necho '<nagent-response>ok</nagent-response>'\n");
    let sandbox = Sandbox::new().config(json!({"provider": "command", "command": [program]}));
    sandbox.repl(&[""; 0]).stdin("/model anything\nx\n").run().assert_exit(0).stdout_is("ok\n");
}

#[test]
fn ctrl_x_ctrl_e_opens_the_line_in_the_editor() {
    let sandbox = Sandbox::new().reply(answer("ok"));
    let editor = sandbox.script("editor", "#!/bin/sh\nprintf 'and more\\nlast\\n' >> \"$1\"\n");
    let sandbox = sandbox.env("VISUAL", editor.to_str().unwrap());
    let mut pty = start(&sandbox, &[], "» ");
    pty.type_keys("begin \x18\x05");
    expect_last(&pty, "last");
    prompt(&mut pty, "» ", "!");
    assert_eq!(prompts(&sandbox), ["begin and more\nlast!"]);
    sandbox.script("editor", "#!/bin/sh\nexit 3\n");
    pty.type_keys("kept\x18\x05");
    pty.expect("failed (exit status: 3)");
    expect_last(&pty, "» kept");
}

#[test]
fn what_is_entered_during_a_run_is_its_next_message() {
    let (first, second) = (Latch::default(), Latch::default());
    let sandbox = Sandbox::new().answer(Answer::held(&first, shell("true")));
    sandbox.llm.push(Answer::held(&second, answer("two")));
    sandbox.llm.push(answer("three"));
    let mut pty = start(&sandbox, &["-c", "c"], "» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    // It is shown below the line that turns, and Enter sends it.
    pty.type_keys("also\x7f\x7fl tests \x1b[D世");
    expect_last(&pty, "» all tests 世");
    pty.type_keys("\r");
    expect_line(&pty, "note: queued for the model: all tests 世");
    first.release();
    expect_line(&pty, "note: message from the user: all tests 世");
    sandbox.llm.wait_for_requests(2);
    assert!(sandbox.requests()[1].user().contains("all tests 世"));
    // A paste is one message; a command, and what follows it, waits; a line without Enter is the next prompt's.
    pty.type_keys("one\r\ttwo");
    expect_last(&pty, "»  two");
    pty.type_keys("\r");
    pty.expect("queued for the model: one");
    pty.type_keys("!echo ran\r");
    pty.expect("queued for the end of the run: !echo ran");
    // Alt-Enter begins another line.
    pty.type_keys("after\x1b\rit\r");
    pty.expect("queued for the end of the run: after");
    pty.type_keys("unfinished");
    expect_last(&pty, "» unfinished");
    sandbox.llm.push(answer("four"));
    second.release();
    pty.expect("four");
    expect_last(&pty, "» unfinished");
    assert_eq!(prompts(&sandbox), ["go", "all tests 世", "one\n\ttwo", "after\nit"]);
    assert!(screen(&pty).contains(&"ran".to_owned()), "{:?}", screen(&pty));
    assert!(!pty.printed().contains("also"), "no key is echoed by the terminal");
    // Up brings what was sent back.
    pty.type_keys("\x15\x1b[A\x1b[A\x1b[A\x1b[A");
    expect_last(&pty, "        two");
}

#[test]
fn what_waits_for_the_end_of_a_run_is_not_done_after_an_interrupt() {
    let latch = Latch::default();
    let sandbox = Sandbox::new().answer(Answer::held(&latch, answer("never")));
    let mut pty = start(&sandbox, &["-c", "c"], "» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    pty.type_keys("!touch ran\r");
    pty.expect("queued for the end of the run: !touch ran");
    pty.type_keys("\x03");
    pty.expect("not done: !touch ran");
    // The history has it.
    pty.type_keys("\x1b[A");
    expect_last(&pty, "» !touch ran");
    assert!(!sandbox.work().join("ran").exists());
}

#[test]
fn an_answer_is_not_broken_by_what_is_typed() {
    let sandbox = Sandbox::new();
    let text = format!("first {}", "word ".repeat(200));
    sandbox.llm.push(Answer::StallBody(answer(&text).as_str().into()));
    let mut pty = start(&sandbox, &["-c", "c"], "» ");
    pty.type_keys("go\r");
    pty.expect("first word");
    pty.type_keys("typed\r");
    let messages = sandbox.root().join("conversations/c.messages");
    wait_until("it is sent", || std::fs::read_dir(&messages).is_ok_and(|it| it.count() == 1));
    assert!(!pty.printed().contains("typed"), "{}", pty.printed());
    pty.type_keys("\x03");
    pty.expect("note: queued for the model: typed");
    pty.expect("(interrupted)");
    pty.expect_times("\x1b[?2004h", 2);
    // It is not lost: it precedes the next prompt.
    sandbox.llm.push(answer("done"));
    prompt(&mut pty, "» ", "next");
    assert_eq!(prompts(&sandbox), ["go", "typed", "next"]);
}

/// A shell with job control, whose job the session is. The one that is `sh` may leave the modes of the terminal alone.
#[test]
fn a_run_is_stopped_and_continued_while_something_is_typed() {
    let latch = Latch::default();
    let sandbox = Sandbox::new().answer(Answer::held(&latch, answer("done")));
    let mut pty = sandbox.program("sh", &["-i"]).on_pty(160);
    pty.type_keys(&format!("{} -c c go\r", env!("CARGO_BIN_EXE_nagent-repl")));
    sandbox.llm.wait_for_requests(1);
    pty.type_keys("par");
    expect_last(&pty, "» par");
    pty.type_keys("\x1a");
    pty.expect("Stopped");
    wait_until("the shell has its modes", || pty.modes().contains("ECHO |"));
    pty.type_keys("fg\r");
    wait_until("the session has its modes", || !pty.modes().contains("ICANON"));
    pty.type_keys("tial");
    expect_last(&pty, "» partial");
    latch.release();
    pty.expect("done");
    expect_last(&pty, "» partial");
}

#[test]
fn the_modes_of_the_terminal_are_back_after_each_end_of_a_run() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    // Of a terminal on which nothing changes them.
    let before = sandbox.program("true", &[""; 0]).on_pty(80).modes();
    let mut pty = sandbox.repl(&["-c", "c"]).on_pty(80);
    pty.expect("» ");
    pty.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    wait_until("keys are read", || !pty.modes().contains("ECHO |"));
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait().code(), Some(143));
    assert_eq!(pty.modes(), before);
}

#[test]
fn a_second_terminal_is_told_who_has_the_conversation() {
    let latch = Latch::default();
    let sandbox = Sandbox::new().answer(Answer::held(&latch, answer("one"))).reply(answer("two"));
    let mut first = start(&sandbox, &["-c", "c"], "» ");
    first.type_keys("go\r");
    sandbox.llm.wait_for_requests(1);
    let mut second = start(&sandbox, &["-c", "c"], "» ");
    second.type_keys("mine\r");
    second.expect("note: waiting for conversation c, in use by process ");
    latch.release();
    first.expect("one");
    second.expect("two");
    assert_eq!(prompts(&sandbox), ["go", "mine"]);
}

/// A terminal joins the rows of a line again in another width only if it broke them itself.
#[test]
fn a_prompt_of_several_rows_is_drawn_as_a_whole() {
    let sandbox = Sandbox::new();
    let mut pty = sandbox.repl(&["-q"]).on_pty(40);
    expect_last(&pty, "»");
    let text: String = ('a'..='z').cycle().take(100).collect();
    pty.type_keys(&text);
    pty.expect(&text);
    pty.type_keys("\x03/quit\r");
    assert!(pty.wait().success());
}
