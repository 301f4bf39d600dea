//! Each row of the provider table through the executables: the happy path, the refusal, which one is taken.

use serde_json::json;

use crate::answers::Answer;
use crate::fake_llm::FakeLlm;
use crate::sandbox::{CANARY, Sandbox, answer, shell};
use crate::wire::Reply;

/// A provider, reached through the environment.
struct Case {
    provider: &'static str,
    key: &'static str,
    base: (&'static str, &'static str),
    header: Option<&'static str>,
    path: &'static str,
    /// An error that means "this key is wrong".
    refusal: (u16, &'static str),
}

const CASES: [Case; 4] = [
    Case {
        provider: "openai",
        key: "OPENAI_API_KEY",
        base: ("OPENAI_BASE_URL", "/v1"),
        header: Some("authorization"),
        path: "/v1/chat/completions",
        refusal: (401, "invalid_api_key"),
    },
    Case {
        provider: "anthropic",
        key: "ANTHROPIC_API_KEY",
        base: ("ANTHROPIC_BASE_URL", ""),
        header: Some("x-api-key"),
        path: "/v1/messages",
        refusal: (401, "authentication_error"),
    },
    Case {
        provider: "google",
        key: "GOOGLE_API_KEY",
        base: ("GOOGLE_BASE_URL", ""),
        header: Some("x-goog-api-key"),
        path: "/v1beta/models/test-model:streamGenerateContent",
        refusal: (403, "PERMISSION_DENIED"),
    },
    Case {
        provider: "ollama",
        key: "",
        base: ("OLLAMA_HOST", ""),
        header: None,
        path: "/api/chat",
        refusal: (401, "unauthorized"),
    },
];

impl Case {
    fn sandbox(&self) -> Sandbox {
        let sandbox = Sandbox::new().config(json!({})).env("OPENAI_API_KEY", "");
        let base = format!("{}{}", sandbox.llm.origin(), self.base.1);
        let sandbox = sandbox.env(self.base.0, base);
        if self.key.is_empty() { sandbox } else { sandbox.env(self.key, CANARY) }
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["--provider", self.provider, "--model", "test-model"], more].concat()
    }
}

#[test]
fn each_provider_runs_the_whole_loop() {
    for case in CASES {
        let sandbox = case.sandbox();
        sandbox.llm.push(Reply::new(shell("echo hello from the shell")).usage(100, 40, 7));
        sandbox.llm.push(Reply::new(answer("grüße")).usage(200, 80, 5));
        let document = sandbox.run(&case.args(&["--json", "task"])).assert_exit(0).json();
        assert_eq!(document["responses"], json!(["grüße"]), "{}", case.provider);
        assert_eq!(
            (&document["tokens_in"], &document["tokens_out"]),
            (&json!(300), &json!(12)),
            "{}",
            case.provider
        );
        let requests = sandbox.requests();
        assert_eq!(requests[0].path.split('?').next(), Some(case.path));
        assert!(requests[1].last().contains("hello from the shell"), "{}", case.provider);
        assert!(requests[0].system().contains("nagent-shell"), "{}", case.provider);
        if let Some(header) = case.header {
            assert!(requests[0].header(header).unwrap().ends_with(CANARY), "{}", case.provider);
        }
        assert_eq!(
            requests[0].connection, requests[1].connection,
            "{}: the connection is kept",
            case.provider
        );
        assert!(!requests[0].path.contains(CANARY), "no key in an address");
    }
}

#[test]
fn each_provider_may_count_absurdly() {
    for case in CASES {
        let sandbox = case.sandbox();
        sandbox.llm.push(Reply::new(shell("true")).usage(u64::MAX, u64::MAX, u64::MAX));
        sandbox.llm.push(Reply::new(answer("done")).usage(u64::MAX, 0, u64::MAX));
        let run = sandbox.run(&case.args(&["--json", "task"])).assert_exit(0);
        assert_eq!(run.json()["tokens_in"], json!(u64::MAX), "{}", case.provider);
    }
}

#[test]
fn each_provider_refuses_a_key_once_and_its_name_is_said() {
    for case in CASES {
        let sandbox = case.sandbox().answer(Answer::error(case.refusal.0, case.refusal.1));
        let run = sandbox.run(&case.args(&["task"])).assert_exit(3).no_stdout();
        assert!(run.stderr.contains(case.key), "{}: {}", case.provider, run.stderr);
        assert_eq!(sandbox.requests().len(), 1, "{}", case.provider);
    }
}

