//! What reaches a terminal: printable characters, line feeds, tabs, and the tool's own few sequences; whoever wrote the
//! text. What reaches a pipe on stdout is what was written.

use std::process::Command;

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::file_edit::{FILE_EDIT, edit};
use crate::sandbox::{LLM_TEXT, NAGENT, Sandbox, answer, shell};

/// All that steers a terminal, hides a text or turns it around; `END` shows that it came through.
const EVIL: &str = "E\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31m\u{1b}]8;;x:\u{1b}\\l\u{1b}]8;;\u{1b}\\\u{1b}]52;c;eA==\u{7}\u{1b}P1|q\
    \u{1b}\\\u{1b}_G\u{1b}\\\u{9b}31m\u{9d}0;t\u{9c}\u{85}safe\rover\u{8}\u{8}\u{7f}\u{202e}abc\u{202c}\u{2066}x\u{2069}\
    \u{e0049}\u{200b}\u{200d}\u{feff}\u{2060}\u{ad}\u{3164}\u{b}\u{c}END";

/// What the tools write themselves: a line that is written over, and the colours of a diff.
const OURS: [&str; 7] =
    ["\r\u{1b}[K", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[36m", "\u{1b}[0m"];

/// Whether a character may stand on a terminal.
fn may_stand(c: char) -> bool {
    let hidden = "\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
        \u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{3164}\u{feff}";
    !c.is_control() && !hidden.contains(c) && !('\u{e0000}'..='\u{e0fff}').contains(&c)
}

/// What a run with all its streams on a terminal of its own put there.
pub(crate) fn on_terminal(sandbox: &Sandbox, program: &str, args: &[&str]) -> String {
    let words: Vec<String> = [program]
        .iter()
        .chain(args)
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    let line = format!("{} < /dev/null", words.join(" "));
    let script = ["-q", "-e", "-f", "-c", line.as_str(), "/dev/null"];
    let run = sandbox.program("script", &script).env("SHELL", "/bin/sh").env("TERM", "xterm");
    run.silent_stdin().run().stdout
}

/// Everything on the terminal is fit for it, and holds these words.
#[track_caller]
fn is_fit(text: &str, words: &[&str]) {
    // The terminal's own driver makes CR LF of LF.
    let mut rest = text.replace("\r\n", "\n");
    for ours in OURS {
        rest = rest.replace(ours, "");
    }
    for (at, c) in rest.char_indices() {
        let before = &rest[rest[..at].char_indices().nth_back(60).map_or(0, |(at, _)| at)..at];
        assert!(c == '\n' || c == '\t' || may_stand(c), "U+{:04X} behind {before:?}", u32::from(c));
    }
    for word in words {
        assert!(rest.contains(word), "{word:?} in {rest:?}");
    }
}

fn git(sandbox: &Sandbox, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(args)
        .current_dir(sandbox.work())
        .env("HOME", sandbox.home())
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), EVIL).env(format!("GIT_{who}_EMAIL"), "a@x");
    }
    assert!(git.status().unwrap().success(), "git {args:?}");
}

#[test]
fn answers_notes_and_progress() {
    let sandbox = Sandbox::new();
    let tmp = sandbox.tmp().join("a.txt");
    std::fs::write(&tmp, format!("{EVIL}\none\n")).unwrap();
    let path = tmp.to_str().unwrap();
    let spaces = " ".repeat(10_000);
    let notes = format!("{}{}", answer(&format!("note {EVIL}")), shell(&format!("true '{EVIL}'")));
    let looks = format!(
        "<nagent-read path=\"no {EVIL}\"/>{}{}",
        edit(path, &format!("{EVIL} x"), "y"),
        shell(EVIL)
    );
    let last = answer(&format!("said {EVIL}{spaces}the tail"));
    for _ in 0..2 {
        sandbox.llm.push(notes.clone());
        sandbox.llm.push(looks.clone());
        sandbox.llm.push(last.clone());
    }
    let seen = on_terminal(&sandbox, NAGENT, &["--check", &format!("true # {EVIL}"), "task"]);
    is_fit(
        &seen,
        &["note E", "said", "END", "the tail", "\\u{1b}]52;c", "\\u{202e}abc", "\\u{e0049}"],
    );
    // A pipe gets the answer as it is. What is said beside it is for people, wherever it goes.
    let run = sandbox.run(&["--progress", "task"]).assert_exit(0);
    assert_eq!(run.stdout, format!("said {EVIL}{spaces}the tail\n"));
    is_fit(&run.stderr, &["note E"]);
    sandbox.llm.push(EVIL);
    sandbox.llm.push(EVIL);
    let file = sandbox.write("p.txt", "x");
    is_fit(&on_terminal(&sandbox, LLM_TEXT, &["--file", file.to_str().unwrap()]), &["END"]);
    let piped = sandbox.llm_text(&["--file", file.to_str().unwrap()]).run().assert_exit(0);
    assert_eq!(piped.stdout.trim_end_matches('\n'), EVIL);
}

