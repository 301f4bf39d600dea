//! The commands of `nagent`: upkeep, lists, discovery, input, what a terminal sees.

use conversation::protocol::TagSet;
use conversation::protocol::tags::Tag;
use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

// Upkeep.

#[test]
fn status_says_conversation_size_provider_and_model() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let before = sandbox.run(&["--conversation", "a", "--status", "--json"]).assert_exit(0).json();
    assert_eq!(
        (&before["size"], &before["provider"], &before["model"]),
        (&json!(0), &json!("openai"), &json!("test-model"))
    );
    sandbox.run(&["--conversation", "a", "task"]).assert_exit(0);
    let after = sandbox.run(&["--conversation", "a", "--status", "--json"]).assert_exit(0).json();
    let path = sandbox.conversation_path();
    assert_eq!(after["conversation_path"], path.to_str().unwrap());
    assert_eq!(after["size"], std::fs::metadata(path).unwrap().len());
    let text = sandbox.run(&["--conversation", "a", "--status"]).assert_exit(0);
    assert!(!text.stdout.contains("(default)"), "{}", text.stdout);
    let usage = "the conversation: 1 prompt, about ";
    assert!(text.stdout.contains(usage) && text.stdout.contains("\nit took 1 turn, "));
    let text = sandbox.run(&["--conversation", "a", "--status", "-v"]).assert_exit(0);
    for value in ["tags = all", "max_cost = not set", "pass_env = none", "prices = those built in"]
    {
        assert!(text.stdout.contains(&format!("\n{value} (default)\n")), "{}", text.stdout);
    }
    assert!(text.stdout.contains("test-model") && text.stdout.contains("openai"));
}

#[test]
fn status_shows_where_each_value_came_from() {
    let sandbox = Sandbox::new();
    let document = sandbox.run(&["--model", "other", "--status", "--json"]).assert_exit(0).json();
    assert_eq!(document["model"], "other");
    let text = document.to_string();
    assert!(
        text.contains("config.json") && text.contains("flag") || text.contains("--model"),
        "{text}"
    );
}

#[test]
fn status_makes_no_root() {
    let sandbox = Sandbox::new().no_config();
    std::fs::remove_dir_all(sandbox.root()).unwrap();
    sandbox.run(&["--status"]).assert_exit(0);
    sandbox.run(&["--list-providers"]).assert_exit(0);
    sandbox.run(&["--list-conversations"]).assert_exit(0);
    assert!(!sandbox.root().exists());
}

#[test]
fn root_is_named_by_flag_and_by_environment() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let config = sandbox.root().join("config.json");
    let config = config.to_str().unwrap();
    sandbox
        .run(&["--config", config, "--root", "by-flag", "--conversation", "a", "x"])
        .assert_exit(0);
    assert!(sandbox.work().join("by-flag/conversations/a").is_file());
    let root = sandbox.work().join("by-env");
    let command =
        sandbox.cmd(&["--conversation", "a", "x"]).env("NAGENT_ROOT", root.to_str().unwrap());
    command.env("NAGENT_CONFIG", config).run().assert_exit(0);
    assert!(root.join("conversations/a").is_file());
}

#[test]
fn clear_archives_and_starts_anew() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    sandbox.run(&["--conversation", "a", "first task"]).assert_exit(0);
    let old = sandbox.conversation();
    let document = sandbox.run(&["--conversation", "a", "--clear", "--json"]).assert_exit(0).json();
    assert_eq!(std::fs::read_to_string(document["archived_path"].as_str().unwrap()).unwrap(), old);
    assert_eq!(
        document["conversation_path"],
        sandbox.root().join("conversations/a").to_str().unwrap()
    );
    sandbox.run(&["--conversation", "a", "second task"]).answers("two");
    assert!(!sandbox.requests()[1].text().contains("first task"));
}

#[test]
fn clear_of_nothing_is_no_failure() {
    let document = Sandbox::new().run(&["--clear", "--json"]).assert_exit(0).json();
    assert!(document["archived_path"].is_null(), "{document}");
}

