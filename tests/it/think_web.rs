//! Scripts in plain language from the web: shown, asked about, known by their digest.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer, wait_until};
use crate::think::{THINK, prompt, think};

#[test]
fn a_script_from_the_web_is_taken_by_its_digest() {
    let sandbox = Sandbox::new();
    let text = Arc::new(Mutex::new("Print one.".to_owned()));
    let served = Arc::clone(&text);
    sandbox.llm.beside(move |request| match request.path.as_str() {
        "/joke.md" => Some(Answer::raw(200, "text/markdown", served.lock().unwrap().clone())),
        "/gone.md" => Some(Answer::raw(404, "text/plain", "no")),
        _ => None,
    });
    let url = format!("{}/joke.md", sandbox.llm.origin());
    let refused = ["is new here", "--yes"];
    think(&sandbox, &[&url]).assert_exit(1).no_stdout().stderr_has(&refused);
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["--yes", &url]).assert_exit(0);
    assert!(prompt(&sandbox).contains("Print one."));
    sandbox.llm.push(answer("done"));
    think(&sandbox, &[&url]).assert_exit(0);
    *text.lock().unwrap() = "Print two.".to_owned();
    think(&sandbox, &[&url]).assert_exit(1).stderr_has(&["has changed"]);
    let gone = format!("{}/gone.md", sandbox.llm.origin());
    think(&sandbox, &["--yes", &gone]).assert_exit(1).stderr_has(&["status 404"]);
}

#[test]
fn a_page_is_shown_and_asked_about_until_its_text_is_known() {
    let sandbox = Sandbox::new();
    let text = Arc::new(Mutex::new(String::new()));
    let served = Arc::clone(&text);
    sandbox.llm.beside(move |request| {
        (request.path == "/joke.md")
            .then(|| Answer::raw(200, "text/plain", served.lock().unwrap().clone()))
    });
    let url = format!("{}/joke.md", sandbox.llm.origin());
    let set = |name: &str| *text.lock().unwrap() = format!("Print {name} \u{1b}[2J.");
    let run = |key: &str| {
        let mut running = sandbox.program(THINK, &[&url]).on_terminal(60).spawn();
        if !key.is_empty() {
            wait_until("the question", || running.stdout_so_far().contains("no [n]: "));
            running.take_stdin().write_all(key.as_bytes()).unwrap();
        }
        let run = running.wait();
        (run.code, run.stdout)
    };
    for (name, key, code, part) in [
        ("one", "n\n", 1, "is new here"),
        ("one", "\u{3}", 130, "Print one \\u{1b}[2J."),
        ("one", "y\n", 0, "is new here"),
        ("one", "a\n", 0, "is new here"),
        ("one", "", 0, "done"),
        ("two", "\n", 1, "has changed"),
        ("two", "a\n", 0, "Print two"),
        ("one", "n\n", 1, "has changed"),
    ] {
        set(name);
        if code == 0 {
            sandbox.llm.push(answer("done"));
        }
        let (got, shown) = run(key);
        assert!(got == code && shown.contains(part), "{name} {key:?}: {got} {shown}");
        assert!(!shown.contains("\u{1b}[2J"), "{shown}");
    }
}