#[test]
fn json_on_a_terminal_is_fit_for_it_and_still_json() {
    let sandbox = Sandbox::new().reply(answer(EVIL)).reply(answer(EVIL));
    let seen = on_terminal(&sandbox, NAGENT, &["--json", "--quiet", "task"]);
    is_fit(&seen, &["END"]);
    let document: Value = serde_json::from_str(&seen.replace("\r\n", "\n")).unwrap();
    assert_eq!(document["responses"], json!([EVIL]));
    let piped = sandbox.run(&["--json", "task"]).assert_exit(0);
    assert_eq!(piped.json()["responses"], json!([EVIL]));
    assert!(piped.stdout.contains("\u{202e}abc"), "a pipe gets it as it is");
}

#[test]
fn errors() {
    let sandbox = Sandbox::new();
    let body = json!({"error": {"message": EVIL, "type": EVIL, "code": EVIL}}).to_string();
    let broken = body.clone();
    sandbox.llm.choose(move |_| Answer::raw(400, "application/json", body.clone()));
    is_fit(&on_terminal(&sandbox, NAGENT, &["--model", EVIL, "task"]), &["E"]);
    sandbox
        .llm
        .choose(move |_| Answer::raw(200, "text/event-stream", format!("data: {broken}\n\n")));
    is_fit(&on_terminal(&sandbox, NAGENT, &["--patience", "0", "task"]), &["E"]);
    for args in [
        &["--read", EVIL, "task"][..],
        &["--load-conversation", EVIL],
        &["--provider", EVIL, "task"],
        &["--config", EVIL, "task"],
        &["--write", EVIL, "task"],
        &[&format!("--{EVIL}")],
        &["--root", EVIL, "--status"],
    ] {
        is_fit(&on_terminal(&sandbox, NAGENT, args), &["E"]);
    }
    for tool in [
        FILE_EDIT,
        env!("CARGO_BIN_EXE_nagent-file-split"),
        env!("CARGO_BIN_EXE_nagent-file-summarize"),
        LLM_TEXT,
    ] {
        is_fit(&on_terminal(&sandbox, tool, &["--file", EVIL]), &[]);
    }
    let sandbox = Sandbox::new().config_text(&json!({ EVIL: 1 }).to_string());
    is_fit(&on_terminal(&sandbox, NAGENT, &["task"]), &["E"]);
}

#[test]
fn diffs_histories_lists_and_states() {
    let sandbox = Sandbox::outside_temp();
    sandbox.write(EVIL, format!("one {EVIL}\ntwo\n"));
    git(&sandbox, &["add", "--all"]);
    git(&sandbox, &["commit", "--quiet", "-m", &format!("subject {EVIL}\n\nbody {EVIL}")]);
    git(&sandbox, &["remote", "add", "origin", &format!("https://x/{EVIL}")]);
    let change = "<nagent-edit path=\"{PATH}\">\n<<<<<<< SEARCH\ntwo\n=======\n2 {TEXT}\n>>>>>>> REPLACE\n</nagent-edit>";
    let change = change.replace("{PATH}", EVIL).replace("{TEXT}", EVIL);
    let mut asked = 0;
    sandbox.llm.choose(move |request| {
        if request.system().starts_with("You are given") {
            return EVIL.into();
        }
        asked += 1;
        if asked == 1 { change.as_str().into() } else { answer(EVIL).into() }
    });
    let seen = on_terminal(&sandbox, FILE_EDIT, &["--file", EVIL, EVIL]);
    is_fit(&seen, &["END", "+2 E", "-two"]);
    assert!(
        sandbox.read(EVIL).contains(&format!("2 {EVIL}")),
        "the file holds what was meant: {seen}"
    );
    for args in [
        &["--file", EVIL, "--history"][..],
        &["--file", EVIL, "--history"],
        &["--file", EVIL, "--undo"],
    ] {
        is_fit(&on_terminal(&sandbox, FILE_EDIT, args), &["END"]);
    }
    is_fit(&on_terminal(&sandbox, NAGENT, &["--conversation", "c", EVIL]), &["END"]);
    is_fit(
        &on_terminal(&sandbox, NAGENT, &["--conversation", "c", "--save-conversation", "kept"]),
        &[],
    );
    for args in [
        &["--list-conversations"][..],
        &["--status"],
        &["--show-request", "x"],
        &["--summarize"],
        &["--clear"],
    ] {
        let args: Vec<&str> = ["--conversation", "c"].iter().chain(args).copied().collect();
        is_fit(&on_terminal(&sandbox, NAGENT, &args), &[]);
    }
}
