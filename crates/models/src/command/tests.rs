//! Tests of programs as providers.

use super::*;
use conversation::model::{RequestMessage, Role};

fn ask<'a>(system: Option<&'a str>, texts: &'a [&'a str]) -> ChatRequest<'a> {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let messages =
        roles.zip(texts).map(|(role, text)| RequestMessage { role, parts: vec![text] }).collect();
    ChatRequest {
        model: "m",
        system,
        messages,
        files: Vec::new(),
        cache_key: None,
        max_output: None,
        window: None,
        options: Box::leak(Box::default()),
    }
}

#[test]
fn argvs() {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let claude = build_argv(Preset::ClaudeCode, Some("opus"), Some("S"), &[]);
    assert_eq!(claude[..2], ["claude", "-p"]);
    assert_eq!(claude[claude.len() - 4..], ["--model", "opus", "--system-prompt", "S"]);
    let cursor = build_argv(Preset::Cursor, None, Some("S"), &own(&["/opt/agent"]));
    assert_eq!(cursor, ["/opt/agent", "-p", "--output-format", "json", "--mode", "ask", "--trust"]);
    let command = own(&["llm", "-m={model}", "--system", "{system}"]);
    assert_eq!(
        build_argv(Preset::Command, Some("x"), Some("{model}"), &command),
        ["llm", "-m=x", "--system", "{model}"]
    );
    assert!(build_argv(Preset::Command, None, None, &[]).is_empty());
}

#[test]
fn prompts() {
    let check = |preset, ask: &ChatRequest<'_>, expect: &str| {
        assert_eq!(String::from_utf8(stdin(preset, ask, &[])).unwrap(), expect);
    };
    check(Preset::ClaudeCode, &ask(Some("S"), &["hi"]), "hi");
    check(Preset::Cursor, &ask(Some("S"), &["hi"]), "S\n\nhi");
    let text = |texts: &[&str]| {
        let ask = ChatRequest { cache_key: Some("c"), ..ask(None, texts) };
        String::from_utf8(stdin(Preset::Command, &ask, &[])).unwrap()
    };
    let first = text(&["a"]);
    let word = first.split("=== ").nth(1).unwrap().split(' ').next().unwrap();
    let mark = format!("=== {word}");
    let head = "A conversation follows. Write the assistant's next message, and nothing else.\n";
    assert_eq!(first, format!("{head}\n{mark} user {mark}\na\n"));
    let longer = "=".repeat(70);
    assert_eq!(
        text(&["a", &longer, "c"]),
        format!("{first}\n{mark} assistant {mark}\n{longer}\n\n{mark} user {mark}\nc\n")
    );
    assert!(!text(&["a", &mark, "c"]).starts_with(&first), "no text can contain a mark");
    let long = "s".repeat(MAX_FLAG + 1);
    assert!(stdin(Preset::ClaudeCode, &ask(Some(&long), &["hi"]), &[]).len() > MAX_FLAG);
    assert!(
        build_argv(Preset::ClaudeCode, None, Some(&long), &[]).iter().all(|word| word.len() < 100)
    );
}

fn check(exit: Option<i32>, stdout: &str, stderr: &str, expect: Result<&str, (ErrorKind, &str)>) {
    match (parse(Preset::Command, exit, stdout.as_bytes(), stderr.as_bytes()), expect) {
        (Ok(reply), Ok(text)) => assert_eq!(reply.text, text),
        (Err(error), Err((kind, part))) => {
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(part), "{error}");
        }
        (got, expect) => panic!("{got:?} for {expect:?}"),
    }
}

#[test]
fn plain_text() {
    check(Some(0), " hi\n\n", "", Ok(" hi\n"));
    check(Some(0), "{\"not\": \"an event\"}", "", Ok("{\"not\": \"an event\"}"));
    check(Some(0), "{broken", "", Ok("{broken"));
    check(Some(0), "\n", "warning: x\n\n", Err((ErrorKind::Cut, "printed nothing: warning: x")));
    check(
        Some(1),
        "",
        "Error: Not logged in\n",
        Err((ErrorKind::Auth, "exit code 1: Error: Not logged in")),
    );
    check(Some(2), "oops", "", Err((ErrorKind::Other, "exit code 2: oops")));
    check(Some(1), "", "429 rate limit, try again in 3s", Err((ErrorKind::Busy, "rate limit")));
    check(None, "half an ans", "", Err((ErrorKind::Broken, "signal")));
}

#[test]
fn objects_and_lines() {
    let usage = r#""usage":{"input_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":3}"#;
    let object = format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"hi\n","stop_reason":"end_turn",{usage}}}"#
    );
    check(Some(0), &object, "", Ok("hi\n"));
    let reply = parse(Preset::ClaudeCode, Some(0), object.as_bytes(), b"").unwrap();
    assert_eq!(
        reply.usage,
        Usage { input: 8, cached: 5, cache_written: 2, output: 3, ..Usage::default() }
    );
    check(Some(1), &object, "", Err((ErrorKind::Other, "exit code 1")));
    check(Some(0), r#"{"result":"bare"}"#, "", Ok("bare"));
    let lines = concat!(
        r#"{"type":"system","subtype":"init"}"#,
        "\n",
        r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#,
        "\n",
    );
    check(Some(0), lines, "", Err((ErrorKind::Cut, "before its last event")));
    check(
        Some(0),
        &format!("{lines}{}", r#"{"type":"result","subtype":"success","is_error":false}"#),
        "",
        Ok("ab"),
    );
}

#[test]
fn errors_inside_json() {
    let limit = r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#;
    check(Some(0), limit, "", Err((ErrorKind::Other, "error_max_turns")));
    let status = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: Overloaded","api_error_status":529}"#;
    check(Some(1), status, "", Err((ErrorKind::Busy, "Overloaded")));
}
