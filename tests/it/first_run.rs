//! What a newcomer meets: no key, a wrong one, a program that is missing; `--doctor`; prices.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, answer};

/// A world with nothing set up: no key, no config, nobody on Ollama's port.
fn bare() -> Sandbox {
    let sandbox = Sandbox::new().no_config().env("OPENAI_API_KEY", "");
    drop(std::fs::remove_file(sandbox.root().join("tools.json")));
    sandbox.env("OLLAMA_HOST", "127.0.0.1:9")
}

#[test]
fn without_a_key_two_short_lines_say_what_to_do() {
    let sandbox = bare();
    for args in [&["hi"] as &[&str], &["--list-models"]] {
        let run = sandbox.run(args).assert_exit(2).no_stdout();
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{}", run.stderr);
        assert!(
            lines[0].contains("OPENAI_API_KEY")
                && lines[0].contains("GOOGLE_API_KEY")
                && lines[0].contains("Ollama"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("nagent --doctor"), "{}", lines[1]);
        assert!(lines.iter().all(|line| line.chars().count() < 130), "{lines:?}");
        let left = std::fs::read_dir(sandbox.root()).unwrap().count();
        assert_eq!(left, 0, "nothing is created");
    }
}

#[test]
fn a_model_without_a_key_asks_ollama_once() {
    let sandbox = bare();
    let run = sandbox.run(&["--model", "gpt-5.5", "hi"]).assert_exit(2).within(5.0);
    run.stderr_has(&["no API key is set", "127.0.0.1:9", "--list-providers"]);
    let run = sandbox.run(&["--model", "llama3", "hi"]).assert_exit(2);
    run.stderr_has(&["Ollama at 127.0.0.1:9 was asked for llama3"]);
    let status = sandbox.run(&["--model", "gpt-5.5", "--status"]).assert_exit(0).stdout;
    assert!(
        status.contains("model:gpt-5.5") && status.contains("model = gpt-5.5 (flag)"),
        "{status}"
    );
}

#[test]
fn a_provider_of_the_config_without_its_key_names_the_config_and_the_key_that_is_set() {
    let sandbox = Sandbox::new().config(json!({"provider": "anthropic"}));
    let config = sandbox.root().join("config.json");
    sandbox.run(&["hi"]).assert_exit(2).stderr_has(&[
        "no credential for provider anthropic",
        config.to_str().unwrap(),
        "set ANTHROPIC_API_KEY",
        "OPENAI_API_KEY is set: --provider openai",
    ]);
}

#[test]
fn a_program_that_is_not_installed_is_called_by_its_name() {
    let sandbox = Sandbox::new().env("PATH", "/nowhere");
    for (config, words) in [
        (
            json!({"provider": "command", "command": ["nosuchprog"]}),
            ["nosuchprog is not on the PATH", "\"command\""],
        ),
        (
            json!({"provider": "claude-code"}),
            ["claude is not on the PATH", "npm install -g @anthropic-ai/claude-code"],
        ),
        (
            json!({"provider": "claude-code", "command": ["my-claude"]}),
            [
                "my-claude is not on the PATH: \"command\" in the config names it",
                "--list-providers",
            ],
        ),
        (json!({"provider": "cursor"}), ["cursor-agent is not on the PATH", "--list-providers"]),
    ] {
        std::fs::write(sandbox.root().join("config.json"), config.to_string()).unwrap();
        let run = sandbox.run(&["hi"]).assert_exit(3).stderr_has(&words);
        assert!(!run.stderr.contains("/usr/bin/"), "{}", run.stderr);
    }
}

#[test]
fn mistakes_in_flags_and_config_say_what_a_value_must_be() {
    let sandbox = Sandbox::new();
    sandbox.run(&["--max-turns", "ten", "x"]).assert_exit(2).stderr_has(&[
        "--max-turns",
        "whole number",
        "ten",
    ]);
    sandbox.run(&["--max-turns", "0", "x"]).assert_exit(2).stderr_has(&["at least 1"]);
    for (config, words) in [
        (
            json!({"max_turns": "ten"}),
            &["\"max_turns\"", "must be a whole number, as in 50; it is \"ten\""] as &[&str],
        ),
        (json!({"max_turns": -1}), &["must be a whole number", "it is -1"]),
        (json!({"command": "my-model --json"}), &["must be a list of words", "my-model"]),
        (json!({"quiet": "yes"}), &["must be true or false"]),
        (json!({"prices": {"m": 1}}), &["\"prices\"", "must have the dollars", "\"input\": 2"]),
        (
            json!({"sandbox": "loose"}),
            &["expected one of `off`, `workspace`, `read-only`; it is \"loose\""],
        ),
        (json!({"write": "x"}), &["must be a list"]),
        (json!({"write": [1]}), &["must be a list of texts", "it is [1]"]),
        (json!({"profiles": 1}), &["must be an object"]),
        (json!({"OPENAI_API_KEY": "x"}), &["keys are not kept in the config", "export"]),
        (json!({"modle": "x"}), &["did you mean \"model\"?"]),
    ] {
        let sandbox = Sandbox::new().config(config);
        sandbox.run(&["x"]).assert_exit(2).stderr_has(words);
    }
}

fn checks(run: &Value) -> Vec<(String, String, String)> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let all = run["checks"].as_array().unwrap().iter();
    all.map(|check| (text(check, "finding"), text(check, "check"), text(check, "message")))
        .collect()
}

