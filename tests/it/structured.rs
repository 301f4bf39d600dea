//! Answers that scripts can trust: `--schema`, `--output`, `--grammar`, and `nagent-decide`.

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::sandbox::{NAGENT, Sandbox, answer};
use crate::wire::Reply;

const DECIDE: &str = env!("CARGO_BIN_EXE_nagent-decide");

const BILL: &str = r#"{"type": "object", "properties": {"total": {"type": "number"}, "paid": {"type": "boolean"}},
    "required": ["total", "paid"], "additionalProperties": false}"#;

fn with_schema() -> Sandbox {
    Sandbox::new().file("bill.json", BILL).file("q.txt", "Read this bill.")
}

#[test]
fn llm_text_asks_again_with_all_errors_until_the_reply_is_valid() {
    let sandbox = with_schema()
        .reply(Reply::new("{\"total\": \"7\"}").usage(10, 0, 1))
        .reply(Reply::new("```json\n{\"total\": 7, \"paid\": true}\n```").usage(20, 0, 2));
    let run = sandbox.llm_text(&["--schema", "bill.json", "q.txt", "--json"]).run().assert_exit(0);
    let document = run.json();
    assert_eq!(document["data"], json!({"total": 7, "paid": true}));
    assert_eq!((&document["input_tokens"], &document["output_tokens"]), (&json!(30), &json!(3)));
    let asked = sandbox.requests()[1].last();
    assert!(asked.contains("/total: ") && asked.contains("\"paid\" is a required"), "{asked}");
    assert!(sandbox.requests()[0].last().contains("valid against this JSON Schema"));
}

#[test]
fn a_reply_that_stays_invalid_is_exit_4_and_writes_no_file() {
    let sandbox = with_schema().replies(["no", "{}", "[]"]).file("out.json", "old");
    let args = ["--schema", "bill.json", "-o", "out.json", "q.txt"];
    let run = sandbox.llm_text(&args).run().assert_exit(4).no_stdout();
    run.stderr_has(&["still not valid against the schema", "asking again"]);
    assert_eq!((sandbox.requests().len(), sandbox.read("out.json").as_str()), (3, "old"));
    sandbox.llm.push("{\"total\": 1, \"paid\": false}");
    sandbox.llm_text(&args).run().assert_exit(0).no_stdout();
    assert_eq!(sandbox.read("out.json"), "{\"total\": 1, \"paid\": false}\n");
}

