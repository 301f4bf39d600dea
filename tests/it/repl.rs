//! `nagent-repl`: its looks on a screen, its commands, prompts on stdin, keys in files, and what the seeds had.
//!
//! A name with `seed_` has the seed and the number of the ability that it shows.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::{edit, text};
use crate::pty::Pty;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};

/// Types a prompt, and waits until the next one can be typed.
#[track_caller]
pub(crate) fn prompt(pty: &mut Pty, sign: &str, keys: &str) {
    let count = pty.printed().matches("\x1b[?2004h").count();
    pty.type_keys(&format!("{keys}\r"));
    pty.expect_times("\x1b[?2004h", count + 1);
    let shown = |pty: &Pty| pty.printed().rsplit("\x1b[?2004h").next().unwrap().contains(sign);
    wait_until("the prompt is shown", || shown(pty));
}

#[track_caller]
pub(crate) fn start(sandbox: &Sandbox, args: &[&str], sign: &str) -> Pty {
    // Wide enough for a line with the path of any clone.
    let pty = sandbox.repl(args).on_pty(160);
    pty.expect(sign);
    pty
}

/// The screen without its banner, and without what differs from run to run.
pub(crate) fn screen(pty: &Pty) -> Vec<String> {
    let figures = regex::Regex::new(r"[0-9.]+ s\b").unwrap();
    let lines = pty.screen().into_iter();
    lines.map(|line| figures.replace_all(&line, "0.0 s").into_owned()).collect()
}

#[test]
fn prompts_on_stdin_are_answered_one_after_another() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let input = "first\\\nline\n\n  /check off\n//second\n";
    let run = sandbox.repl(&[""; 0]).stdin(input).run();
    run.assert_exit(0).stdout_is("one\n\ntwo\n").no_stderr();
    let prompts: Vec<String> =
        sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect();
    assert_eq!(prompts, ["first\nline", "/second"]);
    // It is the conversation of nagent in this shell: each goes on from the other.
    assert_eq!(sandbox.requests()[1].user().matches("first\nline").count(), 1);
}

#[test]
fn the_first_run_that_fails_ends_prompts_on_stdin() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(Answer::error(400, "invalid"));
    let run = sandbox.repl(&["--json"]).stdin("a\nb\nc\n").run().assert_exit(3);
    let document = run.json();
    assert_eq!(document["exit_code"], 3);
    let codes: Vec<&Value> =
        document["runs"].as_array().unwrap().iter().map(|run| &run["exit_code"]).collect();
    assert_eq!(codes, [&json!(0), &json!(3)]);
    assert_eq!(document["runs"][0]["responses"], json!(["one"]));
    assert!(text(&document["conversation_path"]).contains("/conversations/"));
    let sandbox = Sandbox::new().reply(Answer::error(400, "invalid"));
    let run = sandbox.repl(&[""; 0]).stdin("a\nb\n").run().assert_exit(3).no_stdout();
    run.stderr_has(&["nagent-repl: ", "the test server says no"]);
}

#[test]
fn commands_on_stdin_count_and_their_failures_end_it() {
    let sandbox = Sandbox::new().reply(answer("one"));
    let run = sandbox.repl(&["--json"]).stdin("a\n/save kept\n/summarise\n").run().assert_exit(1);
    let document = run.json();
    assert!(text(&document["error"]).contains("did you mean /summarize?"), "{document}");
    assert!(text(&document["runs"][1]["saved_path"]).ends_with("/kept"), "{document}");
    let sandbox = Sandbox::new();
    sandbox.repl(&[""; 0]).stdin("/load none\n").run().assert_exit(1).stderr_has(&["none"]);
    sandbox.repl(&[""; 0]).stdin("!exit 7\n").run().assert_exit(7);
    let run = sandbox.repl(&[""; 0]).stdin("!echo out\n/read none\n").run().assert_exit(1);
    run.stdout_is("out\n").stderr_has(&["there is no file none"]);
    let none = "no terminal and no input";
    sandbox.repl(&[""; 0]).stdin("").run().assert_exit(2).stderr_has(&[none]);
    sandbox.repl(&[""; 0]).stdin(" \n\n").run().assert_exit(2).stderr_has(&[none]);
    sandbox.repl(&[""; 0]).stdin("/quit\nnever\n").run().assert_exit(0).no_stdout();
}

