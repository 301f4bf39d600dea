//! What is asked of a model besides its texts, and what comes back besides its answer: commentary, reasoning, refusals that
//! are billed, the ways that a request takes.

use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{CANARY, Sandbox, answer};

/// A recorded response of `tests/fixtures/llm`, as a stream.
pub(crate) fn recorded(name: &str) -> Answer {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/llm/");
    Answer::raw(200, "text/event-stream", std::fs::read(format!("{folder}{name}")).unwrap())
}

/// A sandbox whose provider is Anthropic, on loopback.
pub(crate) fn anthropic() -> Sandbox {
    let sandbox = Sandbox::new().config(json!({})).env("OPENAI_API_KEY", "");
    let base = sandbox.llm.origin();
    sandbox.env("ANTHROPIC_BASE_URL", base).env("ANTHROPIC_API_KEY", CANARY)
}

#[test]
fn commentary_before_an_answer_is_shown_and_is_not_the_answer() {
    let name = "openai-responses/61-stream-commentary-before-answer.sse";
    let sandbox = Sandbox::new().config_also(json!({"api": "responses"}));
    let text = String::from_utf8(match recorded(name) {
        Answer::Raw { body, .. } => body,
        _ => unreachable!(),
    });
    let text = text.unwrap().replace("Grüße 🌍\\n", "<nagent-response>Done.</nagent-response>");
    sandbox.llm.push(Answer::raw(200, "text/event-stream", text));
    let run = sandbox.run(&["-v", "task"]).assert_exit(0).stdout_is("Done.\n");
    run.stderr_has(&["· **Looking** at it", "· I'll quickly look at the folder."]);
    assert_eq!(sandbox.requests().len(), 1);
    assert!(!sandbox.conversation().contains("quickly"), "{}", sandbox.conversation());
}

#[test]
fn a_refused_reply_is_counted_and_reasoning_is_shown_with_v_only() {
    let name = "anthropic/72-stream-refusal-is-billed.sse";
    let sandbox = anthropic().answer(recorded(name)).answer(recorded(name));
    let run = sandbox.run(&["--json", "task"]).assert_exit(3);
    let document = run.json();
    for (key, count) in [("tokens_in", 28), ("tokens_out", 106), ("reasoning_tokens", 90)] {
        assert_eq!(document[key], count, "{key}: {document}");
    }
    assert!(!run.stderr.contains("Is this allowed?"), "{}", run.stderr);
    sandbox.run(&["-v", "task"]).assert_exit(3).no_stdout().stderr_has(&["· Is this allowed?"]);
    let sandbox = anthropic().answer(recorded(name)).file("q.txt", "What?");
    let document = sandbox.llm_text(&["--json", "q.txt"]).run().assert_exit(3).json();
    assert_eq!((&document["input_tokens"], &document["output_tokens"]), (&json!(28), &json!(106)));
}

#[test]
fn a_proxy_is_named_when_it_refuses_or_wants_a_login() {
    let base = json!({"base_url": "https://models.example/v1"});
    let sandbox = Sandbox::new().config_also(base);
    let ask = |proxy: &str| {
        let run = sandbox.cmd(&["--patience", "0", "task"]).env("HTTPS_PROXY", proxy);
        run.run().assert_exit(3).no_stdout()
    };
    ask("http://127.0.0.1:9").stderr_has(&["the proxy in HTTPS_PROXY refused the connection"]);
    let words = ["--patience", "0", "--base-url", "https://0.0.0.0:9/v1", "task"];
    let direct = sandbox.cmd(&words).env("HTTPS_PROXY", "http://127.0.0.1:9");
    let run = direct.env("NO_PROXY", "a.b, 0.0.0.0").run().assert_exit(3);
    assert!(!run.stderr.contains("proxy in"), "{}", run.stderr);
    run.stderr_has(&["0.0.0.0:9 refused the connection"]);
    let through = ["cannot connect to models.example through the proxy in HTTPS_PROXY: SOCKS"];
    ask("socks5h://127.0.0.1:9").stderr_has(&through);
    sandbox.llm.beside(|_| {
        Some(Answer::Raw {
            status: 407,
            headers: vec![("proxy-authenticate".into(), "Basic realm=\"x\"".into())],
            body: Vec::new(),
        })
    });
    ask(&sandbox.llm.origin()).stderr_has(&["the proxy in HTTPS_PROXY requires a login"]);
}

