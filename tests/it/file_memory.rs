//! What a file's own conversation is told of its file at its start, and what is asked for it and when.

mod history; // what the repository says, hostile or not

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::{Answer, Latch};
use crate::fake_llm::Request;
use crate::sandbox::{Sandbox, answer};

/// Long enough for a summary to be worth a request.
fn long(word: &str) -> String {
    format!("{word}\n").repeat(5_000 / (word.len() + 1))
}

/// Runs git in the work folder, by an author of this name.
fn git_as(sandbox: &Sandbox, name: &str, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(sandbox.work())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", sandbox.home())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", name)
        .env("GIT_AUTHOR_EMAIL", "a@example.com")
        .env("GIT_COMMITTER_NAME", "C")
        .env("GIT_COMMITTER_EMAIL", "c@example.com")
        .env("GIT_AUTHOR_DATE", "2026-05-01T12:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-05-01T12:00:00Z")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Commits all that stands in the work folder, and gives the commit's id.
pub(crate) fn commit(sandbox: &Sandbox, subject: &str) -> String {
    git_as(sandbox, "Ann", &["add", "--all"]);
    git_as(sandbox, "Ann", &["commit", "--quiet", "-m", subject]);
    git_as(sandbox, "Ann", &["rev-parse", "HEAD"])
}

/// What a request is for.
fn kind(request: &Request) -> &'static str {
    let system = request.system();
    if system.starts_with("You are given commits") {
        "commits"
    } else if system.starts_with("You are given") {
        "file"
    } else {
        "turn"
    }
}

/// The commits in a request for their summaries.
fn asked(request: &Request) -> Vec<String> {
    let message = request.last();
    message.lines().filter_map(|line| line.strip_prefix("Commit: ")).map(str::to_owned).collect()
}

/// A model that sums up what it is asked to, and answers all else.
pub(crate) fn willing(request: &Request) -> Answer {
    match kind(request) {
        "commits" => {
            let entries = asked(request)
                .into_iter()
                .map(|id| json!({"commit": &id[..10], "summary": format!("Did {}.", &id[..7])}));
            let all = json!({"summaries": entries.collect::<Vec<_>>()});
            format!("```json\n{all}\n```").into()
        }
        "file" => "Holds many lines.".into(),
        _ => answer("done").into(),
    }
}

