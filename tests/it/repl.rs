//! `nagent-repl`: its looks on a screen, its commands, prompts on stdin, keys in files, and what the seeds had.
//!
//! A name with `seed_` has the seed and the number of the ability that it shows.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::{edit, text};
use crate::pty::Pty;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};

/// Types a prompt, and waits until the next one can be typed.
#[track_caller]
pub(crate) fn prompt(pty: &mut Pty, sign: &str, keys: &str) {
    // What is typed while the last prompt has ended and the next is not there yet belongs to a run.
    let is_open = |printed: &str| printed.rfind("\x1b[?2004h") > printed.rfind("\x1b[?2004l");
    wait_until("a prompt is open", || is_open(&pty.printed()));
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
    let sandbox = Sandbox::new().reply(answer("one")).reply(Answer::error(400, "invalid"));
    sandbox.repl(&[""; 0]).stdin("a\nb\n").run().assert_exit(3).stdout_is("one\n");
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
    let why = "only the sandbox keeps commands off the network";
    for flags in [&["--no-network"][..], &["--profile", "offline"]] {
        let offline = json!({"profiles": {"offline": {"no_network": true}}});
        let sandbox =
            Sandbox::new().config_also(offline).config_also(json!({"sandbox": "workspace"}));
        sandbox.repl(flags).stdin("/sandbox off\n").run().assert_exit(1).stderr_has(&[why]);
    }
    sandbox.repl(&[""; 0]).stdin("!exit 7\n").run().assert_exit(7);
    let run = sandbox.repl(&[""; 0]).stdin("!echo out\n/read none\n").run().assert_exit(1);
    run.stdout_is("out\n").stderr_has(&["there is no file none"]);
    let none = "no terminal and no input";
    sandbox.repl(&[""; 0]).stdin("").run().assert_exit(2).stderr_has(&[none]);
    sandbox.repl(&[""; 0]).stdin(" \n\n").run().assert_exit(2).stderr_has(&[none]);
    sandbox.repl(&[""; 0]).stdin("/quit\nnever\n").run().assert_exit(0).no_stdout();
    let words = ["-w", env!("CARGO_BIN_EXE_nagent-repl"), "-c", "a"];
    std::fs::write(sandbox.root().join("conversations/a"), "mine\n").unwrap();
    let run = sandbox.program("setsid", &words).stdin("/edit\n").run();
    run.assert_exit(1).stderr_has(&["there is no terminal for the editor"]);
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
    check(&["-C", "nowhere"], 2, &["-C nowhere", "No such file"]);
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
    check("{", &["EOF"]);
    check(r#"{"promt": "> "}"#, &["unknown field `promt`, expected one of"]);
    check(r#"{"settings": {"base_url": "http://evil"}}"#, &["a look brings no others"]);
    check(r#"{"settings": {"command": ["sh"]}}"#, &["a look brings no others"]);
    check(r#"{"figures": "yes"}"#, &["expected a boolean at line 1"]);
    check(r#"{"settings": {"max_turns": "ten"}}"#, &["\"max_turns\" must be a whole number"]);
    // What the config sets stays: a look neither widens what it allows nor turns off what it asks for.
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
fn a_looks_env_files_are_read_whatever_the_address() {
    let look = |sandbox: Sandbox| {
        let looks = sandbox.root().join("looks");
        std::fs::create_dir(&looks).unwrap();
        std::fs::write(looks.join("own.json"), r#"{"env_files": ["keys"]}"#).unwrap();
        sandbox
    };
    let run = |sandbox: &Sandbox| {
        sandbox.llm.push(answer("ok"));
        sandbox.repl(&["--look", "own"]).stdin("x\n").run().assert_exit(0);
        let head = sandbox.requests().pop().unwrap();
        head.header("x-api-key").map(str::to_owned)
    };
    let sandbox = look(Sandbox::new()).file("keys", KEY_LINE).env("OPENAI_API_KEY", "");
    let config = json!({"provider": "anthropic", "model": "m", "base_url": sandbox.llm.origin()});
    let sandbox = sandbox.config(config);
    assert_eq!(run(&sandbox).as_deref(), Some("sk-from-env-file-0123456789"));
    // A server of the user's own may need none.
    std::fs::remove_file(sandbox.work().join("keys")).unwrap();
    assert_eq!(run(&sandbox), None);
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
    run("/undo", "nothing to undo in conversation c\n");
    run("/status", "provider:openai");
    sandbox.llm.push(edit("a.txt", "one", "two"));
    sandbox.llm.push(answer("first answer"));
    run("go", "first answer");
    run("/undo --list", "go\n");
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
    run("/model a-model", "model: a-model");
    sandbox.llm.push(answer("with a note"));
    run("/read note.txt", "with the next prompt");
    run("look", "with a note");
    let last = sandbox.requests().pop().unwrap();
    assert!(last.user().contains("a note") && last.json()["model"] == "a-model");
    run("/check nonono", "nagent-repl: /check: nonono: command not found");
    run("/check test -e done", "check: test -e done");
    run("/status", "check = test -e done (flag)");
    sandbox.llm.push(shell("touch done"));
    sandbox.llm.push(answer("checked"));
    run("go", "→ check (try 1 of 5) │ test -e done");
    run("/check off", "check: off");
    run("/approve none", "approve: none");
    run(
        "/approve everything",
        "nagent-repl: /approve: unknown value \"everything\"; use none, shell or ask",
    );
    run("/sandbox workspace", "sandbox: workspace");
    run("/sandbox", "workspace");
    run("/sandbox off", "sandbox: off");
    run("!echo out; false", "exit 1");
    sandbox.llm.push(edit("a.txt", "one", "three"));
    sandbox.llm.push(answer("three it is"));
    run("make it three", "three it is");
    run("/undo a.txt", "-three");
    run("/model test-model", "model: test-model");
    run("/c", "(new conversation; the old one is archived)");
    run("/summarise", "did you mean /summarize?");
    run("/x", "unknown command /x");
    let broken = sandbox.script("editor", "#!/bin/sh\necho lost > \"$1\"; exit 3\n");
    assert!(broken.exists());
    sandbox.llm.push(answer("to edit"));
    run("more", "to edit");
    run("/edit", "failed (exit status: 3)");
    assert_eq!(sandbox.requests().pop().unwrap().json()["model"], "test-model");
    assert!(sandbox.conversation_paths().len() > 3, "what was put away is kept");
}

#[test]
fn what_cannot_be_used_is_reported_and_left_alone() {
    let sandbox = Sandbox::new().reply(answer("ok"));
    prompt(&mut start(&sandbox, &[], "» "), "» ", "go");
    let history = || {
        let names = std::fs::read_dir(sandbox.root().join("repl")).unwrap();
        names.map(|name| name.unwrap().path()).next().unwrap()
    };
    let path = history();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let check = |pty: &Pty, part: &str| {
        let words = pty.printed().replace("\r\n", " ");
        assert!(words.contains(part), "{part:?} in {words:?}");
    };
    std::fs::write(&path, b"#V2\n\xff\xfe\n").unwrap();
    check(&start(&sandbox, &[], "» "), "note: cannot read the history: cannot read");
    assert_eq!(std::fs::read(&path).unwrap(), b"#V2\n\xff\xfe\n");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check(&start(&sandbox, &[], "» "), "is not a file");
    // A folder has a history of its own.
    let mut pty = start(&sandbox, &["-C", "..", "--no-history"], "» ");
    pty.type_keys("\x04");
    assert!(pty.wait().success());
    assert_eq!(std::fs::read_dir(sandbox.root().join("repl")).unwrap().count(), 1);
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
fn seed_002_9_ollama_is_asked_at_the_start_and_names_its_models() {
    let sandbox = Sandbox::new().env("OPENAI_API_KEY", "");
    let call = |look: &str, host: &str| {
        let call = sandbox.repl(&["--look", look, "--provider", "ollama"]).stdin("x\n");
        call.env("OLLAMA_HOST", host).run().within(2.5)
    };
    let run = call("run", "127.0.0.1:9").assert_exit(3);
    let what_to_do =
        ["Ollama does not answer at http://127.0.0.1:9", "ollama serve", "OLLAMA_HOST"];
    run.stderr_has(&what_to_do);
    let host = sandbox.llm.origin();
    for (names, words) in [
        (&[][..], "ollama pull"),
        (&["one", "two"], "several models, choose one with --model: one, two"),
    ] {
        let models: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "model": name, "details": {}})).collect();
        let body = json!({"models": models}).to_string();
        sandbox.llm.beside(move |request| {
            let is_list = request.path.ends_with("/api/tags");
            is_list.then(|| Answer::raw(200, "application/json", body.clone()))
        });
        call("plain", &host).assert_exit(2).stderr_has(&[words]);
    }
    assert_eq!(sandbox.llm.all_requests().len(), 2, "one list at each start");
}

#[test]
fn two_sessions_and_an_editor_share_a_conversation() {
    let sandbox = Sandbox::new().replies(["one", "two", "three"].map(answer));
    let args = ["--conversation", "c"];
    let mut first = start(&sandbox, &args, "» ");
    let mut second = start(&sandbox, &args, "» ");
    prompt(&mut first, "» ", "from the first");
    prompt(&mut second, "» ", "from the second");
    sandbox.edit_conversation(|text| text.replace("from the first", "as it was edited"));
    prompt(&mut first, "» ", "and again");
    let user = sandbox.requests().pop().unwrap().user();
    for words in ["as it was edited", "from the second", "and again"] {
        assert!(user.contains(words), "{words} in {user}");
    }
    assert!(!user.contains("from the first"), "{user}");
}
