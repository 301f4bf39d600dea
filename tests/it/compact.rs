//! Conversations that outgrow the window: what `--compact` and a full window do, what stays, and that nothing is lost.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use crate::answers::{Answer, Latch};
use crate::fake_llm::Request;
use crate::sandbox::{Sandbox, answer, shell};
use crate::wire::Reply;

const CONVERSATIONS: &str = env!("CARGO_BIN_EXE_nagent-conversations");

/// A checkpoint as a model writes it.
pub(crate) fn checkpoint(words: &str) -> String {
    format!(
        "Intent\nmake it work {words}\n\nConstraints\nnone\n\nDecisions\nuse tabs\n\nFiles\na.txt: begun\n\nOpen questions\nnone\n\nNext step\ngo on"
    )
}

fn asks_for_checkpoint(request: &Request) -> bool {
    request.system().contains("Write a checkpoint") || request.last().contains("Write a checkpoint")
}

/// About as many tokens as a provider would count.
fn counted(request: &Request, text: impl Into<String>) -> Answer {
    let bytes = request.body.len() as u64;
    Reply::new(text).usage(bytes * 27 / 100, 0, 20).into()
}

pub(crate) fn window(tokens: u64) -> Sandbox {
    let sandbox =
        Sandbox::new().config_also(json!({"context_window_tokens": tokens, "max_turns": 5000}));
    sandbox.llm.allow_rewrites();
    sandbox
}

/// The archive that a compacted conversation names.
fn archive(sandbox: &Sandbox, text: &str) -> (String, PathBuf) {
    let name = text.split("compacted=\"").last().unwrap().split('"').next().unwrap().to_owned();
    let path = sandbox.root().join("conversations").join(&name);
    (name, path)
}

/// A conversation with so many turns, each with a command that prints about so many bytes.
pub(crate) fn fill(sandbox: &Sandbox, turns: usize, bytes: usize) {
    for turn in 0..turns {
        let word = format!("word{turn} ");
        sandbox.write(&format!("{turn}.txt"), word.repeat(bytes / word.len()));
        let command = format!("cat {turn}.txt");
        let path = sandbox.root().join("conversations/c");
        let before = std::fs::metadata(path).map_or(9_000, |data| data.len());
        let tokens = |bytes: u64| bytes * 27 / 100;
        sandbox.llm.push(Reply::new(shell(&command)).usage(tokens(before), 0, 20));
        let after = before + bytes as u64;
        let reply = Reply::new(answer(&format!("answer {turn}"))).usage(tokens(after), 0, 20);
        sandbox.llm.push(reply);
        sandbox.run(&["-c", "c", &format!("prompt {turn}")]).assert_exit(0);
    }
}

fn read(sandbox: &Sandbox) -> String {
    std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap()
}