/// What was asked for since the first `from` requests, sorted.
fn kinds(sandbox: &Sandbox, from: usize) -> Vec<&'static str> {
    let mut kinds: Vec<_> = sandbox.requests()[from..].iter().map(kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Runs the conversation of `a.txt`, and gives what was asked for and the JSON.
fn edit(sandbox: &Sandbox, args: &[&str]) -> (Vec<&'static str>, Value) {
    let from = sandbox.requests().len();
    let args = [&["--file-edit", "a.txt", "--json"], args].concat();
    let run = sandbox.run(&args).assert_exit(0).no_stderr();
    (kinds(sandbox, from), run.json())
}

/// Two files in two commits, the second one's subject another.
fn repository() -> (Sandbox, [String; 2]) {
    let sandbox = Sandbox::new().git().file("a.txt", long("one")).file("b.txt", "1\n");
    let first = commit(&sandbox, "Begins");
    sandbox.write("a.txt", long("two"));
    sandbox.write("b.txt", "2\n");
    let second = commit(&sandbox, "Goes on");
    sandbox.llm.choose(willing);
    (sandbox, [first, second])
}

fn summaries(sandbox: &Sandbox) -> usize {
    std::fs::read_dir(sandbox.root().join("summaries")).map_or(0, Iterator::count)
}

#[test]
fn a_first_start_asks_once_for_commits_and_once_for_the_file_and_later_ones_for_what_is_new() {
    let (sandbox, [first, second]) = repository();
    let (asked_for, json) = edit(&sandbox, &["task"]);
    assert_eq!(asked_for, ["commits", "file", "turn"]);
    assert_eq!(json["summary_requests"], 2);
    assert!(json["recursive_input_tokens"].as_u64() > json["conversation_input_tokens"].as_u64());
    let context = sandbox.block("initial_context").body;
    let (one, two) = (&first[..7], &second[..7]);
    for expect in [
        "\n\n# File memory\n{file-history}\nFile: a.txt\nRepository: ".to_owned(),
        format!(
            "(dates are the authors'):\n- 2026-05-01 {one} (added): Did {one}.\n\
             - 2026-05-01 {two}: Did {two}.\n"
        ),
        "| --- | ---: |\n| b.txt | 2 |\n".to_owned(),
        "{/file-history}\n\n{file-summary}\nFile: ".to_owned(),
    ] {
        assert!(context.contains(&expect), "{expect}\n---\n{context}");
    }
    assert!(
        context.ends_with(
            "/a.txt\nSource: nagent-file-summarize\n\nHolds many lines.\n{/file-summary}"
        )
    );
    assert!(!context.contains('@') && !context.contains("Ann"), "{context}");
    assert_eq!(context.matches("Did ").count(), 2, "no sentence twice: {context}");
    let turn = sandbox.requests().into_iter().find(|request| kind(request) == "turn").unwrap();
    assert!(turn.system().contains("{/file-history}"));

    // Nothing is new.
    let (asked_for, json) = edit(&sandbox, &["again"]);
    assert_eq!((asked_for, &json["summary_requests"]), (vec!["turn"], &json!(0)));
    // Another conversation of the same file.
    let (asked_for, _) = edit(&sandbox, &["--clear", "afresh"]);
    assert_eq!(asked_for, ["turn"]);
    assert!(sandbox.block("initial_context").body.ends_with("{/file-summary}"));
    assert!(sandbox.blocks_of("context-update").is_empty(), "{}", sandbox.conversation());

    // One more commit.
    sandbox.write("a.txt", long("three"));
    let third = commit(&sandbox, "Goes on further");
    let from = sandbox.requests().len();
    assert_eq!(edit(&sandbox, &["and now?"]).0, ["commits", "file", "turn"]);
    let request = &sandbox.requests()[from..];
    let request = request.iter().find(|request| kind(request) == "commits").unwrap();
    assert_eq!(asked(request), std::slice::from_ref(&third));
    let update = sandbox.block("context-update");
    assert_eq!(update.get("section"), "File memory");
    let third = &third[..7];
    let expect = format!("More commits:\n- 2026-05-01 {third}: Did {third}.\n");
    assert_eq!(update.body, format!("{{file-history}}\n{expect}{{/file-history}}"));
    assert_eq!(edit(&sandbox, &["and now?"]).0, ["turn"]);
}

#[test]
fn the_request_has_what_commits_say_and_did() {
    let (sandbox, _) = repository();
    sandbox.write("a.txt", long("two") + "a line of its own\n");
    commit(&sandbox, "Subject\n\nA reason in the body.");
    edit(&sandbox, &["task"]);
    let requests = sandbox.requests();
    let request = requests.iter().find(|request| kind(request) == "commits").unwrap().last();
    for expect in
        ["\nPath: a.txt\n\nSubject\n\nA reason in the body.\n\n@@ ", "\n+a line of its own\n"]
    {
        assert!(request.contains(expect), "{expect}\n---\n{request}");
    }
    assert!(!request.contains("diff --git"), "{request}");
}

#[test]
fn a_failing_provider_leaves_subjects_and_notes_and_the_run_goes_on() {
    let (sandbox, _) = repository();
    sandbox.llm.choose(|request| match kind(request) {
        "turn" => answer("done").into(),
        _ => Answer::Error { status: 400, kind: "invalid_request_error", headers: Vec::new() },
    });
    let run = sandbox.run(&["--file-edit", "a.txt", "task"]).assert_exit(0);
    run.stdout_is("done\n").stderr_has(&["summaries of commits failed", "no summary of", "a.txt"]);
    let context = sandbox.block("initial_context").body;
    for expect in [": Begins\n", ": Goes on\n", "\n\nUnavailable: "] {
        assert!(context.contains(expect), "{expect}\n---\n{context}");
    }
    assert_eq!(summaries(&sandbox), 0, "a failure is never kept");
    // The next start asks again, and takes an answer in part.
    sandbox.llm.choose(|request| match kind(request) {
        "commits" => {
            json!([{"commit": asked(request)[0], "summary": "Only\n this."}]).to_string().into()
        }
        _ => willing(request),
    });
    let from = sandbox.requests().len();
    let run = sandbox.run(&["--file-edit", "a.txt", "task"]).assert_exit(0);
    run.stderr_has(&["1 of 2 commits got no summary"]);
    assert_eq!(kinds(&sandbox, from), ["commits", "file", "turn"]);
    let update = sandbox.block("context-update").body;
    assert!(!update.contains(": Begins\n") && update.contains(": Only this.\n"), "{update}");
    assert_eq!(edit(&sandbox, &["task"]).0, ["commits", "turn"]);
    // An answer without any.
    sandbox.write("a.txt", long("three"));
    commit(&sandbox, "Third");
    sandbox.llm.choose(|request| match kind(request) {
        "commits" => "I cannot do that.".into(),
        _ => willing(request),
    });
    let run = sandbox.run(&["--file-edit", "a.txt", "task"]).assert_exit(0);
    run.stderr_has(&["could not be read"]);
}

#[test]
fn without_leave_nobody_is_asked_and_what_is_kept_is_told() {
    let (sandbox, _) = repository();
    assert_eq!(edit(&sandbox, &["--no-summaries", "task"]).0, ["turn"]);
    let context = sandbox.block("initial_context").body;
    assert!(context.contains(": Goes on\n") && context.ends_with("{/file-history}"), "{context}");
    let config = json!({"file_summaries": false});
    let sandbox = sandbox.config_also(config);
    assert_eq!(edit(&sandbox, &["task"]).0, ["turn"]);
    assert!(sandbox.blocks_of("context-update").is_empty());
    let sandbox = sandbox.config_also(json!({"file_summaries": true}));
    assert_eq!(edit(&sandbox, &["task"]).0, ["commits", "file", "turn"]);
    assert_eq!(edit(&sandbox, &["--no-summaries", "--clear", "task"]).0, ["turn"]);
    let context = sandbox.block("initial_context").body;
    assert!(context.contains(": Did ") && context.ends_with("{/file-summary}"), "{context}");
}

#[test]
fn what_is_short_binary_or_huge_is_not_asked_about() {
    let check = |content: Vec<u8>, expect: Option<&str>| {
        let sandbox = Sandbox::new().file("a.txt", content);
        sandbox.llm.choose(willing);
        assert_eq!(edit(&sandbox, &["task"]).0, ["turn"]);
        let context = sandbox.block("initial_context").body;
        match expect {
            Some(expect) => assert!(context.contains(expect), "{expect}\n---\n{context}"),
            None => assert!(!context.contains("File memory"), "{context}"),
        }
    };
    check(Vec::new(), None);
    check(b" \n\n".to_vec(), None);
    check(b"x\n".repeat(2_048), None);
    check(b"\x89PNG\r\n\x1a\n\0\0".to_vec(), Some("\n\nBinary, 10 bytes.\n{/file"));
    check(b"0123456\n".repeat(40_000), Some("\n\nUnavailable: the file has 320.0 KB"));
}

#[test]
fn a_request_that_is_only_shown_has_the_block_and_leaves_nothing() {
    let (sandbox, [_, second]) = repository();
    let run = sandbox.run(&["--file-edit", "a.txt", "--show-request", "task"]).assert_exit(0);
    assert!(run.stdout.contains("{/file-history}") && run.stdout.contains(&second[..7]));
    assert!(sandbox.requests().is_empty());
    assert!(!sandbox.root().join("summaries").exists());
}

#[test]
fn a_signal_ends_the_wait_for_summaries_and_the_prompt_is_kept() {
    let (sandbox, _) = repository();
    sandbox.llm.choose(|_| Answer::StallHead);
    let running = sandbox.cmd(&["--file-edit", "a.txt", "task"]).spawn();
    sandbox.llm.wait_for_requests(2);
    running.signal(Signal::INT);
    running.wait().within(1.0).assert_exit(130);
    assert_eq!(sandbox.block("user-prompt").body, "task");
    assert!(sandbox.block("system").body.contains("interrupted by SIGINT"));
    assert_eq!(summaries(&sandbox), 0);
    sandbox.llm.choose(willing);
    assert_eq!(edit(&sandbox, &["go on"]).0, ["commits", "file", "turn"]);
    assert!(sandbox.block("context-update").body.ends_with("{/file-summary}"));
    // What was told stays told when the next start is interrupted.
    sandbox.write("a.txt", long("three"));
    sandbox.llm.choose(|_| Answer::StallHead);
    let running = sandbox.cmd(&["--file-edit", "a.txt", "task"]).spawn();
    sandbox.llm.wait_for_requests(6);
    running.signal(Signal::INT);
    running.wait().within(1.0).assert_exit(130);
    assert_eq!(sandbox.blocks_of("context-update").len(), 1);
}

#[test]
fn a_terminal_is_told_what_is_waited_for() {
    let (sandbox, _) = repository();
    let latch = Latch::default();
    let held = latch.clone();
    sandbox.llm.choose(move |request| Answer::Held(held.clone(), Box::new(willing(request))));
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1_600));
        latch.release();
    });
    let run = sandbox.cmd(&["--file-edit", "a.txt", "task"]).run_on_terminal().assert_exit(0);
    assert!(run.stderr.contains(" summaries 1 s"), "{}", run.stderr);
    assert_eq!(run.stdout, "done\n");
}