#[test]
fn a_schema_that_cannot_be_used_is_found_before_anything_is_sent() {
    let check = |schema: &str, part: &str| {
        let sandbox = with_schema().file("s.json", schema);
        let run = sandbox.llm_text(&["--schema", "s.json", "q.txt"]).run().assert_exit(2);
        run.no_stdout().stderr_has(&["--schema s.json", part]);
        sandbox.run(&["--schema", "s.json", "task"]).assert_exit(2).stderr_has(&[part]);
        assert_eq!(sandbox.llm.all_requests().len(), 0);
    };
    check("{", "not valid JSON");
    check(r#"{"type": 7}"#, "not a valid JSON Schema");
    check("false", "it must be an object");
    with_schema()
        .run(&["--schema", "none.json", "task"])
        .assert_exit(2)
        .stderr_has(&["no such file"]);
}

#[test]
fn json_without_a_tag_is_the_answer_where_json_was_asked_for() {
    let sandbox = with_schema()
        .reply("{\"a\": 1}")
        .reply("{\"a\": 1}")
        .file("any.json", "{\"type\": \"object\"}");
    let run = sandbox.run(&["-n", "--schema", "any.json", "task"]).assert_exit(0);
    assert_eq!((run.stdout.as_str(), sandbox.requests().len()), ("{\"a\": 1}\n", 1));
    // Elsewhere it is taken for a call of a function.
    sandbox.llm.push(answer("x"));
    sandbox.run(&["-n", "task"]).assert_exit(0);
    assert_eq!(sandbox.requests().len(), 3);
}

#[test]
fn a_schema_that_refers_to_itself_is_one_like_any_other() {
    let tree = r##"{"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": false}"##;
    let sandbox = Sandbox::new().file("tree.json", tree).file("q.txt", "A tree.");
    sandbox.llm.push(r#"{"child": {"child": {"leaf": 1}}}"#);
    sandbox.llm.push(r#"{"child": {"child": {}}}"#);
    let args = ["--schema", "tree.json", "q.txt", "--json"];
    let run = sandbox.llm_text(&args).run().assert_exit(0);
    assert_eq!(run.json()["data"], json!({"child": {"child": {}}}));
    run.stderr_has(&["/child/child"]);
    // One that no answer fits, in a way that nobody can see beforehand: the tries are limited.
    let none = r#"{"allOf": [{"type": "object"}, {"type": "string"}]}"#;
    let sandbox = Sandbox::new().file("none.json", none).file("q.txt", "A tree.");
    sandbox.llm.choose(|_| "{}".into());
    sandbox.llm_text(&["--schema", "none.json", "q.txt"]).run().assert_exit(4).no_stdout();
    assert_eq!(sandbox.requests().len(), 3);
}

#[test]
fn output_goes_where_the_path_leads_and_a_schema_comes_from_a_stream() {
    let sandbox = with_schema().file("real.txt", "old");
    sandbox.llm.choose(|_| answer("{\"total\": 7, \"paid\": true}").into());
    std::os::unix::fs::symlink("real.txt", sandbox.work().join("link")).unwrap();
    std::os::unix::fs::symlink("not-yet.txt", sandbox.work().join("dangling")).unwrap();
    let text = "{\"total\": 7, \"paid\": true}\n";
    for (name, file) in [("link", "real.txt"), ("dangling", "not-yet.txt")] {
        sandbox.run(&["-n", "-o", name, "task"]).assert_exit(0).no_stdout();
        assert_eq!(sandbox.read(file), text);
        assert!(sandbox.work().join(name).is_symlink(), "{name}");
    }
    for name in ["-", "/dev/stdout"] {
        assert_eq!(sandbox.run(&["-n", "-o", name, "task"]).assert_exit(0).stdout, text);
    }
    assert!(!sandbox.work().join("-").exists());
    // A FIFO stays one, and so does an open file; the schema is read once.
    let line = format!(
        "mkfifo fifo; cat fifo & {NAGENT} -nq -o fifo task; wait; test -p fifo || exit 9
         {NAGENT} -nq -o /dev/fd/3 task 3>>real.txt; {{ cat bill.json | {NAGENT} -nq --schema - task; }}"
    );
    let run = sandbox.program("sh", &["-c", &line]).run().assert_exit(0);
    assert_eq!((run.stdout, sandbox.read("real.txt")), (text.repeat(2), text.repeat(2)));
    // What cannot be written is found before anything is sent.
    let sent = sandbox.llm.all_requests().len();
    sandbox.run(&["-o", ".", "task"]).assert_exit(2).stderr_has(&["--output", "it is a folder"]);
    sandbox.run(&["-o", "no/such", "task"]).assert_exit(2).stderr_has(&["cannot write no/such"]);
    assert_eq!(sandbox.llm.all_requests().len(), sent);
}

#[test]
fn a_run_answers_with_valid_json_or_with_exit_6() {
    let good = answer("{\"total\": 7, \"paid\": true}");
    let sandbox = with_schema().reply(answer("It is 7.")).reply(good);
    sandbox.run(&["--schema", "bill.json", "-o", "out.json", "task"]).assert_exit(0).no_stdout();
    assert_eq!(sandbox.read("out.json"), "{\"total\": 7, \"paid\": true}\n");
    assert!(sandbox.requests()[0].last().contains("valid against this JSON Schema"));
    assert!(sandbox.requests()[1].last().contains("not valid JSON, or has other text around it"));
    sandbox.llm.choose(|_| answer("{}").into());
    let run = sandbox.run(&["-n", "--schema", "bill.json", "--json", "task"]).assert_exit(6);
    let error = run.json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("valid against bill.json (") && error.contains("\"total\""), "{error}");
}

#[test]
fn providers_that_can_hold_a_model_to_a_schema_get_it() {
    let schema: Value = serde_json::from_str(BILL).unwrap();
    let sandbox = with_schema().config_also(json!({"api": "responses"}));
    let shown = |sandbox: &Sandbox, more: &[&str]| -> Value {
        let args =
            [&["--schema", "bill.json", "--show-request", "q.txt", "-m", "m"], more].concat();
        let run = sandbox.llm_text(&args).env("ANTHROPIC_API_KEY", "k").env("GOOGLE_API_KEY", "k");
        serde_json::from_str(&run.env("DEEPSEEK_API_KEY", "k").run().assert_exit(0).stdout).unwrap()
    };
    let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
    assert_eq!(shown(&sandbox, &[])["text"]["format"], format);
    let body = shown(&sandbox, &["--provider", "anthropic"]);
    assert_eq!(body["output_config"]["format"], json!({"type": "json_schema", "schema": schema}));
    let body = shown(&sandbox, &["--provider", "google"]);
    assert_eq!(body["generationConfig"]["responseJsonSchema"], schema);
    assert_eq!(shown(&sandbox, &["--provider", "ollama"])["format"], schema);
    let chat = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}});
    assert_eq!(shown(&sandbox, &["--provider", "llama.cpp"])["response_format"], chat);
    let body = shown(&sandbox, &["--provider", "deepseek"]);
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    // A server that nobody knows may refuse the key.
    assert!(shown(&with_schema(), &[]).get("response_format").is_none());
    // What is not an object is asked for in words alone: OpenAI and its like refuse it.
    sandbox.write("bill.json", r#"{"type": "array", "items": {"type": "string"}}"#);
    assert!(shown(&sandbox, &[]).get("text").is_none());
    for provider in ["llama.cpp", "deepseek"] {
        assert!(shown(&sandbox, &["--provider", provider]).get("response_format").is_none());
    }
}