#[test]
fn each_provider_is_tried_again_when_it_is_busy() {
    for case in CASES {
        let sandbox = case.sandbox().answer(Answer::busy(503)).reply(answer("done"));
        sandbox.run(&case.args(&["task"])).assert_exit(0).stdout_is("done\n");
        assert_eq!(sandbox.requests().len(), 2, "{}", case.provider);
    }
}

#[test]
fn each_providers_unfinished_stream_is_never_an_answer() {
    for case in CASES {
        let half = Answer::Half(Reply::new(answer("a full answer")).pieces(30));
        let sandbox = case.sandbox().answer(half).reply(answer("done"));
        sandbox.run(&case.args(&["task"])).assert_exit(0).stdout_is("done\n");
        assert_eq!(sandbox.requests().len(), 2, "{}", case.provider);
    }
}

#[test]
fn each_providers_length_limit_is_known() {
    for case in CASES {
        let sandbox = case
            .sandbox()
            .reply(Reply::new(answer("a full answer")).cut_off())
            .reply(answer("done"));
        sandbox.run(&case.args(&["task"])).assert_exit(0).stdout_is("done\n");
    }
}

#[test]
fn each_provider_lists_its_models() {
    for case in CASES {
        let sandbox = case.sandbox();
        let document = sandbox
            .run(&["--provider", case.provider, "--list-models", "--json"])
            .assert_exit(0)
            .json();
        assert_eq!(document["provider"], case.provider);
        let models: Vec<_> = document["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model.as_str().unwrap())
            .collect();
        assert!(models.contains(&"test-model"), "{models:?}");
        assert!(models.is_sorted(), "{models:?}");
        assert_eq!(sandbox.requests().len(), 0);
    }
}

#[test]
fn each_provider_is_there_for_llm_text_too() {
    for case in CASES {
        let sandbox = case.sandbox().file("q.txt", "What is 2+2?").reply("4");
        sandbox.llm_text(&case.args(&["--file", "q.txt"])).run().answers("4");
        let dialogue = sandbox.requests()[0].dialogue();
        assert_eq!(
            (dialogue.system.as_str(), dialogue.turns),
            ("", vec![("user".into(), "What is 2+2?".into())])
        );
    }
}

#[test]
fn gemini_is_another_name_of_google() {
    let case = &CASES[2];
    let sandbox = case.sandbox().reply(answer("done"));
    sandbox.run(&["--provider", "gemini", "--model", "test-model", "task"]).answers("done");
    assert_eq!(
        sandbox.run(&["--provider", "gemini", "--status", "--json"]).json()["provider"],
        "google"
    );
}

#[test]
fn gemini_api_key_is_taken_as_well() {
    let sandbox = CASES[2]
        .sandbox()
        .env("GOOGLE_API_KEY", "")
        .env("GEMINI_API_KEY", "other-key")
        .reply(answer("done"));
    sandbox.run(&CASES[2].args(&["task"])).answers("done");
    assert_eq!(sandbox.requests()[0].header("x-goog-api-key"), Some("other-key"));
}

#[test]
fn anthropic_sends_its_version_and_cache_marks() {
    let sandbox = CASES[1].sandbox().reply(shell("true")).reply(answer("done"));
    sandbox.run(&CASES[1].args(&["task"])).answers("done");
    for request in sandbox.requests() {
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
        let marks = request.text().matches("cache_control").count();
        assert!((1..=4).contains(&marks), "{marks} cache marks");
        assert!(request.json()["max_tokens"].is_u64());
    }
}

#[test]
fn openai_speaks_the_responses_api_where_it_is_asked_to() {
    let sandbox = Sandbox::new().config_also(json!({"api": "responses"}));
    sandbox.llm.push(Reply::new(shell("echo hello")).usage(100, 64, 7));
    sandbox.llm.push(answer("done"));
    let document = sandbox.run(&["--json", "task"]).assert_exit(0).json();
    assert_eq!(document["responses"], json!(["done"]));
    let requests = sandbox.requests();
    assert_eq!(requests[0].path, "/v1/responses");
    assert_eq!(requests[0].json()["store"], false);
    assert!(requests[1].last().contains("hello"));
}

#[test]
fn a_base_url_may_end_in_a_slash() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let base = format!("{}/", sandbox.base_url());
    sandbox.config_also(json!({"base_url": base})).run(&["task"]).answers("done");
}

