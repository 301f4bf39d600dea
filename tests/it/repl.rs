//! `nagent-repl`: its looks on a screen, its commands, prompts on stdin, keys in files, and what the seeds had.
//!
//! A name with `seed_` has the seed and the number of the ability that it shows.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::{edit, text, write};
use crate::pty::Pty;
use crate::sandbox::{CANARY, NAGENT, Sandbox, answer, shell, wait_until};

/// Types a prompt, and waits until the next one can be typed.
#[track_caller]
fn prompt(pty: &mut Pty, sign: &str, keys: &str) {
    let count = pty.printed().matches("\x1b[?2004h").count();
    pty.type_keys(&format!("{keys}\r"));
    pty.expect_times("\x1b[?2004h", count + 1);
    let shown = |pty: &Pty| pty.printed().rsplit("\x1b[?2004h").next().unwrap().contains(sign);
    wait_until("the prompt is shown", || shown(pty));
}

#[track_caller]
fn start(sandbox: &Sandbox, args: &[&str], sign: &str) -> Pty {
    let pty = sandbox.repl(args).on_pty(80);
    pty.expect(sign);
    pty
}

/// The screen without its banner, and without what differs from run to run.
fn screen(pty: &Pty) -> Vec<String> {
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

const KEY_LINE: &str = "TS_AGENT_API_KEY=sk-from-env-file-0123456789\n";

/// A world with Anthropic's format and no key.
fn without_key() -> Sandbox {
    let sandbox = Sandbox::new();
    let origin = sandbox.llm.origin();
    sandbox.config(json!({})).env("OPENAI_API_KEY", "").env("ANTHROPIC_BASE_URL", &origin)
}

#[test]
fn seed_001_6_keys_come_from_three_places_in_their_order() {
    let key_of = |sandbox: &Sandbox, env_path: Option<&str>| {
        sandbox.llm.push(answer("hi"));
        let call = sandbox.repl(&["--look", "pair"]).stdin("x\n");
        let call = match env_path {
            Some(path) => call.env("ENV_PATH", path),
            None => call,
        };
        call.run().assert_exit(0).stdout_is("hi\n");
        sandbox.requests().last().unwrap().header("x-api-key").unwrap().to_owned()
    };
    let line =
        |name: &str| format!("# a key\r\nexport TS_AGENT_API_KEY=\"sk-{name}\"\r\nPATH=/x\n");
    let sandbox = without_key();
    let other = sandbox.base().join("coding-agent");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join(".env"), line("other")).unwrap();
    assert_eq!(key_of(&sandbox, None), "sk-other");
    sandbox.write(".env", line("here"));
    assert_eq!(key_of(&sandbox, None), "sk-here");
    sandbox.write("my.env", line("mine"));
    assert_eq!(key_of(&sandbox, Some("my.env")), "sk-mine");
    assert_eq!(key_of(&sandbox, Some("missing.env")), "sk-here");
    // What is set already is what counts.
    let sandbox = without_key().file(".env", line("here")).env("ANTHROPIC_API_KEY", "sk-set");
    assert_eq!(key_of(&sandbox, None), "sk-set");
}

#[test]
fn seed_001_7_errors_of_env_files_teach() {
    let check = |sandbox: &Sandbox, args: &[&str], words: &[&str]| {
        let run = sandbox.repl(args).stdin("x\n").run().assert_exit(2);
        run.stderr_has(words);
        assert!(sandbox.requests().is_empty());
    };
    let pair = &["--look", "pair"][..];
    let missing =
        [".env is not there", "../coding-agent/.env", "ENV_PATH", "TS_AGENT_API_KEY=your-key"];
    check(&without_key(), pair, &missing[1..]);
    let sandbox = without_key().file(".env", "OTHER=1\n");
    check(&sandbox, pair, &["env file .env has no key", "TS_AGENT_API_KEY=your-key"]);
    let sandbox = without_key();
    std::fs::create_dir(sandbox.work().join(".env")).unwrap();
    check(&sandbox, pair, &["env file .env", "not a regular file"]);
    let sandbox = without_key().file("big.env", "x".repeat(1 << 20));
    check(&sandbox, &["--env-file", "big.env"], &["big.env", "over the limit"]);
    let sandbox = without_key();
    let fifo = sandbox.work().join(".env");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, 0o600.into(), 0).unwrap();
    check(&sandbox, pair, &["not a regular file"]);
    // Without the look, the working folder is not believed.
    let sandbox = without_key().file(".env", KEY_LINE).env("OLLAMA_HOST", "127.0.0.1:9");
    check(&sandbox, &[], &["no API key found"]);
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
fn seed_000_the_look_is_as_described() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\n");
    sandbox.llm.push(answer("old"));
    sandbox.run(&["--conversation", "c", "before"]).assert_exit(0);
    sandbox.llm.push("<nagent-read path=\"a.txt\" numbers=\"true\"/>");
    sandbox.llm.push(answer("It has two lines."));
    let mut pty = start(&sandbox, &["--look", "nano", "--conversation", "c"], "❯ ");
    // 6, 7: it is trimmed, and an empty one asks again.
    prompt(&mut pty, "❯ ", "   ");
    prompt(&mut pty, "❯ ", "  read it  ");
    // 8, 9.
    pty.type_keys("/c\r");
    pty.expect("⏺ Cleared");
    pty.type_keys("/q\r");
    pty.expect("Goodbye!");
    assert!(pty.wait().success());
    let folder = sandbox.work().canonicalize().unwrap();
    assert_eq!(
        screen(&pty),
        [
            &format!("nano | test-model | {}", folder.display()),
            "",
            "❯",
            "❯   read it",
            "⏺ Read(a.txt)",
            "  ⎿      1│one … +1 lines",
            "⏺ It has two lines.",
            "",
            "❯ /c",
            "⏺ Cleared",
            "❯ /q",
            "Goodbye!",
        ]
    );
    let printed = pty.printed();
    for part in [
        "\x1b[1mnano",
        "\x1b[36m⏺ \x1b[0mIt has",
        "\x1b[32m⏺ \x1b[0mRead(",
        "\x1b[32m⏺ Cleared",
        "\x1b[2m  ⎿ ",
    ] {
        assert!(printed.contains(part), "{part:?} in {printed:?}");
    }
    // 3: it begins with an empty history.
    assert!(!sandbox.requests().last().unwrap().user().contains("before"));
    assert_eq!(sandbox.requests().last().unwrap().json()["max_tokens"], 4096);
}