#[test]
fn wrong_calls_are_refused_with_what_to_do() {
    let check = |args: &[&str], code: i32, words: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.repl(args).stdin("x\n").run().assert_exit(code).no_stdout().stderr_has(words);
        assert!(sandbox.requests().is_empty());
    };
    check(&["--look", "nono"], 2, &["no look \"nono\"", "plain, nano, pair, run"]);
    check(&["--look", "../../x"], 2, &["no look"]);
    check(&["--cd", "nowhere"], 1, &["--cd nowhere", "No such file"]);
    check(&["--code"], 2, &["nagent-repl has no --code"]);
    check(&["--conversation", "a/b"], 2, &["a/b"]);
    check(&["--provider", "nobody"], 2, &["no provider is named"]);
    check(&["--env-file", "nowhere.env"], 2, &["nowhere.env is not there", "TS_AGENT_API_KEY="]);
}

#[test]
fn a_look_of_ones_own_wins_and_cannot_ask_for_more_than_it_may() {
    let look = |text: &str| {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.root().join("looks")).unwrap();
        std::fs::write(sandbox.root().join("looks/nano.json"), text).unwrap();
        sandbox
    };
    let check = |text: &str, words: &[&str]| {
        let run = look(text).repl(&["--look", "nano"]).stdin("x\n").run();
        run.assert_exit(2).stderr_has(&[&["looks/nano.json"], words].concat());
    };
    check("{", &["JSON"]);
    check(r#"{"promt": "> "}"#, &["did you mean \"prompt\"?"]);
    check(r#"{"settings": {"base_url": "http://evil"}}"#, &["a look brings no others"]);
    check(r#"{"settings": {"command": ["sh"]}}"#, &["a look brings no others"]);
    check(r#"{"finish": "{lin}"}"#, &["did you mean \"line\"?"]);
    // It neither widens what the config allows nor turns off what it asks for.
    let sandbox =
        look(r#"{"settings": {"approve": "none", "tags": ["read", "shell"], "max_turns": 50}}"#)
            .config_also(json!({"approve": "shell", "tags": ["shell", "write"], "max_turns": 2}));
    sandbox.llm.push(shell("touch ran"));
    sandbox.llm.push(shell("true"));
    let run = sandbox.repl(&["--look", "nano"]).stdin("x\n").run();
    run.assert_exit(5);
    assert!(!sandbox.work().join("ran").exists());
    let system = sandbox.requests()[0].system();
    assert!(system.contains("<nagent-shell") && !system.contains("<nagent-read "), "{system}");
    assert!(!system.contains("<nagent-write "), "{system}");
}

#[test]
fn the_profile_beats_the_look_and_the_look_the_config() {
    let sandbox = Sandbox::outside_temp().config_also(json!({
        "look": "nano", "shell_timeout": 3, "profiles": {"p": {"tags": ["list"]}}
    }));
    let system = |flags: &[&str]| {
        sandbox.llm.push(answer("done"));
        sandbox.repl(&[&["--new"], flags].concat()).stdin("x\n").run().assert_exit(0);
        sandbox.requests().last().unwrap().system()
    };
    let nano = system(&[]);
    assert!(nano.contains("<nagent-glob") && !nano.contains("<nagent-list"), "{nano}");
    assert!(nano.contains("Be brief"), "{nano}");
    let profile = system(&["--profile", "p"]);
    assert!(profile.contains("<nagent-list") && !profile.contains("<nagent-glob"), "{profile}");
    let flag = system(&["--look", "plain"]);
    assert!(flag.contains("<nagent-list") && flag.contains("<nagent-glob"), "{flag}");
    assert!(!flag.contains("Be brief"));
}

pub(crate) const KEY_LINE: &str = "TS_AGENT_API_KEY=sk-from-env-file-0123456789\n";

/// A world with Anthropic's format and no key.
pub(crate) fn without_key() -> Sandbox {
    let sandbox = Sandbox::new();
    let origin = sandbox.llm.origin();
    sandbox.config(json!({})).env("OPENAI_API_KEY", "").env("ANTHROPIC_BASE_URL", &origin)
}

#[test]
fn a_key_of_an_env_file_is_written_nowhere() {
    let sandbox = without_key().file("keys", format!("OPENAI_API_KEY={CANARY}\n{KEY_LINE}"));
    sandbox.llm.push(shell("env | sort; cat /proc/$PPID/cmdline | tr '\\0' ' '"));
    sandbox.llm.push(answer("done"));
    let run =
        sandbox.repl(&["--env-file", "keys", "--provider", "anthropic", "--json"]).stdin("x\n");
    let run = run.run().assert_exit(0);
    for secret in [CANARY, "sk-from-env-file"] {
        assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{}", run.stdout);
        assert!(!sandbox.everything_at_home().contains(secret));
    }
}

#[test]
fn ollama_is_asked_once_at_the_start() {
    let sandbox = Sandbox::new().env("OLLAMA_HOST", "127.0.0.1:9").env("OPENAI_API_KEY", "");
    let run = sandbox.repl(&["--look", "run"]).stdin("x\n").run().assert_exit(3).within(2.5);
    run.stderr_has(&[
        "Ollama does not answer at http://127.0.0.1:9",
        "ollama serve",
        "OLLAMA_HOST",
    ]);
}

#[test]
fn plain_shows_what_nagent_shows() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    sandbox.llm.push(answer("I look") + &shell("seq 12"));
    sandbox.llm.push(edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("all done"));
    sandbox.llm.push(answer("again"));
    let mut pty = start(&sandbox, &["--write", "."], "» ");
    prompt(&mut pty, "» ", "go");
    prompt(&mut pty, "» ", "more");
    pty.type_keys("\x04");
    assert!(pty.wait().success());
    let expected = [
        &format!(
            "test-model in {}; /help lists commands",
            sandbox.work().canonicalize().unwrap().display()
        )[..],
        "» go",
        "I look",
        "→ shell │ seq 12",
        "  … 2 lines before",
    ];
    let lines = screen(&pty);
    assert_eq!(lines[1..5], expected[1..], "{lines:#?}");
    let rest = lines.join("\n");
    for part in
        ["\n  exit 0, 0.0 s, 27 B\n→ edit  a.txt\n", "\n-one\n+two\n", "\nall done\n[3 turns, "]
    {
        assert!(rest.contains(part), "{part:?} in {lines:#?}");
    }
    assert!(rest.contains("\n\n» more\nagain\n[1 turn, "), "{lines:#?}");
}

#[test]
fn the_conversation_is_that_of_nagent_in_this_shell() {
    let sandbox = Sandbox::new();
    for text in ["one", "two", "three"] {
        sandbox.llm.push(answer(text));
    }
    let line = format!("{NAGENT} first; printf 'second\\n' | {NAGENT}-repl; {NAGENT} third");
    let run = sandbox.program("sh", &["-c", &line]).run().assert_exit(0);
    assert_eq!(run.stdout, "one\ntwo\nthree\n");
    let user = sandbox.requests()[2].user();
    assert!(user.contains("first") && user.contains("second"), "{user}");
}

#[test]
fn a_malformed_reply_is_marked_and_an_error_leaves_the_session_up() {
    let sandbox = Sandbox::new().reply(answer("shown") + "word").reply(answer("right"));
    sandbox.llm.push(Answer::error(401, "authentication_error"));
    sandbox.llm.push(answer("still here"));
    let mut pty = start(&sandbox, &[], "» ");
    prompt(&mut pty, "» ", "go");
    prompt(&mut pty, "» ", "again");
    prompt(&mut pty, "» ", "and again");
    let text = screen(&pty).join("\n");
    for part in [
        "shown\nnote: reply 1 of 3 was not used",
        "right\n",
        "nagent-repl: ",
        "OPENAI_API_KEY",
        "still here\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn a_run_is_interrupted_and_the_session_goes_on() {
    let sandbox = Sandbox::new().reply(shell("touch started; sleep 30")).reply(answer("next"));
    let mut pty = start(&sandbox, &[], "» ");
    let before = pty.modes();
    pty.type_keys("go\r");
    wait_until("it runs", || sandbox.work().join("started").exists());
    pty.type_keys("\x03");
    pty.expect("(interrupted)");
    prompt(&mut pty, "» ", "more");
    pty.expect("next");
    assert_eq!(pty.modes(), before);
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait().code(), Some(143));
    assert!(pty.modes().contains("ICANON"), "{}", pty.modes());
}

#[test]
fn lines_are_edited_on_any_terminal() {
    let sandbox = Sandbox::new();
    (0..4).for_each(|_| sandbox.llm.push(answer("ok")));
    let mut pty = start(&sandbox, &[], "» ");
    // A paste waits for Enter; Alt-Enter and a last \ begin another line.
    pty.type_keys("\x1b[200~rm -rf x\r\nls \\\r\nend\x1b[201~");
    wait_until("it is shown", || screen(&pty).iter().any(|line| line == "end"));
    assert!(sandbox.requests().is_empty());
    prompt(&mut pty, "» ", "");
    prompt(&mut pty, "» ", "a\x1b\rb\\\rc");
    pty.resize(30);
    prompt(&mut pty, "» ", &"世界 e\u{301} ".repeat(9));
    // Up brings the last one back.
    prompt(&mut pty, "» ", "\x1b[A!");
    let prompts: Vec<String> =
        sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect();
    let wide = "世界 e\u{301} ".repeat(9);
    let wide = wide.trim();
    assert_eq!(prompts, ["rm -rf x\nls \\\nend", "a\nb\nc", wide, &format!("{wide} !")]);
}

/// Every row of the table of commands, typed.
#[test]
fn commands_are_calls_of_the_toolkit() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n").file("note.txt", "a note\n");
    let editor =
        sandbox.script("editor", "#!/bin/sh\nsed -i 's/first answer/edited answer/' \"$1\"\n");
    let sandbox = sandbox.env("EDITOR", editor.to_str().unwrap()).env("PAGER", "cat");
    sandbox.llm.allow_rewrites();
    let mut pty = sandbox.repl(&["--conversation", "c", "--write", "."]).on_pty(240);
    pty.expect("» ");
    let mut run = |keys: &str, part: &str| {
        let before = pty.printed().len();
        prompt(&mut pty, "» ", keys);
        let shown = crate::pty::screen_of(&pty.printed()[before..], 240).join("\n");
        assert!(shown.contains(part), "{keys}: {part:?} in\n{shown}");
    };
    run("/help", "/summarize");
    run("/status", "provider:openai");
    sandbox.llm.push(edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("first answer"));
    run("go", "first answer");
    run("/undo", "-two");
    assert_eq!(sandbox.read("a.txt"), "one\n");
    run("/save kept", "saved:");
    run("/edit", "/edit");
    let stored = sandbox.root().join("conversations/c");
    assert!(std::fs::read_to_string(stored).unwrap().contains("edited answer"));
    run("/show 3", "edited answer");
    run("/load kept", "loaded:");
    run("/show", "first answer");
    run("/branch kept", "archived:");
    run("/list", "kept");
    run("/model", "test-model");
    run("/model --keep other", "model: other");
    sandbox.llm.push(answer("with a note"));
    run("/read note.txt", "with the next prompt");
    run("look", "with a note");
    let last = sandbox.requests().pop().unwrap();
    assert!(last.user().contains("a note") && last.json()["model"] == "other");
    run("/check test -e done", "check: test -e done");
    sandbox.llm.push(shell("touch done"));
    sandbox.llm.push(answer("checked"));
    run("go", "→ check │ test -e done");
    run("/check off", "check: off");
    run("/approve none", "approve: none");
    run("/approve everything", "none, shell, ask");
    run("/sandbox off", "sandbox: off");
    run("!echo out; false", "exit 1");
    sandbox.llm.push(edit("a.txt", "one", "three"));
    sandbox.llm.push(answer("three it is"));
    run("/file a.txt make it three", "three it is");
    run("/undo a.txt", "-three");
    run("/model third", "(a new conversation)");
    run("/c", "(a new conversation)");
    run("/summarise", "did you mean /summarize?");
    run("/x", "no command /x");
    let broken = sandbox.script("editor", "#!/bin/sh\necho lost > \"$1\"; exit 3\n");
    assert!(broken.exists());
    run("/e", "what was saved is in ");
    sandbox.script("editor", "#!/bin/sh\nprintf 'written\\nthere' > \"$1\"\n");
    sandbox.llm.push(answer("read it"));
    run("/e", "read it");
    assert_eq!(sandbox.requests().pop().unwrap().json()["model"], "third");
    assert!(sandbox.conversation_paths().len() > 3, "what was put away is kept");
}

#[test]
fn what_cannot_be_used_is_reported_and_left_alone() {
    // More rows than the editor can count.
    let sandbox = Sandbox::new().reply(answer("ok"));
    let mut pty = start(&sandbox, &[], "» ");
    pty.type_keys(&format!("\x1b[200~{}\x1b[201~", "\r".repeat(70_000)));
    pty.expect("too long to be typed");
    prompt(&mut pty, "» ", "go");
    drop(pty);
    let history = || {
        let names = std::fs::read_dir(sandbox.root().join("repl")).unwrap();
        names.map(|name| name.unwrap().path()).next().unwrap()
    };
    let path = history();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let check = |pty: &Pty, part: &str| {
        assert!(pty.printed().contains(part), "{part:?} in {:?}", pty.printed());
    };
    std::fs::write(&path, b"#V2\n\xff\xfe\n").unwrap();
    check(&start(&sandbox, &[], "» "), "note: there is no history: cannot read ");
    assert_eq!(std::fs::read(&path).unwrap(), b"#V2\n\xff\xfe\n");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check(&start(&sandbox, &[], "» "), "is not a file");
    // A folder has a history of its own.
    let mut pty = start(&sandbox, &["--cd", "..", "--no-history"], "» ");
    pty.type_keys("\x04");
    assert!(pty.wait().success());
    assert_eq!(std::fs::read_dir(sandbox.root().join("repl")).unwrap().count(), 1);
}

#[test]
fn any_terminal_will_do() {
    let colours = regex::Regex::new("\x1b\\[[0-9;]+m").unwrap();
    for (variable, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        for look in ["plain", "nano", "pair"] {
            let sandbox = Sandbox::new().reply(shell("echo out")).reply(answer("done"));
            let pty = sandbox.repl(&["--look", look]).env(variable, value).on_pty(20);
            let mut pty = pty;
            wait_until("the prompt", || pty.screen().last().is_some_and(|line| !line.is_empty()));
            let sign = match look {
                "plain" => "»",
                "nano" => "❯",
                _ => "You:",
            };
            pty.expect(sign);
            pty.type_keys("go\r");
            pty.expect("done");
            pty.expect_times(sign, 2);
            pty.type_keys("exit\r");
            assert!(pty.wait().success());
            assert!(!colours.is_match(&pty.printed()), "{look}: {:?}", pty.printed());
            assert!(value != "dumb" || !pty.printed().contains('\x1b'), "{:?}", pty.printed());
        }
    }
}

#[test]
fn nothing_that_a_model_or_a_file_says_steers_the_terminal() {
    let evil = "\x1b]52;c;eA==\x07\x1b[2J\u{202e}\u{9b}31m";
    for look in ["plain", "nano", "pair", "run"] {
        let sandbox = Sandbox::new().file("a.txt", format!("{evil}\n"));
        sandbox.llm.push(shell(&format!("cat a.txt; echo '{evil}'; exit 3")));
        sandbox.llm.push(answer(&format!("said {evil}")));
        let args = ["--look", look, "--provider", "openai", "--approve", "none"];
        let mut pty = sandbox.repl(&args).on_pty(80);
        pty.expect_times("\x1b[?2004h", 1);
        pty.type_keys("go\r");
        pty.expect_times("\x1b[?2004h", 2);
        let printed = pty.printed();
        for part in ["\x1b]", "\x1b[2J", "\u{202e}", "\u{9b}", "\x07"] {
            assert!(!printed.contains(part), "{look}: {part:?} in {printed:?}");
        }
        assert!(printed.contains("said \\u{1b}]52"), "{look}: {printed:?}");
    }
}

#[test]
fn the_terminal_is_as_it_was_whatever_ends_the_session() {
    for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
        for is_running in [false, true] {
            let sandbox = Sandbox::new().reply(shell("touch started; sleep 30"));
            let folder = sandbox.work();
            let pty = sandbox.repl(&["--conversation", "c"]).on_pty(80);
            let mut pty = pty;
            let cooked = |pty: &Pty| pty.modes().contains("ICANON");
            wait_until("a line is edited", || pty.printed().contains("» ") && !cooked(&pty));
            pty.type_keys(if is_running { "go\r" } else { "go" });
            if is_running {
                wait_until("it runs", || folder.join("started").exists());
            }
            pty.signal(signal);
            let status = pty.wait();
            let code = match signal {
                Signal::TERM => Some(143),
                Signal::HUP => Some(129),
                _ => None,
            };
            assert_eq!(status.code().filter(|code| *code < 137 || *code == 143), code);
            wait_until("the modes are back", || cooked(&pty) && pty.modes().contains("ISIG"));
            wait_until("nothing is left", || sandbox.processes().is_empty());
            if is_running {
                wait_until("it is recorded", || sandbox.conversation().contains("exit=\"1"));
            }
        }
    }
}