#[test]
fn a_server_without_a_key_is_asked_without_one() {
    let sandbox = Sandbox::new().env("OPENAI_API_KEY", "").reply(answer("done"));
    sandbox.run(&["task"]).answers("done");
    assert_eq!(sandbox.requests()[0].header("authorization"), None);
}

#[test]
fn ollama_takes_the_only_model_there_is() {
    let sandbox = CASES[3].sandbox().reply(answer("done"));
    sandbox.run(&["--provider", "ollama", "task"]).answers("done");
    assert_eq!(sandbox.requests()[0].json()["model"], "test-model");
}

#[test]
fn ollama_is_told_its_window_and_not_to_drop_messages() {
    let sandbox = CASES[3].sandbox().reply(answer("done"));
    sandbox.run(&CASES[3].args(&["task"])).answers("done");
    let body = sandbox.requests()[0].json();
    assert!(body["options"]["num_ctx"].is_u64(), "{body}");
    assert_eq!(body["truncate"], false);
}

#[test]
fn the_first_of_the_table_whose_credential_is_set_is_taken() {
    let sandbox = CASES[1].sandbox();
    assert_eq!(sandbox.run(&["--status", "--json"]).assert_exit(0).json()["provider"], "anthropic");
    let both =
        sandbox.cmd(&["--status", "--json"]).env("OPENAI_API_KEY", "k").run().assert_exit(0).json();
    assert_eq!(both["provider"], "openai");
}

#[test]
fn without_any_credential_the_choices_are_listed() {
    // A port that nobody listens on stands for an Ollama that is not there.
    let sandbox = Sandbox::new()
        .config(json!({}))
        .env("OPENAI_API_KEY", "")
        .env("OLLAMA_HOST", "http://127.0.0.1:9");
    let run = sandbox.run(&["task"]).assert_exit(2).no_stdout();
    run.stderr_has(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "ollama"]);
}

#[test]
fn a_model_of_the_config_counts_only_for_the_configs_provider() {
    let sandbox = Sandbox::new().env("ANTHROPIC_API_KEY", "k");
    let status =
        sandbox.run(&["--provider", "anthropic", "--status", "--json"]).assert_exit(0).json();
    assert_eq!(status["model"], "claude-sonnet-4-6");
    assert_eq!(sandbox.run(&["--status", "--json"]).json()["model"], "test-model");
}

#[test]
fn a_redirect_does_not_carry_the_key_to_another_host() {
    let other = FakeLlm::start();
    other.choose(|_| answer("from elsewhere").into());
    let sandbox = Sandbox::new();
    let port = other.port();
    sandbox.llm.choose(move |_| Answer::redirect(port));
    sandbox.run(&["--patience", "1", "task"]).assert_exit(3).no_stdout();
    assert!(other.all_requests().iter().all(|request| request.header("authorization").is_none()));
}

// Executables as providers.

#[test]
fn a_command_gets_the_prompt_on_stdin_and_answers_in_text() {
    let sandbox = Sandbox::new().file("q.txt", "What is 2+2?");
    let program = sandbox.script("model.sh", "#!/bin/sh\ncat > \"$HOME/seen\"\necho 4\n");
    let sandbox = sandbox.config(json!({"provider": "command", "command": [program]}));
    sandbox.llm_text(&["--file", "q.txt"]).run().assert_exit(0).stdout_is("4\n");
    assert!(std::fs::read_to_string(sandbox.home().join("seen")).unwrap().contains("What is 2+2?"));
}

#[test]
fn a_command_runs_the_whole_loop() {
    let script = "#!/bin/sh\nif grep -q '^<nagent-shell-result'; then echo '<nagent-response>done</nagent-response>'\n\
        else echo '<nagent-shell>echo hi</nagent-shell>'; fi\n";
    let sandbox = Sandbox::new();
    let program = sandbox.script("model.sh", script);
    let sandbox = sandbox.config(json!({"provider": "command", "command": [program]}));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    assert!(sandbox.block("nagent-shell-result").body.contains("hi"));
}