#[test]
fn clear_with_a_prompt_goes_on_with_it() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    sandbox.run(&["x"]).assert_exit(0);
    sandbox.run(&["--clear", "y"]).assert_exit(0);
    assert_eq!(sandbox.requests()[1].dialogue().turns.len(), 1);
}

#[test]
fn a_saved_conversation_can_be_listed_loaded_and_branched() {
    let sandbox = Sandbox::new()
        .reply(answer("one"))
        .reply(answer("two"))
        .reply(answer("three"))
        .reply(answer("four"));
    sandbox.run(&["--conversation", "a", "the first task"]).assert_exit(0);
    let first = sandbox.conversation();

    let saved = sandbox
        .run(&["--conversation", "a", "--save-conversation", "kept", "--json"])
        .assert_exit(0)
        .json();
    let kept = sandbox.root().join("conversations/kept");
    assert_eq!(saved["saved_path"], kept.to_str().unwrap());
    assert!(saved["summary"].as_str().unwrap().contains("the first task"), "{saved}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), first);
    // A branch goes on from an earlier state: that is what it is for.
    sandbox.llm.allow_rewrites();

    let list = sandbox.run(&["--list-conversations", "--json"]).assert_exit(0).json();
    let names = list["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap());
    assert!(names.clone().any(|name| name == "kept"), "{list}");
    assert!(sandbox.run(&["--list-conversations"]).assert_exit(0).stdout.contains("kept"));

    sandbox.run(&["--conversation", "a", "the second task"]).assert_exit(0);
    let second = sandbox.conversation();
    let loaded = sandbox
        .run(&["--conversation", "a", "--load-conversation", "kept", "--json"])
        .assert_exit(0)
        .json();
    assert_eq!(
        std::fs::read_to_string(loaded["archived_path"].as_str().unwrap()).unwrap(),
        second,
        "nothing is lost"
    );
    assert_eq!(std::fs::read_to_string(sandbox.root().join("conversations/a")).unwrap(), first);
    assert_eq!(loaded["loaded_path"], kept.to_str().unwrap());

    let run = sandbox
        .run(&["--conversation", "b", "--branch-conversation", "kept", "--json", "go on"])
        .assert_exit(0);
    assert_eq!(run.json()["responses"], json!(["three"]));
    assert!(
        std::fs::read_to_string(sandbox.root().join("conversations/b"))
            .unwrap()
            .starts_with(&first)
    );
    assert_eq!(
        std::fs::read_to_string(&kept).unwrap(),
        first,
        "a branch leaves its source as it was"
    );
}

#[test]
fn a_missing_conversation_is_exit_1_before_anything_is_archived() {
    let sandbox = Sandbox::new().reply(answer("one"));
    sandbox.run(&["--conversation", "a", "x"]).assert_exit(0);
    let before = sandbox.conversation();
    for flag in ["--load-conversation", "--branch-conversation"] {
        sandbox
            .run(&["--conversation", "a", flag, "nowhere"])
            .assert_exit(1)
            .no_stdout()
            .stderr_has(&["nowhere"]);
    }
    assert_eq!(sandbox.conversation_paths().len(), 1);
    assert_eq!(sandbox.conversation(), before);
}

#[test]
fn a_name_is_never_a_way_out_of_the_root() {
    let sandbox = Sandbox::new().reply(answer("one"));
    sandbox.run(&["x"]).assert_exit(0);
    for name in ["..", "x.run", "a b"] {
        assert_ne!(sandbox.run(&["--save-conversation", name]).code, 0, "{name}");
    }
    for name in ["../config.json", "../../.nagent/config.json"] {
        assert_ne!(sandbox.run(&["--branch-conversation", name]).code, 0, "{name}");
    }
}

#[test]
fn show_request_sends_and_writes_nothing_whatever_stands_beside_it() {
    let sandbox = Sandbox::new().config_also(json!({"context_window_tokens": 10}));
    // Over the window, and with a recording to be made: it is shown all the same, and nothing is made.
    let run = sandbox.run(&["--show-request", "--record", "r.jsonl", "task"]).assert_exit(0);
    assert!(run.stdout.contains("task"), "{run:?}");
    assert!(!sandbox.work().join("r.jsonl").exists());
    let ollama = sandbox.base_url();
    let run = sandbox
        .cmd(&["--provider", "ollama", "--show-request", "task"])
        .env("OLLAMA_HOST", &ollama)
        .run()
        .assert_exit(2);
    run.stderr_has(&["--model"]);
    assert_eq!(sandbox.llm.all_requests().len(), 0);
    assert_eq!(sandbox.conversation_paths().len(), 0);
}

// Lists and discovery.

#[test]
fn list_providers_names_each_with_its_credential_and_needs_no_network() {
    let sandbox = Sandbox::new();
    let document = sandbox.run(&["--list-providers", "--json"]).assert_exit(0).json();
    let providers = document["providers"].as_array().unwrap();
    let names: Vec<_> = providers.iter().map(|entry| entry["provider"].as_str().unwrap()).collect();
    for name in
        ["openai", "anthropic", "google", "ollama", "cursor", "claude-code", "command", "replay"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(!names.contains(&"gemini"), "an alias is no provider");
    let google = providers.iter().find(|entry| entry["provider"] == "google").unwrap();
    assert_eq!(google["default_model"], "gemini-3.8-flash");
    assert_eq!(google["credentials"], json!(["GOOGLE_API_KEY", "GEMINI_API_KEY"]));
    assert_eq!(google["aliases"], json!(["gemini"]));
    assert!(sandbox.run(&["--list-providers"]).assert_exit(0).stdout.contains("ANTHROPIC_API_KEY"));
    assert_eq!(sandbox.llm.all_requests().len(), 0);
}

#[test]
fn list_models_prints_one_a_line_sorted() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--list-models"]).assert_exit(0).stdout_is("a-model\ntest-model\n");
}

#[test]
fn print_protocol_has_every_tag() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&["--print-protocol"]).assert_exit(0).stdout;
    let is_told = |tag: &Tag| !["file-read", "file-patch", "next"].contains(&tag.short_name());
    for tag in TagSet::ALL.iter().filter(|tag| is_told(tag)) {
        assert!(text.contains(tag.name), "{}", tag.name);
    }
    let answered = Sandbox::new().reply(answer("done"));
    answered.run(&["task"]).assert_exit(0);
    assert!(
        TagSet::ALL
            .iter()
            .all(|tag| !is_told(tag) || answered.requests()[0].system().contains(tag.name)),
        "the same table is in the context"
    );
}