#[test]
fn a_recording_has_no_replies_for_summaries_and_is_not_asked_for_any() {
    let (sandbox, _) = repository();
    edit(&sandbox, &["--record", "../recording", "task"]);
    let from = sandbox.requests().len();
    std::fs::remove_dir_all(sandbox.root().join("summaries")).unwrap();
    let recording = sandbox.base().join("recording").display().to_string();
    let args = ["--file-edit", "a.txt", "--clear", "--provider", "replay", "--model", &recording];
    sandbox.run(&[&args[..], &["task"]].concat()).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.requests().len(), from);
    assert!(sandbox.block("initial_context").body.ends_with("{/file-history}"));
}

#[test]
fn summaries_count_against_the_limits() {
    let (sandbox, _) = repository();
    let args = ["--file-edit", "a.txt", "--max-tokens", "1", "--json", "task"];
    let run = sandbox.run(&args).assert_exit(5);
    assert_eq!(kinds(&sandbox, 0), ["commits", "file"]);
    assert!(run.json()["tokens_in"].as_u64() > Some(1));
}

#[test]
fn a_child_that_edits_a_file_gets_the_history_and_asks_for_no_summaries() {
    let (sandbox, _) = repository();
    sandbox.llm.push("<nagent-conversation file=\"a.txt\">change it</nagent-conversation>");
    let run = sandbox.run(&["--json", "task"]).assert_exit(0);
    assert_eq!(kinds(&sandbox, 0), ["turn", "turn", "turn"]);
    assert_eq!(run.json()["recursive_turn_count"], 3);
    let child = sandbox.requests();
    let child = child.iter().find(|request| request.system().contains("{/file-history}"));
    let child = child.unwrap();
    assert!(child.user().contains("change it") && child.system().contains(": Goes on\n"));
    assert!(!child.system().contains("{file-summary}"), "{}", child.system());
    // The user's own prompt is worth them, and what it paid for, children have too.
    assert_eq!(edit(&sandbox, &["task"]).0, ["commits", "file", "turn"]);
    let update = sandbox.block("context-update").body;
    assert!(update.contains(": Did ") && update.ends_with("{/file-summary}"), "{update}");
    let from = sandbox.requests().len();
    let other = "<nagent-conversation file=\"a.txt\">and that</nagent-conversation>";
    sandbox.llm.push(other);
    sandbox.run(&["task"]).assert_exit(0);
    assert_eq!(kinds(&sandbox, from), ["turn", "turn", "turn"]);
}