#[test]
fn a_command_that_fails_is_exit_3_with_its_words() {
    let sandbox = Sandbox::new();
    let program = sandbox.script("model.sh", "#!/bin/sh\necho 'no licence' >&2\nexit 9\n");
    let sandbox = sandbox.config(json!({"provider": "command", "command": [program]}));
    sandbox
        .run(&["--patience", "1", "task"])
        .assert_exit(3)
        .no_stdout()
        .stderr_has(&["no licence"]);
}

#[test]
fn the_presets_of_cursor_and_claude_code_run_their_programs() {
    for (provider, program, reply) in [
        (
            "cursor",
            "cursor-agent",
            r#"{"type":"result","subtype":"success","is_error":false,"result":"4"}"#,
        ),
        (
            "claude-code",
            "claude",
            r#"{"type":"result","subtype":"success","is_error":false,"result":"4","usage":{"input_tokens":9,"output_tokens":1}}"#,
        ),
    ] {
        let sandbox = Sandbox::new().config(json!({})).file("q.txt", "What is 2+2?");
        sandbox.script(
            &format!("bin/{program}"),
            &format!("#!/bin/sh\ncat > /dev/null\ncat .cursor/cli.json > \"$HOME/seen\"; ls -A >> \"$HOME/seen\"\necho '{reply}'\n"),
        );
        let path =
            format!("{}:{}", sandbox.work().join("bin").display(), std::env::var("PATH").unwrap());
        let run = sandbox.llm_text(&["--provider", provider, "--file", "q.txt"]);
        run.env("PATH", path).env("CURSOR_API_KEY", "k").run().assert_exit(0).stdout_is("4\n");
        // It runs in a folder of its own, and Cursor's has nothing but what switches its tools off.
        let seen = std::fs::read_to_string(sandbox.home().join("seen")).unwrap();
        if provider == "cursor" {
            let settings: serde_json::Value =
                serde_json::from_str(seen.lines().next().unwrap().trim_end_matches(".cursor"))
                    .unwrap();
            let denied = settings["permissions"]["deny"].to_string();
            assert!(
                ["Shell(**)", "Write(/**)", "Mcp("].iter().all(|rule| denied.contains(rule)),
                "{denied}"
            );
        } else {
            assert_eq!(seen, "");
        }
    }
}

#[test]
fn claude_code_that_says_success_and_is_error_is_a_failure() {
    let reply =
        r#"{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key"}"#;
    let sandbox = Sandbox::new().config(json!({})).file("q.txt", "What is 2+2?");
    sandbox.script("bin/claude", &format!("#!/bin/sh\ncat > /dev/null\necho '{reply}'\n"));
    let path =
        format!("{}:{}", sandbox.work().join("bin").display(), std::env::var("PATH").unwrap());
    let run =
        sandbox.llm_text(&["--provider", "claude-code", "--file", "q.txt"]).env("PATH", path).run();
    run.assert_exit(3).no_stdout().stderr_has(&["Invalid API key"]);
}

#[test]
fn a_recording_is_replayed_with_real_actions() {
    let lines = [
        json!({"conversation": "0", "turn": 1, "reply": shell("echo real > made.txt"), "usage": {"input": 5, "output": 2}}),
        json!({"conversation": "0", "turn": 2, "reply": answer("done"), "usage": {"input": 9, "output": 1}}),
    ];
    let sandbox =
        Sandbox::new().file("demo.jsonl", lines.map(|line| line.to_string() + "\n").concat());
    let sandbox = sandbox.config(json!({"provider": "replay", "model": "demo.jsonl"}));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.read("made.txt"), "real\n");
    assert_eq!(sandbox.llm.all_requests().len(), 0);
}

/// A refusal of a part of a request, as OpenAI and llama.cpp word it.
fn refuses(param: &str, message: &str) -> Answer {
    let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": 400}});
    Answer::raw(400, "application/json", error.to_string())
}

