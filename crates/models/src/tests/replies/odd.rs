//! Replies that no recording holds: odd bodies, limits, redirects, any bytes.

use proptest::prelude::*;

use super::*;

/// Replies of status 200 that are no stream, or not one that any fixture holds.
#[test]
fn odd_bodies() {
    let check = |api: AnyApi, body: &[u8], expect: Expect| {
        let case = Case { name: "odd", api, expect };
        let result = decode_with(api, 200, &[], [body]);
        compare(&case, &String::from_utf8_lossy(&body[..body.len().min(60)]), result);
    };
    for api in APIS {
        check(api, b"", Error(Cut, "HTTP 200 with an empty body", None));
        check(api, b" \r\n\r\n ", Error(Cut, "empty body", None));
        check(
            api,
            b"\n<html><head><title>Guest Wi-Fi</title>",
            Error(
                Other,
                "“Guest Wi-Fi” instead of a reply: a captive portal, or a wrong base_url (https://host)",
                None,
            ),
        );
        check(
            api,
            br#"{"error":{"message":"no such thing","type":"invalid_request_error"}}"#,
            Error(Other, "no such thing", None),
        );
        check(api, br#"{"error":"rate limit"}"#, Error(Busy, "rate limit", None));
        check(api, br#"{"hello":"world"}"#, Error(ErrorKind::Broken, "gave no reason", None));
        check(api, br#"{"hello":"wor"#, Error(Cut, "", None));
    }
    for &api in &APIS[..4] {
        check(api, b"OK\n", Error(Other, "without a stream of events, but with: OK", None));
        check(api, b": ping\n\n", Error(Cut, "after 0 characters", None));
        check(api, b"data: {broken\n\ndata: x\n\n", Error(ErrorKind::Broken, "broken JSON", None));
        check(api, b"event: error\ndata: Overloaded\n\n", Error(Busy, "Overloaded", None));
        check(api, b"data: {\"error\":\n\n", Error(Cut, "", None));
    }
    let bare = b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n{\n  \"error\": {\n    \"code\": 503,\n\n    \"status\": \"UNAVAILABLE\"\n  }\n}\n";
    check(&Gemini, bare, Error(Busy, "HTTP 503, unavailable", None));
    check(
        &Chat,
        br#"{"object":"error","message":"flat","type":"BadRequestError","code":400}"#,
        Error(Other, "flat", None),
    );
    check(&Ollama, b"{\n \"model\": \"m\",\n \"message\": {\"content\": \"a\"},\n \"done\": true,\n \"eval_count\": 3, \"prompt_eval_count\": 2\n}\n", Good("a", 2, 0, 0, 3, End));
    check(&Gemini, br#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"candidates":[{"finishReason":"STOP"}],"modelVersion":"m","usageMetadata":{"promptTokenCount":1}}]"#, Good("a", 1, 0, 0, 0, End));
    check(&Chat, b"data: {\"choices\":[{\"delta\":{\"content\":\"<think>secret</think>\\n\\na\"},\"finish_reason\":\"stop\"}]}\n\n", Uncounted("a"));
    check(&Chat, b"data: {\"choices\":[{\"delta\":{\"refusal\":\"no way\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", Error(Refused, "no way", None));
    check(&Responses, b"data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"model\":\"m\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"only here\"}]}],\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n", Good("only here", 1, 0, 0, 2, End));
    check(&Messages, b"data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", Uncounted("a"));
    check(&Messages, b"data: {\"type\":\"message_start\"}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xffb\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", Uncounted("a\u{fffd}b"));
    check(
        &Ollama,
        b"{\"message\":{\"content\":\"a\xffb\"},\"done\":true}",
        Uncounted("a\u{fffd}b"),
    );
}

/// A reply of each API whose counts of input and output are these.
fn counted(api: AnyApi, input: &str, output: &str) -> String {
    let usage = |input_name: &str, output_name: &str| {
        let count = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("\"{name}\":{value},"),
        };
        format!("{}{}\"x\":1", count(input_name, input), count(output_name, output))
    };
    match api_name(api) {
        "responses" => format!(
            r#"{{"status":"completed","output":[{{"type":"message","content":[{{"type":"output_text","text":"a"}}]}}],"usage":{{{}}}}}"#,
            usage("input_tokens", "output_tokens")
        ),
        "chat" => format!(
            r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"stop"}}],"usage":{{{}}}}}"#,
            usage("prompt_tokens", "completion_tokens")
        ),
        "messages" => format!(
            r#"{{"content":[{{"type":"text","text":"a"}}],"stop_reason":"end_turn","usage":{{{}}}}}"#,
            usage("input_tokens", "output_tokens")
        ),
        "gemini" => format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}}]}},"finishReason":"STOP"}}],"usageMetadata":{{{}}}}}"#,
            usage("promptTokenCount", "candidatesTokenCount")
        ),
        _ => format!(
            r#"{{"message":{{"content":"a"}},"done":true,{}}}"#,
            usage("prompt_eval_count", "eval_count")
        ),
    }
}