#[test]
fn description_opens_with_the_path_and_wins_over_everything() {
    let sandbox = Sandbox::new();
    for args in [
        &["--description"][..],
        &["some", "--description", "words"],
        &["--no-such-flag", "--description"],
    ] {
        let text = sandbox.run(args).assert_exit(0).no_stderr().stdout;
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("path: {NAGENT}"), "{args:?}");
        assert!(text.len() > first.len() + 20, "{text}");
    }
    let text = sandbox.llm_text(&["--description"]).run().assert_exit(0).stdout;
    assert!(text.starts_with("path: /") && text.contains("--file"), "{text}");
}

/// Nothing is sent, and nothing is paid for.
#[test]
fn what_only_lists_takes_no_prompt() {
    let sandbox = Sandbox::new();
    for flag in
        ["--status", "--list-conversations", "--list-models", "--list-providers", "--doctor"]
    {
        sandbox.run(&[flag, "hi"]).assert_exit(2).no_stdout().stderr_has(&[flag, "PROMPT"]);
    }
    assert_eq!(sandbox.requests().len(), 0);
}

#[test]
fn help_and_version_are_there_as_usual() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["--help"]).assert_exit(0).no_stderr().stdout;
    for flag in [
        "--conversation",
        "--json",
        "--status",
        "--read",
        "--list-models",
        "--list-providers",
        "--print-protocol",
        "--description",
        "--show-request",
        "--check",
        "--max-turns",
        "--max-seconds",
        "--max-tokens",
        "--max-cost",
        "--patience",
        "--lock-timeout",
        "--quiet",
        "--provider",
        "--model",
        "--config",
        "--root",
        "--write",
    ] {
        assert!(help.contains(flag), "{flag} in the help");
    }
    sandbox
        .run(&["--version"])
        .assert_exit(0)
        .stdout_is(&format!("nagent {}\n", env!("CARGO_PKG_VERSION")));
    sandbox.llm_text(&["--version"]).run().assert_exit(0);
}