fn whole(text: &str) -> Answer {
    let message = json!({"role": "assistant", "content": text});
    let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
    let body = json!({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
    Answer::raw(200, "application/json", body.to_string())
}

#[test]
fn a_part_that_a_server_refuses_is_left_out_from_then_on() {
    let sandbox = Sandbox::new();
    let verified = "Your organization must be verified to stream this model.";
    sandbox.llm.push(refuses("stream", verified));
    sandbox.llm.push(whole(&shell("true")));
    sandbox.llm.push(whole(&answer("done")));
    sandbox.run(&["task"]).answers("done");
    let streams: Vec<_> = sandbox.requests().iter().map(|it| it.json()["stream"].clone()).collect();
    assert_eq!(streams, [true, false, false]);
    assert!(
        sandbox.requests()[1].json().get("stream_options").is_none_or(serde_json::Value::is_null)
    );

    let case = &CASES[1];
    let sandbox = case.sandbox();
    let verified = "Your organization must be verified to generate reasoning summaries.";
    sandbox.llm.push(refuses("", verified));
    sandbox.llm.push(answer("done"));
    let args = ["--provider", "anthropic", "-m", "claude-sonnet-5-5", "-v", "task"];
    sandbox.run(&args).assert_exit(0).stdout_is("done\n");
    let shown = |at: usize| sandbox.requests()[at].json()["thinking"]["display"].clone();
    assert_eq!((shown(0), shown(1)), (json!("summarized"), json!(null)));

    // What the request does not have cannot be left out: the error stands.
    let sandbox = Sandbox::new().reply(refuses("response_format", "no schema here"));
    sandbox.run(&["task"]).assert_exit(3).stderr_has(&["no schema here"]);
    assert_eq!(sandbox.requests().len(), 1);
}

#[test]
fn a_schema_that_a_server_refuses_is_asked_for_in_words() {
    let schema = r#"{"type": "object", "properties": {"a": {"$anchor": "x", "type": "number"}}}"#;
    let sandbox = Sandbox::new().file("s.json", schema).file("q.txt", "A number.");
    let base = sandbox.base_url();
    let sandbox = sandbox.config(json!({"model": "m"})).env("LLAMA_BASE_URL", base);
    sandbox.llm.push(refuses("", "JSON schema conversion failed: unresolved ref"));
    sandbox.llm.push("{\"a\": 1}");
    let args = ["--provider", "llama.cpp", "-m", "m", "--schema", "s.json", "q.txt"];
    sandbox.llm_text(&args).run().assert_exit(0).stdout_is("{\"a\": 1}\n");
    let formats: Vec<bool> =
        sandbox.requests().iter().map(|it| it.json()["response_format"].is_object()).collect();
    assert_eq!(formats, [true, false]);
}

#[test]
fn groq_sends_answers_with_a_schema_whole_and_lm_studio_says_its_windows_elsewhere() {
    let sandbox = Sandbox::new().file("s.json", r#"{"type": "object"}"#).file("q.txt", "Any.");
    let base = sandbox.base_url();
    let own = json!({"profiles": {"fast": {"server": "groq", "base_url": base, "model": "m"}}});
    let sandbox = sandbox.config_also(own).env("GROQ_API_KEY", CANARY);
    sandbox.llm.push(whole("{}"));
    sandbox.llm.push("{}");
    let args = ["--profile", "fast", "q.txt"];
    let with_schema = [&args[..], &["--schema", "s.json"]].concat();
    sandbox.llm_text(&with_schema).run().assert_exit(0).stdout_is("{}\n");
    sandbox.llm_text(&args).run().assert_exit(0);
    let streams: Vec<_> = sandbox.requests().iter().map(|it| it.json()["stream"].clone()).collect();
    assert_eq!(streams, [false, true]);

    let sandbox = Sandbox::new();
    sandbox.llm.beside(|request| {
        let model = json!({"id": "m", "max_context_length": 9000, "loaded_context_length": 4096});
        let is_own = request.path == "/api/v0/models";
        is_own.then(|| Answer::raw(200, "application/json", json!({"data": [model]}).to_string()))
    });
    let base = sandbox.base_url();
    let run = sandbox.cmd(&["--provider", "lmstudio", "--list-models", "--json"]);
    let list = run.env("LMSTUDIO_BASE_URL", base).run().assert_exit(0).json();
    assert_eq!(list["details"][0]["window"], 4096, "{list}");
}