#[test]
fn seed_001_23_seven_lines_say_what_happens() {
    let sandbox = Sandbox::outside_temp()
        .file("main.go", "func main\n")
        .file("progress.md", "# Steps so far\n");
    let long = format!("echo {}", "x".repeat(70));
    sandbox.llm.push(
        [
            "<nagent-list path=\".\"/>".to_owned(),
            "<nagent-read path=\"main.go\"/>".to_owned(),
            edit("main.go", "func main", "func main2"),
            write("new.txt", &"y".repeat(43_520)),
            shell(&long),
            "<nagent-grep pattern=\"func\" glob=\"*.go\"/>".to_owned(),
            "<nagent-glob pattern=\"**/*.go\"/>".to_owned(),
            shell("nonexistent-command"),
        ]
        .concat(),
    );
    sandbox.llm.push(answer("Done."));
    let mut pty = start(&sandbox, &["--look", "pair"], "You: ");
    prompt(&mut pty, "You: ", "go");
    pty.type_keys("quit\r");
    pty.expect("Goodbye!");
    assert!(pty.wait().success());
    assert_eq!(
        screen(&pty),
        [
            "test-model: exit or quit to leave",
            "==================================================",
            "",
            "You: go",
            "→ Listing files: . (current directory)",
            "→ Reading file: main.go",
            "→ Patching file: main.go (+1 bytes)",
            "→ Writing file: new.txt (42.5 KB)",
            &format!("→ Running bash: {}...", &long[..57]),
            "→ Searching: 'func' in current directory (*.go)",
            "→ Finding files: '**/*.go' in current directory",
            "→ Running bash: nonexistent-command",
            "  exit 127 (no such command): /bin/bash: line 1: nonexistent-command: command no",
            "t found",
            "",
            "test-model: Done.",
            "",
            "",
            "You: quit",
            "Goodbye!",
        ]
    );
    // 11: progress.md is a result, and no instruction.
    let request = &sandbox.requests()[0];
    assert!(request.user().contains("Steps so") && !request.system().contains("Steps so"));
    assert!(request.system().contains("gh pr list"), "the text that decides which tool");
}

#[test]
fn seed_002_one_tool_and_a_question_before_each_command() {
    let sandbox = Sandbox::new().env("OPENAI_API_KEY", "").env("MODEL", "small");
    let host = sandbox.llm.origin();
    let sandbox = sandbox.env("OLLAMA_HOST", &host);
    sandbox.llm.push(shell("exit 3"));
    sandbox.llm.push(answer("done"));
    let mut pty = start(&sandbox, &["--look", "run"], "> ");
    pty.type_keys("go\r");
    pty.expect("n REASON or Enter for no: ");
    pty.type_keys("y\r");
    pty.expect("done");
    pty.expect_times("\x1b[?2004h", 2);
    pty.type_keys("/reset\r");
    pty.expect("(reset)");
    pty.type_keys("/exit\r");
    assert!(pty.wait().success());
    let lines = screen(&pty);
    assert_eq!(lines[0], format!("nagent-repl {} | {host} | small", env!("CARGO_PKG_VERSION")));
    let rest = lines.join("\n");
    assert!(rest.contains("\n$ exit 3\nexit 3\ndone\n"), "{lines:#?}");
    let requests = sandbox.requests();
    let system = requests.iter().find(|request| request.asks()).unwrap().system();
    assert!(system.contains("<nagent-shell") && !system.contains("<nagent-read"), "{system}");
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
