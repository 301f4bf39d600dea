//! The requests of every API: golden bodies, valid JSON for any text, and messages that only grow.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::ChatRequest;
use super::super::api::Endpoint;
use super::{APIS, AnyApi, Chat, Gemini, KEY, Messages, Ollama, Responses, api_name, endpoint};
use conversation::model::{HttpRequest, RequestMessage, Role};

fn conversation<'a>(turns: &'a [Vec<&'a str>]) -> ChatRequest<'a> {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let messages = roles
        .zip(turns)
        .map(|(role, parts)| RequestMessage { role, parts: parts.clone() })
        .collect();
    ChatRequest {
        model: "m",
        system: Some("S"),
        messages,
        files: Vec::new(),
        cache_key: Some("c1"),
        max_output: None,
        window: None,
        options: Box::leak(Box::default()),
    }
}

fn body(request: &HttpRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn check(api: AnyApi, official: bool, ask: &ChatRequest<'_>, path: &str, expect: Value) {
    let request = endpoint(api, official).chat_request(ask);
    assert_eq!(
        (request.method, request.url.as_str()),
        ("POST", format!("https://host{path}").as_str())
    );
    assert_eq!(body(&request), expect);
    assert!(!String::from_utf8_lossy(&request.body).contains("temperature"));
    let keys: Vec<_> = request.headers.iter().filter(|(_, value)| value.contains(KEY)).collect();
    assert_eq!(keys.len(), 1);
    assert!(!request.url.contains(KEY));
}

#[test]
fn openais_models_are_told_that_what_is_kept_was_their_answer() {
    let turns = [vec!["a"], vec!["b"], vec!["c"]];
    let check = |model: &str, official: bool, expect: Value| {
        let ask = ChatRequest { model, ..conversation(&turns) };
        let sent = body(&endpoint(&Responses, official).chat_request(&ask));
        let phases: Vec<Value> =
            sent["input"].as_array().unwrap().iter().map(|item| item["phase"].clone()).collect();
        assert_eq!(phases, [Value::Null, expect, Value::Null], "{model}");
    };
    let answer = || json!("final_answer");
    check("gpt-5.3-codex", true, answer());
    check("gpt-5.5-2026-04-23", true, answer());
    check("gpt-6-sol", true, answer());
    check("gpt-5.5", false, Value::Null);
    for older in ["gpt-5.2", "gpt-5", "gpt-4o", "gpt-4.1-mini", "o3", "gpt-oss-120b", "m", ""] {
        check(older, true, Value::Null);
    }
}

#[test]
fn golden() {
    let turns = [vec!["a\n", "b"], vec!["c"], vec!["d"], vec!["e"], vec!["f", "g"]];
    let ask = conversation(&turns);
    let limited = ChatRequest { max_output: Some(99), window: Some(4096), ..ask.clone() };

    let part = |text: &str| json!({"type": "input_text", "text": text});
    let input = json!([
        {"type": "message", "role": "user", "content": [part("a\n"), part("b")]},
        {"type": "message", "role": "assistant", "content": "c"},
        {"type": "message", "role": "user", "content": [part("d")]},
        {"type": "message", "role": "assistant", "content": "e"},
        {"type": "message", "role": "user", "content": [part("f"), part("g")]},
    ]);
    let mut expect = json!({
        "model": "m", "instructions": "S", "store": false, "stream": true,
        "stream_options": {"include_obfuscation": false}, "prompt_cache_key": "c1", "input": input,
    });
    check(&Responses, true, &ask, "/responses", expect.clone());
    expect["max_output_tokens"] = json!(99);
    check(&Responses, true, &limited, "/responses", expect);

    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let strings = [
        said("user", "a\n\n\nb"),
        said("assistant", "c"),
        said("user", "d"),
        said("assistant", "e"),
        said("user", "f\n\ng"),
    ];
    let with_system: Vec<_> = std::iter::once(said("system", "S")).chain(strings.clone()).collect();
    let mut expect = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": with_system});
    check(&Chat, false, &ask, "/chat/completions", expect.clone());
    expect["max_tokens"] = json!(99);
    check(&Chat, false, &limited, "/chat/completions", expect);

    let part = |text: &str| json!({"type": "text", "text": text});
    check(
        &Chat,
        true,
        &limited,
        "/chat/completions",
        json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "prompt_cache_key": "c1",
            "max_completion_tokens": 99,
            "messages": [
                {"role": "developer", "content": "S"},
                {"role": "user", "content": [part("a\n"), part("b")]},
                {"role": "assistant", "content": "c"},
                {"role": "user", "content": [part("d")]},
                {"role": "assistant", "content": "e"},
                {"role": "user", "content": [part("f"), part("g")]},
            ],
        }),
    );

    let marked =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let messages = json!([
        {"role": "user", "content": [part("a\n"), part("b")]},
        {"role": "assistant", "content": [part("c")]},
        {"role": "user", "content": [marked("d")]},
        {"role": "assistant", "content": [part("e")]},
        {"role": "user", "content": [part("f"), marked("g")]},
    ]);
    let expect = json!({"model": "m", "max_tokens": 8192, "stream": true, "system": [marked("S")], "messages": messages});
    check(&Messages, true, &ask, "/v1/messages", expect);

    let parts = |texts: &[&str]| texts.iter().map(|text| json!({"text": text})).collect::<Vec<_>>();
    let mut expect = json!({
        "systemInstruction": {"parts": parts(&["S"])},
        "contents": [
            {"role": "user", "parts": parts(&["a\n", "b"])},
            {"role": "model", "parts": parts(&["c"])},
            {"role": "user", "parts": parts(&["d"])},
            {"role": "model", "parts": parts(&["e"])},
            {"role": "user", "parts": parts(&["f", "g"])},
        ],
    });
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    check(&Gemini, true, &ask, path, expect.clone());
    expect["generationConfig"] = json!({"maxOutputTokens": 99});
    check(&Gemini, true, &limited, path, expect);

    let mut expect = json!({"model": "m", "stream": true, "truncate": false, "shift": false, "messages": with_system});
    check(&Ollama, false, &ask, "/api/chat", expect.clone());
    expect["options"] = json!({"num_ctx": 4096, "num_predict": 99});
    check(&Ollama, false, &limited, "/api/chat", expect);
}