#[test]
fn long_results_become_pointers_and_no_request_is_made() {
    let sandbox = window(200_000);
    fill(&sandbox, 6, 12_000);
    let before = read(&sandbox);
    let requests = sandbox.requests().len();
    // However large the window is: as if the conversation filled it.
    let done = sandbox.run(&["-c", "c", "--compact", "--json"]).assert_exit(0).json();
    assert_eq!(sandbox.requests().len(), requests);
    assert_eq!((&done["compacted"], &done["checkpoint_turns"]), (&json!(true), &json!(null)));
    let after = read(&sandbox);
    assert!(after.len() < before.len() / 2, "{}", after.len());
    for turn in 0..6 {
        assert!(
            after.contains(&format!("prompt {turn}")) && after.contains(&format!("answer {turn}"))
        );
    }
    // The first result is in the file that its block names.
    let path = after.split("output=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().starts_with("word0 word0"), "{path}");
    let (name, path) = archive(&sandbox, &after);
    let archived = std::fs::read_to_string(path).unwrap();
    assert!(
        archived.starts_with(&before) && archived[before.len()..].contains("compacted_into=\"c\"")
    );
    // It can be continued as it was.
    sandbox.program(CONVERSATIONS, &["branch", &name, "c"]).run().assert_exit(0);
    assert!(read(&sandbox).starts_with(&before));
    assert_eq!(done["archived_path"].as_str().unwrap().rsplit('/').next().unwrap(), name);
}

#[test]
fn a_checkpoint_takes_the_place_of_older_turns() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    let before = read(&sandbox);
    sandbox.llm.push(Reply::new(checkpoint("(one)")).usage(500, 0, 90));
    let requests = sandbox.requests().len();
    let done = sandbox.run(&["-c", "c", "--compact", "--json"]).assert_exit(0).json();
    assert_eq!(sandbox.requests().len(), requests + 1, "{done}");
    let request = sandbox.requests().pop().unwrap();
    assert!(asks_for_checkpoint(&request) && request.user().contains("word0"), "{request:?}");
    assert!(!request.user().contains("initial_context"));
    assert_eq!((&done["input_tokens"], &done["output_tokens"]), (&json!(500), &json!(90)));
    let after = read(&sandbox);
    assert!(after.contains("make it work (one)") && after.contains("prompt 0"), "{after}");
    assert!(!after.contains("word0") && after.contains("word7"), "{after}");
    // The first context is the same, so that caches hit.
    let context = before.split("</initial_context").next().unwrap();
    assert!(after.starts_with(context));
    // The next run goes on there, and counts on.
    sandbox.llm.push(answer("on"));
    sandbox.run(&["-c", "c", "more"]).assert_exit(0);
    assert!(read(&sandbox).contains("turn=\"17\""), "{}", read(&sandbox));
    assert!(sandbox.requests().last().unwrap().user().contains("make it work (one)"));

    // An edited checkpoint stays, word for word; another one is written beside it.
    let edited = read(&sandbox).replace("use tabs", "use SPACES, I said");
    std::fs::write(sandbox.root().join("conversations/c"), edited).unwrap();
    fill(&sandbox, 5, 3_000);
    sandbox.llm.push(checkpoint("(two)"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let after = read(&sandbox);
    assert!(after.contains("use SPACES, I said") && after.contains("(two)"), "{after}");
    assert!(!sandbox.requests().last().unwrap().user().contains("use SPACES"));
    // One that is as it was written becomes a part of the next; one that was emptied is gone.
    let emptied = after.replace("use SPACES, I said", "");
    let start = emptied.find("Turns 1 to").unwrap();
    let end = emptied[start..].find("</system").unwrap() + start;
    std::fs::write(
        sandbox.root().join("conversations/c"),
        format!("{}\n{}", &emptied[..start], &emptied[end..]),
    )
    .unwrap();
    fill(&sandbox, 5, 3_000);
    sandbox.llm.push(checkpoint("(three)"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let after = read(&sandbox);
    assert!(sandbox.requests().last().unwrap().user().contains("make it work (two)"));
    assert!(
        after.contains("(three)") && !after.contains("(two)") && !after.contains("(one)"),
        "{after}"
    );
}

#[test]
fn a_failure_leaves_the_conversation_as_it_was() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    let before = read(&sandbox);
    let files = || std::fs::read_dir(sandbox.root().join("conversations")).unwrap().count();
    let count = files();
    // It is asked once more, for what is missing.
    sandbox.llm.push("I cannot help with that.");
    sandbox.llm.push("I cannot help with that.");
    let run = sandbox.run(&["-c", "c", "--compact"]).assert_exit(3);
    run.stderr_has(&["was not compacted (unchanged)", "I cannot help"]);
    let again = sandbox.requests().pop().unwrap();
    assert!(again.last().contains("it lacks Intent, Constraints"), "{again:?}");
    sandbox.llm.push(Answer::raw(
        400,
        "application/json",
        "{\"error\":{\"message\":\"no such thing\"}}",
    ));
    let run = sandbox.run(&["-c", "c", "--compact"]).assert_exit(3);
    run.stderr_has(&["(unchanged)", "no such thing"]);
    assert_eq!((read(&sandbox), files()), (before, count));
    // A window that the first context alone fills.
    let sandbox = sandbox.config_also(json!({"context_window_tokens": 3_000}));
    let run = sandbox.run(&["-c", "c", "--compact"]).assert_exit(1);
    run.stderr_has(&["its first context has about", "the window has 3000"]);
    let run = sandbox.run(&["-c", "empty", "--compact"]).assert_exit(0);
    assert!(run.stdout.contains("nothing to compact"), "{run:?}");
}

/// The case of the issue: 2,000 turns in a window of 16,000 tokens.
#[test]
fn a_hundred_turns_keep_their_thread() {
    let sandbox = window(16_000);
    let (mut turn, mut checkpoints) = (0, 0);
    sandbox.llm.choose(move |request| {
        if asks_for_checkpoint(request) {
            checkpoints += 1;
            return counted(request, checkpoint(&format!("(checkpoint {checkpoints})")));
        }
        turn += 1;
        let text = match turn {
            100.. => answer("all done"),
            _ => format!("<nagent-list path=\"d{turn}\"/>\n{}", answer(&"a note ".repeat(120))),
        };
        counted(request, text)
    });
    let run = sandbox.run(&["-c", "c", "FIRST INSTRUCTION: list the folders"]).assert_exit(0);
    assert_eq!(run.stdout, "all done\n");
    run.stderr_has(&["turns 1 to ", " became a checkpoint"]);
    let text = read(&sandbox);
    assert!(text.contains("FIRST INSTRUCTION") && text.contains("use tabs"), "{text}");
    assert!(text.contains("path=\"d99\"") && text.contains("turn=\"100\""), "{text}");
    // No request was over the window.
    let requests = sandbox.requests();
    let largest = requests.iter().map(|request| request.body.len() * 27 / 100).max().unwrap();
    assert!(largest < 16_000, "{largest}");
    // Every turn is in the conversation, or in the archives that lead from one to the next.
    let (mut all, mut next) = (text.clone(), Some(text));
    let mut archives = 0;
    while let Some(text) = next.filter(|text| text.contains("compacted=\"")) {
        let (_, path) = archive(&sandbox, &text);
        let older = std::fs::read_to_string(path).unwrap();
        assert!(older.contains("compacted_into=\"c\""));
        all.push_str(&older);
        archives += 1;
        next = Some(older);
    }
    assert!(archives > 1, "{archives}");
    for form in [r#"<nagent-list path="d(\d+)"/>"#, r#" turn="(\d+)""#] {
        let form = regex::Regex::new(form).unwrap();
        let found: BTreeSet<usize> =
            form.captures_iter(&all).map(|turn| turn[1].parse().unwrap()).collect();
        assert_eq!((1..100).find(|turn| !found.contains(turn)), None, "the first lost turn");
    }
}

#[test]
fn what_the_provider_refuses_as_too_long_is_compacted_and_sent_again() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    fill(&sandbox, 8, 8_000);
    let body = json!({"error": {"message": "too many tokens", "code": "context_length_exceeded"}});
    sandbox.llm.push(Answer::raw(400, "application/json", body.to_string()));
    sandbox.llm.push(answer("here it is"));
    let run = sandbox.run(&["-c", "c", "and now?"]).assert_exit(0);
    assert_eq!(run.stdout, "here it is\n");
    run.stderr_has(&["compacted: "]);
}

/// A conversation of turns that are all alike.
fn alike(turns: usize, prompt: &str) -> String {
    let mut text = format!(
        "<initial_context fence=\"f\">\n# Role\n{}\n</initial_context f>\n",
        "r".repeat(4000)
    );
    for turn in 1..=turns {
        text.push_str(&format!(
            "\n{prompt}\n<agent-response>\n<nagent-shell>make test</nagent-shell>\n</agent-response>\n\n\
             <nagent-turn-status at=\"2026-11-20T09:30:00Z\" turn=\"{turn}\" tokens_in=\"0\" tokens_out=\"2\" />\n\n\
             <nagent-shell-result status=\"ok\" exit_code=\"0\">\n{}\n</nagent-shell-result>\n",
            "a line of output\n".repeat(60)
        ));
    }
    text
}

fn put(sandbox: &Sandbox, text: &str) {
    let folder = sandbox.root().join("conversations");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("c"), text).unwrap();
}

#[test]
fn what_the_user_wrote_into_a_checkpoint_stays_whole() {
    let sandbox = window(32_000);
    put(&sandbox, &alike(60, "<user-prompt at=\"2026-11-20T09:30:00Z\">\nagain\n</user-prompt>\n"));
    sandbox.llm.push(checkpoint("(one)"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let lines: String = (0..150).map(|n| format!("KEEP {n}: words of the user's\n")).collect();
    put(&sandbox, &read(&sandbox).replace("none\n\nDecisions", &format!("{lines}\nDecisions")));
    for round in 2..5 {
        let more = alike(50, "<user-prompt at=\"2026-11-20T09:31:00Z\">\nagain\n</user-prompt>\n");
        let more = more.split_once("</initial_context f>\n").unwrap().1.to_owned();
        put(&sandbox, &(read(&sandbox) + &more));
        sandbox.llm.push(checkpoint(&format!("({round})")));
        sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
        assert!(read(&sandbox).contains(&lines), "round {round}");
    }
    // Also with its attributes damaged.
    let damaged = read(&sandbox).replacen(" turns=\"", " turn=\"", 1);
    put(&sandbox, &damaged);
    sandbox.llm.push(checkpoint("(last)"));
    let _ = sandbox.run(&["-c", "c", "--compact"]);
    assert!(read(&sandbox).contains(&lines));
}

#[test]
fn prompts_without_a_place_are_counted_and_the_price_is_kept() {
    let sandbox = window(16_000)
        .config_also(json!({"prices": {"test-model": {"input": 1000.0, "output": 0.0}}}));
    let mut text = alike(1, "<user-prompt>\nFIRST\n</user-prompt>\n");
    for n in 0..400 {
        text.push_str(&format!("\n<user-prompt at=\"2026-11-20T09:30:00Z\" cwd=\"/a/folder\">\nprompt {n}\n</user-prompt>\n"));
    }
    let rest = alike(14, "");
    text.push_str(rest.split_once("</initial_context f>\n").unwrap().1);
    put(&sandbox, &text);
    sandbox.llm.push(Reply::new(checkpoint("(one)")).usage(2_000, 0, 90));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let after = read(&sandbox);
    let kept = after.matches("<user-prompt").count();
    assert!(after.contains("FIRST") && after.contains("prompt 399") && kept < 401, "{after}");
    assert!(
        after
            .contains(&format!("The archive also has {} user prompts after the first", 401 - kept)),
        "{after}"
    );
    let usage = sandbox.program(CONVERSATIONS, &["--json", "usage", "--by", "conversation"]).run();
    let total = usage.assert_exit(0).json()["total"].clone();
    assert_eq!((&total["cost"], &total["turns"]), (&json!(2.0), &json!(14)), "{total}");
}

#[test]
fn a_first_turn_that_fills_the_window_goes_on() {
    let sandbox = window(16_000).file("big.txt", "a line of a large file\n".repeat(2_700));
    sandbox.llm.choose(|request| {
        let text = match request.last() {
            last if last.contains("nagent-read-result") => answer("read"),
            _ => (0..4).fold(String::new(), |text, part| {
                format!(
                    "{text}<nagent-read path=\"big.txt\" offset=\"{}\" limit=\"650\"/>\n",
                    part * 650 + 1
                )
            }),
        };
        counted(request, text)
    });
    let run = sandbox.run(&["-c", "c", "read it"]).assert_exit(0);
    assert_eq!(run.stdout, "read\n");
    run.stderr_has(&["4 long results moved to files"]);
    assert!(sandbox.requests().iter().all(|request| request.body.len() * 27 / 100 < 16_000));
}

#[test]
fn the_window_that_only_the_server_lists_counts() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    sandbox.llm.beside(|request| {
        let list = json!({"data": [{"id": "test-model", "max_model_len": 9_000}]});
        (!request.asks()).then(|| Answer::raw(200, "application/json", list.to_string()))
    });
    put(&sandbox, &alike(24, "<user-prompt>\nagain\n</user-prompt>\n"));
    sandbox.llm.push(checkpoint("x"));
    let run = sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    assert!(run.stdout.contains("became a checkpoint"), "{run:?}");
}

#[test]
fn a_server_that_lists_nothing_keeps_no_run_waiting() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    let never = Latch::default();
    let latch = never.clone();
    sandbox.llm.beside(move |request| {
        let silent = || Answer::held(&latch, Answer::raw(404, "text/plain", ""));
        (!request.asks()).then(silent)
    });
    put(&sandbox, &alike(24, "<user-prompt>\nagain\n</user-prompt>\n"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-c", "c", "go on"]).assert_exit(0).within(6.0);
    never.release();
}
