//! `nagent-llm-text`: a file in, the model's text out.

use serde_json::json;

use crate::sandbox::Sandbox;

#[test]
fn llm_text_has_its_keys() {
    let sandbox = Sandbox::new()
        .file("q.txt", "What is 2+2?")
        .reply(crate::wire::Reply::new("4").usage(50, 20, 3));
    let document = sandbox.llm_text(&["--file", "q.txt", "--json"]).run().assert_exit(0).json();
    let expect = json!({
        "file": sandbox.work().join("q.txt"), "provider": "openai", "response": "4",
        "input_tokens": 50, "output_tokens": 3, "cache_read_tokens": 20, "truncated": false,
    });
    for (key, value) in expect.as_object().unwrap() {
        assert_eq!(&document[key], value, "{key} in {document}");
    }
    assert!(document["model"].as_str().unwrap().starts_with("test-model"), "{document}");
}

#[test]
fn llm_text_leaves_no_root_behind() {
    let sandbox = Sandbox::new().no_config().file("q.txt", "?").reply("4");
    std::fs::remove_dir_all(sandbox.root()).unwrap();
    let run = sandbox
        .llm_text(&["--file", "q.txt", "--model", "m"])
        .env("OPENAI_BASE_URL", sandbox.base_url())
        .run();
    run.answers("4");
    assert!(!sandbox.root().join("conversations").exists());
}

#[test]
fn llm_text_of_a_reply_that_was_cut_off_says_so() {
    let reply = || crate::wire::Reply::new("half of").cut_off();
    let sandbox = Sandbox::new().file("q.txt", "?").reply(reply()).reply(reply());
    let run = sandbox.llm_text(&["--file", "q.txt", "--json"]).run();
    assert_eq!(run.json()["truncated"], true);
    let run = sandbox.llm_text(&["--file", "q.txt"]).run();
    assert!(!run.stderr.is_empty(), "never taken for a whole answer in silence");
}