/// OpenAI refuses a key of more than 64 characters, and other servers refuse the field.
#[test]
fn the_cache_key_is_short_and_for_openai_only() {
    let turns = [vec!["a"]];
    let key = |api: AnyApi, official: bool, name: &str| {
        let ask = ChatRequest { cache_key: Some(name), ..conversation(&turns) };
        let body = body(&endpoint(api, official).chat_request(&ask));
        body.get("prompt_cache_key").map(|key| key.as_str().unwrap().to_owned())
    };
    let (longest, too_long) = ("a".repeat(64), "a".repeat(65));
    let apis: [AnyApi; 2] = [&Responses, &Chat];
    for api in apis {
        assert_eq!(key(api, false, "c1"), None, "{}", api_name(api));
        assert_eq!(key(api, true, &longest), Some(longest.clone()), "{}", api_name(api));
        let hashed = key(api, true, &too_long).unwrap();
        assert!(hashed.len() <= 64 && hashed != too_long[..64], "{hashed}");
        assert_eq!(key(api, true, &too_long).unwrap(), hashed, "the key is stable");
        assert_ne!(key(api, true, &"b".repeat(65)).unwrap(), hashed);
    }
}

#[test]
fn the_longest_reply_of_a_known_model_is_bounded() {
    let turns = [vec!["a"]];
    let check = |model: &str, max_output: Option<u64>, expect: u64| {
        let ask = ChatRequest { model, max_output, ..conversation(&turns) };
        assert_eq!(
            body(&endpoint(&Messages, true).chat_request(&ask))["max_tokens"],
            expect,
            "{model}"
        );
    };
    check("claude-sonnet-4-6", None, 32_000);
    check("claude-sonnet-4-6", Some(128_000), 128_000);
    check("claude-unknown", None, 8192);
}

#[test]
fn strict_servers_and_odd_names() {
    let turns = [vec!["a"]];
    let ask = conversation(&turns);
    let mistral = Endpoint::new(&Chat, "https://api.mistral.ai/v1", None, false);
    assert_eq!(body(&mistral.chat_request(&ask)).get("stream_options"), None);
    let google = endpoint(&Gemini, true);
    let url = |model| google.chat_request(&ChatRequest { model, ..conversation(&turns) }).url;
    assert_eq!(url("models/g-1"), "https://host/v1beta/models/g-1:streamGenerateContent?alt=sse");
    assert_eq!(
        url("x?y#z é"),
        "https://host/v1beta/models/x%3Fy%23z%20%C3%A9:streamGenerateContent?alt=sse"
    );
    // A block of blanks would be refused by Anthropic, now and in every later turn.
    let blank = [vec!["a"], vec![" \n"], vec!["\n", "b"]];
    let messages =
        body(&endpoint(&Messages, true).chat_request(&conversation(&blank)))["messages"].clone();
    assert_eq!(messages[1]["content"], json!([{"type": "text", "text": "(blank)"}]));
    assert_eq!(messages[2]["content"].as_array().unwrap().len(), 1);
}

/// The messages of a body, cache marks left out: they roll, and no cache counts them.
fn messages(api: AnyApi, ask: &ChatRequest<'_>) -> Vec<Value> {
    let value = body(&endpoint(api, true).chat_request(ask));
    let key = match api_name(api) {
        "responses" => "input",
        "gemini" => "contents",
        _ => "messages",
    };
    let mut list = value[key].as_array().unwrap().clone();
    for block in list.iter_mut().filter_map(|message| message["content"].as_array_mut()).flatten() {
        block.as_object_mut().unwrap().remove("cache_control");
    }
    list
}

/// All texts of a body, in order.
fn texts(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "role" && *name != "type")
            .for_each(|(_, field)| texts(field, out)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn messages_only_grow_and_nothing_is_lost(turns in prop::collection::vec(prop::collection::vec("\\PC{0,12}|[\u{0}-\u{1f}\"\\\\\u{2028}é🌍]{1,8}", 1..3), 1..7)) {
        let turns: Vec<Vec<&str>> = turns.iter().map(|parts| parts.iter().map(String::as_str).collect()).collect();
        for api in APIS {
            let mut before = Vec::new();
            for length in 1..=turns.len() {
                let now = messages(api, &conversation(&turns[..length]));
                prop_assert!(now.starts_with(&before), "{}", api_name(api));
                before = now;
            }
            let mut found = String::new();
            for message in &before {
                texts(message, &mut found);
            }
            let joined = api_name(api) == "ollama";
            if !joined && api_name(api) != "messages" && turns.iter().enumerate().all(|(index, parts)| index % 2 == 0 || parts.len() == 1) {
                let system = if api_name(api) == "chat" { "S" } else { "" };
                prop_assert_eq!(found, system.to_owned() + &turns.concat().concat());
            }
            let again = endpoint(api, true).chat_request(&conversation(&turns)).body;
            prop_assert_eq!(again, endpoint(api, true).chat_request(&conversation(&turns)).body);
        }
    }
}