#[test]
fn claude_code_does_not_retry_in_silence() {
    let sandbox = Sandbox::new().config(json!({})).file("q.txt", "What is 2+2?");
    let reply = answer("$CLAUDE_CODE_MAX_RETRIES");
    sandbox.script("bin/claude", &format!("#!/bin/sh\ncat > /dev/null\necho \"{reply}\"\n"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", sandbox.work().join("bin").display());
    let run = |retries: &str| {
        let run = sandbox.llm_text(&["--provider", "claude-code", "q.txt"]).env("PATH", &path);
        run.env("CLAUDE_CODE_MAX_RETRIES", retries).run().assert_exit(0).stdout
    };
    assert!(run("").contains(">1<"));
    assert!(run("7").contains(">7<"), "what the user has set counts");
}

// Servers by name, and what belongs to a connection.

/// A profile `work` of a known server that is on loopback here.
pub(crate) fn work_at(server: &str, more: &serde_json::Value) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut profile = json!({"provider": server, "base_url": sandbox.base_url(), "model": "m"});
    for (key, value) in more.as_object().unwrap() {
        profile[key] = value.clone();
    }
    sandbox.config_also(json!({"headers": {"x-of": "openai"}, "profiles": {"work": profile}}))
}

#[test]
fn a_server_gets_its_own_key_and_nothing_of_another_connection() {
    let sandbox = work_at("groq", &json!({})).reply(answer("done"));
    // Neither the key nor the address of another server counts.
    let sandbox = sandbox.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    sandbox.run(&["--profile", "work", "task"]).assert_exit(2).stderr_has(&["GROQ_API_KEY"]);
    let sandbox = sandbox.env("GROQ_API_KEY", "gsk-own-key-1");
    sandbox.run(&["--profile", "work", "task"]).answers("done");
    let requests = sandbox.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer gsk-own-key-1"));
    assert_eq!((requests[0].header("x-of"), &requests[0].json()["model"]), (None, &json!("m")));
    let status = sandbox.run(&["--profile", "work", "--status", "--json"]).assert_exit(0).json();
    assert_eq!(status["provider"], "groq");
}

#[test]
fn the_name_of_a_server_is_a_provider() {
    let sandbox = Sandbox::new().env("OPENROUTER_API_KEY", "or-key").reply(answer("done"));
    let base = sandbox.base_url();
    let run = ["--provider", "openrouter", "--base-url", &base, "-m", "a/b", "task"];
    sandbox.run(&run).answers("done");
    assert_eq!(sandbox.requests()[0].header("authorization"), Some("Bearer or-key"));
    let list = sandbox.run(&["--provider", "openruter", "task"]).assert_exit(2);
    list.stderr_has(&["did you mean openrouter?"]);
    let run = sandbox.run(&["--provider", "mistral", "task"]).assert_exit(2);
    run.stderr_has(&["no credential for provider mistral", "MISTRAL_API_KEY"]);
}

#[test]
fn a_server_on_this_machine_needs_no_key_and_no_model() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let sandbox = sandbox.env("OPENAI_API_KEY", "not-for-this-one");
    let list = json!({"data": [{"id": "test-model", "max_model_len": 4096}]}).to_string();
    sandbox.llm.beside(move |_| Some(Answer::raw(200, "application/json", list.clone())));
    let base = sandbox.base_url();
    let run = sandbox.cmd(&["--provider", "vllm", "task"]).env("VLLM_BASE_URL", &base).run();
    run.answers("done");
    let request = &sandbox.requests()[0];
    assert_eq!(
        (request.header("authorization"), &request.json()["model"]),
        (None, &json!("test-model"))
    );
}