#[test]
fn a_grammar_goes_to_servers_that_take_one() {
    let sandbox = Sandbox::new();
    let base = sandbox.base_url();
    for (server, pointer) in [("llama.cpp", "/grammar"), ("vllm", "/structured_outputs/grammar")] {
        sandbox.llm.push(answer("done"));
        let args =
            ["-n", "--provider", server, "--base-url", &base, "-m", "m", "--grammar", "task"];
        sandbox.run(&args).answers("done");
        let body = sandbox.requests().pop().unwrap().json();
        let grammar = body.pointer(pointer).and_then(Value::as_str).unwrap();
        assert!(grammar.contains("root ::="), "{grammar}");
    }
    sandbox.run(&["--grammar", "task"]).assert_exit(2).stderr_has(&["--provider llama.cpp"]);
}

#[test]
fn openai_takes_the_grammar_as_the_form_of_a_custom_tool() {
    let sandbox = Sandbox::new().config_also(json!({"api": "responses"}));
    let frame =
        |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let call = |text: &str, deltas: bool| {
        let item =
            json!({"type": "custom_tool_call", "call_id": "c", "name": "reply", "input": text});
        let (half, rest) = text.split_at(10);
        let delta = |text: &str| {
            frame(
                json!({"type": "response.custom_tool_call_input.delta", "output_index": 1, "delta": text}),
            )
        };
        let end = frame(
            json!({"type": "response.completed", "response": {"status": "completed", "model": "m", "output": [
            {"type": "reasoning", "summary": []}, item], "usage": {"input_tokens": 9, "output_tokens": 2}}}),
        );
        let added = frame(
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "custom_tool_call", "name": "reply", "input": ""}}),
        );
        let pieces = if deltas { added + &delta(half) + &delta(rest) } else { String::new() };
        Answer::raw(200, "text/event-stream", pieces + &end)
    };
    sandbox.llm.push(call(&crate::sandbox::shell("echo hi"), true));
    sandbox.llm.push(call(&answer("done"), false));
    sandbox.run(&["--grammar", "task"]).answers("done");
    let body = sandbox.requests()[1].json();
    assert_eq!(body["tool_choice"], json!({"type": "custom", "name": "reply"}));
    let format = &body["tools"][0]["format"];
    assert_eq!((&format["type"], &format["syntax"]), (&json!("grammar"), &json!("lark")));
    assert!(format["definition"].as_str().unwrap().contains("start: "), "{format}");
    // Its words are in the conversation as those of any model.
    assert!(sandbox.requests()[1].text().contains("<nagent-shell>echo hi"));
}

