//! Answers as Markdown on a terminal, as whole screens: `tests/fixtures/markdown`. `UPDATE_DOCS=1` writes them again.

use std::path::Path;

use serde_json::json;

use crate::answers::Answer;
use crate::sandbox::{Sandbox, answer};

const ANSWER: &str = include_str!("../fixtures/markdown/answer.md");

/// The screen of an answer, but for the line of figures.
fn screen(sandbox: &Sandbox, columns: u16, variable: (&str, &str)) -> Vec<String> {
    let call = sandbox.cmd(&["-n", "task"]).env("TERM", "xterm").env(variable.0, variable.1);
    let mut pty = call.on_pty(columns);
    assert!(pty.wait().success());
    let lines = pty.styled_screen();
    let figures = lines.iter().position(|line| line.starts_with("[1 turn")).expect("figures");
    lines[..figures].to_vec()
}

#[test]
fn an_answer_is_shown_as_stored_at_each_width() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/markdown");
    for columns in [80, 40, 20] {
        let sandbox = Sandbox::new().reply(answer(ANSWER));
        let page = screen(&sandbox, columns, ("LANG", "C")).join("\n") + "\n";
        let path = folder.join(format!("{columns}.txt"));
        if update {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(page, std::fs::read_to_string(&path).unwrap(), "UPDATE_DOCS=1 writes it again");
    }
}

#[test]
fn whoever_wants_the_bytes_gets_them() {
    let text = "# Title\n\n- **bold** `code` | a\n";
    let check = |sandbox: Sandbox, variable| {
        let lines = screen(&sandbox.reply(answer(text)), 80, variable);
        assert_eq!(lines, ["# Title", "", "- **bold** `code` | a"]);
    };
    check(Sandbox::new(), ("NO_COLOR", "1"));
    check(Sandbox::new(), ("TERM", "dumb"));
    check(Sandbox::new().config_also(json!({"markdown": false})), ("LANG", "C"));
    let sandbox = Sandbox::new();
    for flags in [&["-nq"][..], &["-n"], &["-n", "--progress"]] {
        sandbox.llm.push(answer(text));
        let run = sandbox.run(&[flags, &["task"]].concat()).assert_exit(0);
        assert_eq!(run.stdout, text);
    }
    sandbox.llm.push(answer(text));
    let run = sandbox.cmd(&["-n", "-o", "out.md", "task"]).on_terminal(80).run().assert_exit(0);
    assert!(!run.stdout.contains("Title"), "{}", run.stdout);
    assert_eq!(std::fs::read_to_string(sandbox.work().join("out.md")).unwrap(), text);
    // On a terminal `-q`, too, shows what it means.
    sandbox.llm.push(answer(text));
    let mut pty = sandbox.cmd(&["-nq", "task"]).env("TERM", "xterm").on_pty(80);
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), ["Title", "", "• bold code | a"]);
}

#[test]
fn notes_and_errors_are_wrapped_at_words() {
    let sandbox = Sandbox::new();
    let call = sandbox.cmd(&["--max-turns", "nonsense", "task"]).env("TERM", "xterm");
    let mut pty = call.on_pty(20);
    assert!(!pty.wait().success());
    let words: Vec<String> = pty
        .screen()
        .iter()
        .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let run = sandbox.cmd(&["--max-turns", "nonsense", "task"]).run();
    assert_eq!(words, run.stderr.split_whitespace().collect::<Vec<_>>());
    assert_eq!(run.stderr.lines().count(), 1, "a pipe gets it on a line: {}", run.stderr);
}

#[test]
fn after_a_resize_nothing_that_was_drawn_is_touched() {
    let sandbox = Sandbox::new();
    let text = format!("first **bold** {}end", "word ".repeat(100));
    sandbox.llm.push(Answer::StallBody(answer(&text).as_str().into()));
    let mut pty = sandbox.cmd(&["-n", "task"]).env("TERM", "xterm").on_pty(80);
    pty.expect("word word");
    let before = pty.printed().len();
    pty.resize(40);
    pty.type_keys("\x03");
    assert!(!pty.wait().success());
    let printed = pty.printed();
    assert!(printed[before..].contains("interrupted"), "{printed:?}");
    assert!(!printed[before..].contains("\x1b[A"), "{printed:?}");
    assert_eq!(printed.matches("**bold**").count(), 1, "{printed:?}");
}

#[test]
fn a_session_shows_markdown_behind_its_mark() {
    let sandbox = Sandbox::new().reply(answer("**One** two three four five\n- `six`\n"));
    let mut pty = sandbox.repl(&["--look", "nano"]).env("TERM", "xterm").on_pty(20);
    pty.expect("❯");
    pty.type_keys("go\r");
    pty.expect("six");
    pty.expect_times("❯", 2);
    let lines = pty.screen().join("\n");
    assert!(lines.contains("⏺ One two three four\nfive\n• six\n"), "{lines}");
}