#[test]
fn azure_is_named_by_its_resource() {
    let sandbox = Sandbox::new().env("AZURE_OPENAI_API_KEY", "azure-key").reply(answer("done"));
    let origin = sandbox.llm.origin();
    let run = sandbox.cmd(&["--profile", "azure", "-m", "my-deployment", "task"]);
    run.env("AZURE_OPENAI_ENDPOINT", &origin).run().answers("done");
    let request = &sandbox.requests()[0];
    assert_eq!(request.path, "/openai/v1/chat/completions");
    let run = sandbox.run(&["--profile", "azure", "-m", "my-deployment", "task"]).assert_exit(2);
    run.stderr_has(&["AZURE_OPENAI_ENDPOINT"]);
}

#[test]
fn headers_and_members_of_the_user_are_sent() {
    let sandbox = work_at(
        "openai",
        &json!({"key_env": "WORK_API_KEY", "headers": {"x-gateway": "$GATEWAY_KEY"}, "body": {"top_p": 0.9, "stream_options": null}}),
    );
    let sandbox = sandbox.env("WORK_API_KEY", CANARY).reply(answer("done"));
    let args = ["--profile", "work", "--header", "X-Team: search", "--seed", "7", "task"];
    sandbox.run(&args).assert_exit(2).stderr_has(&["x-gateway", "$GATEWAY_KEY"]);
    let sandbox = sandbox.env("GATEWAY_KEY", "gateway-secret-1");
    sandbox.run(&args).answers("done");
    let request = &sandbox.requests()[0];
    assert_eq!(request.header("x-gateway"), Some("gateway-secret-1"));
    assert_eq!(request.header("x-team"), Some("search"));
    let body = request.json();
    assert_eq!((&body["top_p"], &body["seed"]), (&json!(0.9), &json!(7)));
    assert!(body.get("stream_options").is_none(), "{body}");
    let shown = sandbox.run(&[&args[..], &["--show-request"]].concat()).assert_exit(0).stdout;
    assert!(shown.contains("top_p") && !shown.contains("gateway-secret-1"), "{shown}");
    sandbox.run(&["--header", "no colon", "x"]).assert_exit(2).stderr_has(&["x-team: search"]);
    for header in
        ["Content-Length: 3", "host: x", "transfer-encoding: chunked", "x y: z", "x: a\rb"]
    {
        let run = sandbox.run(&["--profile", "work", "--header", header, "x"]).assert_exit(2);
        run.stderr_has(&["header"]);
        let (name, value) = header.split_once(": ").unwrap();
        let other = Sandbox::new().config_also(json!({"headers": {name: value}}));
        other.run(&["x"]).assert_exit(2).stderr_has(&[
            "config.json",
            "\"headers\"",
            "cannot be sent",
        ]);
    }
    let broken = sandbox.cmd(&args).env("GATEWAY_KEY", "a\nb").run().assert_exit(2);
    broken.stderr_has(&["the header x-gateway (from ", "control character"]);
    let empty = ["--profile", "work", "--header", "x-empty: $EMPTY", "x"];
    let run = sandbox.cmd(&empty).env("EMPTY", "a\nb").run().assert_exit(2);
    run.stderr_has(&["the header x-empty (from --header) ", "control character"]);
    let odd = work_at("openai", &json!({"key_env": "MY_LLM"})).env("MY_LLM", "k");
    odd.run(&["--profile", "work", "x"]).assert_exit(2).stderr_has(&["key_env", "_KEY or _TOKEN"]);
}