// Decisions.

fn decisions(items: &[(&str, &str)]) -> String {
    let rows = items
        .iter()
        .map(|(item, choice)| json!({"item": item, "answers": {"q": {"choice": choice}}}));
    json!({"decisions": rows.collect::<Vec<_>>()}).to_string()
}

fn request(items: usize) -> String {
    let items: Vec<String> = (1..=items).map(|n| format!("mail {n}")).collect();
    json!({"questions": {"q": {"question": "Is it spam?", "type": "choice", "options": ["yes", "no"]}},
        "items": items, "rationale": false, "confidence": false})
    .to_string()
}

#[test]
fn a_script_gets_one_of_its_words() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(
        json!({"decisions": [{"item": "1", "answers": {"answer": {"choice": "yes"}}}]}).to_string(),
    );
    let ask = || sandbox.program(DECIDE, &["Is it spam?", "yes", "no"]).stdin("Buy now!").run();
    ask().assert_exit(0).stdout_is("yes\n");
    let asked = sandbox.requests()[0].last();
    assert!(asked.contains("Buy now!") && asked.contains("\"yes\""), "{asked}");
    // The same question is not paid for again.
    ask().assert_exit(0).stdout_is("yes\n");
    assert_eq!(sandbox.requests().len(), 1);
    let run = sandbox.program(DECIDE, &["Is it spam?", "yes"]).stdin("x").run().assert_exit(2);
    run.stderr_has(&["give 2 or more answers"]);
}

#[test]
fn a_wait_for_the_text_is_said() {
    let yes = json!({"decisions": [{"item": "1", "answers": {"answer": {"choice": "yes"}}}]});
    let sandbox = Sandbox::new().reply(yes.to_string());
    let ask = |words: &[&str]| sandbox.program(DECIDE, words).silent_stdin().run().assert_exit(2);
    ask(&["Is it spam?"]).stderr_has(&["give 2 or more answers"]);
    let line = format!("(sleep 2.5; echo free money) | {DECIDE} 'Is it spam?' yes no");
    let run = sandbox.program("bash", &["-c", &line]).run().assert_exit(0);
    run.stdout_is("yes\n").stderr_has(&["waiting for text on stdin"]);
    assert!(sandbox.requests()[0].last().contains("free money"));
}

