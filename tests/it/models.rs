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