/// A block that says that a run of the conversation gave the file this content.
fn record_write(sandbox: &Sandbox, content: &str) {
    sandbox.write("a.txt", content);
    let hash = sys::fs::sha256(content.as_bytes());
    sandbox.edit_conversation(|text| {
        format!("{text}\n<system change=\"run\" path=\"a.txt\" before=\"x\" after=\"{hash}\">\nx\n</system>\n")
    });
}

#[test]
fn nothing_is_asked_about_content_that_the_conversation_wrote() {
    let (sandbox, _) = repository();
    edit(&sandbox, &["task"]);
    record_write(&sandbox, &long("mine"));
    assert_eq!(edit(&sandbox, &["task"]).0, ["turn"], "it wrote that itself");
    assert!(sandbox.blocks_of("context-update").is_empty(), "{}", sandbox.conversation());
    // Nor when it is committed: the commit is listed with its subject.
    let mine = commit(&sandbox, "Mine");
    assert_eq!(edit(&sandbox, &["task"]).0, ["turn"], "it wrote that itself");
    let update = sandbox.block("context-update").body;
    let expect = format!("More commits:\n- 2026-05-01 {}: Mine\n", &mine[..7]);
    assert_eq!(update, format!("{{file-history}}\n{expect}{{/file-history}}"));
    sandbox.write("a.txt", long("theirs"));
    assert_eq!(edit(&sandbox, &["task"]).0, ["file", "turn"], "somebody else did");
    commit(&sandbox, "Theirs");
    assert_eq!(edit(&sandbox, &["task"]).0, ["commits", "turn"], "of their commit only");
    let requests = sandbox.requests();
    let last = requests.iter().rfind(|request| kind(request) == "commits").unwrap();
    assert!(last.last().contains("\nTheirs\n") && !last.last().contains("\nMine\n"));
    // Without leave to ask, a summary that is out of date is not left to be believed.
    sandbox.write("a.txt", long("others"));
    assert_eq!(edit(&sandbox, &["--no-summaries", "task"]).0, ["turn"]);
    let updates = sandbox.blocks_of("context-update");
    assert!(updates.last().unwrap().body.contains("\n\nUnavailable: the file has changed"));
}

#[test]
fn five_cycles_of_edit_and_commit_add_little() {
    let (sandbox, _) = repository();
    for at in 0..30 {
        sandbox.write(&format!("{at}.txt"), "x");
        sandbox.write("a.txt", long(&format!("they {at}")));
        commit(&sandbox, &format!("They {at}"));
    }
    edit(&sandbox, &["task"]);
    for at in 0..5 {
        record_write(&sandbox, &long(&format!("mine {at}")));
        commit(&sandbox, &format!("A subject as long as most of them are, number {at}"));
        assert_eq!(edit(&sandbox, &["task"]).0, ["turn"]);
    }
    let updates = sandbox.blocks_of("context-update");
    let sizes: Vec<usize> = updates.iter().map(|update| update.body.len()).collect();
    assert!(sizes.len() == 5 && sizes.iter().all(|size| *size < 300), "{sizes:?}");
}