#[test]
fn only_items_without_a_good_answer_are_asked_about_again() {
    let sandbox = Sandbox::new().file("r.json", request(4));
    sandbox.llm.push(decisions(&[("2", "no"), ("1", "maybe"), ("4", "yes"), ("9", "no")]));
    sandbox.llm.push(decisions(&[("1", "yes"), ("3", "no")]));
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(0);
    let document = run.json();
    let choices: Vec<&str> = document["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["answers"]["q"]["choice"].as_str().unwrap())
        .collect();
    assert_eq!(choices, ["yes", "no", "no", "yes"]);
    assert_eq!((&document["attempts"], &document["input_tokens"]), (&json!(2), &json!(2000)));
    let again = sandbox.requests()[1].last();
    assert!(
        again.contains("mail 1") && again.contains("mail 3") && !again.contains("mail 2"),
        "{again}"
    );
    for error in
        ["/answers/q/choice: \"maybe\" is not one of", "no item \"9\"", "no decision about \"3\""]
    {
        assert!(again.replace("\\\"", "\"").contains(error), "{error} is not in {again}");
    }
    // What stays the same comes first, byte for byte.
    let head =
        |at: usize| sandbox.requests()[at].last().split("<items>").next().unwrap().to_owned();
    assert_eq!(head(0), head(1));
}

#[test]
fn answers_outside_of_the_set_are_exit_4_and_good_ones_are_kept() {
    let sandbox = Sandbox::new().file("r.json", request(2));
    sandbox.llm.push(decisions(&[("1", "Yes"), ("2", "no")]));
    sandbox.llm.push(decisions(&[("1", "YES")]));
    sandbox.llm.push(decisions(&[("1", "YES")]));
    let args = ["--input", "r.json", "--attempts", "3", "--json"];
    let run = sandbox.program(DECIDE, &args).run().assert_exit(4);
    assert_eq!(run.stderr.lines().count(), 3, "the same line once: {}", run.stderr);
    let document = run.json();
    assert!(document["error"].as_str().unwrap().contains("1 of 2 after 3 tries (1)"), "{document}");
    assert_eq!(document["decisions"][1]["answers"]["q"]["choice"], "no");
    sandbox.llm.push(decisions(&[("1", "yes")]));
    sandbox.program(DECIDE, &args).run().assert_exit(0);
    assert!(!sandbox.requests()[3].last().contains("mail 2"), "the good answer was kept");
}

#[test]
fn two_thousand_items_are_asked_about_in_batches() {
    let sandbox = Sandbox::new()
        .file("r.json", request(2_000))
        .config_also(json!({"context_window_tokens": 200_000, "max_output_tokens": 32_000}));
    sandbox.llm.choose(|request| {
        let asked = request.last();
        let ids = asked.split("<item id=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let rows: Vec<(&str, &str)> = ids.map(|id| (id, "no")).collect();
        decisions(&rows).into()
    });
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(0);
    assert_eq!(run.json()["decisions"].as_array().unwrap().len(), 2_000);
    let requests = sandbox.requests();
    assert!(requests.len() >= 10 && requests.iter().all(|request| request.body.len() < 400_000));
}

#[test]
fn an_item_beyond_the_window_is_not_sent() {
    let items = ["word ".repeat(30_000)];
    let request = json!({"questions": {"q": {"question": "?", "type": "choice", "options": ["a", "b"]}}, "items": items});
    let config = json!({"context_window_tokens": 8_000});
    let sandbox = Sandbox::new().file("r.json", request.to_string()).config_also(config);
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(3).no_stdout();
    run.stderr_has(&["nothing was sent", "takes 8000"]);
    assert!(sandbox.requests().is_empty());
}

#[test]
fn requests_are_checked_before_anything_is_sent() {
    let sandbox = Sandbox::new().file(
        "r.json",
        r#"{"questions": {"q": {"question": "?", "type": "choice", "options": []}}, "itmes": []}"#,
    );
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(2).no_stdout();
    run.stderr_has(&["'itmes' was unexpected", "/questions/q/options: "]);
    sandbox.write("r.json", request(0));
    let document = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(0).json();
    assert_eq!((&document["decisions"], &document["attempts"]), (&json!([]), &json!(0)));
    assert_eq!(sandbox.llm.all_requests().len(), 0);
}

#[test]
fn all_that_is_wrong_with_a_request_is_named_at_once_and_stdin_by_its_name() {
    let text = r#"{"questions": {"q": {"question": " ", "type": "guess", "options": ["c", "c"]}}, "context": "x"}"#;
    let sandbox = Sandbox::new().file("r.json", text);
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(2).no_stdout();
    run.stderr_has(&[
        "/questions/q/question: ",
        "/questions/q/type: \"guess\" is not one of",
        "/questions/q/options: ",
    ]);
    let run = sandbox.program(DECIDE, &[" ", "yes", "yes"]).stdin("x").run().assert_exit(2);
    run.stderr_has(&["/questions/answer/question: ", "/questions/answer/options: "]);
    for args in [&["Is it spam?", "yes", "no"][..], &[]] {
        let run = sandbox.program(DECIDE, args).stdin(*b"a\xffb").run().assert_exit(1);
        run.stderr_has(&["cannot read stdin: it is not UTF-8 text"]);
    }
    let run = sandbox.llm_text(&["-"]).stdin(*b"a\xffb").run().assert_exit(1);
    run.stderr_has(&["cannot read stdin: it is not UTF-8 text"]);
    assert_eq!(sandbox.llm.all_requests().len(), 0);
}

#[test]
fn an_answer_that_nobody_asked_for_is_named() {
    let sandbox = Sandbox::new().file("r.json", request(1));
    sandbox.llm.push(decisions(&[("1", "no"), ("2", "yes")]));
    let run = sandbox.program(DECIDE, &["--input", "r.json"]).run().assert_exit(0);
    assert_eq!(run.json()["corrections"], json!(["there is no item \"2\""]));
    run.stderr_has(&["0 of 1 not decided: there is no item \"2\""]);
}
