//! What the three small assistants of the seeds can do, as looks of `nagent-repl` on a terminal. A name has the seed, and the
//! numbers of the abilities that the test shows.

use serde_json::json;

use crate::answers::Answer;
use crate::file_edit::{edit, write};
use crate::repl::{KEY_LINE, prompt, screen, start, without_key};
use crate::sandbox::{Sandbox, answer, shell};

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
    let sandbox = without_key().file(".env", b"TS_AGENT_API_KEY=\xff\n");
    check(&sandbox, pair, &["env file .env", "it is not UTF-8 text"]);
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
fn seed_000_1_to_19_the_look_is_as_described() {
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
    prompt(&mut pty, "❯ ", "/c");
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
    let last = sandbox.requests().pop().unwrap();
    assert_eq!(last.json()["max_tokens"], 4096);
    assert!(last.system().contains("Be brief"), "14: what the model is told");
}

#[test]
fn seed_001_9_11_and_23_seven_lines_say_what_happens() {
    let sandbox = Sandbox::outside_temp()
        .file("main.go", "func main\n")
        .file("progress.md", "# Steps so far\n");
    let long = format!("echo {}", "x".repeat(70));
    sandbox.llm.push(
        [
            "<nagent-list path=\".\"/>".to_owned(),
            "<nagent-read path=\"main.go\"/>".to_owned(),
            edit("main.go", "func main", "func main2"),
            write("new.txt", &"y".repeat(42_500)),
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
            &format!("→ Running bash: {}…", &long[..59]),
            "→ Searching: 'func' in current directory (*.go)",
            "→ Finding files: '**/*.go' in current directory",
            "→ Running bash: nonexistent-command",
            "  exit 127 (no such command): /bin/bash: line 1: nonexistent-command: command not found",
            "",
            "test-model: Done.",
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
fn seed_002_1_to_6_10_to_14_20_and_21_one_tool_and_a_question_before_each_command() {
    let sandbox = Sandbox::new().config(json!({})).env("OPENAI_API_KEY", "").env("MODEL", "small");
    let host = sandbox.llm.origin();
    let sandbox = sandbox.env("OLLAMA_HOST", &host);
    sandbox.llm.push(shell("exit 3"));
    sandbox.llm.push(answer("done"));
    let mut pty = start(&sandbox, &["--look", "run"], "> ");
    pty.type_keys("go\r");
    pty.expect("why not [n]: ");
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
    assert!(rest.contains("\n$ exit 3\n  exit 3, 0.0 s, 0 B\n\ndone\n"), "{lines:#?}");
    let requests = sandbox.requests();
    let system = requests.iter().find(|request| request.asks()).unwrap().system();
    assert!(system.contains("<nagent-shell") && !system.contains("<nagent-read"), "{system}");
}

#[test]
fn seed_000_20_to_27_what_its_tools_do() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\ntwo\none\n");
    sandbox.llm.push(
        [
            "<nagent-read path=\"a.txt\" offset=\"2\" limit=\"1\" numbers=\"true\"/>".to_owned(),
            write("new/b.txt", "x\n"),
            edit("a.txt", "absent", "x"),
            edit("a.txt", "one", "1").replace(" path", " all=\"true\" path"),
            "<nagent-glob pattern=\"*.txt\"/>".to_owned(),
            "<nagent-grep pattern=\"two\"/>".to_owned(),
            shell("echo from bash"),
        ]
        .concat(),
    );
    sandbox.llm.push(answer("done"));
    let mut pty = start(&sandbox, &["--look", "nano"], "❯ ");
    prompt(&mut pty, "❯ ", "go");
    let lines = screen(&pty).join("\n");
    for part in [
        "⏺ Read(a.txt from line 2)\n  ⎿      2│two",
        "⏺ Write(new/b.txt)\n  ⎿ ",
        "⏺ Edit(a.txt)\n  ⎿ block 1",
        "⏺ Glob(*.txt)\n  ⎿ ",
        "⏺ Grep(two)\n  ⎿ a.txt … +1 lines",
        "⏺ Shell(echo from bash)\n  ⎿ from bash",
    ] {
        assert!(lines.contains(part), "{part:?} in {lines}");
    }
    assert_eq!(
        (sandbox.read("a.txt"), sandbox.read("new/b.txt")),
        ("1\ntwo\n1\n".into(), "x\n".into())
    );
}

#[test]
fn seed_001_1_to_4_and_8_who_says_what_and_an_error_leaves_it_up() {
    let sandbox = without_key().env("ANTHROPIC_API_KEY", "sk-set");
    sandbox.llm.push(answer("Hello!"));
    sandbox.llm.push(Answer::error(401, "authentication_error"));
    sandbox.llm.push(answer("You said hi."));
    let mut pty = start(&sandbox, &["--look", "pair"], "You: ");
    prompt(&mut pty, "You: ", "hi");
    prompt(&mut pty, "You: ", "again");
    prompt(&mut pty, "You: ", "what did I say?");
    pty.type_keys("\x04");
    pty.expect("Goodbye!");
    assert!(pty.wait().success());
    let lines = screen(&pty).join("\n");
    for part in ["\n\nYou: hi\n\nClaude: Hello!\n", "ANTHROPIC_API_KEY", "\nClaude: You said hi.\n"]
    {
        assert!(lines.contains(part), "{part:?} in {lines}");
    }
    let last = sandbox.requests().pop().unwrap();
    assert!(last.user().contains("hi"), "3: it remembers");
    assert_eq!(last.json()["max_tokens"], 4096, "8");
}

#[test]
fn seed_001_24_and_25_errors_teach_and_other_front_ends_follow() {
    for (status, kind, words) in [
        (401, "authentication_error", "OPENAI_API_KEY"),
        (400, "invalid_request_error", "the test server says no"),
        (429, "rate_limit_error", "nagent-repl: "),
        (503, "overloaded", "nagent-repl: "),
    ] {
        let sandbox = Sandbox::new();
        sandbox.llm.choose(move |_| Answer::error(status, kind));
        let run = sandbox.repl(&["--patience", "0"]).stdin("x\n").run().assert_exit(3);
        run.stderr_has(&[words]);
    }
    let sandbox = Sandbox::new().reply(answer("as lines"));
    let run = sandbox.cmd(&["--lines", "--look", "pair", "x"]).run().assert_exit(0);
    assert!(run.stdout.contains("[\"as lines\"]"), "{}", run.stdout);
}

#[test]
fn seed_001_5_26_and_27_text_streams_and_several_edits_are_all_or_none() {
    let long = format!("first {}", "word ".repeat(200));
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let sandbox = sandbox.answer(Answer::StallBody(answer(&long).as_str().into()));
    let mut pty = start(&sandbox, &["--look", "pair"], "You: ");
    pty.type_keys("go\r");
    pty.expect("first word");
    pty.type_keys("\x03");
    pty.expect("(interrupted)");
    pty.expect_times("\x1b[?2004h", 2);
    let two = edit("a.txt", "one", "two").replace(
        "</nagent-edit>",
        "<<<<<<< SEARCH\nabsent\n=======\nx\n>>>>>>> REPLACE\n</nagent-edit>",
    );
    sandbox.llm.push(two);
    sandbox.llm.push(answer("refused"));
    prompt(&mut pty, "You: ", "edit");
    assert!(pty.printed().contains("refused"), "{}", pty.printed());
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

#[test]
fn seed_002_6_to_11_model_root_stop_list_and_commands() {
    let sandbox = Sandbox::new().env("OPENAI_API_KEY", "");
    let host = sandbox.llm.origin();
    let sandbox = sandbox.env("OLLAMA_HOST", &host);
    sandbox.llm.allow_rewrites();
    sandbox.llm.beside(|request| {
        let models = json!({"data": [{"id": "tiny"}, {"id": "other"}]}).to_string();
        let is_list = request.path.ends_with("/models");
        is_list.then(|| Answer::raw(200, "application/json", models))
    });
    let folder = sandbox.base().join("other");
    std::fs::create_dir(&folder).unwrap();
    sandbox.llm.push(shell("rm -rf /"));
    sandbox.llm.push(shell("pwd"));
    sandbox.llm.push(answer("done"));
    let args = ["--look", "run", "-m", "tiny", "-C", folder.to_str().unwrap()];
    let mut pty = start(&sandbox, &args, "> ");
    pty.type_keys("go\r");
    pty.expect("why not [n]: ");
    assert!(pty.printed().contains("not run: "), "7, before any question");
    pty.type_keys("y\r");
    pty.expect("done");
    pty.expect_times("\x1b[?2004h", 2);
    let result = sandbox.blocks_of("nagent-shell-result").pop().unwrap();
    assert_eq!(result.body.trim(), folder.canonicalize().unwrap().to_str().unwrap(), "8");
    prompt(&mut pty, "> ", "/model other");
    let printed = pty.printed();
    assert!(printed.contains("(reset)"), "a model begins without the other's words: {printed}");
    sandbox.llm.push(answer("other here"));
    prompt(&mut pty, "> ", "hi");
    let last = sandbox.requests().pop().unwrap();
    assert_eq!(last.json()["model"], "other");
    assert!(!last.user().contains("pwd"), "{}", last.user());
    pty.type_keys("/exit\r");
    assert!(pty.wait().success());
}

/// The screen of a session of the look `pair` in which the model uses these tags.
fn screen_of_tags(sandbox: &Sandbox, tags: &[String]) -> String {
    sandbox.llm.push(tags.concat());
    sandbox.llm.push(answer("done"));
    let mut pty = start(sandbox, &["--look", "pair", "--conversation", "c"], "You: ");
    prompt(&mut pty, "You: ", "go");
    screen(&pty).join("\n")
}

#[track_caller]
fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn seed_001_12_to_19_lists_reads_patches_and_writes_teach() {
    let sandbox = Sandbox::outside_temp()
        .file("a.txt", "one\ntwo\none\n")
        .file("large.txt", "x".repeat(70_000))
        .file("old.txt", "old\n")
        .file("sub/x.txt", "");
    let read = |path: &str| format!("<nagent-read path=\"{path}\"/>");
    let list = |path: &str| format!("<nagent-list path=\"{path}\"/>");
    sandbox.llm.push(read("old.txt"));
    let shown = screen_of_tags(
        &sandbox,
        &[
            list("."),
            list("nowhere"),
            read("nowhere.txt"),
            read("sub"),
            read("large.txt"),
            edit("a.txt", "absent", "x"),
            edit("a.txt", "one", "x"),
            // An empty replacement deletes.
            edit("a.txt", "two\n", ""),
            write("deep/new.txt", "new\n"),
            write("old.txt", &"y".repeat(150_000)),
        ],
    );
    assert_parts(
        &shown,
        &[
            "→ Listing files: nowhere\n  no such file or folder: nowhere",
            "→ Reading file: nowhere.txt\n  no such file or folder",
            "→ Reading file: sub\n",
            " is a folder",
            "→ Reading file: large.txt\n",
            "block 1: not in the file",
            "the search matches 2 places in the file, at lines 1, 3",
            "→ Writing file: deep/new.txt (4 bytes)\n",
        ],
    );
    // Behind its path, which may be long.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_parts(&words, &["has 70000 bytes and 1 lines, too large to show in full"]);
    assert_eq!(sandbox.read("a.txt"), "one\none\n");
    assert_eq!(sandbox.read("deep/new.txt"), "new\n", "19: the folder is made");
    // 17, 18: a file that was not read is not replaced; one that was is kept in outputs.
    let result = sandbox.blocks_of("nagent-write-result").pop().unwrap();
    assert_eq!((result.get("path"), sandbox.read("old.txt").len()), ("old.txt", 150_000));
    let kept = std::fs::read_dir(sandbox.root().join("outputs")).unwrap();
    let kept =
        kept.filter(|entry| std::fs::read(entry.as_ref().unwrap().path()).unwrap() == b"old\n");
    assert_eq!(kept.count(), 1);
    let user = sandbox.requests().pop().unwrap().user();
    assert_parts(&user, &["large.txt\t70000\n", "\nsub/\n"]);
}

#[test]
fn seed_001_10_and_20_to_22_commands_and_searches_teach() {
    let sandbox = Sandbox::outside_temp()
        .file("a.go", "func a\n")
        .file("sub/b.go", "func b\n")
        .file("c.txt", "func c\n")
        .file("plain.sh", "");
    let gh = sandbox.script("bin/gh", "#!/bin/sh\necho \"pull requests of $GH_TOKEN\"\n");
    let path = std::env::var("PATH").unwrap_or_default();
    let sandbox = sandbox
        .config_also(serde_json::json!({"pass_env": ["GH_TOKEN"]}))
        .env("PATH", format!("{}:{path}", gh.parent().unwrap().display()))
        .env("GH_TOKEN", "my-token");
    let shown = screen_of_tags(
        &sandbox,
        &[
            shell("gh pr list"),
            shell("nosuchcommand"),
            shell("./plain.sh"),
            shell("false"),
            "<nagent-grep pattern=\"func\" glob=\"*.go\"/>".to_owned(),
            "<nagent-grep pattern=\"nothing\"/>".to_owned(),
            "<nagent-grep pattern=\"x\" path=\"nowhere\"/>".to_owned(),
            "<nagent-glob pattern=\"**/*.go\"/>".to_owned(),
            "<nagent-glob pattern=\"*.zig\"/>".to_owned(),
        ],
    );
    assert_parts(
        &shown,
        &[
            "→ Running bash: gh pr list\n→ ",
            "  exit 127 (no such command): ",
            "  exit 126 (not executable, or no permission): ",
            "→ Running bash: false\n  exit 1\n",
            "→ Searching: 'func' in current directory (*.go)\n→ ",
            "→ Searching: 'x' in nowhere\n  no such file or folder: nowhere",
            "→ Finding files: '**/*.go' in current directory\n→ ",
        ],
    );
    let user = sandbox.requests().pop().unwrap().user();
    assert_parts(
        &user,
        &[
            "exit code 1 from grep or rg means no match",
            "a.go\n1:func a\n\nsub/b.go\n1:func b\n",
            "(no match in ",
            "\na.go\nsub/b.go\n",
            "(no match among ",
        ],
    );
    let output = &sandbox.blocks_of("nagent-shell-result")[0];
    assert!(output.body.contains("pull requests of"), "10: {}", output.body);
}

#[test]
fn seed_002_15_to_19_what_a_command_gets_and_what_comes_back() {
    let sandbox = Sandbox::new().env("OPENAI_API_KEY", "").env("MODEL", "test-model");
    let host = sandbox.llm.origin();
    let sandbox = sandbox.env("OLLAMA_HOST", &host);
    sandbox.llm.push(
        shell("echo $0; pwd; echo out; echo err >&2; exit 4")
            + &shell("seq 100000")
            + "<nagent-shell timeout=\"1\">sleep 30</nagent-shell>",
    );
    sandbox.llm.push(answer("done"));
    let args = ["--look", "run", "--approve", "none", "--conversation", "c"];
    let mut pty = start(&sandbox, &args, "> ");
    prompt(&mut pty, "> ", "go");
    let shown = screen(&pty).join("\n");
    assert_parts(
        &shown,
        &[
            "\n  out\n  err\n  exit 4, 0.0 s, ",
            "\n  100000\n$ sleep 30\n  [killed after 0.0 s, its timeout",
        ],
    );
    let results = sandbox.blocks_of("nagent-shell-result");
    let folder = sandbox.work().canonicalize().unwrap();
    let body = format!("/bin/bash\n{}\nout\nerr", folder.display());
    assert_eq!((results[0].body.trim(), results[0].get("exit_code")), (body.as_str(), "4"));
    // 19: what is too long is stored whole.
    assert_eq!(results[1].get("lines"), "100000");
    assert!(results[1].body.len() < 17_000, "{} bytes", results[1].body.len());
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let outputs = std::fs::read_dir(sandbox.root().join("outputs")).unwrap();
    let mut outputs = outputs.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    assert!(outputs.any(|bytes| bytes == whole.as_bytes()));
    // 18.
    prompt(&mut pty, "> ", "/status");
    assert!(
        screen(&pty).contains(&"shell_timeout = 10 (look run)".to_owned()),
        "{:?}",
        screen(&pty)
    );
}