#[test]
fn tools_of_the_root_are_found_by_their_description() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    let folder = sandbox.root().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let script = "#!/bin/sh\necho x >> \"$HOME/asked\"\necho \"path: $0\"\necho 'Weighs a parcel. Call it with --kilo N.'\n";
    for (name, text) in
        [("weigh", script), ("broken", "#!/bin/sh\nexit 1\n"), ("slow", "#!/bin/sh\nsleep 60\n")]
    {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    std::fs::write(folder.join("notes.txt"), "no tool").unwrap();
    sandbox.run(&["--conversation", "a", "x"]).assert_exit(0).within(4.0);
    let system = sandbox.requests()[0].system();
    assert!(system.contains("weigh") && system.contains("Weighs a parcel"), "{system}");
    assert!(!system.contains("notes.txt"));
    sandbox.run(&["--conversation", "b", "x"]).assert_exit(0);
    let asked = std::fs::read_to_string(sandbox.home().join("asked")).unwrap();
    assert_eq!(asked, "x\n", "what it said is kept by path, size and time");
}

#[test]
fn context_yaml_expands_and_a_missing_path_is_a_warning() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let root = sandbox.root();
    std::fs::create_dir(root.join("more")).unwrap();
    std::fs::write(root.join("context.yaml"), "- rules.md\n- more/context.yaml\n- missing.md\n")
        .unwrap();
    std::fs::write(root.join("rules.md"), "first rule").unwrap();
    std::fs::write(root.join("more/context.yaml"), "paths:\n  - deep.md\n  - context.yaml\n")
        .unwrap();
    std::fs::write(root.join("more/deep.md"), "second rule").unwrap();
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n").stderr_has(&["missing.md"]);
    let system = sandbox.requests()[0].system();
    assert!(system.contains("first rule") && system.contains("second rule"));
}

// Input.

#[test]
fn words_are_joined_by_blanks() {
    let sandbox = Sandbox::new().reply(answer("done"));
    sandbox.run(&["a", "b  c", "d"]).assert_exit(0);
    assert_eq!(sandbox.block("user-prompt").body, "a b  c d");
}

#[test]
fn without_words_the_prompt_comes_from_stdin() {
    let sandbox = Sandbox::new().reply(answer("done"));
    sandbox.cmd::<&str>(&[]).stdin("from the pipe\n").run().answers("done");
    assert_eq!(sandbox.block("user-prompt").body.trim_end(), "from the pipe");
}

#[test]
fn a_slow_writer_is_waited_for_when_stdin_is_asked_for() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let mut running = sandbox.cmd(&["read", "this:", "-"]).silent_stdin().spawn();
    let mut pipe = running.take_stdin();
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::io::Write::write_all(&mut pipe, b"late words").unwrap();
    drop(pipe);
    running.wait().answers("done");
    let body = sandbox.block("user-prompt").body;
    assert_eq!(body.trim_end(), "read this:\nlate words");
}

#[test]
fn an_empty_stdin_is_no_prompt() {
    let sandbox = Sandbox::new();
    sandbox.cmd::<&str>(&[]).stdin("").run().assert_exit(2).no_stdout().stderr_has(&["prompt"]);
}

#[test]
fn read_puts_files_before_the_prompt() {
    let sandbox = Sandbox::new().file("a.txt", "alpha").file("b.txt", "beta").reply(answer("done"));
    sandbox.run(&["--read", "a.txt", "--read", "b.txt", "compare"]).answers("done");
    let names: Vec<_> = sandbox.blocks().into_iter().map(|block| block.name).take(4).collect();
    assert_eq!(
        names,
        ["initial_context", "nagent-read-result", "nagent-read-result", "user-prompt"]
    );
    let user = sandbox.requests()[0].user();
    assert!(user.find("alpha").unwrap() < user.find("beta").unwrap());
}