#[test]
fn doctor_checks_providers_tools_sandbox_and_config() {
    let sandbox = Sandbox::new();
    let bin = sandbox.root().join("bin");
    std::fs::create_dir(&bin).unwrap();
    sandbox.script(&bin.join("not-a-program").display().to_string(), "#!/bin/sh\n");
    std::fs::write(bin.join("no-mode"), "#!/bin/sh\n").unwrap();
    let run = sandbox.run(&["--doctor", "--json"]).assert_exit(0).json();
    let found = checks(&run);
    let has = |finding: &str, check: &str, words: &str| {
        let is =
            |(a, b, c): &(String, String, String)| a == finding && b == check && c.contains(words);
        assert!(found.iter().any(is), "{finding} {check} {words} in {found:#?}");
    };
    has("ok", "provider", "openai: 2 models");
    has("ok", "config", "config.json");
    has("warning", "tools", "not-a-program is not a tool: --description must print");
    has("warning", "tools", "no-mode is not a tool: it is not executable");
    assert!(found.iter().any(|(_, check, _)| check == "sandbox"));
    let asked: Vec<String> = sandbox.llm.all_requests().into_iter().map(|one| one.path).collect();
    assert_eq!(asked, ["/v1/models"], "one request, and none to a model");
    let text = bare().run(&["--doctor"]).assert_exit(1).stderr_has(&["1 of"]).stdout;
    assert!(text.contains("wrong    provider  no API key found"), "{text}");
    let program = |word: &str| bare().config(json!({"provider": "command", "command": [word]}));
    let text = program("/nowhere").run(&["--doctor"]).assert_exit(1).stdout;
    assert!(
        text.contains("wrong    provider  command: there is no program \"/nowhere\""),
        "{text}"
    );
    program("sh").run(&["--doctor"]).stdout_has(&["ok       provider  command: /"]);
    let broken = Sandbox::new().config_text("{");
    let text = broken.run(&["--doctor"]).assert_exit(1).stdout;
    assert!(text.contains("wrong    config") && text.contains("sandbox   "), "{text}");
}

#[test]
fn the_cost_of_a_default_model_is_known_where_its_own_server_is_asked() {
    // The scripted server is not OpenAI's: what it charges is not known.
    let sandbox = Sandbox::new().reply(answer("x")).reply(answer("y"));
    let run = sandbox.run(&["--model", "gpt-5.5", "--json", "x"]).assert_exit(0).json();
    assert!(run["cost"].is_null(), "{run}");
    let sandbox = sandbox.config_also(json!({"prices": {"gpt-5.5": {"input": 1, "output": 1}}}));
    let run = sandbox.run(&["--model", "gpt-5.5", "--json", "y"]).assert_exit(0).json();
    assert!(run["cost"].as_f64().unwrap() > 0.0);
    // With its own address and the built-in price, --max-cost needs nothing more than a server that answers.
    let official = Sandbox::new()
        .config(json!({"provider": "openai"}))
        .env("HTTPS_PROXY", "http://127.0.0.1:9");
    let run = official.cmd(&["--max-cost", "1", "--patience", "0", "x"]).run().assert_exit(3);
    assert!(!run.stderr.contains("needs the price"), "{}", run.stderr);
}