#[test]
fn a_command_prints_the_key_and_is_asked_again_when_it_has_expired() {
    let script = "#!/bin/sh\necho x >> \"$HOME/calls\"\necho token-$(wc -l < \"$HOME/calls\")\n";
    let sandbox = Sandbox::new();
    let program = sandbox.script("key.sh", script);
    let sandbox = sandbox.config_also(json!({"key_command": [program, "print"]}));
    sandbox.llm.push(crate::sandbox::shell("true"));
    sandbox.llm.push(Answer::error(401, "invalid_api_key"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).answers("done");
    let keys: Vec<_> = sandbox.requests();
    let keys: Vec<_> =
        keys.iter().map(|request| request.header("authorization").unwrap()).collect();
    assert_eq!(keys, ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
    // The first one may have expired, too; twice is enough.
    let sandbox = Sandbox::new();
    let program = sandbox.script("key.sh", script);
    let sandbox = sandbox.config_also(json!({"key_command": [program]})).file("q.txt", "What?");
    sandbox.llm.choose(|_| Answer::error(401, "invalid_api_key"));
    let run = sandbox.run(&["task"]).assert_exit(3).no_stdout();
    run.stderr_has(&["the credential came from \"key_command\" in the config"]);
    assert_eq!(sandbox.requests().len(), 2);
    let fixed = "#!/bin/sh\necho always-the-same\n";
    let sandbox = Sandbox::new();
    let program = sandbox.script("key.sh", fixed);
    let sandbox = sandbox.config_also(json!({"key_command": [program]}));
    sandbox.llm.beside(|request| {
        let is_list = request.path.ends_with("/models");
        is_list.then(|| Answer::error(401, "invalid_api_key"))
    });
    let run = sandbox.run(&["--list-models"]).assert_exit(3);
    run.stderr_has(&["the credential came from \"key_command\" in the config"]);
    assert_eq!(sandbox.llm.all_requests().len(), 1, "the same token is not sent again");
    let sandbox = Sandbox::new();
    let program = sandbox.script("key.sh", "#!/bin/sh\necho 'please log in' >&2\nexit 4\n");
    let sandbox = sandbox.config_also(json!({"key_command": [program]}));
    sandbox
        .run(&["task"])
        .assert_exit(2)
        .stderr_has(&["key_command", "exit code 4: please log in"]);
    assert_eq!(sandbox.requests().len(), 0);
}

#[test]
fn tokens_of_gateways_are_sent_as_tokens() {
    let sandbox = anthropic().env("ANTHROPIC_API_KEY", "").env("ANTHROPIC_AUTH_TOKEN", CANARY);
    let sandbox = sandbox.reply(answer("done"));
    sandbox.run(&["-m", "m", "task"]).answers("done");
    let request = &sandbox.requests()[0];
    assert_eq!(request.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    assert_eq!(request.header("x-api-key"), None);
    let sandbox = Sandbox::new().config(json!({"provider": "ollama"})).reply(answer("done"));
    let host = sandbox.llm.origin();
    let run =
        sandbox.cmd(&["-m", "m", "task"]).env("OLLAMA_HOST", &host).env("OLLAMA_API_KEY", CANARY);
    run.run().answers("done");
    let request = &sandbox.requests()[0];
    assert_eq!(request.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
}

#[test]
fn the_address_of_gemini_has_two_names() {
    let sandbox =
        Sandbox::new().config(json!({"provider": "google"})).env("GEMINI_API_KEY", CANARY);
    let origin = sandbox.llm.origin();
    let run = |first: &str, second: &str| {
        sandbox.llm.push(answer("done"));
        let run = sandbox.cmd(&["-n", "task"]).env("GOOGLE_BASE_URL", first);
        run.env("GOOGLE_GEMINI_BASE_URL", second).run().answers("done");
    };
    run("", &origin);
    run(&origin, "http://127.0.0.1:9");
}

#[test]
fn the_organisation_is_told_to_openai_only() {
    let sandbox = Sandbox::new().env("OPENAI_ORG_ID", "org-1").reply(answer("done"));
    sandbox.run(&["task"]).answers("done");
    assert_eq!(sandbox.requests()[0].header("openai-organization"), None);
}

#[test]
fn a_socks_proxy_is_used() {
    use std::io::{Read, Write};
    let sandbox = Sandbox::new().config_also(json!({"base_url": "http://models.example/v1"}));
    let sandbox = sandbox.reply(answer("done"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, llm) = (listener.local_addr().unwrap().port(), sandbox.llm.port());
    let asked = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = [0; 2];
        client.read_exact(&mut head).unwrap();
        client.read_exact(&mut vec![0; head[1].into()]).unwrap();
        client.write_all(&[5, 0]).unwrap();
        // A connection to a name.
        let mut start = [0; 5];
        client.read_exact(&mut start).unwrap();
        let mut name = vec![0; start[4].into()];
        client.read_exact(&mut name).unwrap();
        client.read_exact(&mut [0; 2]).unwrap();
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let mut server = std::net::TcpStream::connect(("127.0.0.1", llm)).unwrap();
        let (mut up, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut up, &mut to);
            to.shutdown(std::net::Shutdown::Both)
        });
        let _ = std::io::copy(&mut server, &mut client);
        String::from_utf8(name).unwrap()
    });
    let proxy = format!("socks5h://127.0.0.1:{port}");
    sandbox.cmd(&["task"]).env("ALL_PROXY", &proxy).run().answers("done");
    assert_eq!(asked.join().unwrap(), "models.example");
}

#[test]
fn reasoning_is_a_flag_a_key_and_passed_to_children() {
    let sandbox = Sandbox::new().config_also(json!({"reasoning": "low"}));
    sandbox.llm.choose(|request| {
        if request.user().contains("child task") || request.user().contains("conversation-result") {
            answer("done").into()
        } else {
            "<nagent-conversation>child task</nagent-conversation>".into()
        }
    });
    let efforts = |from: usize| -> Vec<String> {
        let requests = sandbox.requests();
        let effort =
            |request: &crate::fake_llm::Request| request.json()["reasoning_effort"].to_string();
        requests[from..].iter().map(effort).collect()
    };
    sandbox.run(&["-n", "task"]).assert_exit(0);
    assert_eq!(efforts(0), ["\"low\"", "\"low\"", "\"low\""]);
    sandbox.run(&["-n", "--reasoning", "off", "task"]).assert_exit(0);
    assert_eq!(efforts(3), ["\"none\"", "\"none\"", "\"none\""]);
    sandbox.run(&["--reasoning", "much", "task"]).assert_exit(2).stderr_has(&["off, low, medium"]);
    // The five steps of older configs.
    let old = Sandbox::new().config_also(json!({"reasoning": 3}));
    old.llm.choose(|_| answer("done").into());
    old.run(&["-n", "task"]).assert_exit(0).no_stderr();
    old.run(&["-n", "--reasoning", "1", "task"]).assert_exit(0);
    let efforts: Vec<_> =
        old.requests().iter().map(|one| one.json()["reasoning_effort"].clone()).collect();
    assert_eq!(efforts, ["high", "low"]);
    let wrong = Sandbox::new().config_also(json!({"reasoning": "much"}));
    wrong.run(&["task"]).assert_exit(2).stderr_has(&["reasoning", "off, low, medium"]);
}

#[test]
fn a_temperature_that_would_be_refused_is_left_out_with_a_note() {
    let sandbox = anthropic().file("q.txt", "What is it?");
    let shown = |model: &str| {
        let args =
            ["-m", model, "--reasoning", "low", "--temperature", "0.5", "--show-request", "q.txt"];
        sandbox.llm_text(&args).run().assert_exit(0)
    };
    let run = shown("claude-haiku-4-5");
    assert!(!run.stdout.contains("temperature"), "{}", run.stdout);
    run.stderr_has(&["note: temperature ignored: claude-haiku-4-5 accepts none while reasoning"]);
    let args = ["-m", "claude-haiku-4-5", "--temperature", "0.5", "--show-request", "task"];
    let run = sandbox.run(&args).assert_exit(0);
    assert!(run.stdout.contains("\"temperature\":0.5") && run.stderr.is_empty(), "{}", run.stderr);
}

/// The requests that were held against the SDKs' types are those of today: `make conformance` checks others.
#[test]
fn requests_are_those_that_were_checked_against_the_sdks() {
    let text = include_str!("../conformance/requests.json");
    let recorded: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    assert_eq!(recorded.len(), 60);
    let schema = r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}"#;
    let sandbox =
        Sandbox::new().config(json!({})).file("q.txt", "What is 2+2?").file("schema.json", schema);
    let keys = ["ANTHROPIC", "GOOGLE", "MISTRAL", "GROQ"];
    let sandbox =
        keys.iter().fold(sandbox, |sandbox, key| sandbox.env(&format!("{key}_API_KEY"), "k"));
    for (name, row) in recorded {
        let flags = row["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap());
        let args: Vec<&str> = flags.chain(["--show-request", "q.txt"]).collect();
        let shown = sandbox.llm_text(&args).run().assert_exit(0).stdout;
        let body: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(body, row["body"], "{name}; make conformance, then check.py --record");
    }
}