#[test]
fn a_prompt_of_a_megabyte_is_stored_whole() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let prompt = "0123456789abcde\n".repeat(1 << 16);
    sandbox.cmd(&["-"]).stdin(prompt.as_str()).run().assert_exit(0).stdout_is("done\n");
    let path = sandbox.block("user-prompt").get("output").to_owned();
    assert_eq!(std::fs::read_to_string(path).unwrap(), prompt);
}

// What would be sent, and what is seen.

#[test]
fn show_request_prints_what_would_be_sent_and_sends_nothing() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let shown =
        sandbox.run(&["--conversation", "a", "--show-request", "task"]).assert_exit(0).stdout;
    assert_eq!(sandbox.llm.all_requests().len(), 0);
    assert_eq!(sandbox.conversation_paths().len(), 0, "and appends nothing");
    assert!(!shown.contains(crate::sandbox::CANARY));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    sandbox.run(&["--conversation", "a", "task"]).assert_exit(0);
    let sent = sandbox.requests()[0].json();
    assert_eq!(shown["model"], sent["model"]);
    assert_eq!(shown["messages"][0], sent["messages"][0], "the context");
}

#[test]
fn nothing_is_said_beside_the_answer_where_stderr_is_no_terminal() {
    let sandbox = Sandbox::new().reply(shell("true")).reply(answer("done"));
    sandbox.run(&["task"]).answers("done");
}

#[test]
fn on_a_terminal_actions_and_a_status_line_are_seen_and_the_answer_once() {
    let sandbox = Sandbox::new().reply(shell("echo hi")).reply(answer("the answer"));
    let run = sandbox.cmd(&["task"]).run_on_terminal().assert_exit(0).stdout_is("the answer\n");
    assert!(run.stderr.contains("shell") && run.stderr.contains("  hi"), "{}", run.stderr);
    assert!(!run.stderr.contains("the answer"), "{}", run.stderr);
    assert!(
        run.stderr.to_lowercase().contains("turns"),
        "a status line at the end: {}",
        run.stderr
    );
}

#[test]
fn quiet_is_quiet_on_a_terminal_too() {
    let sandbox = Sandbox::new().reply(shell("true")).reply(answer("the answer"));
    let run = sandbox
        .cmd(&["--quiet", "task"])
        .run_on_terminal()
        .assert_exit(0)
        .stdout_is("the answer\n");
    assert_eq!(run.stderr.trim(), "");
    // Nor are there notes: of a retry, of a key of the config. A flag counts before the config.
    let sandbox =
        Sandbox::new().config_also(json!({"quiet": true, "checkpoint_interval_minutes": 9}));
    sandbox.llm.push(Answer::busy(503));
    sandbox.llm.choose(|_| answer("the answer").into());
    sandbox.run(&["task"]).assert_exit(0).no_stderr();
    sandbox
        .run(&["--progress", "task"])
        .assert_exit(0)
        .stderr_has(&["continues the conversation: "]);
}

#[test]
fn no_color_keeps_a_terminal_plain() {
    let sandbox = Sandbox::new().reply(shell("true")).reply(answer("the answer"));
    let run = sandbox.cmd(&["task"]).env("NO_COLOR", "1").run_on_terminal().assert_exit(0);
    assert!(run.stderr.contains("→ shell"), "there is something to colour: {:?}", run.stderr);
    assert!(!run.stderr.contains("\u{1b}[3"), "{:?}", run.stderr);
}

#[test]
fn control_codes_of_the_model_do_not_reach_the_terminal() {
    let sandbox =
        Sandbox::new().reply(answer("note \u{1b}]0;owned\u{7}\u{1b}[2J") + &shell("true"));
    sandbox.llm.push(answer("done"));
    let run = sandbox.cmd(&["task"]).run_on_terminal().assert_exit(0).stdout_is("done\n");
    assert!(run.stderr.contains("note"), "progress is seen: {:?}", run.stderr);
    assert!(
        !run.stderr.contains("\u{1b}]0;owned") && !run.stderr.contains("\u{1b}[2J"),
        "{:?}",
        run.stderr
    );
}