#[test]
fn counts_that_are_absent_negative_or_absurd_harm_nobody() {
    for api in APIS {
        let check = |input: &str, output: &str, expect: Option<(u64, u64)>| {
            let body = counted(api, input, output);
            let reply = decode_with(api, 200, &[], [body.as_bytes()]).0.unwrap();
            let usage = reply.usage;
            let found = (!usage.estimated).then_some((usage.input, usage.output));
            assert_eq!(found, expect, "{}: {body}", api_name(api));
            assert_eq!(reply.text, "a");
        };
        check("7", "3", Some((7, 3)));
        check("", "", None);
        check("null", "{}", None);
        check("7.9", "\"3\"", Some((7, 3)));
        check("1e300", "18446744073709551615", Some((u64::MAX, u64::MAX)));
        check("99999999999999999999999", "1", Some((u64::MAX, 1)));
        check("-5", "3", Some((0, 3)));
    }
}

/// The events of a stream, each with the blank line or the line feed behind it.
fn events(name: &str) -> Vec<Vec<u8>> {
    let text = String::from_utf8(read(name)).unwrap().replace("\r\n", "\n");
    let gap = if name.contains(".ndjson") { "\n" } else { "\n\n" };
    text.split_inclusive(gap).map(|event| event.as_bytes().to_vec()).collect()
}

/// Whether all characters of a text come in the other one, in this order.
fn is_part_of(text: &str, whole: &str) -> bool {
    let mut letters = whole.chars();
    text.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

#[test]
fn events_that_are_missing_doubled_or_swapped_make_no_other_answer() {
    for case in cases().filter(is_stream) {
        let Good(text, _, _, _, output, _) = case.expect else { continue };
        let whole = events(case.name);
        let check = |how: &str, at: usize, events: Vec<&[u8]>| {
            let Ok(reply) = decode(&case, events).0 else { return };
            let name = format!("{}, event {at} {how}", case.name);
            // Where pieces have numbers, and an end with one, there is no other text at all.
            let is_numbered = case.name.starts_with("openai-responses/")
                && !case.name.contains("litellm")
                && String::from_utf8_lossy(&whole.concat()).contains("output_text.done");
            if is_numbered {
                assert_eq!(reply.text, text, "{name}");
            }
            assert!(reply.usage.estimated || reply.usage.output <= output, "{name}: {reply:?}");
            // Of a commentary only the event before it says that it is not the answer.
            let is_announced = case.name.contains("commentary") && how != "doubled";
            match how {
                _ if is_announced => {}
                "missing" => assert!(is_part_of(&reply.text, text), "{name}: {reply:?}"),
                "doubled" => assert!(is_part_of(text, &reply.text), "{name}: {reply:?}"),
                _ => assert!(reply.text.len() <= text.len() + 2, "{name}: {reply:?}"),
            }
        };
        for at in 0..whole.len() {
            let mut events: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
            let event = events.remove(at);
            check("missing", at, events.clone());
            events.insert(at, event);
            events.insert(at, event);
            check("doubled", at, events.clone());
            events.remove(at);
            if at + 1 < events.len() {
                events.swap(at, at + 1);
                check("swapped", at, events);
            }
        }
    }
}

#[test]
fn limits_are_errors_and_depth_is_harmless() {
    for api in APIS {
        let bombs = [("[", 20_000), ("{\"a\":", 9_000), ("{\"error\":", 2000)];
        for (open, depth) in
            bombs.into_iter().chain([("{\"choices\":[{\"delta\":{\"content\":[", 500)])
        {
            let bomb = open.repeat(depth);
            for body in
                [bomb.clone(), format!("data: {bomb}\n\n"), format!("data: {{\"error\":{bomb}\n\n")]
            {
                decode_with(api, 200, &[], [body.as_bytes()]).0.unwrap_err();
                decode_with(api, 400, &[], [body.as_bytes()]).0.unwrap_err();
            }
        }
    }
    let line = vec![b'a'; 1 << 20];
    let chunks =
        || std::iter::once(b"data: ".as_slice()).chain(std::iter::repeat_n(line.as_slice(), 20));
    let error = decode_with(&Chat, 200, &[], chunks()).0.unwrap_err();
    assert!(error.message.contains("more than 16 MiB"), "{error}");
    let failure =
        decode_with(&Chat, 500, &[], std::iter::repeat_n(line.as_slice(), 3)).0.unwrap_err();
    assert_eq!(failure.kind, Busy);
}

#[test]
fn a_redirect_is_not_followed() {
    let headers = [("Location".to_owned(), format!("https://elsewhere/?key={KEY}"))];
    let error = decode_with(&Chat, 307, &headers, []).0.unwrap_err();
    assert!(
        error.kind == Other && error.message.contains("redirects to https://elsewhere/ (HTTP 307)"),
        "{error}"
    );
    no_canary("redirect", &error.message);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), prefix in 0usize..5, status in prop::sample::select(vec![200u16, 302, 429, 500])) {
        let prefix: &[u8] = [b"data: ".as_slice(), b"{\"error\":", b"{\"choices\":", b"", b"data: {\"type\":\"error\","][prefix];
        for api in APIS {
            let _ = decode_with(api, status, &[], [prefix, &bytes]);
        }
    }

    #[test]
    fn any_text_comes_through(text in any::<String>()) {
        prop_assume!(!text.is_empty());
        let json = serde_json::to_string(&text).unwrap();
        let frame = format!("data: {{\"type\":\"message_start\"}}\n\ndata: {{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\"text\":{json}}}}}\n\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n");
        let (reply, told) = decode_with(&Messages, 200, &[], frame.as_bytes().chunks(7));
        prop_assert_eq!(reply.unwrap().text, text.clone());
        prop_assert_eq!(told, text);
    }
}
